"""Why a task cannot be restored, and what an operator can do."""

from stream_app.backends.base import TopicPartition
from stream_app.errors import ErrorCode, StateError
from stream_app.snapshot.identity import created_again

HINT_SKIP = "`areba state skip` continues without the deleted records; another application.id starts from the beginning"
"""What an operator can do when inputs that a restore needs were deleted."""

HINT_STOP = (
    "Stop the workers with SIGTERM: each saves the tasks that it has in memory, and nothing is lost. If a task is "
    "parked after that, `areba inspect` says how it can continue"
)
"""What an operator can do while workers run, whose live tasks need no inputs."""


def check_topic_ids(
    inputs: tuple[TopicPartition, TopicPartition], recorded: tuple[str, str], found: tuple[str, str]
) -> None:
    """Refuse inputs that were deleted and created again.

    Raises:
        StateError: An input topic has another id than the recorded one; no offset or model belongs to the new topic.
    """
    problem = created_again((inputs[0].topic, inputs[1].topic), recorded, found)
    if problem is not None:
        raise StateError(f"task {inputs[0].partition}: {problem}", ErrorCode.INPUTS_REPLACED)


def progress_lost(number: int, found: str) -> StateError:
    """Return the error of a task whose progress lacks records that were there."""
    return StateError(
        f"progress[{number}]: records that were there are gone, as after the topic was deleted ({found}). Another "
        "application.id starts from the beginning; `areba state import` gives it the models that you saved",
        ErrorCode.PROGRESS_LOST,
    )
