"""The Executor behind a server: nothing that wants approval runs without it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from apcore import Executor, Registry
from apcore.acl import ACL
from apcore.approval import ApprovalRequest, ApprovalResult
from apcore.errors import SchemaValidationError
from apcore.middleware import Middleware
from apcore.policy import ExecutionPolicy
from jsonschema import Draft202012Validator

from apcore_host.sensitive import mask
from apcore_runtime.bundles import Bundle

__all__ = ["ElicitedApproval", "PublishedSchemas", "governed_executor"]

# A question nobody answers must not stay open: the answer could fit what is asked by then.
PATIENCE = 300.0
QUESTION = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Run this call once, exactly as shown."}
    },
    "required": ["approve"],
}

# Asks the user behind a context: (context, message, schema) to the answer, or None.
Elicit = Callable[[Any, str, dict[str, Any]], Awaitable[Any]]


def governed_executor(registry: Registry, elicit: Elicit) -> Executor:
    """The Executor of a server; what bundled tools ask for, in rules and steps, holds for them alone."""
    bundles: list[Bundle] = list(getattr(registry, "bundles", {}).values())
    rules = [rule for bundle in bundles for rule in bundle.rules()]
    executor = Executor(
        registry,
        acl=ACL(rules, default_effect="allow") if rules else None,
        policy=ExecutionPolicy(strict=True),
        approval_handler=ElicitedApproval(elicit),
    )
    for bundle in bundles:
        bundle.install(executor)
    return executor


class ElicitedApproval:
    """Asks the user for each call anew; whoever cannot be asked has not approved.

    The question is part of the call it is about, so that an answer holds for that module, those arguments and that
    caller, once.  There are no approval tokens to keep, and none is accepted.
    """

    def __init__(self, elicit: Elicit) -> None:
        self._elicit = elicit

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResult:
        try:
            asking = self._elicit(request.context, _question(request), QUESTION)
            answer = await asyncio.wait_for(asking, PATIENCE)
        except TimeoutError:
            return ApprovalResult(status="timeout", reason="Nobody answered in time")
        if isinstance(answer, dict) and answer.get("approve") is True:
            return ApprovalResult(status="approved", approved_by="elicitation")
        return ApprovalResult(status="rejected", reason="Not approved by the user")

    async def check_approval(self, approval_id: str) -> ApprovalResult:
        return ApprovalResult(status="rejected", reason="Approvals cannot be carried over from another call")


def _question(request: ApprovalRequest) -> str:
    schema = getattr(request.context.executor.registry.get(request.module_id), "input_schema", None)
    arguments = mask(request.arguments, schema.model_json_schema()) if schema is not None else request.arguments
    shown = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    return f"Approve this call of {request.module_id}?\n\n{shown}"


class PublishedSchemas(Middleware):
    """Holds arguments to the schema that clients see, which may say more than the module's own model.

    As middleware it runs after the ACL: a caller who is denied learns nothing from a schema.
    """

    def __init__(self, schema_of: Callable[[str], dict[str, Any] | None]) -> None:
        super().__init__()
        self._schema_of = schema_of
        self._validators: dict[str, Draft202012Validator] = {}

    def before(self, module_id: str, inputs: dict[str, Any], context: Any) -> None:
        schema = self._schema_of(module_id)
        if schema is None:
            return
        validator = self._validators.get(module_id)
        if validator is None or validator.schema is not schema:
            validator = self._validators[module_id] = Draft202012Validator(schema)
        errors = [
            {"field": ".".join(map(str, error.absolute_path)), "code": error.validator, "message": error.message}
            for error in validator.iter_errors(inputs)
        ]
        if errors:
            raise SchemaValidationError(message="Input validation failed", errors=errors)
