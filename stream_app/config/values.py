"""Kinds of values that settings have, and the base class of all sections."""

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    WrapSerializer,
    model_validator,
)

from stream_app.records import MAX_STREAM_BYTES

_MAX_OPTIONS_BYTES = 10_000
"""Most bytes of a learner's `options` as JSON: they are stored with every change of the configuration."""


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, is {value}")  # noqa: TRY004  (pydantic collects ValueError)
    return value


def _empty(value: object) -> object:
    """Return an empty section for null, which YAML gives for a section whose lines are all commented out."""
    return {} if value is None else value


def _plain_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a frozen copy; refuse what JSON cannot hold (a date, infinity), since options are stored as JSON."""
    try:
        text = json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("may only hold text, numbers, true, false, null, lists and maps") from error
    if len(text) > _MAX_OPTIONS_BYTES:
        raise ValueError(f"must have at most {_MAX_OPTIONS_BYTES} bytes, has {len(text)}")
    return MappingProxyType(json.loads(text))


def _as_dict(value: Mapping[str, Any], handler: SerializerFunctionWrapHandler) -> Any:  # noqa: ANN401  (plain data)
    return handler(dict(value))


Item = TypeVar("Item")
Key = TypeVar("Key", bound=str)
Frozen: TypeAlias = Annotated[
    Mapping[Key, Item], BeforeValidator(_empty), AfterValidator(MappingProxyType), WrapSerializer(_as_dict)
]

Options: TypeAlias = Annotated[
    Mapping[str, Any], BeforeValidator(_empty), AfterValidator(_plain_options), WrapSerializer(_as_dict)
]

Integer: TypeAlias = Annotated[int, BeforeValidator(_number)]
Number: TypeAlias = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]

TopicName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,100}$")]
"""Part of a topic's name: two parts and a suffix stay below Kafka's limit of 249 characters."""

LearnerName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]


def _stream_name(name: str) -> str:
    if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_STREAM_BYTES:
        raise ValueError(f"a stream's name has 1 to {MAX_STREAM_BYTES} bytes and no control characters")
    return name


StreamName: TypeAlias = Annotated[str, AfterValidator(_stream_name)]

Features: TypeAlias = Annotated[Integer, Field(ge=1, le=1_000_000)]

DAY_MS = 86_400_000
MAX_MS = 3_653 * DAY_MS
"""Ten years: sums of such times fit 64 bits by far."""


class Change(StrEnum):
    """What happens when a setting of an application has another value after its workers have restarted.

    A field declares it as metadata: `Annotated[Integer, Field(ge=1), Change.FIXED]`. Other fields take that of their
    section, `Settings.change`.

    Attributes:
        FREE: No result depends on the setting.
        TAKEN_OVER: The new value is taken over; the outcome of earlier records does not depend on it.
        RESTARTS: The setting shapes the state of a learner, so the learner starts again without its former state.
        FIXED: The worker refuses the new value.
    """

    FREE = "free"
    TAKEN_OVER = "change"
    RESTARTS = "learner"
    FIXED = "fixed"


class Settings(BaseModel):
    """Base class of a section: it is frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    change: ClassVar[Change] = Change.FIXED
    """What a change of the section's fields does that declare nothing themselves."""

    @classmethod
    def change_of(cls, path: str) -> Change:
        """Return what a change of a setting does, by its path in the section, such as `join.ttl_ms`."""
        name, _, rest = path.partition(".")
        field = cls.model_fields[name]
        if rest and isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            return field.annotation.change_of(rest)
        return next((mark for mark in field.metadata if isinstance(mark, Change)), cls.change)

    @model_validator(mode="before")
    @classmethod
    def _null_is_empty(cls, data: object) -> object:
        return _empty(data)
