"""Format generated Python: one pass of ruff over a staged tree."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from apcore_compiler.artifacts import Artifact

__all__ = ["FormatterFailed", "format_artifacts"]

# Nothing of the user's configuration, and no .ruff_cache in the current directory.
COMMAND = ("-m", "ruff", "format", "--isolated", "--no-cache", "--line-length=120", "--target-version=py311")


class FormatterFailed(RuntimeError):
    """ruff is missing, or refused what the compiler wrote."""


def format_artifacts(artifacts: list[Artifact]) -> list[Artifact]:
    """Format the Python among the artifacts; a process per file would be some thirty times slower."""
    with tempfile.TemporaryDirectory(prefix="apcore-mcp-") as staging:
        root = Path(staging)
        python = [artifact for artifact in artifacts if artifact.path.endswith(".py")]
        for artifact in python:
            target = root / artifact.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(artifact.data)
        _run_ruff(root)
        formatted = {artifact.path: (root / artifact.path).read_text(encoding="utf-8") for artifact in python}
    return [Artifact(artifact.path, formatted.get(artifact.path, artifact.text)) for artifact in artifacts]


def _run_ruff(root: Path) -> None:
    result = subprocess.run([sys.executable, *COMMAND, str(root)], capture_output=True, text=True, check=False)
    if "No module named ruff" in result.stderr:
        raise FormatterFailed("ruff is not installed; `pip install ruff`")
    if result.returncode:
        reason = result.stderr.replace(f"{root}{os.sep}", "").strip().splitlines()
        raise FormatterFailed(f"ruff failed: {reason[0] if reason else f'exit code {result.returncode}'}")
