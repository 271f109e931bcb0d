"""The same input gives the same bytes, wherever, whenever and in whatever order; and a build leaves no other trace."""

import getpass
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from apcore.registry import Registry
from tests.compiler.running import EXAMPLES, extensions, invoke, run, tree

from apcore_compiler.commands import build, snapshot
from apcore_compiler.compile import compile_snapshot
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import take_snapshot
from apcore_runtime.loading import register_directory

WAVE = """\
from apcore import module


@module(id="desk.{0}", description="Wave.", tags=["b", "a", "c"])
def wave(hands: set[str], {0}: int = 1) -> dict[str, int]:
    return {{"waved": {0}}}
"""


def waves(directory: Path, names: list[str]) -> Path:
    return extensions(directory, **{name: WAVE.format(name) for name in names})


def built(source: Path, out: Path) -> dict[str, bytes | None]:
    result = invoke(build, source, "-o", out)
    assert result.exit_code == 0, result.output
    return tree(out)


def test_the_place_and_the_name_of_the_output_leave_no_mark(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "elsewhere" / "second"
    for place in (first, second):
        shutil.copytree(EXAMPLES, place / "extensions", ignore=shutil.ignore_patterns("__pycache__"))
    assert built(first / "extensions", first / "out") == built(second / "extensions", second / "another-name")


def test_the_order_in_which_files_were_made_leaves_no_mark(tmp_path: Path) -> None:
    names = [f"wave{number}" for number in range(8)]
    forwards = built(waves(tmp_path / "a" / "ext", names), tmp_path / "a" / "out")
    backwards = built(waves(tmp_path / "b" / "ext", names[::-1]), tmp_path / "b" / "out")
    assert forwards == backwards


def test_the_hash_seed_leaves_no_mark(tmp_path: Path) -> None:
    source = waves(tmp_path / "ext", ["one", "two", "three"])
    (source / "desk" / "broken.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    outputs = []
    for seed in ("0", "1", "4711"):
        result = run(
            "build", source, "-o", tmp_path / seed, "--format=json", env={**os.environ, "PYTHONHASHSEED": seed}
        )
        assert result.returncode == 1
        outputs.append((result.stdout, tree(tmp_path / seed)))
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_snapshot_builds_to_the_bytes_of_its_source(tmp_path: Path) -> None:
    direct = built(EXAMPLES, tmp_path / "out")
    assert invoke(snapshot, EXAMPLES, "-o", tmp_path / "snapshot.json").exit_code == 0
    shutil.rmtree(tmp_path / "out")
    assert built(tmp_path / "snapshot.json", tmp_path / "out") == direct


def test_a_snapshot_printed_is_the_snapshot_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(snapshot, EXAMPLES, "-o", tmp_path / "snapshot.json").exit_code == 0
    assert invoke(snapshot, EXAMPLES).stdout == (tmp_path / "snapshot.json").read_text(encoding="utf-8")


def test_a_live_registry_lowers_to_the_tools_of_its_directory(tmp_path: Path) -> None:
    registry = Registry()
    assert register_directory(EXAMPLES, registry) == []
    live = compile_snapshot(take_snapshot(registry), Settings(), tmp_path).program
    directory = compile_snapshot(take_snapshot(EXAMPLES), Settings(), tmp_path).program
    assert [tool.mcp for tool in live.tools] == [tool.mcp for tool in directory.tools]


def test_moving_a_module_within_its_file_changes_the_source_map_alone(tmp_path: Path) -> None:
    source = extensions(tmp_path / "ext")
    before = built(source, tmp_path / "out")
    greet = source / "desk" / "greet.py"
    greet.write_text("# One line more.\n" + greet.read_text(encoding="utf-8"), encoding="utf-8")
    after = built(source, tmp_path / "out")
    assert {path for path in after if after[path] != before[path]} == {"explorer.html", "manifest.json"}


def test_nothing_generated_tells_of_the_machine(tmp_path: Path) -> None:
    source = extensions(tmp_path / "ext")
    built(source, tmp_path / "out")
    user = getpass.getuser()
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert str(tmp_path) not in text
            assert str(Path.home()) not in text
            assert not re.search(rf"\b20\d\d-\d\d-\d\d\b|python3?\.\d|/{user}/", text, re.IGNORECASE), path.name
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["source"] == "../ext"


def test_a_build_changes_nothing_outside_its_output(tmp_path: Path) -> None:
    extensions(tmp_path / "project" / "ext")
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    before = tree(tmp_path)
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    result = run("build", "ext", "-o", "out", cwd=tmp_path / "project", env=environment)
    assert result.returncode == 0, result.stderr
    after = tree(tmp_path)
    outside = {path: data for path, data in after.items() if not path.startswith("project/out")}
    assert outside == before
    assert len(after) > len(outside)
