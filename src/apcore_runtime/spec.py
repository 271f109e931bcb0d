"""What the generated code says about a tool, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

In = TypeVar("In", bound=Mapping[str, object])
Out = TypeVar("Out", bound=Mapping[str, object])


class Caller(Protocol):
    """The part of apcore's `Executor` that a typed wrapper needs."""

    async def call_async(self, module_id: str, inputs: dict[str, Any] | None = None, context: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec(Generic[In, Out]):
    """One tool: which module it is, where its code lives, and what apcore needs to know before loading it.

    Schemas and description are not repeated here: the tool's line in tools.json has them.
    """

    module_id: str
    # Where the module is from: a bundle that a server provides, or an entry of a file.
    bundle: str | None = None
    source: str | None = None
    entry: str = ""
    version: str = "1.0.0"
    is_async: bool = False
    # Optional parts of the module's interface, which apcore detects by their presence.
    hooks: tuple[str, ...] = ()
    # Which of "input" and "output" are plain JSON Schema, to be validated without the module.
    plain_schemas: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    annotations: Mapping[str, Any] | None = None
    # Anything else apcore reads: examples, metadata, dependencies, resources, display.
    details: Mapping[str, Any] = field(default_factory=dict)

    async def call(self, executor: Caller, arguments: In, context: Any = None) -> Out:
        """Run the tool through the Executor, with all of its gates."""
        return cast(Out, await executor.call_async(self.module_id, dict(arguments), context))
