"""What a storage back end has to do: keep one commit whole, and find three things again.

One `Commit` is one transaction: the changed records, the audit entry, the remembered answer and the revision.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

__all__ = ["AuditEntry", "AuditQuery", "Commit", "NodeRow", "PayloadRow", "Remembered", "Store", "Stored", "chained"]


class NodeRow(NamedTuple):
    id: str
    parent: str | None
    order: int
    payload: int
    tags: tuple[str, ...]
    changed: int


class PayloadRow(NamedTuple):
    id: int
    type: str
    text: str
    changed: int


class AuditEntry(NamedTuple):
    """One thing an agent did or tried.  `hash` covers the entry and its predecessor's hash."""

    at: str
    agent: str
    agent_type: str
    session: str
    operation: str
    targets: tuple[str, ...]
    outcome: str
    code: str | None
    message: str | None
    revision_before: int
    revision_after: int
    request: str
    trace_id: str | None
    sequence: int = 0
    hash: str = ""


class AuditQuery(NamedTuple):
    """Every condition given must hold; entries come oldest first, after `after`."""

    agent: str | None = None
    operation: str | None = None
    outcome: str | None = None
    after: int = 0
    limit: int = 100


class Remembered(NamedTuple):
    """The answer to a request that an agent named with a key."""

    agent: str
    key: str
    request: str
    result: str
    expires: float


@dataclass
class Commit:
    revision: int
    audit: AuditEntry
    nodes: list[NodeRow] = field(default_factory=list)
    gone_nodes: list[str] = field(default_factory=list)
    payloads: list[PayloadRow] = field(default_factory=list)
    gone_payloads: list[int] = field(default_factory=list)
    remember: Remembered | None = None


@dataclass
class Stored:
    """A tree as found on opening."""

    epoch: str
    revision: int
    nodes: list[NodeRow]
    payloads: list[PayloadRow]


class Store(Protocol):
    """Calls come one at a time: the service holds the tree's lock."""

    read_only: bool

    def load(self) -> Stored | None:
        """The stored tree, or None where nothing was stored yet."""

    def create(self, stored: Stored) -> None:
        """Store a whole tree where there is none."""

    def commit(self, commit: Commit) -> None:
        """All of the commit, or an exception and none of it."""

    def record(self, entry: AuditEntry) -> None:
        """An audit entry without a change: a failure, a refusal."""

    def remembered(self, agent: str, key: str, now: float) -> Remembered | None: ...

    def audit(self, query: AuditQuery) -> list[AuditEntry]: ...

    def close(self) -> None: ...


def chained(entry: AuditEntry, sequence: int, previous: str) -> AuditEntry:
    """The entry with its number and a hash that covers its predecessor: a removed entry breaks the chain."""
    text = json.dumps([previous, sequence, *entry[:-2]], ensure_ascii=True)
    return entry._replace(sequence=sequence, hash=hashlib.sha256(text.encode()).hexdigest())
