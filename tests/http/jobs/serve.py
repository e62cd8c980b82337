"""A process that serves a store over HTTP, and runs nothing: ``serve.py URL``."""

from __future__ import annotations

import sys

import uvicorn

from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.stores import open_store


class Server(uvicorn.Server):
    """Prints its port."""

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        _, port = self.servers[0].sockets[0].getsockname()
        print(port, flush=True)  # noqa: T201 - whoever started it reads this


def main(url: str) -> None:
    app = create_app(Client(open_store(url)))
    Server(uvicorn.Config(app, port=0, log_config=None)).run()


if __name__ == "__main__":
    main(sys.argv[1])
