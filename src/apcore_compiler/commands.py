"""The compiler's commands."""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from apcore_compiler.artifacts import NotOurs
from apcore_compiler.bundles import BUNDLES
from apcore_compiler.compile import Compilation, analyse, compile_snapshot
from apcore_compiler.emit.tools import PROVIDERS, provider_tools
from apcore_compiler.findings import FORMATS, Findings
from apcore_compiler.format import FormatterFailed
from apcore_compiler.progress import loading_bar
from apcore_compiler.rules import RULES, Severity, agent_rules
from apcore_compiler.settings import BadSettings, Settings, defines_agents, find_settings, read_settings
from apcore_compiler.snapshot import BadSource, Snapshot, read_source, relative_path
from apcore_compiler.tokens import count_tokens

__all__ = ["build", "check", "export", "rules", "snapshot"]

INVALID, FAILED = 1, 2

Command = TypeVar("Command", bound=Callable[..., Any])

# Not readable: what cannot be read is said in our words, and with our exit code.
ANY_PATH = click.Path(path_type=Path, readable=False)

source_argument = click.argument("source", type=ANY_PATH)
config_option = click.option(
    "--config",
    type=ANY_PATH,
    help="Settings file; default: the nearest apcore-mcp.toml or pyproject.toml with [tool.apcore-mcp].",
)
out_option = click.option("-o", "--out", required=True, type=ANY_PATH, help="Directory to write.")
format_option = click.option(
    "--format",
    "style",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="How to print findings.",
)
werror_option = click.option("--werror", is_flag=True, help="Exit with 1 on warnings too.")


def selection_options(command: Command) -> Command:
    """The options that decide what the artifacts hold."""
    for option in reversed(
        [
            click.option(
                "--tags", multiple=True, metavar="TAG", help="Only modules with all of these tags; repeatable."
            ),
            click.option("--prefix", help="Only modules whose id begins with this."),
            click.option(
                "--strict/--no-strict",
                default=None,
                help="OpenAI strict mode for all tools or none; default: where it loses nothing.",
            ),
            click.option(
                "--embed-annotations/--no-embed-annotations",
                default=None,
                help="Append the annotations to descriptions for providers that have no field for them.",
            ),
            click.option(
                "--refs", type=click.Choice(["inline", "keep"]), help="Write out $ref, or keep it in MCP schemas."
            ),
            click.option(
                "--with",
                "bundles",
                multiple=True,
                type=click.Choice(list(BUNDLES)),
                help="Compile these tools in beside the modules of SOURCE; repeatable.",
            ),
            click.option("--name", help="Server name shown to clients."),
            click.option("--version", help="Server version shown to clients."),
            config_option,
        ]
    ):
        command = option(command)
    return command


@click.command()
@source_argument
@out_option
@selection_options
@format_option
@werror_option
def build(source: Path, out: Path, style: str, werror: bool, **given: Any) -> None:
    """Compile SOURCE, an extensions directory or a snapshot, into the directory OUT."""
    with failures_explained(INVALID):
        compilation = _compile(source, out, given)
        compilation.artifacts.write(out)
    _print_findings(compilation.findings, compilation.program.snapshot.root, style)
    click.echo(_summary(compilation, out), err=True)
    _exit_on_errors(compilation.findings, werror=werror)


@click.command()
@source_argument
@out_option
@selection_options
@format_option
@werror_option
def check(source: Path, out: Path, style: str, werror: bool, **given: Any) -> None:
    """Tell whether OUT is what `build` would write.

    Writes nothing.  Exit code 0: current; 1: differs, or SOURCE has errors; 2: could not check.
    """
    with failures_explained(FAILED):
        compilation = _compile(source, out, given)
        difference = compilation.artifacts.diff(out)
    _print_findings(compilation.findings, compilation.program.snapshot.root, style)
    for kind, paths in difference:
        for path in paths:
            click.echo(f"{kind}: {(out / path).as_posix()}", err=style != "text")
    if difference:
        click.echo(f"{out} differs from {source}; run `apcore-mcp build {source} -o {out}`", err=True)
        sys.exit(INVALID)
    _exit_on_errors(compilation.findings, werror=werror)
    click.echo(f"{out} is current", err=True)


@click.command()
@source_argument
@click.option("-o", "--out", type=ANY_PATH, help="File to write; default: standard output.")
@config_option
def snapshot(source: Path, out: Path | None, config: Path | None) -> None:
    """Write the registry of SOURCE as JSON, which `build` takes in place of the extensions."""
    with failures_explained(INVALID):
        taken = _read(source)
        _, findings = analyse(taken, _settings(config, {}), Path.cwd())
        _write_text(taken.to_json(out.parent if out else Path.cwd()), out)
    _print_findings(findings, taken.root, err=True)
    _exit_on_errors(findings)


@click.command()
@source_argument
@click.option("--format", "provider", required=True, type=click.Choice(list(PROVIDERS)), help="Whose tool format.")
@click.option("-o", "--out", type=ANY_PATH, help="File to write; default: standard output.")
@selection_options
def export(source: Path, provider: str, out: Path | None, **given: Any) -> None:
    """Write the tools of SOURCE in one provider's format."""
    with failures_explained(INVALID):
        program, findings = analyse(_read(source), _settings(given.pop("config"), given), Path.cwd())
        _write_text(json.dumps(provider_tools(program, provider), ensure_ascii=False, indent=2) + "\n", out)
    _print_findings(findings, program.snapshot.root, err=True)
    _exit_on_errors(findings)


@click.command()
@click.argument("code", required=False)
def rules(code: str | None) -> None:
    """List the rules, or explain one by its code or name."""
    known = (*RULES, *agent_rules())
    chosen = [rule for rule in known if code is None or code.lower() in (rule.code.lower(), rule.slug)]
    if not chosen:
        _fail(f"there is no rule {code!r}", INVALID)
    for rule in chosen:
        click.echo(f"{rule.code} {rule.slug} ({rule.severity.value})")
        if code is not None:
            click.echo(f"\n{rule.why}\n\nhelp: {rule.help}")


def _compile(source: Path, out: Path, given: dict[str, Any]) -> Compilation:
    config = given.pop("config") or find_settings(Path.cwd())
    settings = _settings(config, given)
    return compile_snapshot(_read(source), settings, out, config if defines_agents(config) else None)


def _read(source: Path) -> Snapshot:
    with loading_bar() as progress:
        taken = read_source(source, progress)
    # What was loaded stays until the process ends; the collector need not go through it then.
    gc.freeze()
    return taken


def _settings(config: Path | None, given: dict[str, Any]) -> Settings:
    tags = tuple(tag for tags in given.pop("tags", ()) for tag in tags.split(","))
    bundles = given.pop("bundles", ())
    found = read_settings(config or find_settings(Path.cwd()))
    return found.override(**given, tags=tags or None, bundles=bundles or None)


@contextmanager
def failures_explained(invalid: int) -> Iterator[None]:
    """One line for what is not the fault of a module: `invalid` for bad arguments, 2 for a failing machine."""
    try:
        yield
    except (BadSource, BadSettings, NotOurs) as error:
        _fail(str(error), invalid)
    except FormatterFailed as error:
        _fail(str(error), FAILED)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or error}{place}", FAILED)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _print_findings(findings: Findings, root: Path | None, style: str = "text", *, err: bool = False) -> None:
    base = "" if root is None else relative_path(root, Path.cwd())
    if findings or style in ("json", "sarif"):
        click.echo(findings.render(style, base or ""), nl=False, err=err)


def _exit_on_errors(findings: Findings, *, werror: bool = False) -> None:
    if findings.failed or (werror and findings.count(Severity.WARNING)):
        sys.exit(INVALID)


def _write_text(text: str, out: Path | None) -> None:
    # As bytes: the encoding of a terminal or a pipe is not for us to trust.
    data = text.encode(errors="backslashreplace")
    if out is None:
        click.echo(data, nl=False)
    else:
        out.write_bytes(data)


def _summary(compilation: Compilation, out: Path) -> str:
    findings = compilation.findings
    parts = [
        _counted(len(compilation.program.tools), "tool"),
        _counted(len(compilation.artifacts.artifacts), "file"),
        count_tokens(compilation.program),
        *(_counted(count, severity) for severity in Severity if (count := findings.count(severity))),
    ]
    return f"{out}: {', '.join(parts)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 or noun == Severity.INFO else f"{number} {noun}s"
