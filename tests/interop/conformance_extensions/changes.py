"""A tool that changes the list of tools, for servers that follow it."""

from apcore import Context, module
from apcore.decorator import FunctionModule

CHANGING = "test_changing"


def changing() -> dict[str, str]:
    return {"text": "Here today, gone tomorrow."}


@module(id="test_trigger_tool_change", description="Adds a tool, or takes it away again.")
def trigger_tool_change(context: Context) -> dict[str, str]:
    registry = context.executor.registry
    if registry.has(CHANGING):
        registry.unregister(CHANGING)
    else:
        registry.register(CHANGING, FunctionModule(changing, module_id=CHANGING, description="Comes and goes."))
    return {"text": "Changed."}
