"""Asks before more than one thing is changed at once."""

from __future__ import annotations

import sys

import typer

from go_scheduler.cli.options import ExitCode
from go_scheduler.cli.output import note
from go_scheduler.errors import ConfigurationError


def confirm(question: str, count: int, *, yes: bool) -> None:
    """Go on if it is one at most, or if the user says so.

    Args:
        question: Such as ``delete 12 definitions``.
        count: How many it is about.
        yes: Whether the user has said so by ``--yes``.

    Raises:
        ConfigurationError: Nobody can be asked.
        typer.Exit: The user said no.
    """
    if yes or count <= 1:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"to {question}, say --yes")
    if not typer.confirm(f"{question}?", err=True):
        note("nothing was done")
        raise typer.Exit(ExitCode.NOT_SO)
