"""What the compiler has to say about its input, and how it says it."""

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from apcore_compiler.rules import Rule, Severity

__all__ = ["FORMATS", "Finding", "Findings"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at a place; `file` is relative to the extensions directory, and empty when there is none."""

    rule: Rule
    severity: Severity
    message: str
    module_id: str = ""
    file: str = ""
    line: int = 0

    @property
    def order(self) -> tuple[Any, ...]:
        # Every field takes part: findings must not depend on the order in which they were made.
        return (self.file, self.line, self.rule.code, self.module_id, self.message)

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.rule.code,
            "rule": self.rule.slug,
            "severity": self.severity.value,
            "module": self.module_id or None,
            "file": self.file or None,
            "line": self.line or None,
            "message": self.message,
            "help": self.rule.help,
        }


class Findings:
    """All findings of one run, at the levels the settings give them."""

    def __init__(self, levels: dict[str, str] | None = None) -> None:
        self._levels = levels or {}
        self._found: list[Finding] = []

    def add(self, rule: Rule, message: str, module_id: str = "", file: str = "", line: int = 0) -> None:
        level = self._levels.get(rule.slug, rule.severity.value)
        if level != "off":
            self._found.append(Finding(rule, Severity(level), message, module_id, file, line))

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._found, key=lambda finding: finding.order))

    def __len__(self) -> int:
        return len(self._found)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self._found)

    @property
    def failed(self) -> bool:
        return self.count(Severity.ERROR) > 0

    @property
    def withheld(self) -> set[str]:
        """The modules that an error is about."""
        return {finding.module_id for finding in self._found if finding.severity is Severity.ERROR}

    def render(self, style: str, base: str = "") -> str:
        """Render in one of FORMATS; `base` is put before file names, so that they lead there from here."""
        placed = [_placed(finding, base) for finding in self]
        return FORMATS[style](placed)


def _placed(finding: Finding, base: str) -> Finding:
    if not finding.file or not base:
        return finding
    file = posixpath.normpath(f"{base}/{finding.file}")
    return Finding(finding.rule, finding.severity, finding.message, finding.module_id, file, finding.line)


def _place(finding: Finding) -> str:
    if finding.file:
        return f"{finding.file}:{finding.line}" if finding.line else finding.file
    return finding.module_id or "registry"


def render_text(findings: Iterable[Finding]) -> str:
    return "".join(_text(finding) for finding in findings)


def _text(finding: Finding) -> str:
    rule = finding.rule
    line = visible(f"{_place(finding)}: {finding.severity.value}[{rule.code}] {rule.slug}: {finding.message}")
    # A remark asks for nothing.
    return f"{line}\n" if finding.severity is Severity.INFO else f"{line}\n  help: {rule.help}\n"


def visible(text: str) -> str:
    """One line of print: names and paths come from the input, and must not move a terminal's cursor."""
    return text if text.isprintable() else repr(text)[1:-1]


def render_json(findings: Iterable[Finding]) -> str:
    return json.dumps([finding.as_dict() for finding in findings], indent=2) + "\n"


def render_github(findings: Iterable[Finding]) -> str:
    """Workflow commands, which GitHub shows beside the line."""
    commands = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
    return "".join(
        f"::{commands[finding.severity]} {_github_properties(finding)}::{_github_data(finding.message)}\n"
        for finding in findings
    )


def _github_properties(finding: Finding) -> str:
    properties = {"title": f"{finding.rule.code} {finding.rule.slug}"}
    if finding.file:
        properties |= {"file": finding.file, "line": str(finding.line or 1)}
    return ",".join(f"{key}={_github_property(value)}" for key, value in properties.items())


def _github_data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


def render_sarif(findings: Iterable[Finding]) -> str:
    found = list(findings)
    rules = sorted({finding.rule for finding in found}, key=lambda rule: rule.code)
    driver = {"name": "apcore-mcp", "rules": [_sarif_rule(rule) for rule in rules]}
    run = {"tool": {"driver": driver}, "results": [_sarif_result(finding) for finding in found]}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2) + "\n"


_SARIF_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.slug,
        "shortDescription": {"text": rule.why},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": _SARIF_LEVEL[rule.severity]},
    }


def _sarif_result(finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule.code,
        "level": _SARIF_LEVEL[finding.severity],
        "message": {"text": finding.message},
    }
    if finding.file:
        uri = quote(finding.file, errors="replace")
        physical = {"artifactLocation": {"uri": uri}, "region": {"startLine": finding.line or 1}}
        result["locations"] = [{"physicalLocation": physical}]
    return result


FORMATS: dict[str, Callable[[Iterable[Finding]], str]] = {
    "text": render_text,
    "json": render_json,
    "github": render_github,
    "sarif": render_sarif,
}
