"""Nothing in the input, and nothing that lies in OUT, makes a build write or remove a file outside OUT."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.hostile.strings import EVIL

from apcore_compiler.artifacts import Artifact, ArtifactSet, NotOurs
from apcore_compiler.compile import compile_snapshot
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def build(out: Path, *module_ids: str, file: str | None = None) -> ArtifactSet:
    records = [ModuleRecord(module_id=name, description="Say.", file=file) for name in module_ids]
    artifacts = compile_snapshot(Snapshot(tuple(records)), Settings(), out).artifacts
    artifacts.write(out)
    return artifacts


@pytest.mark.parametrize("text", [*EVIL, "a/b", "..", ".", "a..b", "a.b\n", "con.x", "a.__init__", "a" * 300, ""])
def test_a_module_id_never_becomes_a_path(text: str, tmp_path: Path) -> None:
    out = tmp_path / "parent" / "out"
    for module_id in (text, f"desk.{text}", f"{text}.say"):
        build(out, module_id, "desk.say", file=f"../{text}")
    assert {path.split("/")[0] for path in contents(tmp_path)} == {"parent"}
    assert {path.split("/")[1] for path in contents(tmp_path)} == {"out"}
    assert all(path.isascii() for path in contents(tmp_path))


@pytest.mark.parametrize(
    "path", ["", "/x", "..", "../x", "a/../x", "a/../../x", "./x", "C:\\x", "C:/x", "a\\..\\x", "\\\\host\\x", "a:b"]
)
def test_an_artifact_cannot_have_a_path_that_leads_out(path: str) -> None:
    with pytest.raises(ValueError, match="leads out of the output directory"):
        Artifact(path, "")


def test_a_manifest_cannot_have_files_outside_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "desk.say")
    victim = tmp_path / "victim.txt"
    victim.write_text("mine", encoding="utf-8")
    (out / "link").symlink_to(tmp_path)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(b"mine").hexdigest()
    paths = ["../victim.txt", str(victim), "link/victim.txt", "server/../../victim.txt", "x\0y", "\ud800", "..", ""]
    manifest["files"] |= dict.fromkeys(paths, digest)
    (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    build(out, "desk.say")
    assert victim.read_text(encoding="utf-8") == "mine"
    assert (out / "link").is_symlink()


@pytest.mark.parametrize(
    "manifest", ["[]", "3", "null", "{}", '{"files": []}', "[" * 100_000, "<<<<<<< HEAD\n", "\xff"]
)
def test_an_unreadable_manifest_gives_no_right_to_anything(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(manifest, encoding="latin-1")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(NotOurs, match="not written by apcore-mcp"):
        build(tmp_path, "desk.say")
    assert contents(tmp_path) == before


def test_the_manifest_of_another_tool_gives_no_right_to_its_files(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"files": {"main.js": "/static/main.js"}}', encoding="utf-8")
    (tmp_path / "main.js").write_text("mine", encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(NotOurs, match="not written by apcore-mcp"):
        build(tmp_path, "desk.say")
    assert contents(tmp_path) == before


def test_a_symbolic_link_in_the_way_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("server", "tools.json"):
        out = tmp_path / f"out-{name}"
        build(out, "desk.say")
        target = out / name
        target.rename(tmp_path / f"moved-{name}")
        target.symlink_to(outside if name == "server" else outside / "tools.json")
        with pytest.raises(NotOurs, match="leads out of the output directory"):
            build(out, "desk.say", "desk.hear")
    assert list(outside.iterdir()) == []


def test_an_output_directory_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with pytest.raises(NotOurs, match="is a symbolic link"):
        build(tmp_path / "out", "desk.say")
    assert list((tmp_path / "real").iterdir()) == []


def test_a_directory_where_a_file_belongs_is_refused_and_kept(tmp_path: Path) -> None:
    build(tmp_path, "desk.say")
    (tmp_path / "tools.json").unlink()
    (tmp_path / "tools.json").mkdir()
    (tmp_path / "tools.json" / "mine").write_text("mine", encoding="utf-8")
    with pytest.raises(NotOurs, match="move it out of the way"):
        build(tmp_path, "desk.say")
    assert (tmp_path / "tools.json" / "mine").read_text(encoding="utf-8") == "mine"
