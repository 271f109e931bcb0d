"""One lasting connection to each external server: opened, watched, and opened again by a task that owns it.

Callers never enter or leave the SDK's contexts.  Each waits for its answer, for the end of the connection, or for its
own deadline, whichever is first, so that a server that dies or goes silent leaves nobody hanging.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from apcore_agents.failures import ToolError
from apcore_agents.link import Connection, ConnectionLost, NeverSent, Progress, ProtocolFault, connected
from apcore_agents.lockfile import LockedTool, drift
from apcore_agents.secrets import Secrets
from apcore_agents.servers import Server

__all__ = ["Link", "open_connection"]

logger = logging.getLogger("apcore_mcp.agents")

CONNECT_TIMEOUT = 20.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 15.0
# A connection that ends sooner counts as a failed one: a server that starts and dies must not be started without end.
LASTING = 5.0
LONGEST_LINE = 2_000

# Opens a connection, and is given what to call when the server's tools have changed, and when it has gone.
Open = Callable[[Callable[[], None], Callable[[], None]], AbstractAsyncContextManager[Connection]]
# Told of each tool that is withheld, or offered again (None): (alias, tool, reason).
Notice = Callable[[str, str, str | None], None]


class _Epoch:
    """One connection, from the wish for it to its end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[Connection | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    def end(self) -> None:
        for future in (self.opened, self.ended):
            if not future.done():
                future.set_result(None)


class Link:
    def __init__(
        self,
        server: Server,
        locked: Mapping[str, LockedTool],
        open_connection: Open,
        *,
        recheck: float = 300.0,
        notice: Notice = lambda *_: None,
    ) -> None:
        self.alias = server.alias
        self.connections = 0
        self._locked, self._open, self._recheck, self._notice = dict(locked), open_connection, recheck, notice
        # Until the server has been compared with the lock, none of its tools is offered.
        self.withheld: dict[str, str] = dict.fromkeys(self._locked, "not yet compared")
        self._news = asyncio.Event()
        self._faulty = False
        self._leaving: set[asyncio.Future[Any]] = set()
        self._epoch: _Epoch | None = None
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to connect; who calls meanwhile waits."""
        if self._owner is None:
            self._epoch = _Epoch()
            self._owner = asyncio.create_task(self._own(), name=f"link to {self.alias}")

    async def stop(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.cancel()
            await asyncio.gather(owner, *self._leaving, return_exceptions=True)
            self._current.end()

    async def first_attempt(self) -> bool:
        """Whether the server could be reached the first time."""
        return await asyncio.shield(self._current.opened) is not None

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout: float,
        readonly: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """The result as it is on the wire.  Sent again only when it provably was not sent at all."""
        deadline = asyncio.get_running_loop().time() + timeout
        for _ in range(2):
            epoch, connection = await self._connection(deadline)
            self._check_offered(tool)
            with contextlib.suppress(NeverSent):
                return await self._answer(epoch, connection.call(tool, arguments, progress), tool, deadline, readonly)
            self._mark_faulty()
            await asyncio.wait({epoch.ended}, timeout=_left(deadline))
        raise self._unavailable()

    @property
    def _current(self) -> _Epoch:
        if self._epoch is None:
            raise ToolError("UPSTREAM_UNAVAILABLE", f"server {self.alias!r} has not been started")
        return self._epoch

    async def _connection(self, deadline: float) -> tuple[_Epoch, Connection]:
        """The connection, or that of the next attempt; whoever waits learns how that one ended."""
        epoch = self._current
        if not epoch.opened.done():
            await asyncio.wait({epoch.opened}, timeout=_left(deadline))
        connection = epoch.opened.result() if epoch.opened.done() else None
        if connection is None or epoch.ended.done():
            raise self._unavailable()
        return epoch, connection

    def _unavailable(self) -> ToolError:
        return ToolError("UPSTREAM_UNAVAILABLE", f"server {self.alias!r} is not connected", server=self.alias)

    def _check_offered(self, tool: str) -> None:
        if tool not in self._locked:
            raise ToolError("TOOL_NOT_FOUND", "there is no such tool")
        if tool in self.withheld:
            message = f"{tool!r} of server {self.alias!r} is not what was locked"
            raise ToolError("TOOL_WITHHELD", message, reason=self.withheld[tool], server=self.alias)

    async def _answer(self, epoch: _Epoch, request: Any, tool: str, deadline: float, readonly: bool) -> dict[str, Any]:
        task: asyncio.Future[Any] = asyncio.ensure_future(request)
        place = f"{tool!r} of server {self.alias!r}"
        try:
            waited: set[asyncio.Future[Any]] = {task, epoch.ended}
            done, _ = await asyncio.wait(waited, timeout=_left(deadline), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                self._abandon(task)
        if task in done:
            return self._result(task, place, readonly)
        if epoch.ended in done:
            raise self._disconnected(place, readonly)
        raise ToolError("UPSTREAM_TIMEOUT", f"{place} took too long", readonly=readonly, server=self.alias)

    def _abandon(self, task: "asyncio.Future[Any]") -> None:
        """Cancelling tells the server to stop, which nobody has to wait for; a late answer belongs to nobody."""
        task.cancel()
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _result(self, task: "asyncio.Future[Any]", place: str, readonly: bool) -> dict[str, Any]:
        try:
            result: dict[str, Any] = task.result()
        except ConnectionLost:
            self._mark_faulty()
            raise self._disconnected(place, readonly) from None
        except ProtocolFault as fault:
            raise ToolError("UPSTREAM_PROTOCOL", f"{place}: {fault}", server=self.alias) from None
        return result

    def _disconnected(self, place: str, readonly: bool) -> ToolError:
        message = f"the server went away during {place}"
        return ToolError("UPSTREAM_DISCONNECTED", message, readonly=readonly, server=self.alias)

    # --- The owner ---

    async def _own(self) -> None:
        pause, clock = SHORTEST_PAUSE, asyncio.get_running_loop().time
        while self._owner is not None:
            started = clock()
            reached = await self._one_connection(self._current)
            lasted = reached and clock() - started >= LASTING
            pause = SHORTEST_PAUSE if lasted else min(pause * 2, LONGEST_PAUSE)
            # The next one is there to be waited for before the pause begins.
            ended, self._epoch = self._current, _Epoch()
            ended.end()
            await asyncio.sleep(pause * (0.5 + random.random()))

    async def _one_connection(self, epoch: _Epoch) -> bool:
        """Open, compare, and stay until something is wrong; whether it was open at all."""
        self._faulty = False
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    connection = await stack.enter_async_context(self._open(self._news.set, self._mark_faulty))
                    self._compare(await connection.tools())
                self.connections += 1
                epoch.opened.set_result(connection)
                await self._watch(connection)
        except asyncio.CancelledError as error:
            # When a request fails badly, the first SDK's cancel scope leaks out; that is not meant for this task.
            if self._owner is None or "cancel scope" not in str(error):
                raise
            _absorb_cancellation()
        except Exception as error:
            logger.info("Server %s: %s", self.alias, _named(error))
        return epoch.opened.done()

    async def _watch(self, connection: Connection) -> None:
        """Compare again when the server says so, and from time to time in case it does not."""
        while not self._faulty:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._recheck)
            if not self._faulty:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    self._compare(await connection.tools())

    def _compare(self, live: list[dict[str, Any]]) -> None:
        before, self.withheld = self.withheld, drift(self._locked, live)
        for tool in self._locked:
            reason = self.withheld.get(tool)
            if reason is not None and before.get(tool) != reason:
                logger.warning("Tool %s of server %s is withheld: %s", tool, self.alias, reason)
                self._notice(self.alias, tool, reason)
            elif reason is None and before.get(tool) not in (None, "not yet compared"):
                self._notice(self.alias, tool, None)

    def _mark_faulty(self) -> None:
        self._faulty = True
        self._news.set()


def open_connection(server: Server, secrets: Secrets) -> Open:
    """The way to a real server; its secrets are looked up at each connection."""
    stderr = logging.getLogger("apcore_mcp.agents.stderr")

    def open_(on_change: Callable[[], None], on_end: Callable[[], None]) -> AbstractAsyncContextManager[Connection]:
        stream, line = secrets.scrubber.stream(), ""

        def on_stderr(piece: str) -> None:
            nonlocal line
            *lines, line = (line + stream.push(piece)).split("\n")
            for whole in lines:
                stderr.info("%s: %s", server.alias, whole[:LONGEST_LINE])
            line = line[:LONGEST_LINE]

        def fill(text: str) -> str:
            return secrets.fill(text, f"mcp.{server.alias}")

        return connected(server, fill, on_change=on_change, on_end=on_end, on_stderr=on_stderr)

    return open_


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _absorb_cancellation() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _named(error: BaseException) -> str:
    """The kind of error, without its text, which may hold a URL with whatever it holds."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(sorted({_named(inner) for inner in error.exceptions}))
    return type(error).__name__
