"""Write the README's table and plot from the samples of a full run."""

import datetime
import math
import os
import platform
import re
import statistics
from pathlib import Path

from bars import verdicts

ROOT = Path(__file__).parents[1]
SIZE = 1000
TITLE = "Seconds from start to the first tools/list, by number of tools"
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
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return "\n".join(
        [
            f"Measured on {date}: {machine}. Milliseconds at {SIZE:,} tools, medians with the spread of the repeats;",
            "the floor is a bare SDK server with a single tool.",
            "",
            *_figures(samples),
            "",
            f"![{TITLE}](benchmarks/{PLOT.name})",
            "",
            "What has to be reached, as ratios of medians:",
            "",
            *_bars(samples),
        ]
    )


def _figures(samples: Samples) -> list[str]:
    metrics = sorted({metric for metric, _, size in samples if size == SIZE})
    rows = [
        [metric, *(_cell(metric, samples.get((metric, contestant, SIZE))) for contestant in COLOURS)]
        for metric in metrics
    ]
    return _markdown([["", *COLOURS], ["---"] * (len(COLOURS) + 1), *rows])


def _cell(metric: str, values: list[float] | None) -> str:
    if not values:
        return ""
    scale = 1 if metric == "resident MB" else 1000
    low, middle, high = (_short(value * scale) for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}–{high})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bars(samples: Samples) -> list[str]:
    words = {True: "met", False: "missed", None: ""}
    rows = [[text, reached, bound, words[met]] for text, reached, bound, met in verdicts(samples)]
    return _markdown([["measured", "reached", "bar", ""], ["---"] * 4, *rows])


def _markdown(rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]


def plot(samples: Samples) -> str:
    """Seconds from spawning a server to its first tools/list, by number of tools; both axes logarithmic."""
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
    parts.append(f'<text x="60" y="20" font-size="14">{TITLE}</text>')
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
