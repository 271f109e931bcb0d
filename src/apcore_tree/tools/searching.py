"""Tools that find nodes.  A search covers the root and all its descendants, folded or not, in document order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key
from typing import Any

from apcore_tree.calls import Call, Read
from apcore_tree.engine.node import Json, Node, depth_of, is_within, position, select
from apcore_tree.engine.predicates import Predicate, all_of, any_of, compile_condition, sort_key, value_reader
from apcore_tree.engine.query import compile_query
from apcore_tree.engine.walking import Cursor, nodes_after
from apcore_tree.errors import InvalidArgument
from apcore_tree.tools.schema import (
    HIT,
    PAGING,
    ROW,
    array,
    choice,
    flag,
    free_object,
    node_id,
    opt,
    page_of,
    property_path,
    record,
    text,
    value,
)
from apcore_tree.tools.shapes import Shaper, hit_of
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["CONDITION", "FILTER", "GROUP", "TOOLS", "compile_filters", "compile_group"]

_MOST_GROUP_LEVELS = 8
_MOST_CONDITIONS = 64

_PATH = property_path("Property path, or $id, $type, $name, $depth, $tags, $childCount, $path, $index, $version.")
FILTER = record(
    "A condition.",
    path=_PATH,
    op=choice("eq: equal; contains: part of a text or member of a list.", "eq", "contains"),
    value=value("What to compare with."),
    caseSensitive=opt(flag("Whether case matters in texts.", False)),
)
CONDITION = record(
    "A condition.",
    path=_PATH,
    op=choice("How to compare; between includes both ends.", "eq", "contains", "gt", "lt", "between"),
    value=value("What to compare with; the lower end for between."),
    value2=opt(value("The upper end for between.")),
)
GROUP = record(
    "Conditions and inner groups joined by and / or; an empty group is true.",
    op=opt(choice("How the parts are joined.", "and", "or", default="and")),
    predicates=opt(array("Conditions.", CONDITION, _MOST_CONDITIONS)),
    groups=opt(
        array(
            f"Inner groups, each of the same shape as this one, nested at most {_MOST_GROUP_LEVELS} deep.",
            free_object("A group: op, predicates, groups."),
            16,
        )
    ),
)


def compile_filters(filters: list[Json], call: Call) -> Predicate:
    return all_of(compile_condition(condition, call.types) for condition in filters)


def compile_group(group: Json, call: Call, level: int = 1) -> Predicate:
    """Compile a group; inner groups are checked here, because their schema cannot refer to itself."""
    if level > _MOST_GROUP_LEVELS:
        raise InvalidArgument(f"Groups are nested at most {_MOST_GROUP_LEVELS} deep", field="predicates")
    if level > 1:
        call.service.check_part("predicates", GROUP, group)
    parts = [compile_condition(condition, call.types) for condition in group.get("predicates", [])]
    parts += [compile_group(inner, call, level + 1) for inner in group.get("groups", [])]
    if not parts:
        return lambda node: True
    return any_of(parts) if group.get("op") == "or" else all_of(parts)


def _count_conditions(group: Json) -> int:
    return len(group.get("predicates", [])) + sum(_count_conditions(inner) for inner in group.get("groups", []))


def _scan(call: Read, root: Node, holds: Predicate) -> Json:
    """Search in document order and stop when the page is full."""
    cursor = None if call.after is None else Cursor(call.after, call.seen)
    shaper = Shaper(call.types, call.filter("node", {}))
    hits = filter(holds, nodes_after(call.source, root, cursor))
    return call.page(((position(node, root), node) for node in hits), lambda node: hit_of(call, shaper, node))


def search(call: Read) -> Json:
    return _scan(call, call.node("rootNodeId"), compile_filters(call["filters"], call))


def select_nodes(call: Read) -> Json:
    return _scan(call, call.node("rootNodeId"), compile_query(call["queryDsl"], call.source, call.types))


def search_advanced(call: Read) -> Json:
    root, group = call.node("rootId"), call["predicates"]
    holds = compile_group(group, call)
    if _count_conditions(group) > _MOST_CONDITIONS:
        raise InvalidArgument(f"At most {_MOST_CONDITIONS} conditions", field="predicates", maxBatch=_MOST_CONDITIONS)
    if "sortBy" not in call.arguments:
        return _scan(call, root, holds)
    return _sorted(call, root, holds)


def _sorted(call: Read, root: Node, holds: Predicate) -> Json:
    value_of, descending = value_reader(call["sortBy"], call.types), call["sortDirection"] == "desc"
    hits: list[tuple[Any, Node]] = []
    for node in select(root, holds):
        hits.append(([list(sort_key(value_of(node))), position(node, root)], node))
    key = cmp_to_key(_descending if descending else _ascending)
    hits.sort(key=lambda hit: key(hit[0]))
    after = None if call.after is None else [call.after[0], call.present(root, call.after[1])]
    later = (hit for hit in hits if after is None or key(hit[0]) > key(after))
    shaper = Shaper(call.types, call.filter("node", {}))
    return call.page(later, lambda node: hit_of(call, shaper, node))


def _ascending(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _descending(one: Any, other: Any) -> int:
    """Values backwards, missing ones still last, ties in document order."""
    (one_value, one_place), (other_value, other_place) = one, other
    if one_value == other_value or 9 in (one_value[0], other_value[0]):
        return _ascending([one_value, one_place], [other_value, other_place])
    return _ascending(other_value, one_value)


def query_by_tag(call: Read) -> Json:
    root, tag = call.node("rootNodeId"), call["tag"]
    shaper = Shaper(call.types, call.filter("node", {}))
    entries = sorted((position(node, root), node.id, node) for node in _tagged(call, root, tag))
    after = None if call.after is None else call.present(root, call.after)
    return call.keyed_page(((place, node) for place, _, node in entries), lambda node: _row(shaper, node), after)


def _tagged(call: Read, root: Node, tag: str) -> Iterator[Node]:
    if call.source.pinned:
        return iter(select(root, lambda node: tag in (node.tags or ())))
    return (node for node in call.tree.tagged.get(tag, ()) if is_within(node, root))


def _row(shaper: Shaper, node: Node) -> Json:
    return shaper.row(node, depth_of(node))


_ROOT = opt(node_id("Search only this subtree; without it the whole tree."))

TOOLS = (
    Tool(
        "search",
        Kind.READ,
        "Find nodes that meet all of the given conditions; each hit comes with its path.",
        record(
            None,
            rootNodeId=node_id("Search this node and everything under it."),
            filters=array("Conditions that must all hold.", FILTER, 16, 1),
            **PAGING,
        ),
        page_of(HIT, "The hits of this page in document order."),
        search,
        idempotent=True,
        paginated=True,
        long=True,
    ),
    Tool(
        "search_advanced",
        Kind.READ,
        "Find nodes by groups of conditions joined with and / or, optionally sorted by a property.",
        record(
            None,
            rootId=node_id("Search this node and everything under it."),
            predicates=GROUP,
            sortBy=opt(property_path("Sort the hits by this property; missing values come last.")),
            sortDirection=opt(choice("Direction of the sort.", "asc", "desc", default="asc")),
            **PAGING,
        ),
        page_of(HIT, "The hits of this page."),
        search_advanced,
        idempotent=True,
        paginated=True,
        long=True,
    ),
    Tool(
        "select_nodes",
        Kind.READ,
        'Find nodes with a query such as: Name contains "Kitchen" AND SquareFeet > 100, /House/*/Kitchen, '
        '//Kitchen and not #archived, :Space and ancestor(Name = "House"). Operators: = != > >= < <= contains '
        'startswith endswith glob between..and in [..] exists, is null; #tag, :Type, under "id", /path/globs; '
        "parent() ancestor() child() descendant(); and or not; $id $type $name $depth $tags $childCount $path.",
        record(
            None,
            queryDsl=text("The query.", 2000, least=1),
            rootNodeId=_ROOT,
            **PAGING,
        ),
        page_of(HIT, "The hits of this page in document order."),
        select_nodes,
        idempotent=True,
        paginated=True,
        long=True,
    ),
    Tool(
        "query_by_tag",
        Kind.READ,
        "List the nodes that carry a tag.",
        record(None, tag=text("The tag, exactly as set.", 64, least=1), rootNodeId=_ROOT, **PAGING),
        page_of(ROW, "The nodes of this page in document order."),
        query_by_tag,
        idempotent=True,
        paginated=True,
    ),
)
