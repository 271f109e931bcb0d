"""What users install is complete."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(directory), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    return next(directory.glob("*.whl"))


def test_the_wheel_holds_all_packages_and_templates(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    templates = {
        f"apcore_compiler/templates/{path.relative_to(ROOT / 'templates').as_posix()}"
        for path in (ROOT / "templates").rglob("*.j2")
    }
    assert templates
    assert sources | templates <= names


def test_the_wheel_builds_the_example(wheel: Path, tmp_path: Path) -> None:
    site, out = tmp_path / "site", tmp_path / "generated"
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from apcore_mcp.cli import main\n"
        f"main(['build', {str(ROOT / 'examples' / 'extensions')!r}, '-o', {str(out)!r}])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert (out / "tools.json").read_bytes() == (ROOT / "generated" / "tools.json").read_bytes()
