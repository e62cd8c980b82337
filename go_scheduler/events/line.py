"""A line of the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

DEBUG, INFO = logging.DEBUG, logging.INFO
WARNING, ERROR = logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        message: With a place for each of ``args``.
        args: What goes there.
        ids: Given to the record as attributes, as text.
        error: Written with its traceback, if that is worth its lines.
    """

    level: int
    message: str
    args: tuple[object, ...] = ()
    ids: Mapping[str, object] = field(default_factory=dict)
    error: BaseException | None = None
