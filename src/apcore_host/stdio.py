"""Messages over stdin and stdout, which belong to the protocol alone.

While the streams are claimed, descriptor 0 reads nothing and descriptor 1 is stderr: whatever a module prints, logs or
starts, at import or from a thread, cannot tear a message apart.
"""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

__all__ = ["ClaimedStreams", "Codec", "Prebuilt", "claim_streams", "connect"]

MESSAGE_LIMIT = 64 * 2**20
PARTING = 0.5

ReadLine = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


class Codec(Protocol):
    """What an SDK's messages are on the wire, and inside."""

    def parse_message(self, line: bytes) -> Any: ...
    def message_body(self, message: Any) -> Any: ...
    def dump_message(self, message: Any) -> bytes: ...


class Prebuilt:
    """JSON that is written as it stands, in the place of a value of a result."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json


@dataclass(frozen=True, slots=True)
class ClaimedStreams:
    """Descriptors of the real stdin and stdout."""

    stdin: int
    stdout: int

    @property
    def are_pipes(self) -> bool:
        modes = [os.fstat(stream).st_mode for stream in (self.stdin, self.stdout)]
        return sys.platform != "win32" and all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)


@contextmanager
def claim_streams() -> Iterator[ClaimedStreams]:
    try:
        claimed = ClaimedStreams(os.dup(0), os.dup(1))
    except OSError as error:
        raise RuntimeError(f"stdin and stdout cannot be opened: {error.strerror}") from error
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield claimed
    finally:
        # What was printed meanwhile is still in the buffer, and belongs to stderr.
        sys.stdout.flush()
        for standard, stream in enumerate((claimed.stdin, claimed.stdout)):
            os.set_blocking(stream, True)
            os.dup2(stream, standard)
            os.close(stream)


@dataclass(slots=True)
class Pending:
    """The requests that have been read and not yet answered."""

    ids: set[Any] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self, body: Any) -> None:
        if hasattr(body, "id") and hasattr(body, "method"):
            self.ids.add(body.id)
        elif getattr(body, "method", None) == "notifications/cancelled":
            self.discard((body.params or {}).get("requestId"))

    def written(self, body: Any) -> None:
        if not hasattr(body, "method"):
            self.discard(getattr(body, "id", None))

    def discard(self, request_id: Any) -> None:
        self.ids.discard(request_id)
        self.changed.set()

    async def none_left(self) -> None:
        while self.ids:
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def connect(
    streams: ClaimedStreams, codec: Codec, stop: asyncio.Event, grace: float
) -> AsyncIterator[tuple[Any, Any]]:
    """The pair of streams an SDK's server runs on.

    After the end of the input, or `stop`, requests already read have `grace` seconds to be answered.
    """
    incoming_writer, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, outgoing_reader = anyio.create_memory_object_stream[Any](0)
    pending, reading = Pending(), anyio.CancelScope()

    async def receive(read_line: ReadLine) -> None:
        async with incoming_writer:
            with reading:
                async for message in _messages(read_line, codec, pending):
                    await incoming_writer.send(message)
            with anyio.move_on_after(grace):
                await pending.none_left()
        # Without input a server ends, but not every SDK does while a handler never returns.
        await anyio.sleep(PARTING)
        group.cancel_scope.cancel()

    async def send(write: Write) -> None:
        async with outgoing_reader:
            async for message in outgoing_reader:
                body = codec.message_body(message)
                await write(_prebuilt(body) or codec.dump_message(message) + b"\n")
                pending.written(body)

    async def stop_reading() -> None:
        await stop.wait()
        reading.cancel()

    ends = _pipe_ends if streams.are_pipes else _file_ends
    async with ends(streams) as (read_line, write), anyio.create_task_group() as group:
        group.start_soon(_until_closed, receive(read_line))
        group.start_soon(_until_closed, send(write))
        group.start_soon(stop_reading)
        yield incoming, outgoing
        group.cancel_scope.cancel()


async def _messages(read_line: ReadLine, codec: Codec, pending: Pending) -> AsyncIterator[Any]:
    while True:
        try:
            line = await read_line()
            if not line:
                return
            if line.isspace():
                continue
            message = codec.parse_message(line)
            pending.read(codec.message_body(message))
        except ValueError as error:
            # Neither JSON nor a message: the session logs it and goes on.
            message = error
        yield message


async def _until_closed(work: Coroutine[Any, Any, None]) -> None:
    # Either end may go first: the client, by closing a pipe, or the server, by ending the session.
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await work


def _prebuilt(body: Any) -> bytes | None:
    """A response with a prebuilt list of tools, spliced from its parts; None for any other message."""
    result: Any = getattr(body, "result", None)
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, Prebuilt):
        return None
    rest = json.dumps({key: value for key, value in result.items() if key != "tools"}, separators=(",", ":"))
    joint = "," if len(rest) > 2 else ""
    head = f'{{"jsonrpc":"2.0","id":{json.dumps(body.id)},"result":{rest[:-1]}{joint}"tools":'
    return b"".join((head.encode(), tools.json, b"}}\n"))


@asynccontextmanager
async def _pipe_ends(streams: ClaimedStreams) -> AsyncIterator[tuple[ReadLine, Write]]:
    """Pipes are read and written by the event loop itself, without a thread per message."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MESSAGE_LIMIT)
    # The transports close what they are given; the claimed descriptors are still needed to give the streams back.
    source, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(streams.stdin), "rb", 0)
    )
    sink, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(streams.stdout), "wb", 0)
    )
    writer = asyncio.StreamWriter(sink, protocol, None, loop)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    try:
        yield reader.readline, write
    finally:
        source.close()
        sink.close()


@asynccontextmanager
async def _file_ends(streams: ClaimedStreams) -> AsyncIterator[tuple[ReadLine, Write]]:
    """A terminal or a file is shared with others, who do not expect it to be non-blocking; Windows has no other way."""
    source = os.fdopen(streams.stdin, "rb", closefd=False)
    sink = os.fdopen(streams.stdout, "wb", closefd=False)

    async def read_line() -> bytes:
        return await anyio.to_thread.run_sync(source.readline, MESSAGE_LIMIT, abandon_on_cancel=True)

    def write_now(data: bytes) -> None:
        sink.write(data)
        sink.flush()

    async def write(data: bytes) -> None:
        await anyio.to_thread.run_sync(write_now, data)

    yield read_line, write
