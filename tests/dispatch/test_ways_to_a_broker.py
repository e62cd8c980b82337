"""A bus over TLS; what ends a thread's wait."""

from __future__ import annotations

import socket
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import trustme
from amqp.exceptions import ConsumerCancelled

from go_scheduler import BusUnavailableError
from go_scheduler.dispatch import KombuBus
from go_scheduler.dispatch.kombu_bus.address import reason
from go_scheduler.dispatch.kombu_bus.publisher import Waker
from go_scheduler.testing.buses import Heard
from tests.dispatch.tls import encrypted
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rabbitmq_servers import RabbitMQServer


LONG = timedelta(seconds=FAILED_AFTER)


@pytest.mark.slow
def test_a_broker_is_spoken_to_by_tls_if_it_is_who_it_says(
    rabbitmq_server: RabbitMQServer, topic: str, tmp_path: Path
) -> None:
    heard = Heard()
    bodies = [b"x" * 100_000, *[b"%d" % each for each in range(20)]]
    with encrypted(rabbitmq_server.port, tmp_path) as (port, file):
        url = f"amqps://guest:guest@{{}}:{port}//"
        with KombuBus(url.format("localhost"), ca_certs=file, timeout=LONG) as bus:
            for each in bodies:
                bus.publish(topic, each)
            bus.subscribe(topic, heard, prefetch=100)
            assert heard.bodies(len(bodies)) == bodies
        with (
            KombuBus(url.format("localhost"), timeout=LONG) as bus,
            pytest.raises(BusUnavailableError, match="certificate verify failed"),
        ):
            bus.publish(topic, b"")
        with (
            KombuBus(url.format("127.0.0.1"), ca_certs=file, timeout=LONG) as bus,
            pytest.raises(BusUnavailableError, match="not valid for"),
        ):
            bus.publish(topic, b"")


def test_what_has_been_read_and_not_yet_been_taken_needs_no_wait() -> None:
    authority = trustme.CA()
    servers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(servers)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    near, far = socket.socketpair()
    waker = Waker()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        client = ours.wrap_socket(
            near, server_hostname="localhost", do_handshake_on_connect=False
        )
        server = servers.wrap_socket(
            far, server_side=True, do_handshake_on_connect=False
        )
        shake(client, server)
        server.send(b"two")
        assert client.recv(1) == b"t"
        assert waker.wait(0, client)
        assert client.recv(2) == b"wo"
        client.close()
        server.close()
    waker.close()


def shake(*both: ssl.SSLSocket) -> None:
    """Let both ends get to know each other, a step at a time."""
    left = list(both)
    for _ in range(10):
        for each in [*left]:
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(each)


def test_whoever_wakes_a_thread_that_has_ended_does_no_harm() -> None:
    waker = Waker()
    waker.wake()
    assert not waker.wait(10)
    waker.close()
    waker.wake()


def test_a_subscription_that_the_broker_has_ended_says_why_and_not_its_number() -> None:
    error = ConsumerCancelled("go_scheduler-1", (60, 30))
    assert reason(error) == "its queue was deleted, or has moved to another node"
