"""pydantic's errors as sentences for whoever wrote the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lab.topology.experiment import LABEL_PATTERN, LINK_PATTERN, METRIC_PATTERN
from lab.topology.model import (
    LAB_NAME_PATTERN,
    MAC_ADDRESS_PATTERN,
    NAME_PATTERN,
    WORD_PATTERN,
    Topology,
)
from lab.topology.problem import Loc, did_you_mean, quoted

_NAME_RULE = "a lower case letter, then lower case letters, digits and `-`, at most {} in all"
_PATTERNS = {
    NAME_PATTERN: _NAME_RULE.format(20),
    LAB_NAME_PATTERN: _NAME_RULE.format(40),
    MAC_ADDRESS_PATTERN: "six lower case hexadecimal pairs with colons, such as 52:54:00:12:34:56",
    LABEL_PATTERN: "lower case letters, digits and `.`, `_`, `-`, a letter or digit first",
    METRIC_PATTERN: "lower case letters, digits, `_` and `.`, a letter first",
    LINK_PATTERN: "a web address, or `#` and the number of an issue",
    WORD_PATTERN: "letters, digits and `.`, `_`, `+`, `-`, beginning with a letter or digit",
}


def explain(error: ValidationError) -> Iterator[tuple[Loc, str, str | None]]:
    """Place, message and hint of each thing the model refused."""
    for details in error.errors(include_url=False):
        # pydantic marks an error in a key, not in its value, by one more step.
        loc = details["loc"][:-1] if details["loc"][-1:] == ("[key]",) else details["loc"]
        yield loc, *_sentence(details, loc)


def _sentence(details: ErrorDetails, loc: Loc) -> tuple[str, str | None]:
    kind, value, limits = details["type"], details["input"], details.get("ctx", {})
    name = quoted(loc[-1] if loc else "topology")
    match kind:
        case "extra_forbidden":
            owner = f" in {quoted(loc[-2])}" if len(loc) > 1 else ""
            return f"unknown key {name}{owner}", did_you_mean(str(loc[-1]), fields_at(loc[:-1]))
        case "missing":
            owner = quoted(loc[-2]) if len(loc) > 1 else "the topology"
            return f"{owner} needs {name}", _description(loc)
        case "enum" | "literal_error":
            known = re.findall(r"[\w-]+", limits["expected"].replace(" or ", " "))
            hint = did_you_mean(str(value), known)
            return f"{name} cannot be {quoted(value)}", hint
        case "string_pattern_mismatch":
            return _pattern_mismatch(name, str(value), limits["pattern"])
        case "bool_parsing" | "bool_type":
            return f"{name} is true or false, not {quoted(value)}", None
        case "int_parsing" | "int_type" | "int_parsing_size" | "int_from_float":
            return f"{name} needs a whole number, not {quoted(value)}", None
        case "greater_than_equal":
            return f"{name} must be at least {limits['ge']}, not {quoted(value)}", None
        case "less_than_equal":
            return f"{name} must be at most {limits['le']}, not {quoted(value)}", None
        case "too_short":
            return f"{name} needs at least {limits['min_length']} entry", None
        case "too_long":
            return f"{name} has more than {limits['max_length']} entries", None
        case "string_type":
            return f"{name} needs a word, not {quoted(value)}", None
        case "model_type" | "dict_type":
            hint = "write `{}` for all defaults" if value is None else None
            return f"{name} needs a mapping (key: value), not {quoted(value)}", hint
        case "value_error":
            return f"{name}: {limits['error']}", None
    return f"{name}: {details['msg']}", None


def _pattern_mismatch(name: str, value: str, pattern: str) -> tuple[str, str]:
    """The rule, and the nearest spelling that keeps it."""
    near = value.lower().replace("-", ":") if pattern == MAC_ADDRESS_PATTERN else _slug(value)
    subject = "a name" if name == quoted(value) else name
    meant = re.match(pattern, near) and near != value
    hint = f"did you mean `{near}`?" if meant else "choose another"
    return f"{subject} cannot be {quoted(value)}: it is {_PATTERNS[pattern]}", hint


def _slug(value: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")


def fields_at(loc: Loc) -> tuple[str, ...]:
    """The keys that the model knows at `loc`; none where keys are the user's own."""
    model = _type_at(loc)
    return tuple(model.model_fields) if model else ()


def _description(loc: Loc) -> str | None:
    model = _type_at(loc[:-1])
    return model.model_fields[str(loc[-1])].description if model else None


def _type_at(loc: Loc) -> type[BaseModel] | None:
    found: Any = Topology
    for step in loc:
        if isinstance(found, type) and issubclass(found, BaseModel):
            field = found.model_fields.get(str(step))
            found = field.annotation if field else None
        else:
            # dict[Name, Model]: the user's own key.
            found = get_args(found)[1] if len(get_args(found)) == 2 else None
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None
