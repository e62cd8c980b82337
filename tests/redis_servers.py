"""Redis servers of the tests' own, each an ordinary process on a free port."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUIRE_REDIS = "GO_SCHEDULER_REQUIRE_REDIS"
PROGRAMS = ("redis-server", "valkey-server")


def program() -> str | None:
    """The server that is installed here."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def missing_redis() -> str | None:
    """Why there is no Redis, or None if there is one."""
    if program() is not None:
        return None
    return "no Redis: install redis-server, or valkey-server"


class RedisServer:
    """A server that keeps its files in a folder.

    Args:
        folder: Its folder.
        settings: Such as ``appendonly="yes"``.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """What a store is made of."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        named = program()
        assert named is not None, missing_redis()
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": "",
            **self._settings,
        }
        options = [
            part for name, value in settings.items() for part in (f"--{name}", value)
        ]
        self._process = subprocess.Popen(
            [named, *options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "Ready to accept connections" in line:
                break
        else:
            raise AssertionError(f"{named} has ended by itself")
        return self

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def client(self) -> redis.Redis:
        """A connection to look and write by hand."""
        return redis.Redis(port=self.port, decode_responses=True)


@contextmanager
def running_redis(folder: Path, **settings: str) -> Iterator[RedisServer]:
    """A server that runs meanwhile."""
    server = RedisServer(folder, **settings).start()
    try:
        yield server
    finally:
        server.kill()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
    return port
