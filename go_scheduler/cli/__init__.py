"""The command line: `go_scheduler`, of the extra `cli`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words of the command; None: those of this process.

    Returns:
        The exit code: see ``ExitCode``.
    """
    # A process that is started without them has none.
    sys.stdin = sys.stdin or _nowhere()
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        from go_scheduler.cli.application import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("go_scheduler"):
            raise
        sys.stderr.write(
            "go_scheduler: the command line needs the extra 'cli' of go_scheduler,"
            f" which brings {error.name}\n"
        )
        return 2
    except KeyboardInterrupt:
        # It came before there was a command.
        return 130
    finally:
        _give_up_what_cannot_be_told()


def _give_up_what_cannot_be_told() -> None:
    """Have standard error hold nothing back, or Python ends with a code of its own."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _nowhere() -> TextIO:
    return open(os.devnull, "r+", encoding="utf-8")
