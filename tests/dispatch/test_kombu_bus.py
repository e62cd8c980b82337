"""The bus by kombu keeps what any bus promises; one that does not fails the suite."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from queue import Empty
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.dispatch import KombuBus, MessageBus, open_bus
from go_scheduler.testing import buses
from go_scheduler.testing.buses import BusSuite, Line
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from tests.rabbitmq_servers import RabbitMQServer


# A broker on a busy machine may take as long to answer.
LONG = timedelta(seconds=FAILED_AFTER)


class TestInMemory(BusSuite):
    def open_bus(self) -> MessageBus:
        return open_bus("memory://suite", timeout=LONG)


class Plain(KombuBus):
    """One that publishes many as any bus does that has no better way."""

    publish_soon = MessageBus.publish_soon


class TestPlain(BusSuite):
    def open_bus(self) -> MessageBus:
        return Plain("memory://plain", timeout=LONG)


HANGS = """
from threading import Event
from go_scheduler.dispatch import KombuBus, MessageBus

class Hanging(KombuBus):
    publish_soon = MessageBus.publish_soon

    def publish(self, topic, body, **options):
        Event().wait()

Hanging("memory://hanging").publish_soon("topic", b"1")
"""


def test_a_message_that_hangs_keeps_no_process_from_its_end() -> None:
    subprocess.run([sys.executable, "-c", HANGS], check=True, timeout=FAILED_AFTER)


class TestOnRabbitMQ(BusSuite):
    @pytest.fixture(autouse=True)
    def broker(self, rabbitmq_server: RabbitMQServer) -> None:
        self.url = rabbitmq_server.url

    def open_bus(self) -> MessageBus:
        return open_bus(self.url, timeout=LONG)


class LosesWhatNobodyHears(KombuBus):
    def publish(self, topic: str, body: bytes, **options: Any) -> None:
        """Only to be on the bus at some other time."""


class DeliversAsMuchAsThereIs(KombuBus):
    def subscribe(self, topic: str, receive: Any, **options: Any) -> Any:
        return super().subscribe(topic, receive, **{**options, "prefetch": 100})


class ClosesNothing(KombuBus):
    def is_up(self) -> bool:
        return True


FAULTS = {
    LosesWhatNobodyHears: "test_a_message_waits_for_a_subscriber",
    DeliversAsMuchAsThereIs: "test_prefetch_limits_the_unacknowledged",
    ClosesNothing: "test_a_bus_that_has_been_closed_is_away",
}


@pytest.mark.parametrize("broken", FAULTS, ids=lambda each: each.__name__)
def test_a_broken_bus_fails(
    broken: type[KombuBus], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Suite(BusSuite):
        def open_bus(self) -> MessageBus:
            return broken("memory://broken")

    monkeypatch.setattr(buses, "_PATIENCE", 0.1)
    # It ends once what should not come has come.
    monkeypatch.setattr(buses, "_SOON", 20.0)
    suite = Suite()
    with suite.open_bus() as bus, pytest.raises((AssertionError, Empty)):
        getattr(suite, FAULTS[broken])(Line(bus))
