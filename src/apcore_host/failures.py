"""What is known of a failed call: whether it was meant for the caller, how the module puts it, what the log is told."""

import json
import logging
import traceback
from collections.abc import Iterable
from typing import Any

from apcore_host.sensitive import scrub

__all__ = ["guidance", "is_unexpected", "log_failure", "public_details", "restated"]

# Details that tell a client how to go on.  Every other detail may name callers, paths or rules.
PUBLIC = {
    "changedIds",
    "column",
    "currentVersion",
    "currentViewVersion",
    "expected",
    "field",
    "maxBatch",
    "outcome",
    "reason",
    "rejected",
    "retryAfter",
    "suggestion",
}


def is_unexpected(error: BaseException) -> bool:
    """Whether apcore wrapped an exception that the module did not mean for its caller."""
    return getattr(error, "code", None) == "MODULE_EXECUTE_ERROR" and getattr(error, "cause", None) is not None


def restated(error: BaseException, module: Any) -> BaseException:
    """The error in the module's own terms, where its class offers `restate_error`: a gate knows only apcore's."""
    # Asked of the class, since a proxy would load the module to answer, for a caller who may have been denied.
    restate = getattr(type(module), "restate_error", None)
    return error if restate is None else restate(error)


def log_failure(logger: logging.Logger, error: BaseException, name: str, secrets: list[str]) -> None:
    from apcore.errors import ModuleError

    cause: Any = getattr(error, "cause", None) if is_unexpected(error) else error
    message = cause.message if isinstance(cause, ModuleError) else str(cause)
    text = f"Tool call error: {name} - {type(cause).__name__}: {message}"
    if not isinstance(cause, ModuleError):
        text += "\n" + "".join(traceback.format_exception(cause))
    logger.error("%s", scrub(text, secrets))


def public_details(error: Any, secrets: Iterable[str]) -> dict[str, Any]:
    """What an error says that its caller may know, without any of `secrets`."""
    from apcore.errors import ModuleError

    # Those of apcore's own errors are about files, rules and call chains, whatever they are called.
    if type(error) is not ModuleError and _is_apcores(error):
        return {}
    known = {name: value for name, value in error.details.items() if name in PUBLIC and _is_plain(value)}
    if error.ai_guidance:
        known["aiGuidance"] = error.ai_guidance
    return {name: _scrubbed(value, secrets) for name, value in known.items()}


def guidance(error: BaseException, known: dict[str, Any]) -> list[str]:
    """What is `known` of an error as a text beside the first one, where the module explains it to the model.

    Hosts show a model the texts of a result, and keep `_meta` to themselves.
    """
    explained = getattr(error, "ai_guidance", None) and "aiGuidance" in known
    return [json.dumps(known, ensure_ascii=False)] if explained else []


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) or (isinstance(value, list) and all(map(_is_plain, value)))


def _scrubbed(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, list):
        return [_scrubbed(item, secrets) for item in value]
    return scrub(value, secrets) if isinstance(value, str) else value


def _is_apcores(error: BaseException) -> bool:
    return type(error).__module__.startswith("apcore.")
