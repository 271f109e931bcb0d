"""Read a registry into plain data: the only step that runs user code.

A snapshot holds what apcore says about each module and where the module came from.  It is
JSON both ways: compiling a snapshot that was written and read again gives the same bytes.
"""

import contextlib
import dataclasses
import gc
import hashlib
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from apcore.registry import Registry
from apcore.registry.metadata import merge_module_metadata
from pydantic import ConfigDict, TypeAdapter, ValidationError

from apcore_compiler.bundles import BUNDLES, bundled_modules
from apcore_runtime.loading import Loaded, LoadFailure, SourceFile, describe_error, load_file, scan_directory

__all__ = ["BadSource", "ModuleRecord", "Snapshot", "read_snapshot", "read_source", "take_snapshot", "with_bundles"]

FORMAT = 1
HOOKS = ("stream", "preflight", "preview", "on_unload")

Progress = Callable[[int, int], None]


class BadSource(ValueError):
    """SOURCE is neither an extensions directory nor a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """One module as apcore describes it, and the place in the sources it came from."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    module_id: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    documentation: str | None = None
    version: str = "1.0.0"
    tags: list[str] = field(default_factory=list)
    annotations: dict[str, Any] | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    dependencies: list[Any] = field(default_factory=list)
    display: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    is_async: bool = False
    hooks: list[str] = field(default_factory=list)
    plain_schemas: list[str] = field(default_factory=list)
    # Where the module is from: a bundle, or a file of the extensions.
    bundle: str | None = None
    file: str | None = None
    line: int = 0
    entry: str = ""

    def facts(self) -> dict[str, Any]:
        """What the module says, without where it stands: moving a module is not changing it."""
        return {name: value for name in FACTS if (value := getattr(self, name)) not in (None, [], {})}


_RECORD = TypeAdapter(ModuleRecord)
FACTS = tuple(f.name for f in dataclasses.fields(ModuleRecord) if f.name not in ("file", "line", "entry"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The modules of a registry, sorted by id; `root` is the extensions directory, if they came from one."""

    modules: tuple[ModuleRecord, ...]
    failures: tuple[LoadFailure, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    root: Path | None = None

    @property
    def digest(self) -> str:
        return digest_of([record.facts() for record in self.modules])

    def to_json(self, directory: Path) -> str:
        """Serialise; the place of the sources is recorded relative to `directory`, where the file will stand."""
        document = {
            "format": FORMAT,
            "root": None if self.root is None else relative_path(self.root, directory),
            "modules": [_without_empty(dataclasses.asdict(record)) for record in self.modules],
            "failures": [dataclasses.asdict(failure) for failure in self.failures],
            "sources": self.sources,
        }
        # ASCII, since a description may hold a lone surrogate, which no file can.
        return json.dumps(document, indent=1) + "\n"


def digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def relative_path(path: Path, start: Path) -> str | None:
    """The way from `start` to `path` with `/`; none between two Windows drives."""
    try:
        return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
    except ValueError:
        return None


def read_source(source: Path, progress: Progress | None = None) -> Snapshot:
    """Read SOURCE, whatever it is: an extensions directory or a snapshot."""
    if source.is_dir():
        return take_snapshot(source, progress)
    if source.is_file() and source.suffix == ".json":
        return read_snapshot(source)
    if source.exists():
        raise BadSource(f"extensions path is not a directory: {source}")
    raise BadSource(f"extensions directory does not exist: {source}")


def with_bundles(snapshot: Snapshot, bundles: Iterable[str]) -> Snapshot:
    """Add the modules of bundles, unless the snapshot has them already."""
    present = {record.bundle for record in snapshot.modules}
    records = [record for name in bundles if name not in present for record in _record_bundle(name)]
    return dataclasses.replace(snapshot, modules=_sorted([*snapshot.modules, *records]))


def _record_bundle(name: str) -> Iterator[ModuleRecord]:
    try:
        modules = bundled_modules(name)
    except ImportError as error:
        raise BadSource(f"`with {name}` needs `pip install 'apcore-mcp[{name}]'`: {error}") from error
    for module_id, module in modules.items():
        described = merge_module_metadata(module, {})
        schemas = [_json_schema(getattr(module, f"{side}_schema")) for side in ("input", "output")]
        yield dataclasses.replace(_record(module_id, module, described, *schemas), bundle=name)


def take_snapshot(source: Path | Registry, progress: Progress | None = None) -> Snapshot:
    """Snapshot an extensions directory, or a live registry (whose modules then have no source files)."""
    if isinstance(source, Registry):
        return _snapshot_registry(source)
    if not os.access(source, os.R_OK | os.X_OK):
        raise BadSource(f"extensions directory cannot be read: {source}")
    records: list[ModuleRecord] = []
    failures: list[LoadFailure] = []
    sources: dict[str, str] = {}
    files = scan_directory(source)
    with collector_paused(), _no_byte_code():
        for number, file in enumerate(files):
            found, broken = _record_file(file)
            records += found
            failures += broken
            sources[file.file] = file.digest()
            if progress is not None:
                progress(number + 1, len(files))
    return Snapshot(_sorted(records), tuple(failures), sources, source.resolve())


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without the collector, which would look at thousands of models over and over and find nothing to drop."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


@contextlib.contextmanager
def _no_byte_code() -> Iterator[None]:
    """Leave nothing beside the sources."""
    unwritten = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = unwritten


def _record_file(file: SourceFile) -> tuple[list[ModuleRecord], list[LoadFailure]]:
    modules, failures = load_file(file)
    records = []
    for loaded in modules:
        try:
            records.append(_record_loaded(loaded))
        except Exception as error:
            failures.append(LoadFailure(file.file, loaded.line, describe_error(error)))
    return records, failures


def read_snapshot(path: Path) -> Snapshot:
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, parse_float=_finite)
        stated = document["format"]
        if stated == FORMAT:
            records = [checked_record(record) for record in document["modules"]]
            failures = tuple(LoadFailure(**failure) for failure in document["failures"])
            root = None if document["root"] is None else (path.parent / document["root"]).resolve()
            return Snapshot(_sorted(records), failures, dict(document["sources"]), root)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadSource(f"{path} is not a registry snapshot: {describe_error(error)}") from error
    raise BadSource(f"{path} is a snapshot of format {stated!r}; this version reads {FORMAT}")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def checked_record(values: dict[str, Any]) -> ModuleRecord:
    """A record whose every field has the declared type: snapshots are edited by hand, and metadata always was."""
    try:
        record = _RECORD.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{values.get('module_id', 'a module')}: {place}: {first['msg']}") from error
    # A bundle is imported by its name, and names a file of the output.
    if record.bundle is not None and record.bundle not in BUNDLES:
        raise ValueError(f"{record.module_id}: there is no bundle {record.bundle!r}")
    return record


def _sorted(records: list[ModuleRecord]) -> tuple[ModuleRecord, ...]:
    return tuple(sorted(records, key=lambda record: (record.module_id, record.file or "", record.line)))


def _snapshot_registry(registry: Registry) -> Snapshot:
    records = []
    failures = []
    for module_id, module in registry.iter():
        try:
            definition: Any = registry.get_definition(module_id)
            described = {name: getattr(definition, name) for name in _DESCRIBED}
            records.append(_record(module_id, module, described, definition.input_schema, definition.output_schema))
        except Exception as error:
            failures.append(LoadFailure("", 0, f"{module_id}: {describe_error(error)}"))
    return Snapshot(_sorted(records), tuple(failures))


_DESCRIBED = (
    "name", "description", "documentation", "version", "tags", "annotations", "examples", "metadata", "dependencies",
)  # fmt: skip


def _record_loaded(loaded: Loaded) -> ModuleRecord:
    module = loaded.module
    described = merge_module_metadata(module, loaded.meta)
    schemas = [_json_schema(getattr(module, f"{side}_schema")) for side in ("input", "output")]
    record = _record(loaded.module_id, module, described, *schemas)
    return dataclasses.replace(record, file=loaded.source.file, line=loaded.line, entry=loaded.entry)


def _json_schema(schema: Any) -> dict[str, Any]:
    document: dict[str, Any] = schema if isinstance(schema, dict) else schema.model_json_schema()
    return document


def _record(
    module_id: str,
    module: Any,
    described: dict[str, Any],
    input_schema: dict[str, Any],
    output_schema: dict[str, Any],
) -> ModuleRecord:
    annotations = described.pop("annotations")
    values = {
        **described,
        "module_id": module_id,
        "annotations": None if annotations is None else _non_default(_gated(annotations, module)),
        "examples": [_without_empty(dataclasses.asdict(example)) for example in described["examples"]],
        "dependencies": [_plain(dependency) for dependency in described["dependencies"]],
        "display": getattr(module, "display", None),
        "resources": _plain(getattr(module, "resources", None)),
        "is_async": inspect.iscoroutinefunction(module.execute),
        "hooks": [hook for hook in HOOKS if callable(getattr(module, hook, None))],
        "plain_schemas": [side for side in ("input", "output") if _is_plain(getattr(module, f"{side}_schema"))],
        "input_schema": input_schema,
        "output_schema": output_schema,
    }
    # Through JSON, so that a live snapshot holds just what one read from a file would.
    return checked_record(json.loads(json.dumps(values, default=str, allow_nan=False)))


def _is_plain(schema: Any) -> bool:
    # Registry.register wraps a dict in an adapter, which has no JSON entry point as models have.
    return isinstance(schema, dict) or not hasattr(schema, "model_validate_json")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _without_empty(dataclasses.asdict(value))
    return vars(value) if hasattr(value, "__dict__") else value


def _non_default(annotations: Any) -> dict[str, Any]:
    defaults = type(annotations)()
    return {
        f.name: value
        for f in dataclasses.fields(annotations)
        if (value := getattr(annotations, f.name)) != getattr(defaults, f.name)
    }


def _gated(merged: Any, module: Any) -> Any:
    """The annotations with what the code asks for: a companion file may add a gate, and cannot lift one."""
    code = getattr(module, "annotations", None)
    asked = code.get if isinstance(code, dict) else lambda name: getattr(code, name, False)
    return dataclasses.replace(merged, **{gate: True for gate in ("requires_approval", "destructive") if asked(gate)})


def _without_empty(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value not in (None, [], {}, ())}
