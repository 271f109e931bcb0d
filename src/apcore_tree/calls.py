"""What a tool works with: one object per call, for reading, for a session, or for changing the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from apcore_tree.engine.node import Json, Node
from apcore_tree.engine.paging import Position, query_hash
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.properties import PropertyFilter
from apcore_tree.engine.source import Live, Pinned, Source
from apcore_tree.engine.tokens import Token, parse_token
from apcore_tree.engine.tree import Tree
from apcore_tree.engine.walking import Cursor, present_position
from apcore_tree.errors import Conflict, InvalidArgument
from apcore_tree.settings import Caller, Settings

if TYPE_CHECKING:
    from apcore_tree.service import TreeService
    from apcore_tree.tools.tool import Tool

__all__ = ["BulkChange", "Call", "Change", "Read", "SessionChange"]


class Call:
    def __init__(self, service: TreeService, tool: Tool, arguments: Json, caller: Caller) -> None:
        self.service = service
        self.tool = tool
        self.arguments = arguments
        self.caller = caller
        self.tree: Tree = service.tree
        self.types: PayloadTypes = service.types
        self.settings: Settings = service.settings
        self.session = service.sessions.of(caller.id, caller.session)
        self.source: Source = Live(self.tree)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)

    @property
    def version(self) -> str:
        """The token for the state that this call has read."""
        return self.service.version(self.source.revision)

    def node(self, argument: str) -> Node:
        """The node that an argument names; without it the root."""
        node_id = self.arguments.get(argument)
        return self.source.root if node_id is None else self.source.node(node_id)

    def filter(self, scope: str, given: Json | None = None) -> PropertyFilter:
        """The filter of the call if it has one, else the session's for such calls."""
        asked = self.arguments if given is None else given
        if "includedProperties" in asked or "excludedProperties" in asked:
            return PropertyFilter(asked.get("includedProperties", ()), asked.get("excludedProperties", ()))
        return PropertyFilter(*self.session.filters.get(scope, ((), ())))


class Read(Call):
    """A read, possibly of one page.  `after` is where the page before ended."""

    def __init__(self, service: TreeService, tool: Tool, arguments: Json, caller: Caller) -> None:
        super().__init__(service, tool, arguments, caller)
        paging = arguments.get("paging", arguments)
        self.limit: int = paging.get("limit") or paging.get("pageSize") or tool.page_size
        token = paging.get("pageToken")
        self._position = None if token is None else service.page_tokens.read(self._query, token)
        self._pin = self._position.pin if self._position is not None else None
        if self._pin is None and self._position is None and arguments.get("consistency") == "pinned":
            self._pin = service.sessions.pin(self.session, service.now())
        if self._pin is not None:
            self.source = Pinned(self.tree, service.sessions.pinned(self.session, self._pin, service.now()))

    @property
    def _query(self) -> str:
        return query_hash(self.tool.name, self.arguments)

    @property
    def after(self) -> Any:
        return None if self._position is None else self._position.after

    @property
    def seen(self) -> int:
        return self.source.revision if self._position is None else self._position.seen

    def page(self, entries: Iterable[tuple[Any, Any]], shape: Callable[[Any], Any]) -> Json:
        """One page of `(position, item)` pairs, which begin after the page before."""
        items: list[Any] = []
        last, more = None, False
        for position, item in entries:
            if len(items) == self.limit:
                more = True
                break
            items.append(shape(item))
            last = position
        return {"items": items, **self.ending(last if more else None)}

    def keyed_page(
        self, entries: Iterable[tuple[Any, Any]], shape: Callable[[Any], Any], after: Any | None = None
    ) -> Json:
        """A page of entries in ascending order of their keys, all of them given."""
        last = self.after if after is None else after
        return self.page((entry for entry in entries if last is None or entry[0] > last), shape)

    def present(self, root: Node, position: list[int]) -> list[int]:
        """A position below the root, as the page before gave it, in the order keys of this page."""
        return present_position(self.source, root, Cursor(position, self.seen))

    def ending(self, last: Any | None) -> Json:
        """What every page says at its end; `last` is the position to go on from."""
        first = self.source.revision if self._position is None else self._position.first
        end: Json = {}
        if last is not None:
            position = Position(last, self.source.revision, first, self._pin)
            end["nextPage"] = self.service.page_tokens.issue(self._query, position)
        elif self._pin is not None:
            self.service.release_pin(self.session, self._pin)
        end["changedSinceFirstPage"] = first != self.source.revision
        end["version"] = self.version
        return end


class SessionChange(Call):
    """A change of the session; the tree stays as it is."""

    def check_token(self) -> None:
        token = _given_token(self)
        if token is None:
            return
        if token.scope == "v":
            current = token.epoch == self.session.epoch and token.revision == self.session.revision
        else:
            current = token.epoch == self.tree.epoch and token.revision == self.tree.revision
        if not current:
            raise Conflict(
                "The version token is not current",
                currentVersion=self.version,
                currentViewVersion=self.session.token(),
            )

    def node(self, argument: str) -> Node:
        return self.source.node(self.arguments[argument])


class Change(Call):
    """A change of the tree.  A tool names what its decision rests on (`expect`) before it changes anything."""

    def __init__(self, service: TreeService, tool: Tool, arguments: Json, caller: Caller) -> None:
        super().__init__(service, tool, arguments, caller)
        self._token: Token | None = None
        self._afterwards: list[Callable[[], None]] = []

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do something outside the tree once the change is stored."""
        self._afterwards.append(action)

    def finish(self) -> None:
        for action in self._afterwards:
            action()

    def check_token(self) -> None:
        """The part of the check that needs no footprint."""
        self._token = token = _given_token(self)
        if token is None:
            return
        if token.scope == "v":
            raise InvalidArgument("A view's version does not stand for the tree", field="versionToken")
        if token.epoch != self.tree.epoch or token.revision > self.tree.revision:
            raise self._stale()
        if token.scope == "t" and token.revision != self.tree.revision:
            raise self._stale()

    def expect(self, *nodes: Node, subtrees: Iterable[Node] = ()) -> None:
        """With a footprint token: nothing that the decision rests on has changed since."""
        if self._token is None or self._token.scope != "f":
            return
        seen = self._token.revision
        changed = [node.id for node in nodes if max(node.changed, node.payload.changed) > seen]
        changed += [node.id for node in subtrees if node.newest > seen]
        if changed:
            raise self._stale(changed)

    def _stale(self, changed: list[str] | None = None) -> Conflict:
        return Conflict(
            "The tree has changed since that version",
            currentVersion=self.version,
            changedIds=changed,
            suggestion="read again, then repeat with the current version",
        )

    def node(self, argument: str) -> Node:
        return self.tree.node(self.arguments[argument])

    def check_room(self, more: int) -> None:
        if len(self.tree.nodes) + more > self.settings.max_nodes:
            raise InvalidArgument(f"A tree has at most {self.settings.max_nodes} nodes", reason="max_nodes")

    def index_under(self, parent: Node, moving: Node | None = None) -> int | None:
        """The index argument, checked against the siblings there will be."""
        index: int | None = self.arguments.get("index")
        siblings = len(parent.children) - (moving is not None and moving.parent is parent)
        if index is not None and index > siblings:
            raise InvalidArgument(f"The index is between 0 and {siblings}", field="index")
        return index


class BulkChange(Change):
    """A change made node by node, each of them a commit of its own."""

    def commit_one(self, node: Node, change: Callable[[], Json]) -> Json:
        """Run and store the change of one node; a repeated call finds what it has done already."""
        return self.service.commit_one(self, node, change)


def _given_token(call: Call) -> Token | None:
    text = call.arguments.get("versionToken")
    if text is not None:
        return parse_token(text)
    optional = call.tool.token_optional or call.arguments.get("dryRun", False)
    if call.settings.require_token and not optional:
        raise Conflict("A version token is required", reason="token_missing", currentVersion=call.version)
    return None
