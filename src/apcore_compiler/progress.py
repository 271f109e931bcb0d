"""A progress bar for builds that take long enough to wonder."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from apcore_compiler.snapshot import Progress

__all__ = ["loading_bar"]

PATIENCE = 1.0


@contextmanager
def loading_bar() -> Iterator[Progress]:
    """Show how many files are loaded, on a terminal and after a second."""
    started = time.monotonic()
    shown = False

    def show(done: int, total: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and (shown or time.monotonic() - started > PATIENCE):
            shown = True
            filled = 30 * done // total
            click.echo(f"\rloading [{'#' * filled}{'-' * (30 - filled)}] {done}/{total}", nl=False, err=True)

    try:
        yield show
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)
