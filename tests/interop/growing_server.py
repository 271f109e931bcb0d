"""The example modules and one more, which registers another when it is called.

Takes the options of `apcore-mcp serve` that it needs: --transport and --port.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from apcore import Registry
from apcore.decorator import FunctionModule

from apcore_mcp import serve
from apcore_runtime.loading import register_directory

registry = Registry()
register_directory(Path(__file__).parents[2] / "examples" / "extensions", registry)


def register(module_id: str, function: Callable[[], dict[str, str]]) -> None:
    registry.register(module_id, FunctionModule(function, module_id=module_id, description=function.__doc__))


def opening_hours() -> dict[str, str]:
    """When the branch is open."""
    return {"open": "9 to 5"}


def open_branch() -> dict[str, str]:
    """Open a branch, which brings a tool of its own."""
    register("branch.opening_hours", opening_hours)
    return {"opened": "branch"}


register("shop.open_branch", open_branch)
parser = argparse.ArgumentParser()
parser.add_argument("--transport", default="stdio")
parser.add_argument("--port", type=int, default=8000)
arguments = parser.parse_args()
serve(registry, transport=arguments.transport, port=arguments.port, dynamic=True, log_level="INFO")
