"""A user's own learner or network that raises stops only its task, with the place of the error."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.errors import ErrorCode
from stream_app.task_state import TaskState
from tests.support.world import World, all_at, make_config, started, take_turns

# isort: split
import torch

HERE = f"{__name__}:"

TOO_MUCH = 2.0
"""The third record of a stream has this value."""


class Fussy:
    """A learner that raises at some examples."""

    def __init__(self, *_: object) -> None: ...

    def predict(self, example: NDArray[np.float32]) -> float:
        """Return one half."""
        if example[0] == TOO_MUCH:
            raise LookupError("too much")
        return 0.5

    def learn(self, example: NDArray[np.float32], label: int) -> None:
        """Do nothing."""

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return a state of one number."""
        return {"zero": np.zeros(1)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Do nothing."""


class FussyNetwork(torch.nn.Module):
    """The same learner as a network."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(features, 1)

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return a logit for each example."""
        if bool((examples == TOO_MUCH).any()):
            raise LookupError("too much")
        logits: torch.Tensor = self.layer(examples)
        return logits


@pytest.mark.slow(2)
@pytest.mark.parametrize("learner", [{"method": f"{HERE}Fussy"}, {"method": "areba", "network": f"{HERE}FussyNetwork"}])
def test_a_failing_learner_parks_its_task_alone(learner: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """An error in one stream's learner must not stop the streams of other tasks."""
    world = World(make_config(learners={"areba": {"method": "areba"}, "mine": learner}))
    world.send(2)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 2))
    good, bad = member.tasks
    world.send(1, first=2, partitions=[1])
    take_turns(member, until=lambda: bad.state is TaskState.PARKED)
    assert bad.code is ErrorCode.OWN_CODE_FAILED
    assert re.search(rf"failed: {re.escape(__file__)}:\d+: LookupError: too much", bad.problem or "")
    assert (bad.problem or "?") in caplog.text
    world.send(2, first=3, partitions=[0])
    take_turns(member, until=lambda: good.offsets == (4, 4))
    assert good.state is TaskState.LIVE
