"""Agents: which of them may use which tool, decided at build time, pinned, and enforced where the call happens."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apcore_agents.approvals import ApprovalLedger
    from apcore_agents.build import build_agents
    from apcore_agents.coordination import AgentRunner, AgentTask
    from apcore_agents.failures import failure_of
    from apcore_agents.loading import load_runtime
    from apcore_agents.providers import ProviderTools
    from apcore_agents.runtime import AgentRuntime, AgentSession
    from apcore_agents.serving import agents_app, with_agents

__all__ = [
    "AgentRunner",
    "AgentRuntime",
    "AgentSession",
    "AgentTask",
    "ApprovalLedger",
    "ProviderTools",
    "agents_app",
    "build_agents",
    "failure_of",
    "load_runtime",
    "with_agents",
]

# Imported at first use: a build needs neither a client nor a server.
_HOME = {
    "AgentRunner": "coordination",
    "AgentRuntime": "runtime",
    "AgentSession": "runtime",
    "AgentTask": "coordination",
    "ApprovalLedger": "approvals",
    "ProviderTools": "providers",
    "agents_app": "serving",
    "build_agents": "build",
    "failure_of": "failures",
    "load_runtime": "loading",
    "with_agents": "serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
