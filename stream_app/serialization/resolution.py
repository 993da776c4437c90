"""The values of other writers as ours, by Avro's rules of schema resolution and a few conversions more; pure.

The bytes of a value are rearranged: what both schemas have in the same form is copied, the rest is converted, and the
batch decoder reads the result. So all writers have the same rules and reasons. docs/values.md has the table of
conversions.

A schema is resolved as a whole: each type of a field must fit, in unions as well, but for null. The names of a record
and of its namespace do not count, so a writer's own names are accepted; only a record named `Mark` is a mark.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from stream_app.errors import UndecodableError
from stream_app.records import Example, Label, Mark, Reason, Side
from stream_app.serialization import conversions
from stream_app.serialization.avro import VALUE_TYPES, newest
from stream_app.serialization.avro_skip import Skip, Skips, read_long, text_end
from stream_app.serialization.conversions import Convert, ReadNumber
from stream_app.serialization.json_value import shown
from stream_app.serialization.public_types import INPUT_TYPES
from stream_app.serialization.writer_schema import kept_text

_MAX_WORDS = 240
"""Most characters of a refusal: a dead letter has it in a header, whose size is bounded."""

_ABSENT = b"\x00"
"""An empty array, null as the first type of a union, and the number 0: our defaults."""

_WANTED: Mapping[str, str] = MappingProxyType({
    "string": "string or bytes",
    "int": "int or long",
    "label": "int, long, boolean or string",
    "long": "int or long",
    "float": "int, long, float or double",
    "double": "int, long, float or double",
})  # fmt: skip


class _MismatchError(Exception):
    """A type does not resolve to ours."""


class _Step(NamedTuple):
    """What is done with a field of the writer: it becomes our field at `place`, or is passed over (`place` is -1)."""

    name: str
    place: int
    convert: Convert | None
    skip: Skip | None


class WriterSchema:
    """A writer schema, resolved to the types of an input.

    Args:
        text: The schema.
        side: The input.
        label_classes: What the texts of labels mean.

    Attributes:
        refusal: Why no value of the schema is accepted; empty if they are.
        record: The type of the records.
    """

    def __init__(self, text: str, side: Side, label_classes: Mapping[str, int] = MappingProxyType({})) -> None:
        data, mark = INPUT_TYPES[side]
        self.record: type[Any] = data
        self.refusal = ""
        self._label_classes = label_classes
        self._name = ""
        self._steps: Sequence[_Step] = ()
        self._pieces: Sequence[bytes] = ()
        self._text_branch: int | None = None
        kept = kept_text(text)
        if not kept:
            self.refusal = "is no record in Avro without references, or is too large"
            return
        schema = json.loads(kept)
        self._name = shown(schema["name"])
        self.record = mark if schema["name"].rpartition(".")[2] == Mark.__name__ else data
        try:
            self._resolve(schema, label_classes)
        except _MismatchError as error:
            words = f"({self._name}) does not resolve to {self.record.__name__.lower()}: {error}"
            self.refusal = words[:_MAX_WORDS]

    @property
    def accepted(self) -> str:
        """The name of the schema and the type that it resolves to, for a message; empty: it is refused."""
        return "" if self.refusal else f"{self._name} as {self.record.__name__.lower()}"

    def _resolve(self, schema: Mapping[str, Any], label_classes: Mapping[str, int]) -> None:
        own = newest()[self.record]
        fields: Sequence[Mapping[str, Any]] = own.parsed["fields"]
        theirs = {field["name"]: field["type"] for field in schema["fields"]}
        for field in fields:
            if field["name"] not in theirs and "default" not in field:
                raise _MismatchError(f"field {shown(field['name'])} is missing")
        if self.record is Example and not {"features", "values"} & theirs.keys():
            raise _MismatchError('field "features" or "values" is missing')
        skips = Skips(schema)
        types = _Types(skips.named, label_classes)
        places = {field["name"]: place for place, field in enumerate(fields, 1)}
        wanted = {field["name"]: "label" if field["name"] == "label" else field["type"] for field in fields}
        self._steps = [
            _Step(name, places[name], types.converter(kind, wanted[name], f"field {shown(name)}"), None)
            if name in places
            else _Step(name, -1, None, skips.of(kind))
            for name, kind in theirs.items()
        ]
        branches = theirs.get("label") if self.record is Label else None
        if branches == "string":
            self._text_branch = -1
        elif isinstance(branches, list) and "string" in branches:
            self._text_branch = branches.index("string")
        self._pieces = [own.header, *[_ABSENT] * len(fields)]

    def resolved(self, value: bytes, start: int) -> bytes:
        """Return a value as a single object of our schema.

        Args:
            value: The value.
            start: The length of its header.

        Raises:
            UndecodableError: The bytes are not a record of the schema, or a union holds null where ours has no null.
        """
        pieces, at, done = list(self._pieces), start, 0
        try:
            for done, (_, place, convert, skip) in enumerate(self._steps):  # noqa: B007  (the field that fails)
                if convert is not None:
                    pieces[place], at = convert(value, at)
                elif skip is not None:
                    at = skip(value, at, 0)
        except (IndexError, UndecodableError) as error:
            problem = "truncated" if isinstance(error, IndexError) else str(error)
            raise UndecodableError(f"field {shown(self._steps[done].name)}: {problem}") from None
        if at != len(value):
            raise UndecodableError("left over")
        return b"".join(pieces)

    def fault(self, reason: Reason, value: bytes, start: int) -> str:
        """Return why a value was refused, as far as its schema explains it; else an empty text."""
        if reason is Reason.WRONG_SCHEMA:
            return self.refusal
        try:
            if reason is Reason.UNDECODABLE:
                self.resolved(value, start)
            elif reason is Reason.BAD_LABEL:
                return self._unknown_label(value, start)
        except UndecodableError as error:
            return str(error)
        return ""

    def _unknown_label(self, value: bytes, start: int) -> str:
        """Return what is wrong with the text of a label that means no class; an empty text if the label is no text."""
        at = start
        for name, _, convert, skip in self._steps:
            if name == "label" and self._text_branch is not None:
                index, first = (-1, at) if self._text_branch < 0 else read_long(value, at)
                if index != self._text_branch:
                    return ""
                label = value[slice(*text_end(value, first))].decode()
                is_known = label in self._label_classes
                return "" if is_known else f"label {shown(label)} is not in serialization.label_classes"
            if convert is not None:
                at = convert(value, at)[1]
            elif skip is not None:
                at = skip(value, at, 0)
        return ""


class _Types:
    """Makes what converts values of a writer's types.

    Args:
        named: The writer's types that have a name.
        label_classes: What the texts of labels mean.
    """

    def __init__(self, named: Mapping[str, Mapping[str, Any]], label_classes: Mapping[str, int]) -> None:
        self._named = named
        self._label_classes = label_classes

    def converter(self, kind: Any, wanted: Any, what: str) -> Convert:  # noqa: ANN401  (types in schemas)
        """Return what converts values of a type of the writer to a type of ours.

        Args:
            kind: The writer's type.
            wanted: Our type; `label` for the class of a label.
            what: What has the type, for messages.

        Raises:
            _MismatchError: The type does not resolve.
        """
        if isinstance(kind, str):
            kind = self._named.get(kind, kind)
        if isinstance(kind, list):
            return conversions.of_union([self._branch(one, wanted, what) for one in kind])
        convert = self._plain_converter(kind, wanted, what)
        if convert is None:
            raise _MismatchError(f"{what} has the type {_name_of(kind)}, and {_wanted_name(wanted)} is wanted")
        return convert

    def _branch(self, kind: Any, wanted: Any, what: str) -> Convert | None:  # noqa: ANN401  (types in schemas)
        """Return what converts values of a type in a union; None: it is null, and ours cannot be null."""
        holds_null = isinstance(wanted, list)
        return None if kind == "null" and not holds_null else self.converter(kind, wanted, what)

    def _plain_converter(  # noqa: C901, PLR0911, PLR0912  (a case for each pair of types)
        self,
        kind: Any,  # noqa: ANN401  (a type in a schema)
        wanted: Any,  # noqa: ANN401  (as above)
        what: str,
    ) -> Convert | None:
        """Return what converts values of a type that is no union; None: it does not resolve."""
        match wanted, kind:
            case list(), _ if wanted == VALUE_TYPES:
                return conversions.COLUMN_VALUES.get(kind) if isinstance(kind, str) else None
            case ["null", _], "null":
                return conversions.nothing
            case ["null", inner], _:
                return conversions.prefixed(b"\x02", self.converter(kind, inner, what))
            case "string", "string" | "bytes":
                return conversions.copy_text
            case "long", "int" | "long":
                return conversions.copy_long
            case "int" | "label", "int":
                return conversions.copy_int
            case "int" | "label", "long":
                return conversions.int_of_long
            case "double", str() if kind in conversions.NUMBERS:
                return conversions.double(conversions.NUMBERS[kind])
            case "label", "boolean":
                return conversions.int_of_boolean
            case "label", "string":
                return conversions.int_of_text(self._label_classes)
            case {"type": "array", "items": "float"}, {"type": "array", "items": items}:
                return self._features(items, f"an item of {what}")
            case {"type": "map", "values": own}, {"type": "map", "values": values}:
                return conversions.map_of(self.converter(values, own, f"a value of {what}"))
            case {"type": "enum", "symbols": own, "name": name}, {"type": "enum", "symbols": symbols}:
                return conversions.enum(own, symbols) if _last(kind["name"]) == _last(name) else None
        return None

    def _features(self, items: Any, what: str) -> Convert:  # noqa: ANN401  (a type in a schema)
        if items == "float":
            return conversions.floats
        return conversions.doubles if items == "double" else conversions.numbers(self._number(items, what))

    def _number(self, kind: Any, what: str) -> ReadNumber:  # noqa: ANN401  (a type in a schema)
        if isinstance(kind, str):
            kind = self._named.get(kind, kind)
        if isinstance(kind, list):
            return conversions.of_union(
                [None if one == "null" else self._number(one, what) for one in kind], "an item is null"
            )
        read = conversions.NUMBERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise _MismatchError(f"{what} has the type {_name_of(kind)}, and {_WANTED['float']} is wanted")
        return read


def _last(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def _name_of(kind: Any) -> str:  # noqa: ANN401  (a type in a schema)
    """Return the name of a type for a message."""
    if isinstance(kind, list):
        return "union"
    if isinstance(kind, str):
        return kind
    return "bytes (decimal)" if kind["type"] == "bytes" else str(kind["type"])


def _wanted_name(wanted: Any) -> str:  # noqa: ANN401  (a type in our schema)
    match wanted:
        case str():
            return _WANTED[wanted]
        case ["null", {"type": "map"}]:
            return "map or null"
        case ["null", inner]:
            return f"{_wanted_name(inner)} or null"
        case list():
            return "null, boolean, int, long, float, double, string or bytes"
    return str(wanted["type"])
