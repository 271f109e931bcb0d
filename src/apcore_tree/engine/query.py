"""The query language of `select_nodes`: from terms to a predicate."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apcore_tree.engine.node import Node, is_within, walk
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.predicates import (
    Predicate,
    Test,
    all_of,
    any_of,
    between,
    compares,
    contains,
    ends_with,
    equals,
    names_of,
    property_test,
    starts_with,
)
from apcore_tree.engine.source import Source

if TYPE_CHECKING:
    from apcore_tree.engine.grammar import Term

__all__ = ["compile_query"]

_STEP = re.compile(r"(//?)('(?:\\.|[^'\\])*'|[^/]+)")


def compile_query(text: str, source: Source, types: PayloadTypes) -> Predicate:
    # Loaded with the first query: a server's start does not wait for the parser.
    from apcore_tree.engine.grammar import parse_query

    return _Compiler(source, types).compile(parse_query(text))


class _Compiler:
    """One per query: what the axes remember is true for this source only."""

    def __init__(self, source: Source, types: PayloadTypes) -> None:
        self.source = source
        self.types = types

    def compile(self, term: Term) -> Predicate:
        make: Callable[..., Predicate] = getattr(self, f"_{term.kind}")
        return make(*term.parts)

    def _any_of(self, *terms: Term) -> Predicate:
        return any_of(map(self.compile, terms))

    def _all_of(self, *terms: Term) -> Predicate:
        return all_of(map(self.compile, terms))

    def _negate(self, term: Term) -> Predicate:
        holds = self.compile(term)
        return lambda node: not holds(node)

    def _tagged(self, tag: str) -> Predicate:
        return lambda node: tag in (node.tags or ())

    def _typed(self, name: str) -> Predicate:
        return lambda node: node.payload.type == name

    def _under(self, node_id: str) -> Predicate:
        top = self.source.node(node_id)
        return lambda node: is_within(node, top)

    def _path(self, glob: str) -> Predicate:
        steps = _steps(glob)
        return lambda node: _fits([name.casefold() for name in names_of(node, self.types)], steps)

    def _compared(self, path: str, sign: str, value: Any) -> Predicate:
        if sign in ("=", "=="):
            return self._test(path, equals(value))
        if sign == "!=":
            same = equals(value)
            return self._test(path, lambda found: not same(found))
        holds: dict[str, Callable[[Any, Any], bool]] = {
            ">": lambda a, b: a > b,
            ">=": lambda a, b: a >= b,
            "<": lambda a, b: a < b,
            "<=": lambda a, b: a <= b,
        }
        return self._test(path, compares(holds[sign], value))

    def _worded(self, path: str, word: str, value: Any) -> Predicate:
        makers: dict[str, Callable[[Any], Test]] = {
            "contains": contains,
            "startswith": starts_with,
            "endswith": ends_with,
            "glob": _globs,
        }
        return self._test(path, makers[word.lower()](value))

    def _within(self, path: str, low: Any, high: Any) -> Predicate:
        return self._test(path, between(low, high))

    def _listed(self, path: str, *values: Any) -> Predicate:
        tests = [equals(value) for value in values]
        return self._test(path, lambda found: any(test(found) for test in tests))

    def _exists(self, path: str) -> Predicate:
        return self._test(path, lambda found: True)

    def _is_null(self, path: str) -> Predicate:
        return property_test(path, lambda found: found is None, self.types, when_missing=True)

    def _test(self, path: str, test: Test) -> Predicate:
        return property_test(path, test, self.types)

    def _related(self, axis: str, term: Term) -> Predicate:
        holds = self.compile(term)
        if axis == "parent":
            return lambda node: node.parent is not None and holds(node.parent)
        if axis == "child":
            return lambda node: any(map(holds, node.children))
        return self._ancestor(holds) if axis == "ancestor" else self._descendant(holds)

    def _ancestor(self, holds: Predicate) -> Predicate:
        known: dict[str, bool] = {}

        def has_ancestor(node: Node) -> bool:
            climbed, at, found = [node.id], node.parent, False
            while at is not None and not (found := holds(at)):
                if at.id in known:
                    found = known[at.id]
                    break
                climbed.append(at.id)
                at = at.parent
            known.update(dict.fromkeys(climbed, found))
            return found

        return has_ancestor

    def _descendant(self, holds: Predicate) -> Predicate:
        above: set[str] | None = None

        def has_descendant(node: Node) -> bool:
            nonlocal above
            if above is None:
                above = self._ids_above(holds)
            return node.id in above

        return has_descendant

    def _ids_above(self, holds: Predicate) -> set[str]:
        above: set[str] = set()
        for node in walk(self.source.root):
            if holds(node):
                at = node.parent
                while at is not None and at.id not in above:
                    above.add(at.id)
                    at = at.parent
        return above


def _globs(value: Any) -> Test:
    if not isinstance(value, str):
        return lambda found: False
    pattern = value.casefold()
    return lambda found: isinstance(found, str) and fnmatch.fnmatchcase(found.casefold(), pattern)


# A step of a path glob: None stands for any number of levels.
Step = Callable[[str], bool] | None


def _steps(glob: str) -> list[Step]:
    steps: list[Step] = []
    for slash, segment in _STEP.findall(glob):
        if slash == "//":
            steps.append(None)
        steps.append(_step(segment))
    return steps


def _step(segment: str) -> Step:
    if segment == "**":
        return None
    if segment.startswith("'"):
        name = re.sub(r"\\(.)", r"\1", segment[1:-1]).casefold()
        return lambda found: found == name
    pattern = segment.casefold()
    return lambda found: fnmatch.fnmatchcase(found, pattern)


def _fits(names: list[str], steps: list[Step]) -> bool:
    """Whether the names match the steps from first to last; `reached` are the steps that may come next."""
    reached = _skip({0}, steps)
    for name in names:
        after = set()
        for at in reached:
            if at < len(steps):
                step = steps[at]
                if step is None:
                    after.add(at)
                elif step(name):
                    after.add(at + 1)
        reached = _skip(after, steps)
        if not reached:
            return False
    return len(steps) in reached


def _skip(reached: set[int], steps: list[Step]) -> set[int]:
    """A step for any number of levels may also stand for none."""
    closed = set(reached)
    for at in sorted(reached):
        while at < len(steps) and steps[at] is None:
            at += 1
            closed.add(at)
    return closed
