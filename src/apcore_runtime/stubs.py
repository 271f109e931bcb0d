"""The base of generated stubs: tools as methods, without a transport."""

from typing import TYPE_CHECKING

from apcore_runtime.spec import Caller, In, Out, ToolSpec

if TYPE_CHECKING:
    from apcore import Identity

__all__ = ["InProcessTools"]


class InProcessTools:
    """Calls tools through an Executor on behalf of one identity; a module's own exceptions come through as they are."""

    def __init__(self, executor: Caller, identity: "Identity | None" = None) -> None:
        self._executor, self._identity = executor, identity

    async def call(self, spec: ToolSpec[In, Out], arguments: In) -> Out:
        from apcore import Context

        # A context of its own for each call: two calls are not nested in one another.
        return await spec.call(self._executor, arguments, Context.create(identity=self._identity))
