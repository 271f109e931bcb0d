"""Which agent is at work, and how far below the first one."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["Run", "current_run", "running"]


@dataclass(frozen=True, slots=True)
class Run:
    """Kept out of arguments, which the model writes, and out of the context's data, which modules write."""

    agent: str
    depth: int = 0
    parent: "Run | None" = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def child(self, agent: str) -> "Run":
        return Run(agent, self.depth + 1, self)


_run: ContextVar[Run | None] = ContextVar("apcore_agents_run", default=None)


def current_run() -> Run | None:
    return _run.get()


@contextmanager
def running(run: Run) -> Iterator[None]:
    reset = _run.set(run)
    try:
        yield
    finally:
        _run.reset(reset)
