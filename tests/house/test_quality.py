"""Formatting, lint and types, as part of the one test command."""

import subprocess
import sys
import tomllib
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


@requirement("NFR-MAINT-002")
def test_the_test_command_fails_below_ninety_per_cent_coverage() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    assert settings["run"]["source"] == ["src"]
    assert settings["report"]["fail_under"] >= 90
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith("-m pytest --cov")


def test_mypy_is_strict_over_sources_and_generated_code() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'strict = true\nfiles = ["src", "generated"]' in settings
