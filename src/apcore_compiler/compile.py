"""The compiler: one pure function, which every command is a verb over."""

from dataclasses import dataclass, replace
from pathlib import Path

from apcore_compiler.agents import compile_agents
from apcore_compiler.artifacts import ArtifactSet
from apcore_compiler.checks import CHECKS
from apcore_compiler.emit import EMITTERS
from apcore_compiler.emit.manifest import emit_manifest
from apcore_compiler.findings import Findings
from apcore_compiler.format import format_artifacts
from apcore_compiler.lower import lower
from apcore_compiler.program import Program
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import Snapshot, collector_paused, relative_path, with_bundles

__all__ = ["Compilation", "analyse", "compile_snapshot"]


@dataclass(frozen=True, slots=True)
class Compilation:
    program: Program
    artifacts: ArtifactSet
    findings: Findings


@collector_paused()
def compile_snapshot(snapshot: Snapshot, settings: Settings, out: Path, agents: Path | None = None) -> Compilation:
    """Compile for the directory `out`, of which nothing but the way back to the sources is used.

    `agents` is the settings file, if it defines any.
    """
    program, findings = analyse(snapshot, settings, out)
    artifacts = format_artifacts([artifact for emit in EMITTERS for artifact in emit(program)])
    if agents is not None:
        artifacts += compile_agents(agents, program, out, findings)
    artifacts.append(emit_manifest(program, artifacts))
    return Compilation(program, ArtifactSet(tuple(artifacts)), findings)


def analyse(snapshot: Snapshot, settings: Settings, out: Path) -> tuple[Program, Findings]:
    """Lower and check; an error withholds the tool it is about."""
    snapshot = with_bundles(snapshot, settings.bundles)
    findings = Findings(settings.rules)
    source = None if snapshot.root is None else relative_path(snapshot.root, out)
    program = lower(snapshot, settings, source, findings)
    for check in CHECKS:
        check(program, findings)
    withheld = findings.withheld
    return replace(program, tools=tuple(t for t in program.tools if t.record.module_id not in withheld)), findings
