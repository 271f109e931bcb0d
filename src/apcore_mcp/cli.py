"""The `apcore-mcp` command: the server, and the compiler's commands, which are imported when they are used."""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from apcore_host.options import ServeOptions
from apcore_host.process import leave
from apcore_mcp.serving import run_server
from apcore_runtime.slim import slim_package

COMMANDS = {
    "agents": "apcore_agents.commands:agents",
    "build": "apcore_compiler.commands:build",
    "check": "apcore_compiler.commands:check",
    "explain": "apcore_agents.commands:explain",
    "export": "apcore_compiler.commands:export",
    "lock": "apcore_agents.commands:lock",
    "rules": "apcore_compiler.commands:rules",
    "snapshot": "apcore_compiler.commands:snapshot",
}

# Imported whole by the MCP SDK, for clients, for HTTP and for validating what the Executor validates.
NOT_FOR_STDIO = ("mcp", "mcp.server", "httpx", "jsonschema")

Decorator = Callable[..., Any]


def serve_options(command: Decorator) -> Any:
    """The flags of every option of a server that can be written down."""
    for option in (
        click.option("--role", "roles", multiple=True, help="A role of that identity."),
        click.option("--identity", help="Who calls over stdio, as the ACL is to see them."),
        *(_flag(field) for field in reversed(fields(ServeOptions)) if field.metadata),
    ):
        command = option(command)
    return command


def _flag(field: Any) -> Decorator:
    how = field.metadata
    default = how.get("assumed", field.default)
    kind: dict[str, Any] = {"type": click.Choice(how["choices"])} if "choices" in how else {"type": type(default or "")}
    if isinstance(default, bool):
        kind = {"is_flag": True}
    elif "flag" in how:
        kind = {"multiple": True}
    flag = how.get("flag", field.name.replace("_", "-"))
    shown = default is not None and default is not False
    return click.option(f"--{flag}", field.name, default=default, show_default=shown, help=how["help"], **kind)


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
        if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in context.params):
            raise click.UsageError(f"The options of '{context.invoked_subcommand}' belong after its name.")
        return
    if extensions_dir is None:
        raise click.UsageError("Missing option '--extensions-dir'.")
    directory = _directory(extensions_dir)
    _serve(lambda: _discover(directory), options)


@command.command()
@click.argument("generated", type=click.Path(path_type=Path))
@click.option("--extensions-dir", metavar="DIRECTORY", help="Where the modules are, if not where they were built from.")
@click.option("--agent", help="Serve an agent of the build instead; over HTTP, '*' is each at /agents/NAME/mcp.")
@serve_options
def serve(generated: Path, extensions_dir: str | None, agent: str | None, **options: Any) -> None:
    """Serve the compiled directory GENERATED."""
    from apcore_runtime.surface import NotASurface, load

    try:
        surface = load(generated, _directory(extensions_dir) if extensions_dir else None)
    except NotASurface as error:
        _fail(str(error), 1)
    if agent:
        importlib.import_module("apcore_agents.commands").serve_agent(surface, agent, lambda: _options(**options))
    else:
        _serve(lambda: surface, options)


def _directory(path: str) -> Path:
    directory = Path(path)
    if not directory.exists():
        _fail(f"extensions directory does not exist: {path}", 1)
    if not directory.is_dir():
        _fail(f"extensions path is not a directory: {path}", 1)
    return directory


def _discover(directory: Path) -> Any:
    from apcore_runtime.loading import load_registry

    return load_registry(directory)


def _serve(open_source: Callable[[], Any], given: dict[str, Any]) -> None:
    try:
        options = _options(**given)
    except (TypeError, ValueError) as error:
        _fail(str(error), 1)
    if options.transport == "stdio":
        for package in NOT_FOR_STDIO:
            slim_package(package)
    try:
        run_server(open_source, options)
    except (OSError, RuntimeError) as error:
        _fail(str(error), 2)
    leave()


def _options(*, identity: str | None, roles: Sequence[str], **flags: Any) -> ServeOptions:
    given: dict[str, Any] = {
        name: list(value) or None if isinstance(value, tuple) else value for name, value in flags.items()
    }
    if not 1 <= given["port"] <= 65535:
        raise ValueError("port must be between 1 and 65535")
    if not given["name"]:
        raise ValueError("server name must not be empty")
    if roles and not identity:
        raise ValueError("--role needs --identity")
    if identity:
        from apcore import Identity

        given["identity"] = Identity(id=identity, roles=tuple(roles))
    return ServeOptions(**given)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    command.main(args=list(arguments) if arguments is not None else None, prog_name="apcore-mcp")
