"""Which agent is at work, how far below the first one, and what ends when its caller leaves."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Run", "cancelled_with_its_caller", "current_run", "running"]


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
_work: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("apcore_agents_work", default=None)


def current_run() -> Run | None:
    return _run.get()


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Around one call.  apcore lets modules run on when their caller has gone; those that ask for it are cancelled."""
    work: set[asyncio.Task[Any]] = set()
    reset_run, reset_work = _run.set(run), _work.set(work)
    try:
        yield
    except asyncio.CancelledError:
        for task in work:
            task.cancel()
        raise
    finally:
        _run.reset(reset_run)
        _work.reset(reset_work)


@contextmanager
def cancelled_with_its_caller() -> Iterator[None]:
    """Around the work of a module that can stop at any point."""
    work, task = _work.get(), asyncio.current_task()
    if work is None or task is None:
        yield
        return
    work.add(task)
    try:
        yield
    finally:
        work.discard(task)
