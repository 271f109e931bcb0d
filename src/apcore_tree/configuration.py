"""What a deployment says about its tree, in a TOML file.

    read_only = false
    tokens = "footprint"
    rate_limit = "60/minute"

    [payload_types.part]
    read_only = ["Number"]
    sensitive = ["Cost"]
    schema = { type = "object", required = ["Number"] }

    [rulesets.catalogue]
    max_depth = 6
    required = { part = ["Supplier"] }

The keys are the fields of `Settings`, `PayloadType` and `Ruleset`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import TypeAdapter, ValidationError

from apcore_tree.engine.node import Json
from apcore_tree.engine.payload_types import OPEN_TYPE, PayloadType
from apcore_tree.engine.rulesets import DEFAULT, STRUCTURE, Ruleset
from apcore_tree.errors import TreeError
from apcore_tree.rate import RateLimit
from apcore_tree.settings import Settings

__all__ = ["Configuration", "read_configuration"]

T = TypeVar("T")


@dataclass(frozen=True)
class Configuration:
    settings: Settings = field(default_factory=Settings)
    payload_types: tuple[PayloadType, ...] = ()
    rulesets: tuple[Ruleset, ...] = ()


def read_configuration(path: Path) -> Configuration:
    """Read the file; a `ValueError` names it, the key, and what is wrong."""
    try:
        return _configuration(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except TreeError as error:
        raise ValueError(f"{path}: {error.message}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _configuration(given: Json) -> Configuration:
    types = _named("payload_types", "name", PayloadType, given.pop("payload_types", {}), {OPEN_TYPE.name})
    rulesets = _named("rulesets", "id", Ruleset, given.pop("rulesets", {}), {STRUCTURE.id, DEFAULT.id})
    settings = _made("", Settings, given)
    _check_settings(settings)
    for where, schema in _schemas(types, rulesets):
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{where}: {error.message}") from error
    return Configuration(settings, types, rulesets)


def _named(table: str, key: str, kind: type[T], entries: Any, built_in: set[str]) -> tuple[T, ...]:
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise ValueError(f"{table}: must be a table of tables")
    if taken := built_in & set(entries):
        raise ValueError(f"{table}.{min(taken)}: is built in")
    return tuple(_made(f"{table}.{name}.", kind, {key: name, **entry}) for name, entry in entries.items())


def _made(prefix: str, kind: type[T], values: Json) -> T:
    if unknown := set(values) - {known.name for known in fields(kind)}:  # type: ignore[arg-type]
        raise ValueError(f"{prefix}{min(unknown)}: is not a known key")
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{prefix}{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _check_settings(settings: Settings) -> None:
    RateLimit(settings.rate_limit)
    for name, value in vars(settings).items():
        if type(value) in (int, float) and value <= 0:
            raise ValueError(f"{name}: must be more than 0")


def _schemas(types: tuple[PayloadType, ...], rulesets: tuple[Ruleset, ...]) -> Iterator[tuple[str, Json]]:
    for kind in types:
        yield f"payload_types.{kind.name}.schema", kind.schema
    for ruleset in rulesets:
        for name, schema in ruleset.payload_schemas.items():
            yield f"rulesets.{ruleset.id}.payload_schemas.{name}", schema
