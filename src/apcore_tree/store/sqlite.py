"""A SQLite file as the system of record, written through on every commit.

The journal is a write-ahead log with full synchronisation, so an acknowledged commit survives the death of the
process.  One process owns the file; a second one opens it read-only.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from apcore_tree.errors import Conflict, Forbidden
from apcore_tree.store.protocol import (
    AuditEntry,
    AuditQuery,
    Commit,
    NodeRow,
    PayloadRow,
    Remembered,
    Stored,
    chained,
)

__all__ = ["SQLiteStore"]

_FORMAT = 1
_ANSWERS_KEPT = 10_000
# Old answers are looked for once in so many commits.
_PRUNE_EVERY = 256

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE payload(id INTEGER PRIMARY KEY, type TEXT NOT NULL, json TEXT NOT NULL, changed INTEGER NOT NULL);
CREATE TABLE node(
    id TEXT PRIMARY KEY, parent TEXT, position INTEGER NOT NULL, payload INTEGER NOT NULL REFERENCES payload,
    tags TEXT NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX node_place ON node(parent, position);
CREATE TABLE answer(
    agent TEXT, key TEXT, request TEXT NOT NULL, result TEXT NOT NULL, expires REAL NOT NULL, PRIMARY KEY(agent, key)
) WITHOUT ROWID;
CREATE TABLE audit(
    at TEXT NOT NULL, agent TEXT NOT NULL, agent_type TEXT NOT NULL, session TEXT NOT NULL, operation TEXT NOT NULL,
    targets TEXT NOT NULL, outcome TEXT NOT NULL, code TEXT, message TEXT, revision_before INTEGER NOT NULL,
    revision_after INTEGER NOT NULL, request TEXT NOT NULL, trace_id TEXT, sequence INTEGER PRIMARY KEY,
    hash TEXT NOT NULL
);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
"""

_COLUMNS = ", ".join(AuditEntry._fields)

Connect = Callable[..., sqlite3.Connection]


class SQLiteStore:
    def __init__(self, path: str, *, connect: Connect = sqlite3.connect) -> None:
        owner = _own(path)
        self.read_only = owner is None
        # A file that turns out to be no tree is left to others at once.
        with ExitStack() as opened:
            if owner is not None:
                opened.callback(owner.close)
            # The tree's lock serialises the threads.
            self._db = connect(path, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            self._db.execute("PRAGMA busy_timeout=5000")
            if not self.read_only:
                self._prepare()
            self._sequence, self._hash = self._last_entry()
            self._opened = opened.pop_all()
        self._commits = 0

    def load(self) -> Stored | None:
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        if "revision" not in meta:
            return None
        nodes = [
            NodeRow(row[0], row[1], row[2], row[3], tuple(json.loads(row[4])), row[5])
            for row in self._db.execute(
                "SELECT id, parent, position, payload, tags, changed FROM node ORDER BY parent, position"
            )
        ]
        payloads = [PayloadRow(*row) for row in self._db.execute("SELECT id, type, json, changed FROM payload")]
        return Stored(meta["epoch"], meta["revision"], nodes, payloads)

    def create(self, stored: Stored) -> None:
        with self._transaction():
            self._db.executemany(
                "INSERT INTO meta VALUES(?, ?)", [("epoch", stored.epoch), ("revision", stored.revision)]
            )
            self._put(stored.payloads, stored.nodes)

    def commit(self, commit: Commit) -> None:
        with self._transaction():
            if commit.nodes or commit.gone_nodes:
                # Deleted first: two rows that swap places would meet in the unique index.
                touched = [(row.id,) for row in commit.nodes] + [(node_id,) for node_id in commit.gone_nodes]
                self._db.executemany("DELETE FROM node WHERE id = ?", touched)
            self._put(commit.payloads, commit.nodes)
            if commit.gone_payloads:
                self._db.executemany("DELETE FROM payload WHERE id = ?", [(key,) for key in commit.gone_payloads])
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'revision'", (commit.revision,))
            if commit.remember is not None:
                self._db.execute("INSERT OR REPLACE INTO answer VALUES(?, ?, ?, ?, ?)", commit.remember)
            numbered = self._append(commit.audit)
            self._prune(commit)
        self._sequence, self._hash = numbered.sequence, numbered.hash

    def record(self, entry: AuditEntry) -> None:
        if self.read_only:
            return
        with self._transaction():
            numbered = self._append(entry)
        self._sequence, self._hash = numbered.sequence, numbered.hash

    def remembered(self, agent: str, key: str, now: float) -> Remembered | None:
        row = self._db.execute(
            "SELECT agent, key, request, result, expires FROM answer WHERE agent = ? AND key = ? AND expires > ?",
            (agent, key, now),
        ).fetchone()
        return None if row is None else Remembered(*row)

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        asked = {"agent": query.agent, "operation": query.operation, "outcome": query.outcome}
        given = {name: value for name, value in asked.items() if value is not None}
        where = " AND ".join(["sequence > ?", *(f"{name} = ?" for name in given)])
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM audit WHERE {where} ORDER BY sequence LIMIT ?",
            (query.after, *given.values(), query.limit),
        )
        return [AuditEntry(*row)._replace(targets=tuple(json.loads(row[5]))) for row in rows]

    def close(self) -> None:
        self._opened.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            self._db.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version={_FORMAT};COMMIT;")
        elif found != _FORMAT:
            raise Forbidden(f"The file has format {found}, this version reads {_FORMAT}", reason="format")

    def _last_entry(self) -> tuple[int, str]:
        row = self._db.execute("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1").fetchone()
        return (0, "") if row is None else (row[0], row[1])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise Conflict("The file is in use; try again", reason="storage_busy") from error
            raise
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _put(self, payloads: list[PayloadRow], nodes: list[NodeRow]) -> None:
        if payloads:
            self._db.executemany(
                "INSERT INTO payload VALUES(?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET "
                "type = excluded.type, json = excluded.json, changed = excluded.changed",
                payloads,
            )
        if nodes:
            rows = [(*row[:4], json.dumps(row.tags), row.changed) for row in nodes]
            self._db.executemany("INSERT INTO node VALUES(?, ?, ?, ?, ?, ?)", rows)

    def _append(self, entry: AuditEntry) -> AuditEntry:
        numbered = chained(entry, self._sequence + 1, self._hash)
        marks = ", ".join("?" * len(numbered))
        row = numbered._replace(targets=json.dumps(numbered.targets))  # type: ignore[arg-type]
        self._db.execute(f"INSERT INTO audit VALUES({marks})", row)
        return numbered

    def _prune(self, commit: Commit) -> None:
        self._commits += 1
        if commit.remember is None or self._commits % _PRUNE_EVERY:
            return
        self._db.execute("DELETE FROM answer WHERE expires < unixepoch()")
        self._db.execute(
            "DELETE FROM answer WHERE agent = ?1 AND key NOT IN "
            "(SELECT key FROM answer WHERE agent = ?1 ORDER BY expires DESC LIMIT ?2)",
            (commit.remember.agent, _ANSWERS_KEPT),
        )


def _own(path: str) -> sqlite3.Connection | None:
    """Hold a lock beside the file as long as the process lives; None when another process holds it.

    SQLite's own file lock is used because it works on every system and dies with its process.
    """
    owner = sqlite3.connect(f"{path}.lock", isolation_level=None, timeout=0, check_same_thread=False)
    try:
        owner.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        owner.close()
        return None
    return owner
