"""The `apcore-mcp` command: the server, and the compiler's commands, which are imported when they are used."""

import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from apcore_mcp.serving import run_server
from apcore_runtime.options import DEFAULT_NAME, LOG_LEVELS, TRANSPORTS, ServeOptions
from apcore_runtime.process import leave

COMMANDS = {
    "build": "apcore_compiler.commands:build",
    "check": "apcore_compiler.commands:check",
    "diff": "apcore_compiler.commands:diff",
    "explain": "apcore_compiler.commands:explain",
    "export": "apcore_compiler.commands:export",
    "init": "apcore_compiler.commands:init",
    "lock": "apcore_agents.commands:lock",
    "rules": "apcore_compiler.commands:rules",
    "snapshot": "apcore_compiler.commands:snapshot",
    "tokens": "apcore_compiler.commands:tokens",
    "watch": "apcore_compiler.commands:watch",
}

Decorator = Callable[..., Any]

SERVE_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--transport", type=click.Choice(TRANSPORTS), default="stdio", show_default=True, help="MCP transport."
    ),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on (HTTP)."),
    click.option("--port", type=int, default=8000, show_default=True, help="Port to listen on, 1-65535 (HTTP)."),
    click.option("--name", help=f"Server name, at most 255 characters.  [default: {DEFAULT_NAME}, or the build's]"),
    click.option("--version", help="Server version.  [default: the package's, or the build's]"),
    click.option("--log-level", type=click.Choice(LOG_LEVELS), default="INFO", show_default=True),
    click.option("--tag", "tags", multiple=True, help="Offer only modules that have every given tag."),
    click.option("--prefix", help="Offer only modules whose id begins so."),
    click.option("--dynamic", is_flag=True, help="Follow modules registered while serving."),
    click.option("--validate-inputs", is_flag=True, help="Hold arguments to the published schemas too."),
    click.option("--explorer", is_flag=True, help="Serve the tool explorer (HTTP)."),
    click.option("--explorer-prefix", default="/explorer", show_default=True, help="Where the explorer is."),
    click.option("--allow-execute", is_flag=True, help="Let the explorer run tools."),
    click.option("--metrics", is_flag=True, help="Serve Prometheus metrics at /metrics (HTTP)."),
    click.option("--stateless", is_flag=True, help="Keep no session between requests (streamable HTTP)."),
    click.option("--json-response", is_flag=True, help="Answer with JSON instead of event streams (streamable HTTP)."),
    click.option("--allow-host", "allow_hosts", multiple=True, help="Accept this Host header beside loopback names."),
    click.option(
        "--allow-origin", "allow_origins", multiple=True, help="Accept this Origin, e.g. https://app.example."
    ),
    click.option("--identity", help="Who calls over stdio, as the ACL is to see them."),
    click.option("--role", "roles", multiple=True, help="A role of that identity."),
)


def serve_options(command: Decorator) -> Any:
    for option in reversed(SERVE_OPTIONS):
        command = option(command)
    return command


class Commands(click.Group):
    """Finds a command by its table entry, so that serving imports no compiler."""

    def list_commands(self, _: click.Context) -> list[str]:
        return sorted([*super().list_commands(_), *COMMANDS])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return super().get_command(context, name)
        module, _, attribute = COMMANDS[name].partition(":")
        try:
            found: click.Command | None = getattr(importlib.import_module(module), attribute, None)
        except ModuleNotFoundError as error:
            if module.startswith(error.name or "?"):
                return None
            raise
        return found


@click.group(cls=Commands, invoke_without_command=True)
@click.option("--extensions-dir", metavar="DIRECTORY", help="Serve the modules found in this directory.")
@serve_options
@click.pass_context
def command(context: click.Context, /, extensions_dir: str | None, **options: Any) -> None:
    """Serve apcore modules over MCP, or compile them: see the commands below."""
    if context.invoked_subcommand is not None:
        return
    if extensions_dir is None:
        raise click.UsageError("Missing option '--extensions-dir'.")
    directory = _directory(extensions_dir)
    _serve(lambda: _discover(directory), options)


@command.command()
@click.argument("generated", type=click.Path(path_type=Path))
@click.option("--extensions-dir", metavar="DIRECTORY", help="Where the modules are, if not where they were built from.")
@serve_options
def serve(generated: Path, extensions_dir: str | None, **options: Any) -> None:
    """Serve the compiled directory GENERATED."""
    from apcore_runtime.surface import NotASurface, load

    try:
        surface = load(generated, _directory(extensions_dir) if extensions_dir else None)
    except NotASurface as error:
        _fail(str(error), 1)
    _serve(lambda: surface, options)


def _directory(path: str) -> Path:
    directory = Path(path)
    if not directory.exists():
        _fail(f"extensions directory does not exist: {path}", 1)
    if not directory.is_dir():
        _fail(f"extensions path is not a directory: {path}", 1)
    return directory


def _discover(directory: Path) -> Any:
    from apcore import Registry

    from apcore_runtime.loading import register_directory

    registry = Registry()
    for failure in register_directory(directory, registry):
        logging.getLogger(__name__).warning("%s:%d is not offered: %s", failure.file, failure.line, failure.reason)
    return registry


def _serve(open_source: Callable[[], Any], given: dict[str, Any]) -> None:
    try:
        options = _options(**given)
    except (TypeError, ValueError) as error:
        _fail(str(error), 1)
    try:
        run_server(open_source, options)
    except (OSError, RuntimeError) as error:
        _fail(str(error), 2)
    leave()


def _options(*, name: str | None, identity: str | None, roles: Sequence[str], port: int, **given: Any) -> ServeOptions:
    if not 1 <= port <= 65535:
        raise ValueError("port must be between 1 and 65535")
    if name == "":
        raise ValueError("server name must not be empty")
    if roles and not identity:
        raise ValueError("--role needs --identity")
    for several in ("tags", "allow_hosts", "allow_origins"):
        given[several] = list(given[several]) or None
    if identity:
        from apcore import Identity

        given["identity"] = Identity(id=identity, roles=tuple(roles))
    return ServeOptions(port=port, name=DEFAULT_NAME if name is None else name, **given)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    command.main(args=list(arguments) if arguments is not None else None, prog_name="apcore-mcp")
