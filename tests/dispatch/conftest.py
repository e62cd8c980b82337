"""What tests of buses share: a broker behind a proxy, and hands on it."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import amqp
import pytest

from tests.dispatch.working.bench import Bench, bench
from tests.faults import Proxy
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.rabbitmq_servers import RabbitMQServer

# Of RabbitMQ, that it reads no more of this: class 10, method 60, and why.
_BLOCKED = b"\x00\x0a\x00\x3c\x06memory"
_UNBLOCKED = b"\x00\x0a\x00\x3d"


def frame(method: bytes) -> bytes:
    """A method on the channel of the connection itself."""
    return b"\x01\x00\x00" + len(method).to_bytes(4, "big") + method + b"\xce"


class Network(Proxy):
    """What is between a bus and RabbitMQ."""

    def __init__(self, port: int) -> None:
        super().__init__(lambda: socket.create_connection(("127.0.0.1", port)))
        self._silenced: set[socket.socket] = set()
        self._holding = False
        self._held: list[tuple[socket.socket, bytes]] = []
        self._carrying = threading.Lock()

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    @property
    def url(self) -> str:
        """Where the broker is, as the bus sees it."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def silence_these(self) -> None:
        """Swallow what comes over the connections there are, and no others."""
        self._silenced.update(self._peers)

    def _carry(self, source: socket.socket) -> None:
        with self._carrying:
            if source in self._silenced:
                # Nor is the other end told that this one has ended.
                self._selector.unregister(source)
            elif self._holding and source in self._peers and self._is_near(source):
                self._held.append((self._peers[source], source.recv(65536)))
            else:
                super()._carry(source)

    def _is_near(self, one: socket.socket) -> bool:
        return bool(one.getsockname()[1] == self.port)

    def tell(self, method: bytes) -> None:
        """Tell all that are connected what a broker tells them."""
        with self._carrying:
            for each in list(self._peers):
                if self._is_near(each):
                    each.sendall(frame(method))

    def hold(self) -> None:
        """Carry nothing to the broker, which reads no more."""
        self._holding = True

    def block(self) -> None:
        """What RabbitMQ does that is short of memory: it says so, and reads no more."""
        self.hold()
        self.tell(_BLOCKED)

    def unblock(self) -> None:
        """It has memory again."""
        with self._carrying:
            self._holding = False
            for target, data in self._held:
                target.sendall(data)
        self.tell(_UNBLOCKED)


class Encrypting(Proxy):
    """What speaks TLS before a broker that does not."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(lambda: socket.create_connection(("127.0.0.1", port)))
        self._listener = context.wrap_socket(self._listener, server_side=True)

    def _accept(self) -> None:
        # A client that does not trust the certificate goes away.
        with suppress(OSError):
            super()._accept()

    def _carry(self, source: socket.socket) -> None:
        super()._carry(source)
        while isinstance(source, ssl.SSLSocket) and source in self._peers:
            if not source.pending():
                return
            super()._carry(source)


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it is so; it is nothing that anybody would tell."""
    waiting = threading.Event()
    for _ in range(int(FAILED_AFTER / 0.01)):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it has not come to be so")


@pytest.fixture
def network(rabbitmq_server: RabbitMQServer) -> Iterator[Network]:
    """A network before the session's RabbitMQ, which a test may break."""
    with Network(rabbitmq_server.port) as proxy:
        yield proxy


@pytest.fixture
def channel(rabbitmq_server: RabbitMQServer) -> Iterator[Any]:
    """A channel of somebody who administers the broker by hand."""
    host = f"127.0.0.1:{rabbitmq_server.port}"
    with amqp.Connection(host, connect_timeout=FAILED_AFTER) as connection:
        yield connection.channel()


@pytest.fixture
def one() -> Iterator[Bench]:
    """A bus in memory, with hands on it for a worker's test."""
    with bench(f"memory://{uuid4()}") as found:
        yield found


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"go_scheduler.test.{uuid4()}"
