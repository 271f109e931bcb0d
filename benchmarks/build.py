"""How long a build takes, against apcore's own discovery of the same modules.

    python benchmarks/build.py [--sizes 100 1000 5000] [--repeats 5]

Each figure is the median of interleaved runs, each in a fresh process; trust the ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from modules import write_modules

ROOT = Path(__file__).parents[1]

APCORE = """
import logging, sys, time
logging.disable(logging.WARNING)
from apcore import Registry
started = time.perf_counter()
registry = Registry(extensions_dir=sys.argv[1])
registry.discover()
definitions = [registry.get_definition(module_id) for module_id in registry.list()]
print(time.perf_counter() - started, len(definitions))
"""

BUILD = """
import sys, time
from pathlib import Path
from apcore_compiler.compile import compile_snapshot
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import read_source
out = Path(sys.argv[2])
started = time.perf_counter()
compilation = compile_snapshot(read_source(Path(sys.argv[1])), Settings(), out)
compilation.artifacts.write(out)
print(time.perf_counter() - started, len(compilation.program.tools))
"""

# The largest ratio to apcore that is good enough, at this many modules.
BAR_SIZE = 1000
BARS = {"build": 2.0, "build from snapshot": 0.6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'modules':>8} {'what':<22} {'median s':>9} {'spread':>15} {'to apcore':>10} {'bar':>6}")
    per_module = {}
    for size in arguments.sizes:
        medians = _measure(size, arguments.repeats)
        per_module[size] = {name: median / size for name, median in medians.items()}
    _print_growth(per_module)


def _measure(size: int, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        extensions, snapshot = Path(directory) / "extensions", Path(directory) / "snapshot.json"
        write_modules(extensions, size)
        _take_snapshot(extensions, snapshot)
        runs: dict[str, list[float]] = {"apcore": [], "build": [], "build from snapshot": []}
        for number in range(repeats + 1):
            timed = {
                "apcore": _run(APCORE, size, extensions),
                "build": _run(BUILD, size, extensions, Path(directory) / f"out{number}"),
                "build from snapshot": _run(BUILD, size, snapshot, Path(directory) / f"again{number}"),
            }
            # The first round fills the byte-code cache.
            for name, seconds in timed.items() if number else ():
                runs[name].append(seconds)
    return _print_rows(size, runs)


def _run(program: str, expected: int, *arguments: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    seconds, count = output.split()
    assert int(count) == expected, f"{count} modules instead of {expected}"
    return float(seconds)


def _take_snapshot(extensions: Path, snapshot: Path) -> None:
    from apcore_compiler.snapshot import take_snapshot

    snapshot.write_text(take_snapshot(extensions).to_json(snapshot.parent), encoding="utf-8")
    assert json.loads(snapshot.read_text(encoding="utf-8"))["modules"]


def _print_rows(size: int, runs: dict[str, list[float]]) -> dict[str, float]:
    medians = {name: statistics.median(times) for name, times in runs.items()}
    for name, times in runs.items():
        ratio = medians[name] / medians["apcore"]
        bar = BARS.get(name) if size == BAR_SIZE else None
        verdict = "" if bar is None else f"{bar:>6.1f} {'met' if ratio <= bar else 'MISSED'}"
        spread = f"{min(times):.3f}-{max(times):.3f}"
        print(f"{size:>8} {name:<22} {medians[name]:>9.3f} {spread:>15} {ratio:>9.2f}x {verdict}")
    return medians


def _print_growth(per_module: dict[int, dict[str, float]]) -> None:
    sizes = sorted(per_module)
    if len(sizes) > 1:
        for name in BARS:
            growth = per_module[sizes[-1]][name] / per_module[sizes[-2]][name]
            print(f"{name}: {growth:.2f}x the time per module at {sizes[-1]} as at {sizes[-2]} (1.0 is linear)")


if __name__ == "__main__":
    main()
