"""A server run as a child process, as a pair of streams that an MCP session runs on.

The SDK's own transport keeps a line of any length, and lets the child write to our stderr.  Here a line has a limit,
and what the child says on stderr goes through a scrubber.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

__all__ = ["LINE_LIMIT", "Pipes", "launched"]

# More than any sensible result, and little enough to hold in memory.
LINE_LIMIT = 16 * 1024 * 1024
GRACE = 2.0
CHUNK = 8 * 1024

logger = logging.getLogger("apcore_mcp.agents")


class Pipes:
    """The child's stdout as the stream to read from, and its stdin as the one to write to."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        parse: Callable[[bytes], Any],
        dump: Callable[[Any], bytes],
        on_end: Callable[[], None],
    ) -> None:
        self._process, self._parse, self._dump, self._on_end = process, parse, dump, on_end
        self._closed = False

    @property
    def is_open(self) -> bool:
        return not self._closed and self._process.returncode is None

    async def __aenter__(self) -> "Pipes":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._closed = True

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Any]:
        assert self._process.stdout is not None
        while not self._closed:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                logger.error("A server sent a line of more than %d bytes; it is disconnected", LINE_LIMIT)
                break
            if not line:
                break
            try:
                message = self._parse(line)
            except ValueError:
                # Banners and stray prints are common, and no reason to give up a server.
                continue
            yield message
        self._closed = True
        self._on_end()

    async def send(self, message: Any) -> None:
        stdin = self._process.stdin
        if stdin is None or not self.is_open or stdin.is_closing():
            raise anyio.ClosedResourceError
        try:
            stdin.write(self._dump(message) + b"\n")
            await stdin.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error


@asynccontextmanager
async def launched(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str | None,
    on_stderr: Callable[[str], None],
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await _started(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd=directory,
            limit=LINE_LIMIT,
            # A group of its own, so that what it starts ends with it, and Ctrl-C is ours to pass on.
            start_new_session=True,
        )
    )
    listening = asyncio.create_task(_listen(process, on_stderr))
    try:
        yield process
    finally:
        await _completed(_end(process))
        listening.cancel()


async def _started(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Whoever is cancelled while a process starts must not leave it behind."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _completed(_end_when_started(task))
        raise


async def _end_when_started(task: "asyncio.Future[asyncio.subprocess.Process]") -> None:
    await _end(await task)


async def _completed(work: Coroutine[Any, Any, None]) -> None:
    """See something through, however often the task that does so is cancelled meanwhile."""
    task, cancelled = asyncio.ensure_future(work), None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _listen(process: asyncio.subprocess.Process, on_stderr: Callable[[str], None]) -> None:
    assert process.stderr is not None
    while piece := await process.stderr.read(CHUNK):
        on_stderr(piece.decode("utf-8", "replace"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """As MCP has it: close the input, then ask, then insist."""
    if process.stdin is not None:
        process.stdin.close()
    for send in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if send is not None:
            _signal(process, send)
        with suppress(TimeoutError):
            await asyncio.wait_for(_drained(process), GRACE)
            break
    # Its own children may outlive it, and hold its pipes open.
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _drained(process: asyncio.subprocess.Process) -> None:
    """Wait for the end; output that nobody reads would keep the child from reaching it."""
    assert process.stdout is not None
    reading = asyncio.create_task(_discard(process.stdout))
    try:
        await process.wait()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(CHUNK):
        pass


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)
