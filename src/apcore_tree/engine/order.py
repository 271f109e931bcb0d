"""Keys for sibling order: integers with wide gaps, so that an insertion changes one record.

The keys fit SQLite's 64-bit integers.  When a gap is used up the caller spreads the siblings again.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apcore_tree.engine.node import Node

__all__ = ["GAP", "LARGEST", "index_of", "order_before", "spread"]

GAP = 1 << 32
LARGEST = 1 << 62
_order = attrgetter("order")


def order_before(siblings: list[Node], index: int) -> int | None:
    """A key for a new one before the sibling at the index; None when there is no room."""
    after = siblings[index].order
    if index == 0:
        return after - GAP if after - GAP > -LARGEST else None
    before = siblings[index - 1].order
    return (before + after) // 2 if after - before > 1 else None


def spread(count: int) -> list[int]:
    return [index * GAP for index in range(count)]


def index_of(siblings: list[Node], node: Node) -> int:
    """The node's index; by its key, since a scan costs too much among very many siblings."""
    return siblings.index(node) if len(siblings) < 32 else bisect_left(siblings, node.order, key=_order)
