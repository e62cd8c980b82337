"""A store that does not answer keeps nobody waiting for long."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.limits import Limits
from go_scheduler.stores import open_store
from tests.http.serving import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

AWAY = "urn:go_scheduler:store-unavailable"
LIMITS = Limits(answer=timedelta(milliseconds=50), threads=2, calls=2)


@contextmanager
def silence() -> Iterator[int]:
    """The port of what takes connections, and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@pytest.mark.slow
def test_a_store_that_is_silent_is_said_to_be_away_and_the_server_lives() -> None:
    with (
        silence() as port,
        closing(open_store(f"postgresql://x:secret@127.0.0.1:{port}/no")) as store,
        client_of(create_app(Client(store), limits=LIMITS)) as http,
    ):
        # The first wait for it as long as they may, and the others not at all.
        for _ in range(6):
            answer = http.get("/v1/stats")
            assert answer.status_code == 503
            assert answer.headers["Retry-After"] == "2"
            assert answer.json()["type"] == AWAY
            assert "secret" not in answer.text
            assert http.get("/readyz").status_code == 503
            assert http.get("/healthz").status_code == 200
