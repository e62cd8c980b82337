"""Redis servers of the tests' own, each an ordinary process on a free port."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import redis

from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUIRE_REDIS = "GO_SCHEDULER_REQUIRE_REDIS"
_READY = re.compile("Ready to accept connections|Sentinel ID is")
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
        lines: Of its configuration, if it is a sentinel.
        settings: Such as ``appendonly="yes"``.
    """

    def __init__(self, folder: Path, *lines: str, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._lines = lines
        self.settings = settings
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
            "save": "" if not self._lines else None,
            **self.settings,
        }
        options = [
            part
            for name, value in settings.items()
            if value is not None
            for part in (f"--{name}", value)
        ]
        self._process = subprocess.Popen(
            [named, *self._configuration(), *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if _READY.search(line):
                break
        else:
            self.kill()
            raise AssertionError(f"{named} has ended by itself")
        return self

    def _configuration(self) -> list[str]:
        """What makes a sentinel of it, which keeps what it finds out there."""
        if not self._lines:
            return []
        file = self.folder / "sentinel.conf"
        file.write_text("\n".join(self._lines))
        return [str(file), "--sentinel"]

    def kill(self) -> None:
        """End it as a crash does; harmless if it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        """Let it take connections and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Any:
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
