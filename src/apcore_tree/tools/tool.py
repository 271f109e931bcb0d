"""A tool: its contract as data, and the function that does the work."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from apcore_tree.engine.node import Json
from apcore_tree.errors import InvalidArgument

__all__ = ["Kind", "Tool"]


class Kind(Enum):
    """What a tool may change: nothing, the caller's session, or the tree (`BULK`: node by node)."""

    READ = "read"
    SESSION = "session"
    CHANGE = "change"
    BULK = "bulk"


@dataclass(frozen=True)
class Tool:
    name: str
    kind: Kind
    description: str
    input_schema: Json
    output_schema: Json
    work: Callable[[Any], Json]
    destructive: bool = False
    idempotent: bool = False
    paginated: bool = False
    # May visit the whole tree, so it runs beside the writers where the tree is large.
    long: bool = False
    token_optional: bool = False
    page_size: int = 50

    @property
    def module_id(self) -> str:
        return f"tree.{self.name}"

    @property
    def reads(self) -> bool:
        return self.kind is Kind.READ

    @cached_property
    def defaults(self) -> Json:
        properties = self.input_schema["properties"]
        return {name: schema["default"] for name, schema in properties.items() if "default" in schema}

    @cached_property
    def _required(self) -> set[str]:
        return set(self.input_schema.get("required", ()))

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.input_schema)

    @cached_property
    def _plain(self) -> dict[str, Callable[[Any], bool]]:
        properties = self.input_schema["properties"].items()
        return {name: accepts for name, schema in properties if (accepts := plain_check(schema)) is not None}

    def check(self, arguments: Any) -> None:
        """Raise what is most wrong with the arguments.

        Most calls pass a few ids and flags, for which a full validation costs more than the call.
        """
        if isinstance(arguments, dict) and self._required <= arguments.keys():
            plain = self._plain
            if all(name in plain and plain[name](value) for name, value in arguments.items()):
                return
        if not self._validator.is_valid(arguments):
            raise _refused(best_match(self._validator.iter_errors(arguments)))

    def complete(self, arguments: Json) -> Json:
        return {**self.defaults, **arguments}


_PLAIN_KEYWORDS = {"type", "description", "default", "minLength", "maxLength", "pattern", "enum", "minimum", "maximum"}


def plain_check(schema: Json) -> Callable[[Any], bool] | None:
    """The schema of a text, an integer or a flag as a function; None for any other."""
    kind = {"string": str, "integer": int, "boolean": bool}.get(str(schema.get("type")))
    if kind is None or not schema.keys() <= _PLAIN_KEYWORDS:
        return None
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    fits, names = re.compile(schema.get("pattern", "")).search, schema.get("enum")
    if kind is str:
        return lambda value: (
            type(value) is str
            and shortest <= len(value) <= longest
            and fits(value) is not None
            and (names is None or value in names)
        )
    return lambda value: type(value) is kind and least <= value <= most


def _refused(error: ValidationError) -> InvalidArgument:
    field = ".".join(map(str, error.absolute_path))
    most = error.validator_value if error.validator == "maxItems" else None
    return InvalidArgument(
        _wording(error),
        field=field or None,
        reason=f"schema_{error.validator}",
        maxBatch=most,
        suggestion=None if most is None else f"send at most {most} at a time",
    )


def _wording(error: ValidationError) -> str:
    """jsonschema quotes the offending value, however long."""
    if error.validator == "maxItems":
        return f"{'.'.join(map(str, error.absolute_path))} takes at most {error.validator_value} items"
    return error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
