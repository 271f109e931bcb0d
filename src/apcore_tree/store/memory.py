"""A store that forgets everything with the process; the tree itself lives in memory anyway."""

from __future__ import annotations

from collections import deque
from itertools import islice

from apcore_tree.store.protocol import AuditEntry, AuditQuery, Commit, Remembered, Stored, chained

__all__ = ["MemoryStore"]

_ENTRIES_KEPT = 100_000
_ANSWERS_KEPT = 10_000


class MemoryStore:
    read_only = False

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=_ENTRIES_KEPT)
        self._answers: dict[str, dict[str, Remembered]] = {}
        self._sequence = 0
        self._hash = ""

    def load(self) -> Stored | None:
        return None

    def create(self, stored: Stored) -> None:
        return None

    def commit(self, commit: Commit) -> None:
        self.record(commit.audit)
        if commit.remember is not None:
            answers = self._answers.setdefault(commit.remember.agent, {})
            answers[commit.remember.key] = commit.remember
            if len(answers) > _ANSWERS_KEPT:
                del answers[next(iter(answers))]

    def record(self, entry: AuditEntry) -> None:
        self._sequence += 1
        numbered = chained(entry, self._sequence, self._hash)
        self._hash = numbered.hash
        self._entries.append(numbered)

    def remembered(self, agent: str, key: str, now: float) -> Remembered | None:
        found = self._answers.get(agent, {}).get(key)
        return found if found is not None and found.expires > now else None

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        return list(islice((entry for entry in self._entries if _answers_to(entry, query)), query.limit))

    def close(self) -> None:
        return None


def _answers_to(entry: AuditEntry, query: AuditQuery) -> bool:
    return (
        entry.sequence > query.after
        and query.agent in (None, entry.agent)
        and query.operation in (None, entry.operation)
        and query.outcome in (None, entry.outcome)
    )
