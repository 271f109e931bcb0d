"""The catalogue of faults that a build with agents reports, and what was found.

`apcore-mcp rules` lists these after the compiler's own.  A rule that guards something is an error under `strict`, which
is the default; otherwise it warns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["RULES", "Note", "Notes", "Rule", "Severity"]

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`fixed`: there is no safe reading of the fault, so no setting softens it."""

    code: str
    slug: str
    severity: Severity
    why: str
    help: str
    fixed: bool = False


TOOL_UNKNOWN = Rule(
    "APC601",
    "agent-tool-unknown",
    "warning",
    "The agent is meant to have a tool that is not in the pool; it is left out.",
    "Correct the name, lock or select the tool, or remove the entry.",
)
DENY_INERT = Rule(
    "APC602",
    "deny-inert",
    "error",
    "A denial that matches nothing looks like protection and is none.",
    "Correct the pattern, or remove it.",
)
MASK_INERT = Rule(
    "APC603",
    "mask-inert",
    "error",
    "A mask or selection that matches nothing looks like protection and is none.",
    "Correct the pattern, or remove it.",
)
PATTERN_REFUSED = Rule(
    "APC604",
    "pattern-refused",
    "error",
    "Only * and ? are wildcards; a pattern that would quietly match nothing is not guessed at.",
    "Write the names out, or use * and ?.",
)
LOCK_MISSING = Rule(
    "APC605",
    "lock-missing",
    "error",
    "Tools of a server that was never locked have been seen by nobody; none of them is exposed.",
    "Run `apcore-mcp lock`, read the difference, and commit mcp.lock.json.",
)
LOCK_STALE = Rule(
    "APC606",
    "lock-stale",
    "error",
    "The server is configured otherwise than when it was locked, so it may be another program; it is withheld whole.",
    "Run `apcore-mcp lock` for this server, read the difference, and commit mcp.lock.json.",
)
LOCK_CORRUPT = Rule(
    "APC607",
    "lock-corrupt",
    "error",
    "A lock that does not agree with its own digests was edited, or merged badly; nothing in it is believed.",
    "Run `apcore-mcp lock`, read the difference, and commit mcp.lock.json.",
)
TOOL_REFUSED = Rule(
    "APC608",
    "external-tool-refused",
    "warning",
    "The definition of an external tool did not pass screening; the tool is not exposed.",
    "Ask whoever maintains the server; the lock says what was found.",
)
TEXT_INSTRUCTS = Rule(
    "APC609",
    "text-instructs",
    "warning",
    "A description that addresses the model may be an attempt to steer it.",
    "Read the description in mcp.lock.json, and mask the tool if it is not what it should be.",
)
NAME_COLLISION = Rule(
    "APC610",
    "pool-name-collision",
    "error",
    "Two tools with names that differ only in case, dots or dashes are taken for each other.",
    "Rename one of them; names that begin with mcp__ belong to external tools.",
    fixed=True,
)
SUB_AGENT_EXCEEDS = Rule(
    "APC611",
    "sub-agent-exceeds-parent",
    "error",
    "An agent that may start another one has, in effect, the other one's tools too.",
    "Give the parent the tools named, or take them from the sub-agent.",
    fixed=True,
)
SPAWN_UNKNOWN = Rule(
    "APC612",
    "spawn-unknown",
    "error",
    "An agent can start only agents that exist.",
    "Correct the name in `spawn`, or remove it.",
    fixed=True,
)
SPAWN_LIMIT = Rule(
    "APC613",
    "spawn-limit",
    "warning",
    "At the deepest level an agent cannot start others, whatever its tools say.",
    "Raise max_depth if that is not deep enough.",
)
WRITE_UNAPPROVED = Rule(
    "APC614",
    "write-unapproved",
    "info",
    "The configuration lets a tool that changes things run without asking anyone.",
    "Nothing, if that is meant; it is reported so that a reviewer sees it.",
)
SERVER_UNPINNED = Rule(
    "APC615",
    "server-unpinned",
    "warning",
    "A package that is fetched without a version is another program from one day to the next.",
    "Name a version, e.g. npx -y @scope/server@1.2.3 or uvx server==1.2.3.",
)
TOOLS_INHERITED = Rule(
    "APC616",
    "tools-inherited",
    "info",
    "An imported agent without a list of tools has all of them, as in the program it was written for.",
    "Give it a list.",
)
SECRET_LITERAL = Rule(
    "APC617",
    "secret-literal",
    "error",
    "A credential in a configuration file is in the hands of everyone who can read the repository.",
    "Write secret://name or ${VARIABLE} in its place, and revoke the credential.",
    fixed=True,
)
PRIVATE_NETWORK = Rule(
    "APC618",
    "private-network",
    "info",
    "An HTTP tool may reach addresses that are not on the public internet.",
    "Nothing, if that is meant; it is reported so that a reviewer sees it.",
)
HINTS_TRUSTED = Rule(
    "APC619",
    "hints-trusted",
    "info",
    "What an external server says about its own tools decides which of them need approval.",
    "Nothing, if that is meant; otherwise list the readonly tools yourself.",
)

RULES: tuple[Rule, ...] = (
    TOOL_UNKNOWN,
    DENY_INERT,
    MASK_INERT,
    PATTERN_REFUSED,
    LOCK_MISSING,
    LOCK_STALE,
    LOCK_CORRUPT,
    TOOL_REFUSED,
    TEXT_INSTRUCTS,
    NAME_COLLISION,
    SUB_AGENT_EXCEEDS,
    SPAWN_UNKNOWN,
    SPAWN_LIMIT,
    WRITE_UNAPPROVED,
    SERVER_UNPINNED,
    TOOLS_INHERITED,
    SECRET_LITERAL,
    PRIVATE_NETWORK,
    HINTS_TRUSTED,
)


@dataclass(frozen=True, slots=True)
class Note:
    """A fault at a place; `agent` is empty when the whole project is meant."""

    rule: Rule
    severity: Severity
    message: str
    file: str = ""
    agent: str = ""

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.file, self.agent, self.rule.code, self.message)


class Notes:
    """Everything found, in an order that does not depend on how it was found."""

    def __init__(self, *, strict: bool = True) -> None:
        self._strict = strict
        self._found: set[Note] = set()

    def copy(self) -> "Notes":
        other = Notes(strict=self._strict)
        other._found |= self._found
        return other

    def add(self, rule: Rule, message: str, *, file: str = "", agent: str = "") -> None:
        self._found.add(Note(rule, self._severity(rule), message, file, agent))

    def _severity(self, rule: Rule) -> Severity:
        softened = rule.severity == "error" and not self._strict and not rule.fixed
        return "warning" if softened else rule.severity

    def __iter__(self) -> Iterator[Note]:
        return iter(sorted(self._found, key=lambda note: note.order))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def failed(self) -> bool:
        return any(note.severity == "error" for note in self._found)
