"""Ways to call the tools, all with the same answer: the result, or the code of the error."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

from apcore import Context, Identity

from apcore_tree import Caller, Settings, TreeError, TreeService, as_tree_error, open_store, tree_executor

EDITOR = Caller("ann", roles=("editor",))
READER = Caller("bob", roles=("reader",))
UNLIMITED = Settings(rate_limit=None)


def counted_ids() -> Iterator[str]:
    """Ids that are the same in every run, so that two trees can be compared."""
    return map("n{}".format, itertools.count(1))


def make_service(store: str = "memory:", settings: Settings = UNLIMITED, **options: Any) -> TreeService:
    options.setdefault("new_ids", counted_ids())
    return TreeService(open_store(store), settings=settings, **options)


class Direct:
    """Calls the service."""

    def __init__(self, service: TreeService, caller: Caller = EDITOR) -> None:
        self.service = service
        self.caller = caller

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.service.call(tool, arguments, self.caller)

    def change(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A change made on the version of this moment."""
        return self(tool, **{"versionToken": self.service.version(), **arguments})

    def add(self, parent: str, name: str, **properties: Any) -> str:
        """The id of a new node."""
        added = self.change(
            "add_child", parentNodeId=parent, payloadType="object", payloadProps={"Name": name, **properties}
        )
        node_id: str = added["nodeId"]
        return node_id


class ThroughExecutor(Direct):
    """Calls the modules through an apcore executor with every gate.  A fixture closes those left open."""

    opened: ClassVar[list[ThroughExecutor]] = []

    def __init__(self, service: TreeService, caller: Caller = EDITOR) -> None:
        super().__init__(service, caller)
        self.executor = tree_executor(service, check_output=True)
        self._loop = asyncio.new_event_loop()
        self.opened.append(self)

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        identity = Identity(self.caller.id, self.caller.type, self.caller.roles)
        context = Context.create(identity=identity)
        try:
            return self._loop.run_until_complete(self.executor.call_async(f"tree.{tool}", arguments, context))
        except Exception as error:
            raise as_tree_error(error) from error

    def close(self) -> None:
        self.opened.remove(self)
        self._loop.close()
        self.executor.close()


def outcome(surface: Direct, tool: str, **arguments: Any) -> tuple[str, Any]:
    try:
        return "ok", surface(tool, **arguments)
    except TreeError as error:
        return "error", error.code


def everything(service: TreeService) -> dict[str, Any]:
    """All that a tree holds, in a form that compares."""
    return {
        node.id: (
            None if node.parent is None else node.parent.id,
            [child.id for child in node.children],
            node.order,
            node.payload.id,
            node.payload.type,
            node.payload.data,
            node.payload.changed,
            sorted(node.tags or ()),
            node.changed,
            node.newest,
        )
        for node in service.tree.nodes.values()
    }
