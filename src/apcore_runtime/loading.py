"""Load the modules of an extensions directory, one file at a time.

Every kind of module is found: classes with pydantic or plain dict schemas, `@multi_class`
classes, `@module` functions and `*.binding.yaml` entries.  A file that cannot be loaded
costs its own modules and is reported with file and line; the others are not touched.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import apcore
import yaml
from apcore.bindings import BindingLoader
from apcore.decorator import FunctionModule
from apcore.errors import ModuleError
from apcore.registry import Registry
from apcore.registry.metadata import load_metadata
from apcore.registry.multi_class import class_name_to_segment
from apcore.registry.scanner import scan_extensions
from pydantic import BaseModel

__all__ = [
    "LoadFailure",
    "Loaded",
    "SourceFile",
    "load_entry",
    "load_file",
    "load_registry",
    "register_directory",
    "scan_directory",
]

logger = logging.getLogger("apcore_mcp.runtime")

BINDING_SUFFIX = ".binding.yaml"

# Importing a file changes sys.modules, sys.path and apcore's default registry.
_import_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that may declare modules; `file` is relative to the extensions directory, with `/`."""

    root: Path
    file: str

    @property
    def path(self) -> Path:
        return self.root / self.file

    @property
    def is_binding(self) -> bool:
        return self.file.endswith(BINDING_SUFFIX)

    @property
    def module_id(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A live module and the place it came from; `entry` names it within its file."""

    module_id: str
    module: Any
    source: SourceFile
    entry: str
    line: int
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadFailure:
    file: str
    line: int
    reason: str


def scan_directory(root: Path) -> list[SourceFile]:
    """List the files that may declare modules, sorted; names that begin with `_` or `.` are private."""
    root = root.resolve()
    python = [found.file_path for found in scan_extensions(root)]
    bindings = [path for path in root.rglob(f"*{BINDING_SUFFIX}") if not _is_private(path.relative_to(root))]
    return [SourceFile(root, path.relative_to(root).as_posix()) for path in sorted([*python, *bindings])]


def load_file(source: SourceFile) -> tuple[list[Loaded], list[LoadFailure]]:
    """Load every module that a file declares."""
    try:
        with _import_lock, _user_code(source.root):
            return (_load_bindings if source.is_binding else _load_python)(source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Exits and skipped tests among them: whatever a file does at import, it does to itself.
        return [], [LoadFailure(source.file, _line_of(error, source.path), describe_error(error))]


def load_entry(source: SourceFile, entry: str) -> Any:
    """Load one file and return the module that `entry` names within it."""
    modules, failures = load_file(source)
    for loaded in modules:
        if loaded.entry == entry:
            return loaded.module
    reason = failures[0].reason if failures else f"{source.file} no longer declares {entry}"
    raise LookupError(reason)


def register_directory(root: Path, registry: Registry) -> list[LoadFailure]:
    """Register all modules below `root`, and return what could not be."""
    problems: list[LoadFailure] = []
    for source in scan_directory(root):
        modules, failures = load_file(source)
        problems += failures
        for loaded in modules:
            try:
                registry.register(loaded.module_id, loaded.module, metadata=loaded.meta or None)
            except Exception as error:
                problems.append(LoadFailure(source.file, loaded.line, describe_error(error)))
    return problems


def load_registry(root: Path) -> Registry:
    """A registry of all modules below `root`; what could not be loaded is logged."""
    registry = Registry()
    for failure in register_directory(root, registry):
        logger.warning("%s:%d is not offered: %s", failure.file, failure.line, failure.reason)
    return registry


def describe_error(error: BaseException) -> str:
    """The type and the first line of an exception's message, without the place that parsers repeat in theirs."""
    messages = (getattr(error, name, None) for name in ("message", "msg", "problem"))
    text = str(next(filter(None, messages), error)).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _is_private(relative: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.parts)


class _Helpers:
    """Makes what lies beside the modules importable, for one directory at a time: two may each have a `_shop`."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._aside: dict[Path, dict[str, ModuleType]] = {}

    def use(self, root: Path) -> None:
        if root == self._root:
            return
        if self._root is not None:
            self._aside[self._root] = self._take_out(self._root)
        # Last, so that no extension can shadow an installed package.
        sys.path.append(str(root))
        sys.modules.update(self._aside.pop(root, {}))
        self._root = root

    def _take_out(self, root: Path) -> dict[str, ModuleType]:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(root))
        names = [name for name, module in list(sys.modules.items()) if _is_helper(name, module, root)]
        return {name: sys.modules.pop(name) for name in names}


_helpers = _Helpers()


def _is_helper(name: str, module: ModuleType, root: Path) -> bool:
    """Whether a module was imported by way of `root`, and not from an environment that happens to lie below it."""
    known = getattr(module, "__dict__", {})
    location = Path(known.get("__file__") or next(iter(known.get("__path__") or ()), ""))
    if not location.is_relative_to(root):
        return False
    first = location.relative_to(root).parts[:1]
    return first in ((name.partition(".")[0],), (f"{name}.py",))


@contextlib.contextmanager
def _user_code(root: Path) -> Iterator[None]:
    """Let files import their neighbours, keep stdout clean, and leave apcore's default registry as it was."""
    _helpers.use(root)
    default = apcore._get_default_client().registry
    before = set(default.list(visibility=["public", "hidden"]))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for module_id in set(default.list(visibility=["public", "hidden"])) - before:
            default.unregister(module_id)


def _import_name(source: SourceFile) -> str:
    # Known to sys.modules, so that pydantic can resolve postponed annotations; distinct per directory.
    digest = hashlib.sha256(str(source.root).encode()).hexdigest()[:12]
    return f"apcore_extensions_{digest}.{source.module_id}"


def _import_file(source: SourceFile) -> ModuleType:
    name = _import_name(source)
    spec = importlib.util.spec_from_file_location(name, source.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source.file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_python(source: SourceFile) -> tuple[list[Loaded], list[LoadFailure]]:
    companion = SourceFile(source.root, f"{source.file.removesuffix('.py')}_meta.yaml")
    try:
        meta = load_metadata(companion.path)
    except Exception as error:
        # apcore names the file by its absolute path, and keeps what is wrong with it for the cause.
        cause = error.__cause__ or ValueError("a companion file is a mapping")
        return [], [LoadFailure(companion.file, _line_of(cause, companion.path), describe_error(cause))]
    python = _import_file(source)
    # Python has read the file, in whatever encoding it declares; here it is searched for line numbers only.
    lines = source.path.read_text(encoding="utf-8", errors="replace").splitlines()
    found: list[Loaded] = []
    failures: list[LoadFailure] = []
    for module_id, entry, cls in _classes(source, python, meta):
        line = _line_matching(lines, rf"\s*class\s+{re.escape(entry)}\b")
        try:
            found.append(Loaded(module_id, cls(), source, entry, line, meta))
        except Exception as error:
            failures.append(LoadFailure(source.file, line, describe_error(error)))
    for entry, function in _functions(python):
        line = inspect.unwrap(function._func).__code__.co_firstlineno
        found.append(Loaded(_function_id(source, function), function, source, entry, line))
    if not found and not failures:
        failures.append(
            LoadFailure(source.file, 1, "no module found; name the file with a leading _ if it is a helper")
        )
    return found, failures


def _classes(source: SourceFile, python: ModuleType, meta: dict[str, Any]) -> list[tuple[str, str, type]]:
    if "entry_point" in meta:
        name = str(meta["entry_point"]).split(":")[-1]
        if not inspect.isclass(cls := getattr(python, name, None)):
            raise LookupError(f"entry_point {name!r} of {source.path.stem}_meta.yaml is no class of the file")
        return [(source.module_id, name, cls)]
    # By class, so that an alias is no second module; a class goes by its own name where it has it.
    members = sorted(inspect.getmembers(python, inspect.isclass), key=lambda member: member[0] == member[1].__name__)
    found = {cls: name for name, cls in members if _is_module(cls, python)}
    classes = sorted(((name, cls) for cls, name in found.items()), key=lambda member: member[0])
    if len(classes) == 1:
        return [(source.module_id, *classes[0])]
    marked = [(name, cls) for name, cls in classes if getattr(cls, "_apcore_multi_class", False)]
    if classes and not marked:
        names = ", ".join(name for name, _ in classes)
        raise LookupError(f"several module classes ({names}): mark them @multi_class, or name one as entry_point")
    return [(f"{source.module_id}.{class_name_to_segment(name)}", name, cls) for name, cls in marked]


def _is_module(cls: type, python: ModuleType) -> bool:
    return (
        cls.__module__ == python.__name__
        and _is_schema(getattr(cls, "input_schema", None))
        and _is_schema(getattr(cls, "output_schema", None))
        and callable(getattr(cls, "execute", None))
    )


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) or (inspect.isclass(value) and issubclass(value, BaseModel))


def _functions(python: ModuleType) -> Iterator[tuple[str, FunctionModule]]:
    for name, value in vars(python).items():
        function = getattr(value, "apcore_module", value)
        if isinstance(function, FunctionModule) and function._func.__module__ == python.__name__:
            yield name, function


def _function_id(source: SourceFile, function: FunctionModule) -> str:
    # Without an explicit id apcore derives one from the import name, which is ours alone.
    prefix = _import_name(source).split(".")[0] + "."
    function.module_id = function.module_id.removeprefix(prefix)
    return str(function.module_id)


def _load_bindings(source: SourceFile) -> tuple[list[Loaded], list[LoadFailure]]:
    text = source.path.read_text(encoding="utf-8")
    lines = text.splitlines()
    document = yaml.safe_load(text)
    entries = document.get("bindings") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("a binding file is a mapping with a list of 'bindings'")
    found: list[Loaded] = []
    failures: list[LoadFailure] = []
    for entry in entries:
        module_id = str(entry.get("module_id", "")) if isinstance(entry, dict) else ""
        line = _line_matching(lines, rf"[\s-]*module_id:\s*[\"']?{re.escape(module_id)}[\"']?\s*(#.*)?$")
        try:
            found.append(Loaded(module_id, _load_binding(source, entry), source, module_id, line))
        except (Exception, SystemExit) as error:
            failures.append(LoadFailure(source.file, line, describe_error(error)))
    return found, failures


def _load_binding(source: SourceFile, entry: Any) -> FunctionModule:
    if not isinstance(entry, dict) or not {"module_id", "target"} <= entry.keys():
        raise ValueError("a binding is a mapping with 'module_id' and 'target'")
    loader = BindingLoader()
    # One entry at a time: apcore's own loader gives up a whole file for one bad entry.
    return loader._create_module_from_binding(entry, str(source.path.parent), file_path=source.file)


def _line_matching(lines: list[str], pattern: str) -> int:
    return next((number for number, line in enumerate(lines, 1) if re.match(pattern, line)), 1)


def _line_of(error: BaseException, path: Path) -> int:
    """The line of `path` that an exception points at: its own, or the deepest frame in that file."""
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, SyntaxError):
        return error.lineno or 1
    if mark is not None:
        return int(mark.line) + 1
    if isinstance(error, ModuleError) and error.__cause__ is not None:
        return _line_of(error.__cause__, path)
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return (frames[-1] if frames else 1) or 1
