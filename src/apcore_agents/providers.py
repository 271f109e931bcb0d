"""An agent's tools for a loop around a provider's model, and the way back from the model's call to the tool."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from apcore_agents.names import provider_name
from apcore_agents.runtime import AgentSession
from apcore_mcp.adapters.schema import inline_refs
from apcore_openai.strict import remove_nulls

__all__ = ["ProviderTools"]

Provider = Literal["openai", "anthropic"]


class ProviderTools:
    """What the build wrote for `provider`, as far as this session may use it.

    Providers take no dots in names, and strict mode has a model send null for what it leaves out; `call` knows both.
    """

    def __init__(self, session: AgentSession, generated: Path, provider: Provider) -> None:
        self._session = session
        # From the table, not by rule: a shortened name cannot be turned back.
        self._names = {provider_name(name): name for name in session.agent.table(0)}
        folder = generated / "agents" / session.agent.name
        # The root's file has every tool that the others have.
        self._tools: list[dict[str, Any]] = json.loads((folder / f"{provider}_tools.json").read_text(encoding="utf-8"))

    def tools(self) -> list[dict[str, Any]]:
        """To be given to the provider's API as they are."""
        available = set(self._session.names)
        return [tool for tool in self._tools if self._names.get(_name_of(tool)) in available]

    async def call(self, name: str, arguments: str | Mapping[str, Any], **how: Any) -> Any:
        """Run a call as the model made it: arguments as JSON or parsed, names as the provider knows them."""
        given = dict(json.loads(arguments) if isinstance(arguments, str) else arguments)
        tool = self._names.get(name, name)
        return await self._session.call(tool, self._without_nulls(tool, given), **how)

    def _without_nulls(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        entry = self._session.agent.entries.get(tool)
        if entry is None:
            return arguments
        try:
            return remove_nulls(arguments, inline_refs(dict(entry["inputSchema"])))
        except (KeyError, ValueError):
            # References that cannot be written out keep a tool out of strict mode, so that a null is one.
            return arguments


def _name_of(tool: Mapping[str, Any]) -> str:
    return str(tool["function"]["name"] if "function" in tool else tool["name"])
