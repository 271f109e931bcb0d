"""Write the README's table and plot from the samples of a full run."""

import datetime
import platform
import re
import statistics
from pathlib import Path

from bars import verdicts

ROOT = Path(__file__).parents[1]
README, PLOT = ROOT / "README.md", ROOT / "benchmarks" / "start.svg"

COLOURS = {
    "ours mcp1": "#0b7a75",
    "ours mcp2": "#5fb3ae",
    "apcore-mcp 0.23.3": "#c8553d",
    "fastmcp 3": "#8d99ae",
    "fastmcp 4": "#4a5568",
    "floor mcp1": "#d4a017",
    "floor mcp2": "#e9c46a",
}

Samples = dict[tuple[str, str, int], list[float]]


def write_report(samples: Samples) -> None:
    PLOT.write_text(plot(samples), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- benchmark -->\n).*?(<!-- /benchmark -->)", re.DOTALL)
    assert pattern.search(text), "the README has no place for the benchmark"
    README.write_text(pattern.sub(lambda match: f"{match[1]}{table(samples)}\n{match[2]}", text), encoding="utf-8")


def table(samples: Samples) -> str:
    rows = [
        f"| {text} | {reached} | {bound} | {'met' if met else 'missed' if met is False else '-'} |"
        for text, reached, bound, met in verdicts(samples)
    ]
    machine = f"{platform.machine()}, {_cores()} cores, Python {platform.python_version()}"
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    head = ["| measured | reached | bar | |", "|---|---|---|---|"]
    return "\n".join([f"Measured on {date}: {machine}.", "", *head, *rows])


def _cores() -> int:
    import os

    return os.cpu_count() or 1


def plot(samples: Samples) -> str:
    """Seconds from spawning a server to its first tools/list, by number of tools; both axes logarithmic."""
    import math

    series: dict[str, list[tuple[int, float]]] = {}
    for (metric, name, size), values in sorted(samples.items()):
        if metric == "start to tools/list":
            series.setdefault(name, []).append((size, statistics.median(values)))

    def x(size: float) -> float:
        return 60 + 150 * (math.log10(size) - 1)

    def y(seconds: float) -> float:
        return 330 - 130 * (math.log10(seconds) + 1)

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 380" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="660" height="380" fill="#ffffff"/>')
    title = "Seconds from start to the first tools/list, by number of tools"
    parts.append(f'<text x="60" y="20" font-size="14">{title}</text>')
    for seconds in (0.1, 0.3, 1, 3, 10):
        parts.append(f'<line x1="60" x2="480" y1="{y(seconds):.0f}" y2="{y(seconds):.0f}" stroke="#dddddd"/>')
        parts.append(f'<text x="52" y="{y(seconds) + 4:.0f}" text-anchor="end">{seconds:g}</text>')
    for size in (10, 100, 1000, 5000):
        parts.append(f'<text x="{x(size):.0f}" y="350" text-anchor="middle">{size:,}</text>')
    for row, (name, points) in enumerate(series.items()):
        colour = COLOURS[name]
        path = " ".join(f"{x(size):.1f},{y(seconds):.1f}" for size, seconds in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(n):.1f}" cy="{y(s):.1f}" r="3" fill="{colour}"/>' for n, s in points]
        parts.append(f'<rect x="500" y="{60 + 22 * row}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="518" y="{71 + 22 * row}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
