"""Random traces of changes, snapshots, restores, diffs and pages, as a hypothesis state machine."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.tree.surfaces import Direct, make_service

from apcore_tree.engine.node import walk

# The nightly run sets TREE_EXAMPLES=5000.
EXAMPLES = int(os.environ.get("TREE_EXAMPLES", "100"))

PICK = st.integers(0, 40)
VALUE = st.integers(0, 3)
MOST_NODES = 60


def examples(count: int, steps: int = 30, *, fixed: bool = False) -> settings:
    """`fixed` tries the same traces every time and stops at the first that fails."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=fixed,
        phases=[Phase.generate] if fixed else [Phase.generate, Phase.shrink],
    )


class Traces(RuleBasedStateMachine):
    """Rules choose calls; `act` makes them, on whatever the subclass tests.  Picks wrap around what there is."""

    @initialize()
    def begin(self) -> None:
        self.surface = Direct(make_service())
        self.snapshots: list[str] = []
        self.labels = 0

    def act(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """The result, or None for a refused call."""
        raise NotImplementedError

    def change(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        return self.act(tool, versionToken=self.surface.service.version(), **arguments)

    def ids(self) -> list[str]:
        return [node.id for node in walk(self.surface.service.tree.root)]

    def pick(self, number: int, *, below_root: bool = False) -> str:
        ids = self.ids()
        if below_root and len(ids) > 1:
            ids = ids[1:]
        return ids[number % len(ids)]

    def has_room(self, more: int = 1) -> bool:
        return len(self.ids()) + more <= MOST_NODES

    @rule(parent=PICK, index=st.none() | VALUE, value=st.none() | VALUE)
    def add(self, parent: int, index: int | None, value: int | None) -> None:
        if not self.has_room():
            return
        arguments: dict[str, Any] = {} if index is None else {"index": index}
        data = {"Name": "x"} if value is None else {"Name": "x", "V": value}
        self.change("add_child", parentNodeId=self.pick(parent), payloadType="object", payloadProps=data, **arguments)

    @rule(node=PICK)
    def remove(self, node: int) -> None:
        self.change("remove_node", nodeId=self.pick(node, below_root=True))

    @rule(node=PICK, parent=PICK, index=st.none() | VALUE)
    def move(self, node: int, parent: int, index: int | None) -> None:
        arguments: dict[str, Any] = {} if index is None else {"index": index}
        self.change("move_node", nodeId=self.pick(node, below_root=True), newParentId=self.pick(parent), **arguments)

    @rule(node=PICK, offset=st.integers(-3, 3), before=st.booleans())
    def move_beside(self, node: int, offset: int, before: bool) -> None:
        moving = self.surface.service.tree.node(self.pick(node, below_root=True))
        siblings = moving.parent.children if moving.parent is not None else [moving]
        sibling = siblings[(siblings.index(moving) + offset) % len(siblings)]
        self.change("move_before" if before else "move_after", nodeId=moving.id, siblingId=sibling.id)

    @rule(node=PICK, value=VALUE)
    def set_property(self, node: int, value: int) -> None:
        self.change("update_payload_property", nodeId=self.pick(node), propertyName="V", newValue=value)

    @rule(value=VALUE, other=VALUE)
    def update_many(self, value: int, other: int) -> None:
        wanted = {"filters": [{"path": "V", "op": "eq", "value": value}]}
        self.change("update_nodes", filter=wanted, patch={"V": other, "W": value})

    @rule(source=PICK, parent=PICK, share=st.booleans())
    def copy(self, source: int, parent: int, share: bool) -> None:
        top = self.pick(source)
        if self.has_room(sum(1 for _ in walk(self.surface.service.tree.node(top)))):
            mode = "reference" if share else "duplicate"
            self.change("copy_subtree", sourceId=top, targetParentId=self.pick(parent), mode=mode)

    @rule(source=PICK, parent=PICK, share=st.booleans())
    def clone(self, source: int, parent: int, share: bool) -> None:
        if self.has_room():
            mode = "reference" if share else "duplicate"
            self.change("clone_node", nodeId=self.pick(source), targetParentId=self.pick(parent), mode=mode)

    @rule(parent=PICK, descending=st.booleans())
    def sort(self, parent: int, descending: bool) -> None:
        self.change("sort_children", parentId=self.pick(parent), byProp="V", direction="desc" if descending else "asc")

    @rule(
        node=PICK,
        tags=st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
        mode=st.sampled_from(["add", "remove", "replace"]),
    )
    def tag(self, node: int, tags: list[str], mode: str) -> None:
        self.change("tag_node", nodeId=self.pick(node), tags=tags, mode=mode)

    @rule(node=PICK, parent=PICK, strategy=st.sampled_from(["upsert", "replace", "skip"]), here=st.booleans())
    def merge(self, node: int, parent: int, strategy: str, here: bool) -> None:
        """Export a subtree, change the document a little, and merge it where it was or somewhere else."""
        top = self.pick(node)
        document = self.surface("export_subtree", nodeId=top)["document"]
        document["Payload"]["V"] = 2
        added = {"NodeId": "new-1", "PayloadType": "object", "Payload": {"Name": "new"}, "Children": []}
        document["Children"] = [*document["Children"][1:], added]
        if self.has_room(2 if here else 30):
            arguments = {} if here else {"targetParentId": self.pick(parent)}
            self.change("import_merge", json=document, strategy=strategy, matchBy="nodeId", **arguments)

    @rule(node=PICK)
    def fail_halfway(self, node: int) -> None:
        """A merge whose last node is wrong must leave no trace of the nodes before."""
        bad = {"PayloadType": "unheard-of", "Payload": {}, "Children": []}
        good = {"PayloadType": "object", "Payload": {"Name": "lost"}, "Children": []}
        document = {"NodeId": self.pick(node), "PayloadType": "object", "Payload": {"V": 3}, "Children": [good, bad]}
        self.change("import_merge", json=document, strategy="replace", matchBy="nodeId")

    @rule(parent=PICK)
    def use_a_stale_version(self, parent: int) -> None:
        token = f"t1.{self.surface.service.tree.epoch}.{self.surface.service.tree.revision + 1}"
        self.act("tag_node", nodeId=self.pick(parent), tags=["late"], versionToken=token)

    @rule()
    def take_snapshot(self) -> None:
        if len(self.snapshots) < 6:
            self.labels += 1
            taken = self.act("snapshot_create", label=f"s{self.labels}")
            if taken is not None:
                self.snapshots.append(taken["snapshotId"])

    @rule(which=PICK)
    def restore(self, which: int) -> None:
        if self.snapshots:
            self.change("snapshot_restore", snapshotId=self.snapshots[which % len(self.snapshots)])

    @rule(first=PICK, second=PICK)
    def diff(self, first: int, second: int) -> None:
        if self.snapshots:
            states = [*self.snapshots, "current"]
            self.act("snapshot_diff", a=states[first % len(states)], b=states[second % len(states)], limit=200)

    @rule(root=PICK, size=st.integers(1, 7), flat=st.booleans())
    def read_pages(self, root: int, size: int, flat: bool) -> None:
        self.act(
            "get_subtree",
            nodeId=self.pick(root),
            paging={"pageSize": size},
            format="flat" if flat else "nested",
        )
