"""What has to be reached, and whether it is."""

import statistics
from dataclasses import dataclass

OURS, OURS2 = "ours mcp1", "ours mcp2"
PEER, FASTMCP = "apcore-mcp 0.23.3", "fastmcp 4"

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bound on the ratio of two medians; `at_least` turns it round into "so many times faster"."""

    metric: str
    ours: tuple[str, int]
    other: tuple[str, int]
    bound: float
    at_least: bool = False

    def ratio(self, samples: dict[Key, list[float]]) -> float | None:
        ours = samples.get((self.metric, *self.ours))
        other = samples.get((self.metric, *self.other))
        if not ours or not other:
            return None
        ratio = statistics.median(ours) / statistics.median(other)
        return 1 / ratio if self.at_least else ratio

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        (ours, size), (other, other_size) = self.ours, self.other
        if size == other_size:
            return f"{self.metric} with {size:,} tools, {ours} to {other}"
        return f"{self.metric}, {ours} with {size:,} tools to {other} with {other_size:,}"


START, CALL = "start to tools/list", "tools/call"

BARS = (
    Bar(START, (OURS, 1000), (PEER, 1000), 14, at_least=True),
    Bar(START, (OURS, 1000), (FASTMCP, 1000), 12, at_least=True),
    Bar(START, (OURS, 1000), ("floor mcp1", 1000), 1.0),
    Bar(START, (OURS, 5000), (OURS, 10), 1.25),
    Bar("start to tools/call", (OURS, 1000), (PEER, 1000), 10, at_least=True),
    Bar("resident MB", (OURS, 1000), (PEER, 1000), 0.35),
    Bar(CALL, (OURS, 1000), (PEER, 1000), 8, at_least=True),
    Bar(CALL, (OURS, 1000), (FASTMCP, 1000), 1.3),
    Bar("overhead beyond the Executor", (OURS, 10), (PEER, 10), 0.1),
    Bar("tools/list", (OURS, 1000), (PEER, 1000), 10, at_least=True),
    Bar("tools/call over HTTP, 2026-07-28", (OURS2, 1000), (OURS2, 10), 1.3),
    Bar(START, (OURS2, 1000), ("floor mcp2", 1000), 1.2),
    Bar(START, (OURS2, 1000), (OURS2, 10), 1.3),
    Bar(START, (OURS2, 1000), (PEER, 1000), 6, at_least=True),
    Bar(START, (OURS2, 1000), (FASTMCP, 1000), 6, at_least=True),
)

# In milliseconds, whatever the others need.
OVERHEAD_LIMIT = 0.30


def verdicts(samples: dict[Key, list[float]]) -> list[tuple[str, str, str, bool | None]]:
    """Each bar as text, the figure reached, the bound, and whether it is met; None where it was not measured."""
    rows: list[tuple[str, str, str, bool | None]] = []
    for bar in BARS:
        ratio = bar.ratio(samples)
        bound = f">= {bar.bound:g}x faster" if bar.at_least else f"<= {bar.bound:g}x"
        reached = "not measured" if ratio is None else f"{ratio:.2f}x"
        rows.append((str(bar), reached, bound, None if ratio is None else bar.is_met(ratio)))
    overhead = samples.get(("overhead beyond the Executor", OURS, 10))
    if overhead:
        milliseconds = statistics.median(overhead) * 1000
        name = f"overhead beyond the Executor, {OURS}"
        rows.append((name, f"{milliseconds:.3f} ms", f"<= {OVERHEAD_LIMIT} ms", milliseconds <= OVERHEAD_LIMIT))
    return rows


def print_bars(samples: dict[Key, list[float]]) -> None:
    print()
    for text, reached, bound, met in verdicts(samples):
        verdict = {True: "met", False: "MISSED", None: "-"}[met]
        print(f"{verdict:<7} {reached:>12}  {bound:<17} {text}")
