"""A learner has one colour, and no two of the usual learners share one."""

from stream_app.learners.registry import METHODS
from stream_app.monitor.colours import METHOD_COLOURS, LearnerColours


def test_every_method_has_its_colour() -> None:
    """A method without a colour would look different on the page and in the study."""
    assert METHOD_COLOURS.keys() == METHODS.keys()
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS)


def test_learners_keep_their_colour() -> None:
    """Two learners with the same method must differ, and a colour must not depend on who looks first."""
    colours = LearnerColours({"first": "areba", "second": "areba", "plain": "baseline"})
    assert colours.of("first") == METHOD_COLOURS["areba"]
    assert colours.of("plain") == METHOD_COLOURS["baseline"]
    assert len({colours.of(name) for name in ("first", "second", "plain", "unknown")}) == 4
    assert colours.of("unknown") == colours.of("unknown")
