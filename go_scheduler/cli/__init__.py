"""The command line: `go_scheduler`, of the extra `cli`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
    try:
        from go_scheduler.cli.application import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("go_scheduler"):
            raise
        sys.stderr.write(
            f"go_scheduler: the command line needs {error.name}: install it by"
            " `pip install 'go_scheduler[cli]'`\n"
        )
        return 2
