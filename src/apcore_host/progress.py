"""How far a call has come, told in one rising counter."""

import math
from collections.abc import Awaitable, Callable

__all__ = ["Progress"]

# Takes the progress, the total and a message.
Send = Callable[[float, float | None, str | None], Awaitable[None]]


class Progress:
    """Shared by the chunks of a stream and by what a module reports: the protocol wants every value to be higher."""

    def __init__(self, send: Send) -> None:
        self._send, self._last = send, -math.inf

    async def report(self, value: float, total: float | None = None, message: str | None = None) -> None:
        self._last = value if value > self._last else math.nextafter(self._last, math.inf)
        await self._send(self._last, total, message)

    async def chunk(self, message: str) -> None:
        await self.report(math.floor(max(self._last, 0)) + 1, None, message)
