"""Emitters: pure functions from a program to artifacts, which know neither disk nor formatter."""

from collections.abc import Callable, Iterable

from apcore_compiler.artifacts import Artifact
from apcore_compiler.emit.explorer import emit_explorer
from apcore_compiler.emit.package import emit_package
from apcore_compiler.emit.server import emit_server
from apcore_compiler.emit.stubs import emit_stubs
from apcore_compiler.emit.tools import emit_tools
from apcore_compiler.program import Program

__all__ = ["EMITTERS"]

EMITTERS: tuple[Callable[[Program], Iterable[Artifact]], ...] = (
    emit_package,
    emit_server,
    emit_stubs,
    emit_tools,
    emit_explorer,
)
