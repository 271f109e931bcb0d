"""How often one agent may call."""

from __future__ import annotations

import re
import time
from functools import cached_property
from typing import TYPE_CHECKING

from apcore_tree.errors import InvalidArgument, RateLimited

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import RateLimiter

__all__ = ["RateLimit"]

_RATE = re.compile(r"\d+\s*(/|per)\s*\d*\s*(second|minute|hour|day|month|year)s?", re.IGNORECASE)


class RateLimit:
    """A moving window per agent, such as `600/minute`; None is no limit."""

    def __init__(self, rate: str | None) -> None:
        if rate is not None and not _RATE.fullmatch(rate.strip()):
            raise InvalidArgument(f"{rate!r} is no rate", suggestion="write, for example, 600/minute")
        self._rate = rate

    @property
    def unlimited(self) -> bool:
        return self._rate is None

    @cached_property
    def _window(self) -> tuple[RateLimitItem, RateLimiter]:
        # Loaded with the first call: a server's start does not wait for it.
        from limits import parse
        from limits.storage import MemoryStorage
        from limits.strategies import MovingWindowRateLimiter

        assert self._rate is not None, "without a limit nobody counts"
        return parse(self._rate), MovingWindowRateLimiter(MemoryStorage())

    def hit(self, agent: str) -> None:
        """Count one call, or raise with the seconds to wait."""
        if self._rate is None:
            return
        item, limiter = self._window
        if not limiter.hit(item, agent):
            wait = limiter.get_window_stats(item, agent).reset_time - time.time()
            raise RateLimited(f"More than {item}", retryAfter=max(0.001, round(wait, 3)))
