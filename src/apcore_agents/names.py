"""How tools are named, and the patterns that select them.

External tools live in a namespace of their own, `mcp__<alias>__<tool>`.  No local name can begin so, and an alias holds
no underscore, so that there is nothing to split wrongly and nothing that one server could say to be taken for another.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from apcore.utils.pattern import match_glob

from apcore_mcp.adapters.names import NAME_LIMIT, shorten

__all__ = [
    "EXTERNAL_PREFIX",
    "exposed_name",
    "external_module_id",
    "is_glob",
    "is_pattern",
    "is_server_alias",
    "is_tool_name",
    "is_upstream_name",
    "matches",
    "matching",
    "provider_name",
    "skeleton",
]

EXTERNAL_PREFIX = "mcp__"

# Short enough to stay whole in an exposed name.
_ALIAS = re.compile("(?=.{1,32}$)[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TOOL_NAME = re.compile(f"[A-Za-z0-9_.-]{{1,{NAME_LIMIT}}}")
_UPSTREAM_NAME = re.compile("[A-Za-z0-9_.-]{1,128}")
_PATTERN = re.compile("[A-Za-z0-9_.*?-]{1,128}")
_PART_OF_ID = re.compile("[a-z][a-z0-9_]*")
_DIGEST_LENGTH = 6


# All of these match the whole text: `$` would let a newline through at the end.
def is_server_alias(text: str) -> bool:
    return bool(_ALIAS.fullmatch(text))


def is_tool_name(text: str) -> bool:
    return bool(_TOOL_NAME.fullmatch(text))


def is_upstream_name(text: str) -> bool:
    return bool(_UPSTREAM_NAME.fullmatch(text))


def is_pattern(text: str) -> bool:
    """Whether a pattern can be taken as meant: `*` and `?` are its only wildcards, and classes are not read as text."""
    return bool(_PATTERN.fullmatch(text))


def is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def matches(pattern: str, name: str) -> bool:
    return bool(match_glob(pattern, name)) if is_glob(pattern) else pattern == name


def matching(pattern: str, candidates: Iterable[str]) -> list[str]:
    """All names that a pattern matches; most others are ruled out by the literal parts that they lack."""
    literal = [part for part in re.split("[*?]", pattern) if part]
    likely = [name for name in candidates if all(part in name for part in literal)]
    return [name for name in likely if matches(pattern, name)]


def skeleton(name: str) -> str:
    """What a name looks like to someone in a hurry; two tools must not look the same."""
    return re.sub("[.-]", "_", name.lower())


def exposed_name(alias: str, tool: str) -> str:
    return shorten(f"{EXTERNAL_PREFIX}{alias}__{tool}")


def external_module_id(alias: str, tool: str) -> str:
    """The apcore id of an external tool; a name that apcore would not take ends with a digest of what it was."""
    part = re.sub("[^a-z0-9_]", "_", tool.lower())
    part = part if part[0].isalpha() else f"t{part}"
    if part != tool or not _PART_OF_ID.fullmatch(part):
        part = f"{part}_x{sha256(tool.encode()).hexdigest()[:_DIGEST_LENGTH]}"
    return f"mcp.{alias.replace('-', '_')}.{part}"


def provider_name(name: str) -> str:
    """The name for OpenAI and Anthropic, which take no dots; distinct, because skeletons are."""
    return shorten(name.replace(".", "-"))
