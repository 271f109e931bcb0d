"""The engine against a naive model, over random traces; and the traces against engines with planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from tests.tree.machine import EXAMPLES, PICK, VALUE, Traces, examples
from tests.tree.model import NaiveTree
from tests.tree.surfaces import UNLIMITED, Direct, make_service, outcome

from apcore_tree import Conflict, Settings
from apcore_tree.engine import diff as diff_module
from apcore_tree.engine import order as order_module
from apcore_tree.engine import tree as tree_module
from apcore_tree.engine import walking as walking_module
from apcore_tree.engine.history import History
from apcore_tree.engine.node import Node, Payload, walk
from apcore_tree.engine.tree import Tree


def dump(tree: Tree) -> dict[str, Any]:
    return {
        node.id: (
            None if node.parent is None else node.parent.id,
            tuple(child.id for child in node.children),
            node.payload.data,
            node.tags or frozenset(),
        )
        for node in walk(tree.root)
    }


class AgainstTheModel(Traces):
    @initialize()
    def begin(self) -> None:
        super().begin()
        self.model = NaiveTree()
        self.frozen: dict[str, tuple[Any, ...]] = {}
        self.tree = self.surface.service.tree

    def act(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        before, revision = self.model.dump(), self.tree.revision
        kind, result = outcome(self.surface, tool, **arguments)
        if kind == "error":
            assert result != "internal"
            assert (dump(self.tree), self.tree.revision) == (before, revision)
            return None
        getattr(self, f"_after_{tool}")(arguments, result)
        changed, revised = self.model.dump() != before, self.tree.revision > revision
        # A restore may bring back order keys that nobody can see.
        assert changed == revised or (revised and tool == "snapshot_restore")
        return result

    def _after_add_child(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.add(result["nodeId"], asked["parentNodeId"], asked["payloadProps"], asked.get("index"))

    def _after_remove_node(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        assert result["removedCount"] == len(self.model.subtree(asked["nodeId"]))
        self.model.remove(asked["nodeId"])

    def _after_move_node(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.move(asked["nodeId"], asked["newParentId"], asked.get("index"))

    def _after_move_before(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self._beside(asked, 0)

    def _after_move_after(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self._beside(asked, 1)

    def _beside(self, asked: dict[str, Any], offset: int) -> None:
        siblings = self.model.children[self.model.parent[asked["nodeId"]]]  # type: ignore[index]
        siblings.remove(asked["nodeId"])
        siblings.insert(siblings.index(asked["siblingId"]) + offset, asked["nodeId"])

    def _after_update_payload_property(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.set(asked["nodeId"], asked["propertyName"], asked["newValue"])

    def _after_update_nodes(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        for each in result["results"]:
            for name, value in asked["patch"].items():
                self.model.set(each["nodeId"], name, value)

    def _after_copy_subtree(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.copy(asked["sourceId"], asked["targetParentId"], result["idMap"], asked["mode"] == "reference")

    def _after_clone_node(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        data = self.model.data[self.model.payload[asked["nodeId"]]]
        if asked["mode"] == "reference":
            self.model.attach(result["nodeId"], asked["targetParentId"], self.model.payload[asked["nodeId"]])
        else:
            self.model.add(result["nodeId"], asked["targetParentId"], data)

    def _after_sort_children(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.sort(asked["parentId"], asked["byProp"], asked["direction"] == "desc")

    def _after_tag_node(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        tags = self.model.tags[asked["nodeId"]]
        given = set(asked["tags"])
        self.model.tags[asked["nodeId"]] = {"add": tags | given, "remove": tags - given, "replace": given}[
            asked["mode"]
        ]
        assert result["tags"] == sorted(self.model.tags[asked["nodeId"]])

    def _after_import_merge(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        known = set(self.model.parent)
        made = [node.id for node in walk(self.tree.root) if node.id not in known]
        made.sort(key=lambda node_id: self.tree.node(node_id).payload.id)
        self.model.merge(asked["json"], asked.get("targetParentId", ""), asked["strategy"], made)
        assert made == []

    def _after_snapshot_create(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.frozen[result["snapshotId"]] = self.model.frozen()

    def _after_snapshot_restore(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.model.thaw(self.frozen[asked["snapshotId"]])

    def _state(self, snapshot_id: str) -> dict[str, Any]:
        if snapshot_id == "current":
            return self.model.dump()
        past = NaiveTree()
        past.thaw(self.frozen[snapshot_id])
        return past.dump()

    def _after_snapshot_diff(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        before, after = self._state(asked["a"]), self._state(asked["b"])
        both = before.keys() & after.keys()
        found = {
            kind: {item["nodeId"] for item in result["items"] if item["kind"] == kind} for kind in result["summary"]
        }
        assert found["added"] == after.keys() - before.keys()
        assert found["removed"] == before.keys() - after.keys()
        assert found["moved"] == {node for node in both if before[node][0] != after[node][0]}
        assert found["updated"] == {node for node in both if before[node][2] != after[node][2]}
        assert found["reordered"] == {
            node for node in both if _stayed(before, after, node) != _stayed(after, before, node)
        }

    def _after_get_subtree(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        seen = _ids_of(result)
        while "nextPage" in result:
            assert result["count"] == asked["paging"]["pageSize"]
            paging = {**asked["paging"], "pageToken": result["nextPage"]}
            result = self.surface("get_subtree", **{**asked, "paging": paging})
            seen += _ids_of(result)
        assert seen == self.model.subtree(asked["nodeId"])

    @rule(size=st.integers(1, 5), changes=st.lists(st.tuples(PICK, PICK, VALUE), max_size=4))
    def page_while_the_tree_changes(self, size: int, changes: list[tuple[int, int, int]]) -> None:
        """Nodes that stay where they are appear exactly once, whatever happens to the others between pages."""
        before = self.model.subtree("root")
        paging: dict[str, Any] = {"pageSize": size}
        page = self.surface("get_subtree", nodeId="root", paging=paging, format="flat")
        seen, disturbed = _ids_of(page), set()
        while "nextPage" in page:
            if changes:
                disturbed |= self._disturb(*changes.pop())
            page = self.surface(
                "get_subtree", nodeId="root", paging={**paging, "pageToken": page["nextPage"]}, format="flat"
            )
            seen += _ids_of(page)
        quiet = [node for node in before if node not in disturbed]
        assert [node for node in seen if node in quiet] == quiet

    def _disturb(self, first: int, second: int, kind: int) -> set[str]:
        """Change something and return the nodes whose place changed."""
        node = self.pick(first, below_root=True)
        if node == "root":
            return set()
        touched = set(self.model.subtree(node))
        if kind == 0:
            self.remove(first)
        elif kind == 1:
            self.move(first, second, None)
        elif kind == 2:
            parent = self.model.parent[node]
            assert parent is not None
            touched = {node_id for child in self.model.children[parent] for node_id in self.model.subtree(child)}
            self.change("sort_children", parentId=parent, byProp="V", direction="desc")
        else:
            touched = set()
            self.add(second, 0, 1)
        return touched

    @invariant()
    def the_tree_is_the_model(self) -> None:
        assert dump(self.tree) == self.model.dump()

    @invariant()
    def the_index_is_what_can_be_reached(self) -> None:
        reached = list(walk(self.tree.root))
        assert {node.id: node for node in reached} == self.tree.nodes
        assert len(reached) == len(self.tree.nodes)
        for node in reached:
            assert all(child.parent is node for child in node.children)

    @invariant()
    def siblings_have_ascending_keys(self) -> None:
        for node in walk(self.tree.root):
            keys = [child.order for child in node.children]
            assert keys == sorted(set(keys))

    @invariant()
    def payloads_know_their_users(self) -> None:
        users: dict[int, tuple[Payload, set[Node]]] = {}
        for node in walk(self.tree.root):
            users.setdefault(node.payload.id, (node.payload, set()))[1].add(node)
        for payload, nodes in users.values():
            assert set(payload.each_user()) == nodes

    @invariant()
    def the_tag_index_is_exact(self) -> None:
        holders: dict[str, set[Node]] = {}
        for node in walk(self.tree.root):
            for tag in node.tags or ():
                holders.setdefault(tag, set()).add(node)
        assert self.tree.tagged == holders

    @invariant()
    def the_newest_revision_reaches_the_root(self) -> None:
        for node in walk(self.tree.root):
            assert max(node.changed, node.payload.changed) <= node.newest <= self.tree.revision
            if node.parent is not None:
                assert node.newest <= node.parent.newest


def _stayed(one: dict[str, Any], other: dict[str, Any], node: str) -> list[str]:
    return [child for child in one[node][1] if child in other[node][1]]


def _ids_of(page: dict[str, Any]) -> list[str]:
    if "rows" in page:
        return [row["nodeId"] for row in page["rows"]]
    found: list[str] = []
    stack = [page["view"]] if "view" in page else []
    while stack:
        item = stack.pop()
        if not item.get("partial"):
            found.append(item["nodeId"])
        stack.extend(reversed(item.get("children", [])))
    return found


def test_random_traces_agree_with_the_naive_model() -> None:
    run_state_machine_as_test(AgainstTheModel, settings=examples(EXAMPLES, 50))
    assert EXAMPLES > 0


# -- planted bugs: each breaks one promise, and the traces must notice


def _stamp_only_the_node(tree: Tree, node: Node | None, revision: int) -> None:
    if node is not None:
        node.newest = revision


def _forget_the_payload(tree: Tree, payload: Payload) -> None:
    return None


def _forget_the_node(tree: Tree, node: Node) -> None:
    return None


def _keep_in_the_index(tree: Tree, node: Node) -> None:
    node.payload.leave(node)


def _leave_the_user(tree: Tree, node: Node) -> None:
    del tree.nodes[node.id]
    if node.tags:
        tree._untag(node)


def _forget_the_tags(tree: Tree, node: Node) -> None:
    return None


def _lose_the_memory(history: History, mark: Any) -> None:
    history.pop(mark)


def _use_a_key_twice(siblings: list[Node], index: int) -> int:
    return siblings[index].order


def _never_translate(tree: Tree, parent_id: str, order: int, seen: int, until: int) -> int:
    return order


def _skip_the_next(source: Any, root: Node, descent: Any, cursor: Any) -> Any:
    frames = walking_module_frames(source, root, descent, cursor)
    return frames[:-1]


walking_module_frames = walking_module._frames_after


def _only_todays_users(tree: Tree, before: Any, after: Any) -> set[str]:
    marks = tree.history.marks
    return {node_id for mark in marks for node_id in mark.nodes}


def _keep_the_stamps(tree: Tree, mark: Any) -> None:
    tree._apply(mark.nodes, mark.payloads)


PLANTED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "ancestors are not stamped": (Tree, "_stamp", _stamp_only_the_node),
    "payloads are not saved": (Tree, "_touch_payload", _forget_the_payload),
    "nodes are not saved": (Tree, "_touch", _forget_the_node),
    "removed nodes stay in the index": (Tree, "_unindex", _keep_in_the_index),
    "removed nodes stay users": (Tree, "_unindex", _leave_the_user),
    "tags of removed nodes stay": (Tree, "_untag", _forget_the_tags),
    "folding forgets": (History, "fold", _lose_the_memory),
    "siblings share a key": (tree_module, "order_before", _use_a_key_twice),
    "a page skips a node": (walking_module, "_frames_after", _skip_the_next),
    "a diff misses sharers": (diff_module, "_touched", _only_todays_users),
    "a rollback keeps the stamps": (Tree, "_take_back", _keep_the_stamps),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = PLANTED[bug]
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError)):
        run_state_machine_as_test(AgainstTheModel, settings=examples(2000, 50, fixed=True))


def test_cursors_survive_new_order_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """With narrow gaps siblings get new keys all the time; untouched nodes still appear exactly once."""
    _narrow_the_gaps(monkeypatch)

    run_state_machine_as_test(AgainstTheModel, settings=examples(max(EXAMPLES // 2, 20), 40))
    assert order_module.spread(3) == [0, 2, 4]


def _narrow_the_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (order_module, tree_module):
        monkeypatch.setattr(module, "GAP", 2)


PAGED: dict[str, dict[str, Any]] = {
    "select_nodes": {"queryDsl": "Old exists"},
    "query_by_tag": {"tag": "old"},
    "search_advanced": {
        "rootId": "root",
        "predicates": {"predicates": [{"path": "Old", "op": "eq", "value": True}]},
        "sortBy": "Old",
    },
    "validate_tree": {"rulesetId": "default"},
}


def _read_while_keys_change(tool: str = "select_nodes", settings: Settings = UNLIMITED) -> tuple[list[str], list[str]]:
    """The ids that two pages show, and those they should: between the pages new nodes use up the gaps in front."""
    surface = Direct(make_service(settings=settings))
    expected = [surface.add("root", f"{number} ", Old=True) for number in range(10)]
    for node_id in expected:
        surface.change("tag_node", nodeId=node_id, tags=["old"])
    asked = PAGED[tool]
    page = surface(tool, **asked, limit=5)
    seen = _shown(page)
    for _ in range(6):
        surface.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"Name": "n"}, index=1)
    assert surface.service.tree.relabelled["root"]
    surface.change("remove_node", nodeId=seen[-1])
    page = surface(tool, **asked, limit=200, pageToken=page["nextPage"])
    return seen + _shown(page), expected


def _shown(page: dict[str, Any]) -> list[str]:
    return [item.get("node", item)["nodeId"] for item in page["items"]]


@pytest.mark.parametrize("settings", [UNLIMITED, replace(UNLIMITED, unlocked_reads_above=5)], ids=["live", "unlocked"])
@pytest.mark.parametrize("tool", PAGED)
def test_a_removed_anchor_is_found_among_new_order_keys(
    monkeypatch: pytest.MonkeyPatch, tool: str, settings: Settings
) -> None:
    _narrow_the_gaps(monkeypatch)
    seen, expected = _read_while_keys_change(tool, settings)
    assert seen == expected


def test_a_cursor_from_too_long_ago_is_refused_rather_than_misread(monkeypatch: pytest.MonkeyPatch) -> None:
    _narrow_the_gaps(monkeypatch)
    surface = Direct(make_service())
    for number in range(4):
        surface.add("root", str(number))
    page = surface("list_children", nodeId="root", limit=2)
    for _ in range(40):
        surface.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"Name": "n"}, index=1)
    with pytest.raises(Conflict) as refused:
        surface("list_children", nodeId="root", limit=2, pageToken=page["nextPage"])
    assert refused.value.details["reason"] == "page_expired"


def test_a_cursor_survives_new_keys_and_a_restore_of_the_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    _narrow_the_gaps(monkeypatch)
    surface = Direct(make_service())
    expected = [surface.add("root", str(number)) for number in range(10)]
    snapshot = surface("snapshot_create", label="old keys")["snapshotId"]
    page = surface("list_children", nodeId="root", limit=5)
    seen = [item["nodeId"] for item in page["items"]]
    for _ in range(6):
        surface.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"Name": "n"}, index=1)
    later = surface("list_children", nodeId="root", limit=13)
    surface.change("snapshot_restore", snapshotId=snapshot)
    rest = surface("list_children", nodeId="root", limit=5, pageToken=page["nextPage"])
    assert seen + [item["nodeId"] for item in rest["items"]] == expected
    rest = surface("list_children", nodeId="root", limit=13, pageToken=later["nextPage"])
    assert [item["nodeId"] for item in rest["items"]] == expected[7:]


def test_untranslated_cursors_would_repeat_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    _narrow_the_gaps(monkeypatch)
    monkeypatch.setattr(Tree, "translate", _never_translate)
    seen, expected = _read_while_keys_change()
    assert seen != expected
