"""The manifest: which files a build owns, what they were made from, and the way back from a tool to its source."""

import json

from apcore_compiler.artifacts import GENERATOR, MANIFEST, Artifact, manifest_digest
from apcore_compiler.emit.quoting import templates_digest
from apcore_compiler.program import Program
from apcore_mcp import __version__

__all__ = ["emit_manifest"]


def emit_manifest(program: Program, artifacts: list[Artifact]) -> Artifact:
    """Describe a build; comes last, since it holds the digests of the formatted files."""
    manifest = {
        "generator": f"{GENERATOR} {__version__}",
        "templates": templates_digest(),
        "input": program.snapshot.digest,
        "source": program.source,
        "options": program.settings.options(),
        "files": {artifact.path: artifact.digest for artifact in sorted(artifacts, key=lambda one: one.path)},
        "sources": program.snapshot.sources,
        "tools": {
            tool.names.mcp: f"{tool.record.file}:{tool.record.line}" if tool.record.file else None
            for tool in program.tools
        },
    }
    manifest["digest"] = manifest_digest(manifest)
    return Artifact(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=2) + "\n")
