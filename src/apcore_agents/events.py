"""What happens during a run, as records: in process as an async iterator, over HTTP as server-sent events."""

import asyncio
import json
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from apcore_agents.failures import Failure

__all__ = ["EventStream", "Events", "event", "sse", "to_emitter", "tool_error"]

VERSION = 1
LONGEST_QUEUE = 1_000

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"v": VERSION, "type": kind, "id": uuid.uuid4().hex, "ts": now, **fields}


def tool_error(failure: Failure, **fields: Any) -> Event:
    return event("tool_error", **fields, error=failure.as_dict())


def sse(record: Event) -> bytes:
    """One record as text/event-stream has it; JSON leaves no line break in the data."""
    data = json.dumps(record, ensure_ascii=True, separators=(",", ":"), default=str)
    return f"id: {record['id']}\nevent: {record['type']}\ndata: {data}\n\n".encode()


class EventStream:
    """The records of one subscriber, who may be slow: the oldest are dropped, and counted."""

    def __init__(self, limit: int = LONGEST_QUEUE) -> None:
        self._queue: deque[Event] = deque(maxlen=limit)
        self._arrived = asyncio.Event()
        self._closed = False
        self.dropped = 0

    def put(self, record: Event) -> None:
        if self._closed:
            return
        self.dropped += len(self._queue) == self._queue.maxlen
        self._queue.append(record)
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._closed:
                return
            self._arrived.clear()
            await self._arrived.wait()


class Events:
    """Hands records to whoever listens; a listener that fails costs nobody a call."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Event], None]] = {}

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Begin to listen; the result ends it."""
        key = object()
        self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def publish(self, record: Event) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(record)
            except Exception:
                continue


def to_emitter(emitter: Any) -> Callable[[Event], None]:
    """A listener that passes what others should know on to apcore's event emitter."""
    from apcore.events.emitter import ApCoreEvent

    kinds = {
        "tool_error": ("apcore_mcp.tool.error", "error"),
        "tool_withheld": ("apcore_mcp.tool.withheld", "warn"),
        "tool_restored": ("apcore_mcp.tool.restored", "info"),
        "approval_required": ("apcore_mcp.tool.approval", "info"),
    }

    def emit(record: Event) -> None:
        if record["type"] in kinds:
            kind, severity = kinds[record["type"]]
            emitter.emit(
                ApCoreEvent(
                    event_type=kind,
                    module_id=record.get("module_id"),
                    timestamp=record["ts"],
                    severity=severity,
                    data=record,
                )
            )

    return emit
