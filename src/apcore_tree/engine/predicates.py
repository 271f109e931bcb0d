"""Conditions on nodes, compiled once into closures and then asked of every node.

Numbers compare as numbers, a text against a number or a truth value is read as one, texts ignore case unless told
otherwise.  A missing property or values of different kinds never match, and never raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from apcore_tree.engine.node import Json, Node, ancestry, depth_of
from apcore_tree.engine.order import index_of
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.properties import MISSING, read_all, resolve, split_path
from apcore_tree.errors import InvalidArgument

__all__ = ["Predicate", "all_of", "any_of", "compile_condition", "names_of", "sort_key", "value_reader"]

Predicate = Callable[[Node], bool]
Test = Callable[[Any], bool]

_TRUTH = {"true": True, "false": False}


# -- values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def equals(wanted: Any, case_sensitive: bool = False) -> Test:
    if isinstance(wanted, str):
        return _equals_text(wanted, case_sensitive)
    if isinstance(wanted, bool) or wanted is None:
        return lambda value: value is wanted
    if _is_number(wanted):
        return lambda value: value == wanted and not isinstance(value, bool)
    return lambda value: bool(value == wanted)


def _equals_text(wanted: str, case_sensitive: bool) -> Test:
    plain = wanted if case_sensitive else wanted.casefold()
    number, truth = _as_number(wanted), _TRUTH.get(wanted.casefold())

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value == wanted or (not case_sensitive and value.casefold() == plain)
        if isinstance(value, bool):
            return value is truth
        return number is not None and _is_number(value) and bool(value == number)

    return test


def contains(wanted: Any, case_sensitive: bool = False) -> Test:
    member = equals(wanted, case_sensitive)
    part = _text_test(wanted, lambda value, piece: piece in value, case_sensitive)
    return lambda value: any(map(member, value)) if isinstance(value, list) else part(value)


def starts_with(wanted: Any, case_sensitive: bool = False) -> Test:
    return _text_test(wanted, str.startswith, case_sensitive)


def ends_with(wanted: Any, case_sensitive: bool = False) -> Test:
    return _text_test(wanted, str.endswith, case_sensitive)


def _text_test(wanted: Any, holds: Callable[[str, str], bool], case_sensitive: bool) -> Test:
    piece = str(wanted) if _is_number(wanted) else wanted
    if not isinstance(piece, str):
        return lambda value: False
    if case_sensitive:
        return lambda value: isinstance(value, str) and holds(value, piece)
    plain = piece.casefold()
    return lambda value: isinstance(value, str) and holds(value.casefold(), plain)


def compares(holds: Callable[[Any, Any], bool], bound: Any) -> Test:
    """An ordering against a bound, between two numbers or two texts only."""
    if _is_number(bound):
        return lambda value: _is_number(value) and holds(value, bound)
    if not isinstance(bound, str):
        return lambda value: False
    text, number = bound.casefold(), _as_number(bound)

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return holds(value.casefold(), text)
        return number is not None and _is_number(value) and holds(value, number)

    return test


def between(low: Any, high: Any) -> Test:
    above, below = compares(lambda a, b: a >= b, low), compares(lambda a, b: a <= b, high)
    return lambda value: above(value) and below(value)


def sort_key(value: Any) -> tuple[int, Any]:
    """A key under which values of every kind compare: truth values, numbers, texts, the rest; missing ones last."""
    if value is MISSING or value is None:
        return (9, 0)
    if isinstance(value, bool):
        return (0, value)
    if _is_number(value):
        return (1, value)
    return (2, value.casefold()) if isinstance(value, str) else (3, 0)


# -- reading from nodes


def names_of(node: Node, types: PayloadTypes) -> list[str]:
    """The names from the root to the node; a node without one goes by its id."""
    return [types.name_of(each) or each.id for each in ancestry(node)]


def value_reader(path: str, types: PayloadTypes) -> Callable[[Node], Any]:
    """Reads one value of a node: a property, or `$something` of the node itself."""
    if path.startswith("$"):
        return _meta_reader(path, types)
    segments, hidden = split_path(path), types.hiding(path.split(".", 1)[0])

    def value_of(node: Node) -> Any:
        payload = node.payload
        if path in payload.data and not hidden:
            return payload.data[path]
        if payload.type in hidden:
            return MISSING
        return next(read_all(payload.data, segments), MISSING)

    return value_of


def _meta_reader(path: str, types: PayloadTypes) -> Callable[[Node], Any]:
    readers: dict[str, Callable[[Node], Any]] = {
        "$id": lambda node: node.id,
        "$type": lambda node: node.payload.type,
        "$name": lambda node: types.name_of(node) or MISSING,
        "$depth": depth_of,
        "$tags": lambda node: sorted(node.tags or ()),
        "$childCount": lambda node: len(node.children),
        "$path": lambda node: "/" + "/".join(names_of(node, types)),
        "$index": lambda node: 0 if node.parent is None else index_of(node.parent.children, node),
        "$version": lambda node: max(node.changed, node.payload.changed),
    }
    if path not in readers:
        raise InvalidArgument(
            f"There is no {path!r}", field="path", suggestion=f"use one of: {', '.join(sorted(readers))}"
        )
    return readers[path]


def property_test(path: str, test: Test, types: PayloadTypes, when_missing: bool = False) -> Predicate:
    """Whether some value at the path passes the test."""
    if path.startswith("$"):
        value_of = _meta_reader(path, types)
        return lambda node: test(value) if (value := value_of(node)) is not MISSING else when_missing
    segments, hidden = split_path(path), types.hiding(path.split(".", 1)[0])
    keys = _KeyResolver(path) if len(segments) == 1 else None

    def passes(node: Node) -> bool:
        payload = node.payload
        data = payload.data
        if hidden and payload.type in hidden:
            return when_missing
        if path in data:
            return test(data[path])
        if keys is not None:
            key = keys.key_in(data)
            return when_missing if key is None else test(data[key])
        found = list(read_all(data, segments))
        return any(map(test, found)) if found else when_missing

    return passes


class _KeyResolver:
    """Finds a name ignoring case; payloads of one shape are looked through once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[tuple[str, ...], str | None] = {}

    def key_in(self, data: Json) -> str | None:
        shape = tuple(data)
        if shape not in self._known:
            self._known[shape] = resolve(data, self._name)
        return self._known[shape]


# -- conditions as agents write them


def compile_condition(condition: Json, types: PayloadTypes) -> Predicate:
    """Compile `{path, op, value, value2?, caseSensitive?}`."""
    path, op, value = condition["path"], condition["op"], condition.get("value")
    case_sensitive = condition.get("caseSensitive", False)
    if op == "eq" and "." not in path and not path.startswith("$") and not types.hiding(path):
        return _property_equals(path, value, case_sensitive, types)
    if op == "between" and "value2" not in condition:
        raise InvalidArgument("'between' needs value and value2", field="value2")
    tests: dict[str, Callable[[], Test]] = {
        "eq": lambda: equals(value, case_sensitive),
        "contains": lambda: contains(value, case_sensitive),
        "gt": lambda: compares(lambda a, b: a > b, value),
        "lt": lambda: compares(lambda a, b: a < b, value),
        "between": lambda: between(value, condition["value2"]),
    }
    return property_test(path, tests[op](), types)


def _property_equals(name: str, wanted: Any, case_sensitive: bool, types: PayloadTypes) -> Predicate:
    """The commonest scan: values of the wanted kind are compared on the spot, all others in general."""
    general = property_test(name, equals(wanted, case_sensitive), types)
    kind = type(wanted)
    if kind is not int and kind is not float and not (kind is str and case_sensitive):
        return general

    def passes(node: Node) -> bool:
        value = node.payload.data.get(name, MISSING)
        return value == wanted if type(value) is kind else general(node)

    return passes


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    parts = tuple(predicates)
    if len(parts) == 1:
        return parts[0]
    return lambda node: all(part(node) for part in parts)


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    parts = tuple(predicates)
    return lambda node: any(part(node) for part in parts)
