"""What went wrong with a call, in the terms in which a caller can act on it.

`outcome` says whether the call can be repeated without doing something twice: it was `not_started`, it `failed`, or it
is `unknown` what it did.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apcore.errors import ModuleError

__all__ = ["Category", "Failure", "Outcome", "ToolError", "failure_of"]

Category = Literal[
    "invalid_argument",
    "not_found",
    "forbidden",
    "conflict",
    "rate_limited",
    "internal",
    "timeout",
    "unavailable",
    "cancelled",
    "approval_required",
]
Outcome = Literal["not_started", "failed", "unknown"]
# `reads`: only a call that changes nothing may be repeated.
Retry = Literal["yes", "no", "reads"]

_KNOWN: Mapping[str, tuple[Category, Outcome, Retry]] = {
    "TOOL_NOT_FOUND": ("not_found", "not_started", "no"),
    "MODULE_NOT_FOUND": ("not_found", "not_started", "no"),
    "TOOL_WITHHELD": ("unavailable", "not_started", "no"),
    "AGENT_NOT_FOUND": ("not_found", "not_started", "no"),
    "SPAWN_DENIED": ("forbidden", "not_started", "no"),
    "STEP_LIMIT_REACHED": ("rate_limited", "not_started", "no"),
    "RUN_EXPIRED": ("timeout", "not_started", "no"),
    "SCHEMA_VALIDATION_ERROR": ("invalid_argument", "not_started", "no"),
    "GENERAL_INVALID_INPUT": ("invalid_argument", "not_started", "no"),
    "INVALID_ARGUMENT": ("invalid_argument", "not_started", "no"),
    "ACL_DENIED": ("forbidden", "not_started", "no"),
    "METHOD_DENIED": ("forbidden", "not_started", "no"),
    "EGRESS_DENIED": ("forbidden", "not_started", "no"),
    "REDIRECT_DENIED": ("forbidden", "failed", "no"),
    "APPROVAL_PENDING": ("approval_required", "not_started", "no"),
    "APPROVAL_DENIED": ("forbidden", "not_started", "no"),
    "APPROVAL_TIMEOUT": ("forbidden", "not_started", "no"),
    "SECRET_UNAVAILABLE": ("internal", "not_started", "no"),
    "RATE_LIMITED": ("rate_limited", "not_started", "yes"),
    "UPSTREAM_UNAVAILABLE": ("unavailable", "not_started", "yes"),
    "CIRCUIT_BREAKER_OPEN": ("unavailable", "not_started", "yes"),
    "UPSTREAM_TIMEOUT": ("timeout", "unknown", "reads"),
    "MODULE_TIMEOUT": ("timeout", "unknown", "reads"),
    "UPSTREAM_DISCONNECTED": ("unavailable", "unknown", "reads"),
    "UPSTREAM_TOOL_ERROR": ("internal", "failed", "no"),
    "MODULE_EXECUTE_ERROR": ("internal", "failed", "no"),
    "UPSTREAM_PROTOCOL": ("internal", "unknown", "no"),
    "CALL_DEPTH_EXCEEDED": ("forbidden", "not_started", "no"),
    "CALL_FREQUENCY_EXCEEDED": ("rate_limited", "not_started", "no"),
    "CIRCULAR_CALL": ("forbidden", "not_started", "no"),
    "EXECUTION_CANCELLED": ("cancelled", "unknown", "no"),
    "GENERAL_INTERNAL_ERROR": ("internal", "unknown", "no"),
}
_UNKNOWN: tuple[Category, Outcome, Retry] = ("internal", "unknown", "no")
_INTERNAL = "Internal error occurred"
# Written by us, for whoever called; the messages of others may name rules, callers or paths.
_OURS = frozenset(
    code for code in _KNOWN if code.startswith(("TOOL_", "UPSTREAM_", "AGENT_", "SPAWN_", "STEP_", "RUN_", "SECRET_"))
) | {"EGRESS_DENIED", "INVALID_ARGUMENT", "METHOD_DENIED", "REDIRECT_DENIED"}
_TEXTS = {
    "ACL_DENIED": "Access denied",
    "APPROVAL_DENIED": "The call was not approved",
    "APPROVAL_TIMEOUT": "Nobody answered the request for approval",
    "APPROVAL_PENDING": "The call waits for approval",
    "SCHEMA_VALIDATION_ERROR": "Input validation failed",
    "MODULE_TIMEOUT": "The tool took too long",
    "EXECUTION_CANCELLED": "The call was cancelled",
}


class ToolError(ModuleError):
    """A failure that this package reports; apcore passes it on unchanged."""

    def __init__(self, code: str, message: str, *, readonly: bool = False, **details: Any) -> None:
        _, outcome, retry = _KNOWN.get(code, _UNKNOWN)
        retryable = retry == "yes" or (retry == "reads" and readonly)
        super().__init__(code=code, message=message, details={"outcome": outcome, **details}, retryable=retryable)


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    category: Category
    message: str
    retryable: bool
    outcome: Outcome
    source: Literal["upstream", "tool", "policy"]
    details: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        """Whether the message was written for whoever called."""
        return self.code in _OURS

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "category": self.category,
            "message": self.message,
            "retryable": self.retryable,
            "retry_after_ms": self.details.get("retry_after_ms"),
            "outcome": self.outcome,
            "user_fixable": self.category == "invalid_argument",
            "suggestion": self.details.get("suggestion"),
            "source": self.source,
        }


def failure_of(error: BaseException, *, readonly: bool = False) -> Failure:
    """Classify whatever a call raised; nothing of it that its author did not mean for a caller is passed on."""
    if not isinstance(error, ModuleError):
        return Failure("GENERAL_INTERNAL_ERROR", "internal", _INTERNAL, False, "unknown", "tool", {})
    category, outcome, retry = _KNOWN.get(error.code, _UNKNOWN)
    retryable = retry == "yes" or (retry == "reads" and readonly)
    if error.code not in _KNOWN and error.retryable is not None:
        retryable = bool(error.retryable)
    if error.code == "MODULE_EXECUTE_ERROR" and not readonly:
        # Where in its work a module gave up is not known.
        outcome = "unknown"
    message = error.message if error.code in _OURS else _TEXTS.get(error.code, f"Module error: {error.code}")
    return Failure(error.code, category, message, retryable, outcome, _source(error.code), dict(error.details or {}))


def _source(code: str) -> Literal["upstream", "tool", "policy"]:
    if code.startswith("UPSTREAM_"):
        return "upstream"
    refused = _KNOWN.get(code, _UNKNOWN)[1] == "not_started"
    return "policy" if refused else "tool"
