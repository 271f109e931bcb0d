"""How fast servers start and answer, side by side over the same tools.

    python benchmarks/serving.py            a bounded run (under two minutes once the environments exist)
    python benchmarks/serving.py --full     all sizes and repeats; writes the README's table and plot

Every contestant runs in an environment of its own.  Repeats are interleaved, so that whatever else the
machine does falls on all of them; figures are medians, and ratios are what to trust.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bars import print_bars
from contestants import CONTESTANTS, Contestant
from report import write_report
from wire import ARGUMENTS, HttpClient, StdioClient, clean_environment

TOOL = "area0.tool0"
OVERHEAD = Path(__file__).with_name("overhead.py")

# (metric, contestant, number of tools) -> one value a repeat
Samples = dict[tuple[str, str, int], list[float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Repeats for each number of tools, calls a repeat, and who takes part; over HTTP servers are slow to start.

    `extras` is how many of the repeats also measure HTTP, the Executor's share and the build.
    """

    repeats: dict[int, int]
    extras: int
    calls: int
    contestants: tuple[str, ...]
    over_http: tuple[str, ...]


QUICK = Plan(
    repeats={10: 2, 1000: 2},
    extras=1,
    calls=100,
    contestants=tuple(name for name in CONTESTANTS if name != "fastmcp 3"),
    over_http=("ours mcp2",),
)
FULL = Plan(
    repeats={10: 9, 100: 7, 1000: 7, 5000: 3},
    extras=3,
    calls=300,
    contestants=tuple(CONTESTANTS),
    over_http=tuple(name for name, contestant in CONTESTANTS.items() if contestant.http),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all sizes and repeats; update the README")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), help="leave the others out")
    parser.add_argument("--json", type=Path, help="write all samples here")
    arguments = parser.parse_args()
    plan = FULL if arguments.full else QUICK
    chosen = [CONTESTANTS[name] for name in arguments.only or plan.contestants]
    with tempfile.TemporaryDirectory() as directory:
        samples = measure(chosen, plan, Path(directory))
    if arguments.json:
        arguments.json.write_text(json.dumps([[*key, values] for key, values in samples.items()]))
    print_samples(samples)
    print_bars(samples)
    if arguments.full:
        write_report(samples)


def measure(contestants: list[Contestant], plan: Plan, directory: Path) -> Samples:
    samples: Samples = defaultdict(list)
    for size, repeats in plan.repeats.items():
        commands = {contestant: _prepare(contestant, directory, size) for contestant in contestants}
        for repeat in range(repeats + 1):
            for contestant, (command, cwd) in commands.items():
                # The first round fills byte-code and disk caches, and does not count.
                kept = samples if repeat else defaultdict(list)
                _measure_stdio(contestant.name, command, cwd, size, plan.calls, kept)
                if 0 < repeat <= plan.extras:
                    _measure_extras(contestant, command, cwd, size, plan, kept)
    return samples


def _prepare(contestant: Contestant, directory: Path, size: int) -> tuple[list[str], Path]:
    cwd = directory / contestant.name.replace(" ", "-") / str(size)
    cwd.mkdir(parents=True)
    return contestant.prepare(contestant.python(), cwd, size), cwd


def _measure_stdio(name: str, command: list[str], cwd: Path, size: int, calls: int, samples: Samples) -> None:
    with StdioClient(command, cwd) as client:
        client.initialize()
        client.request_raw("tools/list", {})
        samples["start to tools/list", name, size].append(time.perf_counter() - client.started)
        samples["resident MB", name, size].append(client.resident_megabytes())
        samples["tools/list", name, size].append(_median_of(8, lambda: client.request_raw("tools/list", {})))
    with StdioClient(command, cwd) as client:
        client.initialize()
        client.request_raw("tools/list", {})
        answer = client.request("tools/call", {"name": TOOL, "arguments": ARGUMENTS})
        samples["start to tools/call", name, size].append(time.perf_counter() - client.started)
        assert not answer.get("isError"), answer
        call = {"name": TOOL, "arguments": ARGUMENTS}
        samples["tools/call", name, size].append(_median_of(calls, lambda: client.request_raw("tools/call", call)))


def _measure_extras(
    contestant: Contestant, command: list[str], cwd: Path, size: int, plan: Plan, samples: Samples
) -> None:
    if contestant.name in plan.over_http and size in (10, 1000):
        _measure_http(contestant, command, cwd, size, plan.calls, samples)
    if contestant.name.startswith(("ours", "apcore-mcp")) and size == 10:
        _measure_overhead(contestant, cwd, samples)
    if contestant.name == "ours mcp1":
        _measure_build(contestant, cwd, size, samples)


def _median_of(count: int, action: "object") -> float:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        action()  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _measure_http(
    contestant: Contestant, command: list[str], cwd: Path, size: int, calls: int, samples: Samples
) -> None:
    versions = ["2025-11-25"]
    if contestant.name in ("ours mcp2", "fastmcp 4"):
        versions.append("2026-07-28")
    with _http_server(contestant, command, cwd) as port:
        for version in versions:
            client = HttpClient(port, version=version)
            client.initialize()
            client.call(TOOL, ARGUMENTS)
            median = _median_of(calls // 2, lambda client=client: client.call(TOOL, ARGUMENTS))  # type: ignore[misc]
            samples[f"tools/call over HTTP, {version}", contestant.name, size].append(median)
            client.close()


@contextlib.contextmanager
def _http_server(contestant: Contestant, command: list[str], cwd: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [option.format(port=port) for option in contestant.http or ()]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, *options], cwd=cwd, env=clean_environment(), **silent)  # type: ignore[call-overload]
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(15)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError("the HTTP server did not start")


def _measure_overhead(contestant: Contestant, cwd: Path, samples: Samples) -> None:
    """What a call costs in memory beyond the Executor."""
    command = [str(contestant.python()), str(OVERHEAD), str(cwd / "extensions")]
    output = subprocess.run(command, env=clean_environment(), cwd=cwd, capture_output=True, text=True, check=True)
    samples["overhead beyond the Executor", contestant.name, 10].append(float(output.stdout))


def _measure_build(contestant: Contestant, cwd: Path, size: int, samples: Samples) -> None:
    command = [str(contestant.python()), "-m", "apcore_mcp", "build", "extensions", "-o", "rebuilt"]
    started = time.perf_counter()
    subprocess.run(command, env=clean_environment(), cwd=cwd, capture_output=True, check=True)
    samples["build", contestant.name, size].append(time.perf_counter() - started)
    shutil.rmtree(cwd / "rebuilt")


def print_samples(samples: Samples) -> None:
    print(f"\n{'metric':<32} {'tools':>6} {'contestant':<20} {'median':>10} {'spread':>21}")
    for (metric, name, size), values in sorted(samples.items()):
        scale, unit = (1, "MB") if metric == "resident MB" else (1000, "ms")
        spread = f"{min(values) * scale:.2f}-{max(values) * scale:.2f}"
        print(f"{metric:<32} {size:>6} {name:<20} {statistics.median(values) * scale:>7.2f} {unit} {spread:>21}")


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    sys.exit(main())
