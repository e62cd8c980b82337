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

PROGRAMS = ("redis-server", "valkey-server")
SETTINGS = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
}
"""By which all go that are measured on it."""


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a server that keeps its files in this folder, while it runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    settings = {"port": str(port), "dir": str(folder), **SETTINGS}
    options = [part for name in settings for part in (f"--{name}", settings[name])]
    program = next(filter(None, map(shutil.which, PROGRAMS)), PROGRAMS[0])
    server = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while "Ready to accept connections" not in (line := server.stdout.readline()):
            assert line, f"{program} has ended by itself"
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.communicate()
