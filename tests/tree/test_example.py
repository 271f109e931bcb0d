"""The example runs, and two agents at once lose nothing of each other's work."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "tree" / "bill_of_materials.py"


def test_two_agents_edit_one_bill_of_materials(capsys: pytest.CaptureFixture[str]) -> None:
    told = runpy.run_path(str(EXAMPLE))["main"]()
    assert told["outline"] == [
        (0, "Workshop", None),
        (1, "Bicycle", None),
        (2, "Saddle", 40.0),
        (3, "Seat post", None),
        (2, "Wheel", 60.0),
        (3, "Spoke", 0.4),
        (3, "Tyre", 25.0),
        (2, "Frame", 320.0),
        (3, "Fork", 85.0),
    ]
    assert told["summary"] == {"added": 1, "removed": 0, "moved": 1, "reordered": 1, "updated": 5}
    assert "design move_node" in capsys.readouterr().out
