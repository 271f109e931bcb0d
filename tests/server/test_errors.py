"""The texts of section 7.5, and what a client is never told."""

import json
from typing import Any

import pytest
from apcore.errors import (
    ACLDeniedError,
    CallDepthExceededError,
    CallFrequencyExceededError,
    CircularCallError,
    ConfigError,
    InvalidInputError,
    ModuleError,
    ModuleLoadError,
    ModuleNotFoundError,
    ModuleTimeoutError,
    SchemaValidationError,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.requirements import requirement
from tests.server.clients import connected
from tests.server.modules import Account, Add, Function, Secret, Sum, raising, registry_of, returning

from apcore_host.sensitive import MASK
from apcore_mcp.server.errors import ErrorMapper

WIDTH = {"field": "width", "code": "int_type", "message": "Input should be a valid integer"}
HEIGHT = {"field": "parameters.height", "code": "missing", "message": "Field required"}


def text_of(error: BaseException) -> str:
    result = ErrorMapper().to_mcp_error(error)
    assert result["isError"] is True
    return str(result["content"][0]["text"])


@requirement("FR-ERROR-001")
@pytest.mark.parametrize("module_id", ["image.resize", "comfyui.workflow.execute", ""])
def test_a_missing_module_is_named(module_id: str) -> None:
    assert text_of(ModuleNotFoundError(module_id=module_id)) == f"Module not found: {module_id}"


@requirement("FR-ERROR-002")
def test_a_validation_error_lists_every_field_with_message_and_code() -> None:
    error = SchemaValidationError(message="Input validation failed", errors=[WIDTH, HEIGHT])
    assert text_of(error) == (
        "Input validation failed:\n- width: Input should be a valid integer (int_type)"
        "\n- parameters.height: Field required (missing)"
    )
    assert text_of(SchemaValidationError(message="Input validation failed", errors=[])) == "Input validation failed"


@requirement("FR-ERROR-003")
@pytest.mark.parametrize("caller", ["mcp_client_123", None])
def test_a_denied_caller_is_told_only_that(caller: str | None) -> None:
    result = ErrorMapper().to_mcp_error(ACLDeniedError(caller_id=caller, target_id="admin.delete_all"))
    assert result["content"][0]["text"] == "Access denied"
    assert "mcp_client_123" not in str(result)
    assert "admin.delete_all" not in str(result)


@requirement("FR-ERROR-004")
@pytest.mark.parametrize("milliseconds", [0, 30000, 60000])
def test_a_timeout_gives_its_duration(milliseconds: int) -> None:
    error = ModuleTimeoutError(module_id="slow.module", timeout_ms=milliseconds)
    assert text_of(error) == f"Module timed out after {milliseconds}ms"


@requirement("FR-ERROR-005")
def test_invalid_input_gives_the_modules_words() -> None:
    error = InvalidInputError(message="module_id must be a non-empty string")
    assert text_of(error) == "Invalid input: module_id must be a non-empty string"


CHAIN = ["a.module", "b.module", "a.module"]


@requirement("FR-ERROR-006", "FR-ERROR-007", "FR-ERROR-008")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CallDepthExceededError(depth=33, max_depth=32, call_chain=CHAIN), "Call depth limit exceeded"),
        (CircularCallError(module_id="a.module", call_chain=CHAIN), "Circular call detected"),
        (
            CallFrequencyExceededError(module_id="a.module", count=4, max_repeat=3, call_chain=CHAIN),
            "Call frequency limit exceeded",
        ),
    ],
    ids=["depth", "circle", "frequency"],
)
def test_a_safety_limit_is_named_without_the_call_chain(error: ModuleError, text: str) -> None:
    result = ErrorMapper().to_mcp_error(error)
    assert result["content"][0]["text"] == text
    assert "a.module" not in str(result)


@requirement("FR-ERROR-009")
@pytest.mark.parametrize(
    "error", [RuntimeError("disk full"), TypeError("bad types"), OSError("/etc/passwd"), KeyError("k")]
)
def test_an_unexpected_exception_is_an_internal_error_and_no_more(error: Exception) -> None:
    result = ErrorMapper().to_mcp_error(error)
    assert result["content"][0]["text"] == "Internal error occurred"
    assert str(error) not in str(result)
    assert type(error).__name__ not in str(result)


@requirement("FR-ERROR-010")
def test_any_other_module_error_gives_its_code() -> None:
    assert text_of(ConfigError(message="secret path /etc/app.toml")) == "Module error: CONFIG_INVALID"


class Conflict(ModuleError):
    def __init__(self) -> None:
        super().__init__(
            code="conflict",
            message="somebody was faster",
            details={"currentVersion": 7, "retryAfter": 1.5, "path": "/srv/data", "caller_id": "root"},
            retryable=True,
        )


def test_what_helps_a_program_to_go_on_is_in_meta_and_nothing_else_is() -> None:
    result = ErrorMapper().to_mcp_error(Conflict())
    assert result["content"][0]["text"] == "Module error: conflict"
    assert result["_meta"]["apcore/error"] == {
        "code": "conflict",
        "retryable": True,
        "currentVersion": 7,
        "retryAfter": 1.5,
    }


def test_guidance_that_a_module_gives_reaches_the_model_as_a_second_text() -> None:
    error = ModuleError(
        code="conflict",
        message="lost to caller root",
        details={"currentVersion": "t7", "caller_id": "root"},
        retryable=True,
        ai_guidance="Read the order again; hunter2 has changed it.",
    )
    result = ErrorMapper().to_mcp_error(error, secrets=["hunter2"])
    first, second = (content["text"] for content in result["content"])
    assert first == "Module error: conflict"
    assert json.loads(second) == result["_meta"]["apcore/error"]
    assert json.loads(second) == {
        "code": "conflict",
        "retryable": True,
        "currentVersion": "t7",
        "aiGuidance": f"Read the order again; {MASK} has changed it.",
    }


def test_what_apcore_says_of_its_own_errors_stays_one_text() -> None:
    error = ConfigError(message="secret path /etc/app.toml", ai_guidance="Look into /etc/app.toml")
    result = ErrorMapper().to_mcp_error(error)
    assert [content["text"] for content in result["content"]] == ["Module error: CONFIG_INVALID"]


@requirement("FR-ERROR-011")
@settings(max_examples=50)
@given(st.sampled_from([RuntimeError, OSError, ConfigError, InvalidInputError, SchemaValidationError]), st.text())
def test_every_error_is_marked_as_one(kind: type[Exception], message: str) -> None:
    error = kind(message=message) if issubclass(kind, ModuleError) else kind(message)
    assert ErrorMapper().to_mcp_error(error)["isError"] is True


class Order(BaseModel):
    class Line(BaseModel):
        isbn: str
        copies: int

    customer: str
    lines: list[Line]


@requirement("FR-ERROR-002")
@pytest.mark.anyio
async def test_a_client_learns_which_field_is_wrong_and_which_is_missing() -> None:
    async with connected(registry_of(order=returning({}, input_schema=Order))) as client:
        text = await client.text("order", {"lines": [{"isbn": "1"}, {"isbn": 2, "copies": 1}]})
    assert text.splitlines() == [
        "Input validation failed:",
        "- customer: Field required (required)",
        "- lines.0.copies: Field required (required)",
        "- lines.1.isbn: Input should be a valid string (type)",
    ]


@pytest.mark.anyio
async def test_output_that_fails_its_schema_is_the_modules_fault_however_the_schema_is_written() -> None:
    plain = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    registry = registry_of(model=returning({"total": "x"}, output=Sum), plain=returning({"total": "x"}, output=plain))
    async with connected(registry) as client:
        assert await client.text("model") == "Module error: SCHEMA_VALIDATION_ERROR"
        assert await client.text("plain") == "Module error: SCHEMA_VALIDATION_ERROR"


@pytest.mark.anyio
async def test_wrong_input_of_a_call_further_down_is_not_the_clients_fault() -> None:
    async def call_add(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        result: dict[str, Any] = await context.executor.call_async("add", {"a": "no number"}, context)
        return result

    async with connected(registry_of(outer=Function(call_add), add=Add())) as client:
        assert await client.text("outer") == "Module error: SCHEMA_VALIDATION_ERROR"


SECRET = "hunter2-Ω"


def quoting(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
    raise InvalidInputError(message=f"{inputs['password']!r} is no good")


def crashing(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
    raise RuntimeError(f"cannot log in with {inputs['password']}")


PLAIN_SECRET = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "password": {"type": "integer", "x-sensitive": True}},
    "additionalProperties": {"type": "array", "items": {"type": "integer"}, "x-sensitive": True},
}


@requirement("NFR-SEC-002", "NFR-SEC-003")
@pytest.mark.anyio
async def test_a_sensitive_argument_is_repeated_neither_to_the_client_nor_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = registry_of(
        quoting=Function(quoting, input_schema=Secret),
        crashing=Function(crashing, input_schema=Secret),
        plain=returning({}, input_schema=PLAIN_SECRET),
    )
    async with connected(registry) as client:
        assert await client.text("quoting", {"user": "ada", "password": SECRET}) == (
            "Invalid input: '***REDACTED***' is no good"
        )
        assert await client.text("crashing", {"user": "ada", "password": SECRET}) == "Internal error occurred"
        text = await client.text("plain", {"user": 1, "password": SECRET, "more": [SECRET]})
    assert "- password: Invalid value (type)" in text
    assert SECRET not in text
    assert SECRET not in "\n".join(record.getMessage() for record in caplog.records if "apcore_mcp" in record.name)


@requirement("NFR-SEC-002")
@pytest.mark.anyio
async def test_sensitive_output_is_masked_and_the_rest_is_left_alone() -> None:
    account = {"user": "author", "token": SECRET}
    registry = registry_of(account=returning(account, output=Account))
    async with connected(registry) as client:
        result = await client.call("account")
    assert result["structuredContent"] == {"user": "author", "token": "***REDACTED***"}
    assert SECRET not in str(result)


@requirement("NFR-SEC-002")
@pytest.mark.anyio
async def test_sensitive_output_is_masked_even_where_its_schema_cannot_be_published() -> None:
    nullable = {"type": ["object", "null"], "properties": {"token": {"type": "string", "x-sensitive": True}}}
    async with connected(registry_of(account=returning({"token": SECRET}, output=nullable))) as client:
        assert "outputSchema" not in (await client.tools())[0]
        assert await client.text("account") == '{"token": "***REDACTED***"}'


@requirement("NFR-SEC-002")
@pytest.mark.anyio
async def test_sensitive_parts_of_streamed_chunks_are_masked_too() -> None:
    from tests.server.modules import Stream

    stream = Stream({"user": "ada", "token": SECRET}, output=Account)
    async with connected(registry_of(account=stream)) as client:
        result = await client.call_with_progress("account")
    assert SECRET not in str(client.progress) + str(result)


KINDS = [RuntimeError, OSError, ModuleError, ACLDeniedError, ModuleTimeoutError, ConfigError, ModuleLoadError]
PRIVATE = st.sampled_from(["/home/ada/secret.py", "caller-4711", SECRET])


@requirement("NFR-SEC-002")
@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    private=PRIVATE,
    where=st.sampled_from(["message", "detail", "cause"]),
)
def test_no_error_path_gives_away_a_path_a_caller_or_a_secret(kind: type[Exception], private: str, where: str) -> None:
    import asyncio

    error: Any
    if kind is ModuleError:
        error = ModuleError(code="SOME_CODE", message=private, details={"path": private, "caller_id": private})
    elif kind is ACLDeniedError:
        error = ACLDeniedError(caller_id=private, target_id=private)
    elif kind is ModuleTimeoutError:
        error = ModuleTimeoutError(module_id=private, timeout_ms=5)
    elif kind is ConfigError:
        error = ConfigError(message=private)
    elif kind is ModuleLoadError:
        error = ModuleLoadError(module_id="failing", reason=private)
    else:
        error = kind(private)
    if where == "detail" and isinstance(error, ModuleError):
        error.details["reason"] = SECRET
    if where == "cause":
        error.__cause__ = RuntimeError(private)

    async def result() -> dict[str, Any]:
        from tests.server.modules import executor_of

        from apcore_mcp.server.router import ExecutionRouter, Unattended
        from apcore_mcp.server.tools import LiveTools

        registry = registry_of(failing=raising(error, input_schema=Secret))
        router = ExecutionRouter(LiveTools(registry), lambda: executor_of(registry))
        return await router.handle_call("failing", {"user": "ada", "password": SECRET}, Unattended())

    answer = str(asyncio.run(result()))
    assert private not in answer
    assert SECRET not in answer
    assert "Traceback" not in answer
    assert ".py" not in answer
