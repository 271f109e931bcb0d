"""All the tools by name, in the order in which they are listed."""

from __future__ import annotations

from apcore_tree.tools import checking, editing, reading, searching, snapshots, transfer, viewing
from apcore_tree.tools.tool import Tool

__all__ = ["TOOLS"]

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for group in (reading, searching, viewing, editing, snapshots, transfer, checking)
    for tool in group.TOOLS
}
