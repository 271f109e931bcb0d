"""The mutable tree: an object graph, an index by id, revisions, and a chain of marks.

Every change saves the old record first (`_touch…`) and stamps the new revision afterwards.  Inside `edit()` all
changes share one revision and can be taken back; outside each change is a revision of its own.
"""

from __future__ import annotations

import gc
import secrets
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from operator import attrgetter

from apcore_tree.engine.history import (
    History,
    Mark,
    NodeRecord,
    PayloadRecord,
    Relabelling,
    record_of,
    record_of_payload,
)
from apcore_tree.engine.node import NO_CHILDREN, Json, Node, Payload, ancestry, walk
from apcore_tree.engine.order import GAP, LARGEST, index_of, order_before, spread
from apcore_tree.errors import Conflict, InvalidArgument, NotFound

__all__ = ["ROOT_ID", "Tree", "common_ancestor", "random_ids"]

ROOT_ID = "root"
# Old cursors are translated through at most this many relabellings of one parent.
_RELABELLINGS_KEPT = 8
# Behind a sibling with a key up to this one there is room.
_LAST = LARGEST - GAP

# id, parent, order, payload, tags, changed
StoredNode = tuple[str, str | None, int, Payload, frozenset[str] | None, int]


def random_ids() -> Iterator[str]:
    """Ids that nobody can guess, drawn many at a time: randomness costs more per call than per byte."""
    return chain.from_iterable(map(_draw, repeat(256)))


def _draw(count: int) -> list[str]:
    digits = secrets.token_hex(8 * count)
    return [f"n{digits[at : at + 16]}" for at in range(0, len(digits), 16)]


class Tree:
    def __init__(
        self,
        root_type: str = "object",
        root_data: Json | None = None,
        *,
        epoch: str = "",
        new_ids: Iterator[str] | None = None,
    ) -> None:
        self.epoch = epoch or "".join(secrets.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(6))
        self.revision = 0
        self.lock = threading.RLock()
        self.history = History()
        self.nodes: dict[str, Node] = {}
        self.tagged: dict[str, set[Node]] = {}
        self.relabelled: dict[str, list[Relabelling]] = {}
        self.forgotten: dict[str, int] = {}
        self._new_ids = new_ids or random_ids()
        self._payloads_made = 0
        self._edit: Mark | None = None
        self.root = Node(
            ROOT_ID, self._make_payload(root_type, root_data if root_data is not None else {"Name": "root"})
        )
        self.root.payload.join(self.root)
        self.nodes[ROOT_ID] = self.root

    # -- looking up

    def node(self, node_id: str) -> Node:
        try:
            return self.nodes[node_id]
        except KeyError:
            raise NotFound(f"There is no node {node_id!r}", ids=[node_id]) from None

    def all_of(self, node_ids: Iterable[str]) -> list[Node]:
        """The nodes in the order asked for; an error names every missing one."""
        wanted = list(node_ids)
        missing = [node_id for node_id in wanted if node_id not in self.nodes]
        if missing:
            raise NotFound(f"There is no node {', '.join(map(repr, missing[:5]))}", ids=missing)
        return [self.nodes[node_id] for node_id in wanted]

    # -- editing as a unit

    @contextmanager
    def edit(self) -> Iterator[Mark]:
        """Changes in here share one revision, become visible together, or not at all."""
        mark = Mark(self.revision)
        self.history.push(mark)
        self._edit = mark
        try:
            yield mark
        except BaseException:
            self._edit = None
            self._take_back(mark)
            self.history.pop(mark)
            raise
        self._edit = None
        if mark.touched:
            self.revision += 1
        for parent_id, relabelling in mark.relabellings:
            self._publish(parent_id, relabelling)
        self.history.fold(mark)

    def _revise(self) -> int:
        """The revision that the change at hand belongs to."""
        if self._edit is None:
            self.revision += 1
            return self.revision
        return self.revision + 1

    def _touch(self, node: Node) -> None:
        marks = self.history.marks
        if marks and node.id not in marks[-1].nodes:
            marks[-1].nodes[node.id] = record_of(node)

    def _touch_new(self, node_id: str) -> None:
        marks = self.history.marks
        if marks and node_id not in marks[-1].nodes:
            marks[-1].nodes[node_id] = None

    def _touch_payload(self, payload: Payload) -> None:
        marks = self.history.marks
        if marks and payload.id not in marks[-1].payloads:
            marks[-1].payloads[payload.id] = record_of_payload(payload)

    def _stamp(self, node: Node | None, revision: int) -> None:
        """Raise `newest` up to the root.  An ancestor is never older than its child, so the climb may stop early."""
        if self._edit is None:
            while node is not None and node.newest != revision:
                node.newest = revision
                node = node.parent
            return
        while node is not None and node.newest != revision:
            self._edit.stamps.append((node, node.newest))
            node.newest = revision
            node = node.parent

    # -- changing

    def add(
        self,
        parent: Node,
        type: str,
        data: Json,
        *,
        node_id: str | None = None,
        index: int | None = None,
        share: Payload | None = None,
    ) -> Node:
        """Attach a new node; `share` gives it another node's payload instead of one of its own."""
        if node_id is None:
            node_id = next(self._new_ids)
        elif node_id in self.nodes:
            raise Conflict(f"The id {node_id!r} is taken", reason="id_taken")
        # Written out here and below: nothing is called as often as this.
        revision = self.revision + 1
        if self._edit is None:
            self.revision = revision
        if share is None:
            self._payloads_made += 1
            share = Payload(self._payloads_made, type, data, revision)
            node = share.users = Node(node_id, share, revision)
        else:
            node = Node(node_id, share, revision)
            share.join(node)
        if self.history.marks:
            self._touch_new(node_id)
            self._touch(parent)
        self.nodes[node_id] = node
        siblings = parent.children
        if index is None and siblings and (last := siblings[-1].order) < _LAST:
            node.parent, node.order = parent, last + GAP
            siblings.append(node)
        else:
            self._insert(node, parent, index)
        parent.changed = revision
        self._stamp(parent, revision)
        return node

    def remove(self, node: Node) -> int:
        """Detach the subtree and return its size."""
        parent = node.parent
        if parent is None:
            raise _the_root_stays()
        revision = self._revise()
        self._touch(parent)
        gone = list(walk(node))
        for each in gone:
            self._touch(each)
        _detach(parent, index_of(parent.children, node))
        for each in gone:
            self._unindex(each)
        parent.changed = revision
        self._stamp(parent, revision)
        return len(gone)

    def move(self, node: Node, parent: Node, index: int | None = None) -> bool:
        """Hang the node under the parent; False if it is there already.  The index does not count the node itself."""
        old = node.parent
        if old is None:
            raise _the_root_stays()
        above: Node | None = parent
        while above is not None:
            if above is node:
                raise InvalidArgument("A node cannot be moved into its own subtree", field="newParentId")
            above = above.parent
        at = index_of(old.children, node)
        if old is parent and at == (len(parent.children) - 1 if index is None else index):
            return False
        revision = self._revise()
        if self.history.marks:
            self._touch(node)
            self._touch(old)
            self._touch(parent)
        _detach(old, at)
        self._insert(node, parent, index)
        node.changed = old.changed = parent.changed = revision
        self._stamp(old, revision)
        # A node that carries the revision already would stop the climb before its new parent.
        self._stamp(parent if node.newest == revision else node, revision)
        return True

    def reorder(self, parent: Node, children: list[Node]) -> int:
        """Put the children into the order given and return how many changed their index."""
        moved = sum(1 for old, new in zip(parent.children, children, strict=True) if old is not new)
        if moved:
            revision = self._revise()
            self._touch(parent)
            self._relabel(parent, children, revision)
            parent.children = children or NO_CHILDREN
            parent.changed = revision
            self._stamp(parent, revision)
        return moved

    def put(self, payload: Payload, data: Json, type: str | None = None) -> None:
        """Replace the payload's data; every node that shares it has changed."""
        revision = self._revise()
        self._touch_payload(payload)
        payload.replace(data)
        payload.type = type or payload.type
        payload.changed = revision
        for user in payload.each_user():
            self._stamp(user, revision)

    def tag(self, node: Node, tags: frozenset[str]) -> bool:
        if tags == (node.tags or frozenset()):
            return False
        revision = self._revise()
        self._touch(node)
        self._untag(node)
        node.tags = tags or None
        self._retag(node)
        node.changed = revision
        self._stamp(node, revision)
        return True

    def copy(self, source: Node, parent: Node, index: int | None = None, *, share: bool = False) -> dict[str, Node]:
        """Copy the subtree under the parent and return the new node of each old id, the root first.

        Payload data is never changed in place, so a copy starts with the very same data.
        """
        originals = list(walk(source))
        revision = self._revise()
        self._touch(parent)
        made: dict[str, Node] = {}
        for old, new_id in zip(originals, self._new_ids, strict=False):
            payload = old.payload if share else self._make_payload(old.payload.type, old.payload.data, revision)
            node = Node(new_id, payload, revision, old.order)
            node.tags = old.tags
            self._touch_new(new_id)
            self._index(node)
            if old is not source:
                _append(node, made[old.parent.id])  # type: ignore[union-attr]
            made[old.id] = node
        self._insert(made[source.id], parent, index)
        parent.changed = revision
        self._stamp(parent, revision)
        return made

    # -- the past

    def restore(self, mark: Mark) -> int:
        """Bring back the state at the mark as a change of its own; the history before and after stays."""
        wanted: dict[str, NodeRecord | None] = {}
        payloads: dict[int, PayloadRecord] = {}
        for later in reversed(list(self.history.since(mark))):
            wanted.update(later.nodes)
            payloads.update(later.payloads)
        wanted = {node_id: record for node_id, record in wanted.items() if self._differs(node_id, record)}
        payloads = {key: record for key, record in payloads.items() if record.data is not record.payload.data}
        if not wanted and not payloads:
            return 0
        revision = self._revise()
        for node_id in wanted:
            live = self.nodes.get(node_id)
            self._touch_new(node_id) if live is None else self._touch(live)
        for payload in payloads.values():
            self._touch_payload(payload.payload)
        places = {node_id: _places(self.nodes[node_id]) for node_id in wanted if node_id in self.nodes}
        self._apply(wanted, payloads)
        self._stamp_restored(wanted, payloads, revision)
        for node_id, before in places.items():
            self._note_new_keys(node_id, before, revision)
        return len(wanted) + len(payloads)

    def _note_new_keys(self, node_id: str, before: dict[str, int], revision: int) -> None:
        """Let cursors find children that stayed in line but got other keys."""
        now = _places(self.nodes[node_id]) if node_id in self.nodes else {}
        stayed = [child for child in before if child in now]
        old, new = [before[child] for child in stayed], [now[child] for child in stayed]
        if old != new and new == sorted(new):
            self._note(node_id, Relabelling(revision, old, new))

    def _differs(self, node_id: str, record: NodeRecord | None) -> bool:
        """Whether the live node is unlike the record in anything but the revision."""
        node = self.nodes.get(node_id)
        if node is None or record is None:
            return node is not None or record is not None
        return record_of(node)[:-1] != record[:-1]

    def _take_back(self, mark: Mark) -> None:
        self._apply(mark.nodes, mark.payloads)
        for node, newest in reversed(mark.stamps):
            node.newest = newest

    def _apply(self, nodes: dict[str, NodeRecord | None], payloads: dict[int, PayloadRecord]) -> None:
        for node_id in nodes:
            live = self.nodes.get(node_id)
            if live is not None:
                self._unindex(live)
        for record in nodes.values():
            if record is not None:
                node = record.node
                node.parent, node.order = record.parent, record.order
                node.children = list(record.children) or NO_CHILDREN
                node.payload, node.tags, node.changed = record.payload, record.tags, record.changed
                self._index(node)
        for saved in payloads.values():
            saved.payload.replace(saved.data)
            saved.payload.type, saved.payload.changed = saved.type, saved.changed

    def _stamp_restored(
        self, nodes: dict[str, NodeRecord | None], payloads: dict[int, PayloadRecord], revision: int
    ) -> None:
        """Stamp what came back.  A node may carry the revision under ancestors that do not, so no climb stops early
        before a node that this pass has climbed from."""
        back = [record.node for record in nodes.values() if record is not None]
        for node in back:
            node.changed = revision
        for saved in payloads.values():
            saved.payload.changed = revision
            back.extend(saved.payload.each_user())
        climbed: set[str] = set()
        log = self._edit.stamps if self._edit is not None else []
        for node in back:
            at: Node | None = node
            while at is not None and at.id not in climbed:
                climbed.add(at.id)
                log.append((at, at.newest))
                at.newest = revision
                at = at.parent

    # -- loading

    def load(self, rows: Iterable[StoredNode], revision: int) -> None:
        """Take over stored nodes, given in any order; fastest with parents first and siblings in order."""
        self.nodes, self.tagged, self.revision = {}, {}, revision
        with _collector_paused():
            waiting, ahead, unsorted = self._load_nodes(rows)
            for node, parent_id in waiting:
                if parent_id is None:
                    self.root = node
                else:
                    _append(node, self.nodes[parent_id])
                    unsorted.add(self.nodes[parent_id])
                    ahead.append(node)
            for parent in unsorted:
                parent.children.sort(key=attrgetter("order"))
            # The newest first, so that every ancestor is raised once.
            for node in sorted(ahead, key=attrgetter("newest"), reverse=True):
                above = node.parent
                while above is not None and above.newest < node.newest:
                    above.newest = node.newest
                    above = above.parent

    def _load_nodes(self, rows: Iterable[StoredNode]) -> tuple[list[tuple[Node, str | None]], list[Node], set[Node]]:
        """Make the nodes and link them where the parent is known.

        Returns those that wait for a parent, those newer than their parent, and parents of unsorted children.  One
        loop without calls: it runs once for every node there is.
        """
        index, made = self.nodes, self._payloads_made
        waiting: list[tuple[Node, str | None]] = []
        ahead: list[Node] = []
        unsorted: set[Node] = set()
        for node_id, parent_id, order, payload, tags, changed in rows:
            node = index[node_id] = Node(node_id, payload, changed, order)
            if payload.changed > changed:
                node.newest = payload.changed
            if payload.users is None:
                payload.users = node
            else:
                payload.join(node)
            if payload.id > made:
                made = payload.id
            if tags:
                node.tags = tags
                self._retag(node)
            parent = index.get(parent_id)  # type: ignore[arg-type]
            if parent is None:
                waiting.append((node, parent_id))
                continue
            node.parent = parent
            if node.newest > parent.newest:
                ahead.append(node)
            siblings = parent.children
            if not siblings:
                parent.children = [node]
                continue
            if siblings[-1].order > order:
                unsorted.add(parent)
            siblings.append(node)
        self._payloads_made = made
        return waiting, ahead, unsorted

    # -- order keys

    def translate(self, parent_id: str, order: int, seen: int, until: int) -> int:
        """The order key, at the one revision, of the place that had the key at an earlier one."""
        if seen < self.forgotten.get(parent_id, 0):
            raise Conflict(
                "The page is too old to go on from",
                reason="page_expired",
                suggestion="begin again without a page token",
            )
        for relabelling in self.relabelled.get(parent_id, ()):
            if seen < relabelling.revision <= until:
                at = bisect_right(relabelling.old, order) - 1
                order = relabelling.new[at] if at >= 0 else relabelling.new[0] - 1
        return order

    def _insert(self, node: Node, parent: Node, index: int | None) -> None:
        node.parent = parent
        siblings = parent.children
        if not siblings:
            node.order, parent.children = 0, [node]
            return
        if index is None:
            index = len(siblings)
        order = siblings[-1].order + GAP if index == len(siblings) else order_before(siblings, index)
        if order is None or order > LARGEST:
            self._relabel(parent, siblings, self._revision_at_hand())
            self._insert(node, parent, index)
            return
        node.order = order
        siblings.insert(index, node)

    def _revision_at_hand(self) -> int:
        return self.revision if self._edit is None else self.revision + 1

    def _relabel(self, parent: Node, children: list[Node], revision: int) -> None:
        """Give the children evenly spread keys.  Their records are saved, yet they did not change as nodes."""
        old, new = [child.order for child in parent.children], spread(len(children))
        for child, order in zip(children, new, strict=True):
            self._touch(child)
            child.order = order
        self._note(parent.id, Relabelling(revision, old, new))

    def _note(self, parent_id: str, relabelling: Relabelling) -> None:
        if self._edit is None:
            self._publish(parent_id, relabelling)
        else:
            self._edit.relabellings.append((parent_id, relabelling))

    def _publish(self, parent_id: str, relabelling: Relabelling) -> None:
        kept = [*self.relabelled.get(parent_id, ()), relabelling]
        if len(kept) > _RELABELLINGS_KEPT:
            self.forgotten[parent_id] = kept[0].revision
        self.relabelled[parent_id] = kept[-_RELABELLINGS_KEPT:]

    # -- the index

    def _make_payload(self, type: str, data: Json, changed: int = 0) -> Payload:
        self._payloads_made += 1
        return Payload(self._payloads_made, type, data, changed)

    def _index(self, node: Node) -> None:
        self.nodes[node.id] = node
        node.payload.join(node)
        if node.tags:
            self._retag(node)

    def _unindex(self, node: Node) -> None:
        del self.nodes[node.id]
        node.payload.leave(node)
        if node.tags:
            self._untag(node)

    def _retag(self, node: Node) -> None:
        for tag in node.tags or ():
            self.tagged.setdefault(tag, set()).add(node)

    def _untag(self, node: Node) -> None:
        for tag in node.tags or ():
            holders = self.tagged[tag]
            holders.discard(node)
            if not holders:
                del self.tagged[tag]


def _the_root_stays() -> InvalidArgument:
    return InvalidArgument("The root can neither be removed nor moved", field="nodeId")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Loading makes nothing but live objects, which the collector would visit again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not gc.get_freeze_count():
                # To and fro: the young objects become old ones without a visit.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _places(node: Node) -> dict[str, int]:
    return {child.id: child.order for child in node.children}


def _detach(parent: Node, index: int) -> None:
    if len(parent.children) == 1:
        parent.children = NO_CHILDREN
    else:
        del parent.children[index]


def _append(node: Node, parent: Node) -> None:
    """Put the node, which has its order key, behind the parent's children."""
    node.parent = parent
    if parent.children:
        parent.children.append(node)
    else:
        parent.children = [node]


def common_ancestor(nodes: Sequence[Node]) -> Node:
    """The deepest node whose subtree holds all of them; for one node, that node."""
    shared = ancestry(nodes[0])
    common = len(shared)
    for node in nodes[1:]:
        path = ancestry(node)
        common = min(common, len(path))
        while shared[common - 1].id != path[common - 1].id:
            common -= 1
    return shared[common - 1]
