"""Agents at work: what they can call, and everything they cannot."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.agents.running import SECRET, Write, build, is_code, opened, refusal, registry, run, with_external
from tests.agents.servers import until
from tests.agents.support import ProjectFiles, upstream
from tests.requirements import requirement

from apcore_agents.approvals import AgentApprovals, ApprovalLedger
from apcore_agents.coordination import AgentTask
from apcore_agents.failures import ToolError
from apcore_agents.loading import StaleBuild, load_runtime
from apcore_agents.providers import ProviderTools


@requirement("POOL-010", "WORKER-001")
def test_an_agent_calls_what_it_has_and_finds_nothing_else(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.echo"])
        async with opened(project) as runtime, runtime.session("a") as session:
            assert session.names == ("shop.echo",)
            assert await session.call("shop.echo", {"text": "hi"}) == {"text": "hi"}
            hidden, unknown = await refusal(session.call("shop.hidden")), await refusal(session.call("shop.nothing"))
            assert (hidden.code, hidden.details) == (unknown.code, unknown.details)
            assert hidden.message == unknown.message.replace("nothing", "hidden")

    run(work())


def test_an_external_tool_is_called_through_the_same_gates(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "get_it", "set_it", policy='tools = ["*"]\nreadonly = ["get_*"]')
        project.agent("a", ["mcp__odd__*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            output = await session.call("mcp__odd__get_it", {"a": 1})
            assert json.loads(output["content"][0]["text"]) == {"a": 1}
            assert (await refusal(session.call("mcp__odd__set_it"))).code == "APPROVAL_DENIED"
            assert (await refusal(session.call("mcp.odd.get_it"))).code == "TOOL_NOT_FOUND"

    run(work())


def test_structured_content_is_held_to_the_locked_schema(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "structured", policy='tools = ["*"]\napproval = "never"')
        number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        up.tools[0]["outputSchema"] = number
        up.write(tools=up.tools)
        project.lock(odd=up.tools).agent("a", ["*"], deny=["shop.*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            assert await session.call("mcp__odd__structured", {"n": 3}) == {"n": 3}
            assert (await refusal(session.call("mcp__odd__structured", {"n": "x"}))).code == "SCHEMA_VALIDATION_ERROR"

    run(work())


def test_a_hostile_pattern_does_not_keep_us_busy(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "echo", policy='tools = ["*"]\napproval = "never"')
        up.tools[0]["inputSchema"] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
        up.write(tools=up.tools)
        project.lock(odd=up.tools).agent("a", ["mcp__*"])
        async with opened(project) as runtime, runtime.session("a") as session, asyncio.timeout(2):
            error = await refusal(session.call("mcp__odd__echo", {"a": "a" * 40 + "!"}))
            assert error.code == "SCHEMA_VALIDATION_ERROR"

    run(work())


@pytest.mark.parametrize(
    "target", ["mcp.odd.masked", "mcp.odd.denied", "shop.hidden", "mcp__odd__masked", "http.svc.echo", "shop.write"]
)
def test_a_tool_that_calls_by_id_opens_nothing_that_was_closed(
    project: ProjectFiles, tmp_path: Path, target: str
) -> None:
    async def work() -> None:
        up_policy = 'tools = ["*"]\napproval = "never"\nmask = ["masked"]'
        project.settings('[mcp]\nmask = ["shop.hidden"]\n')
        with_external(project, tmp_path, "masked", "denied", "echo", policy=up_policy)
        project.agent("a", ["shop.call_tool", "mcp__odd__echo"])
        async with opened(project) as runtime, runtime.session("a") as session:
            through = await session.call("shop.call_tool", {"text": 'mcp.odd.echo {"a": 1}'})
            assert "content" in through["text"]
            before = Write.calls
            await refusal(session.call("shop.call_tool", {"text": target}))
            await refusal(session.call(target))
            assert Write.calls == before

    run(work())


def test_a_local_module_may_still_call_another(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.call_tool"])
        async with opened(project) as runtime, runtime.session("a") as session:
            output = await session.call("shop.call_tool", {"text": 'shop.echo {"text": "hi"}'})
            assert json.loads(output["text"]) == {"text": "hi"}

    run(work())


def test_the_second_wall_holds_when_the_first_is_wrong(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.echo"]).agent("b", ["shop.hidden"])
        async with opened(project) as runtime:
            wrong = {depth: {"shop.hidden": "shop.hidden"} for depth in ("root", "sub", "leaf")}
            runtime.agents = {**runtime.agents, "a": replace(runtime.agents["a"], tables=wrong)}
            async with runtime.session("a") as session:
                assert (await refusal(session.call("shop.hidden"))).code == "ACL_DENIED"

    run(work())


def test_another_agents_role_does_not_help(project: ProjectFiles) -> None:
    from apcore import Identity

    async def work() -> None:
        project.agent("a", ["shop.call_tool"]).agent("b", ["shop.write"])
        async with opened(project) as runtime:
            both = Identity("eve", roles=("agent:a", "agent:b", "user"))
            async with runtime.session("a", identity=both) as session:
                error = await refusal(session.call("shop.call_tool", {"text": "shop.write"}))
                # Modules may call modules, so it gets as far as the gate, which has nobody to ask.
                assert error.code == "APPROVAL_DENIED"

    run(work())


def test_a_tool_that_drifts_during_a_run_disappears_and_returns(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "echo", "mutate", policy='tools = ["*"]\napproval = "never"')
        project.agent("a", ["mcp__*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            events = session.events()
            changed = [upstream("echo", "Something else."), upstream("mutate")]
            await session.call("mcp__odd__mutate", {"tools": [*changed, upstream("brand_new")]})
            await until(lambda: session.names == ("mcp__odd__mutate",))
            error = await refusal(session.call("mcp__odd__echo"))
            assert is_code(error, "TOOL_WITHHELD")
            assert error.details["outcome"] == "not_started"
            await session.call("mcp__odd__mutate", {"tools": up.tools})
            await until(lambda: "mcp__odd__echo" in session.names)
            await session.call("mcp__odd__echo")
            session.close()
            kinds = [event["type"] async for event in events]
            assert "tool_withheld" in kinds
            assert "tool_restored" in kinds

    run(work())


def test_a_server_that_is_absent_costs_only_its_own_tools(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "echo")
        project.servers(odd={"command": str(tmp_path / "missing"), "env": {"TOKEN": "${TOKEN}"}})
        project.lock(odd=[upstream("echo")]).agent("a", ["*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            assert "mcp__odd__echo" not in session.names
            assert await session.call("shop.echo", {"text": "hi"}) == {"text": "hi"}

    run(work())


def test_a_build_that_is_older_than_its_configuration_is_not_served(project: ProjectFiles) -> None:
    project.agent("a", ["shop.echo"])
    build(project, registry())
    generated = project.root / "generated"
    assert load_runtime(generated, registry()).agents["a"].table(0) == {"shop.echo": "shop.echo"}
    project.agent("a", ["*"])
    with pytest.raises(StaleBuild, match="have changed"):
        load_runtime(generated, registry())


@pytest.mark.parametrize("change", ["index", "policy", "version", "gone"])
def test_a_build_that_was_edited_is_not_served(project: ProjectFiles, change: str) -> None:
    project.agent("a", ["shop.echo"])
    build(project, registry())
    index = json.loads((project.root / "generated/agents/agents.json").read_text(encoding="utf-8"))
    if change == "index":
        index["agents"]["a"]["root"].append("shop.write")
    if change == "version":
        index["version"] = 99
    project.write("generated/agents/agents.json", json.dumps(index))
    if change == "policy":
        project.write("generated/agents/a/policy.yaml", "strict: false\nrules: []\n")
    if change == "gone":
        (project.root / "generated/agents/agents.json").unlink()
    with pytest.raises(StaleBuild):
        load_runtime(project.root / "generated", registry())


@requirement("POOL-011")
def test_a_rebuild_changes_nothing_for_a_run_that_has_begun(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.e*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            project.agent("a", ["shop.hidden"])
            build(project, registry())
            assert session.names == ("shop.echo",)
            assert await session.call("shop.echo", {"text": "still"}) == {"text": "still"}
            assert is_code(await refusal(session.call("shop.hidden")), "TOOL_NOT_FOUND")
        async with opened(project) as runtime, runtime.session("a") as session:
            assert session.names == ("shop.hidden",)

    run(work())


def test_a_run_has_no_more_calls_than_its_limit(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.echo"], limits={"max_steps": 2})
        async with opened(project) as runtime, runtime.session("a") as session:
            for _ in range(2):
                await session.call("shop.echo", {"text": ""})
            assert is_code(await refusal(session.call("shop.echo")), "STEP_LIMIT_REACHED")
        project.agent("a", ["shop.echo"], limits={"timeout": "1ms"})
        async with opened(project) as runtime, runtime.session("a") as session:
            await asyncio.sleep(0.002)
            assert is_code(await refusal(session.call("shop.echo")), "RUN_EXPIRED")

    run(work())


def test_there_is_no_session_for_an_agent_that_does_not_exist(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(project.agent("a", [])) as runtime:
            with pytest.raises(ToolError, match="no agent"):
                async with runtime.session("ghost"):
                    pass

    run(work())


def test_a_model_calls_by_the_names_its_provider_knows(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "get.it", policy='tools = ["*"]\napproval = "never"')
        project.agent("a", ["shop.echo", "mcp__*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            openai = ProviderTools(session, project.root / "generated", "openai")
            assert [tool["function"]["name"] for tool in openai.tools()] == ["shop-echo", "mcp__odd__get-it"]
            assert openai.tools()[0]["function"]["strict"] is True
            assert await openai.call("shop-echo", '{"text": "hi"}') == {"text": "hi"}
            # Strict mode has a model send null for what it leaves out.
            assert await openai.call("shop-echo", {"text": None}) == {"text": ""}
            assert "content" in await openai.call("mcp__odd__get-it", {})
            for guess in ("shop-hidden", "shop.hidden", "mcp-odd-get_it", "mcp.odd.get_it"):
                assert is_code(await refusal(openai.call(guess, {})), "TOOL_NOT_FOUND")
            anthropic = ProviderTools(session, project.root / "generated", "anthropic")
            assert [tool["name"] for tool in anthropic.tools()] == ["shop-echo", "mcp__odd__get-it"]

    run(work())


# --- Agents that start agents ---


class Runner:
    """Does as its task says: JSON with a tool to call, or words to report."""

    def __init__(self) -> None:
        self.depths: list[tuple[str, int, tuple[str, ...]]] = []

    async def run(self, task: AgentTask) -> str:
        session = task.session
        self.depths.append((session.run.agent, session.run.depth, session.names))
        if not task.task.startswith("{"):
            await asyncio.sleep(30 if task.task == "sleep" else 0)
            return f"{task.task} {task.context}".strip()
        wanted = json.loads(task.task)
        return json.dumps(await session.call(wanted["tool"], wanted["arguments"]))


def spawn(agent: str, task: str, **more: Any) -> dict[str, Any]:
    return {"agents": [{"agent_name": agent, "task": task} | more]}


def nested(agent: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return spawn(agent, json.dumps({"tool": "spawn_agents", "arguments": arguments}))


def family(project: ProjectFiles) -> ProjectFiles:
    project.agent("child", ["shop.echo", "spawn_agents"], spawn=["child"], description="A child.")
    return project.agent("a", ["*", "spawn_agents"], spawn=["child"])


def test_an_agent_starts_others_at_the_same_time_and_gets_their_reports(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(family(project), runner=Runner()) as runtime, runtime.session("a") as session:
            assert await session.call("list_available_agents") == {
                "agents": [{"agent_name": "child", "description": "A child."}]
            }
            wanted = [spawn("child", word, context="well")["agents"][0] for word in ("one", "two")]
            results = (await session.call("spawn_agents", {"agents": wanted}))["results"]
            assert [result["summary"] for result in results] == ["one well", "two well"]
            assert {result["status"] for result in results} == {"completed"}

    run(work())


@requirement("POOL-008", "POOL-009")
def test_depth_is_counted_where_neither_model_nor_module_can_reach_it(project: ProjectFiles) -> None:
    async def work() -> None:
        runner = Runner()
        async with opened(family(project), runner=runner) as runtime, runtime.session("a") as session:
            await session.call("spawn_agents", nested("child", spawn("child", "deep")))
            assert runner.depths == [
                ("child", 1, ("shop.echo", "spawn_agents")),
                ("child", 2, ("shop.echo",)),
            ]
            reported = await session.call("spawn_agents", nested("child", nested("child", spawn("child", "deeper"))))
            assert len(runner.depths) == 4
            assert "no such tool" in json.dumps(reported) or "not found" in json.dumps(reported).lower()
            error = await refusal(session.call("spawn_agents", spawn("child", "x") | {"depth": -5}))
            assert error.code == "SCHEMA_VALIDATION_ERROR"

    run(work())


def test_the_limit_holds_when_the_tables_are_wrong(project: ProjectFiles) -> None:
    async def work() -> None:
        runner = Runner()
        async with opened(family(project), runner=runner) as runtime:
            wrong = {depth: {"spawn_agents": "spawn_agents"} for depth in ("root", "sub", "leaf")}
            runtime.agents = {name: replace(agent, tables=wrong) for name, agent in runtime.agents.items()}
            async with runtime.session("a") as session:
                await session.call("spawn_agents", nested("child", nested("child", spawn("child", "bottom"))))
            assert [depth for _, depth, _ in runner.depths] == [1, 2]

    run(work())


def test_only_agents_that_are_named_can_be_started(project: ProjectFiles) -> None:
    async def work() -> None:
        family(project).agent("stranger", [])
        async with opened(project, runner=Runner()) as runtime, runtime.session("a") as session:
            hidden = await refusal(session.call("spawn_agents", spawn("stranger", "x")))
            unknown = await refusal(session.call("spawn_agents", spawn("nobody", "x")))
            assert hidden.code == unknown.code == "SPAWN_DENIED"

    run(work())


def test_an_agent_that_takes_too_long_or_fails_says_so(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(family(project), runner=Runner()) as runtime, runtime.session("a") as session:
            late = await session.call("spawn_agents", spawn("child", "sleep", timeout=0.05))
            assert late["results"][0]["status"] == "timeout"
            failed = await session.call("spawn_agents", spawn("child", json.dumps({"tool": "x", "arguments": {}})))
            assert failed["results"][0]["status"] == "failed"

    run(work())


def test_without_a_runner_there_is_nothing_to_start_agents_with(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(family(project)) as runtime, runtime.session("a") as session:
            assert not {"spawn_agents", "list_available_agents"} & set(session.names)
            assert is_code(await refusal(session.call("spawn_agents", spawn("child", "x"))), "TOOL_NOT_FOUND")

    run(work())


def test_what_a_started_agent_does_is_seen_by_the_one_who_started_it(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(family(project), runner=Runner()) as runtime, runtime.session("a") as session:
            events = session.events()
            task = json.dumps({"tool": "shop.echo", "arguments": {"text": "x"}})
            await session.call("spawn_agents", spawn("child", task))
            session.close()
            seen = [(event["type"], event["agent"], event["depth"], event["tool"]) async for event in events]
            assert ("tool_result", "child", 1, "shop.echo") in seen

    run(work())


# --- Failures ---


def test_a_failure_says_whether_it_is_safe_to_try_again(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        policy = 'tools = ["*"]\napproval = "never"\nreadonly = ["fail"]\ntimeout = "600ms"'
        with_external(project, tmp_path, "slow", "crash", "fail", policy=policy)
        project.agent("a", ["mcp__*", "shop.write", "shop.echo", "shop.leak"])
        async with opened(project) as runtime, runtime.session("a") as session:
            events = session.events()
            await refusal(session.call("shop.nothing"))
            await refusal(session.call("shop.echo", {"text": 7}))
            await refusal(session.call("shop.write", {"text": "x"}))
            await refusal(session.call("mcp__odd__slow"))
            await refusal(session.call("mcp__odd__fail", {"text": "because"}))
            await refusal(session.call("mcp__odd__crash"))
            await refusal(session.call("shop.leak", {"text": "raise"}))
            session.close()
            failed = [event["error"] async for event in events if event["type"] == "tool_error"]
        told = [(error["code"], error["category"], error["outcome"], error["retryable"]) for error in failed]
        assert told == [
            ("TOOL_NOT_FOUND", "not_found", "not_started", False),
            ("SCHEMA_VALIDATION_ERROR", "invalid_argument", "not_started", False),
            ("APPROVAL_DENIED", "forbidden", "not_started", False),
            ("UPSTREAM_TIMEOUT", "timeout", "unknown", False),
            ("UPSTREAM_TOOL_ERROR", "internal", "failed", False),
            ("UPSTREAM_DISCONNECTED", "unavailable", "unknown", False),
            ("MODULE_EXECUTE_ERROR", "internal", "failed", False),
        ]
        assert failed[4]["message"] == "because"
        assert failed[4]["source"] == "upstream"
        assert SECRET not in json.dumps(failed)

    run(work())


def test_a_cancelled_call_is_reported_and_cancelled_upstream(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "slow", policy='tools = ["*"]\napproval = "never"')
        async with opened(project.agent("a", ["mcp__*"])) as runtime, runtime.session("a") as session:
            events = session.events()
            call = asyncio.create_task(session.call("mcp__odd__slow"))
            await until(lambda: "called slow" in up.logged())
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: "cancelled" in up.logged())
            session.close()
            codes = [event["error"]["code"] async for event in events if event["type"] == "tool_error"]
            assert codes == ["EXECUTION_CANCELLED"]

    run(work())


def test_a_slow_listener_loses_the_oldest_events_and_learns_how_many(project: ProjectFiles) -> None:
    from apcore_agents.events import EventStream, event

    async def work() -> None:
        stream = EventStream(limit=2)
        for number in range(5):
            stream.put(event("tool_call", number=number))
        stream.close()
        stream.put(event("late"))
        assert [record["number"] async for record in stream] == [3, 4]
        assert stream.dropped == 3

    run(work())


def test_apcores_event_bus_is_told_and_a_failing_listener_costs_nobody_a_call(project: ProjectFiles) -> None:
    from apcore.events.emitter import EventEmitter

    from apcore_agents.events import to_emitter

    class Subscriber:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def on_event(self, event: Any) -> None:
            self.seen.append(event)

    def fail(_: Any) -> None:
        raise RuntimeError

    async def work() -> None:
        emitter, subscriber = EventEmitter(), Subscriber()
        emitter.subscribe(subscriber)
        async with opened(project.agent("a", ["shop.echo"])) as runtime, runtime.session("a") as session:
            runtime.events.listen(fail)
            runtime.events.listen(to_emitter(emitter))
            await session.call("shop.echo", {"text": "x"})
            await refusal(session.call("nothing"))
        await asyncio.to_thread(emitter.flush)
        emitter.shutdown()
        (event,) = subscriber.seen
        assert event.event_type == "apcore_mcp.tool.error"
        assert event.data["error"]["code"] == "TOOL_NOT_FOUND"

    run(work())


# --- Approval ---


def test_nobody_to_ask_means_no(project: ProjectFiles) -> None:
    async def work() -> None:
        async with opened(project.agent("a", ["shop.write"])) as runtime, runtime.session("a") as session:
            before = Write.calls
            assert (await refusal(session.call("shop.write", {"text": "x"}))).code == "APPROVAL_DENIED"
            assert Write.calls == before

    run(work())


@pytest.mark.parametrize("answer", [None, {}, {"approve": False}, {"approve": "true"}, {"approve": 1}, RuntimeError()])
def test_anything_but_a_plain_yes_means_no(project: ProjectFiles, answer: Any) -> None:
    async def ask(*_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def work() -> None:
        async with opened(project.agent("a", ["shop.write"])) as runtime, runtime.session("a") as session:
            error = await refusal(session.call("shop.write", {"text": "x"}, ask=ask))
            assert error.code == "APPROVAL_DENIED"

    run(work())


def test_a_question_nobody_answers_is_not_left_open(project: ProjectFiles) -> None:
    async def ask(*_: Any) -> Any:
        await asyncio.sleep(30)

    async def work() -> None:
        async with opened(project.agent("a", ["shop.write"])) as runtime, runtime.session("a") as session:
            runtime.executors["a"].set_approval_handler(AgentApprovals(runtime.scrubber, patience=0.05))
            assert (await refusal(session.call("shop.write", {"text": "x"}, ask=ask))).code == "APPROVAL_TIMEOUT"

    run(work())


def test_a_yes_is_for_this_call_and_the_question_has_no_secret_in_it(project: ProjectFiles) -> None:
    questions: list[str] = []

    async def ask(text: str, _: Any) -> Any:
        questions.append(text)
        return {"approve": True}

    async def work() -> None:
        async with opened(project.agent("a", ["shop.write"])) as runtime, runtime.session("a") as session:
            runtime.scrubber.learn(SECRET)
            assert await session.call("shop.write", {"text": "one"}, ask=ask) == {"text": "wrote one"}
            await session.call("shop.write", {"text": f"key {SECRET}"}, ask=ask)

    run(work())
    assert len(questions) == 2
    assert questions[0] == 'Agent a wants to call shop.write\n\n{\n  "text": "one"\n}'
    assert SECRET not in questions[1]


def test_the_question_says_what_the_module_would_change(project: ProjectFiles) -> None:
    questions: list[str] = []

    async def ask(text: str, _: Any) -> Any:
        questions.append(text.replace("\n", "|"))

    async def work() -> None:
        async with opened(project.agent("a", ["shop.send"])) as runtime, runtime.session("a") as session:
            runtime.scrubber.learn(SECRET)
            await refusal(session.call("shop.send", {"text": f"word {SECRET}"}, ask=ask))
            await refusal(session.call("shop.send", {}, ask=ask))

    run(work())
    assert questions[0].startswith("Agent a wants to call shop.send|- send word *** to all||{")
    assert questions[1].startswith("Agent a wants to call shop.send||{")


def test_a_token_opens_the_call_it_was_made_for_once_and_no_other(project: ProjectFiles) -> None:
    from apcore import Identity

    async def work() -> None:
        ledger = ApprovalLedger()
        project.agent("a", ["shop.write", "http.*", "shop.call_tool"]).agent("b", ["shop.write"])
        alice, bob = Identity("alice"), Identity("bob")
        async with opened(project, ledger=ledger) as runtime, runtime.session("a", identity=alice) as session:
            pending = await refusal(session.call("shop.write", {"text": "x"}))
            assert pending.code == "APPROVAL_PENDING"
            token = pending.approval_id
            (entry,) = ledger.pending()
            assert token not in (entry.id, entry.text)

            async def attempt(text: str = "x", name: str = "shop.write", by: Any = session) -> Any:
                return await refusal(by.call(name, {"text": text, "_approval_token": token}))

            assert (await attempt()).code == "APPROVAL_PENDING"
            assert not ledger.decide(entry.id, "alice", approve=True)
            assert not ledger.decide(entry.id, None, approve=True)
            assert not ledger.decide("unknown", "carol", approve=True)
            assert ledger.decide(entry.id, "carol", approve=True)
            assert not ledger.decide(entry.id, "carol", approve=True)
            assert (await attempt("y")).code == "APPROVAL_DENIED"
            inner = f'shop.write {{"text": "x", "_approval_token": "{token}"}}'
            assert (await refusal(session.call("shop.call_tool", {"text": inner}))).code == "APPROVAL_DENIED"
            async with runtime.session("a", identity=bob) as other:
                assert (await attempt(by=other)).code == "APPROVAL_DENIED"
            output = await session.call("shop.write", {"text": "x", "_approval_token": token})
            assert output == {"text": "wrote x"}
            assert (await attempt()).code == "APPROVAL_DENIED"

    run(work())


def test_a_refused_or_expired_approval_opens_nothing(project: ProjectFiles) -> None:
    async def work() -> None:
        now = [0.0]
        ledger = ApprovalLedger(lifetime=600, clock=lambda: now[0])
        project.agent("a", ["shop.write"])
        async with opened(project, ledger=ledger) as runtime, runtime.session("a") as session:
            for text, approve, later in (("x", False, 0), ("y", True, 601)):
                pending = await refusal(session.call("shop.write", {"text": text}))
                (entry,) = ledger.pending()
                ledger.decide(entry.id, "carol", approve=approve)
                now[0] += later
                arguments = {"text": text, "_approval_token": pending.approval_id}
                assert (await refusal(session.call("shop.write", arguments))).code == "APPROVAL_DENIED"
                assert ledger.pending() == []

    run(work())


def test_a_token_that_nobody_made_opens_nothing(project: ProjectFiles) -> None:
    async def work() -> None:
        project.agent("a", ["shop.write"])
        for ledger in (None, ApprovalLedger()):
            async with opened(project, ledger=ledger) as runtime, runtime.session("a") as session:
                arguments = {"text": "x", "_approval_token": "made-up"}
                assert (await refusal(session.call("shop.write", arguments))).code == "APPROVAL_DENIED"

    run(work())
