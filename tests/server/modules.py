"""Small real modules that the tests of the server register."""

import asyncio
import datetime
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from apcore import Context, Executor, ModuleAnnotations, Registry
from apcore.errors import InvalidInputError
from pydantic import BaseModel, Field

from apcore_mcp import elicit, report_progress


class Anything(BaseModel):
    model_config: ClassVar[Any] = {"extra": "allow"}


class Numbers(BaseModel):
    a: int
    b: int = 1


class Sum(BaseModel):
    total: int


class Add:
    """Synchronous, with both schemas, documentation and tags."""

    description = "Add two numbers."
    documentation = "Adds `a` and `b`."
    input_schema = Numbers
    output_schema = Sum
    tags: ClassVar = ["public", "stable"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"total": inputs["a"] + inputs.get("b", 1)}


class AsyncAdd(Add):
    documentation = ""
    tags: ClassVar = ["public"]

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # type: ignore[override]
        return {"total": inputs["a"] + inputs.get("b", 1)}


class Function:
    """Does what it is given, without schemas of any weight."""

    input_schema = Anything
    description = "A function of the test."
    tags: ClassVar[list[str]] = []
    annotations: ModuleAnnotations | None = None
    documentation: str | None = None

    def __init__(self, function: Any, output: Any = Anything, input_schema: Any = Anything, **attributes: Any) -> None:
        self.output_schema, self.input_schema = output, input_schema
        self._function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        result = self._function(inputs, context)
        return await result if asyncio.iscoroutine(result) else result


def raising(error: BaseException, **attributes: Any) -> Function:
    def fail(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        raise error

    return Function(fail, **attributes)


def returning(value: Any, **attributes: Any) -> Function:
    return Function(lambda inputs, context: value, **attributes)


class Stream:
    """Yields its chunks one by one."""

    description = "Count."
    input_schema = Anything
    output_schema = Anything
    annotations = ModuleAnnotations(streaming=True)

    def __init__(self, *chunks: Any, output: Any = Anything) -> None:
        self._chunks, self.output_schema = chunks, output

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"atomic": True}

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if callable(chunk):
                await chunk(context)
            else:
                yield chunk


class Waiter:
    """Waits until its call is cancelled, and remembers that it was."""

    description = "Wait."
    input_schema = Anything
    output_schema = Anything

    def __init__(self) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        self.started.set()
        while not context.cancel_token.is_cancelled:
            await asyncio.sleep(0.01)
        self.cancelled.set()
        return {}


class Secret(BaseModel):
    user: str
    password: str = Field(min_length=4, json_schema_extra={"x-sensitive": True})


class Account(BaseModel):
    user: str
    token: str = Field(json_schema_extra={"x-sensitive": True})


async def tell_progress(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
    await report_progress(context, 1, total=3, message="one")
    await report_progress(context, 2, message="two")
    return {"done": True}


async def ask_name(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {"answer": await elicit(context, "Your name?", schema)}


def who(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
    identity = context.identity
    return {"id": identity.id, "roles": list(identity.roles)} if identity else {"id": None}


def odd_values(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
    return {"when": datetime.date(2026, 1, 2), "where": Path("a") / "b", "bytes": b"x"}


def registry_of(**modules: Any) -> Registry:
    """A registry of the given modules; `__` in a name stands for the dot of its id."""
    registry = Registry()
    for name, module in modules.items():
        registry.register(name.replace("__", "."), module)
    return registry


def shop() -> Registry:
    return registry_of(math__add=Add(), math__async_add=AsyncAdd(), api__add=Add(), api__hidden=returning({}))


def executor_of(registry: Registry, **options: Any) -> Executor:
    return Executor(registry, **options)


def invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message=message)
