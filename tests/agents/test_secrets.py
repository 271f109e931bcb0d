"""Secrets: who gets them, and everywhere they must not be seen."""

import base64
import itertools
import json
import logging
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.running import SECRET, opened, refusal, run, with_external
from tests.agents.servers import until
from tests.agents.support import ProjectFiles
from tests.requirements import requirement

from apcore_agents.failures import ToolError
from apcore_agents.scrubbing import MASK, WITHHELD, Scrubber, scrubbed_logging
from apcore_agents.secrets import Secrets
from apcore_agents.settings import SecretSource

EXTERNAL = 'tools = ["*"]\napproval = "never"'


def secrets(tmp_path: Path, *sources: str, allow: tuple[str, ...] = ("http.svc",), **environment: str) -> Secrets:
    return Secrets({"token": SecretSource(sources=sources, allow=allow)}, tmp_path, environment)


def test_a_secret_is_given_to_its_holders_and_to_nobody_else(tmp_path: Path) -> None:
    held = secrets(tmp_path, "env:TOKEN", TOKEN=SECRET)
    assert held.fill("Bearer secret://token", "http.svc") == f"Bearer {SECRET}"
    for text, holder in (("secret://token", "http.other"), ("secret://unknown", "http.svc")):
        with pytest.raises(ToolError, match="may not use secret"):
            held.fill(text, holder)


def test_the_first_place_that_has_a_value_is_taken(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="utf-8")
    assert secrets(tmp_path, "env:NONE", "file:token").fill("secret://token", "http.svc") == SECRET


@pytest.mark.parametrize(
    ("value", "problem"), [("brief7!", "too short"), ("", "not set"), ("a\r\nX-Admin: 1", "control")]
)
def test_a_value_that_cannot_be_kept_safe_is_not_used(tmp_path: Path, value: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as caught:
        secrets(tmp_path, "env:TOKEN", TOKEN=value).fill("secret://token", "http.svc")
    assert not value or value not in str(caught.value)


def test_an_unreadable_file_is_an_error_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ToolError, match="UnicodeDecodeError"):
        secrets(tmp_path, "file:token").fill("secret://token", "http.svc")


def test_the_keyring_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backend import KeyringBackend

    class Memory(KeyringBackend):
        priority = 1  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            return SECRET if (service, username) == ("apcore", "tickets") else None

        def set_password(self, service: str, username: str, password: str) -> None:
            raise NotImplementedError

    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    try:
        assert secrets(tmp_path, "keyring:apcore/tickets").fill("secret://token", "http.svc") == SECRET
    finally:
        keyring.set_keyring(before)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ToolError, match="not installed"):
        secrets(tmp_path, "keyring:apcore/tickets").fill("secret://token", "http.svc")


def test_a_rotated_secret_is_taken_at_once_and_the_old_one_still_scrubbed(tmp_path: Path) -> None:
    place = tmp_path / "token"
    held = secrets(tmp_path, "file:token")
    for value in ("first-value-1", "second-value-2"):
        place.write_text(value, encoding="utf-8")
        assert held.fill("secret://token", "http.svc") == value
    assert held.scrubber.text("first-value-1 second-value-2") == f"{MASK} {MASK}"


# --- Scrubbing ---


def forms(value: str) -> dict[str, str]:
    data = value.encode()
    return {
        "raw": value,
        "url": quote(value, safe=""),
        "json": json.dumps(value),
        "json in json": json.dumps(json.dumps({"a": value})),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "base64": base64.b64encode(data).decode(),
        "basic": base64.b64encode(b"u:" + data).decode(),
        "basic with more": base64.b64encode(b"user:" + data + b"tail").decode(),
        "urlsafe": base64.urlsafe_b64encode(b"x" + data).decode(),
    }


@pytest.mark.parametrize("value", [SECRET, 'quo"te\\back/slash', "ünïcödé-pass", "plain-password", "a b&c=d<e>"])
def test_a_secret_is_found_in_every_form_a_server_may_echo_it_in(value: str) -> None:
    scrubber = Scrubber()
    scrubber.learn(value)
    for name, text in forms(value).items():
        scrubbed = scrubber.text(f"<{text}>")
        assert MASK in scrubbed, name
        assert len(scrubbed) < len(text), name


def test_keys_numbers_and_objects_are_scrubbed_and_the_rest_is_left_alone() -> None:
    scrubber = Scrubber()
    value = {"a": [1, True, None, 1.5, "x"], "b": ("y",)}
    assert scrubber.value(value) is value
    scrubber.learn("12345678")
    assert scrubber.value({"12345678": 12345678, "n": 7, "f": 1.5, "p": Path("/x/12345678")}) == {
        MASK: MASK,
        "n": 7,
        "f": 1.5,
        "p": MASK,
    }
    assert scrubber.value(value) == {"a": [1, True, None, 1.5, "x"], "b": ["y"]}


TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=30)
VALUES = st.text(alphabet=st.characters(codec="utf-8"), min_size=8, max_size=20)


@given(st.lists(VALUES, min_size=1, max_size=3), st.lists(TEXTS, max_size=4), st.data())
def test_no_secret_survives_scrubbing_and_twice_is_as_good_as_once(
    values: list[str], texts: list[str], data: st.DataObject
) -> None:
    scrubber = Scrubber()
    for value in values:
        scrubber.learn(value)
    text = "".join(data.draw(st.permutations([*texts, *values, *values])))
    scrubbed = scrubber.text(text)
    assert not any(value in scrubbed for value in values)
    assert scrubber.text(scrubbed) == scrubbed
    assert scrubber.value(scrubber.value({"k": [text]})) == scrubber.value({"k": [text]})


@given(st.lists(VALUES, min_size=1, max_size=2), TEXTS, TEXTS, st.lists(st.integers(0, 60), max_size=6))
def test_a_secret_split_over_chunks_is_found(values: list[str], before: str, after: str, cuts: list[int]) -> None:
    scrubber = Scrubber()
    for value in values:
        scrubber.learn(value)
    text = before + values[0] + after + values[-1]
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    stream = scrubber.stream()
    pieces = [stream.push(text[start:end]) for start, end in itertools.pairwise(places)]
    out = "".join([*pieces, stream.finish()])
    assert not any(value in out for value in values)
    assert MASK in out


@given(TEXTS, st.lists(st.integers(0, 40), max_size=5))
def test_a_stream_without_secrets_loses_nothing(text: str, cuts: list[int]) -> None:
    scrubber = Scrubber()
    scrubber.learn("unrelated-secret")
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    stream = scrubber.stream()
    pieces = [stream.push(text[start:end]) for start, end in itertools.pairwise(places)]
    assert "".join([*pieces, stream.finish()]) == text


def test_log_records_and_tracebacks_are_scrubbed(caplog: pytest.LogCaptureFixture) -> None:
    scrubber = Scrubber()
    scrubber.learn(SECRET)
    logger = logging.getLogger("anything.at.all")
    with caplog.at_level(logging.INFO), scrubbed_logging(scrubber):
        logger.info("token %s of %d", SECRET, 7)
        try:
            raise RuntimeError(f"GET /?key={SECRET}")
        except RuntimeError:
            logger.exception("failed")
        logger.info("bad %d", "format")
    assert SECRET not in caplog.text
    assert "token *** of 7" in caplog.text
    assert "RuntimeError: GET /?key=***" in caplog.text
    assert WITHHELD in caplog.text
    logger.info("%s", "afterwards")


# --- In use ---


@requirement("WORKER-006")
def test_results_errors_and_names_of_results_have_no_secret_in_them(
    project: ProjectFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "environment", "fail", "echo", policy=EXTERNAL)
        project.agent("a", ["*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            output = await session.call("mcp__odd__environment", {"name": "TOKEN"})
            assert output["content"][0]["text"] == MASK
            output = await session.call("mcp__odd__echo", {SECRET: base64.b64encode(f"u:{SECRET}".encode()).decode()})
            assert SECRET not in json.dumps(output)
            assert base64.b64encode(SECRET[3:9].encode()).decode()[:4] not in json.dumps(output)
            error = await refusal(session.call("mcp__odd__fail", {"text": f"bad key {SECRET}"}))
            assert error.message == f"bad key {MASK}"
            assert await session.call("shop.leak", {"text": ""}) == {"text": f"your key is {MASK}"}
            error = await refusal(session.call("shop.leak", {"text": "raise"}))
            assert SECRET not in f"{error} {error.details}"

    with caplog.at_level(logging.DEBUG):
        run(work())
    assert SECRET not in caplog.text


def test_what_a_server_writes_to_stderr_is_scrubbed(
    project: ProjectFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        with_external(project, tmp_path, "stderr", policy=EXTERNAL)
        project.agent("a", ["mcp__*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            pieces = [f"starting with {SECRET[:7]}", f"{SECRET[7:]}\n", "ready\n"]
            await session.call("mcp__odd__stderr", {"pieces": pieces})
            await until(lambda: "ready" in caplog.text)

    with caplog.at_level(logging.INFO):
        run(work())
    assert "odd: starting with ***" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET[7:] not in caplog.text


def test_a_server_without_its_secret_is_not_started(project: ProjectFiles, tmp_path: Path) -> None:
    async def work() -> None:
        up = with_external(project, tmp_path, "echo", policy=EXTERNAL)
        project.servers(
            odd={"command": up.server.command, "args": list(up.server.args), "env": {"T": "secret://other"}}
        )
        project.settings(project.config.read_text(encoding="utf-8") + '\n[secrets.other]\nfrom = ["env:OTHER"]\n')
        project.lock(odd=up.tools).agent("a", ["mcp__*"])
        async with opened(project) as runtime, runtime.session("a") as session:
            assert session.names == ()
        assert up.logged() == []

    run(work())


def test_progress_is_scrubbed_also_when_a_secret_is_split(project: ProjectFiles, tmp_path: Path) -> None:
    from apcore import Context

    from apcore_agents.runs import Run
    from apcore_mcp import MCP_PROGRESS_KEY

    async def work() -> None:
        told: list[Any] = []

        async def progress(value: float, total: float | None, message: str | None) -> None:
            told.append(message)

        with_external(project, tmp_path, "report", policy=EXTERNAL)
        project.agent("a", ["*"])
        async with opened(project) as runtime:
            messages = ["half way", f"key {SECRET[:12]}", f"{SECRET[12:]} used", "done"]
            calls = {"mcp__odd__report": {"messages": messages}, "shop.leak": {"text": ""}}
            for name, arguments in calls.items():
                context: Any = Context.create(data={MCP_PROGRESS_KEY: progress})
                await runtime.call(Run("a"), name, arguments, context)
        assert "half way" in told
        text = "".join(message or "" for message in told)
        assert SECRET not in text
        assert SECRET[:12] not in text
        assert MASK in text

    run(work())
