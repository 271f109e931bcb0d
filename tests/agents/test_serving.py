"""Agents as clients meet them: over streamable HTTP, over stdio, and as event streams."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.server.auth.provider import AccessToken
from tests.agents.running import SECRET, build, registry, run, with_external
from tests.agents.servers import until
from tests.agents.support import ProjectFiles, upstream
from tests.compiler.running import extensions
from tests.compiler.running import run as command
from tests.requirements import requirement
from tests.server.clients import http_client, listening, stdio_connection

from apcore_agents.approvals import ApprovalLedger
from apcore_agents.loading import load_runtime
from apcore_agents.runtime import AgentRuntime
from apcore_agents.serving import AgentPaths, agent_endpoints, refuse_loops
from apcore_agents.settings import BadProject
from apcore_host.options import ServeOptions
from apcore_mcp.server.sdk import SDK, types

EXTERNAL = 'tools = ["*"]\napproval = "never"'


@asynccontextmanager
async def served(
    project: ProjectFiles, ledger: ApprovalLedger | None = None, **options: Any
) -> AsyncIterator[tuple[str, AgentRuntime]]:
    """The agents of a project on loopback: their URL, and the runtime behind it."""
    source = registry()
    assert not build(project, source).notes.failed
    runtime = load_runtime(project.root / "generated", source, environment={"TOKEN": SECRET}, ledger=ledger)
    chosen = ServeOptions(transport="streamable-http", **options)
    docs = {"shop.echo": "How to echo.", "shop.hidden": "No."}
    async with agent_endpoints(runtime, chosen, docs) as paths, listening(paths) as url:
        yield url, runtime


@requirement("WORKER-001")
def test_each_agent_has_an_endpoint_with_its_own_tools(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.echo"]).agent("b", ["shop.hidden", "shop.leak"])
        async with served(project) as (url, _):
            async with http_client(f"{url}/agents/a") as client:
                assert await client.tool_names() == ["shop.echo"]
                assert await client.text("shop.echo", {"text": "hi"}) == '{"text": "hi"}'
                assert [resource["uri"] for resource in await client.resources()] == ["docs://shop.echo"]
            async with http_client(f"{url}/agents/b") as client:
                assert await client.tool_names() == ["shop.hidden", "shop.leak"]
            async with httpx.AsyncClient() as web:
                assert (await web.post(f"{url}/agents/ghost/mcp", json={})).status_code == 404
                assert (await web.get(f"{url}/agents/a/health")).json()["module_count"] == 1

    run(work())


@requirement("POOL-010", "WORKER-004")
def test_a_hidden_tool_is_answered_like_one_that_does_not_exist(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "echo", "masked", policy=EXTERNAL + '\nmask = ["masked"]')
        project.agent("a", ["shop.echo", "mcp__odd__echo"])
        async with served(project) as (url, _), http_client(f"{url}/agents/a") as client:
            names = ["shop.hidden", "mcp__odd__masked", "mcp.odd.masked", "mcp.odd.echo", "never.heard.of"]
            answers = [await client.call(name, {"text": "x"}) for name in names]
            for name, answer in zip(names, answers, strict=True):
                assert answer["content"][0]["text"] == f"Module not found: {name}"
                error = answer["_meta"]["apcore/error"]
                assert (error["category"], error["outcome"], error["retryable"]) == ("not_found", "not_started", False)

    run(work())


def test_failures_carry_what_a_caller_can_act_on(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        policy = EXTERNAL + '\ntimeout = "600ms"\nreadonly = ["slow"]'
        with_external(project, tmp_path, "slow", "fail", "blocks", "crash", policy=policy)
        project.agent("a", ["*"])
        async with served(project) as (url, _), http_client(f"{url}/agents/a") as client:
            late = await client.call("mcp__odd__slow")
            assert late["isError"] is True
            assert late["content"][0]["text"] == "'slow' of server 'odd' took too long"
            error = late["_meta"]["apcore/error"]
            assert (error["code"], error["category"]) == ("UPSTREAM_TIMEOUT", "timeout")
            assert (error["outcome"], error["retryable"]) == ("unknown", True)
            failed = await client.call("mcp__odd__fail", {"text": f"no: {SECRET}"})
            assert failed["content"][0]["text"] == "no: ***"
            assert failed["_meta"]["apcore/error"]["outcome"] == "failed"
            invalid = await client.call("shop.echo", {"text": 7})
            assert invalid["content"][0]["text"].startswith("Input validation failed:\n- text:")
            assert invalid["_meta"]["apcore/error"]["category"] == "invalid_argument"
            denied = await client.call("shop.write", {"text": "x"})
            assert denied["_meta"]["apcore/error"]["category"] == "forbidden"

    run(work())


def test_content_blocks_of_an_external_tool_arrive_as_they_were(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "blocks", policy=EXTERNAL)
        async with served(project.agent("a", ["*"])) as (url, _), http_client(f"{url}/agents/a") as client:
            result = await client.call("mcp__odd__blocks")
            assert [block["type"] for block in result["content"]] == ["text", "image"]
            assert result["content"][1]["data"] == "aGk="

    run(work())


def test_secrets_reach_no_client(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "environment", "report", policy=EXTERNAL)
        async with served(project.agent("a", ["*"])) as (url, _), http_client(f"{url}/agents/a") as client:
            answers = [
                await client.call("mcp__odd__environment", {"name": "TOKEN"}),
                await client.call("shop.leak", {"text": ""}),
                await client.call("shop.leak", {"text": "raise"}),
                await client.call_with_progress("shop.leak", {"text": ""}),
                await client.call_with_progress("mcp__odd__report", {"messages": [SECRET[:9], SECRET[9:]]}),
            ]
            said = json.dumps(answers) + "".join(str(message) for _, _, message in client.progress)
            assert SECRET not in said
            assert SECRET[9:] not in said
            assert "***" in said

    run(work())


def test_a_write_is_put_to_the_user_and_the_answer_counts_once(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.write", "shop.call_tool"])
        async with served(project) as (url, _):
            async with http_client(f"{url}/agents/a", [{"approve": True}, None]) as client:
                assert await client.text("shop.write", {"text": "x"}) == '{"text": "wrote x"}'
                assert "Agent a wants to call shop.write" in client.questions[0]["message"]
                assert (await client.call("shop.write", {"text": "x"}))["isError"] is True
            async with http_client(f"{url}/agents/a") as client:
                assert (await client.call("shop.write", {"text": "x"}))["isError"] is True
                # The module offers to answer the question itself.
                assert (await client.call("shop.call_tool", {"text": "shop.write"}))["isError"] is True

    run(work())


@pytest.mark.skipif(SDK == 1, reason="mcp 1.x ends with the revision of 2025-11-25")
def test_a_question_parked_in_request_state_opens_only_the_call_it_is_about(project: ProjectFiles) -> None:
    async def work() -> None:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        project.agent("a", ["shop.write"])
        async with served(project) as (url, _), httpx2.AsyncClient() as web:
            transport = streamable_http_client(f"{url}/agents/a/mcp", http_client=web)
            async with Client(transport, mode="2026-07-28", elicitation_callback=_never) as client:

                async def call(text: str, **more: Any) -> Any:
                    session = client.session
                    return await session.call_tool("shop.write", {"text": text}, allow_input_required=True, **more)

                asked = await call("x")
                assert "Agent a wants to call shop.write" in str(asked.input_requests)
                yes = {"answer": types.ElicitResult(action="accept", content={"approve": True})}
                for text, state in (("y", asked.request_state), ("x", f"{asked.request_state}0"), ("x", "made-up")):
                    with pytest.raises(Exception, match="Unknown or expired requestState"):
                        await call(text, input_responses=yes, request_state=state)
                done = await call("x", input_responses=yes, request_state=(await call("x")).request_state)
                assert done.structured_content == {"text": "wrote x"}

    run(work())


async def _never(*_: Any) -> Any:
    raise AssertionError("the client answers for itself")


def test_clients_are_told_when_a_tool_is_withheld(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "echo", "mutate", policy=EXTERNAL)
        async with served(project.agent("a", ["mcp__*"])) as (url, _), http_client(f"{url}/agents/a") as client:
            assert await client.tool_names() == ["mcp__odd__echo", "mcp__odd__mutate"]
            await client.call("mcp__odd__mutate", {"tools": [upstream("mutate")]})
            await client.notified("notifications/tools/list_changed")
            assert await client.tool_names() == ["mcp__odd__mutate"]
            error = (await client.call("mcp__odd__echo"))["_meta"]["apcore/error"]
            assert error["code"] == "TOOL_WITHHELD"

    run(work())


def test_a_foreign_host_or_origin_is_refused(project: ProjectFiles) -> None:
    async def work() -> None:
        async with served(project.agent("a", ["shop.echo"])) as (url, _), httpx.AsyncClient() as web:
            body = {"tool": "shop.echo", "arguments": {"text": "x"}}
            for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
                for path in ("mcp", "calls"):
                    response = await web.post(f"{url}/agents/a/{path}", json=body, headers=headers)
                    assert response.status_code in (403, 421)

    run(work())


def test_without_authentication_only_this_machine_is_answered() -> None:
    paths = AgentPaths({"a": object()}, open_to_all=False)  # type: ignore[dict-item]
    for client, answered in ((("127.0.0.1", 1), True), (("10.0.0.5", 1), False), (("::1", 1), True)):
        refused = getattr(paths.answer({"path": "/agents/a/mcp", "client": client}), "status_code", None)
        assert (refused is None) is answered


# --- Events over HTTP ---


async def happenings(web: httpx.AsyncClient, url: str, body: Any, **headers: str) -> list[dict[str, Any]]:
    events = []
    async with web.stream("POST", url, json=body, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        kind = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
                assert events[-1]["type"] == kind
    return events


@requirement("WORKER-007")
def test_a_call_over_http_streams_what_happens(project: ProjectFiles) -> None:
    async def work() -> None:
        async with served(project.agent("a", ["shop.echo", "shop.leak"])) as (url, runtime), httpx.AsyncClient() as web:
            runtime.scrubber.learn(SECRET)
            place = f"{url}/agents/a/calls"
            good = await happenings(web, place, {"tool": "shop.echo", "arguments": {"text": "line\nbreak"}})
            assert [event["type"] for event in good] == ["tool_call", "tool_result", "final"]
            assert good[-1]["output"] == {"text": "line\nbreak"}
            bad = await happenings(web, place, {"tool": "shop.leak", "arguments": {"text": "raise"}})
            assert [event["type"] for event in bad] == ["tool_call", "tool_error", "final"]
            error = bad[1]["error"]
            assert (error["code"], error["category"], error["outcome"]) == (
                "MODULE_EXECUTE_ERROR",
                "internal",
                "failed",
            )
            assert bad[-1]["ok"] is False
            assert SECRET not in json.dumps(bad)
            hidden = await happenings(web, place, {"tool": "shop.hidden"})
            assert hidden[-1]["error"]["code"] == "TOOL_NOT_FOUND"

    run(work())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{}", "application/json"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"tool": "x"}', "text/plain"),
        (b'{"tool": "x", "arguments": 7}', "application/json"),
    ],
)
def test_a_request_that_is_none_is_refused(project: ProjectFiles, content: bytes, kind: str) -> None:
    async def work() -> None:
        async with served(project.agent("a", [])) as (url, _), httpx.AsyncClient() as web:
            response = await web.post(f"{url}/agents/a/calls", content=content, headers={"content-type": kind})
            assert response.status_code == 400
            assert (await web.get(f"{url}/agents/a/approvals")).status_code == 404

    run(work())


# --- Authentication ---


class Verifier:
    """Tokens are the names of their holders, with the scopes after a colon."""

    async def verify_token(self, token: str) -> AccessToken | None:
        name, _, scopes = token.partition("|")
        return AccessToken(token=token, client_id=name, scopes=scopes.split()) if name else None


def bearer(name: str, *scopes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}|{' '.join(scopes)}"}


def test_with_authentication_only_holders_of_the_role_reach_an_agent(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.echo"]).agent("b", ["shop.hidden"])
        async with served(project, token_verifier=Verifier()) as (url, _), httpx.AsyncClient() as web:
            body = {"tool": "shop.echo", "arguments": {"text": "x"}}
            for headers, status in (({}, 401), (bearer("eve", "agent:b"), 403), (bearer("ann", "agent:a"), 200)):
                response = await web.post(f"{url}/agents/a/calls", json=body, headers=headers)
                assert response.status_code == status
            async with http_client(f"{url}/agents/b", headers=bearer("eve", "agent:b")) as client:
                assert await client.tool_names() == ["shop.hidden"]

    run(work())


def test_a_call_waits_for_somebody_else_to_agree(project: ProjectFiles) -> None:
    async def work() -> None:
        ledger = ApprovalLedger()
        project.agent("a", ["shop.write"])
        async with served(project, ledger, token_verifier=Verifier()) as (url, _), httpx.AsyncClient() as web:
            ann, bob = bearer("ann", "agent:a", "approver"), bearer("bob", "agent:a", "approver")
            body: dict[str, Any] = {"tool": "shop.write", "arguments": {"text": "x"}}
            place = f"{url}/agents/a"
            first = await happenings(web, f"{place}/calls", body, **ann)
            assert [event["type"] for event in first] == ["tool_call", "approval_required", "tool_error", "final"]
            assert first[2]["error"]["category"] == "approval_required"
            token, approval = first[-1]["approval_token"], first[1]["approval_id"]
            assert token not in json.dumps(first[:-1])
            waiting = (await web.get(f"{place}/approvals", headers=bob)).json()["approvals"]
            assert waiting == [{"id": approval, "text": first[1]["text"]}]

            async def decide(headers: dict[str, str], answer: Any = True) -> int:
                response = await web.post(f"{place}/approvals/{approval}", json={"approve": answer}, headers=headers)
                return response.status_code

            assert await decide(bearer("carol", "agent:a")) == 403
            assert await decide(ann) == 404
            assert await decide(bob, "yes") == 400
            assert await decide(bob) == 200
            body["arguments"]["_approval_token"] = token
            assert (await happenings(web, f"{place}/calls", body, **bob))[-1]["ok"] is False
            assert (await happenings(web, f"{place}/calls", body, **ann))[-1]["output"] == {"text": "wrote x"}
            assert (await happenings(web, f"{place}/calls", body, **ann))[-1]["ok"] is False
            assert (await web.get(f"{place}/approvals", headers=bearer("carol", "agent:a"))).status_code == 403

    run(work())


def test_an_agent_whose_server_is_this_server_is_not_served(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        project.settings('[mcp.servers.loop]\ntools = ["*"]\n').servers(
            loop={"url": "http://localhost:8123/agents/a/mcp"}
        )
        project.lock(loop=[upstream("echo")]).agent("a", ["mcp__*"])
        source = registry()
        build(project, source)
        runtime = load_runtime(project.root / "generated", source)
        with pytest.raises(BadProject, match="this server itself"):
            refuse_loops(runtime, ServeOptions(transport="streamable-http", port=8123))
        refuse_loops(runtime, ServeOptions(transport="streamable-http", port=8124))

    run(work())


def test_a_client_that_leaves_a_stream_ends_the_call(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "slow", policy=EXTERNAL)
        async with served(project.agent("a", ["mcp__*"])) as (url, _), httpx.AsyncClient() as web:
            async with web.stream("POST", f"{url}/agents/a/calls", json={"tool": "mcp__odd__slow"}) as response:
                await until(lambda: "called slow" in up.logged())
                assert response.status_code == 200
            await until(lambda: "cancelled" in up.logged())

    run(work())


@requirement("POOL-001", "WORKER-002")
def test_tree_tools_are_pool_tools_like_any_other(project: ProjectFiles) -> None:
    from apcore_tree import definitions

    source = registry()
    for module_id, module in definitions().items():
        source.register(module_id, module)
    built = build(project.agent("a", ["tree.get_*"]), source)
    assert len([name for name in built.pool.tools if name.startswith("tree.")]) >= 40
    assert built.agents["a"].root
    assert all(name.startswith("tree.get_") for name in built.agents["a"].root)


@requirement("POOL-001")
def test_an_agent_keeps_its_tree_where_the_server_is_told(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "planner.md").write_text('---\nname: planner\ntools: ["tree.*"]\n---\n', encoding="utf-8")
    (tmp_path / "apcore-mcp.toml").write_text('with = ["tree"]\n[agents]\n', encoding="utf-8")
    built = command("build", extensions(tmp_path / "extensions"), "-o", tmp_path / "out", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    serve = ["-m", "apcore_mcp", "serve", str(tmp_path / "out"), "--agent", "planner", "--log-level", "ERROR"]
    serve += ["--tree-store", f"sqlite:{tmp_path / 'tree.db'}"]
    leaf = {"parentNodeId": "root", "payloadType": "object", "payloadProps": {"Name": "leaf"}}

    async def work() -> None:
        for nodes in (1, 2):
            async with stdio_connection(*serve) as client:
                status = (await client.call("tree.get_status"))["structuredContent"]
                assert status["nodeCount"] == nodes
                await client.call("tree.add_child", {**leaf, "versionToken": status["version"]})

    run(work())
