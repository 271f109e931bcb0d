"""The servers that are measured, each in an environment of its own, over the same tools."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from modules import write_modules

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "apcore-mcp-benchmarks"

FASTMCP_SERVER = """
import importlib, pathlib, sys
from fastmcp import FastMCP
sys.path.insert(0, {tools!r})
server = FastMCP("benchmark")
for file in sorted(pathlib.Path({tools!r}).glob("*/*.py")):
    name = file.parent.name + "." + file.stem
    server.tool(importlib.import_module(name).execute, name=name)
if sys.argv[1:2] == ["http"]:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="ERROR")
else:
    server.run(show_banner=False, log_level="ERROR")
"""

FASTMCP_TOOL = '''"""Benchmark tool {number}."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class Output(BaseModel):
    total: float
    accepted: bool
    reference: str


async def execute(
    customer: Annotated[str, Field(description="Who asks")],
    quantity: Annotated[int, Field(ge=1, le=1000, description="How many")],
    price: Annotated[float, Field(description="Price of one")] = 1.0,
    currency: Annotated[Literal["EUR", "GBP", "USD"], Field(description="Currency of the price")] = "EUR",
    express: Annotated[bool, Field(description="Whether to hurry")] = False,
    note: Annotated[str | None, Field(description="Anything else")] = None,
    tags: Annotated[list[str], Field(description="Labels")] = [],
    reference: Annotated[str, Field(description="The customer's own number")] = "",
    discount: Annotated[float | None, Field(description="Fraction taken off")] = None,
    region: Annotated[str, Field(description="Where it goes")] = "north",
) -> Output:
    """Quote number {number}: what a quantity costs, with discount and delivery."""
    return Output(total=quantity * price, accepted=True, reference=reference)
'''

# The least a server on this SDK can do: one static tool, ordinary imports.
FLOOR_1 = """
import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server = Server("floor")

@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [types.Tool(name="area0.tool0", description="The only tool.", inputSchema={"type": "object"})]

@server.call_tool(validate_input=False)
async def call_tool(name: str, arguments: dict) -> list[types.TextContent]:
    return [types.TextContent(type="text", text="{}")]

async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""

FLOOR_2 = """
import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    tool = types.Tool(name="area0.tool0", description="The only tool.", input_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool])

async def call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="{}")])

server = Server("floor", on_list_tools=list_tools, on_call_tool=call_tool)

async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    """`prepare` writes what the server needs for n tools into a directory, and returns the command for stdio."""

    name: str
    requirements: tuple[str, ...]
    prepare: Callable[[Path, Path, int], list[str]]
    http: tuple[str, ...] | None = None

    def python(self) -> Path:
        """The interpreter of this contestant's environment, which is made when it is missing."""
        environment = CACHE / self.name.replace(" ", "-")
        python = environment / "bin" / "python"
        stamp = environment / "requirements.txt"
        wanted = "\n".join(self.requirements)
        if not stamp.is_file() or stamp.read_text() != wanted:
            print(f"installing {self.name} ...", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "-qq", *self.requirements], check=True)
            stamp.write_text(wanted)
        return python


def _compiled(python: Path, directory: Path, count: int) -> list[str]:
    write_modules(directory / "extensions", count)
    build = ["-m", "apcore_mcp", "build", "extensions", "-o", "generated"]
    subprocess.run([python, *build], cwd=directory, check=True, capture_output=True)
    return [str(python), "-m", "generated", "--log-level", "ERROR"]


def _peer(python: Path, directory: Path, count: int) -> list[str]:
    write_modules(directory / "extensions", count)
    return [str(python), "-m", "apcore_mcp", "--extensions-dir", "extensions", "--log-level", "ERROR"]


def _fastmcp(python: Path, directory: Path, count: int) -> list[str]:
    write_modules(directory / "tools", count, template=FASTMCP_TOOL)
    server = directory / "server.py"
    server.write_text(FASTMCP_SERVER.format(tools=str(directory / "tools")))
    return [str(python), str(server)]


def _script(text: str) -> Callable[[Path, Path, int], list[str]]:
    def prepare(python: Path, directory: Path, count: int) -> list[str]:
        (directory / "floor.py").write_text(text)
        return [str(python), "floor.py"]

    return prepare


OURS_HTTP = ("--transport", "streamable-http", "--port", "{port}")

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("ours mcp1", ("-e", str(ROOT), "mcp<2"), _compiled, OURS_HTTP),
        Contestant("ours mcp2", ("-e", str(ROOT), "mcp>=2,<3"), _compiled, OURS_HTTP),
        Contestant("apcore-mcp 0.23.3", ("apcore-mcp==0.23.3",), _peer, OURS_HTTP),
        Contestant("fastmcp 3", ("fastmcp>=3,<4",), _fastmcp, ("http", "{port}")),
        Contestant("fastmcp 4", ("fastmcp>=4,<5",), _fastmcp, ("http", "{port}")),
        Contestant("floor mcp1", ("mcp<2",), _script(FLOOR_1)),
        Contestant("floor mcp2", ("mcp>=2,<3",), _script(FLOOR_2)),
    )
}
