"""Read a directory that `apcore-mcp build` wrote.

Opening a surface reads no more than the tool list; what is known per tool is read when the
tool is first asked for, so that the cost of starting does not grow with the number of modules.
"""

import hashlib
import importlib
import importlib.util
import json
import logging
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apcore_runtime.registry import SurfaceRegistry
    from apcore_runtime.spec import ToolSpec

__all__ = ["NotASurface", "Surface", "load"]

logger = logging.getLogger("apcore_mcp.runtime")


class NotASurface(ValueError):
    """The directory was not written by `apcore-mcp build`."""


class Surface:
    """The prebuilt tool list, and the way to the modules behind it."""

    def __init__(self, directory: Path, extensions_dir: Path | None = None) -> None:
        self.directory = directory.resolve()
        self._extensions_dir = extensions_dir
        first, *self._lines, last = self._read("tools.json").splitlines() or [b"", b""]
        # A conflict marker, or the hand of a formatter: better refused than sent to a client.
        if (first, last) != (b'{"tools":[', b"]}") or not all(line.startswith(b'{"name":"') for line in self._lines):
            raise NotASurface(f"{self.directory / 'tools.json'} is not as `apcore-mcp build` wrote it; build it again")

    @cached_property
    def package(self) -> ModuleType:
        """The generated package, imported under a name that no other directory has."""
        return _import_package(self.directory)

    @property
    def name(self) -> str:
        return str(self.package.NAME)

    @property
    def version(self) -> str | None:
        version: str | None = self.package.VERSION
        return version

    @property
    def source(self) -> Path | None:
        """The extensions directory: the one given, else the one recorded at build time."""
        if self._extensions_dir is not None:
            return self._extensions_dir.resolve()
        return (self.directory / self.package.SOURCE).resolve() if self.package.SOURCE else None

    @property
    def count(self) -> int:
        return len(self._lines)

    def tools_list(self) -> bytes:
        """The result of tools/list, ready for the wire."""
        return b'{"tools":[%s]}' % b"".join(self._lines)

    @cached_property
    def _line_of(self) -> dict[str, int]:
        # Every line begins {"name":"..."; a module id needs no JSON escapes.
        return {line[9 : line.index(b'"', 9)].decode(): number for number, line in enumerate(self._lines)}

    @property
    def names(self) -> list[str]:
        return list(self._line_of)

    def tool(self, name: str) -> dict[str, Any]:
        """One entry of the tool list; `KeyError` when there is none."""
        tool: dict[str, Any] = json.loads(self._lines[self._line_of[name]].rstrip(b","))
        return tool

    @cached_property
    def docs(self) -> dict[str, str]:
        """The documentation of the modules that have some, by module id."""
        documents: dict[str, str] = json.loads(self._read("docs.json"))
        return documents

    def spec(self, name: str) -> "ToolSpec[Any, Any]":
        """What the generated code says about a tool; imports the module of its namespace."""
        server = importlib.import_module(f"{self.package.__name__}.server")
        namespace = server.NAMESPACES[name.partition(".")[0] if "." in name else ""]
        tools: dict[str, ToolSpec[Any, Any]] = importlib.import_module(f"{server.__name__}.{namespace}").TOOLS
        return tools[name]

    @property
    def bundles(self) -> tuple[str, ...]:
        """The bundles whose tools are among these."""
        names: tuple[str, ...] = self.package.BUNDLES
        return names

    def registry(self, options: Mapping[str, Mapping[str, str]] | None = None) -> "SurfaceRegistry":
        """A registry whose modules are loaded at their first call.

        `options` are those of bundled tools, such as `{"tree": {"store": "sqlite:tree.db"}}`.
        """
        from apcore_runtime.registry import SurfaceRegistry

        return SurfaceRegistry(self, options or {})

    def warn_if_changed(self, file: str, digest: str) -> None:
        """Log that a module's file is not the one that was compiled."""
        built = self._source_digests.get(file)
        if built is not None and built != digest:
            logger.warning("%s has changed since the build; run `apcore-mcp build` to bring the tools up to date", file)

    @cached_property
    def _source_digests(self) -> dict[str, str]:
        sources: dict[str, str] = json.loads(self._read("manifest.json"))["sources"]
        return sources

    def _read(self, name: str) -> bytes:
        try:
            return (self.directory / name).read_bytes()
        except OSError as error:
            raise NotASurface(f"{self.directory} holds no {name}; build it with `apcore-mcp build`") from error


def load(directory: Path | str, extensions_dir: Path | None = None) -> Surface:
    """Open a directory written by `apcore-mcp build`; `extensions_dir` overrides the recorded place of the modules."""
    return Surface(Path(directory), extensions_dir)


def _import_package(directory: Path) -> ModuleType:
    name = f"apcore_generated_{hashlib.sha256(str(directory).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    if spec is None or spec.loader is None:
        raise NotASurface(f"{directory} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package
