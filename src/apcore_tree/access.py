"""Who may call what: readers read, editors also change.  The rules follow from the tools themselves."""

from __future__ import annotations

from apcore.acl import ACL, ACLRule

from apcore_tree.errors import Forbidden
from apcore_tree.settings import Caller, Settings
from apcore_tree.tools.catalogue import TOOLS
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["EDITOR", "READER", "check_role", "tree_acl"]

READER = "reader"
EDITOR = "editor"


def open_to_readers(tool: Tool, settings: Settings) -> bool:
    return tool.reads or (tool.kind is Kind.SESSION and settings.session_tools_for_readers)


def check_role(tool: Tool, caller: Caller, settings: Settings) -> None:
    """The same decision as the access list, for callers without apcore."""
    allowed = {EDITOR, READER} if open_to_readers(tool, settings) else {EDITOR}
    if not allowed.intersection(caller.roles):
        raise Forbidden("Access denied", reason="role")


def tree_rules(settings: Settings | None = None) -> list[ACLRule]:
    """Rules to put into an access list of one's own; what they do not allow is left to it."""
    chosen = settings or Settings()
    readable = [tool.module_id for tool in TOOLS.values() if open_to_readers(tool, chosen)]
    return [
        ACLRule(
            callers=["*"],
            targets=readable,
            effect="allow",
            description="Readers and editors may read the tree.",
            conditions={"roles": [READER, EDITOR]},
        ),
        ACLRule(
            callers=["*"],
            targets=["tree.*"],
            effect="allow",
            description="Editors may change the tree.",
            conditions={"roles": [EDITOR]},
        ),
    ]


def tree_acl(settings: Settings | None = None) -> ACL:
    """An access list for the tree's tools alone; everything else is denied."""
    return ACL(tree_rules(settings), default_effect="deny")
