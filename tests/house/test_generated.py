"""The committed output is what the committed sources compile to."""

from pathlib import Path

from apcore_compiler.compile import compile_snapshot
from apcore_compiler.settings import find_settings, read_settings
from apcore_compiler.snapshot import take_snapshot

ROOT = Path(__file__).parents[2]


def test_generated_is_current() -> None:
    snapshot = take_snapshot(ROOT / "examples" / "extensions")
    compilation = compile_snapshot(snapshot, read_settings(find_settings(ROOT)), ROOT / "generated")
    assert dict(compilation.artifacts.diff(ROOT / "generated")) == {
        "modified": [],
        "missing": [],
        "orphaned": [],
        "stale": [],
    }
    assert not compilation.findings.failed
