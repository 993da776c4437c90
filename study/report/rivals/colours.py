"""Colours of River's and MOA's models, different from those of the paper's methods and the same in every figure."""

from collections.abc import Mapping

RIVER_COLOURS: Mapping[str, str] = {
    "river_lr": "#000000",
    "river_hat": "#8c510a",
    "river_adwin": "#e7298a",
    "river_lb": "#808000",
    "river_arf": "#aa00ff",
    "river_srp": "#3f1f5f",
}
"""By family: a model alone, in a sampler, or tuned has the colour of its family."""

MOA_COLOURS: Mapping[str, str] = {"csarf": "#7f0000", "rose": "#f4a6c0", "kue": "#a8d800"}


def family_of(learner: str) -> str:
    """Return the family of a River model, `river_arf` of `river_arf_over_fast`; another name unchanged."""
    return "_".join(learner.split("_")[:2]) if learner.startswith("river_") else learner


def rivals_colour(learner: str) -> str | None:
    """Return the colour of a model of River or MOA; None for another learner."""
    return RIVER_COLOURS.get(family_of(learner)) or MOA_COLOURS.get(learner)
