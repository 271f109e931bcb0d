"""Where a tree is kept: in memory only, or in a SQLite file."""

from __future__ import annotations

from apcore_tree.errors import InvalidArgument
from apcore_tree.store.memory import MemoryStore
from apcore_tree.store.protocol import Store
from apcore_tree.store.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "Store", "open_store"]


def open_store(place: str) -> Store:
    """Open `memory:` or `sqlite:PATH`."""
    kind, _, path = place.partition(":")
    if kind == "memory" and not path:
        return MemoryStore()
    if kind == "sqlite" and path:
        return SQLiteStore(path)
    raise InvalidArgument(f"{place!r} is no store", suggestion="use 'memory:' or 'sqlite:PATH'")
