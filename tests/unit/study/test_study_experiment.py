"""Experiment files: a line for each error, and the project's own files are complete."""

from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import ConfigurationError
from study.paper import statements, table_figures
from study.run.experiment import SEPARATE_GROUPS, Experiment, Run, choose, load_all, parse, read, runs_of

GOOD: dict[str, Any] = {
    "name": "small",
    "title": "A small one",
    "group": "drift",
    "stream": {"source": "sine", "length": 400, "imbalance": 10, "drift": "posterior", "drift_step": 200},
    "methods": {"areba_2": {"method": "areba", "budget": 2}, "baseline": None},
}


def _complaints(**changed: Any) -> tuple[str, ...]:  # noqa: ANN401  (plain data)
    with pytest.raises(ConfigurationError) as caught:
        parse({**GOOD, **changed}, "small.yaml")
    return caught.value.lines


def test_a_method_without_settings_is_the_one_of_its_name() -> None:
    """`baseline:` alone is a baseline; common settings reach all methods, and a method's own settings override them."""
    own = {"areba_2": {"method": "areba", "budget": 2, "learning_rate": 0.5}, "baseline": None}
    experiment = parse({**GOOD, "settings": {"learning_rate": 0.1}, "methods": own}, "small.yaml")
    assert experiment.methods["baseline"].method == "baseline"
    assert experiment.methods["baseline"].learning_rate == 0.1
    assert experiment.methods["areba_2"].learning_rate == 0.5


def test_each_error_is_one_line_with_the_file_and_the_key() -> None:
    """The author of a file sees all errors together, without a traceback."""
    stream = {"source": "sinus", "length": 0}
    assert _complaints(stream=stream, repetitions="many", colour="blue") == (
        (
            "small.yaml: stream.source: there is no stream 'sinus'; known: sine, circle, sea, cervical, credit, mnist,"
            " forest, fraud"
        ),
        "small.yaml: stream.length: Input should be greater than or equal to 1",
        "small.yaml: repetitions: Input should be a valid integer, unable to parse string as an integer",
        "small.yaml: colour: unknown setting",
    )


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ({"source": "fraud", "noise": 0.1}, "noise is only for synthetic streams; fraud is a data set"),
        ({"source": "credit", "scaling": "onehot-46"}, "scaling: onehot-46 is only for cervical"),
        ({"source": "forest", "scaling": "raw"}, "scaling: raw is only for cervical and credit"),
        ({"source": "sine", "drift_step": 5}, "drift_step and drift_every need a drift"),
        ({"source": "sine", "drift": "prior", "drift_every": 5}, "drift_every needs a posterior drift"),
        ({"source": "sine", "label_delay": "soon"}, "label delay soon: soon is not one of"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(stream: dict[str, Any], message: str) -> None:
    """A setting that is ignored would give a figure that does not match its title."""
    (line,) = _complaints(stream=stream)
    assert message in line


def test_a_file_that_is_no_yaml_names_the_line(tmp_path: Path) -> None:
    """The most common mistake, a colon in a title, is found immediately."""
    path = tmp_path / "odd.yaml"
    path.write_text("group: drift\ntitle: Sine: the first\n")
    with pytest.raises(ConfigurationError, match=r"^odd\.yaml:2: "):
        read(path)


def test_known_drifts_are_where_the_sums_start_anew() -> None:
    """A drift may be in the middle, at a step, or recurring."""
    choice = parse(GOOD, "").stream
    assert choice.resets(400) == (200,)
    assert choice.model_copy(update={"drift_step": None}).resets(301) == (150,)
    assert choice.model_copy(update={"drift_step": None, "drift_every": 100}).resets(400) == (100, 200, 300)


def test_only_what_changes_a_result_changes_the_digest() -> None:
    """A new title keeps hours of finished repetitions, and a changed setting does not reuse them."""
    digest = Run(parse(GOOD, ""), "both").digest("1")
    other = {**GOOD, "methods": {"areba_2": {"method": "areba", "budget": 4}, "baseline": None}}
    assert Run(parse({**GOOD, "title": "Another", "repetitions": 3}, ""), "both").digest("1") == digest
    changed = [
        Run(parse(other, ""), "both").digest("1"),
        Run(parse({**GOOD, "seed": 1}, ""), "both").digest("1"),
        Run(parse({**GOOD, "stream": {**GOOD["stream"], "noise": 0.1}}, ""), "both").digest("1"),
        Run(parse(GOOD, ""), "data").digest("1"),
        Run(parse(GOOD, ""), "both").digest("2"),
    ]
    assert len({digest, *changed}) == 6


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    """Return the project's own experiments."""
    return {experiment.name: experiment for experiment in load_all()}


def test_the_paper_is_covered(experiments: dict[str, Experiment]) -> None:
    """Every figure of the paper's table, and every statement, names an experiment and learners that exist."""
    for figure in table_figures():
        assert set(figure.learners) <= set(experiments[figure.experiment].methods), figure
    assert len(table_figures()) == 30
    for statement in statements():
        for name in statement.experiments:
            methods = experiments[name].methods
            known = experiments if statement.relation == "above_other" else methods
            assert {one for learner in statement.learners for one in learner.split("|")} <= set(methods), statement
            against = {one for other in statement.against if "*" not in other for one in other.split("|")}
            assert against <= set(known), statement


def test_the_streams_of_the_issue_are_there(experiments: dict[str, Experiment]) -> None:
    """There are three streams at three imbalances, each drift with and without noise, five data sets, B from 2 on."""
    assert {f"{c}-{i}-stationary" for c in ("sine", "circle", "sea") for i in ("10", "1", "0.1")} <= experiments.keys()
    for concept in ("sine", "circle", "sea", "sea"):
        for kind in ("prior", "likelihood", "posterior"):
            plain, noisy = experiments[f"{concept}-1-{kind}"], experiments[f"{concept}-1-{kind}-noise"]
            assert (plain.stream.drift_step, plain.stream.noise, noisy.stream.noise) == (2_500, 0.0, 0.1)
    assert {f"real-{name}" for name in ("cervical", "fraud", "credit", "mnist", "forest")} <= experiments.keys()
    budgets = {settings.budget for settings in experiments["budget-circle-1-stationary"].methods.values()}
    assert {2, 50, 100, 500, 1000} <= budgets
    ours = {"beyond", "variant", *SEPARATE_GROUPS}
    paper = [experiment for experiment in experiments.values() if experiment.group not in ours]
    assert {experiment.repetitions for experiment in paper} == {50}


def test_names_patterns_and_groups_choose_runs(experiments: dict[str, Experiment]) -> None:
    """Patterns find the runs that a user means, in the folder's order; a typing error is an error."""
    runs = runs_of(experiments.values())
    assert [run.name for run in choose(runs, ["sine-1-prior*"])] == [
        "sine-1-prior-noise",
        "sine-1-prior-noise.data",
        "sine-1-prior",
        "sine-1-prior.data",
    ]
    assert {run.experiment.group for run in choose(runs, ["paper"])} == {"budget", "stationary", "drift", "real"}
    with pytest.raises(ConfigurationError, match="sinus: no such experiment"):
        choose(runs, ["sinus"])


def test_an_experiment_survives_the_way_to_another_process(experiments: dict[str, Experiment]) -> None:
    """Repetitions run in separate processes, which must get the same experiment, including explicit defaults."""
    for experiment in experiments.values():
        sent = experiment.model_dump_json(exclude_unset=True)
        again = Experiment.model_validate_json(sent)
        assert again.model_dump_json() == experiment.model_dump_json()
        assert [Run(again, varies).digest("") for varies in again.varies] == [
            run.digest("") for run in runs_of([experiment])
        ]


def test_files_say_what_they_are(experiments: dict[str, Experiment]) -> None:
    """A file that was copied and not changed would run the same experiment under two names."""
    seen: dict[str, str] = {}
    for experiment in experiments.values():
        for run in runs_of([experiment]):
            digest = run.digest("")
            assert digest not in seen, f"{run.name} is {seen[digest]} again"
            seen[digest] = run.name
