"""The same calls on the service, the Executor, the generated stubs and a compiled MCP server: the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from tests.compiler.running import extensions, invoke
from tests.server.clients import http_client, http_server, stdio_connection
from tests.tree.machine import EXAMPLES, PICK, Traces, examples
from tests.tree.served import STRANGER, Compiled, OverMcp, ThroughStubs, Tokens, bearer
from tests.tree.surfaces import EDITOR, READER, UNLIMITED, Direct, ThroughExecutor, everything, make_service

from apcore_compiler.commands import build
from apcore_runtime import load
from apcore_runtime.bundles import open_bundle
from apcore_tree import (
    Caller,
    Conflict,
    Forbidden,
    InvalidArgument,
    NotFound,
    PayloadType,
    RateLimited,
    Settings,
    TreeError,
)
from apcore_tree.tools.catalogue import TOOLS
from apcore_tree.tools.tool import Kind

# What a client is told beside the code; `rejected` and the like may quote what is not for everybody.
TOLD = ("changedIds", "currentVersion", "field", "maxBatch", "reason", "suggestion")

SELF = PayloadType("Self", self_payload=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A surface with the tree's tools beside a module of a shop's."""
    source = extensions(tmp_path_factory.mktemp("served") / "ext")
    result = invoke(build, source, "-o", source.parent / "out", "--with", "tree")
    assert result.exit_code == 0, result.output
    return source.parent / "out"


@pytest.fixture(autouse=True)
def _close_surfaces(compiled: Path) -> Iterator[None]:
    Compiled.directory = compiled
    yield
    for surface in list(Compiled.opened):
        surface.close()


class Last(NamedTuple):
    """An argument that differs by surface: a field as it answered it last."""

    field: str


class Lockstep:
    """Four trees that are told the same; `told` is what they all answered."""

    def __init__(self, settings: Settings = UNLIMITED) -> None:
        self.surfaces: list[Direct] = [
            kind(make_service(settings=settings, payload_types=(SELF,)))
            for kind in (Direct, ThroughExecutor, ThroughStubs, OverMcp)
        ]
        self.told: list[tuple[str, str]] = []
        self._answers: list[dict[str, Any]] = [{} for _ in self.surfaces]
        for each in self.surfaces:
            each.service.tree.epoch = self.service.tree.epoch
            each.service.now = lambda: 0.0

    @property
    def service(self) -> Any:
        return self.surfaces[0].service

    def __call__(self, tool: str, caller: Caller = EDITOR, **arguments: Any) -> dict[str, Any]:
        outcomes = [self._ask(number, tool, caller, arguments) for number in range(len(self.surfaces))]
        codes, answers = zip(*outcomes, strict=True)
        for other, answer in zip(codes[1:], answers[1:], strict=True):
            assert (other, _comparable(answer)) == (codes[0], _comparable(answers[0])), tool
        self.told.append((tool, codes[0]))
        result: dict[str, Any] = answers[0]
        return result

    def _ask(self, number: int, tool: str, caller: Caller, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        surface = self.surfaces[number]
        surface.caller = caller
        try:
            result = surface(tool, **_resolved(arguments, self._answers[number]))
        except TreeError as error:
            return error.code, {name: error.details[name] for name in TOLD if name in error.details}
        self._answers[number].update(result)
        return "ok", result

    def change(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self(tool, **{"versionToken": self.service.version(), **arguments})

    def add(self, parent: str, name: str, **properties: Any) -> str:
        node_id: str = self.change(
            "add_child", parentNodeId=parent, payloadType="object", payloadProps={"Name": name, **properties}
        )["nodeId"]
        return node_id

    def agree(self) -> None:
        """The trees hold the same, and so do the audits."""
        held = everything(self.service)
        audited = _audit(self.service)
        for each in self.surfaces[1:]:
            assert everything(each.service) == held
            assert _audit(each.service) == audited


def _resolved(value: Any, answers: dict[str, Any]) -> Any:
    if isinstance(value, Last):
        return answers[value.field]
    if isinstance(value, dict):
        return {name: _resolved(part, answers) for name, part in value.items()}
    return value


def _comparable(answer: Any) -> Any:
    """Page tokens are signed by each process, and a view's version belongs to a session: only their shape compares."""
    text = json.dumps(answer, sort_keys=True)
    text = re.sub(r'"nextPage": "[^"]+"', '"nextPage": "…"', text)
    return json.loads(re.sub(r"\bv1\.[0-9a-f]+\.", "v1.….", text))


def _audit(service: Any) -> list[Any]:
    """Without what differs by nature: the session, the trace, and whether an agent is a program's or a token's."""
    return [
        (entry.agent, entry.operation, entry.targets, entry.outcome, entry.code, entry.revision_after, entry.request)
        for entry in service.audit()
    ]


def test_a_long_trace_has_the_same_answers_everywhere() -> None:
    call = Lockstep()
    _tell(call)
    call.agree()
    assert {tool for tool, code in call.told if code == "ok"} == set(TOOLS)
    assert {code for _, code in call.told} == {"ok", "invalid_argument", "not_found", "forbidden", "conflict"}
    assert len(call.told) > 100


def _tell(call: Lockstep) -> None:
    house = call.add("root", "House", Built=1900)
    kitchen = call.add(house, "Kitchen", Size=20, Address={"Street": "High St", "City": "Bath"})
    table = call.add(kitchen, "Table", Colour="red", Legs=4)
    chair = call.add(kitchen, "Chair", Colour="blue", Legs=4)
    bath = call.add(house, "Bath", Size=8)
    attic = call.add(house, "Attic", Size=30, Dusty=True)
    garden = call.add("root", "Garden", Size=100, Note="Grüße, 花 and 🐝")
    shed = call.add(garden, "Shed", Size=6)

    call("get_status")
    call("get_node", nodeId=kitchen)
    call("get_node", nodeId=kitchen, includedProperties=["Address.City"])
    call("get_path", nodeId=table)
    call("get_common_ancestor", nodeIds=[table, shed])
    call("search", rootNodeId="root", filters=[{"path": "Colour", "op": "contains", "value": "RE"}])
    call("search_advanced", rootId="root", predicates={"predicates": [{"path": "Size", "op": "gt", "value": 7}]})
    call("select_nodes", queryDsl="Size > 5 and not (Dusty exists)")
    call("validate_tree", rulesetId="default")
    call("lint_payload", nodeId=bath, rulesetId="default")

    # Pages, live and pinned, with a change in between.
    call("list_children", nodeId=house, limit=1)
    call("list_children", nodeId=house, limit=1, pageToken=Last("nextPage"))
    call("list_children", nodeId=house, limit=1, pageToken=Last("nextPage"))
    call("get_subtree", nodeId="root", paging={"pageSize": 4}, format="flat")
    call("get_subtree", nodeId="root", paging={"pageSize": 4, "pageToken": Last("nextPage")}, format="flat")
    call("get_view", rootNodeId="root", pageSize=3, includeViewRoot=True)
    call("get_view", rootNodeId="root", pageSize=3, includeViewRoot=True, pageToken=Last("nextPage"))
    call("select_nodes", queryDsl="Size exists", limit=2, consistency="pinned")
    call.change("remove_node", nodeId=call.add(house, "Cellar", Size=3))
    call("select_nodes", queryDsl="Size exists", limit=2, consistency="pinned", pageToken=Last("nextPage"))

    # A snapshot, then every kind of change.
    snapshot = call("snapshot_create", label="as built")["snapshotId"]
    call("snapshot_list")
    call.change("update_payload_property", nodeId=bath, propertyName="Size", newValue=9)
    call.change("update_payload", nodeId=bath, patch={"Tiles": "blue", "": 3})
    call.change("update_payload", nodeId=bath, patch={"Tiles": "green", "": 3}, strict=True)
    call.change("update_nodes", filter={"queryDsl": "Size exists"}, patch={"Measured": True}, dryRun=True)
    call.change("update_nodes", filter={"queryDsl": "Size exists"}, patch={"Measured": True})
    call.change("tag_node", nodeId=bath, tags=["wet", "cold"])
    call("query_by_tag", tag="wet")
    call.change("move_node", nodeId=chair, newParentId=bath, index=0)
    call.change("move_before", nodeId=garden, siblingId=house)
    call.change("move_after", nodeId=bath, siblingId=attic)
    call.change("sort_children", parentId=house, byProp="Size", direction="desc")
    call.change("copy_subtree", sourceId=garden, targetParentId=bath, mode="duplicate")
    shared = call.change("copy_subtree", sourceId=kitchen, targetParentId=garden, mode="reference")["nodeId"]
    call.change("update_payload_property", nodeId=shared, propertyName="Size", newValue=21)
    call.change("clone_node", nodeId=shed, targetParentId=bath)
    call("diff_subtree", aId=kitchen, bId=shared)
    call("snapshot_diff", a=snapshot, b="current")
    call("snapshot_diff", a=snapshot, b="current", limit=2)
    call("snapshot_diff", a=snapshot, b="current", limit=2, pageToken=Last("nextPage"))
    call.change("remove_node", nodeId=attic)
    call("get_node", nodeId=attic)

    # Views belong to a session.
    call.change("collapse_node", nodeId=kitchen)
    call.change("toggle_node", nodeId=garden)
    call("collapse_node", nodeId=house, versionToken=Last("viewVersion"))
    view = call("export_view", rootNodeId="root")["document"]
    call("get_view", rootNodeId="root", format="flat")
    call.change("expand_node", nodeId=house)
    call.change("expand_all", rootNodeId="root")
    call.change("set_expansion_recursive", nodeId="root", expanded=False, maxDepth=1)
    call.change("collapse_all", rootNodeId="root")
    call.change("import_view", viewJson=view)
    call("get_view", rootNodeId="root", format="flat")
    call.change("set_filters", scope="all", included=["Name"], excluded=[])
    call("get_node", nodeId=kitchen)
    call("get_node", READER, nodeId=kitchen)
    call.change("set_filters", scope="all", included=[], excluded=[])
    call.change("bookmark", nodeId=shed, label="tools")
    call.change("bookmark", nodeId=bath, label="tools")
    call("list_bookmarks")
    call("list_bookmarks", READER)
    call.change("remove_bookmark", label="tools")
    call.change("remove_bookmark", label="tools")

    # Documents.
    call("export_subtree", nodeId="root", format="flat")
    document = call("export_subtree", nodeId=garden)["document"]
    document["Payload"]["Size"] = 101
    document["Children"].append({"PayloadType": "object", "Payload": {"Name": "Pond"}, "Children": []})
    call.change("import_merge", json=document, strategy="upsert", matchBy="nodeId", dryRun=True)
    call.change("import_merge", json=document, strategy="upsert", matchBy="nodeId")
    call.change("import_merge", json=json.dumps(document), strategy="skip", matchBy="path", targetParentId=bath)
    call.change("import_merge", json={"PayloadType": "moat"}, strategy="upsert", matchBy="path")
    call.change("import_merge", json="{", strategy="upsert", matchBy="path")

    _repeat_and_collide(call, bath)
    _be_refused(call, bath, table)

    call.change("snapshot_restore", snapshotId=snapshot)
    call("snapshot_diff", a=snapshot, b="current")
    call("get_view", rootNodeId="root", format="flat")


def _repeat_and_collide(call: Lockstep, bath: str) -> None:
    """A key answers a repeated request, whatever its version; a stale version is refused."""
    stale = call.service.version()
    tap: dict[str, Any] = {"parentNodeId": bath, "payloadType": "object", "payloadProps": {"Name": "Tap"}}
    first = call.change("add_child", **tap, idempotencyKey="tap")
    assert call("add_child", **tap, idempotencyKey="tap", versionToken=stale) == first
    call.change("add_child", **{**tap, "parentNodeId": "root"}, idempotencyKey="tap")
    call("add_child", **tap, versionToken=stale)
    assert call.told[-1] == ("add_child", "conflict")
    call("add_child", **tap)
    call("collapse_node", nodeId=bath, versionToken=stale)
    assert call.told[-2:] == [("add_child", "conflict"), ("collapse_node", "conflict")]


def _be_refused(call: Lockstep, bath: str, table: str) -> None:
    first = len(call.told)
    call("get_node", nodeId="nowhere")
    call.change("move_node", nodeId=table, newParentId="nowhere")
    call.change("snapshot_restore", snapshotId="s-nowhere")
    call("validate_tree", rulesetId="nowhere")
    assert {code for _, code in call.told[first:]} == {"not_found"}

    first = len(call.told)
    call("get_node")
    call("get_node", nodeId=7)
    call("get_node", nodeId=bath, colour="red")
    call("select_nodes", queryDsl="Size >")
    call("list_children", nodeId=bath, limit=0)
    call.change("move_node", nodeId="root", newParentId=bath)
    call.change("move_node", nodeId=bath, newParentId=bath)
    call.change("remove_node", nodeId="root")
    call.change("move_node", nodeId=table, newParentId=bath, index=99)
    call.change("add_child", parentNodeId=bath, payloadType="Self", payloadProps={"NodeId": "root"})
    call.change("remove_node", nodeId=bath, versionToken="nonsense")
    call("list_children", nodeId=bath, pageToken="forged")
    call.change("update_nodes", filter={"nodeIds": [f"n{number}" for number in range(501)]}, patch={"x": 1})
    call.change("add_child", parentNodeId=bath, payloadType="unheard-of", payloadProps={})
    assert {code for _, code in call.told[first:]} == {"invalid_argument"}

    first = len(call.told)
    for tool in (tool for tool in TOOLS.values() if tool.kind is not Kind.READ):
        call(tool.name, READER)
    call("get_status", STRANGER)
    call("remove_node", STRANGER, nodeId=bath)
    assert {code for _, code in call.told[first:]} == {"forbidden"}
    call("get_status", READER)
    assert call.told[-1] == ("get_status", "ok")


def test_the_call_beyond_the_rate_is_refused_everywhere_and_told_when_to_return() -> None:
    call = Lockstep(Settings(rate_limit="3/hour"))
    for _ in range(4):
        call("get_status")
    assert [code for _, code in call.told] == ["ok", "ok", "ok", "rate_limited"]
    # Another agent has a rate of its own.
    call("get_status", READER)
    assert call.told[-1] == ("get_status", "ok")
    for surface in call.surfaces:
        surface.caller = EDITOR
        with pytest.raises(RateLimited) as refused:
            surface("get_status")
        assert 0 < refused.value.details["retryAfter"] <= 3600


def test_a_read_only_tree_is_read_and_not_changed_everywhere() -> None:
    call = Lockstep(Settings(read_only=True))
    assert call("get_status")["readOnly"] is True
    call.change("tag_node", nodeId="root", tags=["mine"])
    call.change("collapse_node", nodeId="root")
    assert [code for _, code in call.told] == ["ok", "forbidden", "forbidden"]
    call.agree()


class OverEverything(Traces):
    """Random traces in lockstep; `surface` is the one that the rules look at."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.lockstep = Lockstep()
        self.surface = self.lockstep.surfaces[0]

    def act(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        result = self.lockstep(tool, **arguments)
        return result if self.lockstep.told[-1][1] == "ok" else None

    @rule(tool=st.sampled_from(["get_node", "remove_node", "expand_node"]), node=PICK)
    def call_as_a_reader(self, tool: str, node: int) -> None:
        self.lockstep(tool, READER, nodeId=self.pick(node))

    @rule(node=PICK, key=st.sampled_from("kl"))
    def retry(self, node: int, key: str) -> None:
        self.change("tag_node", nodeId=self.pick(node), tags=["r"], idempotencyKey=key)

    @invariant()
    def trees_and_audits_agree(self) -> None:
        self.lockstep.agree()

    def teardown(self) -> None:
        for compiled in list(Compiled.opened):
            compiled.close()
        for executed in list(ThroughExecutor.opened):
            executed.close()


def test_random_traces_have_the_same_answers_everywhere() -> None:
    run_state_machine_as_test(OverEverything, settings=examples(max(EXAMPLES // 20, 5), 20))
    assert Compiled.opened == []


def test_stubs_raise_the_errors_of_the_tree() -> None:
    call = ThroughStubs(make_service(settings=Settings(rate_limit="4/hour")))
    room = call.add("root", "Room")
    with pytest.raises(NotFound):
        call("get_node", nodeId="nowhere")
    with pytest.raises(InvalidArgument) as wrong:
        call("list_children", nodeId=room, limit=0)
    assert wrong.value.details["field"] == "limit"
    with pytest.raises(Conflict) as late:
        call("remove_node", nodeId=room, versionToken=f"t1.{call.service.tree.epoch}.0")
    assert late.value.details["currentVersion"] == call.service.version()
    call.caller = READER
    with pytest.raises(Forbidden) as denied:
        call.change("remove_node", nodeId=room)
    assert (denied.value.code, denied.value.details["reason"]) == ("forbidden", "role")
    # It is apcore's access list that said no.
    assert type(denied.value.__cause__).__name__ == "ACLDeniedError"
    call.caller = EDITOR
    with pytest.raises(RateLimited):
        call("get_status")


def test_a_conflict_over_mcp_says_on_the_wire_how_to_go_on() -> None:
    call = OverMcp(make_service())
    stale = call.service.version()
    room = call.add("root", "Room")
    result = call.result("tag_node", {"nodeId": room, "tags": ["late"], "versionToken": stale})
    told = result["_meta"]["apcore/error"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert (told["code"], told["retryable"]) == ("conflict", True)
    # A host shows its model the texts alone.
    code, explanation = (content["text"] for content in result["content"])
    assert code == "Module error: conflict"
    assert json.loads(explanation) == {name: value for name, value in told.items() if name != "traceId"}
    assert told["aiGuidance"]
    assert call("tag_node", nodeId=room, tags=["late"], versionToken=told["currentVersion"])["tags"] == ["late"]


@pytest.mark.anyio
async def test_a_tree_in_a_file_outlives_its_server(compiled: Path, tmp_path: Path) -> None:
    serve = ["-m", "apcore_mcp", "serve", str(compiled), "--tree-store", f"sqlite:{tmp_path / 'tree.db'}"]
    serve += ["--identity", EDITOR.id, "--role", "editor", "--log-level", "ERROR"]
    room = {"parentNodeId": "root", "payloadType": "object", "payloadProps": {"Name": "Room"}, "idempotencyKey": "k"}
    async with stdio_connection(*serve) as client:
        empty = (await client.call("tree.get_status"))["structuredContent"]
        added = (await client.call("tree.add_child", {**room, "versionToken": empty["version"]}))["structuredContent"]
        await client.call("tree.snapshot_create", {"label": "kept in memory"})
    async with stdio_connection(*serve) as client:
        status = (await client.call("tree.get_status"))["structuredContent"]
        assert (status["version"], status["nodeCount"], status["snapshotCount"]) == (added["version"], 2, 0)
        read = (await client.call("tree.get_node", {"nodeId": added["nodeId"]}))["structuredContent"]
        assert read["node"]["name"] == "Room"
        again = await client.call("tree.add_child", {**room, "versionToken": empty["version"]})
        assert again["structuredContent"] == added
        late = await client.call("tree.add_child", {**room, "idempotencyKey": "l", "versionToken": empty["version"]})
        assert late["_meta"]["apcore/error"]["code"] == "conflict"


def test_a_closed_bundle_leaves_its_file_to_the_next(tmp_path: Path) -> None:
    for tag in ("first", "second"):
        bundle = open_bundle("tree", {"store": f"sqlite:{tmp_path / 'tree.db'}"})
        call = Direct(bundle.modules["tree.get_status"].service)
        assert call("get_status")["readOnly"] is False
        call.change("tag_node", nodeId="root", tags=[tag])
        bundle.close()


@pytest.mark.anyio
async def test_two_sessions_of_one_agent_share_the_tree_and_not_the_view(compiled: Path) -> None:
    async with (
        http_server(load(compiled), token_verifier=Tokens()) as url,
        http_client(url, headers=bearer(EDITOR)) as first,
        http_client(url, headers=bearer(EDITOR)) as second,
    ):

        async def shown(client: Any) -> tuple[int, list[str]]:
            view = await client.call("tree.get_view", {"rootNodeId": "root", "format": "flat"})
            bookmarks = await client.call("tree.list_bookmarks")
            labels = [item["label"] for item in bookmarks["structuredContent"]["items"]]
            return view["structuredContent"]["count"], labels

        version = (await first.call("tree.get_status"))["structuredContent"]["version"]
        room = {"parentNodeId": "root", "payloadType": "object", "payloadProps": {"Name": "Room"}}
        added = (await first.call("tree.add_child", {**room, "versionToken": version}))["structuredContent"]
        assert (await shown(first), await shown(second)) == ((2, []), (2, []))
        await first.call("tree.collapse_node", {"nodeId": "root", "versionToken": added["version"]})
        marked = {"nodeId": added["nodeId"], "label": "here", "versionToken": added["version"]}
        assert (await first.call("tree.bookmark", marked))["isError"] is False
        assert (await shown(first), await shown(second)) == ((1, ["here"]), (2, []))
