"""What an external tool's definition must be like before a model may see it.

Structure is refused; wording, which no rule can judge, is only pointed out.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from apcore_agents.canonical import canonical
from apcore_agents.names import is_upstream_name, skeleton

__all__ = ["MAX_TOOLS", "Flaw", "screen"]

MAX_TOOLS = 512
MAX_DESCRIPTION_BYTES = 8 * 1024
MAX_SCHEMA_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 4_000

_SCHEMAS = ("inputSchema", "outputSchema")
# Format, control, private, surrogate, unassigned: tags, bidirectional marks, zero width, escape sequences.
_HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs"}
_INSTRUCTS = re.compile(
    r"<\s*/?\s*(important|system|instructions?)\s*>"
    r"|\bignore (all|any|the|previous|prior)\b|\bdo not (tell|mention|inform|reveal)\b"
    r"|\b(before|when) (using|calling) this tool\b|\byou must (always|first|never)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Flaw:
    level: Literal["error", "warning"]
    code: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"level": self.level, "code": self.code, "text": self.text}


def screen(tools: list[dict[str, Any]]) -> dict[str, list[Flaw]]:
    """The flaws of each tool by name; a name that is no name is given as its `repr`."""
    flaws: dict[str, list[Flaw]] = {}
    for number, tool in enumerate(tools):
        name = tool.get("name")
        key = name if isinstance(name, str) and is_upstream_name(name) else repr(name)
        flaws.setdefault(key, []).extend(_flaws(tool, number))
    for name, other in _twins(list(flaws)):
        flaws[name].append(Flaw("error", "name-ambiguous", f"looks like {other}"))
    for name, count in _counts(tools):
        flaws[name].append(Flaw("error", "name-duplicate", f"is listed {count} times"))
    return flaws


def _flaws(tool: dict[str, Any], number: int) -> Iterator[Flaw]:
    if not (isinstance(tool.get("name"), str) and is_upstream_name(tool["name"])):
        yield Flaw("error", "name-invalid", "is not 1 to 128 of A-Z, a-z, 0-9, _, - and .")
        return
    if number >= MAX_TOOLS:
        yield Flaw("error", "too-many-tools", f"is beyond the first {MAX_TOOLS}")
    size = len(str(tool.get("description") or "").encode("utf-8", "replace"))
    if size > MAX_DESCRIPTION_BYTES:
        yield Flaw("error", "description-too-long", f"has {size} bytes of description")
    for side in _SCHEMAS:
        if tool.get(side) is not None:
            yield from _schema_flaws(side, tool[side])
    yield from _text_flaws(tool)


def _schema_flaws(side: str, schema: Any) -> Iterator[Flaw]:
    if not isinstance(schema, dict):
        yield Flaw("error", "schema-not-object", f"{side} is not an object")
        return
    nodes, depth = _measure(schema)
    if nodes > MAX_NODES or depth > MAX_DEPTH:
        yield Flaw("error", "schema-too-complex", f"{side} has {nodes} nodes, {depth} deep")
        return
    try:
        size = len(canonical(schema))
    except ValueError:
        yield Flaw("error", "schema-not-json", f"{side} holds a number that JSON does not have")
        return
    if size > MAX_SCHEMA_BYTES:
        yield Flaw("error", "schema-too-large", f"{side} has {size} bytes")
    if side == "inputSchema" and schema.get("type") != "object":
        yield Flaw("error", "schema-not-object", "inputSchema does not describe an object")
    for reference in _references(schema):
        if not reference.startswith("#"):
            yield Flaw("error", "reference-remote", f"{side} refers to {reference[:100]!r}")


def _measure(schema: Any) -> tuple[int, int]:
    """How many nodes there are, and how deep; without recursion, and without counting past what is refused."""
    nodes, depth, level = 0, 0, [schema]
    while level and depth <= MAX_DEPTH and nodes <= MAX_NODES:
        nodes += len(level)
        level = [child for node in level for child in _children(node)]
        depth += bool(level)
    return nodes, depth


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(node.get(keyword), str):
                yield node[keyword]
    for child in _children(node):
        yield from _references(child)


def _text_flaws(tool: dict[str, Any]) -> Iterator[Flaw]:
    texts = [text for key in ("title", "description", *_SCHEMAS, "annotations") for text in _texts(tool.get(key))]
    hidden = sorted({f"U+{ord(character):04X}" for text in texts for character in text if _is_hidden(character)})
    if hidden:
        yield Flaw("error", "hidden-characters", " ".join(hidden[:6]))
    if found := next((match for text in texts if (match := _INSTRUCTS.search(text))), None):
        yield Flaw("warning", "text-instructs", found[0])


def _is_hidden(character: str) -> bool:
    if character.isascii():
        return not character.isprintable() and character not in "\n\t"
    return unicodedata.category(character) in _HIDDEN


def _texts(node: Any) -> Iterator[str]:
    """Every string in a value, keys too, in a loop that depth cannot break."""
    level = [node]
    for _ in range(MAX_DEPTH + 1):
        for item in level:
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict):
                yield from (key for key in item if isinstance(key, str))
        level = [child for item in level for child in _children(item)]


def _twins(names: list[str]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(skeleton(name), name)
        if first != name:
            yield from ((name, first), (first, name))


def _counts(tools: list[dict[str, Any]]) -> list[tuple[str, int]]:
    names = [tool["name"] for tool in tools if isinstance(tool.get("name"), str) and is_upstream_name(tool["name"])]
    return [(name, count) for name in dict.fromkeys(names) if (count := names.count(name)) > 1]
