"""Locking: the only step that contacts servers, and so the only one that asks first."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from apcore_agents.link import connected
from apcore_agents.lockfile import Listing, Lock, LockedServer, lock_server
from apcore_agents.project import Project
from apcore_agents.secrets import Secrets
from apcore_agents.servers import Server

__all__ = ["LockFailed", "Locked", "changes", "lock_servers"]

LISTING_TIMEOUT = 60.0
# How many pieces of stderr are kept for the message that a server could not be started.
WORDS = 64


class LockFailed(Exception):
    """A server could not be asked for its tools."""


@dataclass(frozen=True, slots=True)
class Locked:
    lock: Lock
    before: Lock


def lock_servers(project: Project, aliases: list[str], secrets: Secrets) -> Locked:
    """Ask the named servers for their tools; what was locked of the others stays, if they are still there."""
    before = project.lock if isinstance(project.lock, Lock) else Lock()
    kept = {alias: locked for alias, locked in before.servers.items() if alias in project.servers}
    asked = {alias: _lock(project.servers[alias], secrets) for alias in aliases}
    return Locked(Lock(kept | asked), before)


def _lock(server: Server, secrets: Secrets) -> LockedServer:
    said: deque[str] = deque(maxlen=WORDS)
    try:
        return lock_server(server, asyncio.run(asyncio.wait_for(_listing(server, secrets, said), LISTING_TIMEOUT)))
    except Exception as error:
        # A program that does not start says why on stderr.
        words = secrets.scrubber.text("".join(said)).strip().splitlines()[-1:]
        raise LockFailed(": ".join([f"server {server.alias!r}", _reason(error, secrets), *words])) from error


async def _listing(server: Server, secrets: Secrets, said: "deque[str]") -> Listing:
    def fill(text: str) -> str:
        return secrets.fill(text, f"mcp.{server.alias}")

    async with connected(server, fill, on_stderr=said.append) as connection:
        return await connection.listing()


def _reason(error: BaseException, secrets: Secrets) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(sorted({_reason(inner, secrets) for inner in error.exceptions}))
    text = secrets.scrubber.text(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def changes(locked: Locked) -> Iterator[str]:
    """What is different from the lock before, one line each."""
    for alias in sorted({*locked.before.servers, *locked.lock.servers}):
        before, after = locked.before.servers.get(alias), locked.lock.servers.get(alias)
        yield from _server_changes(alias, before, after)


def _server_changes(alias: str, before: LockedServer | None, after: LockedServer | None) -> Iterator[str]:
    if after is None:
        yield f"- server {alias}"
        return
    old = before.tools if before is not None else {}
    if before is None:
        yield f"+ server {alias}: {len(after.tools)} tools"
    elif before.instructions_digest != after.instructions_digest:
        yield f"~ {alias}: its instructions (which are not passed on)"
    for name in sorted({*old, *after.tools}):
        if name not in after.tools:
            yield f"- {alias}: {name}"
        elif name not in old:
            yield f"+ {alias}: {name}"
        elif old[name].digest != after.tools[name].digest:
            yield f"~ {alias}: {name}"
        for flaw in after.tools[name].flaws if name in after.tools else ():
            yield f"! {alias}: {name}: {flaw.level} {flaw.code}: {flaw.text}"
