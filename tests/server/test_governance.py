"""Who calls, what they may do, and who has to agree."""

import json
from typing import Any, ClassVar

import pytest
from apcore import ACL, ACLRule, Identity, ModuleAnnotations, Registry
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from tests.requirements import requirement
from tests.server.clients import connected, environment, http_client, http_server, stdio_connection
from tests.server.modules import Function, Secret, executor_of, registry_of, returning, who

pytestmark = pytest.mark.anyio
NEEDS_APPROVAL = ModuleAnnotations(destructive=True, requires_approval=True)


def dangerous(done: list[Any]) -> Registry:
    def erase(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        done.append(inputs)
        return {"erased": inputs["user"]}

    return registry_of(erase=Function(erase, input_schema=Secret, annotations=NEEDS_APPROVAL))


CALL = {"user": "ada", "password": "hunter2"}


async def test_an_approved_call_runs_once_and_the_next_one_asks_again() -> None:
    done: list[Any] = []
    async with connected(dangerous(done), answers=[{"approve": True}, {"approve": False}]) as client:
        assert await client.text("erase", CALL) == '{"erased": "ada"}'
        assert await client.text("erase", CALL) == "Module error: APPROVAL_DENIED"
    assert done == [CALL]


async def test_the_question_shows_the_exact_call_but_no_secret() -> None:
    async with connected(dangerous([]), answers=[None]) as client:
        await client.call("erase", CALL)
    message = client.questions[0]["message"]
    assert message.startswith("Approve this call of erase?")
    assert json.loads(message.partition("\n\n")[2]) == {"user": "ada", "password": "***REDACTED***"}


@pytest.mark.parametrize(
    "answers",
    [None, [None], [{}], [{"approve": "yes"}], [{"approve": 1}]],
    ids=["nobody to ask", "declined", "no answer", "a string", "a number"],
)
async def test_whatever_is_no_plain_yes_is_a_no(answers: list[Any] | None) -> None:
    done: list[Any] = []
    async with connected(dangerous(done), answers=answers) as client:
        result = await client.call("erase", CALL)
    assert result["content"][0]["text"] == "Module error: APPROVAL_DENIED"
    assert done == []


async def test_no_token_stands_for_an_approval() -> None:
    done: list[Any] = []
    async with connected(dangerous(done), answers=[{"approve": True}]) as client:
        result = await client.call("erase", {**CALL, "_approval_token": "approved-before"})
    assert result["isError"] is True
    assert done == []


async def test_a_question_nobody_answers_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from apcore_host import governance

    monkeypatch.setattr(governance, "PATIENCE", 0.05)
    done: list[Any] = []
    async with connected(dangerous(done), answers=[{"approve": True}]) as client:
        original = client._elicited

        async def too_late(context: Any, params: Any) -> Any:
            await asyncio.sleep(0.3)
            return await original(context, params)

        client.session._elicitation_callback = too_late
        assert await client.text("erase", CALL) == "Module error: APPROVAL_TIMEOUT"
    assert done == []


async def test_a_given_executor_keeps_its_own_policy() -> None:
    from apcore.approval import AutoApproveHandler

    done: list[Any] = []
    executor = executor_of(dangerous(done), approval_handler=AutoApproveHandler())
    async with connected(executor, answers=[]) as client:
        assert await client.text("erase", CALL) == '{"erased": "ada"}'
    assert (done, client.questions) == ([CALL], [])


class Tokens:
    """A verifier of the SDK's kind, with three known tokens."""

    known: ClassVar = {
        "ada": AccessToken(token="ada", client_id="web", scopes=["read", "admin"]),
        "bob": AccessToken(token="bob", client_id="web", scopes=["read"]),
        "past": AccessToken(token="past", client_id="web", scopes=["read", "admin"], expires_at=1),
    }

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.known.get(token)


ADMINS = ACL(
    rules=[
        ACLRule(callers=["*"], targets=["who"], effect="allow", description="anybody"),
        ACLRule(
            callers=["*"], targets=["secret"], effect="allow", description="admins", conditions={"roles": ["admin"]}
        ),
    ]
)


def governed() -> Any:
    return executor_of(registry_of(who=Function(who), secret=returning({"it": "is"})), acl=ADMINS)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@requirement("NFR-SEC-001")
async def test_the_verified_token_becomes_the_identity_and_its_scopes_the_roles() -> None:
    async with (
        http_server(governed(), token_verifier=Tokens()) as url,
        http_client(url, headers=bearer("ada")) as ada,
        http_client(url, headers=bearer("bob")) as bob,
    ):
        assert json.loads(await ada.text("who")) == {"id": "web", "roles": ["read", "admin"]}
        assert await ada.text("secret") == '{"it": "is"}'
        assert json.loads(await bob.text("who"))["roles"] == ["read"]
        assert await bob.text("secret") == "Access denied"


@pytest.mark.parametrize("headers", [{}, bearer("unknown"), bearer("past")], ids=["none", "unknown", "expired"])
async def test_without_a_valid_token_there_is_no_session(headers: dict[str, str]) -> None:
    import httpx

    settings = AuthSettings(
        issuer_url="https://issuer.example",
        resource_server_url="http://127.0.0.1:8000/mcp",
        validate_token_resource=False,
        required_scopes=["read"],
    )
    options = {"token_verifier": Tokens(), "auth": settings, "metrics": True}
    async with http_server(governed(), **options) as url, httpx.AsyncClient(headers=headers) as http:
        answer = await http.post(f"{url}/mcp", json={})
        metrics = await http.get(f"{url}/metrics")
        metadata = await http.get(f"{url}/.well-known/oauth-protected-resource/mcp")
    assert (answer.status_code, metrics.status_code) == (401, 401)
    assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert metadata.json()["authorization_servers"] in (["https://issuer.example"], ["https://issuer.example/"])


async def test_without_tokens_nobody_is_somebody_over_http(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(governed(), identity=Identity(id="root", roles=("admin",))) as client:
        assert await client.text("who") == '{"id": null}'
        assert await client.text("secret") == "Access denied"
    assert "identity is for stdio" in caplog.text


SCRIPT = """
from apcore import Identity
from apcore_mcp import serve
from tests.server.test_governance import governed

serve(governed(), identity=Identity(id="desk", roles=("admin",)))
"""


async def test_the_configured_identity_calls_over_stdio() -> None:
    assert environment()["PYTHONPATH"]
    async with stdio_connection("-c", f"import sys; sys.path.insert(0, '.')\n{SCRIPT}") as client:
        assert json.loads(await client.text("who")) == {"id": "desk", "roles": ["admin"]}
        assert await client.text("secret") == '{"it": "is"}'
