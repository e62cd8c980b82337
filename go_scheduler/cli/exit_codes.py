"""What the command line answers to a script."""

from __future__ import annotations

from enum import IntEnum

from go_scheduler.errors import (
    BusUnavailableError,
    ConfigurationError,
    GoSchedulerError,
    StoreError,
)
from go_scheduler.http.remote_errors import NotAllowedError


class ExitCode(IntEnum):
    """How a command ended; `doctor` has 1 for warnings, and 2 for errors."""

    DONE = 0
    """It did what was asked."""
    NOT_SO = 1
    """There is no such thing, or it is not in a state in which that can be done."""
    USAGE = 2
    """An argument or a setting is wrong; nothing was done."""
    AWAY = 3
    """The store, the server or the bus cannot be reached, or cannot be used."""
    NOT_ALLOWED = 4
    """The server wants to know who asks, or does not allow it."""
    INTERRUPTED = 130
    """Ctrl-C."""
    BROKEN_PIPE = 141
    """Whoever read the output has closed it."""


def exit_code_of(error: GoSchedulerError) -> ExitCode:
    """How a command ends that raised this."""
    if isinstance(error, ConfigurationError):
        return ExitCode.USAGE
    if isinstance(error, StoreError | BusUnavailableError):
        return ExitCode.AWAY
    if isinstance(error, NotAllowedError):
        return ExitCode.NOT_ALLOWED
    return ExitCode.NOT_SO
