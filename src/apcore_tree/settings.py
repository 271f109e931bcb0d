"""What a deployment may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Caller", "Settings"]


@dataclass(frozen=True)
class Settings:
    """`tokens` decides which version tokens are issued: `strict` ones mean the whole tree, `footprint` ones only what
    a change touches, so that agents at work in different branches do not disturb each other."""

    read_only: bool = False
    tokens: Literal["strict", "footprint"] = "strict"
    require_token: bool = True
    rate_limit: str | None = "600/minute"
    session_tools_for_readers: bool = False
    default_expanded: bool = True
    max_nodes: int = 1_000_000
    max_snapshots: int = 50
    max_sessions: int = 1_000
    max_pins: int = 4
    pin_idle_seconds: float = 60.0
    answers_kept_seconds: float = 24 * 3600.0
    # Long reads of larger trees give up the lock and read a pinned state.
    unlocked_reads_above: int = 5_000


@dataclass(frozen=True)
class Caller:
    """Who calls.  Filters, bookmarks, the view and pinned pages belong to the session, by default the agent's only."""

    id: str
    type: str = "agent"
    roles: tuple[str, ...] = ()
    session: str = ""
    read_only: bool = False
    trace_id: str | None = None
