"""The tree as a service: every tool, with its limits, tokens, idempotency, audit and storage.

`call` is the whole way in for a process without apcore: rate, role, arguments, then the work.  `run` is the work alone,
for callers (the modules) whose pipeline has checked the rest.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator

from apcore_tree.access import check_role
from apcore_tree.calls import BulkChange, Call, Change, Read, SessionChange
from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import Json, Node
from apcore_tree.engine.paging import PageTokens
from apcore_tree.engine.payload_types import PayloadType, PayloadTypes
from apcore_tree.engine.rulesets import Ruleset, Rulesets
from apcore_tree.engine.source import Pinned
from apcore_tree.engine.tokens import Token
from apcore_tree.engine.tree import Tree, random_ids
from apcore_tree.errors import Forbidden, Internal, InvalidArgument, NotFound, TreeError, as_tree_error
from apcore_tree.rate import RateLimit
from apcore_tree.session import Session, Sessions
from apcore_tree.settings import Caller, Settings
from apcore_tree.store import MemoryStore, Store
from apcore_tree.store.protocol import AuditEntry, AuditQuery, Commit, Remembered
from apcore_tree.store.rows import add_rows, stored_form_of, tree_of
from apcore_tree.tools.catalogue import TOOLS
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TreeService"]

_logger = logging.getLogger(__name__)
_IDS_SHOWN = 200
# Arguments that name what a call is about, for the audit.
_TARGETS = (
    "nodeId", "parentNodeId", "newParentId", "siblingId", "parentId", "sourceId", "targetParentId", "rootNodeId",
    "rootId", "snapshotId", "label",
)  # fmt: skip
# Arguments about the call rather than of it; apcore resumes an approved call with a token of its own.
_NOT_ASKED = ("versionToken", "idempotencyKey", "_approval_token")


class _DryRun(Exception):
    """Leaves an edit so that it is taken back, with the result it would have had."""

    def __init__(self, result: Json) -> None:
        self.result = result


class TreeService:
    def __init__(
        self,
        store: Store | None = None,
        *,
        settings: Settings | None = None,
        payload_types: tuple[PayloadType, ...] = (),
        rulesets: tuple[Ruleset, ...] = (),
        root: Json | None = None,
        new_ids: Iterator[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`root` is the payload of the root of a tree made here; a stored tree keeps its own."""
        self.store: Store = store if store is not None else MemoryStore()
        self.settings = settings or Settings()
        self.types = PayloadTypes(payload_types)
        self.rulesets = Rulesets(rulesets)
        self.now = clock
        self._new_ids = new_ids or random_ids()
        self.tree = self._open(root)
        self.sessions = Sessions(self.tree, self.settings)
        self.page_tokens = PageTokens()
        self.rate = RateLimit(self.settings.rate_limit)
        self._storage_failed = False

    # -- the ways in

    def call(self, name: str, arguments: Json, caller: Caller) -> Json:
        """One tool call with every check; raises one of the six errors."""
        try:
            tool = _tool(name)
            self.rate.hit(caller.id)
            check_role(tool, caller, self.settings)
            tool.check(arguments)
        except TreeError as error:
            self.audit_failure(name, arguments, caller, error)
            raise
        return self.run(name, arguments, caller)

    def run(self, name: str, arguments: Json, caller: Caller) -> Json:
        """The work of a tool, its arguments checked."""
        tool = _tool(name)
        try:
            complete = tool.complete(arguments)
            return self._read(tool, complete, caller) if tool.reads else self._mutate(tool, complete, caller)
        except Exception as error:
            known = as_tree_error(error)
            if known is not error:
                _logger.exception("tree.%s failed", name)
            self.audit_failure(name, arguments, caller, known)
            raise known from None if known is error else error

    def replay(self, name: str, arguments: Json, caller: Caller) -> Json | None:
        """The remembered answer to the request, if its key has one."""
        with self.tree.lock:
            return self._replay(_tool(name), arguments, caller)

    def preview(self, name: str, arguments: Json, caller: Caller) -> Json | None:
        """The result that a change would have now; nothing is kept.  None for tools that do not change the tree."""
        tool = _tool(name)
        if tool.kind is not Kind.CHANGE:
            return None
        call = Change(self, tool, tool.complete(arguments), caller)
        with self.tree.lock:
            try:
                with self.tree.edit() as mark:
                    call.tool.work(call)
                    raise _DryRun(self._summary(mark))
            except _DryRun as dry:
                return dry.result

    def is_long(self, name: str) -> bool:
        """Whether the call is better made off the event loop."""
        return _tool(name).long and len(self.tree.nodes) > self.settings.unlocked_reads_above

    def audit(self, query: AuditQuery | None = None) -> list[AuditEntry]:
        with self.tree.lock:
            return self.store.audit(query or AuditQuery())

    def drop_snapshot(self, snapshot_id: str) -> None:
        with self.tree.lock:
            for mark in self.tree.history.marks:
                if mark.label is not None and mark.id == snapshot_id:
                    self.tree.history.fold(mark)
                    return
        raise NotFound(f"There is no snapshot {snapshot_id!r}")

    def close(self) -> None:
        with self.tree.lock:
            self.store.close()

    # -- what tools ask of it

    def version(self, revision: int | None = None) -> str:
        scope = "t" if self.settings.tokens == "strict" else "f"
        return str(Token(scope, self.tree.epoch, self.tree.revision if revision is None else revision))

    def new_id(self) -> str:
        return next(self._new_ids)

    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds")

    def check_part(self, field: str, schema: Json, part: Any) -> None:
        """Check a part of the arguments that its own schema left open."""
        if not _validator(json.dumps(schema, sort_keys=True)).is_valid(part):
            raise InvalidArgument(f"A part of {field!r} has the wrong shape", field=field)

    def release_pin(self, session: Session, pin: str) -> None:
        with self.tree.lock:
            self.sessions.release(session, pin)

    def refusal(self, caller: Caller) -> str | None:
        """Why the caller may not change anything just now."""
        if self._storage_failed:
            return "storage_failed"
        return "read_only" if self.settings.read_only or self.store.read_only or caller.read_only else None

    # -- reading

    def _read(self, tool: Tool, arguments: Json, caller: Caller) -> Json:
        with self.tree.lock:
            call = Read(self, tool, arguments, caller)
            if call.source.pinned or not self.is_long(tool.name):
                return tool.work(call)
            mark = Mark(self.tree.revision)
            self.tree.history.push(mark)
        try:
            call.source = Pinned(self.tree, mark)
            return tool.work(call)
        finally:
            with self.tree.lock:
                self.tree.history.fold(mark)

    # -- changing

    def _mutate(self, tool: Tool, arguments: Json, caller: Caller) -> Json:
        with self.tree.lock:
            known = self._replay(tool, arguments, caller)
            if known is not None:
                return known
            reason = self.refusal(caller)
            if reason is not None:
                raise Forbidden("Changes are refused", reason=reason)
            if tool.kind is Kind.SESSION:
                return self._change_session(SessionChange(self, tool, arguments, caller))
            if tool.kind is Kind.BULK:
                return self._change_in_bulk(BulkChange(self, tool, arguments, caller))
            return self._change(Change(self, tool, arguments, caller))

    def _replay(self, tool: Tool, arguments: Json, caller: Caller) -> Json | None:
        key = arguments.get("idempotencyKey")
        if tool.reads or not isinstance(key, str):
            return None
        known = self.store.remembered(caller.id, key, self.now())
        if known is None:
            return None
        if known.request != _request_hash(tool.name, tool.complete(arguments)):
            raise InvalidArgument(
                "The idempotency key was used for another request",
                field="idempotencyKey",
                reason="idempotency_key_reused",
            )
        result: Json = json.loads(known.result)
        return result

    def _change(self, call: Change) -> Json:
        call.check_token()
        before = self.tree.revision
        try:
            with self.tree.edit() as mark:
                own = call.tool.work(call)
                result = {**self._summary(mark), **own}
                if call.get("dryRun"):
                    raise _DryRun({**result, "version": self.version(before)})
                self._store(call, result, before, mark)
        except _DryRun as dry:
            return dry.result
        call.finish()
        return result

    def _summary(self, mark: Mark) -> Json:
        """What every change reports; the revision is the one that the edit will have."""
        revision = self.tree.revision + 1
        changed = [node_id for node_id in mark.nodes if self._has_changed(node_id, revision)]
        for record in mark.payloads.values():
            changed += sorted(user.id for user in record.payload.each_user())
        distinct = list(dict.fromkeys(changed))
        return {
            "version": self.version(revision if mark.touched else self.tree.revision),
            "changedIds": distinct[:_IDS_SHOWN],
            "changedCount": len(distinct),
        }

    def _has_changed(self, node_id: str, revision: int) -> bool:
        node = self.tree.nodes.get(node_id)
        return node is None or node.changed == revision

    def _change_session(self, call: SessionChange) -> Json:
        call.check_token()
        session = call.session
        saved = session.saved()
        try:
            own = call.tool.work(call)
            after = session.revision + (1 if own["changedCount"] else 0)
            result = {"viewVersion": session.token(after), "version": call.version, **own}
            self._store(call, result, self.tree.revision)
        except BaseException:
            session.reset(saved)
            raise
        session.revision = after
        return result

    def _change_in_bulk(self, call: BulkChange) -> Json:
        call.check_token()
        before = self.tree.revision
        own = call.tool.work(call)
        updated = [result["nodeId"] for result in own["results"] if result["outcome"] == "updated"]
        result = {
            "version": self.version(),
            "changedIds": updated[:_IDS_SHOWN],
            "changedCount": len(updated),
            **own,
        }
        if not call["dryRun"]:
            self._store(call, result, before)
        return result

    def commit_one(self, call: BulkChange, node: Node, change: Callable[[], Json]) -> Json:
        """One node of a bulk change, under a key of its own so that a repeated call resumes."""
        owner, key = _answer_name(call, node)
        if key is not None:
            known = self.store.remembered(owner, key, self.now())
            if known is not None and known.request == _request_hash(call.tool.name, call.arguments):
                done: Json = json.loads(known.result)
                return done
        before = self.tree.revision
        with self.tree.edit() as mark:
            result = change()
            self._store(call, result, before, mark, node)
        return result

    # -- storing

    def _store(self, call: Call, result: Json, before: int, mark: Mark | None = None, one: Node | None = None) -> None:
        """Everything that this change leaves behind, in one transaction; `one` is the node of a part."""
        after = before + 1 if mark is not None and mark.touched else self.tree.revision
        request = _request_hash(call.tool.name, call.arguments)
        entry = self._entry(call.tool.name, call.arguments, call.caller, request, before, after)
        commit = Commit(after, entry._replace(targets=_targets(call, result) if one is None else (one.id,)))
        if mark is not None:
            add_rows(commit, self.tree, mark)
        owner, key = _answer_name(call, one)
        if key is not None:
            expires = self.now() + self.settings.answers_kept_seconds
            commit.remember = Remembered(owner, key, request, json.dumps(result), expires)
        try:
            self.store.commit(commit)
        except TreeError:
            raise
        except Exception as error:
            self._storage_failed = True
            _logger.critical("the store refused a commit; the tree is read-only from here on", exc_info=True)
            raise Internal("The change could not be stored", reason="storage_failed") from error

    # -- the audit

    def audit_failure(self, name: str, arguments: Any, caller: Caller, error: TreeError) -> None:
        """Write down a refused or failed change, once."""
        tool = TOOLS.get(name)
        if error.audited or tool is None or tool.reads:
            return
        error.audited = True
        known = arguments if isinstance(arguments, dict) else {}
        try:
            with self.tree.lock:
                revision = self.tree.revision
                request = _request_hash(name, known)
                entry = self._entry(name, known, caller, request, revision, revision)
                self.store.record(entry._replace(outcome="failure", code=error.code, message=error.message[:500]))
        except Exception:
            _logger.critical("a failure could not be audited: %s %s", name, error, exc_info=True)

    def _entry(self, name: str, arguments: Json, caller: Caller, request: str, before: int, after: int) -> AuditEntry:
        return AuditEntry(
            at=self.timestamp(),
            agent=caller.id,
            agent_type=caller.type,
            session=caller.session,
            operation=name,
            targets=_named_targets(arguments),
            outcome="success",
            code=None,
            message=None,
            revision_before=before,
            revision_after=after,
            request=request,
            trace_id=caller.trace_id,
        )

    # -- opening

    def _open(self, root: Json | None) -> Tree:
        stored = self.store.load()
        if stored is not None:
            return tree_of(stored, self._new_ids)
        tree = Tree(root_data=root, new_ids=self._new_ids)
        self.store.create(stored_form_of(tree))
        return tree


def _tool(name: str) -> Tool:
    try:
        return TOOLS[name]
    except KeyError:
        raise NotFound(f"There is no tool {name!r}") from None


def _request_hash(name: str, arguments: Json) -> str:
    """The same for the same request, whatever version it was made on."""
    asked = {key: value for key, value in arguments.items() if key not in _NOT_ASKED}
    text = json.dumps([name, asked], sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=8)
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


def _answer_name(call: Call, one: Node | None) -> tuple[str, str | None]:
    """Under which agent and key an answer is remembered; parts are kept where no key of the agent's can meet them."""
    key = call.get("idempotencyKey")
    if one is None:
        return call.caller.id, key
    return f"\x1f{call.caller.id}", None if key is None else f"{key}#{one.id}"


def _targets(call: Call, result: Json) -> tuple[str, ...]:
    named = [*_named_targets(call.arguments), *_named_targets(result)]
    return tuple(dict.fromkeys(named))


def _named_targets(arguments: Json) -> tuple[str, ...]:
    return tuple(value for name in _TARGETS if isinstance(value := arguments.get(name), str))
