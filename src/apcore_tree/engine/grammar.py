"""The text of a query as terms.

Terms are built while parsing, so that neither parsing nor the limits depend on Python's stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from apcore_tree.errors import InvalidArgument

__all__ = ["Term", "parse_query"]

_LONGEST = 2_000
_MOST_CONDITIONS = 128
_DEEPEST = 32


class Term(NamedTuple):
    kind: str
    parts: tuple[Any, ...]
    depth: int = 1
    conditions: int = 1


def _condition(kind: str) -> Callable[[Any, list[Any]], Term]:
    return lambda _, parts: Term(kind, tuple(str(part) if isinstance(part, Token) else part for part in parts))


class _Terms(Transformer):  # type: ignore[type-arg]
    """Called by the parser for every rule; refuses what grows too large as soon as it does."""

    def _join(self, kind: str, terms: list[Any]) -> Term:
        inner = [term for term in terms if isinstance(term, Term)]
        depth = 1 + max(term.depth for term in inner)
        conditions = sum(term.conditions for term in inner)
        if depth > _DEEPEST or conditions > _MOST_CONDITIONS:
            raise InvalidArgument(
                f"A query has at most {_MOST_CONDITIONS} conditions, nested at most {_DEEPEST} deep", field="queryDsl"
            )
        return Term(kind, tuple(terms), depth, conditions)

    def any_of(self, terms: list[Term]) -> Term:
        return terms[0] if len(terms) == 1 else self._join("any_of", terms)

    def all_of(self, terms: list[Term]) -> Term:
        return terms[0] if len(terms) == 1 else self._join("all_of", terms)

    def negate(self, terms: list[Term]) -> Term:
        return self._join("negate", terms)

    def related(self, terms: list[Any]) -> Term:
        return self._join("related", [str(terms[0]).lower(), terms[1]])

    def label(self, parts: list[Any]) -> str:
        return str(parts[0])

    def text(self, parts: list[Any]) -> str:
        return re.sub(r"\\(.)", r"\1", str(parts[0])[1:-1])

    def number(self, parts: list[Token]) -> int | float:
        digits = str(parts[0])
        return float(digits) if any(mark in digits for mark in ".eE") else int(digits)

    def true(self, parts: list[Any]) -> bool:
        return True

    def false(self, parts: list[Any]) -> bool:
        return False

    def null(self, parts: list[Any]) -> None:
        return None

    def dotted(self, parts: list[Token]) -> str:
        return ".".join(parts)

    def meta(self, parts: list[Token]) -> str:
        return f"${parts[0]}"

    def quoted(self, parts: list[Token]) -> str:
        return str(parts[0])[1:-1]

    tagged = _condition("tagged")
    typed = _condition("typed")
    under = _condition("under")
    path = _condition("path")
    compared = _condition("compared")
    worded = _condition("worded")
    within = _condition("within")
    listed = _condition("listed")
    exists = _condition("exists")
    is_null = _condition("is_null")


@cache
def _parser() -> Lark:
    return Lark.open("query.lark", rel_to=__file__, parser="lalr", transformer=_Terms())


@lru_cache(maxsize=256)
def parse_query(text: str) -> Term:
    if len(text) > _LONGEST:
        raise InvalidArgument(f"A query has at most {_LONGEST} characters", field="queryDsl")
    try:
        return _parser().parse(text)  # type: ignore[return-value]
    except UnexpectedInput as error:
        column = getattr(error, "column", -1)
        expected = sorted(getattr(error, "expected", None) or getattr(error, "allowed", None) or ())
        raise InvalidArgument(
            f"The query cannot be read at column {column}", field="queryDsl", column=column, expected=expected
        ) from None
