"""A compiled surface: what it says without the modules, and that a module behaves the same when it is loaded late."""

import asyncio
import json
import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apcore import ACL, Context, Executor, Identity
from apcore.acl import ACLRule
from apcore.approval import AlwaysDenyHandler, AutoApproveHandler
from apcore.errors import (
    ACLDeniedError,
    ApprovalDeniedError,
    InvalidInputError,
    ModuleError,
    ModuleLoadError,
    SchemaValidationError,
)
from apcore.registry import Registry
from tests.requirements import requirement

from apcore_compiler.artifacts import ArtifactSet
from apcore_compiler.compile import compile_snapshot
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import take_snapshot
from apcore_mcp.adapters.schema import inline_refs
from apcore_runtime import NotASurface, Surface, load
from apcore_runtime.loading import register_directory

EXAMPLES = Path(__file__).parents[2] / "examples" / "extensions"


def built(source: Path, out: Path) -> ArtifactSet:
    artifacts = compile_snapshot(take_snapshot(source), Settings(), out).artifacts
    artifacts.write(out)
    return artifacts


def forget(root: Path) -> None:
    """Drop what was imported from a directory, as in a process that never saw it."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(root)):
            del sys.modules[name]


def imported(root: Path) -> set[str]:
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    return {Path(file).relative_to(root).as_posix() for file in files if file.startswith(str(root))}


@pytest.fixture
def extensions(tmp_path: Path) -> Iterator[Path]:
    """The examples in a place of their own, not imported."""
    root = tmp_path.resolve() / "extensions"
    shutil.copytree(EXAMPLES, root, ignore=shutil.ignore_patterns("__pycache__"))
    yield root
    forget(root)


@pytest.fixture
def surface(extensions: Path, tmp_path: Path) -> Surface:
    built(extensions, tmp_path / "out")
    forget(extensions)
    return load(tmp_path / "out")


def call(executor: Executor, module_id: str, inputs: dict[str, Any], role: str | None = None) -> Any:
    """The answer, or the error in the words a caller sees."""
    identity = None if role is None else Identity(id="somebody", roles=(role,))
    try:
        return asyncio.run(executor.call_async(module_id, inputs, Context.create(identity=identity)))
    except ModuleError as error:
        return type(error).__name__, error.code, str(error)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("catalogue.search", {"query": "woolf"}),
    ("catalogue.quote", {"isbns": ["9780141439549"], "zone": "europe", "school": True}),
    ("catalogue.postage", {"copies": 3}),
    (
        "catalogue.supplier_feed",
        {"messageId": "GA004711", "items": [{"kind": "delivered", "isbn": "9780099429838", "copies": 12}]},
    ),
    ("customers.find", {"text": "an"}),
    ("customers.verify", {"customer_id": "C-101", "security_phrase": "wrong phrase"}),
    ("customers.update_contact", {"customer_id": "C-101", "phone": None}),
    ("customers.erase", {"customer_id": "C-101", "basis": "customer_request"}),
    ("orders.find", {"placed": {"start": "2026-01-01"}, "limit": 2}),
    (
        "orders.create",
        {
            "customer_id": "C-102",
            "lines": [{"isbn": "9780141439518", "copies": 2}],
            "delivery": {"kind": "collect", "branch": "station"},
        },
    ),
    ("orders.cancel", {"order_id": "B-1003"}),
    ("orders.refund", {"order_id": "B-1001", "amount": {"kind": "part", "pence": 100}, "reason": "torn cover"}),
    ("reports.sales", {"start": "2026-03-01", "end": "2026-03-14"}),
    ("reports.stocktake", {"counts": [{"isbn": "9780141182711", "counted": 0}]}),
]
BAD_CALLS: list[tuple[str, dict[str, Any]]] = [
    *((module_id, {}) for module_id, _ in CALLS),
    *((module_id, {**inputs, "customer_id": 7, "limit": "x", "copies": "x"}) for module_id, inputs in CALLS),
    ("catalogue.supplier_feed", {"messageId": "wrong", "items": []}),
    ("orders.cancel", {"order_id": "B-9999"}),
    ("orders.create", {"customer_id": "C-102", "lines": [], "delivery": {"kind": "pigeon"}}),
    ("customers.erase", {"customer_id": "C-999", "basis": "customer_request"}),
    ("reports.sales", {"start": "2026-03-14", "end": "2026-03-01"}),
    ("nobody.knows", {}),
]


@requirement("FR-EXEC-003", "FR-EXEC-004")
@pytest.mark.parametrize(("calls", "approval"), [(CALLS, AutoApproveHandler), (BAD_CALLS, AlwaysDenyHandler)])
def test_a_module_loaded_late_answers_and_fails_as_one_loaded_early(
    calls: list[tuple[str, dict[str, Any]]], approval: Any, extensions: Path, tmp_path: Path
) -> None:
    registry = Registry()
    assert register_directory(extensions, registry) == []
    early = [call(Executor(registry, approval_handler=approval()), *one) for one in calls]
    built(extensions, tmp_path / "out")
    # Afresh, because the modules keep a shop in memory.
    forget(extensions)
    late = [call(Executor(load(tmp_path / "out").registry(), approval_handler=approval()), *one) for one in calls]
    assert [value for value in early if isinstance(value, dict)] or calls is BAD_CALLS
    for one, expected, actual in zip(calls, early, late, strict=True):
        assert actual == expected, one


@requirement("NFR-SEC-001")
@pytest.mark.parametrize("role", [None, "clerk", "manager"])
def test_roles_decide_alike_about_modules_loaded_late_and_early(
    role: str | None, extensions: Path, tmp_path: Path
) -> None:
    def acl() -> ACL:
        everywhere, shelves = ["*"], ["catalogue.*", "reports.*"]
        return ACL(
            [
                ACLRule(callers=["*"], targets=shelves, effect="allow", conditions={"roles": ["clerk", "manager"]}),
                ACLRule(callers=["*"], targets=everywhere, effect="allow", conditions={"roles": ["manager"]}),
            ],
            default_effect="deny",
        )

    registry = Registry()
    register_directory(extensions, registry)
    calls = [*CALLS, *BAD_CALLS]
    early = [call(Executor(registry, acl=acl(), approval_handler=AutoApproveHandler()), *one, role) for one in calls]
    built(extensions, tmp_path / "out")
    forget(extensions)
    late_registry = load(tmp_path / "out").registry()
    late = [
        call(Executor(late_registry, acl=acl(), approval_handler=AutoApproveHandler()), *one, role) for one in calls
    ]
    assert {isinstance(value, dict) for value in early} == ({False} if role is None else {True, False})
    for one, expected, actual in zip(calls, early, late, strict=True):
        assert actual == expected, one


def test_definitions_are_those_of_the_modules(extensions: Path, surface: Surface) -> None:
    late = surface.registry()
    definitions: dict[str, Any] = {module_id: late.get_definition(module_id) for module_id in late.list()}
    assert imported(extensions) == set()
    early = Registry()
    register_directory(extensions, early)
    assert list(definitions) == early.list()
    for module_id, actual in definitions.items():
        expected: Any = early.get_definition(module_id)
        for name in ("name", "description", "documentation", "version", "tags", "annotations", "examples"):
            assert getattr(actual, name) == getattr(expected, name), (module_id, name)
        assert actual.dependencies == expected.dependencies
        # apcore repeats a companion file in the metadata; what the module says is in there.
        assert actual.metadata.items() <= expected.metadata.items(), module_id
        for schema in ("input_schema", "output_schema"):
            assert getattr(actual, schema) == inline_refs(getattr(expected, schema)), (module_id, schema)


@requirement("NFR-SEC-001")
def test_a_denied_call_imports_nothing(extensions: Path, surface: Surface) -> None:
    acl = ACL(rules=[ACLRule(callers=["*"], targets=["orders.*"], effect="deny")], default_effect="allow")
    executor = Executor(surface.registry(), acl=acl)
    with pytest.raises(ACLDeniedError):
        asyncio.run(executor.call_async("orders.cancel", {"order_id": "B-1003"}, Context.create()))
    assert imported(extensions) == set()


def test_a_call_imports_the_file_of_its_module_and_no_other(extensions: Path, surface: Surface) -> None:
    executor = Executor(surface.registry())
    assert call(executor, "customers.verify", {"customer_id": "C-101", "security_phrase": "wrong"}) == {
        "verified": False
    }
    assert imported(extensions) == {"customers/verify.py", "_shop/__init__.py", "_shop/store.py"}


def test_a_plain_schema_refuses_bad_input_without_loading_the_module(extensions: Path, surface: Surface) -> None:
    with pytest.raises(SchemaValidationError):
        asyncio.run(Executor(surface.registry()).call_async("catalogue.supplier_feed", {}, Context.create()))
    assert imported(extensions) == set()


def test_opening_a_surface_and_reading_its_lists_imports_no_module(extensions: Path, surface: Surface) -> None:
    registry = surface.registry()
    assert (surface.count, registry.count, len(registry.module_ids)) == (14, 14, 14)
    assert registry.has("orders.find")
    assert not registry.has("orders.lose")
    assert registry.get("orders.lose") is None
    assert registry.list(prefix="reports.") == ["reports.sales", "reports.stocktake"]
    assert registry.list(tags=["money", "read"]) == ["reports.sales"]
    assert [module_id for module_id, _ in registry.iter()] == surface.names
    assert list(surface.docs) == ["catalogue.search"]
    assert imported(extensions) == set()


def test_streams_give_the_same_chunks(extensions: Path, tmp_path: Path) -> None:
    async def chunks(registry: Registry) -> list[Any]:
        inputs = {"start": "2026-03-01", "end": "2026-03-14"}
        return [chunk async for chunk in Executor(registry).stream("reports.sales", inputs, Context.create())]

    early = Registry()
    register_directory(extensions, early)
    built(extensions, tmp_path / "out")
    late = load(tmp_path / "out").registry()
    assert asyncio.run(chunks(late)) == asyncio.run(chunks(early)) != []
    assert not hasattr(late.get("orders.find"), "stream")


def test_a_source_that_changed_since_the_build_is_logged(
    extensions: Path, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    path = extensions / "catalogue" / "search.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# Later.\n", encoding="utf-8")
    executor = Executor(surface.registry())
    with caplog.at_level(logging.WARNING, "apcore_mcp.runtime"):
        call(executor, "catalogue.search", {})
        call(executor, "catalogue.search", {})
        call(executor, "orders.find", {})
    assert [record.getMessage() for record in caplog.records if record.name == "apcore_mcp.runtime"] == [
        "catalogue/search.py has changed since the build; run `apcore-mcp build` to bring the tools up to date"
    ]


@pytest.mark.parametrize("damage", ["broken", "emptied", "removed"])
def test_a_source_that_no_longer_loads_fails_its_own_calls(
    damage: str, extensions: Path, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    path = extensions / "catalogue" / "search.py"
    path.unlink() if damage == "removed" else path.write_text("1 / 0\n" * (damage == "broken"), encoding="utf-8")
    executor = Executor(surface.registry())
    with pytest.raises(ModuleLoadError):
        asyncio.run(executor.call_async("catalogue.search", {}, Context.create()))
    assert "Module catalogue.search could not be loaded" in caplog.text
    assert call(executor, "catalogue.postage", {"copies": 1}) == {"result": 350}


GATED = """\
from apcore import ModuleAnnotations
from pydantic import BaseModel


class Empty(BaseModel):
    pass


class Wipe:
    input_schema = Empty
    output_schema = Empty
    description = "Wipe the desk."
    annotations = ModuleAnnotations(requires_approval=True, destructive=True)

    def execute(self, inputs, context):
        return {}
"""


def test_a_companion_file_cannot_lift_a_gate_that_the_code_asks_for(tmp_path: Path) -> None:
    source = tmp_path / "ext"
    source.mkdir()
    (source / "wipe.py").write_text(GATED, encoding="utf-8")
    (source / "wipe_meta.yaml").write_text(
        "annotations: {requires_approval: false, destructive: false, idempotent: true}\n", encoding="utf-8"
    )
    built(source, tmp_path / "out")
    registry = load(tmp_path / "out").registry()
    annotations = registry.get("wipe").annotations
    assert (annotations.requires_approval, annotations.destructive, annotations.idempotent) == (True, True, True)
    executor = Executor(registry, approval_handler=AlwaysDenyHandler())
    with pytest.raises(ApprovalDeniedError):
        asyncio.run(executor.call_async("wipe", {}, Context.create()))


HOOKED = """\
from apcore import module
from pydantic import BaseModel

EVENTS = []


class Empty(BaseModel):
    pass


class Hooked:
    input_schema = Empty
    output_schema = Empty
    description = "Notices what happens to it."
    resources = {"memory_mb": 64}
    shelf = "a"

    def on_load(self):
        EVENTS.append("load")

    def on_unload(self):
        EVENTS.append("unload")

    def preflight(self, inputs, context):
        return ["careful"]

    def preview(self, inputs, context):
        return {"changes": []}

    def execute(self, inputs, context):
        EVENTS.append("execute")
        return {}
"""


def test_hooks_are_there_when_the_module_has_them_and_run_once_it_is_loaded(tmp_path: Path) -> None:
    source = tmp_path / "ext"
    source.mkdir()
    (source / "hooked.py").write_text(HOOKED, encoding="utf-8")
    (source / "plain.py").write_text(GATED.replace("requires_approval=True, ", ""), encoding="utf-8")
    built(source, tmp_path / "out")
    forget(source.resolve())
    registry = load(tmp_path / "out").registry()
    hooked, plain = registry.get("hooked"), registry.get("plain")
    for hook in ("preflight", "preview", "on_unload", "resources"):
        assert hasattr(hooked, hook)
        assert not hasattr(plain, hook)
    registry.unregister("plain")
    assert imported(source.resolve()) == set()
    assert call(Executor(registry), "hooked", {}) == {}
    events = sys.modules[type(hooked._load()).__module__].EVENTS
    assert events == ["load", "execute"]
    assert (hooked.preflight({}, None), hooked.preview({}, None), hooked.shelf) == (["careful"], {"changes": []}, "a")
    registry.unregister("hooked")
    assert events == ["load", "execute", "unload"]


def test_two_surfaces_in_one_process_do_not_mix(tmp_path: Path) -> None:
    for name in ("one", "two"):
        source = tmp_path / name / "ext"
        source.mkdir(parents=True)
        (source / "wipe.py").write_text(GATED.replace("Wipe the desk", f"Wipe {name}"), encoding="utf-8")
        built(source, tmp_path / name / "out")
    one, two = (load(tmp_path / name / "out") for name in ("one", "two"))
    assert (one.tool("wipe")["description"], two.tool("wipe")["description"]) == ("Wipe one.", "Wipe two.")
    assert one.spec("wipe") is not two.spec("wipe")
    assert one.registry().get("wipe")._load() is not two.registry().get("wipe")._load()


def test_modules_may_stand_elsewhere_than_at_build_time(extensions: Path, surface: Surface, tmp_path: Path) -> None:
    moved = extensions.rename(tmp_path.resolve() / "moved")
    given = load(surface.directory, extensions_dir=moved)
    assert given.source == moved
    assert call(Executor(given.registry()), "catalogue.postage", {"copies": 1}) == {"result": 350}
    forget(moved)


def test_a_surface_of_a_live_registry_lists_its_tools_and_says_where_they_are_served(tmp_path: Path) -> None:
    registry = Registry()
    register_directory(EXAMPLES, registry)
    compile_snapshot(take_snapshot(registry), Settings(), tmp_path / "out").artifacts.write(tmp_path / "out")
    surface = load(tmp_path / "out")
    assert (surface.count, surface.source) == (14, None)
    with pytest.raises(LookupError, match="has no source file; serve it from its registry"):
        surface.registry().get("orders.find")


@pytest.mark.parametrize("damage", ["emptied", "pretty", "conflict"])
def test_a_tool_list_that_no_build_wrote_is_refused(damage: str, tmp_path: Path) -> None:
    built(EXAMPLES, tmp_path)
    path = tmp_path / "tools.json"
    text = path.read_text(encoding="utf-8")
    conflict = text.replace("\n", "\n<<<<<<< HEAD\n", 1)
    damaged = {"emptied": "", "pretty": json.dumps(json.loads(text), indent=2), "conflict": conflict}
    path.write_text(damaged[damage], encoding="utf-8")
    with pytest.raises(NotASurface, match="is not as `apcore-mcp build` wrote it"):
        load(tmp_path)


def test_a_checkout_with_other_line_endings_is_the_same_surface(surface: Surface) -> None:
    expected = surface.tools_list(), surface.tool("orders.find")
    path = surface.directory / "tools.json"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    other = load(surface.directory)
    assert (other.tools_list(), other.tool("orders.find")) == expected


def test_typed_wrappers_call_through_the_executor(surface: Surface) -> None:
    surface.spec("catalogue.postage")
    catalogue = sys.modules[f"{surface.package.__name__}.server.catalogue"]
    executor = Executor(surface.registry())
    assert asyncio.run(catalogue.postage(executor, {"copies": 3})) == {"result": 450}


def test_a_module_that_was_not_asked_for_yet_is_registered_all_the_same(surface: Surface) -> None:
    registry = surface.registry()
    with pytest.raises(InvalidInputError, match="already"):
        registry.register("orders.find", registry.get("orders.cancel"))
    assert registry.get_declared_annotations("customers.erase").requires_approval
    assert registry.get_module_metadata("customers.update_contact")["version"] == "1.2.0"
    with registry.acquire("orders.create") as module:
        assert module.module_id == "orders.create"
    assert registry.unregister("orders.create")
    assert registry.safe_unregister("orders.refund")
    assert {"orders.create", "orders.refund"}.isdisjoint(registry.list())


@pytest.mark.parametrize("lack", ["everything", "tools.json"])
def test_a_directory_that_no_build_wrote_is_not_a_surface(lack: str, tmp_path: Path) -> None:
    if lack != "everything":
        built(EXAMPLES, tmp_path)
        (tmp_path / lack).unlink()
    with pytest.raises(NotASurface, match=r"holds no tools\.json; build it with `apcore-mcp build`"):
        load(tmp_path)


def test_the_tool_list_on_the_wire_is_the_tool_list_on_disk(surface: Surface) -> None:
    on_disk = (surface.directory / "tools.json").read_bytes()
    assert surface.tools_list() == on_disk.replace(b"\n", b"")
    with pytest.raises(KeyError):
        surface.tool("orders.lose")
