"""The bus by kombu holds what any bus promises: in memory and on RabbitMQ."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.dispatch import KombuBus, MessageBus, open_bus
from go_scheduler.testing.buses import BusSuite
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


class TestOnRabbitMQ(BusSuite):
    @pytest.fixture(autouse=True)
    def broker(self, rabbitmq_server: RabbitMQServer) -> None:
        self.url = rabbitmq_server.url

    def open_bus(self) -> MessageBus:
        return open_bus(self.url, timeout=LONG)
