"""The base of generated stubs: tools as methods, without a transport."""

from typing import TYPE_CHECKING, Any

from apcore_runtime.spec import In, Out, ToolSpec

if TYPE_CHECKING:
    from apcore import Executor, Identity

__all__ = ["InProcessTools"]


class InProcessTools:
    """Calls tools through an Executor on behalf of one identity; what fails is raised in the tools' own terms."""

    def __init__(self, executor: "Executor", identity: "Identity | None" = None) -> None:
        self._executor, self._identity = executor, identity

    async def call(self, spec: ToolSpec[In, Out], arguments: In) -> Out:
        from apcore import Context

        # A context of its own for each call: two calls are not nested in one another.
        context: Context[Any] = Context.create(identity=self._identity)
        try:
            return await spec.call(self._executor, arguments, context)
        except Exception as error:
            restate = getattr(type(self._executor.registry.get(spec.module_id)), "restate_error", None)
            told = error if restate is None else restate(error)
            if told is error:
                raise
            raise told from error
