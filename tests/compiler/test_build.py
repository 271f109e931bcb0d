"""`build` and `check`: what they do to a directory, and what they leave alone."""

import json
from pathlib import Path

import pytest
from tests.compiler.running import EXAMPLES, extensions, invoke, run, tree
from tests.requirements import requirement

from apcore_compiler.commands import build, check

FAREWELL = """\
from apcore import module


@module(id="hall.leave", description="See a visitor out.")
def leave(name: str) -> dict[str, str]:
    return {"farewell": f"Goodbye, {name}."}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return extensions(tmp_path / "extensions")


@pytest.fixture
def out(source: Path, tmp_path: Path) -> Path:
    """A directory that was built and is current."""
    assert invoke(build, source, "-o", tmp_path / "out").exit_code == 0
    return tmp_path / "out"


def test_build_says_what_it_wrote_and_check_agrees(tmp_path: Path) -> None:
    result = invoke(build, EXAMPLES, "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"{tmp_path / 'out'}: 14 tools, 13 files, ")
    assert "tokens (o200k_base)" in result.stderr
    assert "7 info" in result.stderr
    checked = invoke(check, EXAMPLES, "-o", tmp_path / "out")
    assert (checked.exit_code, checked.stderr) == (0, f"{tmp_path / 'out'} is current\n")


def test_warnings_fail_a_build_only_when_asked_to(tmp_path: Path) -> None:
    described = FAREWELL.replace("See a visitor out.", " ")
    source = extensions(tmp_path / "extensions", hall=described)
    out = tmp_path / "out"
    assert [invoke(build, source, "-o", out, *flags).exit_code for flags in ((), ("--werror",))] == [0, 1]
    assert [invoke(check, source, "-o", out, *flags).exit_code for flags in ((), ("--werror",))] == [0, 1]
    assert "hall.leave" in (out / "tools.json").read_text(encoding="utf-8")


def test_building_again_touches_no_file(source: Path, out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert invoke(build, source, "-o", out).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before


def test_check_tells_apart_what_was_edited_lost_left_over_and_outdated(source: Path, out: Path) -> None:
    hall = source / "hall"
    hall.mkdir()
    (hall / "leave.py").write_text(FAREWELL, encoding="utf-8")
    assert invoke(build, source, "-o", out).exit_code == 0
    (hall / "leave.py").unlink()
    (out / "docs.json").unlink()
    (out / "__main__.py").write_text("print('edited')\n", encoding="utf-8")
    before = tree(out)
    result = invoke(check, source, "-o", out)
    assert result.exit_code == 1
    assert [line.replace(f"{out.as_posix()}/", "") for line in result.stdout.splitlines()] == [
        "modified: __main__.py",
        "missing: docs.json",
        "orphaned: server/hall.py",
        "stale: __init__.py",
        "stale: anthropic_tools.json",
        "stale: explorer.html",
        "stale: manifest.json",
        "stale: openai_tools.json",
        "stale: server/__init__.py",
        "stale: tools.json",
    ]
    assert result.stderr.endswith(f"run `apcore-mcp build {source} -o {out}`\n")
    assert tree(out) == before


def test_check_writes_nothing_and_finds_a_directory_that_is_not_there_wholly_missing(
    source: Path, tmp_path: Path
) -> None:
    result = invoke(check, source, "-o", tmp_path / "absent")
    assert result.exit_code == 1
    assert {line.partition(":")[0] for line in result.stdout.splitlines()} == {"missing"}
    assert not (tmp_path / "absent").exists()


def test_an_edited_manifest_is_modified_and_an_old_one_stale(source: Path, out: Path) -> None:
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("desk/greet.py:", "x.py:"), encoding="utf-8")
    assert f"modified: {manifest.as_posix()}" in invoke(check, source, "-o", out).stdout
    assert invoke(build, source, "-o", out).exit_code == 0
    assert invoke(check, source, "-o", out).exit_code == 0


def test_build_brings_back_what_was_edited_or_lost(source: Path, out: Path) -> None:
    before = tree(out)
    (out / "tools.json").write_text("{}", encoding="utf-8")
    (out / "explorer.html").unlink()
    assert invoke(build, source, "-o", out).exit_code == 0
    assert tree(out) == before


def test_build_removes_what_it_wrote_before_and_no_longer_writes(source: Path, out: Path) -> None:
    hall = source / "hall"
    hall.mkdir()
    (hall / "leave.py").write_text(FAREWELL, encoding="utf-8")
    assert invoke(build, source, "-o", out).exit_code == 0
    assert (out / "server" / "hall.py").is_file()
    (hall / "leave.py").unlink()
    assert invoke(build, source, "-o", out).exit_code == 0
    assert not (out / "server" / "hall.py").exists()
    assert invoke(check, source, "-o", out).exit_code == 0


def test_a_file_of_the_users_own_is_kept_and_does_not_make_the_directory_differ(source: Path, out: Path) -> None:
    for name in ("README.md", "server/extra.py", ".hidden"):
        (out / name).write_text("mine", encoding="utf-8")
    assert invoke(build, source, "-o", out).exit_code == 0
    assert invoke(check, source, "-o", out).exit_code == 0
    assert [(out / name).read_text(encoding="utf-8") for name in ("README.md", "server/extra.py", ".hidden")] == [
        "mine"
    ] * 3


def test_a_directory_with_someone_elses_files_is_refused(source: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work", encoding="utf-8")
    result = invoke(build, source, "-o", theirs)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {theirs} is not empty and was not written by apcore-mcp; choose another directory\n"
    )
    assert tree(theirs) == {"thesis.txt": b"years of work"}


def test_an_empty_directory_is_taken(source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert invoke(build, source, "-o", tmp_path / "empty").exit_code == 0


def test_a_foreign_file_in_the_way_is_refused_before_anything_is_written(source: Path, out: Path) -> None:
    hall = source / "hall"
    hall.mkdir()
    (hall / "leave.py").write_text(FAREWELL, encoding="utf-8")
    (out / "server" / "hall.py").write_text("mine", encoding="utf-8")
    before = tree(out)
    result = invoke(build, source, "-o", out)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {out / 'server' / 'hall.py'} was not written by apcore-mcp; move it out of the way\n"
    )
    assert tree(out) == before


def test_a_manifest_with_a_merge_conflict_is_rebuilt(source: Path, out: Path) -> None:
    before = tree(out)
    text = (out / "manifest.json").read_text(encoding="utf-8")
    (out / "manifest.json").write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n", encoding="utf-8")
    assert f"modified: {(out / 'manifest.json').as_posix()}" in invoke(check, source, "-o", out).stdout
    assert invoke(build, source, "-o", out).exit_code == 0
    assert tree(out) == before


def test_an_error_fails_the_build_and_the_other_tools_are_built(source: Path, tmp_path: Path) -> None:
    (source / "desk" / "broken.py").write_text("raise RuntimeError('no')\n", encoding="utf-8")
    result = invoke(build, source, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "desk/broken.py:1: error[APC001] module-load-failed: RuntimeError: no" in result.stdout
    assert result.stderr.endswith(", 1 error\n")
    tools = json.loads((tmp_path / "out" / "tools.json").read_text(encoding="utf-8"))["tools"]
    assert [tool["name"] for tool in tools] == ["desk.greet"]
    checked = invoke(check, source, "-o", tmp_path / "out")
    assert checked.exit_code == 1
    assert "is current" not in checked.stderr


@requirement("FR-CLI-008")
def test_the_command_exits_as_its_commands_do(source: Path, tmp_path: Path) -> None:
    built = run("build", source, "-o", tmp_path / "out")
    assert (built.returncode, built.stdout) == (0, "")
    assert run("check", source, "-o", tmp_path / "out").returncode == 0
    (tmp_path / "out" / "tools.json").unlink()
    checked = run("check", source, "-o", tmp_path / "out")
    assert (checked.returncode, checked.stdout) == (1, f"missing: {(tmp_path / 'out' / 'tools.json').as_posix()}\n")
    assert run("check", tmp_path / "nowhere", "-o", tmp_path / "out").returncode == 2


@pytest.mark.parametrize("style", ["json", "sarif"])
def test_machine_readable_findings_are_all_that_check_prints(style: str, source: Path, out: Path) -> None:
    (out / "tools.json").unlink()
    result = invoke(check, source, "-o", out, "--format", style)
    assert result.exit_code == 1
    assert json.loads(result.stdout) is not None
    assert "missing: " in result.stderr


@requirement("FR-FILTER-001", "FR-FILTER-002", "FR-FILTER-003")
def test_filters_on_the_command_line_combine(tmp_path: Path) -> None:
    arguments = ["--tags", "orders,read", "--prefix", "orders."]
    assert invoke(build, EXAMPLES, "-o", tmp_path / "out", *arguments).exit_code == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest["tools"]) == ["orders.find"]
    assert manifest["options"] == {"tags": ["orders", "read"], "prefix": "orders."}
