"""The Redis that is measured on: an ordinary process, which keeps a log as users do."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROGRAMS = ("redis-server", "valkey-server")
SETTINGS = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
}
"""By which all go that are measured on it."""


def program() -> str | None:
    """The server that is installed; None: there is none."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a server that keeps its files in this folder, while it runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    settings = {"port": str(port), "dir": str(folder), **SETTINGS}
    options = [part for name in settings for part in (f"--{name}", settings[name])]
    command = [program() or _PROGRAMS[0], *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while "Ready to accept connections" not in (line := server.stdout.readline()):
            assert line, f"{command[0]} has ended by itself"
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.communicate()
