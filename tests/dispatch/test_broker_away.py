"""What becomes of a bus whose broker is away, silent, short of memory, or edited."""

from __future__ import annotations

import errno
import socket
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import amqp
import pytest
import trustme

from go_scheduler import BusUnavailableError
from go_scheduler.dispatch import KombuBus
from go_scheduler.dispatch.kombu_bus import Waker, backoff
from go_scheduler.testing.buses import Heard
from tests.dispatch.conftest import Encrypting, Network, eventually
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler.dispatch import Delivery
    from go_scheduler.testing import ManualClock
    from tests.rabbitmq_servers import RabbitMQServer

# A busy machine may take as long for an answer that comes.
BRIEFLY = timedelta(milliseconds=300)
LONG = timedelta(seconds=FAILED_AFTER)
# Of RabbitMQ, that it closes the connection, and why: class 60, method 40, a publish.
_REFUSED = b"\x00\x0a\x00\x32\x01\x93\x0eACCESS_REFUSED\x00\x3c\x00\x28"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def bus(network: Network) -> Iterator[KombuBus]:
    """What a test may break; it is patient too."""
    with KombuBus(network.url, timeout=LONG) as bus:
        yield bus


@pytest.fixture
def patient(rabbitmq_server: RabbitMQServer) -> Iterator[KombuBus]:
    with KombuBus(rabbitmq_server.url, timeout=LONG) as bus:
        yield bus


def is_published(bus: KombuBus, topic: str, body: bytes) -> bool:
    try:
        bus.publish(topic, body)
    except BusUnavailableError:
        return False
    return True


def publish_once_it_is_up(bus: KombuBus, topic: str, body: bytes) -> None:
    eventually(lambda: bus.is_up() and is_published(bus, topic, body))


def hear_until(heard: Heard, body: bytes) -> None:
    """Acknowledge what comes before it, and it: there may be some twice."""
    while heard.bodies(1) != [body]:
        pass


def test_a_connection_that_is_lost_is_made_anew(
    bus: KombuBus,
    network: Network,
    topic: str,
    heard: Heard,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus.publish(topic, b"1")
    bus.subscribe(topic, heard, prefetch=10)
    before = heard.next()
    network.cut()
    # The publisher has lost its connection, and the subscription another.
    eventually(lambda: caplog.text.count("cannot be used") >= 2)
    publish_once_it_is_up(bus, topic, b"2")
    # What was not acknowledged comes again, when the broker has noticed the loss
    # as well; to acknowledge the former is nothing.
    again: dict[bytes, Delivery] = {}
    while again.keys() != {b"1", b"2"}:
        each = heard.next()
        again[each.body] = each
    assert again[b"1"].redelivered
    before.ack()
    for each in again.values():
        each.ack()
    bus.close()
    assert "guest:guest" not in caplog.text


@pytest.mark.slow
def test_a_broker_that_does_not_answer_costs_a_publish_its_timeout_and_the_next_nothing(
    network: Network, topic: str
) -> None:
    # Long enough for a busy machine to have sent it.
    with KombuBus(network.url, timeout=timedelta(seconds=1)) as bus:
        publish_once_it_is_up(bus, topic, b"1")
        network.silence()
        with pytest.raises(BusUnavailableError, match="not confirmed") as raised:
            bus.publish(topic, b"2")
        assert not raised.value.unsent
        eventually(lambda: not bus.is_up())
        with pytest.raises(BusUnavailableError, match="cannot be used") as raised:
            bus.publish(topic, b"3")
        assert raised.value.unsent
        network.speak()
        publish_once_it_is_up(bus, topic, b"4")


@pytest.mark.slow
def test_what_a_broker_never_confirms_has_an_outcome_though_nobody_waits(
    network: Network, topic: str
) -> None:
    with KombuBus(network.url, timeout=BRIEFLY) as bus:
        publish_once_it_is_up(bus, topic, b"1")
        network.silence()
        futures = [bus.publish_soon(topic, b"%d" % each) for each in range(3)]
        for each in futures:
            error = each.exception(FAILED_AFTER)
            assert isinstance(error, BusUnavailableError)
            assert "not confirmed a message within 0.3 s" in str(error)
            assert not error.unsent
        error = bus.publish_soon(topic, b"3").exception(FAILED_AFTER)
        assert isinstance(error, BusUnavailableError)
        assert error.unsent


@pytest.mark.slow
def test_a_broker_that_never_answered_costs_a_publish_no_more(
    network: Network, topic: str
) -> None:
    network.silence()
    # It goes on to wait for the broker when the publish and the bus have ended.
    slowly: dict[str, object] = {"connect_timeout": 1.0}
    with KombuBus(network.url, timeout=BRIEFLY, transport_options=slowly) as bus:
        with pytest.raises(BusUnavailableError) as raised:
            bus.publish(topic, b"1")
        assert raised.value.unsent


def held_back(bus: KombuBus, network: Network, topic: str) -> tuple[object, Any]:
    """What publishes a message that the network holds, and what comes of that."""
    bus.publish(topic, b"1")
    publisher = bus._publisher
    network.hold()
    held = bus.publish_soon(topic, b"2")
    eventually(lambda: bool(publisher._unconfirmed))
    return publisher._channel, held


def test_a_broker_short_of_memory_refuses_at_once_and_takes_again_when_it_says(
    bus: KombuBus, network: Network, topic: str
) -> None:
    bus.publish(topic, b"1")
    network.block()
    with pytest.raises(BusUnavailableError, match="short of memory or disk"):
        # If it was faster than what the broker says, it ends by that.
        bus.publish(topic, b"2")
    assert not bus.is_up()
    network.unblock()
    publish_once_it_is_up(bus, topic, b"3")


def test_a_broker_short_of_memory_for_long_is_waited_for_on_the_same_connection(
    bus: KombuBus, network: Network, topic: str, clock: ManualClock
) -> None:
    publisher = bus._publisher
    publisher._clock = clock
    channel, held = held_back(bus, network, topic)
    network.block()
    assert isinstance(held.exception(FAILED_AFTER), BusUnavailableError)
    eventually(lambda: publisher._oldest is not None)
    clock.advance(timedelta(hours=1))
    publisher.wake()
    eventually(lambda: publisher._oldest_since == clock.elapsed())
    network.unblock()
    publish_once_it_is_up(bus, topic, b"3")
    assert publisher._channel is channel


@pytest.mark.slow
def test_a_subscription_notices_by_itself_that_nothing_comes_any_more(
    network: Network, topic: str, heard: Heard, patient: KombuBus
) -> None:
    with KombuBus(network.url, heartbeat=timedelta(seconds=1)) as bus:
        bus.subscribe(topic, heard)
        patient.publish(topic, b"1")
        assert heard.bodies(1) == [b"1"]
        network.silence_these()
        patient.publish(topic, b"2")
        # The first comes again if its acknowledgement is not there yet.
        hear_until(heard, b"2")


def test_a_process_that_has_no_more_sockets_publishes_when_it_has_one(
    patient: KombuBus, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as short:
        short.setattr(socket, "socketpair", none_left)
        with pytest.raises(BusUnavailableError, match="Too many open files") as raised:
            patient.publish(topic, b"1")
        with pytest.raises(OSError, match="Too many open files"):
            patient.subscribe(topic, Heard())
    assert raised.value.unsent
    patient.publish(topic, b"2")


@pytest.mark.parametrize("first", ["publish", "subscribe"])
def test_a_queue_that_somebody_deletes_is_made_anew(
    patient: KombuBus, topic: str, heard: Heard, channel: Any, first: str
) -> None:
    if first == "subscribe":
        patient.subscribe(topic, heard)
    patient.publish(topic, b"1")
    if first == "subscribe":
        assert heard.bodies(1) == [b"1"]
    channel.queue_delete(topic)
    patient.publish(topic, b"2")
    if first == "publish":
        patient.subscribe(topic, heard)
    assert heard.bodies(1) == [b"2"]


def test_a_queue_that_somebody_made_otherwise_is_used_as_it_is(
    rabbitmq_server: RabbitMQServer, topic: str, heard: Heard, channel: Any
) -> None:
    channel.queue_declare(topic, durable=True, auto_delete=False)
    url = rabbitmq_server.url
    with KombuBus(url, queue_type="quorum", timeout=LONG) as bus:
        bus.subscribe(topic, heard)
        bus.publish(topic, b"1")
        assert heard.bodies(1) == [b"1"]


def test_a_quorum_queue_is_resized_like_any_other(
    rabbitmq_server: RabbitMQServer, topic: str, heard: Heard, channel: Any
) -> None:
    with KombuBus(rabbitmq_server.url, queue_type="quorum") as bus:
        # It takes nothing before its members have found a leader.
        eventually(lambda: is_published(bus, topic, b"1"))
        bus.publish(topic, b"2")
        subscription = bus.subscribe(topic, heard)
        assert heard.next().body == b"1"
        subscription.resize(5)
        hear_until(heard, b"2")
    with pytest.raises(amqp.PreconditionFailed):
        channel.queue_declare(topic, durable=True, auto_delete=False)


def test_a_queue_that_may_not_be_made_takes_nothing(patient: KombuBus) -> None:
    with pytest.raises(BusUnavailableError, match="ACCESS_REFUSED"):
        # Names that begin so are the broker's.
        patient.publish("amq.nobody", b"1")
    assert patient.is_up()


def test_who_hears_a_queue_that_may_not_be_made_is_told_why_there_is_none(
    patient: KombuBus, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    patient.subscribe("amq.nobody", heard)
    eventually(lambda: "topic amq.nobody:" in caplog.text)
    assert "ACCESS_REFUSED" in caplog.text


def test_what_may_not_be_published_is_not_there_and_is_not_tried_soon(
    bus: KombuBus, network: Network, topic: str
) -> None:
    _, held = held_back(bus, network, topic)
    network.tell(_REFUSED)
    error = held.exception(FAILED_AFTER)
    assert isinstance(error, BusUnavailableError)
    assert "ACCESS_REFUSED" in str(error)
    assert error.unsent
    assert backoff(amqp.AccessRefused(), 0) == timedelta(seconds=5)


def test_what_a_full_queue_refuses_is_not_there(
    patient: KombuBus, topic: str, channel: Any
) -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare(topic, durable=True, auto_delete=False, arguments=full)
    with pytest.raises(BusUnavailableError, match="has refused"):
        patient.publish(topic, b"1")


def test_what_has_expired_is_delivered_to_nobody_and_a_century_is_no_obstacle(
    patient: KombuBus, topic: str, heard: Heard
) -> None:
    patient.publish(topic, b"1", expires=timedelta(milliseconds=1))
    patient.publish(topic, b"2", expires=timedelta(days=36500))
    patient.subscribe(topic, heard)
    assert heard.bodies(1) == [b"2"]


def test_what_is_told_to_nobody_makes_no_queue(
    patient: KombuBus, topic: str, channel: Any
) -> None:
    patient.publish(topic, b"1", keep=False)
    with pytest.raises(amqp.NotFound):
        channel.queue_declare(topic, passive=True)


def test_a_topic_of_ones_own_goes_with_its_subscription(
    patient: KombuBus, topic: str, heard: Heard, channel: Any
) -> None:
    subscription = patient.subscribe(topic, heard, own=True)
    patient.publish(topic, b"1")
    assert heard.bodies(1) == [b"1"]
    subscription.close()
    with pytest.raises(amqp.NotFound):
        channel.queue_declare(topic, passive=True)


@pytest.mark.slow
def test_a_broker_is_spoken_to_by_tls_if_it_is_who_it_says(
    rabbitmq_server: RabbitMQServer, topic: str, heard: Heard, tmp_path: Path
) -> None:
    bodies = [b"x" * 100_000, *[b"%d" % each for each in range(20)]]
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    file = str(tmp_path / "authority.pem")
    with Encrypting(rabbitmq_server.port, context) as broker:
        url = f"amqps://guest:guest@{{}}:{broker.port}//"
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


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("amqp://guest:top%2Fhidden@127.0.0.1:{port}//", "Login was refused"),
        ("amqp://guest:guest@127.0.0.1:{port}/nowhere", "vhost nowhere not found"),
        ("amqp://guest:top%2Fhidden@127.0.0.1:{free}//", "refused"),
    ],
)
def test_why_a_broker_does_not_let_one_in_is_said_without_the_password(
    rabbitmq_server: RabbitMQServer,
    where: str,
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as silent:
        # Nobody else takes it, and nobody listens there.
        silent.bind(("127.0.0.1", 0))
        free = silent.getsockname()[1]
        url = where.format(port=rabbitmq_server.port, free=free)
        with KombuBus(url, timeout=LONG) as bus:
            with pytest.raises(BusUnavailableError, match=why) as raised:
                bus.publish("topic", b"1")
            assert "(403)" not in str(raised.value)
            with pytest.raises(BusUnavailableError, match=why) as checked:
                bus.check()
            assert checked.value.refused is ("Connection" not in str(checked.value))
            told = f"{raised.value} {checked.value} {bus!r} {caplog.text}"
    assert "top/hidden" not in told
    assert "top%2Fhidden" not in told
    assert "://guest:***@127.0.0.1:" in told


def test_the_next_host_is_asked_if_one_is_away(
    rabbitmq_server: RabbitMQServer, topic: str
) -> None:
    url = f"amqp://127.0.0.1:1//;{rabbitmq_server.url}"
    with KombuBus(url, timeout=LONG) as bus:
        with pytest.raises(BusUnavailableError):
            bus.publish(topic, b"1")
        publish_once_it_is_up(bus, topic, b"2")


def test_a_broker_that_stays_away_is_told_once_and_a_bus_is_closed_meanwhile(
    topic: str, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    bus = KombuBus("amqp://127.0.0.1:1//", timeout=LONG)
    bus.subscribe(topic, heard)
    with pytest.raises(BusUnavailableError):
        bus.publish(topic, b"1")
    eventually(lambda: bus._publisher._failures > 2)
    bus.close()
    told = [each for each in caplog.messages if each.startswith("publisher:")]
    assert len(told) == 1


class ReadAhead(ssl.SSLSocket):
    """A socket of which TLS has read a whole record, and nobody the last of it."""

    def __init__(self) -> None:
        """It is connected to nothing."""

    def pending(self) -> int:
        return 2


def test_what_tls_has_read_and_nobody_has_taken_needs_no_wait() -> None:
    waker = Waker()
    assert waker.wait(FAILED_AFTER, ReadAhead())
    waker.close()
