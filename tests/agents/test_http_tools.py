"""HTTP tools, and where they cannot be made to go."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.agents.running import SECRET, Service, is_code, opened, refusal, run, service_settings
from tests.agents.servers import http_app, until
from tests.agents.support import ProjectFiles
from tests.requirements import requirement

from apcore_agents.egress import GuardedBackend, is_allowed
from apcore_agents.failures import ToolError
from apcore_agents.http_tools import HttpTool, ServiceClient, build_url
from apcore_agents.secrets import Secrets
from apcore_agents.settings import HttpOperation, HttpService


def calls(project: ProjectFiles, *operations: str, extra: str = "") -> Any:
    """Run work with a session of an agent that has these operations of a running service."""

    def decorate(work: Any) -> None:
        async def whole() -> None:
            service = Service()
            async with service.running() as port:
                project.settings(service_settings(port, *operations, extra=extra)).agent("a", ["http.*"])
                async with opened(project) as runtime, runtime.session("a") as session:
                    await work(session, service)

        run(whole())

    return decorate


def test_a_read_runs_with_its_secret_which_nobody_sees(project: ProjectFiles) -> None:
    @calls(project, "echo")
    async def _(session: Any, service: Service) -> None:
        output = await session.call("http.svc.echo")
        assert service.seen[0]["headers"]["authorization"] == f"Bearer {SECRET}"
        assert output["data"]["headers"]["authorization"] == "Bearer ***"
        assert output["data"]["key"] == "***"
        assert SECRET not in json.dumps(output)


def test_parameters_become_path_query_and_body_and_nothing_else(project: ProjectFiles) -> None:
    @calls(project, "item", "auto", "add")
    async def _(session: Any, service: Service) -> None:
        await session.call("http.svc.item", {"id": "A 1?#é", "q": "x&y=z"})
        assert service.seen[-1]["path"] == "/v1/items/A%201%3F%23%C3%A9"
        assert service.seen[-1]["query"] == "q=x%26y%3Dz"

        async def yes(*_: Any) -> dict[str, bool]:
            return {"approve": True}

        await session.call("http.svc.add", {"title": "t", "dry": True}, ask=yes)
        assert (service.seen[-1]["method"], service.seen[-1]["query"]) == ("POST", "dry=true")
        assert service.seen[-1]["body"] == {"title": "t"}
        await session.call("http.svc.auto")
        assert service.seen[-1]["body"] == {}


@pytest.mark.parametrize("value", ["", ".", "..", "../admin", "a/b", "a\\b", "..%2F..%2Fadmin", "a\r\nX: y", "a\x00"])
def test_a_path_parameter_cannot_lead_elsewhere(project: ProjectFiles, value: str) -> None:
    @calls(project, "item")
    async def _(session: Any, service: Service) -> None:
        assert is_code(await refusal(session.call("http.svc.item", {"id": value})), "INVALID_ARGUMENT")
        assert service.seen == []


def test_an_absolute_url_is_just_a_value(project: ProjectFiles) -> None:
    @calls(project, "item")
    async def _(session: Any, service: Service) -> None:
        error = await refusal(session.call("http.svc.item", {"id": "https://evil.example/"}))
        assert is_code(error, "INVALID_ARGUMENT")
        for arguments in ({"id": "1", "url": "https://evil.example/"}, {"id": "1", "headers": {}}, {}):
            error = await refusal(session.call("http.svc.item", arguments))
            assert error.code == "SCHEMA_VALIDATION_ERROR"
        assert service.seen == []


@requirement("WORKER-005")
def test_a_mutating_call_is_blocked_until_someone_agrees(project: ProjectFiles) -> None:
    questions: list[str] = []

    async def ask(text: str, _: Any) -> dict[str, bool]:
        questions.append(text)
        return {"approve": "leak" not in text}

    @calls(project, "add")
    async def _(session: Any, service: Service) -> None:
        assert (await refusal(session.call("http.svc.add", {"title": "t"}))).code == "APPROVAL_DENIED"
        error = await refusal(session.call("http.svc.add", {"title": "leak"}, ask=ask))
        assert error.code == "APPROVAL_DENIED"
        assert service.seen == []
        assert (await session.call("http.svc.add", {"title": "t"}, ask=ask))["ok"] is True
        assert "POST 127.0.0.1" in questions[0]


@pytest.mark.parametrize("way", ["away", "other", "near"])
def test_redirects_are_not_followed_unless_allowed(project: ProjectFiles, way: str) -> None:
    @calls(project, way)
    async def _(session: Any, service: Service) -> None:
        error = await refusal(session.call(f"http.svc.{way}"))
        assert is_code(error, "REDIRECT_DENIED")
        assert error.details["outcome"] == "failed"
        assert len(service.seen) == 1


def test_a_redirect_within_the_origin_may_be_followed_and_no_other(project: ProjectFiles) -> None:
    @calls(project, "near", "away", "other", "round", extra="redirects = 2")
    async def _(session: Any, service: Service) -> None:
        assert (await session.call("http.svc.near"))["data"] == "grüezi"
        for way in ("away", "other", "round"):
            assert is_code(await refusal(session.call(f"http.svc.{way}")), "REDIRECT_DENIED")
        assert [seen["path"] for seen in service.seen].count("/v1/round") == 3


def test_a_large_body_is_cut_and_a_slow_one_given_up(project: ProjectFiles) -> None:
    @calls(project, "large", "slow")
    async def _(session: Any, service: Service) -> None:
        output = await session.call("http.svc.large")
        assert (len(output["data"]), output["truncated"]) == (65536, True)
        error = await refusal(session.call("http.svc.slow"))
        assert is_code(error, "UPSTREAM_TIMEOUT")
        assert error.retryable is True
        assert "127.0.0.1" in error.message
        assert "/v1/" not in error.message


def test_a_packed_body_is_not_unpacked(project: ProjectFiles) -> None:
    @calls(project, "gzip")
    async def _(session: Any, service: Service) -> None:
        assert is_code(await refusal(session.call("http.svc.gzip")), "UPSTREAM_PROTOCOL")
        assert service.seen[0]["headers"]["accept-encoding"] == "identity"


def test_a_refusal_and_broken_json_are_answers_like_others(project: ProjectFiles) -> None:
    @calls(project, "teapot", "broken")
    async def _(session: Any, service: Service) -> None:
        assert await session.call("http.svc.teapot") == {
            "ok": False,
            "status": 418,
            "data": {"why": "teapot"},
            "truncated": False,
        }
        assert (await session.call("http.svc.broken"))["data"] == "{"


def test_a_proxy_in_the_environment_is_not_used(project: ProjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    @calls(project, "text")
    async def _(session: Any, service: Service) -> None:
        assert (await session.call("http.svc.text"))["status"] == 200


def test_a_service_that_is_not_there_was_not_called(project: ProjectFiles) -> None:
    async def work() -> None:
        project.settings(service_settings(9, "text")).agent("a", ["http.*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            error = await refusal(session.call("http.svc.text"))
            assert is_code(error, "UPSTREAM_UNAVAILABLE")
            assert (error.details["outcome"], error.retryable) == ("not_started", True)

    run(work())


def test_a_caller_that_leaves_ends_the_request(project: ProjectFiles) -> None:
    @calls(project, "slow")
    async def _(session: Any, service: Service) -> None:
        call = asyncio.create_task(session.call("http.svc.slow"))
        await until(lambda: bool(service.seen))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


# --- Where requests may go ---


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "198.18.0.1",
        "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1",
        "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2002:a9fe:a9fe::", "::127.0.0.1", "2001:0:a9fe:a9fe::", "fe80::1%eth0", "not an address",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused_in_every_disguise(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed(address)


def client(answers: list[str], tmp_path: Path, base: str = "https://api.example.com/", **service: Any) -> ServiceClient:
    """A service whose name resolves to what it is told to."""

    async def resolve(host: str, port: int) -> list[str]:
        return answers

    return ServiceClient("svc", HttpService(base_url=base, **service), Secrets({}, tmp_path, {}), resolve)


async def requested(one: ServiceClient) -> Any:
    operation = HttpOperation(method="GET", path="x", description="d")
    try:
        return await refusal(HttpTool(one, operation).execute({}, None))
    finally:
        await one.close()


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["169.254.169.254"], ["::ffff:10.0.0.1"]]
)
def test_a_name_that_leads_inside_is_refused_even_among_good_answers(tmp_path: Path, answers: list[str]) -> None:
    async def work() -> None:
        error = await requested(client(answers, tmp_path))
        assert is_code(error, "EGRESS_DENIED")
        assert error.details["outcome"] == "not_started"
        assert answers[-1] not in error.message

    run(work())


def test_the_vetted_address_is_connected_to_and_the_name_still_verified(tmp_path: Path) -> None:
    async def work() -> None:
        seen: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["path"])

        async with http_app(app) as port:
            one = client(["127.0.0.1"], tmp_path, f"https://api.example.com:{port}/", allow_private=("127.0.0.0/8",))
            error = await requested(one)
        # It reached our socket, which speaks no TLS and has no certificate for that name.
        assert is_code(error, "UPSTREAM_UNAVAILABLE") or is_code(error, "UPSTREAM_DISCONNECTED")
        assert seen == []
        assert ssl.OPENSSL_VERSION

    run(work())


def test_a_name_without_an_answer_is_unavailable(tmp_path: Path) -> None:
    async def work() -> None:
        assert is_code(await requested(client([], tmp_path)), "UPSTREAM_UNAVAILABLE")
        service = HttpService(base_url="https://does-not-exist.invalid/")
        unknown = ServiceClient("svc", service, Secrets({}, tmp_path, {}))
        assert is_code(await requested(unknown), "UPSTREAM_UNAVAILABLE")

    run(work())


def test_the_next_address_is_tried_when_one_does_not_answer(tmp_path: Path) -> None:
    async def work() -> None:
        service = Service()
        async with service.running() as port:
            networks = HttpService(base_url="https://x.example/", allow_private=("127.0.0.0/8",)).networks

            async def resolve(host: str, port: int) -> list[str]:
                return ["127.0.0.9", "127.0.0.1"]

            stream = await GuardedBackend(networks, resolve).connect_tcp("x.example", port, timeout=5)
            await stream.aclose()
            with pytest.raises(ToolError, match="sockets of this machine"):
                await GuardedBackend().connect_unix_socket("/run/docker.sock")

    run(work())


def test_lists_and_flags_are_written_as_a_query_has_them() -> None:
    from urllib.parse import urlsplit

    operation = HttpOperation(method="GET", path="x", description="d", params={"a": {}, "b": {}, "c": {}})
    url = build_url(urlsplit("https://e.example/v1/"), operation, {"a": [1, True], "b": None, "c": {"k": 1}})
    assert url == "https://e.example/v1/x?a=1&a=true&b=null&c=%7B%22k%22%3A1%7D"
