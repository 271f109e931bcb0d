"""What the package promises about itself as a whole."""

import ast
import re
import tomllib
import tracemalloc
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

from tests.requirements import requirement
from tests.server.modules import Add, registry_of

from apcore_mcp.server.sdk import SDK
from apcore_mcp.server.tools import LiveTools

SRC = Path(__file__).parents[2] / "src"
PROJECT: dict[str, Any] = tomllib.loads((SRC.parent / "pyproject.toml").read_text(encoding="utf-8"))


@requirement("NFR-MAINT-004", "FR-LOG-004")
def test_every_logger_of_a_server_is_below_apcore_mcp() -> None:
    wrong = []
    for path in (SRC / "apcore_mcp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
                wrong += [path.name] if ast.unparse(node.args[0]) != "__name__" else []
    named = re.compile(r"""getLogger\("(?!apcore_mcp|mcp")""")
    for package in ("apcore_host", "apcore_openai", "apcore_runtime"):
        wrong += [path.name for path in (SRC / package).rglob("*.py") if named.search(path.read_text("utf-8"))]
    assert wrong == []


@requirement("NFR-PERF-003")
def test_a_hundred_tools_fit_into_ten_megabytes() -> None:
    registry = registry_of(**{f"tool{number}": Add() for number in range(100)})
    tracemalloc.start()
    try:
        tools = LiveTools(registry)
        assert tools.count == 100
        assert tracemalloc.get_traced_memory()[0] < 10 * 2**20
    finally:
        tracemalloc.stop()


@requirement("NFR-COMPAT-002", "NFR-COMPAT-003")
def test_the_installed_libraries_are_within_the_declared_ranges() -> None:
    declared = {re.split(r"[<>=]", line)[0]: line for line in PROJECT["project"]["dependencies"]}
    assert declared["apcore"] == "apcore>=0.32,<1.0"
    assert declared["mcp"] == "mcp>=1.23,<3"
    assert version("mcp").startswith(f"{SDK}.")


@requirement("NFR-PORT-002", "NFR-COMPAT-001")
def test_no_dependency_is_tied_to_a_platform_and_python_is_as_apcore_wants_it() -> None:
    assert [line for line in PROJECT["project"]["dependencies"] if ";" in line] == []
    # Every published apcore needs 3.11.
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert requires("apcore") is not None


@requirement("NFR-PORT-001")
def test_what_only_one_system_has_is_never_imported() -> None:
    tied = {"fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "winreg"}
    imported = set()
    for package in ("apcore_host", "apcore_mcp", "apcore_openai", "apcore_runtime"):
        for path in (SRC / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                imported.update([*names, node.module or ""] if isinstance(node, ast.ImportFrom) else names)
    assert imported & tied == set()
