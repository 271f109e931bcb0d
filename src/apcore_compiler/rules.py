"""The catalogue of faults the compiler reports.

A rule names the fault, so that "allow description-missing" reads well.  Codes by stage:
APC0xx loading, 1xx names, 2xx schemas, 3xx text, 5xx policy; 6xx are about agents, and stand in `apcore_agents`.
"""

import importlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["RULES", "Rule", "Severity", "agent_rules", "as_rule"]


class Severity(StrEnum):
    """An error withholds the tool it is about, and fails the command; the rest is built."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Rule:
    """`fixed`: its level cannot be changed."""

    code: str
    slug: str
    severity: Severity
    why: str
    help: str
    fixed: bool = False


MODULE_LOAD_FAILED = Rule(
    "APC001",
    "module-load-failed",
    Severity.ERROR,
    "A module that cannot be loaded is missing from every artifact.",
    "Mend the file, or give it a name that begins with _ if it is a helper.",
)
MODULE_ID_INVALID = Rule(
    "APC002",
    "module-id-invalid",
    Severity.ERROR,
    "apcore ids are dotted lower-case words; anything else cannot be registered, nor become a tool name.",
    "Rename the file or give the module an id of a-z, 0-9 and _, each part beginning with a letter.",
)
MODULE_ID_DUPLICATE = Rule(
    "APC003",
    "module-id-duplicate",
    Severity.ERROR,
    "With two modules of one id it would depend on the load order which of them a call reaches.",
    "Give each module an id of its own.",
)
TOOL_NAME_COLLISION = Rule(
    "APC101",
    "tool-name-collision",
    Severity.ERROR,
    "Two tools that a client knows by one name cannot both be called.",
    "Rename one of the modules.",
)
TOOL_NAME_TOO_LONG = Rule(
    "APC102",
    "tool-name-too-long",
    Severity.WARNING,
    "OpenAI and Anthropic accept names of at most 64 characters; a shortened one tells a model less.",
    "Choose a shorter module id.",
)
ALIAS_DUPLICATE = Rule(
    "APC103",
    "alias-duplicate",
    Severity.WARNING,
    "An alias that two modules share, or that is another module's id, misleads whoever reads it.",
    "Give each module an alias of its own, or none.",
)
ROOT_NOT_OBJECT = Rule(
    "APC201",
    "root-not-object",
    Severity.ERROR,
    "A tool's arguments are an object: no client can send anything else.",
    "Wrap the value in an object with one property.",
)
REFERENCE_UNRESOLVABLE = Rule(
    "APC202",
    "reference-unresolvable",
    Severity.ERROR,
    "A reference that leads nowhere makes the schema mean nothing.",
    "Add the definition, or correct the reference; only references within the schema are followed.",
)
REFERENCE_CIRCULAR = Rule(
    "APC203",
    "reference-circular",
    Severity.ERROR,
    "A recursive schema cannot be written out without references.",
    'Build with --refs keep (refs = "keep") to leave $defs and $ref in the MCP schema.',
)
STRICT_LOSSY = Rule(
    "APC204",
    "strict-lossy",
    Severity.WARNING,
    "Strict mode cannot express part of the schema, so a model could not send what the module accepts.",
    "Describe the parts named with explicit properties, or accept that this tool is not strict.",
)
SCHEMA_KEYWORD_DROPPED = Rule(
    "APC205",
    "schema-keyword-dropped",
    Severity.INFO,
    "The model is told in words what strict mode has no keyword for, and the Executor still enforces it.",
    "Nothing, unless the words in the description read badly.",
)
SENSITIVE_DEFAULT_EXPOSED = Rule(
    "APC206",
    "sensitive-default-exposed",
    Severity.ERROR,
    "The default of an x-sensitive property would be committed, and shown to every client.",
    "Remove the default, and read the value where the module runs.",
)
SCHEMA_INVALID = Rule(
    "APC207",
    "schema-invalid",
    Severity.ERROR,
    "A schema that is not JSON Schema is refused by clients, or validates nothing.",
    "Correct the schema at the path named.",
)
NESTING_TOO_DEEP = Rule(
    "APC208",
    "nesting-too-deep",
    Severity.ERROR,
    "Parsers give up on data that is nested without end, and with them every client.",
    "Flatten the schema or the metadata.",
)
DESCRIPTION_MISSING = Rule(
    "APC301",
    "description-missing",
    Severity.WARNING,
    "A model chooses tools by description; an empty one is never chosen well.",
    "Say in a sentence what the module does, and when to use it.",
)
HIDDEN_CHARACTERS = Rule(
    "APC302",
    "hidden-characters",
    Severity.ERROR,
    "Characters that a reviewer cannot see can carry instructions that a model reads.",
    "Remove them from the source.",
)
DESCRIPTION_TOO_LONG = Rule(
    "APC303",
    "description-too-long",
    Severity.WARNING,
    "OpenAI refuses a function description of more than 1,024 characters.",
    "Keep the description short, and move the rest into the module's documentation.",
)
ANNOTATIONS_CONTRADICT = Rule(
    "APC501",
    "annotations-contradict",
    Severity.WARNING,
    "A host that trusts the read-only hint will not ask before it lets a destructive tool run.",
    "Decide whether the module changes anything, and drop the other annotation.",
)

RULES: tuple[Rule, ...] = (
    MODULE_LOAD_FAILED,
    MODULE_ID_INVALID,
    MODULE_ID_DUPLICATE,
    TOOL_NAME_COLLISION,
    TOOL_NAME_TOO_LONG,
    ALIAS_DUPLICATE,
    ROOT_NOT_OBJECT,
    REFERENCE_UNRESOLVABLE,
    REFERENCE_CIRCULAR,
    STRICT_LOSSY,
    SCHEMA_KEYWORD_DROPPED,
    SENSITIVE_DEFAULT_EXPOSED,
    SCHEMA_INVALID,
    NESTING_TOO_DEEP,
    DESCRIPTION_MISSING,
    HIDDEN_CHARACTERS,
    DESCRIPTION_TOO_LONG,
    ANNOTATIONS_CONTRADICT,
)


def agent_rules() -> tuple[Rule, ...]:
    """The rules about agents; none where what they need is not installed."""
    try:
        catalogue = importlib.import_module("apcore_agents.rules").RULES
    except ImportError:
        return ()
    return tuple(as_rule(rule, rule.severity) for rule in catalogue)


def as_rule(rule: Any, severity: str) -> Rule:
    """A rule of `apcore_agents` as one of the compiler's."""
    return Rule(rule.code, rule.slug, Severity(severity), rule.why, rule.help, rule.fixed)
