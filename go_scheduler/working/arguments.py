"""What workers check of what they are made with."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name, check_takes_one, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.instrument import Instrument
from go_scheduler.handlers.registry import HandlerRegistry, check_callable
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def check_arguments(handler: object, max_workers: object, telemetry: object) -> None:
    """Refuse what is no handler of work, no number of places, or no instrument.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    if not isinstance(handler, HandlerRegistry):
        check_callable(handler)
        assert callable(handler)
        check_takes_one("the handler", handler, argument="the work")
    check_type("max_workers", max_workers, int)
    assert isinstance(max_workers, int)
    if max_workers < 1:
        raise ConfigurationError(f"max_workers must be at least 1: {max_workers}")
    if telemetry is not None:
        check_type("telemetry", telemetry, Instrument)


def checked_queues(queues: Iterable[str]) -> Sequence[str]:
    """The names of queues, one at least.

    Raises:
        ConfigurationError: There is none, or they are no names.
    """
    if isinstance(queues, str):
        raise ConfigurationError(f"queues must be several texts, such as ({queues!r},)")
    names = [check_name("queue", each) for each in queues]
    if not names:
        raise ConfigurationError("queues must name one at least")
    return names


def checked_name(name: object) -> str:
    """A name that a line of a log or a list can show.

    Raises:
        ConfigurationError: It is none.
    """
    checked = check_name("name", name)
    if not checked.isprintable():
        raise ConfigurationError(
            "name must be of characters that can be printed, without line breaks:"
            f" {shown(name)}"
        )
    return checked


def own_name() -> str:
    """This machine's name, and the number of this process."""
    return f"{socket.gethostname()[:100]} {os.getpid()}"
