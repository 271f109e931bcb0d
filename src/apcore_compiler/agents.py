"""The way to `apcore_agents`, which only a project with agents needs."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apcore_compiler.artifacts import Artifact
from apcore_compiler.findings import Findings
from apcore_compiler.program import Program, Tool
from apcore_compiler.rules import as_rule
from apcore_compiler.settings import BadSettings
from apcore_compiler.snapshot import relative_path

__all__ = ["compile_agents"]


def compile_agents(config: Path, program: Program, out: Path, findings: Findings) -> Iterator[Artifact]:
    """What is written about the agents that a settings file defines."""
    agents = _package("build")
    local = [_local_tool(tool) for tool in program.tools]
    try:
        built = agents.build_agents(config, local, relative_path(config, out))
    except _package("settings").BadProject as error:
        raise BadSettings(str(error)) from error
    for note in built.notes:
        findings.add(as_rule(note.rule, note.severity), note.message, file=_place(note.file, config, program))
    for artifact in built.artifacts:
        yield Artifact(artifact.path, artifact.text)


def _package(module: str) -> Any:
    return importlib.import_module(f"apcore_agents.{module}")


def _local_tool(tool: Tool) -> Any:
    declared = tool.record.dependencies
    ids = tuple(str(each["module_id"]) for each in declared if isinstance(each, dict) and "module_id" in each)
    return _package("tools").LocalTool(tool.mcp, tool.record.module_id, ids)


def _place(file: str, config: Path, program: Program) -> str:
    """A finding's file as the compiler gives it: relative to the extensions."""
    root = program.snapshot.root
    return file if not file or root is None else relative_path(config.parent / file, root) or file
