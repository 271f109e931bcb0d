"""Filters, groups, the query language and tags."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tree.conftest import House

from apcore_tree import InvalidArgument, NotFound


def found(result: dict[str, Any]) -> list[str]:
    return [item.get("node", item)["name"] for item in result["items"]]


def search(house: House, path: str, op: str, value: Any, **more: Any) -> list[str]:
    return found(house.call("search", rootNodeId="root", filters=[{"path": path, "op": op, "value": value, **more}]))


@pytest.mark.parametrize(
    ("path", "op", "value", "names"),
    [
        ("Colour", "eq", "RED", ["Table"]),
        ("colour", "eq", "red", ["Table"]),
        ("Size", "eq", 20, ["Kitchen"]),
        ("Size", "eq", "20", ["Kitchen"]),
        ("Size", "eq", 20.0, ["Kitchen"]),
        ("Dusty", "eq", "true", ["Attic"]),
        ("Dusty", "eq", True, ["Attic"]),
        ("Dusty", "eq", 1, []),
        ("Legs", "eq", None, []),
        ("Name", "contains", "BA", ["Bath"]),
        ("Address.City", "eq", "bath", ["Kitchen"]),
        ("Address", "eq", {"Street": "High St", "City": "Bath"}, ["Kitchen"]),
        ("$depth", "eq", 3, ["Table", "Chair"]),
        ("$childCount", "eq", 3, ["House"]),
        ("$name", "eq", "shed", ["Shed"]),
        ("$path", "eq", "/root/House/Bath", ["Bath"]),
        ("$index", "eq", 2, ["Attic"]),
        ("$type", "contains", "obj", ["root", "House", "Kitchen", "Table", "Chair", "Bath", "Attic", "Garden", "Shed"]),
        ("$version", "eq", 5, ["Bath"]),
        ("Missing", "eq", "x", []),
        ("Size", "contains", "0", []),
    ],
)
def test_filters_compare_values_of_one_kind(house: House, path: str, op: str, value: Any, names: list[str]) -> None:
    assert search(house, path, op, value) == names


def test_case_matters_when_told_so(house: House) -> None:
    assert search(house, "Colour", "eq", "RED", caseSensitive=True) == []
    assert search(house, "Colour", "eq", "red", caseSensitive=True) == ["Table"]
    assert search(house, "Legs", "eq", "4", caseSensitive=True) == ["Table", "Chair"]
    assert search(house, "Colour", "contains", "RE", caseSensitive=True) == []


def test_contains_looks_into_lists(house: House) -> None:
    house.call.change("update_payload_property", nodeId=house.shed, propertyName="Tools", newValue=["Saw", 3])
    assert search(house, "Tools", "contains", "saw") == ["Shed"]
    assert search(house, "Tools", "contains", 3) == ["Shed"]
    assert search(house, "Tools", "contains", True) == []
    house.call.change("tag_node", nodeId=house.shed, tags=["wet"])
    assert search(house, "$tags", "contains", "wet") == ["Shed"]


def test_a_hit_comes_with_its_path(house: House) -> None:
    filters = [{"path": "Colour", "op": "eq", "value": "red"}]
    hit = house.call("search", rootNodeId=house.house, filters=filters)["items"][0]
    assert [step["nodeId"] for step in hit["path"]] == ["root", house.house, house.kitchen, house.table]
    assert hit["node"]["depth"] == 3


def test_a_search_stays_in_its_subtree_and_ignores_folding(house: House) -> None:
    house.call.change("collapse_all", rootNodeId="root")
    filters = [{"path": "Size", "op": "contains", "value": ""}, {"path": "Size", "op": "eq", "value": 6}]
    assert found(house.call("search", rootNodeId=house.garden, filters=filters[1:])) == ["Shed"]
    assert found(house.call("search", rootNodeId=house.house, filters=filters[1:])) == []


def test_an_unknown_meta_path_names_the_known_ones(house: House) -> None:
    with pytest.raises(InvalidArgument) as refused:
        search(house, "$colour", "eq", 1)
    assert "$childCount" in refused.value.details["suggestion"]


# -- groups


def advanced(house: House, predicates: dict[str, Any], **more: Any) -> list[str]:
    return found(house.call("search_advanced", rootId="root", predicates=predicates, **more))


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ({"predicates": [{"path": "Size", "op": "gt", "value": 20}]}, ["Attic", "Garden"]),
        ({"predicates": [{"path": "Size", "op": "lt", "value": "8"}]}, ["Shed"]),
        ({"predicates": [{"path": "Size", "op": "between", "value": 8, "value2": 20}]}, ["Kitchen", "Bath"]),
        ({"predicates": [{"path": "Name", "op": "gt", "value": "k"}]}, ["root", "Kitchen", "Table", "Shed"]),
        ({"predicates": [{"path": "Dusty", "op": "gt", "value": 0}]}, []),
        ({"predicates": [{"path": "Size", "op": "gt", "value": None}]}, []),
        (
            {
                "op": "or",
                "predicates": [{"path": "Colour", "op": "eq", "value": "red"}],
                "groups": [
                    {
                        "predicates": [
                            {"path": "Size", "op": "gt", "value": 5},
                            {"path": "Size", "op": "lt", "value": 10},
                        ]
                    }
                ],
            },
            ["Table", "Bath", "Shed"],
        ),
    ],
)
def test_groups_join_with_and_and_or(house: House, group: dict[str, Any], names: list[str]) -> None:
    assert advanced(house, group) == names


def test_an_empty_group_is_true(house: House) -> None:
    assert len(advanced(house, {})) == 9


def test_hits_are_sorted_with_missing_values_last_and_ties_in_document_order(house: House) -> None:
    sized = {"predicates": [{"path": "$depth", "op": "gt", "value": 0}]}
    assert advanced(house, sized, sortBy="Legs") == [
        "Table", "Chair", "House", "Kitchen", "Bath", "Attic", "Garden", "Shed",
    ]  # fmt: skip
    by_size = ["Garden", "Attic", "Kitchen", "Bath", "Shed", "House", "Table", "Chair"]
    assert advanced(house, sized, sortBy="Size", sortDirection="desc") == by_size
    pages: list[str] = []
    token: dict[str, Any] = {}
    while True:
        page = house.call(
            "search_advanced", rootId="root", predicates=sized, sortBy="Size", sortDirection="desc", limit=3, **token
        )
        pages += found(page)
        if "nextPage" not in page:
            break
        token = {"pageToken": page["nextPage"]}
    assert pages == by_size


@pytest.mark.parametrize(
    "group",
    [
        {
            "groups": [
                {"groups": [{"groups": [{"groups": [{"groups": [{"groups": [{"groups": [{"groups": [{}]}]}]}]}]}]}]}
            ]
        },
        {"groups": [{"predicates": [{"path": "x", "op": "regex", "value": "y"}]}]},
        {"groups": [{"surprise": 1}]},
        {"predicates": [{"path": "Size", "op": "between", "value": 1}]},
        {"predicates": [{"path": "a..b", "op": "eq", "value": 1}]},
        {"groups": [{"predicates": [{"path": "x", "op": "eq", "value": 1}] * 40}] * 2},
    ],
)
def test_a_malformed_or_overgrown_group_is_refused(house: House, group: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        advanced(house, group)


# -- the query language


def select(house: House, query: str, **more: Any) -> list[str]:
    return found(house.call("select_nodes", queryDsl=query, **more))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('Name contains "kit" AND Size > 10', ["Kitchen"]),
        ("Size >= 20 and Size <= 30", ["Kitchen", "Attic"]),
        ("Size < 8 or Size = 100", ["Garden", "Shed"]),
        ("Size < 8 || Size == 100", ["Garden", "Shed"]),
        ("Legs != 3", ["Table", "Chair"]),
        ("NOT (Size exists) && !(Legs exists)", ["root", "House"]),
        ("/root/House/*", ["Kitchen", "Bath", "Attic"]),
        ("/root/*/Shed", ["Shed"]),
        ("//Table", ["Table"]),
        ("//kitchen/**", ["Kitchen", "Table", "Chair"]),
        ("/root/**/'Chair'", ["Chair"]),
        ("/root/House/K*", ["Kitchen"]),
        ("/House", []),
        (":object and Legs = 4", ["Table", "Chair"]),
        ("#wet", ["Shed"]),
        ('#"wet"', ["Shed"]),
        ("Size between 6 and 8", ["Bath", "Shed"]),
        ('Colour in ["red", "BLUE", 3]', ["Table", "Chair"]),
        ("Colour in []", []),
        ("Dusty is null and $depth = 2", ["Kitchen", "Bath", "Shed"]),
        ('Name startswith "at" or Name endswith "TH"', ["Bath", "Attic"]),
        ('Name glob "?a*"', ["Table", "Bath", "Garden"]),
        ('parent(Name = "Kitchen")', ["Table", "Chair"]),
        ('ancestor(Name = "House") and $depth >= 3', ["Table", "Chair"]),
        ("child(Legs exists)", ["Kitchen"]),
        ('descendant(Name = "Shed")', ["root", "Garden"]),
        ("`Size` = 8", ["Bath"]),
        ("Address.City = 'bath'", ["Kitchen"]),
        ("Dusty = true", ["Attic"]),
        ("Dusty = false", []),
        ("Colour glob 4", []),
    ],
)
def test_queries_select_in_document_order(house: House, query: str, names: list[str]) -> None:
    house.call.change("tag_node", nodeId=house.shed, tags=["wet"])
    assert select(house, query) == names


def test_a_query_can_be_confined_to_a_subtree(house: House) -> None:
    assert select(house, f'under "{house.kitchen}"') == ["Kitchen", "Table", "Chair"]
    assert select(house, "Size exists", rootNodeId=house.garden) == ["Garden", "Shed"]
    with pytest.raises(NotFound):
        select(house, 'under "gone"')


@pytest.mark.parametrize(
    "query",
    [
        "Name =",
        "((((",
        "Name ~ 3",
        "and",
        "Name contains",
        "#",
        "/",
        "Size between 1",
        "x in [1,",
        'a = "unclosed',
        "!" * 60 + "#x",
        " or ".join(["#x"] * 200),
        "$nothing = 1",
        "a = 1 b = 2",
        "under 5",
        "is null",
        "\x00",
    ],
)
def test_a_query_that_cannot_be_read_is_refused(house: House, query: str) -> None:
    with pytest.raises(InvalidArgument):
        select(house, query)


def test_a_refused_query_says_where_and_what_was_expected(house: House) -> None:
    with pytest.raises(InvalidArgument) as refused:
        select(house, "Size > ")
    assert refused.value.details["column"] > 0
    assert "NUMBER" in refused.value.details["expected"]


def test_deep_parentheses_are_only_parentheses(house: House) -> None:
    assert select(house, "(" * 900 + "Legs = 4" + ")" * 900) == ["Table", "Chair"]


# -- tags


def test_tags_are_added_removed_and_replaced(house: House) -> None:
    def tag(mode: str, *tags: str) -> list[str]:
        result = house.call.change("tag_node", nodeId=house.shed, tags=list(tags), mode=mode)
        return list(result["tags"])

    assert tag("add", "b", "a") == ["a", "b"]
    assert tag("remove", "a", "never") == ["b"]
    assert tag("replace", "cafe\u0301") == ["café"]
    assert found(house.call("query_by_tag", tag="café")) == ["Shed"]
    assert found(house.call("query_by_tag", tag="b")) == []
    with pytest.raises(InvalidArgument):
        tag("add", *(str(number) for number in range(32)))


def test_tagged_nodes_are_listed_in_document_order_within_a_root(house: House) -> None:
    for node in (house.shed, house.chair, house.house):
        house.call.change("tag_node", nodeId=node, tags=["x"])
    assert found(house.call("query_by_tag", tag="x")) == ["House", "Chair", "Shed"]
    assert found(house.call("query_by_tag", tag="x", rootNodeId=house.house)) == ["House", "Chair"]
    page = house.call("query_by_tag", tag="x", limit=2, consistency="pinned")
    house.call.change("remove_node", nodeId=house.shed)
    rest = house.call("query_by_tag", tag="x", limit=2, consistency="pinned", pageToken=page["nextPage"])
    assert found(page) + found(rest) == ["House", "Chair", "Shed"]


def test_tags_follow_a_copy_and_leave_with_a_removal(house: House) -> None:
    house.call.change("tag_node", nodeId=house.table, tags=["x"])
    house.call.change("copy_subtree", sourceId=house.kitchen, targetParentId=house.garden, mode="duplicate")
    assert found(house.call("query_by_tag", tag="x")) == ["Table", "Table"]
    house.call.change("remove_node", nodeId=house.kitchen)
    assert len(found(house.call("query_by_tag", tag="x"))) == 1
