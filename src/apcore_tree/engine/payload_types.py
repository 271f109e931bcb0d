"""Payload types: which payloads a tree accepts, and which of their properties are special."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from apcore_tree.engine.node import Json, Node, Payload, same_json
from apcore_tree.engine.properties import folded, is_guarded
from apcore_tree.errors import InvalidArgument

__all__ = ["MASK", "OPEN_TYPE", "PayloadType", "PayloadTypes"]

# What readers see instead of a sensitive value; never accepted back, or an export would overwrite the secret.
MASK = "***REDACTED***"
_DEEPEST = 64
# A name that a query can write after a colon, and a document without quoting.
_TYPE_NAME = re.compile(r"[^\W\d][\w-]{0,127}")
_LARGEST_INTEGER = 2**63


@dataclass(frozen=True)
class PayloadType:
    """A kind of payload.

    `self_payload`: the properties sit on the node itself, so its structural names are guarded and tree-json writes
    them inline.  `read_only` properties are set at creation only; `sensitive` ones are masked in every output.
    """

    name: str
    schema: Json = field(default_factory=lambda: {"type": "object"})
    self_payload: bool = False
    name_property: str = "Name"
    read_only: frozenset[str] = frozenset()
    sensitive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not _TYPE_NAME.fullmatch(self.name):
            raise InvalidArgument(f"{self.name!r} is no name for a payload type", field="payloadType")

    @cached_property
    def validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.schema)

    def check(self, data: Json) -> None:
        """Raise the first thing wrong with a whole payload."""
        check_json(data)
        if self.self_payload:
            for name in data:
                if is_guarded(name):
                    raise InvalidArgument(f"{name!r} is guarded on {self.name} nodes", field=name, reason="guarded")
        for error in self.validator.iter_errors(data):
            where = ".".join(map(str, error.absolute_path))
            raise InvalidArgument(f"{self.name}: {self.wording(error)}", field=where or None, reason="schema")

    def wording(self, error: ValidationError) -> str:
        """jsonschema quotes the offending value: not where it may be a secret, and not at any length."""
        if self.sensitive:
            return f"breaks {error.validator!r}"
        return error.message if len(error.message) <= 300 else f"{error.message[:300]}…"

    def refusal(self, path: str) -> str | None:
        """Why the property may not be written, or None."""
        head = path.split(".", 1)[0]
        if self.self_payload and is_guarded(head):
            return "guarded"
        return "read_only" if head in self.read_only else None

    def check_change(self, before: Json, after: Json) -> None:
        """Raise if a whole new payload changes what is set at creation only."""
        for name in self.read_only:
            if name in before and not same_json(before[name], after.get(name)):
                raise InvalidArgument(
                    f"{name!r} cannot be changed on {self.name} nodes", field=name, reason="read_only"
                )

    def mask(self, data: Json) -> Json:
        return {key: MASK if key in self.sensitive else value for key, value in data.items()}


OPEN_TYPE = PayloadType("object")


class PayloadTypes:
    """The registered types by name; only these are accepted."""

    def __init__(self, types: Iterable[PayloadType] = ()) -> None:
        self._by_name = {kind.name: kind for kind in (OPEN_TYPE, *types)}
        self.names = sorted(self._by_name)

    def __getitem__(self, name: str) -> PayloadType:
        try:
            return self._by_name[name]
        except KeyError:
            raise InvalidArgument(
                f"The payload type {name!r} is not registered",
                field="payloadType",
                suggestion=f"use one of: {', '.join(self.names)}",
            ) from None

    def of(self, payload: Payload) -> PayloadType:
        return self._by_name.get(payload.type, OPEN_TYPE)

    def name_of(self, node: Node) -> str | None:
        kind = self.of(node.payload)
        name = node.payload.data.get(kind.name_property)
        return name if isinstance(name, str) and kind.name_property not in kind.sensitive else None

    def hiding(self, head: str) -> frozenset[str]:
        """The names of the types for which the property is sensitive."""
        wanted = folded(head)
        return frozenset(kind.name for kind in self._by_name.values() if wanted in map(folded, kind.sensitive))


def check_json(value: Any, depth: int = 0) -> None:
    """Refuse what JSON cannot carry everywhere, and the mask that stands for a hidden value."""
    if isinstance(value, str):
        if value == MASK:
            raise InvalidArgument("The mask of a hidden value cannot be stored", reason="masked")
        _check_text(value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise InvalidArgument("An integer is larger than 64 bits", reason="number")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument("NaN and infinities are not JSON", reason="number")
    elif depth >= _DEEPEST:
        raise InvalidArgument(f"A payload is nested deeper than {_DEEPEST} levels", reason="depth")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_key(key)
            check_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_json(item, depth + 1)
    else:
        raise InvalidArgument(f"A {type(value).__name__} is not JSON", reason="type")


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not key or len(key) > 256:
        raise InvalidArgument("A property name is a text of 1 to 256 characters", reason="name")
    _check_text(key)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("A text holds half of a surrogate pair", reason="unicode") from None
