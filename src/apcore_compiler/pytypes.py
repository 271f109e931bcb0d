"""Describe a JSON Schema as Python types.

The description is an over-approximation: every value the schema accepts fits the type,
while some values the type accepts fail the schema.  The Executor, not the type, has the
last word.
"""

import json
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ANNOTATION_NAMES",
    "AnyOf",
    "DictOf",
    "Field",
    "ListOf",
    "OneValueOf",
    "PyType",
    "Record",
    "RecordRef",
    "Scalar",
    "Typer",
    "names_in",
]


@dataclass(frozen=True, slots=True)
class Scalar:
    name: str


@dataclass(frozen=True, slots=True)
class OneValueOf:
    values: tuple[str | int | bool | None, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "PyType"


@dataclass(frozen=True, slots=True)
class DictOf:
    value: "PyType"


@dataclass(frozen=True, slots=True)
class AnyOf:
    options: tuple["PyType", ...]


@dataclass(frozen=True, slots=True)
class RecordRef:
    name: str


PyType = Scalar | OneValueOf | ListOf | DictOf | AnyOf | RecordRef

ANY, NONE = Scalar("Any"), Scalar("None")
SCALARS = {
    "string": Scalar("str"),
    "integer": Scalar("int"),
    "number": Scalar("float"),
    "boolean": Scalar("bool"),
    "null": NONE,
}


# What an annotation may be made of, besides records.
ANNOTATION_NAMES = ("Any", "Literal", "NotRequired", "bool", "dict", "float", "int", "list", "str")


def names_in(kind: PyType) -> Iterator[str]:
    """The names that the annotation of a type mentions."""
    match kind:
        case Scalar(name) | RecordRef(name):
            yield name
        case OneValueOf():
            yield "Literal"
        case ListOf(item):
            yield "list"
            yield from names_in(item)
        case DictOf(value):
            yield from ("dict", "str")
            yield from names_in(value)
        case AnyOf(options):
            for option in options:
                yield from names_in(option)


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    type: PyType
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Record:
    """A TypedDict; its fields may only refer to records that come before it, or to itself."""

    name: str
    description: str
    fields: tuple[Field, ...]

    @property
    def has_class_syntax(self) -> bool:
        # A field called `list` would hide the type from the fields around it.
        hidden = {"NotRequired", *(name for field in self.fields for name in names_in(field.type))}
        return all(_is_plain_name(field.key) and field.key not in hidden for field in self.fields)


def _is_plain_name(key: str) -> bool:
    # Python normalises other letters and mangles a leading __ in a class body; either would change the key.
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")


def pascal_case(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return f"_{name}" if name[:1].isdigit() else name


class Typer:
    """Describes the schemas of one tool, and collects the records that the descriptions refer to."""

    def __init__(self, prefix: str, taken: set[str]) -> None:
        self.records: list[Record] = []
        self._prefix = prefix
        self._taken = taken
        self._by_shape: dict[str, str] = {}
        self._by_reference: dict[str, PyType] = {}
        self._root: dict[str, Any] = {}

    def root(self, schema: dict[str, Any], suffix: str) -> PyType:
        """Describe a tool's input or output, which is named after the tool even when it has no fields."""
        self._root = schema
        self._by_reference = {}
        if self._is_record(schema) or _takes_nothing(schema):
            return self._record(schema, suffix)
        return self._type(schema, suffix)

    def _type(self, schema: Any, hint: str) -> PyType:
        if not isinstance(schema, dict):
            return ANY
        if "$ref" in schema:
            return self._referenced(schema["$ref"], hint)
        if "const" in schema:
            return _one_value_of([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _one_value_of(schema["enum"])
        for keyword_ in ("anyOf", "oneOf"):
            # Beside properties a branch describes only part of the object.
            if keyword_ in schema and "properties" not in schema:
                return _any_of([self._type(branch, hint) for branch in schema[keyword_]])
        if isinstance(schema.get("type"), list):
            return _any_of([self._type({**schema, "type": one}, hint) for one in schema["type"]])
        return self._typed(schema, hint)

    def _typed(self, schema: dict[str, Any], hint: str) -> PyType:
        kind = schema.get("type")
        if kind == "array":
            items = [*schema.get("prefixItems", ()), schema.get("items", True)]
            return ListOf(_any_of([self._type(item, f"{hint}Item") for item in items]))
        if kind == "object" and self._is_record(schema):
            return self._record(schema, schema.get("title") or hint)
        if kind == "object":
            named = (value for key in ("properties", "patternProperties") for value in schema.get(key, {}).values())
            values = [*named, schema.get("additionalProperties", True)]
            return DictOf(_any_of([self._type(value, f"{hint}Value") for value in values]))
        return SCALARS.get(str(kind), ANY)

    def _is_record(self, schema: dict[str, Any]) -> bool:
        # A TypedDict has no room for further keys, so a schema that asks for them is a dict.
        closed = not {"allOf", "anyOf", "oneOf", "$ref", "patternProperties"} & schema.keys()
        keys = schema.get("properties", {})
        # No type checker takes a key without a name.
        return closed and bool(keys) and "" not in keys and not schema.get("additionalProperties", False)

    def _record(self, schema: dict[str, Any], hint: str) -> RecordRef:
        shape = json.dumps(schema, sort_keys=True)
        if shape not in self._by_shape:
            name = self._by_shape[shape] = self._name(hint)
            fields = tuple(self._fields(schema))
            self.records.append(Record(name, str(schema.get("description", "")), fields))
        return RecordRef(self._by_shape[shape])

    def _fields(self, schema: dict[str, Any]) -> Iterator[Field]:
        required = set(schema.get("required", ()))
        for key, value in schema.get("properties", {}).items():
            description = str(value.get("description", "")) if isinstance(value, dict) else ""
            yield Field(key, self._type(value, key), key in required, description)

    def _referenced(self, reference: Any, hint: str) -> PyType:
        key = str(reference)
        if key not in self._by_reference:
            # Reserve the answer first: a property may refer back to this definition.
            self._by_reference[key] = ANY
            name = key.rpartition("/")[2]
            self._by_reference[key] = self._type(_look_up(self._root, key), name or hint)
        return self._by_reference[key]

    def _name(self, hint: str) -> str:
        # Prefixed, so that two tools may each have a `Node`.
        name = base = self._prefix + (pascal_case(hint) or "Record")
        number = 2
        while name in self._taken:
            name, number = f"{base}{number}", number + 1
        self._taken.add(name)
        return name


def _takes_nothing(schema: dict[str, Any]) -> bool:
    return not (schema.get("properties") or schema.get("patternProperties") or schema.get("additionalProperties", True))


def _look_up(root: Any, reference: str) -> Any:
    node = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node.get(step.replace("~1", "/").replace("~0", "~"), True) if isinstance(node, dict) else True
    return node


def _one_value_of(values: list[Any]) -> PyType:
    # Literal takes no floats, lists or objects.
    if values and all(value is None or isinstance(value, str | int) for value in values):
        return OneValueOf(tuple(dict.fromkeys(values))) if not _mixes_bool(values) else _any_of(_scalars(values))
    return ANY


def _mixes_bool(values: list[Any]) -> bool:
    # 1 and True are one key to Python.
    return any(isinstance(value, bool) for value in values) and any(type(value) is int for value in values)


def _scalars(values: list[Any]) -> list[PyType]:
    return [NONE if value is None else Scalar(type(value).__name__) for value in values]


def _any_of(options: list[PyType]) -> PyType:
    flat = [part for option in options for part in (option.options if isinstance(option, AnyOf) else (option,))]
    distinct = tuple(dict.fromkeys(flat))
    if ANY in distinct:
        return ANY
    return distinct[0] if len(distinct) == 1 else AnyOf(distinct)
