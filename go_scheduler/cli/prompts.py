"""Asks before a command changes more than one thing."""

from __future__ import annotations

import sys

import typer

from go_scheduler.cli.options import ExitCode
from go_scheduler.cli.output import note
from go_scheduler.errors import ConfigurationError


def confirm(question: str, count: int, *, yes: bool) -> None:
    """Ask the user before a change of more than one thing.

    Args:
        question: For example ``delete 12 definitions``.
        count: The number of things.
        yes: Whether the user has agreed by ``--yes``.

    Raises:
        ConfigurationError: There is no terminal to ask.
        typer.Exit: The user said no.
    """
    if yes or count <= 1:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"to {question}, say --yes")
    if not typer.confirm(f"{question}?", err=True):
        note("nothing was done")
        raise typer.Exit(ExitCode.NOT_SO)
