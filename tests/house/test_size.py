"""The adapter stays thin."""

from pathlib import Path

from tests.house.code_lines import package_lines
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]


@requirement("NFR-MAINT-001")
def test_the_adapter_has_at_most_1200_code_lines() -> None:
    package = ROOT / "src" / "apcore_mcp"
    assert 500 <= package_lines(package) <= 1200
    # cloc counts whatever lies in the folder, so nothing but Python may.
    assert {path.suffix for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts} <= {
        ".py",
        ".typed",
    }
