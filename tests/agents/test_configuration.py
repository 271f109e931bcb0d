"""What a project says about agents, servers, HTTP tools and secrets."""

import json
from pathlib import Path

import pytest
from tests.agents.support import ProjectFiles, slugs
from tests.compiler.running import extensions, run

from apcore_agents.project import read_project
from apcore_agents.servers import StdioServer, VariableUnset, expand, read_servers
from apcore_agents.settings import TABLES, BadProject
from apcore_compiler.settings import AGENT_TABLES, defines_agents

SERVICE = '[http.tickets]\nbase_url = "https://api.example.com/v2/"\n'


@pytest.mark.parametrize(
    "text",
    [
        "[agents]\nmax_dept = 2\n",
        '[mcp]\nmasks = ["mcp__*"]\n',
        f"{SERVICE}max_byte = 1\n",
        f'{SERVICE}[http.tickets.read]\nmethod = "GET"\npath = "x"\ndescription = "d"\naproval = "auto"\n',
        '[secrets.token]\nfrom = ["env:TOKEN"]\nalow = ["http.tickets"]\n',
    ],
    ids=["agents", "mcp", "service", "operation", "secret"],
)
def test_an_unknown_key_is_refused_wherever_it_stands(project: ProjectFiles, text: str) -> None:
    with pytest.raises(BadProject, match=r"apcore-mcp\.toml: .*(unknown key|max_byte)"):
        project.settings(text).read()


def test_the_same_tables_are_read_from_pyproject(tmp_path: Path) -> None:
    config = tmp_path / "pyproject.toml"
    config.write_text("[tool.apcore-mcp.agents]\nmax_depth = 4\n", encoding="utf-8")
    assert read_project(config).tables.agents.max_depth == 4


def test_a_project_without_our_tables_is_built_without_us(project: ProjectFiles) -> None:
    assert not defines_agents(project.settings('name = "shop"\n').config)
    assert not defines_agents(None)
    assert defines_agents(project.settings("[agents]\n").config)
    assert AGENT_TABLES == TABLES


def test_mcp_json_is_read_as_other_programs_write_it(project: ProjectFiles) -> None:
    project.servers(
        files={"command": "npx", "args": ["-y", "server@1.0.0", "."], "env": {"A": "${A}"}, "disabled": False},
        remote={"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${T}"}},
    )
    servers = read_servers(project.root / ".mcp.json")
    assert servers["files"] == StdioServer("files", "npx", ("-y", "server@1.0.0", "."), {"A": "${A}"})
    assert servers["files"].source["env"] == ["A"]
    assert servers["remote"].source["headers"] == ["Authorization"]


@pytest.mark.parametrize("alias", ["my_server", "Files", "a__b", "", "x" * 33, "fïles", "files\n"])
def test_a_server_name_that_could_be_split_or_mistaken_is_refused(project: ProjectFiles, alias: str) -> None:
    project.servers(**{alias: {"command": "x"}})
    with pytest.raises(BadProject, match="at most 32"):
        project.read()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"mcpServers": {"a": {}}}', '{"mcpServers": {"a": {"url": "ftp://x/"}}}', '{"servers": {}}'],
)
def test_an_unusable_mcp_json_is_named(project: ProjectFiles, text: str) -> None:
    with pytest.raises(BadProject, match=r"\.mcp\.json"):
        project.write(".mcp.json", text).read()


def test_an_unset_variable_is_never_sent_as_its_own_name() -> None:
    assert expand("${A} ${B:-b} ${C:-}", {"A": "a"}) == "a b "
    with pytest.raises(VariableUnset, match="TOKEN"):
        expand("Bearer ${TOKEN}", {})


def test_a_policy_for_a_server_that_does_not_exist_is_refused(project: ProjectFiles) -> None:
    with pytest.raises(BadProject, match="no server of this name"):
        project.settings('[mcp.servers.githib]\ntools = ["*"]\n').servers(github={"command": "x"}).read()


def test_a_secret_for_a_holder_that_does_not_exist_is_refused(project: ProjectFiles) -> None:
    with pytest.raises(BadProject, match=r"there is no http\.tikets"):
        project.settings(f'{SERVICE}[secrets.t]\nfrom = ["env:T"]\nallow = ["http.tikets"]\n').read()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://api.example.com/", "https"),
        ("https://user:pw@api.example.com/", "credentials"),
        ("https://api.example.com/?key=1", "query"),
        ("https://api.example.com/#a", "fragment"),
        ("https://api.example.com/a/../b", "dot segments"),
        ("https://exämple.com/", "xn--"),
        ("https://2130706433/", "disguise"),
        ("https://0x7f000001/", "disguise"),
        ("https://127.1/", "disguise"),
        ("https:///x", "no host"),
        ("http://127.0.0.1:80/", "allow_private"),
        ("ftp://example.com/", "https"),
        ("https://exa mple.com/", "invalid host"),
    ],
)
def test_a_base_url_that_is_no_fixed_public_origin_is_refused(project: ProjectFiles, url: str, problem: str) -> None:
    with pytest.raises(BadProject, match=problem):
        project.settings(f'[http.t]\nbase_url = "{url}"\n').read()


def test_plain_http_is_accepted_for_a_listed_loopback_address(project: ProjectFiles) -> None:
    text = '[http.t]\nbase_url = "http://127.0.0.1:9/"\nallow_private = ["127.0.0.0/8"]\n'
    assert project.settings(text).read().tables.http["t"].base_url == "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ('method = "TRACE"\npath = "a"', "TRACE is not one of"),
        ('method = "CONNECT"\npath = "a"', "CONNECT is not one of"),
        ('method = "GET"\npath = "/a"', "relative"),
        ('method = "GET"\npath = "https://evil.example/"', "relative"),
        ('method = "GET"\npath = "a/../b"', "relative"),
        ('method = "GET"\npath = "a?x=1"', "relative"),
        ('method = "GET"\npath = "a/{id}"', "'id' is not one of its params"),
    ],
)
def test_an_operation_that_could_leave_its_origin_is_refused(
    project: ProjectFiles, operation: str, problem: str
) -> None:
    with pytest.raises(BadProject, match=problem):
        project.settings(f'{SERVICE}[http.tickets.read]\n{operation}\ndescription = "d"\n').read()


@pytest.mark.parametrize("header", ['Host = "x"', 'Authorization = "a\\r\\nX: b"', '"X Y" = "a"', 'X = "ä"'])
def test_a_header_that_could_become_another_is_refused(project: ProjectFiles, header: str) -> None:
    with pytest.raises(BadProject, match="header"):
        project.settings(f"{SERVICE}headers = {{ {header} }}\n").read()


def test_mutating_methods_ask_unless_the_file_says_otherwise(project: ProjectFiles) -> None:
    operations = {"read": "GET", "head": "HEAD", "add": "POST", "put": "PUT", "patch": "PATCH", "drop": "DELETE"}
    text = "".join(
        f'[http.tickets.{name}]\nmethod = "{method}"\npath = "x"\ndescription = "d"\n'
        for name, method in operations.items()
    )
    auto = '[http.tickets.auto]\nmethod = "post"\npath = "x"\ndescription = "d"\napproval = "auto"\n'
    asks = '[http.tickets.asks]\nmethod = "GET"\npath = "x"\ndescription = "d"\napproval = "required"\n'
    read = project.settings(SERVICE + text + auto + asks).read().tables.http["tickets"].operations
    asking = {name for name, operation in read.items() if operation.needs_approval}
    assert asking == {"add", "put", "patch", "drop", "asks"}
    assert slugs(project.build()).count("write-unapproved") == 1


@pytest.mark.parametrize("suffix", ["md", "yaml", "toml"])
def test_an_agent_may_be_written_in_three_ways(project: ProjectFiles, suffix: str) -> None:
    texts = {
        "md": "---\nname: a\ntools: [x, 'y_*']\nlimits: {max_steps: 3, timeout: 2m}\n---\n\nBe kind.\n",
        "yaml": "name: a\ntools: [x, 'y_*']\nlimits: {max_steps: 3, timeout: 2m}\nprompt: Be kind.\n",
        "toml": 'name = "a"\ntools = ["x", "y_*"]\nlimits = {max_steps = 3, timeout = "2m"}\nprompt = "Be kind."\n',
    }
    (profile,) = project.write(f"agents/a.{suffix}", texts[suffix]).read().profiles
    assert (profile.tools, profile.prompt, profile.limits.max_steps) == (("x", "y_*"), "Be kind.", 3)
    assert profile.limits.timeout == 120


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: a\n---\n", "tools is missing"),
        ("---\nname: ../a\ntools: []\n---\n", "must be of a-z"),
        ("---\nname: a\ntools: []\ndenny: [x]\n---\n", "unknown key"),
        ("no front matter", "front matter"),
        ("---\n- a\n---\n", "keys and values"),
        ("---\nname: [\n---\n", "cannot be read"),
    ],
)
def test_an_agent_that_cannot_be_understood_is_refused(project: ProjectFiles, text: str, problem: str) -> None:
    with pytest.raises(BadProject, match=problem):
        project.write("agents/a.md", text).read()


def test_two_agents_of_one_name_are_refused(project: ProjectFiles) -> None:
    project.agent("a", []).write("agents/b.md", "---\nname: a\ntools: []\n---\n")
    with pytest.raises(BadProject, match="in both"):
        project.read()


def test_a_claude_agent_is_imported_with_what_it_means_there(project: ProjectFiles) -> None:
    project.settings('[agents]\nimport = [".claude/agents"]\n')
    project.write(".claude/agents/all.md", "---\nname: all\ndescription: d\nmodel: opus\n---\nHi\n")
    project.write(
        ".claude/agents/some.md", "---\nname: some\ntools: Read, Bash, shop.find\ndisallowedTools: shop.drop\n---\nHi\n"
    )
    build = project.build("shop.find", "shop.drop")
    assert build.agents["all"].root == ("shop.drop", "shop.find")
    assert build.agents["some"].root == ("shop.find",)
    assert slugs(build) == ["tools-inherited"]


@pytest.mark.parametrize(
    "config",
    [
        '[http.t]\nbase_url = "https://e.example/"\nheaders = { Authorization = "Bearer sk-abcdefghijklmnopqrst" }\n',
        '[http.t]\nbase_url = "https://e.example/"\nheaders = { X-Api-Key = "hunter2" }\n',
        '[http.t]\nbase_url = "https://e.example/ghp_abcdefghijklmnopqrstuvwxyz/"\n',
    ],
)
def test_a_credential_in_the_settings_fails_the_build(project: ProjectFiles, config: str) -> None:
    assert "secret-literal" in slugs(project.settings(config).build(), "error")


def test_a_credential_in_mcp_json_fails_the_build(project: ProjectFiles) -> None:
    project.servers(a={"command": "x", "env": {"GITHUB_TOKEN": "abc"}}, b={"command": "x", "env": {"T_TOKEN": "${T}"}})
    assert slugs(project.build(), "error") == ["secret-literal"]


def test_a_package_without_a_version_is_reported(project: ProjectFiles) -> None:
    project.servers(
        a={"command": "npx", "args": ["-y", "@scope/server"]},
        b={"command": "npx", "args": ["-y", "@scope/server@1.2.3"]},
        c={"command": "uvx", "args": ["server==1.0"]},
        d={"command": "python", "args": ["server.py"]},
    )
    found = [note.message for note in project.build().notes if note.rule.slug == "server-unpinned"]
    assert found == ["server 'a' runs npx -y @scope/server"]


def test_the_fingerprint_follows_grants_and_not_prompts(project: ProjectFiles) -> None:
    before = project.agent("a", ["x"]).read().fingerprint
    prompt = json.dumps({"name": "a", "tools": ["x"]})
    assert project.write("agents/a.md", f"---\n{prompt}\n---\nOther words.\n").read().fingerprint == before
    assert project.agent("a", ["x", "y"]).read().fingerprint != before


@pytest.mark.parametrize(("level", "code"), [("error", 1), ("off", 0)])
def test_a_rule_about_agents_has_the_level_that_the_settings_give_it(level: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.md").write_text("---\nname: clerk\ntools: [desk.gret]\n---\n", encoding="utf-8")
    settings = f'[agents]\n[rules]\nagent-tool-unknown = "{level}"\n'
    (tmp_path / "apcore-mcp.toml").write_text(settings, encoding="utf-8")
    built = run("build", extensions(tmp_path / "extensions"), "-o", tmp_path / "out", cwd=tmp_path)
    assert (built.returncode, f"{level}[APC601]" in built.stdout + built.stderr) == (code, level != "off")
