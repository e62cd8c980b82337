"""Questions of the doctor to a Redis server. They only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import redis

from go_scheduler.errors import StoreError
from go_scheduler.stores.findings import (
    EVICTING,
    MAY_LOSE,
    MEMORY_FULL,
    NOT_ALLOWED,
    NOT_KEPT,
    OLD_SERVER,
    READ_ONLY,
    unanswered,
    well,
)
from go_scheduler.stores.redis.server import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from go_scheduler.stores.findings import Finding

    Question: TypeAlias = Callable[[Any], Iterator[Finding]]

LEAST_VERSION = (6, 2)
NEARLY_FULL = 0.9
"""The share of ``maxmemory``."""


def findings(client: Any) -> Iterator[Finding]:
    """The answers of a server to all questions; one that fails is a finding."""
    for about, question in QUESTIONS.items():
        try:
            with told():
                yield from list(question(client))
        except StoreError as error:
            if isinstance(error.__cause__, redis.exceptions.NoPermissionError):
                yield NOT_ALLOWED.found(f"{about}: {error}")
            else:
                yield unanswered(about, error)


def _server(client: Any) -> Iterator[Finding]:
    info = client.info("server")
    name = f"Redis {info['redis_version']}"
    if "valkey_version" in info:
        name = f"Valkey {info['valkey_version']}"
    version = tuple(int(part) for part in info["redis_version"].split(".")[:2])
    yield OLD_SERVER.found(name) if version < LEAST_VERSION else well("server", name)


def _replication(client: Any) -> Iterator[Finding]:
    info = client.info("replication")
    if info["role"] != "master":
        yield READ_ONLY.found(f"a replica of {info['master_host']}")


def _memory(client: Any) -> Iterator[Finding]:
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


def _persistence(client: Any) -> Iterator[Finding]:
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


_STATUSES = (
    "rdb_last_bgsave_status",
    "aof_last_bgrewrite_status",
    "aof_last_write_status",
)
QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "replication": _replication,
    "memory": _memory,
    "persistence": _persistence,
}
"""All that is asked, by what it is about."""
