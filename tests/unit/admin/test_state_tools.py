"""Models of a committed point: rebuilt, saved for Torch, compared; and a prediction of the past made again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.admin.dead_letters.topic import DeadLettersTopic
from stream_app.admin.explain import DeadExampleError, explain
from stream_app.admin.learner_list import documents, table
from stream_app.admin.models import Application, rebuild
from stream_app.admin.saved_models.export_models import export
from stream_app.backends.base import TopicPartition
from stream_app.backends.reading import Row
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.learners.networks.autograd import DenseNetwork
from stream_app.records import Example, Mark, MarkKind, Prediction
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.snapshot.model_file import ModelFile, digest_of
from tests.support.world import World, all_at, make_config, started, take_turns

# isort: split
import torch
from safetensors.torch import load_file


def _ran(count: int = 40, **sections: object) -> World:
    """Run an application over `count` records of each task, in several commits and with snapshots in between."""
    config = make_config(worker={"snapshot_after_ms": 0}, **sections)
    world = World(config.model_copy(update={"predictions": "all"}))
    world.send(count)
    member = started(world.worker())
    take_turns(member, until=all_at(member, count))
    return world


def _application(world: World) -> Application:
    return world.application()


def test_any_committed_point_can_be_rebuilt() -> None:
    """What was committed there is found again: the digest of a worker that stopped at that moment."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    digests = {}
    for life in range(4):
        world.send(10, first=10 * life)
        member = started(world.worker())
        take_turns(member, until=all_at(member, 10 * (life + 1)))
        digests[10 * (life + 1)] = dict(member.tasks[0].live.task.model_digests())
    for end, expected in digests.items():
        assert rebuild(_application(world), 0, (end, end)).task.model_digests() == expected
    newest = rebuild(_application(world), 0, None)
    assert newest.offsets == (40, 40)
    assert newest.task.model_digests() == digests[40]


def test_points_that_were_never_committed_are_named() -> None:
    """For a point without a commit, the error names the commits next to it."""
    world = _ran()
    with pytest.raises(StateError, match=ErrorCode.NOT_FOUND):
        rebuild(_application(world), 0, (1, 0))
    with pytest.raises(StateError, match=ErrorCode.NOT_FOUND):
        rebuild(_application(world), 0, (400, 400))
    other = make_config(application={"id": "other"})
    world.add_topic(other.topics.progress)
    with pytest.raises(StateError, match=ErrorCode.NOT_FOUND):
        rebuild(world.application(other), 1, None)


def test_an_exported_network_predicts_in_plain_torch(tmp_path: Path) -> None:
    """The file can be used without areba: the program of the documentation gives the same scores."""
    world = _ran(learners={"areba": {"method": "areba", "hidden": [5, 3]}})
    path = tmp_path / "model.safetensors"
    line = export(_application(world), "s0", "areba", path, 0, None)
    assert line.startswith(f"{path}: s0/areba at offsets 40/40, digest ")
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 5),
        torch.nn.LeakyReLU(0.01),
        torch.nn.Linear(5, 3),
        torch.nn.LeakyReLU(0.01),
        torch.nn.Linear(3, 1),
    )
    tensors = load_file(path)
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    ours = DenseNetwork(1, (5, 3))
    ours.flat.copy_(tensors["state.parameters"])
    rows = torch.linspace(-3, 3, 20).reshape(-1, 1)
    assert torch.allclose(model(rows).reshape(-1), ours(rows), atol=1e-6)
    assert float(torch.sigmoid(model(rows)).detach().std()) > 0


def test_an_exported_model_has_its_scaler(tmp_path: Path) -> None:
    """Scores without the scaling would belong to another model."""
    world = _ran(learners={"areba": {"method": "areba", "scaler": "standard"}})
    path = tmp_path / "model.safetensors"
    export(_application(world), "s0", "areba", path, 0, None)
    tensors = load_file(path)
    seen = np.array([float(number % 3) for number in range(40)])
    assert tensors["input.mean"].numpy() == pytest.approx(seen.mean())
    assert tensors["input.deviation"].numpy() == pytest.approx(seen.std())


def test_an_exported_file_is_whole_and_says_whose_it_is(tmp_path: Path) -> None:
    """A model at the newest commit is the same by its offsets; a file that was cut is not loaded."""
    application = _application(_ran())
    one, two = (tmp_path / name for name in ("one", "two"))
    export(application, "s0", "areba", one, 0, None)
    export(application, "s0", "areba", two, 0, (40, 40))
    files = [ModelFile.read(str(path)) for path in (one, two)]
    assert digest_of(files[0].state) == digest_of(files[1].state)
    assert files[0].source["stream"] == "s0"
    two.write_bytes(one.read_bytes()[:-7])
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        ModelFile.read(str(two))


def test_names_that_are_not_there(tmp_path: Path) -> None:
    """The error lists the names that exist."""
    world = _ran(10)
    with pytest.raises(ConfigurationError, match=r"task 0 has no stream 's1'; it has s0"):
        export(_application(world), "s1", "areba", tmp_path / "x", 0, None)
    with pytest.raises(ConfigurationError, match=r"no learner 'qbr'; it has areba, baseline"):
        export(_application(world), "s0", "qbr", tmp_path / "x", 0, None)
    rebuilt = rebuild(_application(world), 0, None)
    assert table(world.config, 0, rebuilt).row_count == 2
    found = [(one["stream"], one["learner"], one["champion"]) for one in documents(world.config, 0, rebuilt)]
    assert found == [("s0", "areba", True), ("s0", "baseline", False)]


@pytest.mark.parametrize("number", [0, 17, 39])
def test_a_prediction_of_the_past_is_made_again(number: int) -> None:
    """The state of that moment gives the published score again; the answer has features and outcome, too."""
    world = _ran()
    found = explain(_application(world), "s0", str(number), 0)
    assert found.is_same
    assert [one.learner for one in found.again] == ["areba", "baseline"]
    assert found.example == Example("s0", str(number), (float(number % 3),))
    assert [outcome.outcome for outcome in found.outcomes] == ["joined"]
    assert any("the same bits as published" in line for line in found.lines())


def test_a_prediction_that_is_not_what_was_published_is_reported() -> None:
    """A forged prediction is no explanation."""
    world = _ran()
    first = codec.decode_one(world.rows("predictions", 0)[0][1])
    assert isinstance(first, Prediction)
    entries = world.broker._log(TopicPartition(world.config.topics.predictions, 0)).entries
    forged = replace(first, score=0.25)
    entries[0] = entries[0]._replace(value=codec.encode(forged))
    found = explain(_application(world), "s0", "0", 0)
    assert not found.is_same
    assert list(found.lines())[-1].startswith("NOT what was published: ")


def test_explain_answers_for_unknown_and_pending_examples() -> None:
    """The command answers for an example that was never sent, and for a pending one."""
    world = _ran()
    with pytest.raises(StateError, match=r"has no example.*\[not-found"):
        explain(_application(world), "s0", "nobody", 0)
    with pytest.raises(ConfigurationError, match="there is no stream 'nostream'"):
        explain(_application(world), "nostream", "0", 0)
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "late", [1.0])), 1_000)
    with pytest.raises(StateError, match=r"was not processed yet.*\[not-found"):
        explain(_application(world), "s0", "late", 0)


def test_an_example_that_became_a_dead_letter_is_skipped() -> None:
    """The occurrence that was predicted is explained; without one, the dead letter is named."""
    world = _ran()
    world.put("examples", 0, b"s0", codec.encode_unchecked(Example("s0", "again", [float("nan")])), 1_000)
    member = started(world.worker())
    take_turns(member, until=lambda: len(world.rows("dead_letters", 0)) > 0)
    with pytest.raises(DeadExampleError, match="not-finite"):
        explain(_application(world), "s0", "again", 0)
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "again", [1.0])), 1_001)
    take_turns(member, until=lambda: any(b"again" in (row[1] or b"") for row in world.rows("predictions", 0)))
    found = explain(_application(world), "s0", "again", 0)
    assert found.is_same
    assert (found.example.features, len(found.again)) == ((1.0,), 2)


@pytest.mark.parametrize(("claimed_ms", "begins"), [(-1, []), (0, []), (None, [2])])
def test_dead_letters_are_read_from_the_time_of_the_example(
    claimed_ms: int | None, begins: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that the example can have become; an example without a time may have become any of them."""
    world = _ran()
    for number, id_ in enumerate(("before", "again", "after"), 1):
        world.clock.advance(7_200)
        member = started(world.worker())
        now_ms = world.clock.now_ms()
        at_ms = now_ms if claimed_ms is None or id_ != "again" else claimed_ms
        world.put("examples", 0, b"s0", codec.encode_unchecked(Example("s0", id_, [float("nan")])), at_ms)
        take_turns(member, until=lambda wanted=number: len(world.rows("dead_letters", 0)) == wanted)  # type: ignore[misc]
    began: list[int] = []
    rows = DeadLettersTopic.rows

    def noted(topic: DeadLettersTopic, partition: int, first: int = 0) -> Iterator[Row]:
        began.extend([first] if first else [])
        return rows(topic, partition, first)

    monkeypatch.setattr(DeadLettersTopic, "rows", noted)
    with pytest.raises(DeadExampleError, match="dead letter 0:2 "):
        explain(_application(world), "s0", "again", 0)
    assert began == begins


def _without_inputs(*, outputs: bool = False) -> World:
    """Return an application without snapshots, whose processed inputs, or whose predictions, were deleted."""
    world = World()
    world.send(20)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 20))
    topics = world.config.topics
    for topic in [topics.predictions] if outputs else [topics.examples, topics.labels]:
        partition = TopicPartition(topic, 0)
        world.broker.delete_before(partition, world.broker.watermarks(partition).high)
    return world


def test_deleted_inputs_are_named_at_once(tmp_path: Path) -> None:
    """`state export` waited for 30 s and said `no-records`; `explain` said that there is no such example."""
    world = _without_inputs()
    began_s = world.clock.monotonic_s()
    for tool in (
        lambda: rebuild(_application(world), 0, None),
        lambda: export(_application(world), "s0", "areba", tmp_path / "m", 0, None),
        lambda: explain(_application(world), "s0", "5", 0),
    ):
        with pytest.raises(StateError) as caught:
            tool()
        assert caught.value.code is ErrorCode.INPUTS_DELETED
        assert "examples[0]: offsets 0 to 19 were deleted" in str(caught.value)
    assert world.clock.monotonic_s() < began_s + 1
    assert not (tmp_path / "m").exists()


def test_a_snapshot_needs_no_deleted_inputs() -> None:
    """What lies before the newest snapshot may expire: the model is there, and is exported."""
    world = _ran()
    for topic in (world.config.topics.examples, world.config.topics.labels):
        world.broker.delete_before(TopicPartition(topic, 0), 10)
    assert rebuild(_application(world), 0, None).offsets == (40, 40)


def test_deleted_predictions_are_no_difference() -> None:
    """Predictions are kept for a week, inputs for longer: "NOT what was published" would accuse the application."""
    world = _without_inputs(outputs=True)
    found = explain(_application(world), "s0", "5", 0)
    assert (found.is_same, bool(found.deleted), len(found.again)) == (False, True, 1)
    assert [*found.lines()][-1].endswith(f"[{ErrorCode.INPUTS_DELETED}]")


def test_an_erased_example_is_named_as_erased() -> None:
    """Whoever asks after an erasure learns that the application keeps nothing, also once the example is gone."""
    world = _ran()
    assert explain(_application(world), "s0", "17", 0).erased is None
    offset = len(world.rows("examples", 0))
    mark = Mark("s0", MarkKind.ERASE, digests=id_digest("s0", "16") + id_digest("s0", "17"))
    world.put("examples", 0, b"s0", codec.encode(mark), 1_000)
    found = explain(_application(world), "s0", "17", 0)
    assert (found.erased, found.is_same) == (offset, True)
    assert explain(_application(world), "s0", "18", 0).erased is None
    world.broker.delete_before(TopicPartition(world.config.topics.examples, 0), offset)
    with pytest.raises(StateError, match=f"offset {offset} .* has erased it"):
        explain(_application(world), "s0", "17", 0)
