"""Which bus a URL names, and what is refused."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from go_scheduler import ConfigurationError
from go_scheduler.dispatch import (
    KombuBus,
    MessageBus,
    Topics,
    open_bus,
    register_bus,
)
from go_scheduler.dispatch import bus as opening
from tests.case_tables import json_table
from tests.dispatch.conftest import eventually
from tests.dispatch.direct_bus import DirectBus
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from pathlib import Path


class MyBus(KombuBus):
    """A bus of a user's own."""

    def __init__(self, url: str) -> None:
        super().__init__(url.replace("mine", "memory"))


def announce(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    found = EntryPoints([EntryPoint("theirs", value, opening.ENTRY_POINTS)])
    monkeypatch.setattr(opening, "entry_points", lambda group: found)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_registered", {})


@pytest.mark.parametrize(
    "url",
    [
        "amqp://localhost",
        "amqps://me:secret@localhost/vhost",
        "amqp://a:b@one:5672//;amqp://a:b@two:5672//",
    ],
)
def test_a_url_names_a_bus_that_is_not_connected(url: str) -> None:
    with open_bus(url, queue_type="classic", timeout=timedelta(seconds=1)) as bus:
        assert isinstance(bus, KombuBus)
        assert bus.is_up()
        assert "secret" not in repr(bus)


@pytest.mark.parametrize(
    ("options", "url", "why"),
    [
        *json_table("dispatch/urls_refused"),
        ({"timeout": timedelta(0)}, "amqp://localhost", "timeout must be longer"),
        ({"heartbeat": timedelta(0)}, "amqp://localhost", "heartbeat must be at least"),
    ],
)
def test_what_no_bus_can_use_is_refused(
    options: dict[str, object], url: str, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as raised:
        open_bus(url, **options)
    assert "secret" not in str(raised.value)


def test_what_a_url_says_behind_it_are_options(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    url = f"amqps://me:secret@one//;amqps://two//?queue_type=quorum&tls_ca={file}"
    with open_bus(url) as bus:
        assert isinstance(bus, KombuBus)
        assert bus._address.queue_type == "quorum"
        assert bus._address.ca_certs == str(file)
        assert str(file) not in repr(bus)


def test_a_subscription_that_has_been_closed_is_let_go_of() -> None:
    with open_bus("memory://closed") as bus:
        closed = bus.subscribe("topic", print)
        closed.close()
        found = weakref.ref(closed)
        del closed
        bus.subscribe("topic", print)
        gc.collect()
        assert found() is None


@pytest.mark.usefixtures("registered")
def test_a_bus_of_ones_own_is_opened_by_its_scheme() -> None:
    register_bus("Mine", MyBus)
    register_bus("mine", MyBus)
    with open_bus("mine://host") as bus:
        assert isinstance(bus, MyBus)
    with pytest.raises(ConfigurationError, match="'mine' has a bus"):
        register_bus("mine", KombuBus)
    with pytest.raises(ConfigurationError, match="'amqp' has a bus"):
        register_bus("AMQP", MyBus)


def test_a_bus_that_a_package_announces_is_opened_by_its_scheme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announce(monkeypatch, f"{__name__}:MyBus")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    with pytest.raises(ConfigurationError, match="a scheme of amqp"):
        # It is asked, and makes nothing of another's scheme.
        open_bus("theirs://host")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no.such.module:Bus", "cannot be imported"),
        ("builtins:str", "made a str, not a MessageBus"),
    ],
)
def test_what_is_announced_and_makes_no_bus_is_refused(
    value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(monkeypatch, value)
    with pytest.raises(ConfigurationError, match=why):
        open_bus("theirs://host")


def test_a_bus_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in sys.modules if "dispatch.kombu_bus" in each]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kombu", None)
    with pytest.raises(ConfigurationError, match="needs the extra 'dispatch'"):
        open_bus("amqp://localhost")


@pytest.mark.usefixtures("registered")
def test_what_names_or_makes_no_bus_is_not_registered() -> None:
    wrong: list[Any] = ["a b", "", "1a", "é", "a\n", 7]
    for scheme in wrong:
        with pytest.raises(ConfigurationError, match="scheme must be a"):
            register_bus(scheme, MyBus)
    with pytest.raises(ConfigurationError, match=r"called: 'my\.module:Bus'"):
        register_bus("mine", "my.module:Bus")  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", ["", "ü" * 128, 7])
def test_a_topic_that_no_bus_can_have_is_refused(topic: str) -> None:
    with open_bus("memory://") as bus, pytest.raises(ConfigurationError, match="topic"):
        bus.publish(topic, b"")


@pytest.mark.parametrize("prefetch", [-1, 65_536, 1.0, True, None])
def test_a_prefetch_that_is_no_number_is_refused(prefetch: int) -> None:
    with open_bus("memory://prefetch") as bus:
        with pytest.raises(ConfigurationError, match="prefetch"):
            bus.subscribe("topic", print, prefetch=prefetch)
        subscription = bus.subscribe("topic", print, prefetch=0)
        with pytest.raises(ConfigurationError, match="prefetch"):
            subscription.resize(prefetch)


def test_what_is_no_message_is_refused() -> None:
    with open_bus("memory://") as bus:
        with pytest.raises(ConfigurationError, match="body"):
            bus.publish("topic", "text")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="expires"):
            bus.publish("topic", b"", expires=timedelta(0))


def test_topics_are_named_by_what_goes_there_and_no_two_alike() -> None:
    topics = Topics()
    assert topics.runs("default") == "go_scheduler.run.default"
    assert topics.runs("media", "resize") == "go_scheduler.run.media.resize"
    assert topics.statuses == "go_scheduler.statuses"
    assert topics.control("one") == "go_scheduler.control.one"
    assert Topics("mine").statuses == "mine.statuses"
    assert topics.runs("a.b") == "go_scheduler.run.a%2Eb"
    assert topics.runs("a%2Eb") == "go_scheduler.run.a%252Eb"
    assert topics.runs("a\r\nb") == "go_scheduler.run.a%0D%0Ab"


@pytest.mark.parametrize("namespace", ["", 7, "a\nb", "amq", "amq.mine"])
def test_a_namespace_is_a_name(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        Topics(namespace)


def test_a_topic_of_names_that_are_too_long_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="shorter names"):
        Topics().runs("q" * 250)


def test_a_bus_that_cannot_find_out_whether_it_lets_one_in_is_not_in_the_way() -> None:
    bus = DirectBus()
    bus.up = False
    bus.check()
    assert not bus.published


class SlowBus(DirectBus):
    """A bus of a third party that publishes one message at a time, and slowly."""

    publish_soon = MessageBus.publish_soon  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()

    def publish(self, topic: str, body: bytes, **options: Any) -> None:
        self.begun.release()
        assert self.go_on.wait(FAILED_AFTER)
        super().publish(topic, body, **options)


def test_a_bus_without_a_better_way_publishes_a_few_at_once_and_the_others_later() -> (
    None
):
    before, bus = {*threading.enumerate()}, SlowBus()
    futures = [bus.publish_soon("topic", b"%d" % each) for each in range(18)]
    for _ in range(16):
        assert bus.begun.acquire(timeout=FAILED_AFTER)
    assert len({*threading.enumerate()} - before) == 16
    assert futures[16].cancel()
    bus.go_on.set()
    for each in (*futures[:16], futures[17]):
        each.result(FAILED_AFTER)
    assert len(bus.published["topic"]) == 17
    eventually(lambda: {*threading.enumerate()} <= before)
