"""What one agent session has set up for itself: its view, filters, bookmarks and pinned pages.  Memory only."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from apcore_tree.engine.history import Mark
from apcore_tree.engine.tokens import Token
from apcore_tree.engine.tree import Tree
from apcore_tree.engine.view import View
from apcore_tree.errors import Conflict
from apcore_tree.settings import Settings

__all__ = ["Session", "Sessions"]

Filters = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass
class Session:
    view: View
    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    revision: int = 0
    filters: dict[str, Filters] = field(default_factory=dict)
    bookmarks: dict[str, str] = field(default_factory=dict)
    pins: OrderedDict[str, tuple[Mark, float]] = field(default_factory=OrderedDict)

    def token(self, revision: int | None = None) -> str:
        return str(Token("v", self.epoch, self.revision if revision is None else revision))

    def saved(self) -> tuple[View, dict[str, Filters], dict[str, str]]:
        return self.view.copy(), dict(self.filters), dict(self.bookmarks)

    def reset(self, saved: tuple[View, dict[str, Filters], dict[str, str]]) -> None:
        self.view, self.filters, self.bookmarks = saved


class Sessions:
    """The sessions last used, and the marks that their pinned pages hold."""

    def __init__(self, tree: Tree, settings: Settings) -> None:
        self._tree = tree
        self._settings = settings
        self._by_key: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def of(self, agent: str, session: str) -> Session:
        key = (agent, session)
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = Session(View(self._settings.default_expanded))
            if len(self._by_key) > self._settings.max_sessions:
                _, oldest = self._by_key.popitem(last=False)
                self._unpin(oldest, list(oldest.pins))
        self._by_key.move_to_end(key)
        return found

    def pin(self, session: Session, now: float) -> str:
        """Hold on to the present state for the pages to come."""
        self.expire(now)
        while len(session.pins) >= self._settings.max_pins:
            self._unpin(session, [next(iter(session.pins))])
        mark = Mark(self._tree.revision, id=f"p-{secrets.token_hex(6)}")
        self._tree.history.push(mark)
        session.pins[mark.id] = (mark, now)
        return mark.id

    def pinned(self, session: Session, pin: str, now: float) -> Mark:
        self.expire(now)
        if pin not in session.pins:
            raise Conflict(
                "The pinned pages have expired", reason="pin_expired", suggestion="begin again without a page token"
            )
        mark, _ = session.pins[pin]
        session.pins[pin] = (mark, now)
        session.pins.move_to_end(pin)
        return mark

    def release(self, session: Session, pin: str) -> None:
        if pin in session.pins:
            self._unpin(session, [pin])

    def expire(self, now: float) -> None:
        for session in self._by_key.values():
            idle = [pin for pin, (_, used) in session.pins.items() if now - used > self._settings.pin_idle_seconds]
            self._unpin(session, idle)

    def _unpin(self, session: Session, pins: list[str]) -> None:
        for pin in pins:
            mark, _ = session.pins.pop(pin)
            self._tree.history.fold(mark)
