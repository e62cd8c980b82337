"""RabbitMQ brokers of the tests' own, each an ordinary process on free ports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.patience import FAILED_AFTER
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE_RABBITMQ = "GO_SCHEDULER_REQUIRE_RABBITMQ"
_READY = re.compile(r"completed with \d+ plugins")
# Debian's own command wants to be root or the broker's user; what it calls does not.
_DEBIAN = Path("/usr/lib/rabbitmq/lib")
_SETTINGS = """\
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
log.file.level = warning
"""
# The group outlives nobody: once standard input ends, as it does with whoever has
# started this, everything in it is killed.
_TOGETHER = 'epmd >epmd.log 2>&1 & "$0" & exec >/dev/null; cat; kill -KILL 0'


def program() -> str | None:
    """The broker that is installed here."""
    packaged = sorted(_DEBIAN.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return str(packaged[-1]) if packaged else shutil.which("rabbitmq-server")


def missing_rabbitmq() -> str | None:
    """Why there is no RabbitMQ, or None if there is one."""
    if program() is not None:
        return None
    return "no RabbitMQ: install rabbitmq-server"


class RabbitMQServer:
    """A broker that keeps what is durable in a folder, and is reached by one port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """What a bus is made of."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> Self:
        """Start it, which takes seconds, and wait until it answers."""
        named = program()
        assert named is not None, missing_rabbitmq()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _TOGETHER, named],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            # A group of its own, which the interrupt of a terminal does not reach.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with _patience(self._process.pid):
            said = []
            for line in self._process.stdout:
                said.append(line)
                if _READY.search(line):
                    return self
        self.kill()
        raise AssertionError(f"{named} has ended by itself: {''.join(said)}")

    def _environment(self) -> dict[str, str]:
        """What it goes by, and nothing of what the machine's own broker goes by."""
        (self.folder / "rabbitmq.conf").write_text(_SETTINGS.format(port=self.port))
        (self.folder / "enabled_plugins").write_text("[].")
        # Each start has a registry of its own, in which no killed node is still known.
        epmd, distribution = free_port(), free_port()
        inherited = ("PATH", "LANG", "LC_ALL")
        return {
            **{name: os.environ[name] for name in inherited if name in os.environ},
            # Erlang keeps its cookie there.
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP_SECONDS": "0",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_NODENAME": f"tests-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self._pid_file),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 1:1 +A 2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    @property
    def _pid_file(self) -> Path:
        return self.folder / "rabbitmq.pid"

    def stop(self) -> None:
        """End it as an administrator does, and wait until it has."""
        assert self._process is not None
        assert self._process.stdout is not None
        os.kill(int(self._pid_file.read_text()), signal.SIGTERM)
        with _patience(self._process.pid):
            # Its end is that of what it says, of which this shell is no part.
            self._process.stdout.read()
        self.kill()

    def kill(self) -> None:
        """End it as a crash does; harmless if it has ended."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


@contextmanager
def running_rabbitmq(folder: Path) -> Iterator[RabbitMQServer]:
    """A broker that runs meanwhile."""
    server = RabbitMQServer(folder)
    try:
        yield server.start()
    finally:
        server.kill()


@contextmanager
def _patience(group: int) -> Iterator[None]:
    """End a process group that has not done within bounds what is waited for."""
    end = threading.Timer(FAILED_AFTER, os.killpg, (group, signal.SIGKILL))
    end.start()
    try:
        yield
    finally:
        end.cancel()
        end.join()
