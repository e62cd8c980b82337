"""How much work a server hands out over HTTP, and how late, beside runs in process."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import go_scheduler
from benchmarks.experiment import (
    EARLY,
    MOST,
    P50,
    P99,
    RATE,
    Call,
    Experiment,
    floor,
    ours,
)
from benchmarks.names import WHERE
from benchmarks.processes import start
from benchmarks.seeds import put_once
from benchmarks.spread import ENOUGH, evenly, spread
from go_scheduler import Scheduler
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.sizes import Sizes

_RATE = 200
_CONNECTIONS = 8
_AGAIN = 0.05


def drain(
    url: str, *, instances: int, most: int, connections: int, server: str = "serving"
) -> dict[str, float]:
    """Have workers take and complete all that is due; until the last is recorded.

    Args:
        url: Of the store.
        instances: So many.
        most: How many a worker takes at once; more than one are completed at once.
        connections: How many workers there are.
        server: Which one of this module.
    """
    with _served(server, url) as port:
        seconds = asyncio.run(_drain(port, instances, most, connections))
    return {"rate": instances / seconds}


def lateness(url: str, *, count: int, rate: int, head: float) -> dict[str, float]:
    """So many fall due while workers wait; until each has its answer.

    Args:
        url: Of the store.
        count: So many.
        rate: So many a second.
        head: How many seconds before the first is due they begin to be stored.
    """
    with _served("serving", url) as port:
        with closing(open_store(url)) as store:
            put_once(store, evenly(count, rate, head))
        return spread(asyncio.run(_wait(port, count)))


def serving(url: str) -> None:
    """A server that hands out work, until its input ends."""
    from go_scheduler.http import LongPoll, create_app

    with closing(open_store(url)) as store, Scheduler(None, store) as scheduler:
        _serve(create_app(scheduler, work=LongPoll(scheduler)))


def plain(url: str) -> None:
    """The plainest server that answers the same, and has no store."""
    from benchmarks.floors.http import app

    _serve(app)


def _serve(app: Any) -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, access_log=False)
    print(listening.getsockname()[1], flush=True)

    def end() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    uvicorn.Server(config).run([listening])


@contextmanager
def _served(name: str, url: str) -> Iterator[int]:
    """The port of a server in a process of its own."""
    tree = Path(go_scheduler.__file__).parents[1]
    process = start(Call(f"http:{name}"), url, tree=tree, python=sys.executable)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate()


class _Connection:
    """The least that speaks HTTP, so that it is the server that is measured."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        streams = await asyncio.open_connection("127.0.0.1", self._port)
        self._reader, self._writer = streams
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def take(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Wait for work."""
        path = f"/v1/work?queues=default&max={most}&wait=1"
        answer = await self._ask("GET", path, b"")
        found: Sequence[Mapping[str, Any]] = answer["work"] if answer else ()
        return found

    async def complete(self, work: Sequence[Mapping[str, Any]]) -> None:
        """Say that it is done: one by itself, several at once."""
        said = [
            {name: each[name] for name in ("instance_id", "token")} for each in work
        ]
        if len(said) == 1:
            path = f"/v1/work/{said[0].pop('instance_id')}/complete"
            await self._ask("POST", path, json.dumps(said[0]).encode())
        else:
            body = json.dumps({"completed": said}).encode()
            await self._ask("POST", "/v1/work/complete", body)

    async def _ask(self, method: str, path: str, body: bytes) -> Any:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        while True:
            self._writer.write(head.encode() + body)
            answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            content = await self._reader.readexactly(int(length or 0))
            if answer[9:12] == b"503":
                await asyncio.sleep(_AGAIN)
                continue
            assert answer[9:10] == b"2", answer
            return json.loads(content) if content else None


async def _drain(port: int, instances: int, most: int, connections: int) -> float:
    done = 0

    async def work() -> None:
        nonlocal done
        async with _Connection(port) as connection:
            while done < instances:
                if found := await connection.take(most):
                    await connection.complete(found)
                    done += len(found)

    began = time.perf_counter()
    async with asyncio.timeout(ENOUGH):
        tasks = [asyncio.create_task(work()) for _ in range(connections)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    seconds = time.perf_counter() - began
    await asyncio.gather(*tasks)
    return seconds


async def _wait(port: int, count: int) -> list[float]:
    late: list[float] = []

    async def work() -> None:
        async with _Connection(port) as connection:
            while len(late) < count:
                for each in await connection.take(1):
                    due = datetime.fromisoformat(each["execute_at"]).timestamp()
                    late.append(time.time() - due)
                    await connection.complete([each])

    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*(work() for _ in range(2 * _CONNECTIONS)))
    return late


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine == "memory":
        return
    count = sizes.drained // 2
    some: dict[str, object] = {"instances": count}
    seeds = Call("seeds:due", some)
    single = some | {"most": 1, "connections": 2 * _CONNECTIONS}
    many = some | {"most": 100, "connections": _CONNECTIONS}
    floors = {"server": "plain"}
    yield Experiment(
        title=f"workers over HTTP drain {count:,} {WHERE[engine]}",
        noun="http",
        figures=(RATE,),
        variants=(
            ours(Call("http:drain", many), engine, name="100 at once", prepare=seeds),
            ours(Call("http:drain", single), engine, name="one each", prepare=seeds),
            ours(Call("drain:drain", some), engine, name="in process", prepare=seeds),
            floor("plain FastAPI, 100 at once", Call("http:drain", many | floors)),
            floor("plain FastAPI, one each", Call("http:drain", single | floors)),
        ),
    )
    count = round(_RATE * sizes.seconds)
    asked = {"count": count, "rate": _RATE, "head": sizes.head + count / 5_000}
    yield Experiment(
        title=f"lateness over HTTP {WHERE[engine]}, {_RATE} a second",
        noun="http",
        figures=(P50, P99, MOST, EARLY),
        variants=(
            ours(Call("http:lateness", asked), engine, name="workers over HTTP"),
            ours(Call("lateness:lateness", asked), engine, name="in process"),
        ),
    )
