"""Where settings come from, which of them win, and what is said about wrong ones."""

import json
from pathlib import Path

import pytest
from tests.compiler.running import extensions, invoke
from tests.requirements import requirement

from apcore_compiler.commands import build, check
from apcore_compiler.settings import BadSettings, Settings, find_settings, read_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    extensions(tmp_path / "ext")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(project: Path, *arguments: str) -> dict[str, object]:
    """Build, and say which options the manifest records."""
    result = invoke(build, "ext", "-o", "out", *arguments)
    assert result.exit_code == 0, result.output
    recorded: dict[str, object] = json.loads((project / "out" / "manifest.json").read_text(encoding="utf-8"))["options"]
    return recorded


def test_without_a_file_everything_is_at_its_default(project: Path) -> None:
    assert options(project) == {}


def test_settings_come_from_the_table_of_a_pyproject(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.apcore-mcp]\nname = "desk"\nstrict = false\n', encoding="utf-8")
    assert options(project) == {"name": "desk", "strict": False}


def test_a_file_of_our_own_goes_before_a_pyproject(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.apcore-mcp]\nname = "pyproject"\n', encoding="utf-8")
    (project / "apcore-mcp.toml").write_text('name = "own"\n', encoding="utf-8")
    assert options(project) == {"name": "own"}


def test_a_named_file_goes_before_both(project: Path) -> None:
    (project / "apcore-mcp.toml").write_text('name = "own"\n', encoding="utf-8")
    (project / "other.toml").write_text('refs = "keep"\nembed-annotations = true\n', encoding="utf-8")
    assert options(project, "--config", "other.toml") == {"embed-annotations": True, "refs": "keep"}


def test_a_flag_goes_before_any_file(project: Path) -> None:
    text = 'name = "own"\nversion = "1.0"\nstrict = true\nembed-annotations = true\ntags = ["nobody"]\nprefix = "x."\n'
    (project / "apcore-mcp.toml").write_text(text, encoding="utf-8")
    flags = ["--name=flag", "--no-strict", "--no-embed-annotations", "--tags=desk", "--prefix=desk.", "--refs=inline"]
    assert options(project, *flags) == {
        "name": "flag",
        "version": "1.0",
        "tags": ["desk"],
        "prefix": "desk.",
        "strict": False,
    }


def test_settings_are_looked_for_upwards_and_end_at_the_nearest_project(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "apcore-mcp.toml").write_text("", encoding="utf-8")
    assert find_settings(deep) == tmp_path / "apcore-mcp.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert find_settings(deep) is None
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.apcore-mcp]\n", encoding="utf-8")
    assert find_settings(deep) == tmp_path / "a" / "pyproject.toml"
    assert read_settings(find_settings(deep)) == Settings()


def test_rules_change_what_a_finding_is_worth(project: Path) -> None:
    (project / "ext" / "desk" / "helper.py").write_text("", encoding="utf-8")
    assert invoke(build, "ext", "-o", "out").exit_code == 1
    (project / "apcore-mcp.toml").write_text("[rules]\nmodule-load-failed = 'warning'\n", encoding="utf-8")
    result = invoke(build, "ext", "-o", "out")
    assert result.exit_code == 0
    assert "ext/desk/helper.py:1: warning[APC001]" in result.stdout


@requirement("FR-SERVER-008", "FR-SERVER-009")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "colour = 'red'",
            "unknown key 'colour'; known are embed-annotations, name, prefix, ",
        ),
        ("embed_annotations = true", "unknown key 'embed_annotations'"),
        ("name = 5", "name must be a str, not 5"),
        ("name = ''", "server name must not be empty"),
        (f"name = '{'x' * 256}'", "server name must not exceed 255 characters"),
        ("version = ''", "server version must not be empty"),
        ("tags = 'read'", "tags must be a list, not 'read'"),
        ("tags = ['']", "tag values must not be empty"),
        ("tags = [7]", "tag values must be strings"),
        ("prefix = ''", "prefix must not be empty"),
        ("refs = 'drop'", "refs must be 'inline' or 'keep'"),
        ("strict = 'maybe'", "strict must be true, false or 'auto'"),
        ("strict = 1", "strict must be a bool, not 1"),
        ("rules = {secret-literal = 'off'}", "rule 'secret-literal' is always an error"),
        ("rules = {nonsense = 'off'}", "there is no rule 'nonsense'; see `apcore-mcp rules`"),
        ("rules = {strict-lossy = 'loud'}", "rule 'strict-lossy': 'loud' is not off, info, warning or error"),
        ("rules = {strict-lossy = 3}", "rule 'strict-lossy': 3 is not off, info, warning or error"),
        ("name = ", "is not TOML: "),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_the_file(text: str, message: str, project: Path) -> None:
    (project / "apcore-mcp.toml").write_text(text, encoding="utf-8")
    for command, code in ((build, 1), (check, 2)):
        result = invoke(command, "ext", "-o", "out")
        assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
        assert result.stderr.startswith(f"Error: {project / 'apcore-mcp.toml'}")
        assert message in result.stderr
    assert not (project / "out").exists()


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\napcore-mcp = 3"])
def test_a_pyproject_of_another_shape_is_an_error(text: str, project: Path) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadSettings, match="must be a table, not 3"):
        find_settings(project)


def test_a_config_that_is_not_there_is_one_line(project: Path) -> None:
    result = invoke(build, "ext", "-o", "out", "--config", "absent.toml")
    assert (result.exit_code, result.stderr) == (1, "Error: absent.toml cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--name=", "server name must not be empty"),
        ("--version=", "server version must not be empty"),
        ("--prefix=", "prefix must not be empty"),
        ("--tags=a,,b", "tag values must not be empty"),
    ],
)
def test_a_wrong_flag_is_one_line(flag: str, message: str, project: Path) -> None:
    result = invoke(build, "ext", "-o", "out", flag)
    assert (result.exit_code, result.stderr) == (1, f"Error: {message}\n")
