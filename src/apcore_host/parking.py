"""Calls that wait for an answer of the user, where a server may only answer and never ask.

A call that has a question is parked, and its request is answered with the question and a token.  The client repeats the
request with token and answer, and the call goes on where it stood: nothing runs twice.  A token is good for one answer,
to the very same call, within a few minutes.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

__all__ = ["ParkedCalls", "Question"]

Ask = Callable[[str, dict[str, Any] | None], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Question:
    token: str
    message: str
    schema: dict[str, Any] | None


class _Call:
    def __init__(self, binding: Any, run: Callable[[Ask], Coroutine[Any, Any, Any]]) -> None:
        self.binding = binding
        self._asked: asyncio.Queue[tuple[str, dict[str, Any] | None]] = asyncio.Queue()
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.create_task(run(self._ask))

    async def _ask(self, message: str, schema: dict[str, Any] | None) -> Any:
        await self._asked.put((message, schema))
        return await self._answers.get()

    def answer(self, answer: Any) -> None:
        self._answers.put_nowait(answer)

    async def next_question(self) -> tuple[str, dict[str, Any] | None] | None:
        """What the call asks next; None when it is done."""
        asking = asyncio.create_task(self._asked.get())
        try:
            await asyncio.wait((self.task, asking), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        finally:
            asking.cancel()
        return asking.result() if asking.done() and not asking.cancelled() else None


class ParkedCalls:
    def __init__(self, patience: float = 300.0) -> None:
        self._patience = patience
        self._calls: dict[str, _Call] = {}

    async def start(self, binding: Any, run: Callable[[Ask], Coroutine[Any, Any, Any]]) -> Any:
        """The result of `run`, or the `Question` it has; `binding` is what a later answer must match."""
        return await self._proceed(_Call(binding, run))

    async def resume(self, token: str, binding: Any, answer: Any) -> Any:
        """Go on with a parked call; `KeyError` when the token is spent, expired or another call's."""
        call = self._calls.pop(token)
        if call.binding != binding:
            call.task.cancel()
            raise KeyError(token)
        call.answer(answer)
        return await self._proceed(call)

    def give_up(self) -> None:
        """End the calls that wait, when nobody can answer any more."""
        for token in list(self._calls):
            self._expire(token)

    async def _proceed(self, call: _Call) -> Any:
        question = await call.next_question()
        if question is None:
            return await call.task
        token = secrets.token_urlsafe(24)
        self._calls[token] = call
        asyncio.get_running_loop().call_later(self._patience, self._expire, token)
        return Question(token, *question)

    def _expire(self, token: str) -> None:
        if token in self._calls:
            self._calls.pop(token).task.cancel()
