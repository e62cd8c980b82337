"""What a handler raised, as text that every store can keep."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ERROR_LIMIT = 16 * 1024
"""The most characters of a traceback that are kept: the last ones."""


def describe_error(error: BaseException) -> str:
    """An exception's traceback as text that every store can keep."""
    return _text_of(error, lambda: "".join(traceback.format_exception(error)))


def message_of(error: BaseException) -> str:
    """What an exception says of itself, likewise."""
    return _text_of(error, lambda: str(error))


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
