"""How often one agent may call."""

from __future__ import annotations

import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from apcore_tree.errors import RateLimited

__all__ = ["RateLimit"]


class RateLimit:
    """A moving window per agent, such as `600/minute`; None is no limit."""

    def __init__(self, rate: str | None) -> None:
        self._item = None if rate is None else parse(rate)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    @property
    def unlimited(self) -> bool:
        return self._item is None

    def hit(self, agent: str) -> None:
        """Count one call, or raise with the seconds to wait."""
        if self._item is None or self._limiter.hit(self._item, agent):
            return
        reset = self._limiter.get_window_stats(self._item, agent).reset_time
        wait = max(0.001, round(reset - time.time(), 3))
        raise RateLimited(f"More than {self._item}", retryAfter=wait)
