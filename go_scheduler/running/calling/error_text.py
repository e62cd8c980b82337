"""What a handler raised, as text that every store can keep."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from traceback import FrameSummary, TracebackException

_PACKAGE = __name__.partition(".")[0]
_FOLDER = str(Path(__file__).parents[2])
_PYTHON = str(Path(os.__file__).parent)
# What calls a handler: the package, and what it has called on its way there.
_CALLERS = tuple(
    each + os.sep
    for each in (
        _FOLDER,
        str(Path(_PYTHON, "asyncio")),
        str(Path(_PYTHON, "concurrent", "futures")),
    )
)

ERROR_LIMIT = 16 * 1024
"""The most characters of a traceback that are kept: the last ones."""


def describe_error(error: BaseException) -> str:
    """An exception's traceback as text that every store can keep.

    It begins where the package has called something else.
    """
    return _text_of(error, lambda: _traceback_of(error))


def message_of(error: BaseException) -> str:
    """What an exception says of itself, likewise."""
    return _text_of(error, lambda: str(error))


def _traceback_of(error: BaseException) -> str:
    found = traceback.TracebackException.from_exception(error)
    rest: list[tuple[BaseException | None, TracebackException | None]]
    rest = [(error, found)]
    while rest:
        raised, text = rest.pop()
        if raised is None or text is None:
            continue
        _leave_out_callers(raised, text)
        rest.append((raised.__cause__, text.__cause__))
        rest.append((raised.__context__, text.__context__))
        if isinstance(raised, BaseExceptionGroup):
            rest += zip(raised.exceptions, text.exceptions or (), strict=False)
    return "".join(found.format())


def _leave_out_callers(error: BaseException, text: TracebackException) -> None:
    """Leave out the frames that called a handler.

    If there are no others, an error of the package's own says enough without any; of
    another one the last frame stays.
    """
    own = next(
        (index for index, each in enumerate(text.stack) if not _is_caller(each)), None
    )
    if own is None:
        is_ours = type(error).__module__.partition(".")[0] == _PACKAGE
        own = len(text.stack) - (not is_ours)
    del text.stack[: max(own, 0)]
    if not text.stack:
        # Else it would have the heading of a traceback.
        text.stack = None  # type: ignore[assignment]


def _is_caller(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_CALLERS)


def _text_of(error: BaseException, make: Callable[[], str]) -> str:
    try:
        text = make()
    # Its own code makes the text, and may do anything.
    except BaseException:
        text = f"{type(error).__name__}, whose text cannot be made"
    return kept_text(text)


def kept_text(error: str) -> str:
    """A text that says what went wrong, as every store can keep it."""
    text = error.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text[-ERROR_LIMIT:]
