"""What a server offers: the tools that a filter lets through."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from apcore_runtime.surface import Surface

__all__ = ["SelectedTools", "Tools"]


class Tools(Protocol):
    """What a server offers; a tool that a filter leaves out can be neither listed, called nor read about."""

    @property
    def count(self) -> int: ...
    def tool(self, name: str) -> dict[str, Any] | None: ...
    def tools(self) -> list[dict[str, Any]]: ...
    def listed(self) -> bytes: ...
    def docs(self) -> dict[str, str]: ...


class SelectedTools:
    """A tool that the filter leaves out does not exist; without one nothing is parsed until a tool is asked for."""

    def __init__(self, surface: Surface, tags: Sequence[str] | None = None, prefix: str | None = None) -> None:
        self._surface, self._tags, self._prefix = surface, set(tags or ()), prefix or ""
        self._parsed: dict[str, dict[str, Any]] = {}

    @cached_property
    def _names(self) -> dict[str, None]:
        return {name: None for name in self._surface.names if self._admits(name)}

    def _admits(self, name: str) -> bool:
        if not name.startswith(self._prefix):
            return False
        return not self._tags or self._tags <= set(self._surface.spec(name).tags)

    @property
    def _is_whole(self) -> bool:
        return not self._tags and not self._prefix

    @property
    def count(self) -> int:
        return self._surface.count if self._is_whole else len(self._names)

    def tool(self, name: str) -> dict[str, Any] | None:
        if name not in self._parsed:
            if name not in self._names:
                return None
            self._parsed[name] = self._surface.tool(name)
        return self._parsed[name]

    def tools(self) -> list[dict[str, Any]]:
        return [tool for name in self._names if (tool := self.tool(name))]

    def listed(self) -> bytes:
        """The array of tools as JSON, ready for the wire."""
        if self._is_whole:
            return self._surface.tools_list().removeprefix(b'{"tools":').removesuffix(b"}")
        return json.dumps(self.tools(), ensure_ascii=False, separators=(",", ":")).encode()

    def docs(self) -> dict[str, str]:
        return {name: text for name, text in self._surface.docs.items() if name in self._names}
