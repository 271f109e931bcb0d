"""The generated package itself: what it is called, where its modules are, and how to run it."""

from collections.abc import Iterator

from apcore_compiler.artifacts import GENERATED_BY, Artifact
from apcore_compiler.emit.quoting import render
from apcore_compiler.program import Program

__all__ = ["emit_package"]


def emit_package(program: Program) -> Iterator[Artifact]:
    header = f"{GENERATED_BY}  Source sha256:{program.snapshot.digest}."
    bundles = tuple(sorted({tool.record.bundle for tool in program.tools if tool.record.bundle}))
    values = {"header": header, "settings": program.settings, "source": program.source, "bundles": bundles}
    yield Artifact("__init__.py", render("package/__init__.py.j2", **values))
    yield Artifact("__main__.py", render("package/__main__.py.j2"))
