"""The same tools as an apcore user would write them at first: pydantic models and the standard pipeline.

The models say what our schemas say, field by field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from apcore import ModuleAnnotations
from pydantic import BaseModel, ConfigDict, Field

from apcore_tree import Caller, TreeService

READER = Caller("bench", roles=("reader",))

NodeId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]
PropertyPath = Annotated[str, Field(min_length=1, max_length=256, description="Dotted property path.")]
Paths = Annotated[list[PropertyPath], Field(max_length=64)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Row(Strict):
    nodeId: str = Field(description="Id of the node.")
    parentId: str | None = Field(description="Id of the parent; null for the root.")
    name: str | None = Field(default=None, description="Display name, where the payload has one.")
    depth: int = Field(description="Distance from the root of the tree.")
    payloadType: str | None = Field(default=None, description="Registered name of the payload's type.")
    payload: dict[str, Any] = Field(description="The payload's visible properties.")
    childrenCount: int | None = Field(default=None, description="Number of children.")
    isExpanded: bool | None = Field(default=None, description="Whether this session's view unfolds the node.")
    tags: list[str] | None = Field(default=None, description="Tags of the node.")
    version: int = Field(description="Revision that last changed the node.")


class GetNodeInput(Strict):
    nodeId: NodeId = Field(description="The node to read.")
    includedProperties: Paths | None = Field(default=None, description="Show only these payload properties.")
    excludedProperties: Paths | None = Field(default=None, description="Hide these payload properties.")


class GetNodeOutput(Strict):
    node: Row
    version: str = Field(description="Version of the tree; pass it back as versionToken.")


class Paging(Strict):
    pageSize: int = Field(default=200, ge=1, le=1000, description="Nodes per page.")
    pageToken: str | None = Field(default=None, max_length=2048, description="The `nextPage` of the page before.")


class GetSubtreeInput(Strict):
    nodeId: NodeId = Field(description="Root of the subtree.")
    depthLimit: int | None = Field(default=None, ge=0, le=100, description="Levels below the root node.")
    paging: Paging | None = Field(default=None, description="Which page to read.")
    format: Literal["nested", "flat"] = Field(default="nested", description="Nested objects or flat rows.")


class Page(Strict):
    nextPage: str | None = Field(default=None, description="Pass it back as pageToken for the next page.")
    changedSinceFirstPage: bool = Field(description="Whether the tree changed since the first page.")
    version: str = Field(description="Version of the tree; pass it back as versionToken.")


class GetSubtreeOutput(Page):
    rows: list[Row] = Field(description="The nodes of this page in document order.")
    count: int = Field(description="Nodes in this page.")


class Condition(Strict):
    path: PropertyPath = Field(description="Property path, or $id, $type, $name, $depth.")
    op: Literal["eq", "contains", "gt", "lt", "between"] = Field(description="How to compare.")
    value: Any = Field(description="What to compare with.")
    value2: Any = Field(default=None, description="The upper end for between.")


class Group(Strict):
    op: Literal["and", "or"] = Field(default="and", description="How the parts are joined.")
    predicates: list[Condition] = Field(default=[], max_length=64, description="Conditions.")
    groups: list[Group] = Field(default=[], max_length=16, description="Inner groups.")


class SearchInput(Strict):
    rootId: NodeId = Field(description="Search this node and everything under it.")
    predicates: Group = Field(description="Conditions and inner groups.")
    sortBy: PropertyPath | None = Field(default=None, description="Sort the hits by this property.")
    sortDirection: Literal["asc", "desc"] = Field(default="asc", description="Direction of the sort.")
    limit: int = Field(default=50, ge=1, le=200, description="Items per page.")
    pageToken: str | None = Field(default=None, max_length=2048, description="The `nextPage` of the page before.")
    consistency: Literal["live", "pinned"] = Field(default="live", description="What later pages read.")


class PathItem(Strict):
    nodeId: str = Field(description="Id of the node.")
    name: str | None = Field(default=None, description="Display name.")
    depth: int = Field(description="Distance from the root.")


class Hit(Strict):
    node: Row
    path: list[PathItem] = Field(description="The path from the root to the node, both included.")


class SearchOutput(Page):
    items: list[Hit] = Field(description="The hits of this page.")


class _Read:
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)
    description = "Reads nodes of the tree."
    tool = ""

    def __init__(self, service: TreeService) -> None:
        self.service = service

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return self.service.run(self.tool, inputs, READER)


class PydanticGetNode(_Read):
    tool = "get_node"
    input_schema = GetNodeInput
    output_schema = GetNodeOutput


class PydanticSearch(_Read):
    tool = "search_advanced"
    input_schema = SearchInput
    output_schema = SearchOutput


def _with_cached_schema(model: type[BaseModel]) -> type[BaseModel]:
    schema = model.model_json_schema()
    return type(f"Cached{model.__name__}", (model,), {"model_json_schema": classmethod(lambda cls, **_: schema)})


class CachedGetSubtree(_Read):
    """With schemas generated once, which the usual pipeline leaves to its user."""

    tool = "get_subtree"
    input_schema = _with_cached_schema(GetSubtreeInput)
    output_schema = _with_cached_schema(GetSubtreeOutput)


def load_pages(service: TreeService) -> None:
    """Two thousand nodes to read."""
    rows = [{"nodeId": "root", "parentId": None, "payloadType": "object", "payload": {"Name": "root"}}]
    rows += [
        {
            "nodeId": f"n{number}",
            "parentId": "root" if number <= 10 else f"n{(number - 1) // 10}",
            "payloadType": "object",
            "payload": {"Name": f"node {number}", "V": number, "Colour": "red"},
        }
        for number in range(1, 2_000)
    ]
    service.call(
        "import_merge",
        {"json": rows, "strategy": "upsert", "matchBy": "nodeId", "versionToken": service.version()},
        Caller("loader", roles=("editor",)),
    )
