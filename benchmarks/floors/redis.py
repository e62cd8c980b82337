"""The floor on Redis: a loop that claims, calls and ends by plain commands."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import redis

from benchmarks.spread import Countdown

_BATCH = 500
_LEASE = 20


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Move a batch to what is leased, call, note the end, on one connection."""
    calls = Countdown(instances)
    with closing(redis.Redis.from_url(url, decode_responses=True)) as server:
        _fill(server, instances)
        began, cpu = time.perf_counter(), time.process_time()
        while not calls.is_over():
            now = time.time()
            due: Any = server.zrange(
                "due", "-inf", now, byscore=True, num=_BATCH, offset=0
            )
            with server.pipeline() as claim:
                claim.zrem("due", *due)
                claim.zadd("leased", dict.fromkeys(due, now + _LEASE))
                for each in due:
                    claim.hgetall(each)
                claim.execute()
            for each in due:
                calls(each)
            with server.pipeline() as end:
                end.zrem("leased", *due)
                for each in due:
                    end.hset(each, "ended", now)
                end.execute()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def _fill(server: Any, instances: int) -> None:
    with server.pipeline() as filling:
        for number in range(instances):
            filling.hset(f"job {number}", mapping={"name": "count", "payload": "{}"})
            filling.zadd("due", {f"job {number}": number})
        filling.execute()
