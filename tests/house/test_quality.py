"""Formatting, lint and types, as part of the one test command."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--no-cache", "--check", "."),
        pytest.param(("mypy",), marks=requirement("NFR-MAINT-003")),
        ("pyright", "generated"),
    ],
    ids=["ruff check", "ruff format", "mypy --strict", "pyright"],
)
def test_the_tree_is_clean(command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_mypy_is_strict_over_sources_and_generated_code() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'strict = true\nfiles = ["src", "generated"]' in settings
