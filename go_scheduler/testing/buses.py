"""A suite that any bus has to pass: what ``MessageBus`` promises, tested."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from go_scheduler.dispatch import Delivery, MessageBus

_PATIENCE = 60.0
_SOON = 0.1


class Heard:
    """What a subscription has delivered, in its order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Delivery] = SimpleQueue()

    def __call__(self, delivery: Delivery) -> None:
        """Take it."""
        self._queue.put(delivery)

    def next(self) -> Delivery:
        """The next one, for which this waits."""
        return self._queue.get(timeout=_PATIENCE)

    def bodies(self, count: int) -> list[bytes]:
        """Those of the next ones, which are acknowledged."""
        found = []
        for _ in range(count):
            delivery = self.next()
            found.append(delivery.body)
            delivery.ack()
        return found

    def nothing(self) -> bool:
        """Whether none comes for a while."""
        try:
            self._queue.get(timeout=_SOON)
        except Empty:
            return True
        return False


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
        """A bus on the broker that all of these tests share."""

    @pytest.fixture
    def topic(self) -> str:
        """A topic that no other test has."""
        return f"go_scheduler.test.{uuid4()}"

    @pytest.fixture
    def heard(self) -> Heard:
        """Takes what is delivered."""
        return Heard()

    def test_a_message_waits_for_a_subscriber(self, topic: str, heard: Heard) -> None:
        with self.open_bus() as bus:
            bus.publish(topic, b'{"n": 1}')
            assert bus.is_up()
        with self.open_bus() as bus:
            bus.subscribe(topic, heard)
            delivery = heard.next()
            assert delivery.body == b'{"n": 1}'
            assert not delivery.redelivered
            delivery.ack()

    def test_any_bytes_arrive_unchanged(self, topic: str, heard: Heard) -> None:
        bodies = [b"", b"\x00\xff", "ü€\N{SNOWMAN}".encode(), b"x" * 300_000]
        with self.open_bus() as bus:
            bus.subscribe(topic, heard, prefetch=10)
            for body in bodies:
                bus.publish(topic, body, expires=timedelta(minutes=1))
            assert sorted(heard.bodies(len(bodies))) == sorted(bodies)

    def test_each_message_goes_to_one_of_two_subscribers(self, topic: str) -> None:
        first, second = Heard(), Heard()
        with self.open_bus() as bus, self.open_bus() as other:
            bus.subscribe(topic, first)
            other.subscribe(topic, second)
            bus.publish(topic, b"1")
            bus.publish(topic, b"2")
            # Neither acknowledges, and each may have one.
            assert {first.next().body, second.next().body} == {b"1", b"2"}

    def test_prefetch_limits_the_unacknowledged(self, topic: str, heard: Heard) -> None:
        with self.open_bus() as bus:
            for number in range(3):
                bus.publish(topic, b"%d" % number)
            bus.subscribe(topic, heard, prefetch=2)
            had = [heard.next(), heard.next()]
            assert heard.nothing()
            # From another thread than that of the subscription.
            had[0].ack()
            had[0].ack()
            assert heard.next().body == b"2"

    def test_a_resize_from_zero_starts_deliveries(
        self, topic: str, heard: Heard
    ) -> None:
        with self.open_bus() as bus:
            bus.publish(topic, b"1")
            bus.publish(topic, b"2")
            subscription = bus.subscribe(topic, heard, prefetch=0)
            assert heard.nothing()
            subscription.resize(1)
            heard.next()
            assert heard.nothing()
            subscription.resize(2)
            assert heard.next().body == b"2"

    def test_an_ack_after_a_resize_to_zero_brings_nothing(
        self, topic: str, heard: Heard
    ) -> None:
        with self.open_bus() as bus:
            bus.publish(topic, b"1")
            bus.publish(topic, b"2")
            subscription = bus.subscribe(topic, heard)
            delivery = heard.next()
            subscription.resize(0)
            delivery.ack()
            assert heard.nothing()

    def test_a_rejected_message_is_requeued_or_dropped(
        self, topic: str, heard: Heard
    ) -> None:
        with self.open_bus() as bus:
            bus.publish(topic, b"1")
            bus.subscribe(topic, heard)
            heard.next().reject(requeue=True)
            again = heard.next()
            assert again.body == b"1"
            again.reject(requeue=False)
            bus.publish(topic, b"2")
            assert heard.next().body == b"2"

    def test_a_close_requeues_the_unacknowledged(
        self, topic: str, heard: Heard
    ) -> None:
        with self.open_bus() as bus:
            bus.publish(topic, b"1")
            subscription = bus.subscribe(topic, heard)
            kept = heard.next()
            subscription.close()
            subscription.close()
            again = Heard()
            bus.subscribe(topic, again)
            assert again.bodies(1) == [b"1"]
            kept.ack()
            kept.reject(requeue=True)

    def test_a_receiver_that_raises_loses_one_message(
        self, topic: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        bodies: SimpleQueue[bytes] = SimpleQueue()

        def receive(delivery: Delivery) -> None:
            if delivery.body == b"bad":
                raise RuntimeError("not this one")
            bodies.put(delivery.body)
            delivery.ack()

        with self.open_bus() as bus:
            bus.subscribe(topic, receive)
            bus.publish(topic, b"bad")
            bus.publish(topic, b"good")
            assert bodies.get(timeout=_PATIENCE) == b"good"
        assert "not this one" in caplog.text

    def test_a_receiver_may_close_its_subscription(self, topic: str) -> None:
        closed = threading.Event()

        def receive(delivery: Delivery) -> None:
            delivery.ack()
            subscription.close()
            closed.set()

        with self.open_bus() as bus:
            subscription = bus.subscribe(topic, receive)
            bus.publish(topic, b"1")
            assert closed.wait(_PATIENCE)

    def test_a_subscription_of_its_own_gets_all(self, topic: str, heard: Heard) -> None:
        with self.open_bus() as bus:
            subscription = bus.subscribe(topic, heard, own=True)
            # It is ready once this has come, which waits for it.
            bus.publish(topic, b"1")
            assert heard.bodies(1) == [b"1"]
            bus.publish(topic, b"2", keep=False)
            assert heard.bodies(1) == [b"2"]
            subscription.close()
            bus.publish(topic, b"3", keep=False)

    def test_many_threads_publish_at_once(self, topic: str, heard: Heard) -> None:
        with self.open_bus() as bus:

            def publish(of: int) -> None:
                for each in range(25):
                    bus.publish(topic, b"%d" % (of * 25 + each))

            threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            bus.subscribe(topic, heard, prefetch=10)
            assert sorted(map(int, heard.bodies(100))) == list(range(100))

    def test_publish_soon_does_not_wait(self, topic: str, heard: Heard) -> None:
        with self.open_bus() as bus:
            soon = timedelta(minutes=1)
            found = [
                bus.publish_soon(topic, b"%d" % each, expires=soon)
                for each in range(100)
            ]
            for each in found:
                each.result(_PATIENCE)
            bus.publish_soon(f"{topic}.none", b"", keep=False).result(_PATIENCE)
            bus.subscribe(topic, heard, prefetch=10)
            assert sorted(map(int, heard.bodies(100))) == list(range(100))

    def test_a_bus_that_has_been_closed_is_away(self, topic: str, heard: Heard) -> None:
        bus = self.open_bus()
        bus.publish(topic, b"1")
        bus.close()
        bus.close()
        assert not bus.is_up()
        with pytest.raises(BusUnavailableError):
            bus.publish(topic, b"2")
        with pytest.raises(BusUnavailableError):
            bus.publish_soon(topic, b"2").result(_PATIENCE)
        with pytest.raises(BusUnavailableError):
            bus.subscribe(topic, heard)

    def test_a_closed_bus_leaves_no_thread(self, topic: str, heard: Heard) -> None:
        before = {*threading.enumerate()}
        with self.open_bus() as bus:
            bus.check()
            bus.subscribe(topic, heard)
            bus.publish(topic, b"1")
            heard.next()
        assert {*threading.enumerate()} <= before
