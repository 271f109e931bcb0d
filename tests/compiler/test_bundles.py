"""`--with`: tools that come with this project, compiled in beside the modules of SOURCE."""

import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from apcore import Context, Identity
from apcore.errors import ACLDeniedError
from tests.compiler.running import REPOSITORY, environment_without, extensions, invoke, run, tree

from apcore_compiler.commands import build, check, snapshot
from apcore_host.governance import governed_executor
from apcore_runtime import load
from apcore_runtime.stubs import InProcessTools

pytest.importorskip("apcore_tree", exc_type=ImportError)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extensions(tmp_path_factory.mktemp("bundles") / "ext")


@pytest.fixture(scope="module")
def out(source: Path) -> Path:
    result = invoke(build, source, "-o", source.parent / "out", "--with", "tree")
    assert result.exit_code == 0, result.output
    return source.parent / "out"


def test_a_bundle_is_built_beside_the_modules_and_recorded(source: Path, out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["options"] == {"with": ["tree"]}
    assert manifest["tools"]["desk.greet"] == "desk/greet.py:4"
    assert {place for name, place in manifest["tools"].items() if name.startswith("tree.")} == {None}
    assert invoke(check, source, "-o", out, "--with", "tree").exit_code == 0
    assert invoke(check, source, "-o", out).exit_code == 1


def test_a_setting_says_the_same_as_the_flag(source: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source.parent / "with.toml").write_text('with = ["tree"]\n', encoding="utf-8")
    assert invoke(check, source, "-o", out, "--config", source.parent / "with.toml").exit_code == 0


def test_stubs_have_a_typed_method_for_every_tool_of_the_bundle(out: Path) -> None:
    surface = load(out)
    stubs = importlib.import_module(f"{surface.package.__name__}.stubs.tree_tools")
    assert issubclass(stubs.TreeTools, InProcessTools)
    methods = {name for name, _ in inspect.getmembers(stubs.TreeTools, inspect.iscoroutinefunction)}
    tools = {name.removeprefix("tree.").replace(".", "_") for name in surface.names if name.startswith("tree.")}
    assert methods - {"call"} == tools


def test_stubs_pass_mypy_strict(out: Path, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    options = ["--strict", "--explicit-package-bases", "--config-file=", "--follow-imports=silent"]
    options += ["--ignore-missing-imports", "--no-error-summary"]
    options.append(f"--cache-dir={pytestconfig.cache.mkdir('mypy-golden')}")
    files = [path.relative_to(out.parent).as_posix() for path in out.rglob("*.py") if path.name != "__main__.py"]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=out.parent,
        env={**os.environ, "MYPYPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 0)


def test_building_without_the_bundle_again_removes_its_files(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert invoke(build, source, "-o", target).exit_code == 0
    before = tree(target)
    assert invoke(build, source, "-o", target, "--with", "tree").exit_code == 0
    assert (target / "stubs" / "tree_tools.py").is_file()
    assert invoke(build, source, "-o", target).exit_code == 0
    assert tree(target) == before


def test_a_bundle_nobody_knows_is_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "with.toml").write_text('with = ["forest"]\n', encoding="utf-8")
    result = invoke(build, source, "-o", tmp_path / "out", "--config", tmp_path / "with.toml")
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {tmp_path / 'with.toml'}: with takes tree, not ('forest',)\n",
    )


def test_a_bundle_whose_needs_are_not_installed_is_one_line(source: Path, tmp_path: Path) -> None:
    python = environment_without(tmp_path / "venv", "lark")
    result = run("build", source, "-o", tmp_path / "out", "--with", "tree", python=python)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: `with tree` needs `pip install 'apcore-mcp[tree]'`: ")
    assert not (tmp_path / "out").exists()


def test_a_snapshot_keeps_to_the_modules_of_its_source(source: Path) -> None:
    result = invoke(snapshot, source)
    assert [record["module_id"] for record in json.loads(result.stdout)["modules"]] == ["desk.greet"]


def test_the_generated_files_do_not_depend_on_the_run(source: Path, out: Path, tmp_path: Path) -> None:
    again = tmp_path / source.parent.name / "out"
    copy = extensions(again.parent / "ext")
    result = run("build", copy, "-o", again, "--with", "tree", env={**os.environ, "PYTHONHASHSEED": "1"})
    assert result.returncode == 0, result.stderr
    written = {path.relative_to(out) for path in out.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {name: (again / name).read_bytes() for name in written} == {
        name: (out / name).read_bytes() for name in written
    }


def test_the_rules_of_a_bundle_hold_for_its_tools_alone(out: Path) -> None:
    async def nobody(*_: object) -> None:
        """Answers no question."""

    async def call(module_id: str, arguments: dict[str, str], *roles: str) -> object:
        context: Context[Any] = Context.create(identity=Identity("ann", roles=roles))
        return await executor.call_async(module_id, arguments, context)

    with governed_executor(load(out).registry(), nobody) as executor:
        assert asyncio.run(call("desk.greet", {"name": "Ann"})) == {"greeting": "Hello, Ann."}
        with pytest.raises(ACLDeniedError):
            asyncio.run(call("tree.get_status", {}))
        assert asyncio.run(call("tree.get_status", {}, "reader"))
        with pytest.raises(ACLDeniedError):
            asyncio.run(call("tree.snapshot_create", {"label": "x"}, "reader"))
        assert asyncio.run(call("tree.snapshot_create", {"label": "x"}, "editor"))


def test_what_is_compiled_in_is_what_the_bundle_serves(out: Path) -> None:
    surface = load(out)
    live = surface.registry().bundles["tree"].modules
    compiled = {name: surface.tool(name) for name in surface.names if name.startswith("tree.")}
    assert compiled.keys() == live.keys()
    for name, tool in compiled.items():
        assert list(tool["inputSchema"]["properties"]) == list(live[name].tool.input_schema["properties"])
        assert tool["description"] == live[name].description
        assert tool["annotations"]["readOnlyHint"] is live[name].annotations.readonly
