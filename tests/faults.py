"""Faults of a database, made on purpose: errors, lost answers, silent networks."""

from __future__ import annotations

import math
import random
import selectors
import socket
import threading
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import event, exc, make_url

from tests.servers import connected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from go_scheduler.stores.sql.store import SQLStore


@contextmanager
def failing_statements(
    store: SQLStore,
    *,
    share: float,
    error: type[psycopg.Error],
    when: str = "before",
    most: float = math.inf,
) -> Iterator[list[str]]:
    """Let a share of the store's statements fail, before or after they are executed.

    Those that fail before may be commits. There are at most so many.

    Yields:
        The statements that failed.
    """
    chance = random.Random(1)
    failed: list[str] = []

    def fail(
        connection: Connection,
        cursor: object = None,
        statement: str = "COMMIT",
        *_: object,
    ) -> None:
        if len(failed) < most and chance.random() < share:
            failed.append(statement)
            raise exc.DBAPIError.instance(
                statement, None, error("made on purpose"), psycopg.Error
            )

    names = [f"{when}_cursor_execute", *(["commit"] if when == "before" else [])]
    listened = list(product(store._database._engines.values(), names))
    for engine, name in listened:
        event.listen(engine, name, fail)
    try:
        yield failed
    finally:
        for engine, name in listened:
            event.remove(engine, name, fail)


def kill_connections(url: str) -> None:
    """Let the server end all connections to a database, and wait until it has."""
    with connected(url) as connection:
        told = connection.execute(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        ending = [pid for pid, _ in told]
        # They have been told to end, and each does so when it is its turn.
        left = "SELECT FROM pg_stat_activity WHERE pid = ANY (%s)"
        while connection.execute(left, [ending]).fetchone() is not None:
            pass


class Proxy:
    """A TCP proxy before a server, that can go silent or cut what it carries.

    Args:
        connect: Connects to the server.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._silent = threading.Event()
        self._cut = threading.Event()
        self._been_cut = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Proxy:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def silence(self) -> None:
        """Swallow everything from now on, without closing a connection."""
        self._silent.set()

    def speak(self) -> None:
        """Carry new connections again."""
        self._silent.clear()

    def cut(self) -> None:
        """Close all connections on both sides, and accept new ones from then on."""
        self._been_cut.clear()
        self._cut.set()
        self._been_cut.wait()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for key, _ in self._selector.select(0.02):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                if source is self._listener:
                    self._accept()
                else:
                    self._carry(source)
            if self._cut.is_set():
                self._close_all()
                self._cut.clear()
                self._been_cut.set()
        self._close_all()
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = self._connect()
        except OSError:
            # The server is away, and so is this.
            client.close()
            return
        self._peers[client], self._peers[server] = server, client
        for each in (client, server):
            self._selector.register(each, selectors.EVENT_READ)

    def _carry(self, source: socket.socket) -> None:
        if source not in self._peers:
            return
        try:
            data = source.recv(65536)
            if data and not self._silent.is_set():
                self._peers[source].sendall(self._pass_on(data))
        except OSError:
            data = b""
        if not data:
            self._close(source)

    def _pass_on(self, data: bytes) -> bytes:
        """What becomes of what came."""
        return data

    def _close(self, one: socket.socket) -> None:
        other = self._peers.pop(one)
        del self._peers[other]
        for each in (one, other):
            if each in self._selector.get_map():
                self._selector.unregister(each)
            each.close()

    def _close_all(self) -> None:
        while self._peers:
            self._close(next(iter(self._peers)))


def unix_socket(url: str) -> Callable[[], socket.socket]:
    """Connects to the server of a URL, by its Unix socket or by TCP."""
    parsed = make_url(url)
    folder = parsed.query.get("host")

    def connect() -> socket.socket:
        if isinstance(folder, str) and folder.startswith("/"):
            made = socket.socket(socket.AF_UNIX)
            made.connect(f"{folder}/.s.PGSQL.{parsed.port or 5432}")
            return made
        return socket.create_connection(
            (parsed.host or "127.0.0.1", parsed.port or 5432)
        )

    return connect


def behind(url: str, *ports: int) -> str:
    """The URL of a server that is behind each of these ports."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    parsed = make_url(url)
    user = f"{parsed.username}:{parsed.password or ''}"
    scheme = parsed.drivername.partition("+")[0]
    query = {key: each for key, each in parsed.query.items() if key != "host"}
    bare = make_url(f"{scheme}://HOSTS/{parsed.database}").update_query_dict(query)
    return bare.render_as_string().replace("HOSTS", f"{user}@{hosts}")


class Pooler(Proxy):
    """A proxy that tells its clients of servers' processes that there are not."""

    def _pass_on(self, data: bytes) -> bytes:
        # BackendKeyData: its length is twelve or more, and the process comes first.
        at = data.find(b"K\x00\x00\x00")
        if at < 0:
            return data
        return data[: at + 5] + b"\x00\x00\x00\x01" + data[at + 9 :]
