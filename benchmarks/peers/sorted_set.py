"""A sorted set and a list on Redis, as the Go library goscheds has them.

Its commands, one by one and under its locks, but for its sleep of ten seconds before
each job that it moves. It is written in Python: the library itself is in Go.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import redis

from benchmarks.spread import Countdown, Lateness, evenly

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any]], object]

_EMPTY = 0.1
_RELEASE = """
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end"""


class _Lock:
    def __init__(self, server: Any, key: str, milliseconds: int) -> None:
        self._server, self._key, self._time = server, key, milliseconds
        self._token = uuid4().hex
        self._release = server.register_script(_RELEASE)

    def __enter__(self) -> None:
        while not self._server.set(self._key, self._token, nx=True, px=self._time):
            time.sleep(_EMPTY)

    def __exit__(self, *_: object) -> None:
        self._release(keys=[self._key], args=[self._token])


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have one thread move what is due, and one do it."""
    calls = Countdown(instances)
    _put(url, [time.time() - 1] * instances)
    began, cpu = time.perf_counter(), time.process_time()
    _begin(url, lambda _: calls())
    calls.wait()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """The same with what falls due."""
    late = Lateness(count)
    _begin(url, lambda job: late.add(job["ExecuteAt"]))
    _put(url, evenly(count, rate, head))
    return late.spread()


def _put(url: str, times: list[float]) -> None:
    with redis.Redis.from_url(url) as server, server.pipeline() as filling:
        for each in times:
            filling.zadd("jobs:scheduled_task", {_job(each): each})
        filling.execute()


def _job(at: float) -> str:
    return json.dumps({"JobName": "count", "Id": uuid4().hex, "ExecuteAt": at})


def _begin(url: str, handler: Handler) -> None:
    threading.Thread(target=_schedule, args=[url], daemon=True).start()
    threading.Thread(target=_work, args=[url, handler], daemon=True).start()


def _schedule(url: str) -> None:
    server: Any = redis.Redis.from_url(url, decode_responses=True)
    lock = _Lock(server, "jobs:LOCK:scheduled_task", 100)
    while True:
        with lock:
            found = server.zrange("jobs:scheduled_task", 0, 0)
            if found and json.loads(found[0])["ExecuteAt"] <= time.time():
                server.zrem("jobs:scheduled_task", found[0])
                server.rpush("jobs:count", found[0])
        if not found:
            time.sleep(_EMPTY)


def _work(url: str, handler: Handler) -> None:
    server: Any = redis.Redis.from_url(url, decode_responses=True)
    lock = _Lock(server, "jobs:LOCK:count", 1000)
    while True:
        with lock:
            found = server.blpop("jobs:count", 1)
            if found:
                server.rpush("jobs:count:on_progress", found[1])
        if found:
            handler(json.loads(found[1]))
            server.lpop("jobs:count:on_progress")
