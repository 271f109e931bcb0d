"""Which agent has which tool."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.support import OBJECT, ProjectFiles, files, local, slugs, upstream
from tests.requirements import requirement

from apcore_agents.names import matching
from apcore_agents.pool import Pool, PoolCache, build_pool
from apcore_agents.profiles import AgentProfile
from apcore_agents.resolve import AgentTools, explain, resolve
from apcore_agents.rules import Notes
from apcore_agents.tools import COORDINATION, PoolTool

ENTITIES = ("entities_create", "entities_delete", "entities_get", "graph_traverse", "search_hybrid")


@requirement("POOL-003")
def test_exact_names_give_only_those_tools(project: ProjectFiles) -> None:
    build = project.agent("a", ["search_hybrid", "entities_get", "graph_traverse"]).build(*ENTITIES)
    assert build.agents["a"].root == ("entities_get", "graph_traverse", "search_hybrid")


@requirement("POOL-004")
def test_a_glob_gives_every_name_it_matches(project: ProjectFiles) -> None:
    assert project.agent("a", ["entities_*"]).build(*ENTITIES).agents["a"].root == ENTITIES[:3]


@requirement("POOL-005")
def test_a_star_gives_the_whole_pool(project: ProjectFiles) -> None:
    assert project.agent("a", ["*"]).build(*ENTITIES).agents["a"].root == ENTITIES


def test_an_empty_list_gives_nothing(project: ProjectFiles) -> None:
    assert project.agent("a", []).build(*ENTITIES).agents["a"].root == ()


@requirement("POOL-006")
def test_an_unknown_name_is_a_warning_with_the_nearest_and_is_skipped(project: ProjectFiles) -> None:
    build = project.agent("a", ["entities_gett", "search_hybrid", "nothing_*"]).build(*ENTITIES)
    assert build.agents["a"].root == ("search_hybrid",)
    assert [note.message for note in build.notes] == [
        "'entities_gett' is not in the pool; did you mean 'entities_get'?",
        "'nothing_*' matches no tool",
    ]
    assert not build.notes.failed


def test_a_denial_wins_whatever_allows(project: ProjectFiles) -> None:
    build = project.agent("a", ["entities_delete", "*"], deny=["entities_d*"]).build(*ENTITIES)
    assert "entities_delete" not in build.agents["a"].root


@pytest.mark.parametrize(("strict", "severity"), [("true", "error"), ("false", "warning")])
def test_a_guard_that_guards_nothing_is_an_error_under_strict(
    project: ProjectFiles, strict: str, severity: str
) -> None:
    project.settings(f'[agents]\nstrict = {strict}\n[mcp]\nmask = ["nope_*"]\n').agent("a", ["[ab]"], deny=["gone"])
    assert sorted(slugs(project.build("x"), severity)) == ["deny-inert", "mask-inert", "pattern-refused"]


@pytest.mark.parametrize("pattern", ["entities_[ab]*", "{a,b}", "!x", "a\\*", "a b", "", "ентити_*"])
def test_a_pattern_with_other_wildcards_is_refused_not_guessed(project: ProjectFiles, pattern: str) -> None:
    build = project.agent("a", [pattern]).build(*ENTITIES)
    assert slugs(build) == ["pattern-refused"]
    assert build.agents["a"].root == ()


def test_a_glob_for_local_names_cannot_reach_an_external_tool(project: ProjectFiles) -> None:
    project.settings('[mcp.servers.entities]\ntools = ["*"]\n').servers(entities={"command": "x"})
    build = project.lock(entities=[upstream("get")]).agent("a", ["entities_*"]).build(*ENTITIES)
    assert build.agents["a"].root == ENTITIES[:3]
    assert "mcp__entities__get" in build.pool.tools


@requirement("WORKER-004")
def test_a_mask_hides_a_tool_from_every_agent(project: ProjectFiles) -> None:
    project.settings('[mcp]\nmask = ["mcp__*__delete_*", "entities_delete"]\n[mcp.servers.gh]\ntools = ["*"]\n')
    project.servers(gh={"command": "x"}).lock(gh=[upstream("delete_repo"), upstream("get_repo")])
    build = project.agent("a", ["*"]).agent("b", ["mcp__gh__delete_repo"]).build(*ENTITIES)
    assert build.agents["a"].root == ("entities_create", *ENTITIES[2:], "mcp__gh__get_repo")
    assert build.agents["b"].root == ()
    assert "masked for every agent" in explain(build.project, build.pool, "b", "mcp__gh__delete_repo").because


def test_only_selected_tools_of_a_server_are_in_the_pool(project: ProjectFiles) -> None:
    project.settings('[mcp.servers.gh]\ntools = ["get_*"]\nmask = ["get_secret"]\n').servers(gh={"command": "x"})
    project.lock(gh=[upstream("get_repo"), upstream("get_secret"), upstream("drop_repo")])
    assert list(project.build().pool.tools) == ["mcp__gh__get_repo"]


def test_a_server_without_a_selection_gives_nothing(project: ProjectFiles) -> None:
    build = project.servers(gh={"command": "x"}).lock(gh=[upstream("get_repo")]).agent("a", ["*"]).build("x")
    assert build.agents["a"].root == ("x",)
    assert not build.notes.failed


# --- Names ---


@pytest.mark.parametrize("other", ["shop.Find", "shop-find", "shop_find", "SHOP.FIND"])
def test_two_names_that_look_alike_fail_the_build(project: ProjectFiles, other: str) -> None:
    assert slugs(project.build("shop.find", other), "error") == ["pool-name-collision"]


@pytest.mark.parametrize("name", ["mcp__gh__get", "spawn_agents", "sh\u043ep.find", "shop.find\n", "a" * 65, ""])
def test_a_local_tool_cannot_take_a_name_that_is_not_its_own(project: ProjectFiles, name: str) -> None:
    build = project.agent("a", ["*"]).build("x", name)
    assert slugs(build, "error") == ["pool-name-collision"]
    assert build.agents["a"].root == ("x",)


def test_a_local_module_cannot_sit_on_the_id_of_an_external_tool(project: ProjectFiles) -> None:
    project.settings('[mcp.servers.gh]\ntools = ["*"]\n').servers(gh={"command": "x"}).lock(gh=[upstream("get")])
    build = project.build("mcp.gh.get")
    assert slugs(build, "error") == ["pool-name-collision"]


def test_long_external_names_stay_distinct_and_within_what_providers_take(project: ProjectFiles) -> None:
    names = [f"{'long_' * 15}{end}" for end in ("one", "two")]
    project.settings('[mcp.servers.gh]\ntools = ["*"]\n').servers(gh={"command": "x"})
    tools = project.lock(gh=[upstream(name) for name in names]).build().pool.tools
    assert len(tools) == 2
    assert all(len(name) <= 64 and name.startswith("mcp__gh__") for name in tools)


def test_two_upstream_names_that_meet_in_one_module_id_fail_the_build(project: ProjectFiles) -> None:
    from apcore_agents.names import external_module_id

    twin = external_module_id("gh", "Get").removeprefix("mcp.gh.")
    project.settings('[mcp.servers.gh]\ntools = ["*"]\n').servers(gh={"command": "x"})
    build = project.lock(gh=[upstream("Get"), upstream(twin)]).build()
    assert slugs(build, "error") == ["pool-name-collision"]


def test_two_servers_with_one_self_given_name_stay_apart(project: ProjectFiles) -> None:
    project.settings('[mcp.servers.one]\ntools = ["*"]\n[mcp.servers.two]\ntools = ["*"]\n')
    project.servers(one={"command": "x"}, two={"command": "y"}).lock(one=[upstream("get")], two=[upstream("get")])
    assert list(project.build().pool.tools) == ["mcp__one__get", "mcp__two__get"]


# --- Depth ---


def spawning(project: ProjectFiles, tools: list[str], **keys: object) -> AgentTools:
    project.agent("child", [])
    return project.agent("a", tools, spawn=["child"], **keys).build("x").agents["a"]


@requirement("POOL-007")
def test_a_star_is_no_consent_to_start_agents_from_below(project: ProjectFiles) -> None:
    tools = spawning(project, ["*"])
    assert set(COORDINATION) <= set(tools.root)
    assert not set(COORDINATION) & set(tools.sub)


def test_nor_is_a_glob(project: ProjectFiles) -> None:
    tools = spawning(project, ["spawn_*", "list_*"])
    assert tools.root == ("list_available_agents", "spawn_agents")
    assert tools.sub == ()


@requirement("POOL-008")
def test_the_name_itself_is_and_each_tool_needs_its_own(project: ProjectFiles) -> None:
    tools = spawning(project, ["spawn_agents", "list_*"])
    assert tools.at(0) == ("list_available_agents", "spawn_agents")
    assert tools.at(1) == ("spawn_agents",)
    assert tools.at(2) == tools.at(7) == ()


@requirement("POOL-009")
def test_the_limit_is_reported_when_it_takes_something_away(project: ProjectFiles) -> None:
    project.agent("child", []).agent("a", ["spawn_agents"], spawn=["child"])
    (note,) = project.build().notes
    assert (note.rule.slug, note.message) == ("spawn-limit", "spawn_agents not available from depth 2 on")


def test_a_denial_beats_the_opt_in(project: ProjectFiles) -> None:
    assert spawning(project, ["spawn_agents"], deny=["spawn_*"]).root == ()


def test_with_a_depth_of_nought_nobody_starts_anybody(project: ProjectFiles) -> None:
    tools = spawning(project, ["spawn_agents", "x"], max_depth=0)
    assert tools.root == tools.sub == tools.leaf == ("x",)


def test_with_a_depth_of_one_only_the_first_does(project: ProjectFiles) -> None:
    tools = spawning(project, ["spawn_agents"], max_depth=1)
    assert (tools.at(0), tools.at(1)) == (("spawn_agents",), ())


def test_a_sub_agent_with_more_than_its_parent_fails_the_build_and_names_the_tools(project: ProjectFiles) -> None:
    project.agent("child", ["x", "y", "z"]).agent("a", ["y", "spawn_agents"], spawn=["child"])
    build = project.build("x", "y", "z")
    (note,) = [note for note in build.notes if note.severity == "error"]
    assert (note.agent, note.message) == ("a", "may start 'child', which also has x, z")
    assert set(build.agents) == {"child"}


def test_an_agent_that_starts_one_that_does_not_exist_fails_the_build(project: ProjectFiles) -> None:
    assert slugs(project.agent("a", [], spawn=["ghost"]).build(), "error") == ["spawn-unknown"]


# --- Output ---


def test_an_agent_is_compiled_to_files_that_can_be_compared(project: ProjectFiles) -> None:
    project.agent("child", []).agent("a", ["shop.find", "spawn_agents"], spawn=["child"])
    written = files(project.build("shop.find", "shop.drop"))
    assert sorted(written) == sorted(
        ["agents/agents.json"]
        + [f"agents/{name}/{file}" for name in ("a", "child") for file in ("acl.yaml", "policy.yaml", "report.md")]
        + [f"agents/{name}/{p}_tools.json" for name in ("a", "child") for p in ("mcp", "openai", "anthropic")]
        + [f"agents/a/{p}_tools.leaf.json" for p in ("mcp", "openai", "anthropic")]
    )
    assert [tool["name"] for tool in json.loads(written["agents/a/mcp_tools.json"])["tools"]] == [
        "shop.find",
        "spawn_agents",
    ]
    assert json.loads(written["agents/a/openai_tools.json"])[0]["function"]["name"] == "shop-find"
    assert json.loads(written["agents/a/anthropic_tools.leaf.json"])[0]["name"] == "shop-find"
    assert yaml.safe_load(written["agents/a/policy.yaml"])["strict"] is True
    index = json.loads(written["agents/agents.json"])
    assert index["agents"]["a"]["leaf"] == ["shop.find"]
    assert index["modules"] == {"shop.find": "shop.find", "spawn_agents": "spawn_agents"}


def test_the_order_of_entries_changes_no_byte(project: ProjectFiles) -> None:
    first = project.agent("a", ["x", "y", "z*"], deny=["z1", "z2"]).build("x", "y", "z1", "z2", "z3")
    second = project.agent("a", ["z*", "y", "x", "y"], deny=["z2", "z1"]).build("z3", "z2", "z1", "y", "x")
    assert first.agents["a"].digest == second.agents["a"].digest
    assert files(first) == files(second)


def test_nothing_in_the_output_says_where_or_when_it_was_made(project: ProjectFiles) -> None:
    text = "".join(files(project.agent("a", ["*"]).build("x")).values())
    assert str(project.root) not in text
    assert "202" not in text.replace("2020-12", "")


def test_the_report_says_what_runs_unasked(project: ProjectFiles) -> None:
    project.settings(
        '[http.t]\nbase_url = "https://api.example.com/"\n'
        '[http.t.add]\nmethod = "POST"\npath = "a"\ndescription = "d"\napproval = "auto"\n'
        '[http.t.drop]\nmethod = "DELETE"\npath = "a"\ndescription = "d"\n'
    )
    report = files(project.agent("a", ["http.*"]).build())["agents/a/report.md"]
    assert "## Asks before it runs\n\n- http.t.drop\n" in report
    assert "## Changes things without asking\n\n- http.t.add\n" in report
    assert "- t: https://api.example.com/" in report


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("x", "a x: yes (root, sub, leaf)\n  allowed by 'x' in tools of agents/a.md"),
        ("y1", "a y1: no\n  denied by 'y*' in deny of agents/a.md"),
        ("z", "a z: no\n  no entry in tools of agents/a.md matches it"),
        ("w", "a w: no\n  'w' is not in the pool"),
        (
            "spawn_agents",
            "a spawn_agents: yes (root)\n  allowed by 'spawn_*' in tools of agents/a.md; "
            "deeper down it must be named itself, and the limit is max_depth",
        ),
    ],
)
def test_explain_names_the_rule_that_decided(project: ProjectFiles, tool: str, expected: str) -> None:
    project.agent("child", []).agent("a", ["x", "y*", "spawn_*"], deny=["y*"], spawn=["child"])
    build = project.build("x", "y1", "z")
    assert str(explain(build.project, build.pool, "a", tool)) == expected


@requirement("POOL-001", "POOL-002")
def test_the_pool_is_cached_until_the_configuration_changes(project: ProjectFiles) -> None:
    project.settings('[mcp.servers.gh]\ntools = ["*"]\n').servers(gh={"command": "x"}).lock(gh=[upstream("get")])
    cache = PoolCache()
    first, _ = cache.pool(project.read(), local("x"))
    assert cache.pool(project.read(), local("x"))[0] is first
    project.servers(gh={"command": "x"}, more={"command": "y"})
    second, _ = cache.pool(project.read(), local("x"))
    assert second is not first
    assert cache.pool(project.read(), local("x", "y"))[0] is not second
    project.servers(gh={"command": "another"})
    third, notes = cache.pool(project.read(), local("x"))
    assert list(third.tools) == ["x"]
    assert [note.rule.slug for note in notes] == ["lock-stale"]


# --- Properties ---

NAMES = st.text("abc_", min_size=1, max_size=5).filter(lambda name: name not in COORDINATION)
PATTERNS = st.text("abc_*?", min_size=1, max_size=5) | st.sampled_from(COORDINATION) | st.just("*")


def pool_of(names: set[str]) -> Pool:
    entry = {"description": "d", "inputSchema": OBJECT}
    return Pool(
        {name: PoolTool(name, name, "module", {"name": name} | entry) for name in sorted({*names, *COORDINATION})}
    )


def sets_of(pool: Pool, allow: list[str], deny: list[str], max_depth: int = 2) -> AgentTools:
    return resolve(AgentProfile(name="a", tools=tuple(allow), deny=tuple(deny)), pool, max_depth, Notes())


@given(st.sets(NAMES), PATTERNS)
def test_matching_many_names_is_matching_each(names: set[str], pattern: str) -> None:
    from apcore.utils.pattern import match_glob

    assert matching(pattern, sorted(names)) == [name for name in sorted(names) if match_glob(pattern, name)]


@given(st.sets(NAMES), st.lists(PATTERNS), st.lists(PATTERNS), PATTERNS, st.integers(0, 3))
def test_more_allowed_is_never_less_and_more_denied_never_more(
    names: set[str], allow: list[str], deny: list[str], extra: str, depth: int
) -> None:
    pool = pool_of(names)
    before = sets_of(pool, allow, deny)
    allowed, denied = sets_of(pool, [*allow, extra], deny), sets_of(pool, allow, [*deny, extra])
    assert set(before.at(depth)) <= set(allowed.at(depth))
    assert set(denied.at(depth)) <= set(before.at(depth))


@given(st.sets(NAMES), st.lists(PATTERNS), st.lists(PATTERNS), st.integers(0, 4))
def test_leaf_is_within_sub_within_root_within_the_pool(
    names: set[str], allow: list[str], deny: list[str], max_depth: int
) -> None:
    pool = pool_of(names)
    tools = sets_of(pool, allow, deny, max_depth)
    assert set(tools.leaf) <= set(tools.sub) <= set(tools.root) <= set(pool.tools)
    assert not set(COORDINATION) & set(tools.leaf)


@given(st.sets(NAMES), st.lists(PATTERNS), st.lists(PATTERNS), st.randoms())
def test_the_digest_does_not_depend_on_any_order(
    names: set[str], allow: list[str], deny: list[str], random: object
) -> None:
    pool = pool_of(names)
    before = sets_of(pool, allow, deny).digest
    random.shuffle(allow)  # type: ignore[attr-defined]
    random.shuffle(deny)  # type: ignore[attr-defined]
    assert sets_of(pool, allow, deny).digest == before


def test_the_pool_is_unmoved_by_who_looks_at_it(project: ProjectFiles) -> None:
    build = project.agent("a", ["*"]).build("x")
    with pytest.raises(TypeError):
        build.pool.tools["y"] = build.pool.tools["x"]  # type: ignore[index]
    assert build_pool(build.project, local("x"), Notes()).digest == build.pool.digest
