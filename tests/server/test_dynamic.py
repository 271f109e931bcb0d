"""Modules that come and go while the server runs."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from apcore import Registry
from tests.requirements import requirement
from tests.server.clients import OpenStreams, connected, http_client, listening
from tests.server.modules import Add, registry_of, returning, shop
from tests.server.test_serving import CIRCULAR

from apcore_mcp import async_serve
from apcore_mcp.server.tools import LiveTools

pytestmark = pytest.mark.anyio
CHANGED = "notifications/tools/list_changed"


@asynccontextmanager
async def listening_to(registry: Registry, **options: Any) -> AsyncIterator[tuple[str, OpenStreams]]:
    """A dynamic server, and the streams on which its clients listen: what is sent before they are open is lost."""
    async with async_serve(registry, dynamic=True, **options) as app:
        streams = OpenStreams(app)
        async with listening(streams) as url:
            yield url, streams


@requirement("FR-DYNAMIC-001", "FR-DYNAMIC-002", "FR-DYNAMIC-003")
async def test_every_client_hears_of_a_change_and_sees_it() -> None:
    registry = registry_of(first=Add())
    async with listening_to(registry) as (url, streams), http_client(url) as one, http_client(url) as two:
        await streams.reach(2)
        assert one.server["capabilities"]["tools"] == {"listChanged": True}
        await asyncio.to_thread(registry.register, "second", Add())
        await asyncio.gather(one.notified(CHANGED), two.notified(CHANGED))
        assert await one.tool_names() == await two.tool_names() == ["first", "second"]
        assert await one.text("second", {"a": 1}) == '{"total": 2}'
        one.notifications.clear()
        registry.unregister("first")
        await one.notified(CHANGED)
        assert await one.tool_names() == ["second"]
        assert await one.text("first", {"a": 1}) == "Module not found: first"


@requirement("FR-DYNAMIC-003")
async def test_a_fixed_list_promises_no_changes_and_makes_none() -> None:
    registry = registry_of(first=Add())
    async with connected(registry) as client:
        assert client.server["capabilities"]["tools"].get("listChanged") is not True
        registry.register("second", Add())
        assert await client.tool_names() == ["first"]
        assert await client.text("second", {"a": 1}) == "Module not found: second"
        assert client.notifications == []


@requirement("FR-DYNAMIC-001", "FR-FILTER-002")
async def test_a_filter_holds_for_newcomers_too() -> None:
    registry = shop()
    async with listening_to(registry, prefix="api.") as (url, streams), http_client(url) as client:
        await streams.reach(1)
        registry.register("math.more", Add())
        registry.register("api.more", Add())
        await client.notified(CHANGED)
        assert await client.tool_names() == ["api.add", "api.hidden", "api.more"]


@requirement("FR-DYNAMIC-001")
async def test_a_newcomer_that_cannot_be_offered_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_of(first=Add())
    async with connected(registry, dynamic=True) as client:
        with caplog.at_level(logging.WARNING, logger="apcore_mcp"):
            registry.register("bad", returning({}, input_schema=CIRCULAR))
        assert await client.tool_names() == ["first"]
    assert "Module bad is not offered" in caplog.text


@requirement("FR-DYNAMIC-002")
def test_a_module_that_was_never_offered_can_be_unregistered() -> None:
    registry = registry_of(first=Add(), bad=returning({}, input_schema=CIRCULAR))
    tools = LiveTools(registry)
    tools.follow(lambda: None)
    registry.unregister("bad")
    assert [tool["name"] for tool in tools.tools()] == ["first"]


@requirement("FR-DYNAMIC-004", "NFR-REL-003")
def test_many_threads_change_the_list_while_others_read_it() -> None:
    registry = Registry()
    tools = LiveTools(registry)
    tools.follow(lambda: None)
    problems: list[BaseException] = []
    stop = threading.Event()

    def change(number: int) -> None:
        for _ in range(30):
            registry.register(f"tool{number}", Add())
            registry.unregister(f"tool{number}")
        registry.register(f"tool{number}", Add())

    def read() -> None:
        while not stop.is_set():
            names = [tool["name"] for tool in tools.tools()]
            assert names == sorted(set(names))

    def guarded(work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=guarded, args=(read,)) for _ in range(2)]
    writers = [threading.Thread(target=guarded, args=(change, number)) for number in range(4)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert [tool["name"] for tool in tools.tools()] == registry.list() == [f"tool{number}" for number in range(4)]
