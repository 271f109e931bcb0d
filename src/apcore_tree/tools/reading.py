"""Tools that read nodes, paths and subtrees."""

from __future__ import annotations

from collections.abc import Iterator

from apcore_tree.calls import Read
from apcore_tree.engine.documents import flat_rows, nest, tree_json, view_json_head
from apcore_tree.engine.node import Json, Node, depth_of
from apcore_tree.engine.tree import common_ancestor
from apcore_tree.engine.walking import Cursor, Levels, Visible, walk_after
from apcore_tree.errors import NotFound
from apcore_tree.tools.schema import (
    CHANGED_SINCE,
    FILTERS,
    NEXT_PAGE,
    NODE_VIEW,
    PAGING,
    PATH,
    ROW,
    VERSION,
    VIEW_VERSION,
    Opt,
    array,
    choice,
    flag,
    free_object,
    integer,
    node_id,
    nullable,
    opt,
    page_of,
    record,
    text,
)
from apcore_tree.tools.shapes import Shaper, breadcrumbs, tree_page
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]

_FORMAT = opt(
    choice(
        "nested: objects with children; flat: rows in document order, better for long pages.",
        "nested",
        "flat",
        default="nested",
    )
)
_DEPTH = opt(integer("Levels below the root node; 0 returns only the node.", 0, 100))
_PAGE_SIZE = opt(integer("Nodes per page.", 1, 1000, 200))
_PAGE_TOKEN = opt(text("The `nextPage` of the page before.", 2048))
_PAGE_OF_TREE: dict[str, Json | Opt] = {
    "view": opt(NODE_VIEW),
    "rows": opt(array("The nodes of this page in document order.", ROW)),
    "count": integer("Nodes in this page."),
    "nextPage": NEXT_PAGE,
    "changedSinceFirstPage": CHANGED_SINCE,
    "version": VERSION,
}
_VIEW_ROOT = record(
    "How the view was made.",
    rootNodeId=text("Id of the root node of the view."),
    includedProperties=array("White list of property paths.", text("A property path.")),
    excludedProperties=array("Hidden property paths.", text("A property path.")),
    defaultExpanded=flag("State of nodes that nobody folded or unfolded."),
)


def get_node(call: Read) -> Json:
    node = call.node("nodeId")
    return {"node": Shaper(call.types, call.filter("node")).row(node, depth_of(node)), "version": call.version}


def get_view(call: Read) -> Json:
    root, shown = call.node("rootNodeId"), call.filter("view")
    descent = Visible(call.session.view, call.get("depthLimit"), call.get("defaultExpanded"))
    result: Json = {}
    if call["includeViewRoot"]:
        result["viewRoot"] = {
            "rootNodeId": root.id,
            "includedProperties": shown.included,
            "excludedProperties": shown.excluded,
            "defaultExpanded": call.get("defaultExpanded", call.session.view.default_expanded),
        }
    result.update(tree_page(call, root, descent, shown, call["format"]))
    result["viewVersion"] = call.session.token()
    return result


def get_subtree(call: Read) -> Json:
    shown = call.filter("view", call.get("filters", {}))
    return tree_page(call, call.node("nodeId"), Levels(call.get("depthLimit")), shown, call["format"])


def list_children(call: Read) -> Json:
    parent, shaper = call.node("nodeId"), Shaper(call.types, call.filter("node"))
    cursor = None if call.after is None else Cursor([call.after], call.seen)
    frames = walk_after(call.source, parent, Levels(1), cursor)
    depth = depth_of(parent) + 1
    # The anchor is a child, which Levels(1) does not enter: what follows are its later siblings.
    children = ((node.order, node) for node, below, _ in frames if below)
    return call.page(children, lambda node: shaper.row(node, depth))


def get_path(call: Read) -> Json:
    return {"path": breadcrumbs(call.node("nodeId"), call.types), "version": call.version}


def get_common_ancestor(call: Read) -> Json:
    found: list[Node] = []
    missing: list[str] = []
    for wanted in call["nodeIds"]:
        node = call.source.find(wanted)
        found.append(node) if node is not None else missing.append(wanted)
    if missing:
        raise NotFound(f"There is no node {', '.join(map(repr, missing[:5]))}", ids=missing)
    nearest = common_ancestor(found)
    return {"nodeId": nearest.id, "depth": depth_of(nearest), "version": call.version}


def export_view(call: Read) -> Json:
    root, shown = call.node("rootNodeId"), call.filter("view")
    view, shaper = call.session.view, Shaper(call.types, shown)
    descent = Visible(view, None)
    states: dict[str, bool] = {}

    def visible() -> Iterator[tuple[Node, int]]:
        for node, depth, state in walk_after(call.source, root, descent, None):
            states[node.id] = descent.is_expanded(node, state)
            yield node, depth

    document, count = nest(visible(), lambda node: view_json_head(node, states[node.id], shaper.payload_of(node)))
    if call["includeViewRoot"]:
        document = {
            "RootNodeId": root.id,
            "IncludedProperties": shown.included,
            "ExcludedProperties": shown.excluded,
            "DefaultExpanded": view.default_expanded,
            "View": document,
        }
    return {"document": document, "count": count, "version": call.version, "viewVersion": call.session.token()}


def export_subtree(call: Read) -> Json:
    root = call.node("nodeId")
    if call["format"] == "flat":
        rows = flat_rows(root, call.types)
        return {"rows": rows, "count": len(rows), "version": call.version}
    document, count = tree_json(root, call.types)
    if call["includeViewRoot"]:
        document = {
            "RootNodeId": root.id,
            "IncludedProperties": [],
            "ExcludedProperties": [],
            "DefaultExpanded": call.session.view.default_expanded,
            "View": document,
        }
    return {"document": document, "count": count, "version": call.version}


TOOLS = (
    Tool(
        "get_node",
        Kind.READ,
        "Read one node: its payload, parent, number of children, tags and version.",
        record(None, nodeId=node_id("The node to read."), **FILTERS),
        record(None, node=ROW, version=VERSION),
        get_node,
        idempotent=True,
    ),
    Tool(
        "get_view",
        Kind.READ,
        "Read a subtree as this session's view shows it: children of unfolded nodes only, page by page. "
        "Use get_subtree to ignore folding.",
        record(
            None,
            rootNodeId=node_id("Where the view begins; get_status names the root of the tree."),
            includeViewRoot=opt(flag("Also return how the view was made.", False)),
            defaultExpanded=opt(flag("State of nodes that nobody folded or unfolded, for this call.")),
            **FILTERS,
            depthLimit=_DEPTH,
            pageSize=_PAGE_SIZE,
            pageToken=_PAGE_TOKEN,
            format=_FORMAT,
        ),
        record(None, viewRoot=opt(_VIEW_ROOT), **_PAGE_OF_TREE, viewVersion=VIEW_VERSION),
        get_view,
        idempotent=True,
        paginated=True,
        page_size=200,
    ),
    Tool(
        "list_children",
        Kind.READ,
        "List the children of a node in order.",
        record(None, nodeId=node_id("The parent."), **PAGING, **FILTERS),
        page_of(ROW, "The children of this page."),
        list_children,
        idempotent=True,
        paginated=True,
    ),
    Tool(
        "export_view",
        Kind.READ,
        "Export what this session's view shows as one view-json document, which import_view accepts.",
        record(
            None,
            rootNodeId=node_id("Where the document begins."),
            includeViewRoot=opt(flag("Wrap the document in the view's settings.", True)),
        ),
        record(
            None,
            document=free_object("The view-json document."),
            count=integer("Nodes in the document."),
            version=VERSION,
            viewVersion=VIEW_VERSION,
        ),
        export_view,
        idempotent=True,
        long=True,
    ),
    Tool(
        "get_path",
        Kind.READ,
        "Read the path from the root to a node: ids, names and depths.",
        record(None, nodeId=node_id("The node at the end of the path.")),
        record(None, path=PATH, version=VERSION),
        get_path,
        idempotent=True,
    ),
    Tool(
        "get_subtree",
        Kind.READ,
        "Read a node and its descendants down to a depth, folded or not, page by page.",
        record(
            None,
            nodeId=node_id("Root of the subtree."),
            depthLimit=_DEPTH,
            filters=opt(record("Which payload properties to show.", **FILTERS)),
            paging=opt(record("Which page to read.", pageSize=_PAGE_SIZE, pageToken=_PAGE_TOKEN)),
            format=_FORMAT,
        ),
        record(None, **_PAGE_OF_TREE),
        get_subtree,
        idempotent=True,
        paginated=True,
        page_size=200,
    ),
    Tool(
        "get_common_ancestor",
        Kind.READ,
        "Find the nearest node whose subtree holds all the nodes given; for one node, the node itself.",
        record(None, nodeIds=array("The nodes.", node_id("Id of a node."), 100, 1)),
        record(
            None,
            nodeId=nullable(text("Id of the nearest common ancestor; null if there is none.")),
            depth=opt(integer("Its distance from the root.")),
            version=VERSION,
        ),
        get_common_ancestor,
        idempotent=True,
    ),
    Tool(
        "export_subtree",
        Kind.READ,
        "Export a subtree as one tree-json document or as flat rows, which import_merge accepts.",
        record(
            None,
            nodeId=node_id("Root of the subtree."),
            includeViewRoot=opt(flag("Wrap the document in the view's settings.", False)),
            format=_FORMAT,
        ),
        record(
            None,
            document=opt(free_object("The tree-json document, for the nested format.")),
            rows=opt(
                array(
                    "The rows, for the flat format.",
                    record(
                        "A node.",
                        nodeId=text("Id of the node."),
                        parentId=nullable(text("Id of the parent; null for the root of the subtree.")),
                        payloadType=text("Name of the payload's type."),
                        payload=free_object("The payload."),
                    ),
                )
            ),
            count=integer("Nodes in the document."),
            version=VERSION,
        ),
        export_subtree,
        idempotent=True,
        long=True,
    ),
)
