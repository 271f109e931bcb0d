"""How findings are printed: for people, for scripts, for GitHub and for code scanning."""

import itertools
import json
import random
from pathlib import Path

import pytest
from tests.compiler.running import extensions, invoke

from apcore_compiler import rules
from apcore_compiler.commands import build
from apcore_compiler.commands import rules as list_rules
from apcore_compiler.findings import FORMATS, Findings
from apcore_compiler.rules import RULES, Severity, agent_rules

FOUND = [
    (rules.DESCRIPTION_MISSING, "desk.hum has no description", "desk.hum", "desk/hum.py", 3),
    (rules.MODULE_LOAD_FAILED, "SyntaxError: 100% wrong, at: x", "", "desk/a,b:c.py", 7),
    (rules.SCHEMA_KEYWORD_DROPPED, "strict mode cannot express #/x", "desk.sing", "", 0),
    (rules.MODULE_LOAD_FAILED, "live: failed", "", "", 0),
    (rules.DESCRIPTION_MISSING, "another", "desk.hum", "desk/hum.py", 3),
]


def findings(found: list[tuple[rules.Rule, str, str, str, int]] = FOUND) -> Findings:
    collected = Findings()
    for finding in found:
        collected.add(*finding)
    return collected


def test_text_gives_place_severity_code_and_help_but_asks_nothing_for_a_remark() -> None:
    assert findings().render("text").splitlines() == [
        "registry: error[APC001] module-load-failed: live: failed",
        "  help: Mend the file, or give it a name that begins with _ if it is a helper.",
        "desk.sing: info[APC205] schema-keyword-dropped: strict mode cannot express #/x",
        "desk/a,b:c.py:7: error[APC001] module-load-failed: SyntaxError: 100% wrong, at: x",
        "  help: Mend the file, or give it a name that begins with _ if it is a helper.",
        "desk/hum.py:3: warning[APC301] description-missing: another",
        "  help: Say in a sentence what the module does, and when to use it.",
        "desk/hum.py:3: warning[APC301] description-missing: desk.hum has no description",
        "  help: Say in a sentence what the module does, and when to use it.",
    ]


@pytest.mark.parametrize("style", FORMATS)
def test_findings_come_in_one_order_whatever_order_they_were_made_in(style: str) -> None:
    shuffled = random.Random(7).sample(list(itertools.permutations(FOUND)), 20)
    assert {findings(list(order)).render(style) for order in shuffled} == {findings().render(style)}


def test_the_base_is_put_before_file_names_and_nothing_else() -> None:
    text = findings().render("text", "../ext")
    assert "../ext/desk/hum.py:3: " in text
    assert "\ndesk.sing: " in text


def test_json_has_every_field_and_null_for_what_is_not_known() -> None:
    first, *_, last = json.loads(findings().render("json"))
    assert first == {
        "code": "APC001",
        "rule": "module-load-failed",
        "severity": "error",
        "module": None,
        "file": None,
        "line": None,
        "message": "live: failed",
        "help": "Mend the file, or give it a name that begins with _ if it is a helper.",
    }
    assert (last["module"], last["file"], last["line"]) == ("desk.hum", "desk/hum.py", 3)


def test_github_escapes_what_its_commands_are_made_of() -> None:
    assert findings().render("github").splitlines()[2] == (
        "::error title=APC001 module-load-failed,file=desk/a%2Cb%3Ac.py,line=7::SyntaxError: 100%25 wrong, at: x"
    )
    assert [line.split(" ")[0] for line in findings().render("github").splitlines()] == [
        "::error",
        "::notice",
        "::error",
        "::warning",
        "::warning",
    ]


@pytest.mark.parametrize("style", ["text", "github"])
def test_a_message_cannot_begin_a_line_or_move_the_cursor(style: str) -> None:
    evil = "x\n::error::forged\r\x1b[2J\u202e\ud800"
    found = findings([(rules.MODULE_LOAD_FAILED, evil, "", f"{evil}.py", 1)])
    printed = found.render(style)
    assert printed.count("\n") == (2 if style == "text" else 1)
    assert printed.replace("\n", "").isprintable()


def test_sarif_has_what_code_scanning_reads() -> None:
    document = json.loads(findings().render("sarif", "ext"))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    described = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(described) == sorted(described) == ["APC001", "APC205", "APC301"]
    for rule in described.values():
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert result["ruleId"] in described
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        for location in result.get("locations", ()):
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"].startswith("ext/")
            assert physical["region"]["startLine"] >= 1


def test_sarif_addresses_files_by_uri() -> None:
    found = findings([(rules.MODULE_LOAD_FAILED, "x", "", "my desk/100% ä.py", 1)])
    (result,) = json.loads(found.render("sarif"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20desk/100%25%20%C3%A4.py"


def test_no_findings_are_an_empty_document_for_machines_and_nothing_for_people(tmp_path: Path) -> None:
    source = extensions(tmp_path / "ext")
    printed = {style: invoke(build, source, "-o", tmp_path / "out", "--format", style).stdout for style in FORMATS}
    assert (printed["text"], printed["github"]) == ("", "")
    assert json.loads(printed["json"]) == []
    assert json.loads(printed["sarif"])["runs"][0]["results"] == []


def test_levels_change_the_severity_and_off_forgets() -> None:
    found = Findings({"description-missing": "error", "module-load-failed": "off"})
    for finding in FOUND:
        found.add(*finding)
    assert (found.count(Severity.ERROR), found.count(Severity.INFO), len(found)) == (2, 1, 3)
    assert found.withheld == {"desk.hum"}


def test_rules_are_listed_and_explained() -> None:
    listed = invoke(list_rules).stdout.splitlines()
    assert listed == [f"{rule.code} {rule.slug} ({rule.severity.value})" for rule in (*RULES, *agent_rules())]
    for name in ("APC301", "apc301", "description-missing"):
        explained = invoke(list_rules, name).stdout
        assert explained.startswith("APC301 description-missing (warning)\n\nA model chooses tools by description")
        assert "\n\nhelp: Say in a sentence" in explained
    unknown = invoke(list_rules, "APC999")
    assert (unknown.exit_code, unknown.stderr) == (1, "Error: there is no rule 'APC999'\n")
