"""What speaks TLS before a server that does not."""

from __future__ import annotations

import asyncio
import ssl
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def encrypted(port: int, folder: Path) -> Iterator[tuple[int, str]]:
    """The port where a server can be had by TLS, and the file that vouches for it.

    It is certified to be localhost, and nobody else.
    """
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(file)
    ready: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=asyncio.run, args=(_serve(port, context, ready),))
    thread.start()
    at, loop, stop = ready.result()
    try:
        yield at, str(file)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve(
    port: int,
    context: ssl.SSLContext,
    ready: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]],
) -> None:
    carrying: set[asyncio.Task[object]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        both = _copy(reader, far_writer), _copy(far_reader, writer)
        carried = asyncio.gather(*both)
        carrying.add(asyncio.ensure_future(carried))
        await carried

    stop = asyncio.Event()
    server = await asyncio.start_server(carry, "127.0.0.1", 0, ssl=context)
    async with server:
        at = server.sockets[0].getsockname()[1]
        ready.set_result((at, asyncio.get_running_loop(), stop))
        await stop.wait()
    await asyncio.wait_for(asyncio.gather(*carrying), 10)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()
