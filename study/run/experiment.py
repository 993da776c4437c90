"""Experiments: each YAML file in `study/experiments` names a stream, its methods, and what a repetition varies.

A file with `streams` and `grid` declares many experiments (`study.run.grid`). The first way of varying in a file is the
experiment's own; each further way is a separate run with the name `EXPERIMENT.WAY`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stream_app.config import LearnerName, LearnerSettings, has_setting
from stream_app.errors import ConfigurationError
from stream_app.producers.datasets import RECIPES
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.synthetic import CONCEPTS, MAX_LENGTH, Drift
from study.run.grid import expanded

FOLDER = Path(__file__).parents[1] / "experiments"

MAX_FILE_BYTES = 1 << 16
"""Largest size of a file; the largest experiment has 2 kB."""

MAX_REPETITIONS = 10_000

Varies = Literal["both", "data", "weights"]
"""What differs between two repetitions: the data (their order), the learners' seeds (initial weights), or both."""

Scaling = Literal["study", "standard", "raw", "onehot-46", "onehot-45"]

SCALINGS: Mapping[Scaling, tuple[str, ...]] = {
    "raw": ("cervical", "credit"),
    "onehot-46": ("cervical",),
    "onehot-45": ("cervical",),
}
"""The data sets of a scaling that not all data sets have."""

VARIES_TEXT = {
    "both": "data and initial weights",
    "data": "data alone; every repetition starts from the same weights",
    "weights": "initial weights alone; the data keep their published order",
}

Group = Literal["budget", "stationary", "drift", "real", "beyond", "variant", "tuning", "rivals", "yardstick"]

SEPARATE_GROUPS = ("tuning", "rivals", "yardstick")
"""Groups with pages of their own, which the report leaves out."""


class Section(BaseModel):
    """A part of a file: unknown keys are errors, and values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Checks(Section):
    """Which labels a learner gets if its own predictions decide: see `study.run.checked`.

    Attributes:
        labelled_examples: All examples are checked until there are so many.
        timeout_examples: An example that was not predicted positive counts as negative after so many examples.
        complaint_examples: A positive example that was not predicted positive is known after so many; None: never.
    """

    labelled_examples: Annotated[int, Field(ge=0, le=MAX_LENGTH)]
    timeout_examples: Annotated[int, Field(ge=100, le=MAX_LENGTH)]
    complaint_examples: Annotated[int, Field(ge=100, le=MAX_LENGTH)] | None = None


class StreamChoice(Section):
    """The stream that the learners see.

    Attributes:
        source: A synthetic concept, a data set, or `package.module:function`, a generator (`study.generators`).
        options: Options of a generator, passed to its function unchanged.
        length: The number of examples; None: all of a data set, 5,000 of a synthetic stream.
        imbalance: p(y=1) in percent, of a synthetic stream.
        drift: What changes, of a synthetic stream.
        drift_step: The first example after the drift; None: the middle of the stream.
        drift_every: The drift alternately appears and disappears, each time after this many examples.
        noise: Share of labels whose class is flipped for the learners, but not for the scores.
        features: Features of an example of a synthetic stream; all but the first two are uniform noise.
        label_delay: Delay from an example to its label, as `areba-replay` takes it.
        label_share: Share of labels that are sent.
        checks: Labels are missing not at random: only predicted positives are checked; None: they are not.
        scaling: Of a data set's features: `study` as its recipe has them, `standard` less their mean and divided by
            their standard deviation over the whole set, `raw` as published (cervical and credit), `onehot-46` and
            `onehot-45` with two columns for a yes or no (cervical; with 45 columns Schiller keeps one).
        rows: `file` brings the rows of Forest Cover Type back into the order of the publisher's file.
    """

    source: str
    options: dict[str, Any] = {}
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] | None = None
    imbalance: Annotated[float, Field(gt=0, lt=100)] | None = None
    drift: Drift = Drift.NONE
    drift_step: Annotated[int, Field(ge=1)] | None = None
    drift_every: Annotated[int, Field(ge=1)] | None = None
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    features: Annotated[int, Field(ge=2, le=10_000)] = 2
    label_delay: str = "none"
    label_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    checks: Checks | None = None
    scaling: Scaling = "study"
    rows: Literal["study", "file"] = "study"

    @field_validator("source")
    @classmethod
    def _known(cls, source: str) -> str:
        known = (*CONCEPTS, *RECIPES)
        if source not in known and ":" not in source:
            raise ValueError(f"there is no stream {source!r}; known: {', '.join(known)}")
        return source

    @field_validator("label_delay")
    @classmethod
    def _readable(cls, text: str) -> str:
        try:
            parse_label_delay(text)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return text

    @model_validator(mode="after")
    def _fits(self) -> Self:
        synthetic_only = {"imbalance", "drift", "drift_step", "drift_every", "noise", "features"}
        given = self.model_fields_set & synthetic_only
        if self.is_generated:
            given -= {"imbalance"}
        elif self.options:
            raise ValueError("options are only for generators")
        if (self.is_generated or not self.is_synthetic) and given:
            raise ValueError(f"{min(given)} is only for synthetic streams; {self.source} is a data set")
        if self.scaling != "study" and self.is_synthetic:
            raise ValueError("scaling is only for data sets")
        if self.source not in (known := SCALINGS.get(self.scaling, (self.source,))):
            raise ValueError(f"scaling: {self.scaling} is only for {' and '.join(known)}")
        if self.rows == "file" and self.source != "forest":
            raise ValueError("rows: file is only for forest")
        if self.checks is not None and self.model_fields_set & {"label_delay", "label_share"}:
            raise ValueError("checks decide which labels are sent and when: leave out label_delay and label_share")
        if self.drift is Drift.NONE and (self.drift_step or self.drift_every):
            raise ValueError("drift_step and drift_every need a drift")
        if self.drift_every and (self.drift_step or self.drift is not Drift.POSTERIOR):
            raise ValueError("drift_every needs a posterior drift, and no drift_step")
        return self

    @property
    def is_synthetic(self) -> bool:
        """Whether the stream is synthetic, not a data set."""
        return self.source in CONCEPTS or self.is_generated

    @property
    def is_generated(self) -> bool:
        """Whether a generator makes the stream."""
        return ":" in self.source

    @property
    def stream(self) -> str:
        """The stream's name in the records: its source, or the name of its generator."""
        return self.source.rpartition(":")[2]

    def resets(self, length: int) -> tuple[int, ...]:
        """Return the known drifts of a stream of this length, at which the study's prequential sums restart."""
        if self.drift is Drift.NONE:
            return ()
        if self.drift_every:
            return tuple(range(self.drift_every, length, self.drift_every))
        return (self.drift_step or length // 2,)


class Experiment(Section):
    """One experiment.

    Attributes:
        name: Name of its file.
        title: One line for people.
        group: The part of the report that it belongs to.
        paper: Label of the figure or table in the paper's source; None: not in the paper.
        stream: What the learners see.
        methods: Learners by name, with their settings.
        repetitions: Number of repetitions, unless the command says otherwise.
        seed: Seed of everything random; repetition r has `seed` + r.
        varies: What a repetition varies; the first is the experiment's own.
        fading: Fading factor of the prequential sums.
        note: A line for the report.
        variant_of: The experiment in which this variant changes one thing.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    title: str
    group: Group
    paper: str | None = None
    stream: StreamChoice
    methods: Annotated[dict[LearnerName, LearnerSettings], Field(min_length=1)]
    repetitions: Annotated[int, Field(ge=1, le=MAX_REPETITIONS)] = 50
    seed: int = 0
    varies: Annotated[tuple[Varies, ...], Field(min_length=1)] = ("both",)
    fading: Annotated[float, Field(gt=0, le=1)] = 0.99
    note: str = ""
    variant_of: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment with one way of varying: the unit that is run, stored and reported.

    Attributes:
        experiment: The experiment.
        varies: What a repetition varies.
    """

    experiment: Experiment
    varies: Varies

    @property
    def name(self) -> str:
        """Name of the experiment, followed by the way of varying unless that is its first."""
        first = self.experiment.varies[0] == self.varies
        return self.experiment.name if first else f"{self.experiment.name}.{self.varies}"

    def digest(self, engine: str) -> str:
        """Return the SHA-256 over everything that changes a repetition, without texts and the number of repetitions."""
        data = self.experiment.model_dump(mode="json", include={"stream", "seed", "fading"}, exclude_defaults=True)
        data["methods"] = [[name, _effective(settings)] for name, settings in self.experiment.methods.items()]
        text = json.dumps([data, self.varies, engine], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _effective(settings: LearnerSettings) -> dict[str, Any]:
    """Return the settings that have an effect in a learner of this method."""
    every = settings.model_dump(mode="json")
    return {name: value for name, value in every.items() if has_setting(settings.method, name)}


def read(path: Path) -> list[Experiment]:
    """Read the experiments of a file: one, or one for each stream and each setting of its grid.

    Raises:
        ConfigurationError: The file cannot be read, or a setting is wrong; the error has a line for each problem.
    """
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path.name}: larger than {MAX_FILE_BYTES} bytes")
        data = yaml.safe_load(raw)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path.name}:{mark.line + 1}" if mark else path.name
        raise ConfigurationError(f"{place}: {getattr(error, 'problem', None) or 'is not YAML'}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path.name}: must be a mapping of settings")
    return [parse(one, path.name) for one in expanded({"name": path.stem, **data}, path.name)]


def parse(data: dict[str, Any], where: str) -> Experiment:
    """Return the experiment that plain data describe; a method's own settings override the common `settings`.

    Args:
        data: The content of a file, and its `name`.
        where: The place that an error names.

    Raises:
        ConfigurationError: Settings are wrong; the error has a line for each.
    """
    data = dict(data)
    common = data.pop("settings", None) or {}
    methods = data.get("methods")
    if isinstance(methods, dict) and isinstance(common, dict):
        data["methods"] = {
            name: {"method": name, **common, **(own or {})} if isinstance(own, dict | None) else own
            for name, own in methods.items()
        }
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        raise ConfigurationError(_lines(where, error)) from error


def _lines(where: str, error: ValidationError) -> Iterable[str]:
    for details in error.errors(include_url=False):
        key = ".".join(str(part) for part in details["loc"])
        message = "unknown setting" if details["type"] == "extra_forbidden" else details["msg"]
        message = message.removeprefix("Value error, ")
        yield f"{where}: {key}: {message}" if key else f"{where}: {message}"


def load_all(folder: Path = FOLDER) -> Sequence[Experiment]:
    """Return all experiments of a folder, by name.

    Raises:
        ConfigurationError: Some files are wrong; the error has a line for each problem.
    """
    lines: list[str] = []
    experiments: list[Experiment] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            experiments += read(path)
        except ConfigurationError as error:
            lines += error.lines
    if lines:
        raise ConfigurationError(lines)
    return experiments


def runs_of(experiments: Iterable[Experiment]) -> list[Run]:
    """Return all runs of these experiments."""
    return [Run(experiment, varies) for experiment in experiments for varies in experiment.varies]


def choose(runs: Sequence[Run], patterns: Sequence[str]) -> list[Run]:
    """Return the runs that patterns name: names with `*` and `?`, groups, `paper` (all that the paper has) or `all`.

    Raises:
        ConfigurationError: A pattern matches no run.
    """
    chosen: dict[str, Run] = {}
    for pattern in patterns:
        found = [run for run in runs if _named(run, pattern)]
        if not found:
            raise ConfigurationError(f"{pattern}: no such experiment; `python -m study list` names them")
        chosen.update({run.name: run for run in found})
    return [run for run in runs if run.name in chosen]


def _named(run: Run, pattern: str) -> bool:
    group = run.experiment.group
    if pattern in ("all", group):
        return True
    if pattern == "paper":
        return group not in {"beyond", "variant", *SEPARATE_GROUPS}
    return fnmatchcase(run.name, pattern)
