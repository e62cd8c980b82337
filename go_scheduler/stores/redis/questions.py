"""What is asked of a Redis server for findings; nothing here writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import redis

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.findings import (
    BROKEN,
    EVICTING,
    MAY_LOSE,
    MEMORY_FULL,
    NO_REPLICA,
    NOT_ALLOWED,
    NOT_KEPT,
    OLD_SERVER,
    READ_ONLY,
    REPLICA_BEHIND,
    SLOW_ANSWERS,
    SLOW_SCRIPTS,
    WRONG_TYPE,
    unanswered,
    well,
)
from go_scheduler.stores.redis.server import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from go_scheduler.stores.findings import Finding

    Question: TypeAlias = Callable[[Any, str], Iterator[Finding]]

LEAST_VERSION = (6, 2)
NEARLY_FULL = 0.9
"""The share of ``maxmemory``."""
FAR_BEHIND = 2**20
"""Bytes that a replica lacks."""
LONG_AGO = 10
"""Seconds for which a replica has said nothing."""
SLOW_ANSWER = 0.02
SLOW_SCRIPT = 0.1
"""Both in seconds."""
_PINGS = 5
_LOGGED = 128
_SCANS, _AT_ONCE = 20, 500
_SHOWN = 5

_TYPES = {
    "hash": "counts dk ids nodes sets settings slots t v",
    "zset": "all df di due du e f free idle keys l n names p s soon tombstones"
    " undecided w x",
    "set": "broken dh do parked queues",
    "list": "r",
    "string": "b c d first i life",
}
TYPES = {name: each for each, names in _TYPES.items() for name in names.split()}
"""Of what type a key is, by its name up to a colon."""


def findings(client: Any, prefix: str) -> Iterator[Finding]:
    """The answers to all questions; one that fails is a finding.

    Args:
        client: Of the one server that has the store.
        prefix: What the store's keys begin with.
    """
    for about, question in QUESTIONS.items():
        try:
            with told():
                yield from list(question(client, prefix))
        except StoreError as error:
            if isinstance(error.__cause__, redis.exceptions.NoPermissionError):
                yield NOT_ALLOWED.found(f"{about}: {error}")
            else:
                yield unanswered(about, error)


def _server(client: Any, _: str) -> Iterator[Finding]:
    info = client.info("server")
    name = f"Redis {info['redis_version']}"
    if "valkey_version" in info:
        name = f"Valkey {info['valkey_version']}"
    version = tuple(int(part) for part in info["redis_version"].split(".")[:2])
    yield OLD_SERVER.found(name) if version < LEAST_VERSION else well("server", name)


def _memory(client: Any, _: str) -> Iterator[Finding]:
    info = client.info("memory")
    used, most = info["used_memory"], info["maxmemory"]
    seen = f"{used / 2**20:,.0f} MiB are used"
    if not most:
        yield well("memory", f"{seen}, and there is no maxmemory")
        return
    seen += f" of a maxmemory of {most / 2**20:,.0f} MiB"
    full = used > NEARLY_FULL * most
    yield MEMORY_FULL.found(seen) if full else well("memory", seen)
    # The others remove only what has been given an end, as none of the store's is.
    if (policy := info["maxmemory_policy"]).startswith("allkeys"):
        yield EVICTING.found(
            f"maxmemory-policy is {policy}", "CONFIG SET maxmemory-policy noeviction"
        )


def _persistence(client: Any, _: str) -> Iterator[Finding]:
    info = client.info("persistence")
    failed = [name for name in _STATUSES if info.get(name, "ok") != "ok"]
    if failed:
        yield NOT_KEPT.found(", ".join(f"{name} is {info[name]}" for name in failed))
    if not info["aof_enabled"]:
        yield MAY_LOSE.found("appendonly is no", "CONFIG SET appendonly yes")
        return
    waits = client.config_get("appendfsync")["appendfsync"]
    seen = f"appendonly is yes, and appendfsync {waits}"
    if waits == "no":
        yield MAY_LOSE.found(seen, "CONFIG SET appendfsync everysec")
    else:
        yield well("persistence", seen)


def _replication(client: Any, _: str) -> Iterator[Finding]:
    info = client.info("replication")
    if info["role"] != "master":
        yield READ_ONLY.found(f"a replica of {info['master_host']}")
        return
    count: int = info["connected_slaves"]
    if not count:
        yield NO_REPLICA.found("no replica is connected")
        return
    behind = list(_behind(info, count))
    yield from behind or [well("replication", f"{count} replicas keep up")]


def _behind(info: Mapping[str, Any], count: int) -> Iterator[Finding]:
    for number in range(count):
        replica = info[f"slave{number}"]
        lacks = info["master_repl_offset"] - replica["offset"]
        if lacks > FAR_BEHIND or replica["lag"] > LONG_AGO:
            yield REPLICA_BEHIND.found(
                f"{replica['ip']}:{replica['port']} lacks {lacks:,} bytes, and has said"
                f" nothing for {replica['lag']} s"
            )


def _latency(client: Any, prefix: str) -> Iterator[Finding]:
    del prefix
    elapsed = SystemClock().elapsed
    took = []
    for _ in range(_PINGS):
        begun = elapsed()
        client.ping()
        took.append((elapsed() - begun).total_seconds())
    seen = f"the shortest of {_PINGS} answers took {min(took) * 1000:.1f} ms"
    slow = min(took) > SLOW_ANSWER
    yield SLOW_ANSWERS.found(seen) if slow else well("latency", seen)


def _scripts(client: Any, prefix: str) -> Iterator[Finding]:
    slow = [
        each["duration"] / 1e6
        for each in client.slowlog_get(_LOGGED)
        if prefix.encode() in each["command"] and each["duration"] / 1e6 > SLOW_SCRIPT
    ]
    if slow:
        yield SLOW_SCRIPTS.found(
            f"{len(slow)} of the last {_LOGGED} slow commands are this store's, and"
            f" took up to {max(slow) * 1000:,.0f} ms"
        )


def _keys(client: Any, prefix: str) -> Iterator[Finding]:
    wrong: list[str] = []
    looked_at = 0
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
    cursor, left = 0, _SCANS
    while left:
        cursor, keys = client.scan(cursor, match=pattern, count=_AT_ONCE)
        with client.pipeline(transaction=False) as asked:
            for key in keys:
                asked.type(key)
            types = asked.execute()
        for key, kind in zip(keys, types, strict=True):
            name = key.removeprefix(prefix).partition(":")[0]
            # One that has gone meanwhile has none.
            is_wrong = kind not in ("none", TYPES.get(name, kind))
            if is_wrong:
                wrong.append(f"{key} is a {kind}")
        looked_at += len(keys)
        left = left - 1 if cursor else 0
    if wrong:
        more = f", and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        yield WRONG_TYPE.found(", ".join(sorted(wrong)[:_SHOWN]) + more)
    else:
        seen = f"{looked_at:,} keys of {prefix} are of the types they should be"
        yield well("keys", seen)


def _broken(client: Any, prefix: str) -> Iterator[Finding]:
    _, ids = client.sscan(f"{prefix}broken", 0, count=_AT_ONCE)
    # Instances are there by their ids, and definitions by their keys.
    keys = [each if ":" in each else f"i:{each}" for each in ids]
    with client.pipeline(transaction=False) as asked:
        for key in keys:
            asked.exists(prefix + key)
        there = asked.execute()
    left = [key for key, is_there in zip(keys, there, strict=True) if is_there]
    for kind, what in (("i:", "instances"), ("d:", "definitions")):
        if some := sorted(key for key in left if key.startswith(kind)):
            shown = ", ".join(some[:_SHOWN])
            yield BROKEN.found(f"{what} that cannot be read: {shown}")


_STATUSES = (
    "rdb_last_bgsave_status",
    "aof_last_bgrewrite_status",
    "aof_last_write_status",
)
QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "memory": _memory,
    "persistence": _persistence,
    "replication": _replication,
    "latency": _latency,
    "scripts": _scripts,
    "keys": _keys,
    "broken": _broken,
}
"""All that is asked, by what it is about."""
