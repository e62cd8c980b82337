"""A file as it is read, with a bar that shows how much of it is settled."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


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
