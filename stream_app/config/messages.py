"""The wording of errors in a configuration."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from stream_app.config.client_settings import REDACTED, SECRET

SettingPath: TypeAlias = tuple[str, ...]
"""The names of a section, of the sections in it, and of the setting: `("join", "ttl_ms")`."""


def message(root: type[BaseModel], path: SettingPath, error: Mapping[str, Any]) -> str:
    """Return the line that explains one error of pydantic, without the setting's path.

    Args:
        root: The model that was validated.
        path: The setting.
        error: One item of `ValidationError.errors()`: `type`, `input` and, where there is one, `ctx`.
    """
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown setting{_nearest_key(root, path)}"
    is_now = f", is {_shown(path, value)}"
    texts = {
        "missing": "is missing",
        "string_type": f"must be text: put it in quotes{is_now}"
        if isinstance(value, int | float)
        else f"must be text{is_now}",
        "int_from_float": f"must be a whole number{is_now}",
        "int_type": f"must be a whole number{is_now}",
        "int_parsing": f"must be a whole number{is_now}",
        "float_type": f"must be a number{is_now}",
        "float_parsing": f"must be a number{is_now}",
        "finite_number": f"must be a finite number{is_now}",
        "greater_than_equal": f"must be at least {context.get('ge')}{is_now}",
        "less_than_equal": f"must be at most {context.get('le')}{is_now}",
        "greater_than": f"must be more than {context.get('gt')}{is_now}",
        "less_than": f"must be less than {context.get('lt')}{is_now}",
        "multiple_of": f"must be a multiple of {context.get('multiple_of')}{is_now}",
        "literal_error": f"must be {context.get('expected')}{is_now}{_nearest(value, _choices(root, path))}",
        "string_pattern_mismatch": f"must match {context.get('pattern')}{is_now}",
        "tuple_type": f"must be a list, such as [8]{is_now}",
        "model_type": f"must be a section with settings below it{is_now}",
        "dict_type": f"must be a section with names below it{is_now}",
        "too_short": f"needs at least {context.get('min_length')}",
        "too_long": f"may have at most {context.get('max_length')}",
        "value_error": f"{context.get('error')}",
    }
    return texts.get(kind, f"wrong ({kind.replace('_', ' ')}: {context or 'see the documentation'}){is_now}")


def _shown(path: SettingPath, value: object) -> str:
    """Return a short text for a value; a secret is never shown."""
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "empty"
    if any(SECRET.search(part) for part in path):
        return REDACTED
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nearest(word: object, words: Iterable[str]) -> str:
    """Return `; did you mean ...?`, or nothing when no word is similar."""
    near = difflib.get_close_matches(str(word), list(words), 1)
    return f"; did you mean {near[0]}?" if near else ""


def or_nearest(word: object, words: Iterable[str]) -> str:
    """Return `; did you mean ...?`, or all words if no word is similar."""
    known = list(words)
    return _nearest(word, known) or f" (there are: {', '.join(known)})"


def _nearest_key(root: type[BaseModel], path: SettingPath) -> str:
    """Suggest a similar setting of the same section, else of any section, else list those of the same section."""
    above, name = path[:-1], path[-1]
    siblings = list(_keys_of(annotation_at(root, above)))
    near = difflib.get_close_matches(name, siblings, 1)
    if near:
        return f"; did you mean {'.'.join((*above, near[0]))}?"
    elsewhere = {
        key: f"{section}.{key}" for section, field in root.model_fields.items() for key in _keys_of(field.annotation)
    }
    near = difflib.get_close_matches(name, elsewhere, 1)
    if near:
        return f"; did you mean {elsewhere[near[0]]}?"
    return f" (there are: {', '.join(siblings)})"


def _keys_of(annotation: Any) -> Iterable[str]:  # noqa: ANN401  (a type)
    """Return the names of the settings of a section; none for any other type."""
    return annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else ()


def annotation_at(root: type[BaseModel], path: SettingPath) -> Any:  # noqa: ANN401  (a type)
    """Return the type of a setting, or None when there is no such setting."""
    annotation: Any = root
    for name in path:
        if get_origin(annotation) is Mapping:
            annotation = bare_type(get_args(annotation)[1])
        elif name in _keys_of(annotation):
            annotation = bare_type(annotation.model_fields[name].annotation)
        else:
            return None
    return annotation


def bare_type(annotation: Any) -> Any:  # noqa: ANN401  (a type)
    """Return the type without `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return bare_type(get_args(annotation)[0])
    others = [choice for choice in get_args(annotation) if choice is not type(None)]
    if type(None) in get_args(annotation) and len(others) == 1:
        return bare_type(others[0])
    return annotation


def is_structure(annotation: Any) -> bool:  # noqa: ANN401  (a type)
    """Say whether values of this type are sections, mappings or lists."""
    return get_origin(annotation) in {Mapping, tuple} or bool(_keys_of(annotation))


def _choices(root: type[BaseModel], path: SettingPath) -> tuple[str, ...]:
    """Return the words that a setting may have; none where it is not a choice of words."""
    annotation = annotation_at(root, path)
    return tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()


def first_line(error: Exception) -> str:
    """Return the first three lines of an error's text as one line of at most 300 characters."""
    lines = str(error).split("\n")
    return " ".join(" ".join(lines[:3]).split())[:300]
