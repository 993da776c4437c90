"""Laws of files as streams: the order of rows in the file, and where sorting is cut, make no difference."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_app.producers.events import Sent, events
from stream_app.producers.plan import StreamPlan
from tests.support.replaying import decoded, plan_of
from tests.support.row_files import Heard

OPTIONS: dict[str, Any] = {"id": "id", "time": "at", "label": "y", "label_time": "known", "features": ("x",)}


def _sent(path: Path, rows: list[tuple[int, int, int]], run_rows: int) -> list[Sent]:
    lines = [f"t{number},{at},{number},{number % 3 % 2},{at + delay}" for number, at, delay in rows]
    path.write_text("id,at,x,y,known\n" + "\n".join(lines) + "\n")
    data = Heard().read(path, run_rows=run_rows, **OPTIONS)
    return list(events(plan_of(StreamPlan("rows", data))))


@given(
    st.lists(st.integers(0, 2_000_000_000), min_size=1, max_size=60, unique=True),
    st.randoms(use_true_random=False),
    st.integers(1, 20),
    st.integers(-5_000, 100_000),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shuffled_file_gives_the_events_of_the_sorted_file(
    tmp_path: Path, times: list[int], random: object, run_rows: int, delay: int
) -> None:
    """Databases export rows in any order; the stream is in the order of time."""
    rows = [(number, at, delay * (number % 4)) for number, at in enumerate(sorted(times))]
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    expected = _sent(tmp_path / "sorted.csv", rows, 1_000)
    assert _sent(tmp_path / "shuffled.csv", shuffled, run_rows) == expected
    stamps = [record.timestamp_ms for record in expected]
    assert stamps == sorted(stamps)
    examples = [record for record in expected if record.topic == "examples"][:-1]
    first = min(times)
    assert [record.timestamp_ms - examples[0].timestamp_ms for record in examples] == [
        1_000 * (at - first) for _, at, _ in rows
    ]
    assert [decoded(record).id for record in examples] == [f"t{number}" for number, _, _ in rows]  # type: ignore[union-attr]
