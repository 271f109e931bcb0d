"""Tools that check the tree against rulesets, and the one that tells how things stand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apcore_tree.calls import Read
from apcore_tree.engine.documents import MAX_LEVELS, MAX_NODES
from apcore_tree.engine.node import Json, depth_of, position
from apcore_tree.engine.walking import Everything, walk_after
from apcore_tree.tools.schema import (
    NEXT_PAGE,
    PAGING,
    VERSION,
    VIEW_VERSION,
    array,
    choice,
    flag,
    integer,
    node_id,
    opt,
    record,
    text,
)
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]


def validate_tree(call: Read) -> Json:
    ruleset, root = call.service.rulesets[call["rulesetId"]], call.node("rootNodeId")
    counts: Counter[str] = Counter()
    entries: list[tuple[Any, Json]] = []
    base = depth_of(root)
    for node, depth, _ in walk_after(call.source, root, Everything(), None):
        for ordinal, issue in enumerate(ruleset.check(node, base + depth, call.types)):
            counts[issue.severity] += 1
            entries.append(([position(node, root), ordinal], {"nodeId": node.id, **issue.describe()}))
    after = None if call.after is None else [call.present(root, call.after[0]), call.after[1]]
    page = call.keyed_page(entries, lambda item: item, after)
    return {
        "valid": not counts["error"],
        "summary": {"error": counts["error"], "warning": counts["warning"]},
        "items": page["items"],
        **{name: page[name] for name in ("nextPage", "version") if name in page},
    }


def lint_payload(call: Read) -> Json:
    ruleset = call.service.rulesets[call["rulesetId"]]
    issues = [issue.describe() for issue in ruleset.lint(call.node("nodeId"), call.types)]
    valid = not any(issue["severity"] == "error" for issue in issues)
    return {"valid": valid, "issues": issues, "version": call.version}


def get_status(call: Read) -> Json:
    return {
        "version": call.version,
        "viewVersion": call.session.token(),
        "rootNodeId": call.source.root.id,
        "nodeCount": len(call.tree.nodes),
        "snapshotCount": sum(1 for mark in call.tree.history.marks if mark.label is not None),
        "readOnly": call.service.refusal(call.caller) is not None,
        "payloadTypes": call.types.names,
        "rulesets": call.service.rulesets.ids,
        "limits": {
            "nodes": call.settings.max_nodes,
            "snapshots": call.settings.max_snapshots,
            "batch": 500,
            "documentNodes": MAX_NODES,
            "nestedLevels": MAX_LEVELS,
        },
    }


_ISSUE = {
    "ruleId": text("Which rule."),
    "severity": choice("How bad it is.", "error", "warning"),
    "path": text("JSON Pointer into the payload; empty for the node as a whole."),
    "message": text("What is wrong."),
}
_RULESET = text("Id of the ruleset; get_status lists them.", 128, least=1)

TOOLS = (
    Tool(
        "validate_tree",
        Kind.READ,
        "Check a subtree against a ruleset: structure, required properties, relationships.",
        record(
            None,
            rulesetId=_RULESET,
            rootNodeId=opt(node_id("Check only this subtree; without it the whole tree.")),
            **PAGING,
        ),
        record(
            None,
            valid=flag("Whether there are no errors; warnings do not count."),
            summary=record(
                "How many of each severity.", error=integer("Errors found."), warning=integer("Warnings found.")
            ),
            items=array(
                "The violations of this page.", record("A violation.", nodeId=text("Id of the node."), **_ISSUE)
            ),
            nextPage=NEXT_PAGE,
            version=VERSION,
        ),
        validate_tree,
        idempotent=True,
        paginated=True,
        long=True,
    ),
    Tool(
        "lint_payload",
        Kind.READ,
        "Check one node's payload against a ruleset.",
        record(None, nodeId=node_id("The node."), rulesetId=_RULESET),
        record(
            None,
            valid=flag("Whether there are no errors; warnings do not count."),
            issues=array("What was found.", record("An issue.", **_ISSUE)),
            version=VERSION,
        ),
        lint_payload,
        idempotent=True,
    ),
    Tool(
        "get_status",
        Kind.READ,
        "Read where to begin: the root's id, versions, counts, limits, payload types and rulesets.",
        record(None),
        record(
            None,
            version=VERSION,
            viewVersion=VIEW_VERSION,
            rootNodeId=text("Id of the root of the tree."),
            nodeCount=integer("Nodes in the tree."),
            snapshotCount=integer("Snapshots kept."),
            readOnly=flag("Whether changes are refused for this caller."),
            payloadTypes=array("Registered payload types.", text("Name of a type.")),
            rulesets=array("Registered rulesets.", text("Id of a ruleset.")),
            limits=record(
                "The largest sizes accepted.",
                nodes=integer("Nodes in the tree."),
                snapshots=integer("Snapshots kept."),
                batch=integer("Nodes in one bulk update."),
                documentNodes=integer("Nodes in a document."),
                nestedLevels=integer("Levels in a nested document."),
            ),
        ),
        get_status,
        idempotent=True,
    ),
)
