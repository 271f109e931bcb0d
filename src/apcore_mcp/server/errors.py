"""What a client is told when a call fails; the log is told the rest."""

from collections.abc import Iterable
from typing import Any

from apcore_host.failures import guidance, is_unexpected, public_details
from apcore_host.sensitive import MASK, scrub

# Set by apcore for whoever raises it: the message may name rules, callers or call chains.
_FIXED_TEXTS = {
    "ACL_DENIED": "Access denied",
    "CALL_DEPTH_EXCEEDED": "Call depth limit exceeded",
    "CIRCULAR_CALL": "Circular call detected",
    "CALL_FREQUENCY_EXCEEDED": "Call frequency limit exceeded",
}
INTERNAL = "Internal error occurred"


class ErrorMapper:
    def to_mcp_error(
        self,
        error: BaseException,
        secrets: Iterable[str] = (),
        missing: dict[str, list[str]] | None = None,
        told: BaseException | None = None,
    ) -> dict[str, Any]:
        """The result of a failed call; no text in it repeats one of `secrets`.

        `missing` are the absent properties by path: apcore says where one is missing, but not which.  `told` is the
        error in the module's own terms; the text stays apcore's, the detail is the module's.
        """
        from apcore.errors import ModuleError

        detail = error if told is None else told
        if not isinstance(detail, ModuleError) or is_unexpected(detail):
            return error_result(INTERNAL, code="GENERAL_INTERNAL_ERROR", traceId=getattr(error, "trace_id", None))
        is_internal = not isinstance(error, ModuleError) or is_unexpected(error)
        text = INTERNAL if is_internal else _text(error, secrets, missing or {})
        known = {"code": detail.code, "retryable": detail.retryable, **public_details(detail, secrets)}
        return error_result(text, *guidance(error, known), traceId=detail.trace_id, **known)

    def not_found(self, tool: str) -> dict[str, Any]:
        return error_result(f"Module not found: {tool}", code="MODULE_NOT_FOUND", retryable=False)


def error_result(*texts: str, **detail: Any) -> dict[str, Any]:
    known = {name: value for name, value in detail.items() if value is not None}
    return {"content": [text_content(text) for text in texts], "isError": True, "_meta": {"apcore/error": known}}


def text_content(text: str) -> dict[str, str]:
    # A lone surrogate cannot be sent; it must not cost the client the whole answer.
    return {"type": "text", "text": text.encode("utf-8", "replace").decode()}


def _text(error: Any, secrets: Iterable[str], missing: dict[str, list[str]]) -> str:
    code, details = error.code, error.details
    if code in _FIXED_TEXTS:
        return _FIXED_TEXTS[code]
    if code == "MODULE_NOT_FOUND":
        return f"Module not found: {details.get('module_id', '')}"
    if code == "MODULE_TIMEOUT":
        return f"Module timed out after {details.get('timeout_ms', 0)}ms"
    if code == "SCHEMA_VALIDATION_ERROR" and _concerns_input(error):
        lines = [_validation_line(entry, secrets, missing) for entry in details.get("errors", ())]
        return "\n".join(["Input validation failed" + (":" if lines else ""), *lines])
    if code in ("GENERAL_INVALID_INPUT", "INVALID_MODULE_ID"):
        return f"Invalid input: {scrub(error.message, secrets)}"
    return f"Module error: {code}"


def _concerns_input(error: Any) -> bool:
    """Whether the client's own arguments are at fault: not the output, and not the input of a call further down."""
    # The pipeline leaves the step that failed in the exception's context; a plain dict schema calls its output input.
    step = getattr(error.__context__, "step_name", None)
    return not error.message.startswith("Output") and step in (None, "input_validation", "middleware_before")


def _validation_line(entry: dict[str, Any], secrets: Iterable[str], missing: dict[str, list[str]]) -> str:
    field = entry.get("field") or str(entry.get("path", "")).strip("/").replace("/", ".")
    code = entry.get("code") or entry.get("keyword") or "invalid"
    if code == "required" and missing.get(field):
        field = f"{field}.{missing[field].pop(0)}".lstrip(".")
    message = str(entry.get("message", ""))
    # A message that quotes a withheld value is replaced, not edited: what is left might still give it away.
    return f"- {field or '(root)'}: {message if MASK not in scrub(message, secrets) else 'Invalid value'} ({code})"
