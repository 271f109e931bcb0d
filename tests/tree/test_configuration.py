"""What a deployment says about its tree in a file, and what it may not say."""

import re
import sys
from pathlib import Path

import pytest
from tests.server.clients import ROOT, stdio_connection

from apcore_host.options import ServeOptions
from apcore_mcp.cli import main
from apcore_tree import Caller, Forbidden, InvalidArgument
from apcore_tree.bundle import open_bundle
from apcore_tree.configuration import Configuration, read_configuration

EDITOR = Caller("ann", roles=("editor",))

PARTS = """
tokens = "footprint"
rate_limit = "60/minute"

[payload_types.part]
read_only = ["Number"]
sensitive = ["Cost"]
schema = { type = "object", required = ["Number"], properties = { Number = { type = "string" } } }

[rulesets.catalogue]
max_depth = 3
required = { part = ["Supplier"] }
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "tree.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert read_configuration(written(tmp_path, "")) == Configuration()


def test_types_rules_and_limits_hold_for_the_tools(tmp_path: Path) -> None:
    bundle = open_bundle(config=str(written(tmp_path, PARTS)))
    call = bundle.service.call
    status = call("get_status", {}, EDITOR)
    assert "part" in status["payloadTypes"]
    assert "catalogue" in status["rulesets"]
    part = {"parentNodeId": "root", "payloadType": "part", "versionToken": status["version"]}
    with pytest.raises(InvalidArgument, match="breaks 'required'"):
        call("add_child", {**part, "payloadProps": {"Cost": 3}}, EDITOR)
    added = call("add_child", {**part, "payloadProps": {"Number": "A-1", "Cost": 3}}, EDITOR)
    node = call("get_node", {"nodeId": added["nodeId"]}, EDITOR)["node"]
    assert node["payload"] == {"Number": "A-1", "Cost": "***REDACTED***"}
    issues = call("lint_payload", {"nodeId": added["nodeId"], "rulesetId": "catalogue"}, EDITOR)["issues"]
    assert [issue["ruleId"] for issue in issues] == ["required-missing"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_tree_that_will_be_lost_is_announced(kept: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_bundle(f"sqlite:{tmp_path / 'tree.db'}" if kept else "memory:").close()
    assert ("--tree-store sqlite:PATH" in caplog.text) is not kept


def test_a_tree_can_be_read_only(tmp_path: Path) -> None:
    service = open_bundle(config=str(written(tmp_path, "read_only = true"))).service
    version = service.call("get_status", {}, EDITOR)["version"]
    with pytest.raises(Forbidden):
        service.call("tag_node", {"nodeId": "root", "tags": ["x"], "versionToken": version}, EDITOR)


REFUSED = [
    ("readOnly = true", "readOnly: is not a known key"),
    ("tokens = 'loose'", "tokens: Input should be 'strict' or 'footprint'"),
    ("max_nodes = 0", "max_nodes: must be more than 0"),
    ("rate_limit = 'often'", "'often' is no rate"),
    ("payload_types = 3", "payload_types: must be a table of tables"),
    ("[payload_types.object]", "payload_types.object: is built in"),
    ("[payload_types.'9 lives']", "'9 lives' is no name for a payload type"),
    ("[payload_types.part]\ncolour = 'red'", "payload_types.part.colour: is not a known key"),
    ("[payload_types.part]\nschema = { type = 3 }", "payload_types.part.schema: 3 is not valid"),
    ("[rulesets.default]", "rulesets.default: is built in"),
    ("[rulesets.r]\nmax_depth = 'deep'", "rulesets.r.max_depth: Input should be a valid integer"),
    ("[rulesets.r.payload_schemas]\npart = { type = 3 }", "rulesets.r.payload_schemas.part: 3 is not valid"),
    ("read_only = ", "Invalid value"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_means_nothing_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")) as refused:
        read_configuration(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [None, "readOnly = true"])
def test_the_command_refuses_a_bad_file_before_it_serves(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tree.toml" if text is None else written(tmp_path, text)
    with pytest.raises(SystemExit) as left:
        main(["serve", str(ROOT / "generated"), "--tree-config", str(path)])
    assert left.value.code == 1
    assert capsys.readouterr().err.startswith(f"Error: {path}: ")


def test_without_the_extra_the_file_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apcore_tree.configuration", None)
    with pytest.raises(ValueError, match=re.escape("pip install 'apcore-mcp[tree]'")):
        ServeOptions(tree_config=str(written(tmp_path, "")))


@pytest.mark.anyio
async def test_a_server_follows_its_file(tmp_path: Path) -> None:
    serve = ["-m", "apcore_mcp", "serve", str(ROOT / "generated"), "--tree-config", str(written(tmp_path, PARTS))]
    async with stdio_connection(*serve, "--identity", "ann", "--role", "editor", "--log-level", "ERROR") as client:
        status = (await client.call("tree.get_status"))["structuredContent"]
    assert "part" in status["payloadTypes"]
