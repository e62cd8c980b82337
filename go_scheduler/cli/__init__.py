"""The command line: `go_scheduler`, of the extra `cli`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from go_scheduler.lazy_imports import without_extra

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
    # A process may be started without these streams.
    sys.stdin = sys.stdin or _null()
    sys.stdout = sys.stdout or _null()
    sys.stderr = sys.stderr or _null()
    try:
        from go_scheduler.cli.application import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("go_scheduler"):
            raise
        sys.stderr.write(
            f"go_scheduler: {without_extra('the command line needs', 'cli', error)}\n"
        )
        return 2
    except KeyboardInterrupt:
        # Ctrl-C before the command began.
        return 130
    finally:
        _flush_errors()


def _flush_errors() -> None:
    """Flush standard error, or drop its text: Python would end with another code."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _null() -> TextIO:
    return open(os.devnull, "r+", encoding="utf-8")
