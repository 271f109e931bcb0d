"""Every rule of the catalogue, with an input that breaks it, one that does not, and the message as it is printed.

A rule has a folder of its own: `breaks` and `passes` (snapshots, or extension folders for what happens while loading)
and `findings.txt`.  After a change run `pytest --snapshot-update` and read the diff.
"""

from pathlib import Path

import pytest

from apcore_compiler.compile import analyse, compile_snapshot
from apcore_compiler.findings import Finding, Findings
from apcore_compiler.program import Program
from apcore_compiler.rules import RULES, Rule, Severity
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import read_source
from apcore_runtime import load

FOLDERS = {path.name: path for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name[0] != "_"}
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)

# In every broken input, to see that one bad module costs no other.
UNHARMED = "shop.open"


def analyse_input(rule: Rule, name: str, settings: Settings | None = None) -> tuple[Program, Findings]:
    folder = FOLDERS[f"{rule.code}_{rule.slug}"] / name
    source = folder if folder.is_dir() else folder.with_suffix(".json")
    return analyse(read_source(source), settings or Settings(), folder)


def about(rule: Rule, findings: Findings) -> list[Finding]:
    return [finding for finding in findings if finding.rule is rule]


def test_every_rule_has_a_folder_and_every_folder_a_rule() -> None:
    assert sorted(FOLDERS) == sorted(f"{rule.code}_{rule.slug}" for rule in RULES)


def test_codes_and_slugs_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len({rule.slug for rule in RULES}) == len(RULES)


@each_rule
def test_breaking_a_rule_is_said_in_these_words(rule: Rule, pytestconfig: pytest.Config) -> None:
    _, findings = analyse_input(rule, "breaks")
    assert about(rule, findings)
    words = findings.render("text")
    expected = FOLDERS[f"{rule.code}_{rule.slug}"] / "findings.txt"
    if pytestconfig.getoption("update_snapshots"):
        expected.write_text(words, encoding="utf-8", newline="\n")
    assert words == expected.read_text(encoding="utf-8")


@each_rule
def test_keeping_a_rule_is_not_remarked_upon(rule: Rule) -> None:
    program, findings = analyse_input(rule, "passes")
    assert about(rule, findings) == []
    assert len(program.tools) == len(program.snapshot.modules) > 0


@each_rule
def test_an_error_withholds_its_own_tool_and_no_other(rule: Rule) -> None:
    program, findings = analyse_input(rule, "breaks")
    built = {tool.record.module_id for tool in program.tools}
    faulty = {finding.module_id for finding in about(rule, findings)}
    assert UNHARMED in built
    assert findings.failed == (rule.severity is Severity.ERROR)
    assert built.isdisjoint(faulty) if rule.severity is Severity.ERROR else built > faulty


@each_rule
def test_a_rule_can_be_turned_off(rule: Rule) -> None:
    _, findings = analyse_input(rule, "breaks", Settings(rules={rule.slug: "off"}))
    assert about(rule, findings) == []


@each_rule
def test_what_is_built_with_a_rule_turned_off_is_sound_all_the_same(rule: Rule, tmp_path: Path) -> None:
    program, _ = analyse_input(rule, "breaks", Settings(rules={rule.slug: "off"}))
    compile_snapshot(program.snapshot, program.settings, tmp_path).artifacts.write(tmp_path)
    surface = load(tmp_path)
    assert {surface.spec(name).module_id for name in surface.names} == {tool.record.module_id for tool in program.tools}


@each_rule
def test_a_rule_names_a_reason_and_a_remedy(rule: Rule) -> None:
    assert rule.why.endswith(".")
    assert rule.help.endswith(".")
    assert rule.slug == rule.slug.lower()
