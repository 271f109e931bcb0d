"""Agents that start agents.

This package runs no model.  Whoever does implements `AgentRunner`; without one the two tools do not exist.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apcore import ModuleAnnotations

from apcore_agents.failures import ToolError, failure_of
from apcore_agents.runs import Run, cancelled_with_its_caller, current_run
from apcore_agents.schemas import JsonSchema
from apcore_agents.tools import COORDINATION_TEXTS

if TYPE_CHECKING:
    from apcore_agents.runtime import AgentRuntime, AgentSession

__all__ = ["AgentRunner", "AgentTask", "ListAvailableAgents", "SpawnAgents"]


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a started agent is to do, what it was told to be, and the only tools it has."""

    task: str
    context: str
    prompt: str
    session: "AgentSession"


class AgentRunner(Protocol):
    async def run(self, task: AgentTask) -> str:
        """Work on the task until it is done, calling tools through `task.session`, and report."""
        ...


class _Coordination:
    output_schema = None
    tags = ("agents",)

    def __init__(self, name: str, runtime: "AgentRuntime") -> None:
        self.description, schema = COORDINATION_TEXTS[name]
        self.input_schema = JsonSchema(schema)
        self.annotations = ModuleAnnotations(readonly=name == "list_available_agents")
        self._runtime = runtime

    def _run(self) -> Run:
        run = current_run()
        if run is None:
            raise ToolError("SPAWN_DENIED", "only an agent can start agents")
        return run


class ListAvailableAgents(_Coordination):
    def __init__(self, runtime: "AgentRuntime") -> None:
        super().__init__("list_available_agents", runtime)

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        known = self._runtime.agents
        spawn = known[self._run().agent].spawn
        return {"agents": [{"agent_name": name, "description": known[name].description} for name in spawn]}


class SpawnAgents(_Coordination):
    """How deep we are is read from the run that called, which neither the arguments nor the context can say."""

    def __init__(self, runtime: "AgentRuntime", runner: AgentRunner) -> None:
        super().__init__("spawn_agents", runtime)
        self._runner = runner
        # The tasks have limits of their own.
        self.resources = {"timeout": 0}

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        run = self._run()
        if run.depth >= self._runtime.agents[run.agent].max_depth:
            # The tool is not in such an agent's table; this holds even if it were.
            raise ToolError("SPAWN_DENIED", "an agent this far down may start no other")
        for wanted in inputs["agents"]:
            self._check(run, wanted["agent_name"])
        with cancelled_with_its_caller():
            spawned = (self._spawn(run, wanted, context) for wanted in inputs["agents"])
            return {"results": await asyncio.gather(*spawned)}

    def _check(self, run: Run, name: str) -> None:
        if name not in self._runtime.agents[run.agent].spawn:
            raise ToolError("SPAWN_DENIED", f"there is no agent {name!r} that this one may start")

    async def _spawn(self, run: Run, wanted: Mapping[str, Any], context: Any) -> dict[str, Any]:
        agent = self._runtime.agents[wanted["agent_name"]]
        child = run.child(agent.name)
        result: dict[str, Any] = {"agent_name": agent.name, "run_id": child.id}
        try:
            async with self._runtime.session(agent.name, run=child, identity=context.identity) as session:
                task = AgentTask(wanted["task"], wanted.get("context", ""), agent.prompt, session)
                limit = min(wanted.get("timeout", agent.limits.timeout), agent.limits.timeout)
                summary = await asyncio.wait_for(self._runner.run(task), limit)
        except TimeoutError:
            return result | {"status": "timeout", "summary": None, "error": "it took too long"}
        except Exception as error:
            return result | {"status": "failed", "summary": None, "error": failure_of(error).message}
        text = self._runtime.scrubber.text(str(summary))
        return result | {"status": "completed", "summary": text, "error": None}
