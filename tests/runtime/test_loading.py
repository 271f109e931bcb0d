"""Loading an extensions directory: every kind of module is found, and a broken file costs only itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import apcore
import pytest
from apcore.registry import Registry
from tests.requirements import requirement

from apcore_compiler.snapshot import ModuleRecord, take_snapshot
from apcore_runtime.loading import LoadFailure, load_entry, load_file, register_directory, scan_directory

EXAMPLES = Path(__file__).parents[2] / "examples" / "extensions"

GOOD = """\
from apcore import module


@module(id="desk.good", description="Good.")
def good(x: int) -> dict[str, int]:
    return {"x": x}
"""

CLASS = """\
from pydantic import BaseModel


class Empty(BaseModel):
    pass


class Module:
    input_schema = Empty
    output_schema = Empty
    description = "A class."

    def execute(self, inputs, context):
        return {}
"""


def load(root: Path, **files: str | bytes) -> tuple[dict[str, ModuleRecord], list[LoadFailure]]:
    """Load files given as `name__suffix=text`, beside one that is good, through the whole front end."""
    root.mkdir(exist_ok=True)
    for name, content in {"good__py": GOOD, **files}.items():
        data = content if isinstance(content, bytes) else content.encode()
        (root / name.replace("__", ".")).write_bytes(data)
    snapshot = take_snapshot(root)
    return {record.module_id: record for record in snapshot.modules}, list(snapshot.failures)


# Module id: the file, how the line begins that is reported, and the name within the file.
PLACES = {
    "catalogue.postage": ("catalogue/pricing.binding.yaml", "  - module_id: catalogue.postage", "catalogue.postage"),
    "catalogue.quote": ("catalogue/pricing.binding.yaml", "  - module_id: catalogue.quote", "catalogue.quote"),
    "catalogue.search": ("catalogue/search.py", "class SearchCatalogue:", "SearchCatalogue"),
    "catalogue.supplier_feed": ("catalogue/supplier_feed.py", "class SupplierFeed:", "SupplierFeed"),
    "customers.erase": ("customers/erase.py", "class EraseCustomer:", "EraseCustomer"),
    "customers.find": ("customers/find.py", "@module", "find"),
    "customers.update_contact": ("customers/update_contact.py", "class UpdateContact:", "UpdateContact"),
    "customers.verify": ("customers/verify.py", "class VerifyCaller:", "VerifyCaller"),
    "orders.cancel": ("orders/cancel.py", "@module", "cancel"),
    "orders.create": ("orders/create.py", "class CreateOrder:", "CreateOrder"),
    "orders.find": ("orders/find.py", "class FindOrders:", "FindOrders"),
    "orders.refund": ("orders/refund.py", "class RefundOrder:", "RefundOrder"),
    "reports.sales": ("reports/sales.py", "class SalesReport:", "SalesReport"),
    "reports.stocktake": ("reports/stocktake.py", "class Stocktake:", "Stocktake"),
}


def test_every_kind_of_module_is_found_where_it_stands() -> None:
    found = {record.module_id: (record.file, record.line, record.entry) for record in take_snapshot(EXAMPLES).modules}
    expected = {
        module_id: (file, line(file, beginning), entry) for module_id, (file, beginning, entry) in PLACES.items()
    }
    assert found == expected


def line(file: str, beginning: str) -> int:
    lines = (EXAMPLES / file).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.startswith(beginning))


@requirement("FR-CLI-002")
def test_records_say_what_apcore_says_of_the_modules_it_finds() -> None:
    # In a process of its own: apcore imports the examples under other names and needs their folder on its path.
    script = f"""
import sys
sys.path.append({str(EXAMPLES)!r})
from pathlib import Path
from apcore.registry import Registry
from apcore_compiler.snapshot import take_snapshot
registry = Registry(extensions_dir={str(EXAMPLES)!r})
registry.discover()
records = {{record.module_id: record for record in take_snapshot(Path({str(EXAMPLES)!r})).modules}}
# apcore's own loader does not survive the postponed annotations of orders.find.
compared = [module_id for module_id in registry.list() if module_id != "orders.find"]
for module_id in compared:
    definition, record = registry.get_definition(module_id), records[module_id]
    for name in ("name", "description", "documentation", "version", "tags", "input_schema", "output_schema"):
        assert getattr(definition, name) == getattr(record, name), (module_id, name)
    # apcore's discovery repeats the whole companion file in the metadata; what the module says is in there.
    assert record.metadata.items() <= definition.metadata.items(), module_id
    assert definition.annotations == type(definition.annotations)(**record.annotations), module_id
    assert [example.title for example in definition.examples] == [example["title"] for example in record.examples]
print(*compared)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.split()) == 8


POSTPONED = """\
from __future__ import annotations

from pydantic import BaseModel


class Inner(BaseModel):
    x: int


class Input(BaseModel):
    inner: Inner
    more: list[Inner]


class Postponed:
    input_schema = Input
    output_schema = Inner
    description = "Later."

    def execute(self, inputs, context):
        return {"x": 1}
"""


def test_postponed_annotations_with_nested_models_are_resolved(tmp_path: Path) -> None:
    """apcore's own loader does not survive them."""
    records, failures = load(tmp_path, postponed__py=POSTPONED)
    assert failures == []
    assert records["postponed"].input_schema["$defs"]["Inner"]["properties"]["x"] == {"title": "X", "type": "integer"}


BROKEN: dict[str, tuple[str, str | bytes, int, str]] = {
    "syntax error": ("bad__py", "x = 1\n\ndef f(:\n", 3, "SyntaxError: invalid syntax"),
    "import error": ("bad__py", "import os\nimport nowhere_x\n", 2, "ModuleNotFoundError: No module named 'nowhere_x'"),
    "raises": ("bad__py", "def f():\n    raise RuntimeError('no\\nway')\n\nf()\n", 2, "RuntimeError: no"),
    "exits": ("bad__py", "import sys\n\nsys.exit(3)\n", 3, "SystemExit: 3"),
    "own kind of exit": ("bad__py", "class Stop(BaseException): ...\nraise Stop\n", 2, "Stop"),
    "constructor": (
        "bad__py",
        CLASS.replace("    def execute", "    def __init__(self):\n        raise KeyError('no')\n\n    def execute"),
        8,
        "KeyError: 'no'",
    ),
    "constructor that exits": (
        "bad__py",
        CLASS.replace("    def execute", "    def __init__(self):\n        raise SystemExit\n\n    def execute"),
        14,
        "SystemExit",
    ),
    "two classes": ("bad__py", CLASS + "\n\nclass Other(Module): ...\n", 1, "LookupError: several module classes (M"),
    "no module": ("bad__py", "x = 1\n", 1, "no module found; name the file with a leading _ if it is a helper"),
    "empty": ("bad__py", "", 1, "no module found"),
    "not UTF-8": ("bad__py", b"# one\nx = '\xff'\n", 2, "SyntaxError: (unicode error) 'utf-8' codec can't decode"),
    "a NUL": ("bad__py", b"x = 1\0\n", 1, "SyntaxError: source code string cannot contain null bytes"),
    "untyped": (
        "bad__py",
        "from apcore import module\n\n\n@module(id='desk.bad')\ndef bad(x) -> dict:\n    return {}\n",
        4,
        "FuncMissingTypeHintError: Parameter 'x'",
    ),
    "default that is no JSON": (
        "bad__py",
        CLASS.replace("    pass", "    x: float = float('inf')"),
        8,
        "ValueError: Out of range float values are not JSON compliant",
    ),
    "schema that cannot be made": (
        "bad__py",
        CLASS.replace("    pass", "    model_config = {'arbitrary_types_allowed': True}\n    x: object.__class__"),
        9,
        "PydanticInvalidForJsonSchema: ",
    ),
    "bad YAML": ("bad__binding__yaml", "bindings:\n  - module_id: a.b\n    target: [\n", 4, "ParserError: expected"),
    "list for a binding file": ("bad__binding__yaml", "- 1\n", 1, "ValueError: a binding file is a mapping"),
    "bad target": (
        "bad__binding__yaml",
        "bindings:\n  - module_id: a.b\n    target: 'nowhere_y:f'\n",
        2,
        "BindingModuleNotFoundError: Cannot import module 'nowhere_y'.",
    ),
    "bad callable": (
        "bad__binding__yaml",
        "bindings:\n  - module_id: a.b\n    target: 'json:nothing'\n",
        2,
        "BindingCallableNotFoundError: Cannot find callable 'nothing' in module 'json'.",
    ),
    "half a binding": ("bad__binding__yaml", "bindings:\n  - module_id: a.b\n", 2, "ValueError: a binding is"),
    "word for a binding": ("bad__binding__yaml", "bindings: [word]\n", 1, "ValueError: a binding is a mapping with"),
    "binding not UTF-8": ("bad__binding__yaml", b"bindings: \xff\n", 1, "UnicodeDecodeError: "),
}  # fmt: skip


@requirement("NFR-REL-002")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_costs_itself_and_is_reported_with_its_line(kind: str, tmp_path: Path) -> None:
    name, content, where, reason = BROKEN[kind]
    records, failures = load(tmp_path, **{name: content})
    assert list(records) == ["desk.good"]
    (failure,) = failures
    assert (failure.file, failure.line) == (name.replace("__", "."), where)
    assert failure.reason.startswith(reason)
    assert str(tmp_path) not in failure.reason


@pytest.mark.parametrize(
    ("meta", "where", "reason"),
    [
        ("tags: [a\nb: c\n", ("module_meta.yaml", 2), "ParserError: "),
        ("- 1\n", ("module_meta.yaml", 1), "ValueError: a companion file is a mapping"),
        ("entry_point: module:Nowhere\n", ("module.py", 1), "LookupError: entry_point 'Nowhere' of module_meta.yaml"),
        ("entry_point: BaseModel.x\n", ("module.py", 1), "LookupError: entry_point 'BaseModel.x'"),
        ("version: 1.2\n", ("module.py", 8), "ValueError: module: version: Input should be a valid string"),
        ("tags: one\n", ("module.py", 8), "ValueError: module: tags: Input should be a valid list"),
        ("description: 5\n", ("module.py", 8), "ValueError: module: description: Input should be a valid string"),
    ],
)
def test_a_broken_companion_file_is_reported(meta: str, where: tuple[str, int], reason: str, tmp_path: Path) -> None:
    records, failures = load(tmp_path, module__py=CLASS, module_meta__yaml=meta)
    assert list(records) == ["desk.good"]
    assert [((failure.file, failure.line), failure.reason[: len(reason)]) for failure in failures] == [(where, reason)]


def test_one_bad_binding_costs_no_other_of_its_file(tmp_path: Path) -> None:
    text = (
        "bindings:\n  - module_id: a.bad\n    target: 'nowhere_z:f'\n"
        "  - module_id: \"a.good\"  # quoted\n    target: 'textwrap_helper:shorten'\n"
    )
    helper = "def shorten(text: str) -> dict[str, str]:\n    return {'text': text[:3]}\n"
    (tmp_path / "textwrap_helper").mkdir()
    (tmp_path / "textwrap_helper" / "__init__.py").write_text(helper, encoding="utf-8")
    records, failures = load(tmp_path, two__binding__yaml=text)
    assert [(failure.file, failure.line) for failure in failures] == [("two.binding.yaml", 2)]
    assert (records["a.good"].line, records["a.good"].entry) == (4, "a.good")


def test_private_names_caches_and_links_are_not_looked_at(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(GOOD, encoding="utf-8")
    root = tmp_path / "ext"
    for name in (
        "_helper.py",
        ".hidden.py",
        "__pycache__/x.py",
        "_private/x.py",
        ".git/x.binding.yaml",
        "_b.binding.yaml",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("raise RuntimeError\n", encoding="utf-8")
    (root / "link.py").symlink_to(elsewhere)
    assert scan_directory(root) == []


def test_a_source_in_another_encoding_is_loaded(tmp_path: Path) -> None:
    latin = "# -*- coding: latin-1 -*-\n" + CLASS.replace("A class.", "Café.")
    records, failures = load(tmp_path, latin__py=latin.encode("latin-1"))
    assert failures == []
    assert (records["latin"].description, records["latin"].line) == ("Café.", 9)


def test_an_alias_is_no_second_module(tmp_path: Path) -> None:
    records, failures = load(tmp_path, module__py=CLASS + "\n\nAlias = Zebra = Module\n")
    assert failures == []
    assert (records["module"].entry, records["module"].line) == ("Module", 8)


def test_two_directories_may_each_have_a_helper_of_one_name(tmp_path: Path) -> None:
    said = []
    for name in ("one", "two", "one"):
        root = tmp_path / name
        (root / "_shop").mkdir(parents=True, exist_ok=True)
        (root / "_shop" / "sign.py").write_text(f"SIGN = {name!r}\n", encoding="utf-8")
        (root / "_util.py").write_text(f"SIGN = {name!r}\n", encoding="utf-8")
        source = "import _util\nfrom _shop.sign import SIGN\n" + CLASS.replace('"A class."', "SIGN + _util.SIGN")
        records, failures = load(root, module__py=source)
        assert failures == []
        said.append(records["module"].description)
    assert said == ["oneone", "twotwo", "oneone"]


def test_an_imported_module_belongs_to_the_file_that_declares_it(tmp_path: Path) -> None:
    (tmp_path / "_shared.py").write_text(GOOD.replace("desk.good", "desk.shared"), encoding="utf-8")
    borrowed = "from _shared import good\n\n" + CLASS
    records, failures = load(tmp_path, borrowed__py=borrowed)
    assert failures == []
    assert sorted(records) == ["borrowed", "desk.good"]


WRAPPED = """\
import functools

from apcore import module


def twice(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


@module(id="desk.wrapped", description="Wrapped.")
@twice
def wrapped(x: int) -> dict[str, int]:
    return {"x": x}
"""


def test_a_decorated_function_below_another_decorator_keeps_its_line(tmp_path: Path) -> None:
    records, failures = load(tmp_path, wrapped__py=WRAPPED)
    assert failures == []
    assert records["desk.wrapped"].line == 14


def test_a_function_without_an_id_is_called_as_its_file(tmp_path: Path) -> None:
    records, _ = load(tmp_path, plain__py=GOOD.replace('id="desk.good", ', ""))
    assert "plain.good" in records


def test_what_a_file_prints_at_import_stays_off_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(tmp_path, loud__py="print('loud')\n" + GOOD.replace("desk.good", "desk.loud"))
    assert capsys.readouterr() == ("", "loud\n")


def test_loading_twice_finds_the_same_and_leaves_apcores_default_registry_alone() -> None:
    before = list(apcore._get_default_client().registry.list(visibility=["public", "hidden"]))
    first, second = take_snapshot(EXAMPLES), take_snapshot(EXAMPLES)
    assert first == second
    assert list(apcore._get_default_client().registry.list(visibility=["public", "hidden"])) == before


def test_register_directory_returns_what_could_not_be_registered(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "twin.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    registry = Registry()
    problems = register_directory(tmp_path, registry)
    assert registry.list() == ["desk.good"]
    assert [(problem.file, problem.line) for problem in problems] == [("bad.py", 1), ("twin.py", 4)]


def test_an_entry_that_is_gone_says_so(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (source,) = scan_directory(tmp_path)
    assert load_entry(source, "good").module_id == "desk.good"
    with pytest.raises(LookupError, match=r"good\.py no longer declares other"):
        load_entry(source, "other")
    (tmp_path / "good.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(LookupError, match="ZeroDivisionError"):
        load_entry(source, "good")


def test_a_keyboard_interrupt_is_not_a_broken_module(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    (source,) = scan_directory(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        load_file(source)


def test_a_live_registry_with_a_module_that_cannot_be_described_keeps_the_others() -> None:
    class Plain:
        description = "Plain."

        def __init__(self) -> None:
            self.input_schema: dict[str, Any] = {"type": "object"}
            self.output_schema: dict[str, Any] = {"type": "object"}

        def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
            return {}

    registry = Registry()
    odd = Plain()
    registry.register("desk.fine", Plain())
    registry.register("desk.odd", odd)
    odd.input_schema = {"type": "object", "maximum": float("nan")}
    snapshot = take_snapshot(registry)
    assert [record.module_id for record in snapshot.modules] == ["desk.fine"]
    assert snapshot.failures[0].reason.startswith("desk.odd: ValueError: ")
