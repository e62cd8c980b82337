"""A file as it is read, with a bar that shows how much of it is settled."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
"""Blanks, and the mark that some editors put at the beginning."""


@contextmanager
def lines_of(file: Path) -> Iterator[tuple[Iterable[bytes], Callable[[int], None]]]:
    """The lines of a file, or of standard input; on a terminal with a bar.

    What is answered besides is to be called with how many bytes are settled.

    Raises:
        ConfigurationError: It cannot be read.
    """
    with ExitStack() as stack:
        if str(file) == "-":
            stream, size = sys.stdin.buffer, None
        else:
            try:
                stream = stack.enter_context(file.open("rb"))
            except OSError as error:
                raise ConfigurationError(
                    f"{file} cannot be read: {error.strerror}"
                ) from None
            size = file.stat().st_size
        console = Console(stderr=True)
        progress = stack.enter_context(
            Progress(console=console, disable=not console.is_terminal, transient=True)
        )
        task = progress.add_task("importing", total=size)
        yield stream, lambda settled: progress.update(task, completed=settled)


def parts_of(stream: Iterable[bytes]) -> tuple[str, Iterable[bytes]]:
    """What the parts of a file are called, and each of them.

    They are its lines; if it is a JSON array they are its items, a line each.

    Raises:
        ConfigurationError: It begins as an array and is none.
    """
    rest, head = iter(stream), []
    for each in rest:
        head.append(each)
        if each.strip(_BEFORE_JSON):
            break
    first = head[-1] if head else b""
    if not first.lstrip(_BEFORE_JSON).startswith(b"["):
        return "line", chain(head, rest)
    head += rest
    try:
        items = json.loads(b"".join(head).lstrip(_BEFORE_JSON))
    except (ValueError, RecursionError) as error:
        if _is_json(first):
            return "line", head
        raise ConfigurationError(
            f"it begins as a JSON array, and is none: {error}"
        ) from None
    return "item", [json.dumps(each).encode() for each in items]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
