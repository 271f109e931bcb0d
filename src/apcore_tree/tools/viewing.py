"""Tools that change the caller's session: folding, filters and bookmarks.  The tree stays as it is."""

from __future__ import annotations

import json
from typing import Any

from apcore_tree.calls import Read, SessionChange
from apcore_tree.engine.node import Json, Node, walk
from apcore_tree.engine.predicates import names_of
from apcore_tree.errors import Conflict, InvalidArgument, NotFound
from apcore_tree.tools.schema import (
    MUTATION,
    PAGING,
    VIEW_CHANGED,
    array,
    choice,
    flag,
    integer,
    node_id,
    opt,
    page_of,
    property_paths,
    record,
    text,
)
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]


def expand_node(call: SessionChange) -> Json:
    return _fold_one(call, True)


def collapse_node(call: SessionChange) -> Json:
    return _fold_one(call, False)


def toggle_node(call: SessionChange) -> Json:
    return _fold_one(call, not call.session.view.is_expanded(call.node("nodeId")))


def _fold_one(call: SessionChange, expanded: bool) -> Json:
    changed = call.session.view.set(call.node("nodeId"), expanded)
    return {"changedCount": int(changed), "isExpanded": expanded}


def expand_all(call: SessionChange) -> Json:
    return _fold_below(call, "rootNodeId", True, None)


def collapse_all(call: SessionChange) -> Json:
    return _fold_below(call, "rootNodeId", False, None)


def set_expansion_recursive(call: SessionChange) -> Json:
    return _fold_below(call, "nodeId", call["expanded"], call.get("maxDepth"))


def _fold_below(call: SessionChange, argument: str, expanded: bool, levels: int | None) -> Json:
    call.session.view.set_below(call.node(argument), expanded, levels, call.tree)
    return {"changedCount": 0 if levels == 0 else 1}


def set_filters(call: SessionChange) -> Json:
    scope, filters = call["scope"], (tuple(call["included"]), tuple(call["excluded"]))
    before = dict(call.session.filters)
    for each in ("view", "node") if scope == "all" else (scope,):
        call.session.filters[each] = filters
    return {
        "changedCount": int(before != call.session.filters),
        "scope": scope,
        "included": list(filters[0]),
        "excluded": list(filters[1]),
    }


def bookmark(call: SessionChange) -> Json:
    node, label, marks = call.node("nodeId"), call["label"], call.session.bookmarks
    if marks.get(label, node.id) != node.id and not call["overwrite"]:
        raise Conflict(
            f"The label {label!r} is taken", reason="label_taken", suggestion="choose another, or pass overwrite"
        )
    if label not in marks and len(marks) >= 1_000:
        raise InvalidArgument("A session keeps at most 1000 bookmarks", reason="max_bookmarks")
    changed = marks.get(label) != node.id
    marks[label] = node.id
    return {"changedCount": int(changed), "label": label, "nodeId": node.id}


def remove_bookmark(call: SessionChange) -> Json:
    if call["label"] not in call.session.bookmarks:
        raise NotFound(f"There is no bookmark {call['label']!r}")
    del call.session.bookmarks[call["label"]]
    return {"changedCount": 1}


def list_bookmarks(call: Read) -> Json:
    def shape(entry: tuple[str, str]) -> Json:
        label, target = entry
        node = call.source.find(target)
        item: Json = {"label": label, "nodeId": target, "exists": node is not None}
        if node is not None:
            item["path"] = _path_of(call, node)
        return item

    entries = sorted(call.session.bookmarks.items())
    return call.keyed_page(((label, (label, target)) for label, target in entries), shape)


def _path_of(call: Read, node: Node) -> str:
    return "/" + "/".join(names_of(node, call.types))


# -- importing a view


def import_view(call: SessionChange) -> Json:
    """Take over folding, filters and the default; nodes are looked up, never made."""
    document = _parsed(call["viewJson"])
    wrapper: Json = document if "View" in document else {"View": document}
    view_root = wrapper["View"]
    if not isinstance(view_root, dict):
        raise _shape("'View' is an object")
    root = _look_up_root(call, wrapper.get("RootNodeId", view_root.get("NodeId")), view_root)
    nodes = _listed(view_root, call)
    session = call.session
    if isinstance(wrapper.get("DefaultExpanded"), bool):
        session.view.default_expanded = wrapper["DefaultExpanded"]
    if "IncludedProperties" in wrapper or "ExcludedProperties" in wrapper:
        session.filters["view"] = (_texts(wrapper, "IncludedProperties"), _texts(wrapper, "ExcludedProperties"))
    applied, unknown = 0, []
    for at, item in enumerate(nodes):
        target = root if at == 0 else call.source.find(str(item.get("NodeId")))
        if target is None:
            unknown.append(str(item.get("NodeId")))
        elif isinstance(item.get("IsExpanded"), bool):
            session.view.set(target, item["IsExpanded"])
            applied += 1
    return {"changedCount": 1, "applied": applied, "unknown": unknown[:100]}


def _parsed(given: Any) -> Json:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise _shape("it is not JSON") from None
    if not isinstance(given, dict):
        raise _shape("a view is an object")
    return given


def _look_up_root(call: SessionChange, root_id: Any, view_root: Json) -> Node:
    strategy = call["rootLookupStrategy"]
    if strategy == "currentRoot":
        return call.tree.root
    if strategy == "byPath":
        return _by_path(call, view_root)
    if not isinstance(root_id, str):
        raise _shape("'RootNodeId' is missing")
    return call.source.node(root_id)


def _by_path(call: SessionChange, view_root: Json) -> Node:
    """The node that has the name of the document's root, nearest to the root of the tree."""
    kind = call.types[str(view_root.get("PayloadType", "object"))]
    wanted = view_root.get(kind.name_property)
    found = [node for node in walk(call.tree.root) if wanted is not None and call.types.name_of(node) == wanted]
    if not found:
        raise NotFound(f"There is no node named {wanted!r}")
    if len(found) > 1:
        raise InvalidArgument(
            f"{len(found)} nodes are named {wanted!r}", field="rootLookupStrategy", reason="ambiguous"
        )
    return found[0]


def _listed(view_root: Json, call: SessionChange) -> list[Json]:
    """The node objects of the document, root first; their types must be allowed."""
    allowed = set(call.get("payloadTypes", call.types.names))
    nodes: list[Json] = []
    stack: list[Any] = [view_root]
    while stack:
        item = stack.pop()
        if not isinstance(item, dict) or not isinstance(item.get("Children", []), list):
            raise _shape("every node is an object, 'Children' a list")
        kind = item.get("PayloadType", "object")
        if kind not in allowed or kind not in call.types.names:
            raise InvalidArgument(f"The payload type {kind!r} is not allowed", field="payloadTypes")
        nodes.append(item)
        if len(nodes) > 50_000:
            raise InvalidArgument("A view document has at most 50000 nodes", maxBatch=50_000)
        stack.extend(reversed(item.get("Children", [])))
    return nodes


def _texts(wrapper: Json, name: str) -> tuple[str, ...]:
    paths = wrapper.get(name, [])
    if not isinstance(paths, list) or len(paths) > 64 or not all(isinstance(path, str) and path for path in paths):
        raise _shape(f"{name!r} is a list of at most 64 property paths")
    return tuple(paths)


def _shape(what: str) -> InvalidArgument:
    return InvalidArgument(f"The view document has the wrong shape: {what}", field="viewJson", reason="shape")


_NODE = node_id("The node.")
_STATE = {"isExpanded": flag("The node's state after the call.")}
_FOLDED = record(None, **VIEW_CHANGED, **_STATE)
_LABEL = text("Label of the bookmark.", 128, least=1)


def _session_tool(name: str, description: str, takes: Json, gives: Json, work: Any, *, idempotent: bool = True) -> Tool:
    return Tool(name, Kind.SESSION, description, takes, gives, work, idempotent=idempotent)


TOOLS = (
    _session_tool(
        "expand_node",
        "Unfold one node in this session's view.",
        record(None, nodeId=_NODE, **MUTATION),
        _FOLDED,
        expand_node,
    ),
    _session_tool(
        "collapse_node",
        "Fold one node in this session's view.",
        record(None, nodeId=_NODE, **MUTATION),
        _FOLDED,
        collapse_node,
    ),
    _session_tool(
        "toggle_node",
        "Fold an unfolded node or unfold a folded one in this session's view.",
        record(None, nodeId=_NODE, **MUTATION),
        _FOLDED,
        toggle_node,
        idempotent=False,
    ),
    _session_tool(
        "expand_all",
        "Unfold a node and everything under it in this session's view.",
        record(None, rootNodeId=node_id("The top of what to unfold."), **MUTATION),
        record(None, **VIEW_CHANGED),
        expand_all,
    ),
    _session_tool(
        "collapse_all",
        "Fold a node and everything under it in this session's view.",
        record(None, rootNodeId=node_id("The top of what to fold."), **MUTATION),
        record(None, **VIEW_CHANGED),
        collapse_all,
    ),
    _session_tool(
        "set_expansion_recursive",
        "Fold or unfold a node and what is under it, down to a depth; deeper nodes keep their state.",
        record(
            None,
            nodeId=node_id("The top of what to set."),
            expanded=flag("True to unfold, false to fold."),
            maxDepth=opt(integer("Number of levels, the node's own included; without it all.", 0, 1000)),
            **MUTATION,
        ),
        record(None, **VIEW_CHANGED),
        set_expansion_recursive,
    ),
    _session_tool(
        "set_filters",
        "Choose which payload properties later calls of this session show; filters of a call replace them.",
        record(
            None,
            scope=choice("view: views and subtrees; node: nodes, children and hits; all: both.", "view", "node", "all"),
            included=property_paths("Show only these properties; empty shows all."),
            excluded=property_paths("Hide these properties."),
            **MUTATION,
        ),
        record(
            None,
            **VIEW_CHANGED,
            scope=choice("The scope set.", "view", "node", "all"),
            included=array("The white list set.", text("A property path.")),
            excluded=array("The hidden properties set.", text("A property path.")),
        ),
        set_filters,
    ),
    _session_tool(
        "bookmark",
        "Remember a node under a label, for this session.",
        record(
            None,
            nodeId=_NODE,
            label=_LABEL,
            overwrite=opt(flag("Whether the label may move from another node.", False)),
            **MUTATION,
        ),
        record(None, **VIEW_CHANGED, label=text("The label."), nodeId=text("Id of the node.")),
        bookmark,
    ),
    Tool(
        "list_bookmarks",
        Kind.READ,
        "List this session's bookmarks by label.",
        record(None, **PAGING),
        page_of(
            record(
                "A bookmark.",
                label=text("The label."),
                nodeId=text("Id of the node."),
                exists=flag("Whether the node is still there."),
                path=opt(text("Names from the root to the node.")),
            ),
            "The bookmarks of this page.",
        ),
        list_bookmarks,
        idempotent=True,
        paginated=True,
    ),
    _session_tool(
        "remove_bookmark",
        "Forget a bookmark of this session.",
        record(None, label=_LABEL, **MUTATION),
        record(None, **VIEW_CHANGED),
        remove_bookmark,
    ),
    _session_tool(
        "import_view",
        "Restore folding and filters from a view-json document made by export_view; no node is created.",
        record(
            None,
            viewJson={
                "type": ["object", "string"],
                "description": "The view-json document, as an object or as text.",
            },
            payloadTypes=opt(array("Accept only these payload types.", text("Name of a payload type.", 128), 256)),
            rootLookupStrategy=opt(
                choice(
                    "How the document's root is found: by its id, as the root of the tree, or by its name.",
                    "byId",
                    "currentRoot",
                    "byPath",
                    default="byId",
                )
            ),
            **MUTATION,
        ),
        record(
            None,
            **VIEW_CHANGED,
            applied=integer("Nodes whose state was set."),
            unknown=array("Ids of the document that the tree does not have, at most 100.", text("Id of a node.")),
        ),
        import_view,
    ),
)
