"""Writes into the tables and keys of a store, as somebody might by hand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import redis
from sqlalchemy import make_url

from tests.servers import libpq

if TYPE_CHECKING:
    from uuid import UUID

PREFIX = "{go_scheduler}:"
"""What the keys of a store in Redis begin with."""


class Damage(NamedTuple):
    """What is done to something.

    Attributes:
        of: To the *definition*, its *contents*, its *instance*, the *runs* of that,
            what is remembered of its id (*tombstone*), or what a *node* says of itself
            or has counted (*stats*).
        change: In SQL what to set, or None: the row is deleted. In Redis a name in the
            object of the key, and the JSON that it has then: "name=[1]"; "-name" takes
            it away, "" makes it no object, and "#" another type of key.
    """

    of: str
    change: str | None

    def __str__(self) -> str:
        return f"{self.of} {self.change}"


_TABLES = {
    "definition": "task_definitions",
    "contents": "task_contents",
    "instance": "task_instances",
    "runs": "task_runs",
    "tombstone": "task_tombstones",
    "node": "task_nodes",
    "stats": "task_stats",
}
_KEYS = {"definition": "d", "contents": "c", "instance": "i"}


def damage(url: str, how: Damage, definition: UUID, instance: UUID) -> None:
    """Damage something of a definition or of its instance."""
    if url.startswith("redis:"):
        _damage_redis(url, how, definition, instance)
        return
    where = {
        "definition": "id = {definition}",
        "contents": "key = (SELECT key FROM task_definitions WHERE id = {definition})",
        "instance": "id = {instance}",
        "runs": "instance_id = {instance}",
        "tombstone": "id = {definition}",
    }.get(how.of, "true")
    hexed = url.startswith("sqlite:")
    names = {"definition": definition, "instance": instance}
    quoted = {name: f"'{each.hex if hexed else each}'" for name, each in names.items()}
    table = _TABLES[how.of]
    what = (
        f"DELETE FROM {table}"
        if how.change is None
        else (f"UPDATE {table} SET {how.change}")
    )
    found = execute(url, f"{what} WHERE {where.format(**quoted)}")
    assert found > 0, "nothing was damaged"


def execute(url: str, statement: str) -> int:
    """Execute a statement by hand; how many rows it has changed."""
    parsed = make_url(url)
    if parsed.drivername == "sqlite":
        with closing(sqlite3.connect(parsed.database or "")) as file, file:
            return file.execute(statement).rowcount
    with psycopg.connect(libpq(url)) as hand:
        return hand.execute(statement.encode()).rowcount


def _damage_redis(url: str, how: Damage, definition: UUID, instance: UUID) -> None:
    with closing(redis.Redis.from_url(url, decode_responses=True)) as client:
        life: Any = client.hget(f"{PREFIX}ids", definition.hex)
        id = instance.hex if how.of == "instance" else life
        key = f"{PREFIX}{_KEYS[how.of]}:{id}"
        change = how.change
        if change is None:
            assert client.delete(key)
        elif change == "#":
            client.delete(key)
            client.hset(key, "no", "text")
        elif not change:
            client.set(key, "[]")
        elif how.of == "contents":
            client.set(key, change)
        else:
            text: Any = client.get(key)
            has = json.loads(text)
            name, sign, value = change.partition("=")
            if sign:
                has[name] = "edited"
            else:
                del has[name.removeprefix("-")]
            client.set(key, json.dumps(has).replace('"edited"', value))
