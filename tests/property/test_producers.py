"""Laws of every stream, delay and mixture of faults."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.producers.faults import Faults
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.schedule import DATA, MARK, extent_of, schedule, sorted_schedule
from stream_app.producers.synthetic import Drift, SyntheticSpec, generate, synthetic
from stream_app.records import Side

SHARES = st.sampled_from([0.0, 0.05, 0.5])
SPECS = st.builds(
    SyntheticSpec,
    concept=st.sampled_from(["sine", "circle", "sea"]),
    length=st.integers(2, 200),
    imbalance=st.sampled_from([10.0, 1.0, 0.1, 50.0]),
    drift=st.sampled_from(list(Drift)),
    noise=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 2**64),
)
DELAYS = st.sampled_from(
    ["none", "fixed:3ev", "uniform:0s-5s", "exponential:2s", "positive=lognormal:3s,2,negative=none"]
)


@given(SPECS, st.lists(st.integers(1, 60), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_stream_is_the_same_in_any_pieces(spec: SyntheticSpec, sizes: list[int]) -> None:
    """Runs of different lengths, or in pieces, would otherwise see different streams."""
    total = sum(sizes)
    whole = generate(spec, 0, total)
    start = 0
    for size in sizes:
        piece = generate(spec, start, size)
        assert (piece.features == whole.features[start : start + size]).all()
        assert (piece.labels == whole.labels[start : start + size]).all()
        assert (piece.clean_labels == whole.clean_labels[start : start + size]).all()
        start += size


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw one to three streams with delays and faults."""
    streams = [
        StreamPlan(
            stream=f"s{number}",
            data=synthetic(draw(SPECS)),
            delay=parse_label_delay(draw(DELAYS)),
            unlabelled_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
            faults=Faults(draw(SHARES), draw(SHARES), draw(SHARES), draw(SHARES), draw(SHARES)),
            loops=draw(st.integers(1, 2)),
            interval_ms=draw(st.sampled_from([1, 7, 1_000])),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    return Plan(tuple(streams), seed=draw(st.integers(0, 1_000)))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_a_schedule_is_complete_and_in_order(plan: Plan) -> None:
    """With any faults no label comes early, a repeat comes after its first, and the closing marks come last."""
    planned = schedule(plan)
    assert (np.diff(planned.dues) >= 0).all()
    assert (planned.times <= planned.dues).all()
    assert planned.span_ms == planned.times.max()
    for index, stream in enumerate(plan.streams):
        mine = np.flatnonzero(planned.streams == index)
        contents, sides = planned.contents[mine], planned.sides[mine]
        assert contents[-2:].tolist() == [MARK, MARK]
        assert sides[-2:].tolist() == [Side.EXAMPLES, Side.LABELS]
        assert planned.times[mine[-2:]].tolist() == [planned.ends_ms[index]] * 2
        assert planned.ends_ms[index] == planned.times[mine].max()
        for side in Side:
            rows = mine[(contents == DATA) & (sides == side)]
            assert (planned.times[rows] >= planned.numbers[rows] * stream.interval).all()
            first = rows[~planned.repeats[rows]]
            assert len(np.unique(planned.numbers[first])) == len(first)
            place = dict(zip(planned.numbers[first].tolist(), first.tolist(), strict=True))
            assert all(place[planned.numbers[row]] < row for row in rows[planned.repeats[rows]])
        sent = planned.numbers[mine[(contents == DATA) & (sides == Side.EXAMPLES) & ~planned.repeats[mine]]]
        assert sorted([*sent.tolist(), *planned.extent.dropped[index].tolist()]) == list(range(stream.events))


@given(plans())
@settings(max_examples=20, deadline=None)
def test_without_faults_event_time_never_goes_back(plan: Plan) -> None:
    """A fault that was not requested would spoil an experiment."""
    calm = Plan(
        tuple(StreamPlan(s.stream, s.data, s.delay, interval_ms=s.interval_ms) for s in plan.streams), plan.seed
    )
    planned = schedule(calm)
    assert (np.diff(planned.times) >= 0).all()
    assert len(planned) == sum(2 * stream.events + 2 for stream in calm.streams)


@given(plans(), st.integers(1, 90), st.integers(1, 90))
@settings(max_examples=40, deadline=None)
def test_a_schedule_is_the_same_in_any_pieces_and_runs(plan: Plan, piece: int, run_rows: int) -> None:
    """A long replay is planned in pieces and sorted on disk; it must send what a replay in memory would send."""
    whole = schedule(plan)
    with sorted_schedule(plan, piece, run_rows) as planned:
        chunks = list(planned.chunks(7))
    assert planned.extent.records == len(whole)
    assert planned.extent.ends_ms == whole.ends_ms == extent_of(plan).ends_ms
    for name in ("times", "dues", "streams", "sides", "contents", "numbers", "labels", "repeats"):
        assert (np.concatenate([getattr(chunk, name) for chunk in chunks]) == getattr(whole, name)).all(), name
