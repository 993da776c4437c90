"""The claims of the paper's text: which hold, which fail, and which the repetitions cannot decide."""

from study.report.claims.check import ABOUT, ALIKE, NEGLIGIBLE, Claim
from study.report.claims.intervals import CONFIDENCE, Verdict
from study.report.claims.steps import EARLY_LATE
from study.report.page import Context
from study.report.tables import markdown

ORDER = (Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED)


def counts(context: Context) -> dict[Verdict, int]:
    """Return the number of claims by verdict, without those that were not run."""
    return {verdict: sum(claim.verdict == verdict for claim in context.claims) for verdict in ORDER}


def claims(context: Context) -> list[str]:
    """Write a row for each claim."""
    asked = _asked(context)
    if not asked:
        return []
    found = counts(context)
    rows = [
        [
            claim.text,
            f"`{claim.source}`",
            *(str(claim.count(verdict) or "") for verdict in ORDER),
            claim.verdict.value if claim.verdict == Verdict.HOLDS else f"**{claim.verdict}**",
        ]
        for claim in asked
    ]
    return [
        "## Claims",
        "",
        (
            f"Of {len(asked)} claims {found[Verdict.HOLDS]} hold, {found[Verdict.FAILS]} fail, and"
            f" {found[Verdict.UNDECIDED]} are undecided. A claim holds if all of its cases hold, fails if one fails,"
            " and is undecided otherwise."
        ),
        "",
        *markdown(("the paper says", "figure or table", "cases: hold", "fail", "undecided", "verdict"), rows, left=2),
    ]


def rules(context: Context) -> list[str]:
    """Write the margins and the rule of the verdicts."""
    if not _asked(context):
        return []
    rows = [
        ["above", "the difference of two means on the same repetitions", f"above 0; fails below {NEGLIGIBLE:g}"],
        ["above ... value", "the same; points of G-mean, as in the paper's table", "above the value"],
        ["above itself in ...", "the difference of a learner's means in two experiments (Welch)", "above 0"],
        ["above itself before the drift", "the figure at the end less that before the drift", "above 0"],
        ["no lower than before the drift", "the same", f"above -{ALIKE:g}"],
        ["alike", "the difference of two means on the same repetitions", f"-{ALIKE:g} to {ALIKE:g}"],
        ["about", "a mean", f"the value ± {ABOUT:g}, because the paper's is read off a figure"],
        ["above ... times", "a mean less the multiple of another", "above 0"],
        [
            "reaches ... at about step",
            "the step, over resampled repetitions",
            f"the step / {EARLY_LATE:g} to x {EARLY_LATE:g}",
        ],
    ]
    return [
        "## Rules",
        "",
        (
            f"A case *holds* if the {CONFIDENCE:.0%} interval of its figure lies in the allowed range; for a range with"
            " two ends these are two one-sided tests (equivalence) at 2.5 % each. It *fails* if the interval lies"
            " outside of the range; since one case refutes a claim, the interval of a claim of k cases has a confidence"
            " of 1 - 0.05 / k for this. It is *undecided* otherwise. *Best* means: above each of the other methods that"
            " the paper compares. The margins are constants of `check.py` and `steps.py` in"
            " `study/report/claims`."
        ),
        "",
        *markdown(("statement", "figure", "allowed range"), rows, left=3),
    ]


def cases(context: Context) -> list[str]:
    """Write every case of the claims that do not hold; `cases.csv` has all."""
    asked = [claim for claim in _asked(context) if claim.verdict != Verdict.HOLDS]
    if not asked:
        return []
    rows = [
        [finding.case.text, finding.case.experiment, finding.found, f"**{finding.verdict}**"]
        for claim in asked
        for finding in claim.findings
        if finding.verdict in {Verdict.FAILS, Verdict.UNDECIDED}
    ]
    return [
        "## Cases that fail or are undecided",
        "",
        "Figure and 95 % interval. `cases.csv` has all cases.",
        "",
        *markdown(("case", "experiment", "found here", "verdict"), rows, left=4),
    ]


def _asked(context: Context) -> list[Claim]:
    return [claim for claim in context.claims if claim.verdict != Verdict.NOT_RUN]
