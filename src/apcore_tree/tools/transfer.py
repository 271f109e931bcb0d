"""The tool that merges a document into the tree."""

from __future__ import annotations

from collections import Counter

from apcore_tree.calls import Change
from apcore_tree.engine.documents import Incoming, read_document
from apcore_tree.engine.node import Json, Node, copy_json, same_json
from apcore_tree.errors import InvalidArgument
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
    record,
    text,
)
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]

_IDS_SHOWN = 1_000


def import_merge(call: Change) -> Json:
    return _Merge(call, read_document(call["json"], call.types)).run()


class _Merge:
    """One merge: each node of the document finds its counterpart under its parent's, or becomes a new node."""

    def __init__(self, call: Change, incoming: list[Incoming]) -> None:
        self.call = call
        self.tree = call.tree
        self.incoming = incoming
        self.strategy: str = call["strategy"]
        self.by_path = call["matchBy"] == "path"
        self.counts: Counter[str] = Counter()
        self.id_map: dict[str, str] = {}
        # The live node of each incoming one, and the incoming children that each live node got, in order.
        self.live: list[Node] = []
        self.arrived: dict[str, list[Node]] = {}
        self.by_name: dict[str, dict[str | None, list[Node]]] = {}
        self.seen_names: set[tuple[int, str]] = set()
        self.matched: set[str] = set()

    def run(self) -> Json:
        for at, node in enumerate(self.incoming):
            parent = None if node.parent is None else self.live[node.parent]
            match = self._match_root(node) if parent is None else self._match(node, parent)
            self.live.append(self._place(at, node, parent, match))
        if self.strategy != "skip":
            for at in range(len(self.incoming)):
                self._arrange(self.live[at])
        return {
            "created": self.counts["created"],
            "updated": self.counts["updated"],
            "skipped": self.counts["skipped"],
            "removed": self.counts["removed"],
            "idMap": dict(list(self.id_map.items())[:_IDS_SHOWN]),
            "warnings": [f"{taken} was taken and became {new}" for taken, new in list(self.id_map.items())[:100]],
        }

    # -- finding the counterpart

    def _match_root(self, node: Incoming) -> Node | None:
        """The counterpart of the document's root; the region that the merge may change follows from it."""
        target = None if "targetParentId" not in self.call.arguments else self.call.node("targetParentId")
        if target is not None:
            match = self._match(node, target)
        elif self.by_path:
            names_root = self._name(node) == self.call.types.name_of(self.tree.root)
            match = self.tree.root if names_root else self._match(node, self.tree.root)
        else:
            match = None if node.node_id is None else self.tree.nodes.get(node.node_id)
        self._target = target or self.tree.root
        if match is None:
            self.call.expect(self._target)
        else:
            self.call.expect(subtrees=[match])
        return match

    def _match(self, node: Incoming, parent: Node) -> Node | None:
        if self.by_path:
            return self._match_name(node, parent)
        found = None if node.node_id is None else self.tree.nodes.get(node.node_id)
        return found if found is not None and found.parent is parent else None

    def _match_name(self, node: Incoming, parent: Node) -> Node | None:
        name = self._name(node)
        if name is None:
            return None
        if node.parent is not None:
            if (node.parent, name) in self.seen_names:
                raise self._ambiguous(parent, name)
            self.seen_names.add((node.parent, name))
        if parent.id not in self.by_name:
            names: dict[str | None, list[Node]] = {}
            for child in parent.children:
                names.setdefault(self.call.types.name_of(child), []).append(child)
            self.by_name[parent.id] = names
        fitting = self.by_name[parent.id].get(name, [])
        if len(fitting) > 1:
            raise self._ambiguous(parent, name)
        return fitting[0] if fitting else None

    def _ambiguous(self, parent: Node, name: str) -> InvalidArgument:
        return InvalidArgument(f"The path to {name!r} under {parent.id} is ambiguous", field="json", reason="ambiguous")

    def _name(self, node: Incoming) -> str | None:
        name = node.data.get(self.call.types[node.type or "object"].name_property)
        return name if isinstance(name, str) else None

    # -- putting it in place

    def _place(self, at: int, node: Incoming, parent: Node | None, match: Node | None) -> Node:
        if match is None:
            under = self._target if parent is None else parent
            live = self._create(node, under)
        else:
            live = match
            self._claim(match)
            self._merge_payload(node, match)
        if parent is not None:
            self.arrived.setdefault(parent.id, []).append(live)
        return live

    def _claim(self, live: Node) -> None:
        if live.id in self.matched:
            raise InvalidArgument(f"The document names {live.id} twice", field="json", reason="ambiguous")
        self.matched.add(live.id)

    def _create(self, node: Incoming, parent: Node) -> Node:
        self.call.check_room(1)
        data = copy_json(node.data)
        kind = node.type or "object"
        self.call.types[kind].check(data)
        free = node.node_id is not None and node.node_id not in self.tree.nodes
        live = self.tree.add(parent, kind, data, node_id=node.node_id if free else None)
        if node.node_id is not None and not free:
            self.id_map[node.node_id] = live.id
        self.counts["created"] += 1
        self.matched.add(live.id)
        return live

    def _merge_payload(self, node: Incoming, live: Node) -> None:
        if self.strategy == "skip":
            self.counts["skipped"] += 1
            return
        payload, kind = live.payload, node.type or live.payload.type
        if self.strategy == "upsert" and kind != payload.type:
            raise InvalidArgument(f"{live.id} is of type {payload.type}, not {kind}", field="json", reason="type")
        incoming = copy_json(node.data)
        data = {**payload.data, **incoming} if self.strategy == "upsert" else incoming
        self.call.types[kind].check(data)
        self.call.types.of(payload).check_change(payload.data, data)
        if kind == payload.type and same_json(data, payload.data):
            self.counts["skipped"] += 1
            return
        self.tree.put(payload, data, kind)
        self.counts["updated"] += 1

    def _arrange(self, live: Node) -> None:
        """Incoming children first, in the document's order; the others follow, or go if the document replaces."""
        arrived = self.arrived.get(live.id, [])
        held = {child.id for child in arrived}
        others = [child for child in live.children if child.id not in held]
        if self.strategy == "replace":
            for child in others:
                self.counts["removed"] += self.tree.remove(child)
            others = []
        self.tree.reorder(live, arrived + others)


TOOLS = (
    Tool(
        "import_merge",
        Kind.CHANGE,
        "Merge a tree-json document or flat rows into the tree, all or nothing. upsert: merge payloads and add nodes; "
        "replace: overwrite payloads and remove children that the document lacks; skip: only add missing nodes.",
        record(
            None,
            json={
                "type": ["object", "array", "string"],
                "description": "The document: tree-json, flat rows, or either as text.",
            },
            strategy=choice("What happens to nodes that are there already.", "upsert", "replace", "skip"),
            matchBy=choice("How nodes of the document correspond to those of the tree.", "nodeId", "path"),
            targetParentId=opt(node_id("Match or create the document's root among this node's children.")),
            dryRun=opt(flag("Only report what would happen.", False)),
            **MUTATION,
        ),
        record(
            None,
            **CHANGED,
            created=integer("Nodes created."),
            updated=integer("Nodes whose payload changed."),
            skipped=integer("Nodes left as they were."),
            removed=integer("Nodes removed."),
            idMap=free_object("New id of each incoming id that was taken elsewhere, at most 1000."),
            warnings=array("What else is worth knowing.", text("A warning.")),
        ),
        import_merge,
        destructive=True,
    ),
)
