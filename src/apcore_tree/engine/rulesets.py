"""Rulesets: what a good tree looks like, checked on demand and never enforced on writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from apcore_tree.engine.node import Json, Node
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.predicates import sort_key
from apcore_tree.engine.properties import MISSING, read
from apcore_tree.errors import NotFound

__all__ = ["Issue", "Ruleset", "Rulesets"]


@dataclass(frozen=True)
class Issue:
    """`path` is a JSON Pointer into the payload; empty means the node as a whole."""

    rule: str
    severity: str
    path: str
    message: str

    def describe(self) -> Json:
        return {"ruleId": self.rule, "severity": self.severity, "path": self.path, "message": self.message}


@dataclass(frozen=True)
class Ruleset:
    """`required`, `allowed_children` and `payload_schemas` go by payload type; `unique_by` names a property that
    differs among siblings."""

    id: str
    payload_schemas: Mapping[str, Json] = field(default_factory=dict)
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allowed_children: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_depth: int | None = None
    max_children: int | None = None
    unique_by: str | None = None
    structure_only: bool = False

    @cached_property
    def _validators(self) -> dict[str, Draft202012Validator]:
        return {name: Draft202012Validator(schema) for name, schema in self.payload_schemas.items()}

    def lint(self, node: Node, types: PayloadTypes) -> Iterator[Issue]:
        """What is wrong with the node's payload by itself."""
        if self.structure_only:
            return
        kind, data = node.payload.type, node.payload.data
        for name in self.required.get(kind, ()):
            if read(data, name) in (MISSING, None, ""):
                yield Issue("required-missing", "error", f"/{_pointer(name)}", f"{name} is required")
        declared = types.of(node.payload)
        for error in self._validators.get(kind, declared.validator).iter_errors(data):
            where = "".join(f"/{_pointer(str(part))}" for part in error.absolute_path)
            yield Issue("schema-violated", "error", where, declared.wording(error))
        for name, value in data.items():
            if isinstance(value, str) and value != value.strip():
                yield Issue("text-untrimmed", "warning", f"/{_pointer(name)}", "begins or ends with white space")

    def check(self, node: Node, depth: int, types: PayloadTypes) -> Iterator[Issue]:
        """What is wrong with the node in its place, payload included."""
        yield from self.lint(node, types)
        kind = node.payload.type
        if kind not in types.names:
            yield Issue("type-unknown", "error", "", f"the payload type {kind!r} is not registered")
        if self.max_depth is not None and depth > self.max_depth:
            yield Issue("depth-exceeded", "error", "", f"depth {depth} is below the allowed {self.max_depth}")
        if self.max_children is not None and len(node.children) > self.max_children:
            yield Issue("children-exceeded", "error", "", f"{len(node.children)} children, {self.max_children} allowed")
        allowed = self.allowed_children.get(kind)
        if allowed is not None:
            for child in node.children:
                if child.payload.type not in allowed:
                    yield Issue("child-not-allowed", "error", "", f"{child.payload.type} under {kind}: {child.id}")
        if self.unique_by is not None:
            yield from self._duplicates(node, self.unique_by)

    def _duplicates(self, node: Node, name: str) -> Iterator[Issue]:
        seen: set[Any] = set()
        for child in node.children:
            key = sort_key(read(child.payload.data, name))
            if key in seen:
                yield Issue("sibling-duplicate", "warning", "", f"{name} is not unique among siblings: {child.id}")
            elif key[0] != 9:
                seen.add(key)


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace(".", "/")


STRUCTURE = Ruleset("structure", structure_only=True)
DEFAULT = Ruleset("default", unique_by="Name")


class Rulesets:
    def __init__(self, rulesets: tuple[Ruleset, ...] = ()) -> None:
        self._by_id = {ruleset.id: ruleset for ruleset in (STRUCTURE, DEFAULT, *rulesets)}
        self.ids = sorted(self._by_id)

    def __getitem__(self, ruleset_id: str) -> Ruleset:
        try:
            return self._by_id[ruleset_id]
        except KeyError:
            raise NotFound(
                f"There is no ruleset {ruleset_id!r}", suggestion=f"use one of: {', '.join(self.ids)}"
            ) from None
