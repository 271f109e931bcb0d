"""The progress bar: on a terminal, and only when there is something to wait for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiler.running import GREETING, extensions, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")

SLOW = "import time\ntime.sleep(0.7)\n" + GREETING


def output_on_a_terminal(source: Path, out: Path) -> str:
    reading, writing = os.openpty()
    command = [sys.executable, "-m", "apcore_mcp", "build", str(source), "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    shown = b""
    try:
        while data := os.read(reading, 4096):
            shown += data
    except OSError:
        # The far end of a terminal that was closed reads as an error.
        pass
    finally:
        os.close(reading)
    assert process.wait(timeout=30) in (0, 1)
    return shown.decode()


def test_a_long_build_shows_how_far_it_is_and_wipes_it_away(tmp_path: Path) -> None:
    names = {f"greet{number}": SLOW.replace("desk.greet", f"desk.greet{number}") for number in range(2)}
    shown = output_on_a_terminal(extensions(tmp_path / "ext", **names), tmp_path / "out")
    assert "\rloading [" in shown
    assert "3/3" in shown
    assert "\r\x1b[K" in shown
    assert "3 tools" in shown.rpartition("\x1b[K")[2]


def test_a_short_build_shows_none(tmp_path: Path) -> None:
    assert "loading" not in output_on_a_terminal(extensions(tmp_path / "ext"), tmp_path / "out")


def test_a_pipe_is_shown_none(tmp_path: Path) -> None:
    source = extensions(tmp_path / "ext", slow=SLOW.replace("desk.greet", "desk.slow").replace("0.7", "1.2"))
    assert "loading" not in run("build", source, "-o", tmp_path / "out").stderr
