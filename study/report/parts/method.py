"""The part on how the study is run and scored."""

import importlib.metadata
import platform

from study.report.page import Context
from study.report.tables import markdown
from study.run.experiment import VARIES_TEXT
from study.run.streams import source_of

PACKAGES = ("numpy", "numba", "torch", "scipy", "statsmodels", "pandas", "river", "matplotlib")


def method(context: Context, engine: str, command: str) -> list[str]:
    """Write how the experiments are run and scored, and with which versions."""
    summaries = context.summaries.values()
    hours = sum(summary.seconds for summary in summaries) / 3600
    paper_hours = sum(
        summary.seconds for summary in summaries if summary.run.experiment.group not in {"beyond", "variant"}
    )
    sources = sorted({source_of(summary.run.experiment.stream) for summary in summaries} - {"synthetic"})
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    ways = sorted({summary.run.varies for summary in summaries})
    return [
        "## How it is run and scored",
        "",
        *markdown(
            ("what", "value"),
            [
                ("engine", f"areba {engine}"),
                ("versions", f"Python {platform.python_version()}, {versions}"),
                ("machine", f"{platform.system()} {platform.machine()}"),
                ("commands", f"`python -m study run all`, then `{command}`"),
                ("seeds", "repetition r of an experiment has its file's seed + r (seed 0 in all files)"),
                ("data sets", ", ".join(sources) or "none"),
                ("time", f"{hours:.1f} h of one core in all, {paper_hours / 3600:.1f} h for the paper's experiments"),
            ],
            left=2,
        ),
        (
            "- Each repetition goes through the worker's own stages: encoded records, merge, join, all learners on"
            " the same"
            " stream, labels directly after their examples unless an experiment says otherwise."
        ),
        *(f"- A repetition of kind *{way}* varies {VARIES_TEXT[way]}." for way in ways),
        (
            "- Prequential recall, specificity and G-mean, fading factor 0.99. A class counts as 1.0 before its first"
            " example. At a known drift the sums restart, and a class counts as 0.0 until it comes again (the"
            " authors'"
            " program does the same; the running application never resets). With label noise the learner gets the noisy"
            " label, the scorer the clean one."
        ),
        (
            "- A curve begins when half of the repetitions have had a positive example, and is the mean of those that"
            " have. With late labels, examples are scored from the first label on."
        ),
        (
            "- Brackets hold one standard error. **Bold**: the highest mean, and what the repeated-measures ANOVA with"
            " Fisher's least significant difference (5 %) does not tell from it. A dagger (†): the same by"
            " Friedman's test"
            " with Wilcoxon's signed-rank tests and Holm's correction, which do not assume sphericity."
        ),
        (
            "- In `final.csv` imbalance is in percent, noise is a share, and a name with `.data`, `.both` or"
            " `.weights` at"
            " its end is the same experiment with that in the place of its first way of varying."
        ),
        "",
    ]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
