"""Ways to run the compiler's commands: in this process, or as a user would."""

import ctypes
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click import Command
from click.testing import CliRunner, Result

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "extensions"

GREETING = """\
from apcore import module


@module(id="desk.greet", description="Greet a visitor.", tags=["desk"])
def greet(name: str) -> dict[str, str]:
    return {"greeting": f"Hello, {name}."}
"""


def invoke(command: Command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def run(*arguments: object, python: str = sys.executable, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `apcore-mcp` in a process of its own."""
    command = [python, "-m", "apcore_mcp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def tree(directory: Path) -> dict[str, bytes | None]:
    """All that lies below a directory: the content of files, and None for what else there is."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def extensions(directory: Path, **files: str) -> Path:
    """A small extensions directory: `desk.greet`, and whatever else is given as `name=source`."""
    desk = directory / "desk"
    desk.mkdir(parents=True, exist_ok=True)
    for name, source in {"greet": GREETING, **files}.items():
        (desk / f"{name}.py").write_text(source, encoding="utf-8")
    return directory


def without_privileges() -> Callable[[], None] | None:
    """What a child of root does first, so that file modes hold for it too."""
    if os.geteuid() != 0:
        return None

    def drop() -> None:
        libc, drop_from_bounding_set = ctypes.CDLL(None), 24
        for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
            libc.prctl(drop_from_bounding_set, capability, 0, 0, 0)

    return drop


def environment_without(directory: Path, package: str) -> str:
    """A virtual environment with all that is installed here but one package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    for place, target in (
        ("purelib", next(directory.glob("lib/python*/site-packages"))),
        ("scripts", directory / "bin"),
    ):
        for entry in Path(sysconfig.get_path(place)).iterdir():
            if not entry.name.startswith(package) and not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
    return str(directory / "bin" / "python")
