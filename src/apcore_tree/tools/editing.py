"""Tools that change nodes and their places."""

from __future__ import annotations

import unicodedata
from typing import Any

from apcore_tree.calls import BulkChange, Change
from apcore_tree.engine.documents import MAX_NODES, NODE_ID
from apcore_tree.engine.node import Json, Node, copy_json, same_json, select, walk
from apcore_tree.engine.order import index_of
from apcore_tree.engine.payload_types import MASK, PayloadType
from apcore_tree.engine.predicates import Predicate, sort_key, value_reader
from apcore_tree.engine.properties import MISSING, read, written
from apcore_tree.engine.query import compile_query
from apcore_tree.errors import Conflict, InvalidArgument, TreeError
from apcore_tree.tools.schema import (
    CHANGED,
    MUTATION,
    array,
    choice,
    flag,
    free_object,
    integer,
    node_id,
    opt,
    property_path,
    record,
    text,
    value,
)
from apcore_tree.tools.searching import FILTER, GROUP, compile_filters, compile_group
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]

_MOST_NODES = 500
_MOST_TAGS = 32
_IDS_SHOWN = 1_000


# -- nodes


def add_child(call: Change) -> Json:
    parent = call.node("parentNodeId")
    call.expect(parent)
    call.check_room(1)
    data = copy_json(call["payloadProps"])
    call.types[call["payloadType"]].check(data)
    index, new_id = call.index_under(parent), call.get("nodeId")
    # The schema's `$` lets a final line break pass.
    if new_id is not None and not NODE_ID.fullmatch(new_id):
        raise InvalidArgument("A node id has 1 to 128 letters, digits or '._:-'", field="nodeId")
    node = call.tree.add(parent, call["payloadType"], data, node_id=new_id, index=index)
    return {"nodeId": node.id}


def remove_node(call: Change) -> Json:
    node = call.node("nodeId")
    if node.parent is not None:
        call.expect(node.parent, subtrees=[node])
    if node.children and not call["recursive"]:
        raise Conflict(
            f"The node has {len(node.children)} children", reason="has_children", suggestion="pass recursive"
        )
    return {"removedCount": call.tree.remove(node)}


def clone_node(call: Change) -> Json:
    node, parent = call.node("nodeId"), call.node("targetParentId")
    call.expect(node, parent)
    call.check_room(1)
    share = node.payload if call["mode"] == "reference" else None
    return {"nodeId": call.tree.add(parent, node.payload.type, node.payload.data, share=share).id}


def copy_subtree(call: Change) -> Json:
    source, parent = call.node("sourceId"), call.node("targetParentId")
    call.expect(parent, subtrees=[source])
    size = sum(1 for _ in walk(source))
    if size > MAX_NODES:
        raise InvalidArgument(
            f"At most {MAX_NODES} nodes are copied at once", maxBatch=MAX_NODES, suggestion="copy smaller subtrees"
        )
    call.check_room(size)
    made = call.tree.copy(source, parent, call.index_under(parent), share=call["mode"] == "reference")
    ids = {old: new.id for old, new in made.items()}
    return {"nodeId": ids[source.id], "copiedCount": len(ids), "idMap": dict(list(ids.items())[:_IDS_SHOWN])}


def tag_node(call: Change) -> Json:
    node = call.node("nodeId")
    call.expect(node)
    given = frozenset(unicodedata.normalize("NFC", tag) for tag in call["tags"])
    held = node.tags or frozenset()
    tags = {"add": held | given, "remove": held - given, "replace": given}[call["mode"]]
    if len(tags) > _MOST_TAGS:
        raise InvalidArgument(f"A node has at most {_MOST_TAGS} tags", maxBatch=_MOST_TAGS)
    call.tree.tag(node, tags)
    return {"tags": sorted(tags)}


# -- places


def move_node(call: Change) -> Json:
    node, parent = call.node("nodeId"), call.node("newParentId")
    call.expect(node, parent, *([node.parent] if node.parent is not None else []))
    call.tree.move(node, parent, call.index_under(parent, node))
    return _place(node)


def move_before(call: Change) -> Json:
    return _move_beside(call, 0)


def move_after(call: Change) -> Json:
    return _move_beside(call, 1)


def _move_beside(call: Change, offset: int) -> Json:
    node, sibling = call.node("nodeId"), call.node("siblingId")
    parent = sibling.parent
    if node is sibling or parent is None or node.parent is not parent:
        raise InvalidArgument("The two nodes are not siblings", field="siblingId")
    call.expect(node, parent)
    others = [child for child in parent.children if child is not node]
    call.tree.move(node, parent, others.index(sibling) + offset)
    return _place(node)


def _place(node: Node) -> Json:
    parent = node.parent
    assert parent is not None, "the root does not move"
    return {"parentId": parent.id, "index": index_of(parent.children, node)}


def sort_children(call: Change) -> Json:
    parent, value_of = call.node("parentId"), value_reader(call["byProp"], call.types)
    call.expect(parent, *parent.children)
    keyed = [(sort_key(value_of(child)), child) for child in parent.children]
    valued = [(key, child) for key, child in keyed if key[0] != 9]
    valued.sort(key=lambda pair: pair[0], reverse=call["direction"] == "desc")
    children = [child for _, child in valued] + [child for key, child in keyed if key[0] == 9]
    return {"count": len(children), "moved": call.tree.reorder(parent, children)}


# -- payloads


def update_payload_property(call: Change) -> Json:
    node, name = call.node("nodeId"), call["propertyName"]
    call.expect(node)
    kind, data = call.types.of(node.payload), node.payload.data
    reason = kind.refusal(name)
    if reason is not None:
        raise InvalidArgument(f"{name!r} cannot be set on {kind.name} nodes", field="propertyName", reason=reason)
    after = written(data, name, copy_json(call["newValue"]))
    kind.check(after)
    result: Json = {"nodeId": node.id}
    previous = read(data, name)
    if previous is not MISSING:
        result["previous"] = MASK if name.split(".", 1)[0] in kind.sensitive else copy_json(previous)
    _put(call, node, after)
    return result


def update_payload(call: Change) -> Json:
    node = call.node("nodeId")
    call.expect(node)
    after, applied, rejected = _patched(call.types.of(node.payload), node.payload.data, call["patch"])
    if rejected and (call["strict"] or not applied):
        raise InvalidArgument(
            f"{len(rejected)} of {len(call['patch'])} properties cannot be set", field="patch", rejected=rejected
        )
    _put(call, node, after)
    return {"applied": applied, "rejected": rejected}


def _put(call: Change, node: Node, data: Json) -> None:
    if not same_json(data, node.payload.data):
        call.tree.put(node.payload, data)


def _patched(kind: PayloadType, data: Json, patch: Json) -> tuple[Json, list[str], list[Json]]:
    """The data with as much of the patch as the type allows: all settable ones together, else one by one."""
    refused = {name: reason for name in patch if (reason := kind.refusal(name)) is not None}
    settable = {name: copy_json(new) for name, new in patch.items() if name not in refused}
    try:
        after = data
        for name, new in settable.items():
            after = written(after, name, new)
        kind.check(after)
        applied = list(settable)
    except InvalidArgument:
        after, applied = data, []
        for name, new in settable.items():
            try:
                attempt = written(after, name, new)
                kind.check(attempt)
            except InvalidArgument as error:
                refused[name] = error.details.get("reason", "name")
            else:
                after = attempt
                applied.append(name)
    return after, applied, [{"property": name, "reason": refused[name]} for name in patch if name in refused]


def update_nodes(call: BulkChange) -> Json:
    """Each node is a commit of its own: a failure stops neither the nodes before nor those after."""
    nodes = _matching(call)
    if call["dryRun"]:
        results = [{"nodeId": node.id, "outcome": "would_update"} for node in nodes]
        return {"matched": len(nodes), "updated": 0, "failed": 0, "results": results}
    results = [_update_one(call, node) for node in nodes]
    updated = sum(1 for result in results if result["outcome"] == "updated")
    return {"matched": len(nodes), "updated": updated, "failed": len(nodes) - updated, "results": results}


def _update_one(call: BulkChange, node: Node) -> Json:
    def change() -> Json:
        call.expect(node)
        after, applied, rejected = _patched(call.types.of(node.payload), node.payload.data, call["patch"])
        if rejected and not applied:
            raise InvalidArgument("Nothing of the patch can be set", rejected=rejected)
        _put(call, node, after)
        return {"nodeId": node.id, "outcome": "updated"}

    try:
        return call.commit_one(node, change)
    except TreeError as error:
        if error.code in ("internal", "forbidden"):
            raise
        return {"nodeId": node.id, "outcome": "failed", "code": error.code}


def _matching(call: BulkChange) -> list[Node]:
    wanted = call["filter"]
    if "nodeIds" in wanted:
        return call.tree.all_of(dict.fromkeys(wanted["nodeIds"]))
    root = call.tree.root if "rootNodeId" not in call.arguments else call.node("rootNodeId")
    holds = _predicate(call, wanted)
    matching = select(root, holds)
    if len(matching) > _MOST_NODES:
        raise InvalidArgument(
            f"{len(matching)} nodes match, at most {_MOST_NODES} are updated at once",
            field="filter",
            maxBatch=_MOST_NODES,
            suggestion="narrow the filter or the root",
        )
    return matching


def _predicate(call: BulkChange, wanted: Json) -> Predicate:
    if "filters" in wanted:
        return compile_filters(wanted["filters"], call)
    if "predicates" in wanted:
        return compile_group(wanted["predicates"], call)
    return compile_query(wanted["queryDsl"], call.source, call.types)


_NODE = node_id("The node.")
_INDEX = opt(integer("Position among the children, from 0; without it last.", 0))
_NEW_ID = text("Id of the new node.")
_PLACE: dict[str, Any] = {
    "parentId": text("Id of the node's parent."),
    "index": integer("The node's position among its siblings."),
}
_ID_MAP = free_object("New id of each copied id, at most 1000.")
_PATCH = free_object("New values by property path.", 1, 64)
_MODE = ("duplicate", "reference")


def _change_tool(name: str, description: str, takes: Json, gives: Json, work: Any, **flags: Any) -> Tool:
    return Tool(name, Kind.CHANGE, description, takes, gives, work, **flags)


TOOLS = (
    _change_tool(
        "add_child",
        "Add a node under a parent.",
        record(
            None,
            parentNodeId=node_id("The parent."),
            payloadType=text("Registered payload type; get_status lists them.", 128, least=1),
            payloadProps=free_object("The payload."),
            nodeId=opt(node_id("Id of the new node; without it one is made.")),
            index=_INDEX,
            **MUTATION,
        ),
        record(None, **CHANGED, nodeId=_NEW_ID),
        add_child,
    ),
    _change_tool(
        "update_payload_property",
        "Set one property of a node's payload. Guarded and read-only properties are refused.",
        record(
            None,
            nodeId=_NODE,
            propertyName=property_path("Dotted path of the property; missing objects on the way are made."),
            newValue=value("The new value, any JSON."),
            **MUTATION,
        ),
        record(
            None,
            **CHANGED,
            nodeId=text("Id of the node."),
            previous=opt(value("The value before, if there was one.")),
        ),
        update_payload_property,
        idempotent=True,
    ),
    _change_tool(
        "remove_node",
        "Remove a node and everything under it. The root cannot be removed.",
        record(
            None,
            nodeId=_NODE,
            recursive=opt(flag("False refuses to remove a node that has children.", True)),
            **MUTATION,
        ),
        record(None, **CHANGED, removedCount=integer("Nodes removed.")),
        remove_node,
        destructive=True,
        idempotent=True,
    ),
    _change_tool(
        "move_node",
        "Move a node with everything under it to another parent or position.",
        record(None, nodeId=_NODE, newParentId=node_id("The new parent."), index=_INDEX, **MUTATION),
        record(None, **CHANGED, **_PLACE),
        move_node,
        idempotent=True,
    ),
    _change_tool(
        "copy_subtree",
        "Copy a node with everything under it below another node.",
        record(
            None,
            sourceId=node_id("Root of what to copy."),
            targetParentId=node_id("Where the copy goes."),
            mode=choice("duplicate: payloads of its own; reference: payloads shared with the source.", *_MODE),
            index=_INDEX,
            **MUTATION,
        ),
        record(None, **CHANGED, nodeId=_NEW_ID, copiedCount=integer("Nodes copied."), idMap=_ID_MAP),
        copy_subtree,
    ),
    _change_tool(
        "clone_node",
        "Copy a single node, without its children, below another node.",
        record(
            None,
            nodeId=_NODE,
            targetParentId=node_id("Where the copy goes."),
            mode=opt(choice("duplicate: an equal payload; reference: the same payload.", *_MODE, default="duplicate")),
            **MUTATION,
        ),
        record(None, **CHANGED, nodeId=_NEW_ID),
        clone_node,
    ),
    _change_tool(
        "move_before",
        "Place a node immediately before one of its siblings.",
        record(None, nodeId=_NODE, siblingId=node_id("The sibling."), **MUTATION),
        record(None, **CHANGED, **_PLACE),
        move_before,
        idempotent=True,
    ),
    _change_tool(
        "move_after",
        "Place a node immediately after one of its siblings.",
        record(None, nodeId=_NODE, siblingId=node_id("The sibling."), **MUTATION),
        record(None, **CHANGED, **_PLACE),
        move_after,
        idempotent=True,
    ),
    _change_tool(
        "sort_children",
        "Sort the children of a node by a property; children without it come last.",
        record(
            None,
            parentId=node_id("The parent."),
            byProp=property_path("Property path, or $id, $name, $type and the like."),
            direction=choice("Direction of the sort.", "asc", "desc"),
            stable=opt(flag("Equal children keep their order; they always do.", True)),
            **MUTATION,
        ),
        record(
            None,
            **CHANGED,
            count=integer("Number of children."),
            moved=integer("Children whose position changed."),
        ),
        sort_children,
        idempotent=True,
    ),
    _change_tool(
        "update_payload",
        "Set several properties of a node's payload. What cannot be set is reported; strict makes it all or nothing.",
        record(
            None,
            nodeId=_NODE,
            patch=_PATCH,
            strict=opt(flag("Refuse the whole call if one property cannot be set.", False)),
            **MUTATION,
        ),
        record(
            None,
            **CHANGED,
            applied=array("Properties that were set.", text("A property path.")),
            rejected=array(
                "Properties that were not set.",
                record("A refusal.", property=text("The property path."), reason=text("Why it was not set.")),
            ),
        ),
        update_payload,
        idempotent=True,
    ),
    Tool(
        "update_nodes",
        Kind.BULK,
        "Set properties on all nodes that match, each on its own: a failure of one does not undo the others. "
        "Try it with dryRun first.",
        record(
            None,
            filter={
                **record(
                    "Which nodes: exactly one of the four.",
                    nodeIds=opt(array("These nodes.", node_id("Id of a node."), _MOST_NODES, 1)),
                    filters=opt(array("Nodes that meet all conditions.", FILTER, 16, 1)),
                    predicates=opt(GROUP),
                    queryDsl=opt(text("A query of select_nodes.", 2000, least=1)),
                ),
                "minProperties": 1,
                "maxProperties": 1,
            },
            rootNodeId=opt(node_id("Match only in this subtree.")),
            patch=_PATCH,
            dryRun=opt(flag("Only report which nodes would be updated.", False)),
            **MUTATION,
        ),
        record(
            None,
            **CHANGED,
            matched=integer("Nodes that matched."),
            updated=integer("Nodes that were updated."),
            failed=integer("Nodes that were not."),
            results=array(
                "What became of each node.",
                record(
                    "One node.",
                    nodeId=text("Id of the node."),
                    outcome=choice("What happened.", "updated", "failed", "would_update"),
                    code=opt(text("Error code of a failure.")),
                ),
            ),
        ),
        update_nodes,
        destructive=True,
    ),
    _change_tool(
        "tag_node",
        "Add, remove or replace tags of a node.",
        record(
            None,
            nodeId=_NODE,
            tags=array("The tags.", text("A tag.", 64, least=1), _MOST_TAGS, 1),
            mode=opt(choice("What to do with the tags.", "add", "remove", "replace", default="add")),
            **MUTATION,
        ),
        record(None, **CHANGED, tags=array("All tags of the node after the call.", text("A tag."))),
        tag_node,
        idempotent=True,
    ),
)
