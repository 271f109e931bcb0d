"""The six errors of the tree, and how every other failure is read as one of them.

An error carries a message for a person and `details` for a program: `reason`, `currentVersion`, `retryAfter`,
`suggestion`, `field`, `maxBatch` and the like, each present only where it applies.
"""

from __future__ import annotations

from typing import Any, ClassVar

from apcore.cancel import ExecutionCancelledError
from apcore.errors import (
    ACLDeniedError,
    ApprovalError,
    CallFrequencyExceededError,
    InvalidInputError,
    ModuleDisabledError,
    ModuleError,
    ModuleNotFoundError,
    ModuleTimeoutError,
    SchemaValidationError,
    TaskLimitExceededError,
)

__all__ = [
    "ERRORS",
    "Conflict",
    "Forbidden",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "RateLimited",
    "TreeError",
    "as_tree_error",
]


class TreeError(ModuleError):
    """Base of the six; `audited` says that the service already wrote it down."""

    code_name: ClassVar[str] = "internal"
    audited = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(
            code=self.code_name,
            message=message,
            details={name: value for name, value in details.items() if value is not None},
            suggestion=details.get("suggestion"),
            ai_guidance=message,
        )


class InvalidArgument(TreeError):
    """The request itself is wrong; repeating it will not help."""

    code_name = "invalid_argument"
    _default_retryable = False


class NotFound(TreeError):
    """A node, snapshot, bookmark or ruleset named in the request does not exist."""

    code_name = "not_found"
    _default_retryable = False


class Forbidden(TreeError):
    """The role, the read-only mode or the state of the storage does not allow the call."""

    code_name = "forbidden"
    _default_retryable = False


class Conflict(TreeError):
    """Somebody else was faster; read again (`currentVersion`) and decide anew."""

    code_name = "conflict"
    _default_retryable = True


class RateLimited(TreeError):
    """Too many calls; `retryAfter` seconds are left to wait."""

    code_name = "rate_limited"
    _default_retryable = True


class Internal(TreeError):
    """A fault on this side; the message tells the client nothing about the inside."""

    code_name = "internal"
    _default_retryable = False


ERRORS: dict[str, type[TreeError]] = {
    kind.code_name: kind for kind in (InvalidArgument, NotFound, Forbidden, Conflict, RateLimited, Internal)
}

_OUTCOME_UNKNOWN = "The outcome is unknown: repeat the call with the same idempotencyKey."


def as_tree_error(error: BaseException) -> TreeError:
    """Read any failure of a tool call as one of the six, with the trace id kept."""
    if isinstance(error, TreeError):
        return error
    known = _translate(error)
    # What apcore says is for its caller; it may name call chains and rules.
    known.ai_guidance = None
    known.trace_id = getattr(error, "trace_id", None)
    known.__cause__ = error
    return known


def _translate(error: BaseException) -> TreeError:
    if isinstance(error, SchemaValidationError) and "Output" not in error.message:
        return InvalidArgument(error.message, errors=error.details.get("errors"))
    if isinstance(error, InvalidInputError):
        return InvalidArgument(error.message)
    if isinstance(error, ModuleNotFoundError):
        return NotFound(error.message)
    if isinstance(error, ACLDeniedError):
        return Forbidden("Access denied", reason="role")
    if isinstance(error, ModuleDisabledError):
        return Forbidden("The tool is switched off", reason="disabled")
    if isinstance(error, ApprovalError):
        return Forbidden(
            "Approval is required", reason=error.code.lower(), approvalId=getattr(error, "approval_id", None)
        )
    if isinstance(error, CallFrequencyExceededError | TaskLimitExceededError):
        return RateLimited(error.message, retryAfter=1.0)
    if isinstance(error, ModuleTimeoutError):
        return Internal("The call timed out", reason="timeout", suggestion=_OUTCOME_UNKNOWN)
    if isinstance(error, ExecutionCancelledError):
        return Internal("The call was cancelled", reason="cancelled", suggestion=_OUTCOME_UNKNOWN)
    return Internal("Internal error")
