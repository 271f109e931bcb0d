"""The tools of a live registry, lowered in memory with the functions that the compiler uses."""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.adapters.tools import to_mcp_tool

logger = logging.getLogger(__name__)
EVENTS = ("register", "unregister")


class LiveTools:
    def __init__(self, registry: Any, tags: Sequence[str] | None = None, prefix: str | None = None) -> None:
        self._registry, self._tags, self._prefix = registry, list(tags or ()) or None, prefix
        self._converter = SchemaConverter()
        self._lock = threading.Lock()
        self._tools: dict[str, dict[str, Any]] = {}
        self._docs: dict[str, str] = {}
        for module_id in self._eligible():
            self._lower(module_id)

    def follow(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Keep up with the registry and call `notify` in the thread of each change; the result stops that."""

        def changed(module_id: str, _: Any) -> None:
            self._refresh(module_id)
            notify()

        def unfollow() -> None:
            for event in EVENTS:
                self._registry.off(event, changed)

        for event in EVENTS:
            self._registry.on(event, changed)
        return unfollow

    @property
    def count(self) -> int:
        return len(self.tools())

    def tool(self, name: str) -> dict[str, Any] | None:
        with self._lock:
            return self._tools.get(name)

    def tools(self) -> list[dict[str, Any]]:
        with self._lock:
            return [self._tools[name] for name in sorted(self._tools)]

    def listed(self) -> bytes:
        """The array of tools as JSON, ready for the wire."""
        return json.dumps(self.tools(), ensure_ascii=False, separators=(",", ":")).encode()

    def docs(self) -> dict[str, str]:
        with self._lock:
            return {name: self._docs[name] for name in sorted(self._docs)}

    def _eligible(self) -> list[str]:
        eligible: list[str] = self._registry.list(tags=self._tags, prefix=self._prefix)
        return eligible

    def _refresh(self, module_id: str) -> None:
        # Both events end here, and the registry is asked under the lock: the last change wins, whatever its thread.
        with self._lock:
            self._tools.pop(module_id, None)
            self._docs.pop(module_id, None)
            if module_id in self._eligible():
                self._lower(module_id)

    def _lower(self, module_id: str) -> None:
        try:
            descriptor = self._registry.get_definition(module_id)
            if descriptor is None:
                raise LookupError("it has no definition")
            self._tools[module_id] = to_mcp_tool(descriptor, self._converter)
        except Exception as error:
            logger.warning("Module %s is not offered: %s", module_id, error)
            return
        if descriptor.documentation:
            self._docs[module_id] = descriptor.documentation
