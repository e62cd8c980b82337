"""The bus suite: tests what ``MessageBus`` promises, for any bus."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.errors import BusUnavailableError
from go_scheduler.testing.builders import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.dispatch import Delivery, MessageBus
    from go_scheduler.dispatch.bus import Subscription

_PATIENCE = 60.0
_SOON = 0.1


class Heard:
    """Keeps the deliveries of a subscription, in their order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Delivery] = SimpleQueue()

    def __call__(self, delivery: Delivery) -> None:
        """Keep a delivery."""
        self._queue.put(delivery)

    def next(self) -> Delivery:
        """Wait for the next delivery and return it."""
        return self._queue.get(timeout=_PATIENCE)

    def bodies(self, count: int) -> list[bytes]:
        """Acknowledge the next deliveries and return their bodies."""
        found = []
        for _ in range(count):
            delivery = self.next()
            found.append(delivery.body)
            delivery.ack()
        return found

    def nothing(self) -> bool:
        """Whether no delivery comes for a short while."""
        try:
            self._queue.get(timeout=_SOON)
        except Empty:
            return True
        return False


class Line:
    """An open bus, a topic of its own, and the deliveries of one subscription."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self.topic = f"go_scheduler.test.{uuid4()}"
        self.heard = Heard()

    def publish(self, *bodies: bytes, **options: Any) -> None:
        """Publish these messages on the topic, one after another."""
        for body in bodies:
            self.bus.publish(self.topic, body, **options)

    def subscribe(self, **options: Any) -> Subscription:
        """Subscribe to the topic."""
        return self.bus.subscribe(self.topic, self.heard, **options)


class BusSuite(ABC):
    """Tests of a bus: subclass it, and say how one is opened.

    ```python
    class TestMyBus(BusSuite):
        def open_bus(self) -> MessageBus:
            return MyBus("my://localhost")
    ```

    Each test has topics of its own, so one broker may serve all.
    """

    @abstractmethod
    def open_bus(self) -> MessageBus:
        """Open a bus on the broker that all tests share."""

    @pytest.fixture
    def line(self) -> Iterator[Line]:
        """An open bus and a topic of the test's own."""
        with self.open_bus() as bus:
            yield Line(bus)

    def test_a_message_waits_for_a_subscriber(self, line: Line) -> None:
        line.publish(b'{"n": 1}')
        assert line.bus.is_up()
        line.bus.close()
        with self.open_bus() as other:
            other.subscribe(line.topic, line.heard)
            delivery = line.heard.next()
            assert delivery.body == b'{"n": 1}'
            assert not delivery.redelivered
            delivery.ack()

    def test_any_bytes_arrive_unchanged(self, line: Line) -> None:
        bodies = [b"", b"\x00\xff", "ü€\N{SNOWMAN}".encode(), b"x" * 300_000]
        line.subscribe(prefetch=10)
        line.publish(*bodies, expires=timedelta(minutes=1))
        assert sorted(line.heard.bodies(len(bodies))) == sorted(bodies)

    def test_each_message_goes_to_one_of_two_subscribers(self, line: Line) -> None:
        second = Heard()
        with self.open_bus() as other:
            line.subscribe()
            other.subscribe(line.topic, second)
            line.publish(b"1", b"2")
            # Neither acknowledges, and each may have one.
            assert {line.heard.next().body, second.next().body} == {b"1", b"2"}

    def test_prefetch_limits_the_unacknowledged(self, line: Line) -> None:
        line.publish(b"0", b"1", b"2")
        line.subscribe(prefetch=2)
        had = [line.heard.next(), line.heard.next()]
        assert line.heard.nothing()
        # From another thread than that of the subscription.
        had[0].ack()
        had[0].ack()
        assert line.heard.next().body == b"2"

    def test_a_resize_from_zero_starts_deliveries(self, line: Line) -> None:
        line.publish(b"1", b"2")
        subscription = line.subscribe(prefetch=0)
        assert line.heard.nothing()
        subscription.resize(1)
        line.heard.next()
        assert line.heard.nothing()
        subscription.resize(2)
        assert line.heard.next().body == b"2"

    def test_an_ack_after_a_resize_to_zero_brings_nothing(self, line: Line) -> None:
        line.publish(b"1", b"2")
        subscription = line.subscribe()
        delivery = line.heard.next()
        subscription.resize(0)
        delivery.ack()
        assert line.heard.nothing()

    def test_a_rejected_message_is_requeued_or_dropped(self, line: Line) -> None:
        line.publish(b"1")
        line.subscribe()
        line.heard.next().reject(requeue=True)
        again = line.heard.next()
        assert again.body == b"1"
        again.reject(requeue=False)
        line.publish(b"2")
        assert line.heard.next().body == b"2"

    def test_a_close_requeues_the_unacknowledged(self, line: Line) -> None:
        line.publish(b"1")
        subscription = line.subscribe()
        kept = line.heard.next()
        subscription.close()
        subscription.close()
        again = Heard()
        line.bus.subscribe(line.topic, again)
        assert again.bodies(1) == [b"1"]
        kept.ack()
        kept.reject(requeue=True)

    def test_a_receiver_that_raises_loses_one_message(
        self, line: Line, caplog: pytest.LogCaptureFixture
    ) -> None:
        bodies: SimpleQueue[bytes] = SimpleQueue()

        def receive(delivery: Delivery) -> None:
            if delivery.body == b"bad":
                raise RuntimeError("not this one")
            bodies.put(delivery.body)
            delivery.ack()

        line.bus.subscribe(line.topic, receive)
        line.publish(b"bad", b"good")
        assert bodies.get(timeout=_PATIENCE) == b"good"
        line.bus.close()
        assert "not this one" in caplog.text

    def test_a_receiver_may_close_its_subscription(self, line: Line) -> None:
        closed = threading.Event()

        def receive(delivery: Delivery) -> None:
            delivery.ack()
            subscription.close()
            closed.set()

        subscription = line.bus.subscribe(line.topic, receive)
        line.publish(b"1")
        assert closed.wait(_PATIENCE)

    def test_a_subscription_of_its_own_gets_all(self, line: Line) -> None:
        subscription = line.subscribe(own=True)
        # It is ready once this has come, which waits for it.
        line.publish(b"1")
        assert line.heard.bodies(1) == [b"1"]
        line.publish(b"2", keep=False)
        assert line.heard.bodies(1) == [b"2"]
        subscription.close()
        line.publish(b"3", keep=False)

    def test_many_threads_publish_at_once(self, line: Line) -> None:
        def publish(of: int) -> None:
            line.publish(*(b"%d" % (of * 25 + each) for each in range(25)))

        at_once(*(partial(publish, number) for number in range(4)))
        line.subscribe(prefetch=10)
        assert sorted(map(int, line.heard.bodies(100))) == list(range(100))

    def test_publish_soon_does_not_wait(self, line: Line) -> None:
        soon, publish = timedelta(minutes=1), line.bus.publish_soon
        bodies = [b"%d" % number for number in range(100)]
        for each in [publish(line.topic, body, expires=soon) for body in bodies]:
            each.result(_PATIENCE)
        publish(f"{line.topic}.none", b"", keep=False).result(_PATIENCE)
        line.subscribe(prefetch=10)
        assert sorted(line.heard.bodies(100)) == sorted(bodies)

    def test_a_bus_that_has_been_closed_is_away(self, line: Line) -> None:
        line.publish(b"1")
        line.bus.close()
        line.bus.close()
        assert not line.bus.is_up()
        with pytest.raises(BusUnavailableError):
            line.publish(b"2")
        with pytest.raises(BusUnavailableError):
            line.bus.publish_soon(line.topic, b"2").result(_PATIENCE)
        with pytest.raises(BusUnavailableError):
            line.subscribe()

    def test_a_closed_bus_leaves_no_thread(self) -> None:
        before = {*threading.enumerate()}
        with self.open_bus() as bus:
            line = Line(bus)
            bus.check()
            line.subscribe()
            line.publish(b"1")
            line.heard.next()
        assert {*threading.enumerate()} <= before
