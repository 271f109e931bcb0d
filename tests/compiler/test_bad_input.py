"""Bad input and failing machines: one line, the right exit code, and nothing in OUT is lost."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.running import environment_without, extensions, invoke, run, tree, without_privileges
from tests.requirements import requirement

from apcore_compiler.commands import build, check, export, snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses file modes and resource limits of POSIX")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The output of an earlier build, with a file of the user's beside it."""
    earlier = extensions(tmp_path / "earlier")
    assert invoke(build, earlier, "-o", tmp_path / "out").exit_code == 0
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    return tmp_path / "out"


def no_source(tmp_path: Path) -> tuple[Path, str]:
    return tmp_path / "nowhere", "extensions directory does not exist: {}"


def file_as_source(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    return tmp_path / "notes.txt", "extensions path is not a directory: {}"


def python_file_as_source(tmp_path: Path) -> tuple[Path, str]:
    return extensions(tmp_path / "ext") / "desk" / "greet.py", "extensions path is not a directory: {}"


def not_json(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_file(tmp_path, "{"), "{} is not a registry snapshot: JSONDecodeError: "


def not_utf8(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "snapshot.json").write_bytes(b"\xff\xfe{}")
    return tmp_path / "snapshot.json", "{} is not a registry snapshot: UnicodeDecodeError: "


def not_an_object(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_file(tmp_path, "[1, 2]"), "{} is not a registry snapshot: TypeError: "


def another_document(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_file(tmp_path, '{"name": "package"}'), "{} is not a registry snapshot: KeyError: 'format'"


def newer_format(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_file(tmp_path, '{"format": 2}'), "{} is a snapshot of format 2; this version reads 1"


def nested_without_end(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_file(tmp_path, "[" * 100_000), "{} is not a registry snapshot: RecursionError: "


def not_a_number(tmp_path: Path) -> tuple[Path, str]:
    return module_file(tmp_path, '"metadata": {"x": NaN}'), "{} is not a registry snapshot: ValueError: NaN is not JSON"


def beyond_all_numbers(tmp_path: Path) -> tuple[Path, str]:
    return module_file(tmp_path, '"metadata": {"x": 1e999}'), "{} is not a registry snapshot: ValueError: 1e999 is not"


def unknown_field(tmp_path: Path) -> tuple[Path, str]:
    return module_file(tmp_path, '"descripton": "x"'), "{} is not a registry snapshot: ValueError: desk.say: descripton"


def wrong_type(tmp_path: Path) -> tuple[Path, str]:
    return module_file(tmp_path, '"tags": 5'), "{} is not a registry snapshot: ValueError: desk.say: tags: Input should"


def wrong_bundle(tmp_path: Path) -> tuple[Path, str]:
    source = module_file(tmp_path, '"bundle": "../x"')
    return source, "{} is not a registry snapshot: ValueError: desk.say: there is no bundle '../x'"


def wrong_id(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_of(tmp_path, '{"module_id": 7}'), "{} is not a registry snapshot: ValueError: 7: module_id: "


def module_is_text(tmp_path: Path) -> tuple[Path, str]:
    return snapshot_of(tmp_path, '"desk.say"'), "{} is not a registry snapshot: "


def snapshot_file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "snapshot.json").write_text(text, encoding="utf-8")
    return tmp_path / "snapshot.json"


def snapshot_of(tmp_path: Path, module: str) -> Path:
    text = f'{{"format": 1, "root": null, "modules": [{module}], "failures": [], "sources": {{}}}}'
    return snapshot_file(tmp_path, text)


def module_file(tmp_path: Path, field: str) -> Path:
    return snapshot_of(tmp_path, f'{{"module_id": "desk.say", {field}}}')


BAD_SOURCES = [
    no_source,
    file_as_source,
    python_file_as_source,
    not_json,
    not_utf8,
    not_an_object,
    another_document,
    newer_format,
    nested_without_end,
    not_a_number,
    beyond_all_numbers,
    unknown_field,
    wrong_type,
    wrong_bundle,
    wrong_id,
    module_is_text,
]


@requirement("FR-CLI-008")
@pytest.mark.parametrize("bad", BAD_SOURCES, ids=lambda bad: bad.__name__)
def test_a_bad_source_is_one_line_and_leaves_the_output_alone(bad: Any, out: Path, tmp_path: Path) -> None:
    source, message = bad(tmp_path)
    before = tree(out)
    for command, code in ((build, 1), (check, 2)):
        result = invoke(command, source, "-o", out)
        assert result.exit_code == code
        assert result.stderr.startswith(f"Error: {message.format(source)}")
        assert (result.stderr.count("\n"), result.stdout) == (1, "")
    assert tree(out) == before
    assert invoke(snapshot, source).exit_code == 1
    assert invoke(export, source, "--format", "mcp").exit_code == 1


def fails_without_privileges(*arguments: object, locked: Path, mode: int) -> subprocess.CompletedProcess[str]:
    usual = locked.stat().st_mode
    locked.chmod(mode)
    try:
        return run(*arguments, preexec_fn=without_privileges())
    finally:
        locked.chmod(usual)


def test_a_source_that_may_not_be_read_is_refused(out: Path, tmp_path: Path) -> None:
    source, before = extensions(tmp_path / "locked"), tree(out)
    result = fails_without_privileges("build", source, "-o", out, locked=source, mode=0o000)
    assert (result.returncode, result.stderr) == (1, f"Error: extensions directory cannot be read: {source}\n")
    assert tree(out) == before


def test_a_snapshot_that_may_not_be_read_is_refused(out: Path, tmp_path: Path) -> None:
    source = snapshot_file(tmp_path, "{}")
    result = fails_without_privileges("build", source, "-o", out, locked=source, mode=0o000)
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: {source} is not a registry snapshot: PermissionError")


@pytest.mark.parametrize("place", [".", "server"])
def test_an_output_directory_that_may_not_be_written_stays_as_it_was(place: str, out: Path, tmp_path: Path) -> None:
    source = extensions(tmp_path / "later", wave="from desk.greet import greet\nraise RuntimeError\n")
    (source / "desk" / "greet.py").write_text(
        (source / "desk" / "greet.py").read_text(encoding="utf-8").replace("a visitor", "everybody"), encoding="utf-8"
    )
    before = tree(out)
    result = fails_without_privileges("build", source, "-o", out, locked=out / place, mode=0o555)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: Permission denied: ")
    assert result.stderr.count("\n") == 1
    assert tree(out) == before


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    source = extensions(tmp_path / "ext")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = invoke(build, source, "-o", tmp_path / "file" / "out")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    refused = invoke(build, source, "-o", tmp_path / "file")
    assert (refused.exit_code, refused.stderr) == (1, f"Error: {tmp_path / 'file'} is not a directory\n")


@pytest.mark.parametrize("existing", [True, False], ids=["over an earlier build", "for the first time"])
def test_a_disk_that_is_full_half_way_through_costs_nothing(existing: bool, out: Path, tmp_path: Path) -> None:
    source = extensions(tmp_path / "later")
    (source / "desk" / "greet.py").write_text(
        (source / "desk" / "greet.py").read_text(encoding="utf-8").replace("a visitor", "everybody"), encoding="utf-8"
    )
    target = out if existing else tmp_path / "new"
    before = tree(tmp_path)

    def limit_files() -> None:
        # Enough for the small files, which come first, and too little for the explorer's page.
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    # Not measured: the record of the measurement would not fit either.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    result = run("build", source, "-o", target, preexec_fn=limit_files, env=environment)
    assert (result.returncode, result.stderr) == (2, "Error: File too large\n")
    assert tree(tmp_path) == before


def test_a_missing_ruff_is_named(out: Path, tmp_path: Path) -> None:
    python = environment_without(tmp_path / "venv", "ruff")
    source, before = extensions(tmp_path / "ext"), tree(out)
    result = run("build", source, "-o", out, python=python)
    assert (result.returncode, result.stderr) == (2, "Error: ruff is not installed; `pip install ruff`\n")
    assert tree(out) == before
