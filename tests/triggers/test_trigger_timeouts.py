"""Foreign triggers are asked by who looks at them, and harm nobody."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler import MemoryStore, TaskDefinition
from go_scheduler.cli.output import described
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.http import create_app
from go_scheduler.simulation import simulate
from go_scheduler.testing import ManualClock, TriggerSuite
from go_scheduler.testing.builders import HOUR, definition, put
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    AnyOfTrigger,
    CronTrigger,
    LimitedTrigger,
    explain,
    previews,
)
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.previews import ask
from go_scheduler.triggers.simple import IntervalTrigger
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.why import Facts
from tests.dashboard.house import as_ann
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG = 30
"""Seconds that nothing takes unless it has failed."""


class Gate:
    """What holds triggers up until it is opened."""

    opened = threading.Event()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy makes none of a trigger that hangs."""
    monkeypatch.setattr(previews, "PATIENCE", LONG)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, _patient: None) -> Iterator[threading.Event]:
    monkeypatch.setattr(previews, "PATIENCE", 0.05)
    monkeypatch.setattr(previews, "_hanging", {})
    Gate.opened = threading.Event()
    yield Gate.opened
    Gate.opened.set()


@dataclass(frozen=True)
class Hanging(Trigger):
    """A third party's, which answers when the gate is open."""

    kind: ClassVar[str] = "tests.hanging"

    def next_fire_time(self, after: datetime) -> datetime | None:
        Gate.opened.wait(LONG)
        return None

    def describe(self) -> str:
        Gate.opened.wait(LONG)
        return "now and then"


@dataclass(frozen=True)
class Odd(Trigger):
    """One that can tell a time, and fails at the one after it."""

    kind: ClassVar[str] = "tests.odd"

    def next_fire_time(self, after: datetime) -> datetime | None:
        if after >= START:
            raise ZeroDivisionError
        return START


@dataclass(frozen=True)
class Torn(Trigger):
    """One that tells its fire times, and not of what it is made."""

    kind: ClassVar[str] = "tests.torn"
    timezone: ClassVar[str] = "Europe/Berlin"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + HOUR

    def parts(self) -> tuple[Trigger, ...]:
        raise ZeroDivisionError


@dataclass(frozen=True)
class Fickle(Trigger):
    """One that tells everything but once."""

    kind: ClassVar[str] = "tests.fickle"
    told: ClassVar[set[datetime]] = set()

    def next_fire_time(self, after: datetime) -> datetime | None:
        if after in self.told:
            raise ZeroDivisionError
        self.told.add(after)
        return after + HOUR


def test_one_that_hangs_is_left_behind_until_it_answers(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def question() -> str:
        answer = Hanging().describe()
        ended.set()
        return answer

    with pytest.raises(InvalidTriggerError, match="did not answer within"):
        ask(Hanging(), question)
    with pytest.raises(InvalidTriggerError, match="has not answered yet"):
        ask(Hanging(), lambda: "at once")
    assert ask(IntervalTrigger(HOUR, anchor=START), lambda: 1) == 1
    gate.set()
    assert ended.wait(LONG)
    previews._hanging[Hanging].result(LONG)
    monkeypatch.setattr(previews, "PATIENCE", LONG)
    assert ask(Hanging(), Hanging().describe) == "now and then"


@pytest.mark.parametrize(
    "call",
    [
        lambda: Client(MemoryStore()).schedule(TaskDefinition(trigger=Hanging())),
        lambda: explain(Hanging(), START),
        lambda: TriggerSuite().test_it_answers_at_the_ends_of_time(Hanging()),
        lambda: TriggerSuite().test_the_first_fire_time_is_utc(Hanging()),
    ],
    ids=["schedule", "explain", "suite", "suite's first"],
)
def test_who_writes_one_that_hangs_is_told(
    gate: threading.Event, call: Callable[[], object]
) -> None:
    with pytest.raises(InvalidTriggerError, match="Hanging hangs: it did not answer"):
        call()


@pytest.mark.parametrize(
    ("raised", "heard"),
    [(SystemExit, InvalidTriggerError), (TimeoutError, TimeoutError)],
)
def test_what_is_raised_is_heard(
    raised: type[BaseException], heard: type[Exception]
) -> None:
    def question() -> object:
        raise raised

    with pytest.raises(heard):
        ask(Hanging(), question)


def test_one_that_answers_just_as_it_is_given_up_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(Future[str]):
        def result(self, timeout: float | None = None) -> str:
            found = super().result(LONG)
            if timeout is not None:
                raise TimeoutError
            return found

    monkeypatch.setattr(previews, "Future", Late)
    assert ask(Hanging(), lambda: "just so") == "just so"


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (CronTrigger("0 9 * * *", BERLIN), "every day at 09:00 (Europe/Berlin)"),
        (CronTrigger("0 9 * * *"), "every day at 09:00"),
        (IntervalTrigger(HOUR), "every hour"),
        (
            LimitedTrigger(CronTrigger("0 9 * * *", BERLIN), limit=3),
            "every day at 09:00, 3 times (Europe/Berlin)",
        ),
        (
            AnyOfTrigger([CronTrigger("0 9 * * *", BERLIN), IntervalTrigger(HOUR)]),
            "every day at 09:00 or every hour (Europe/Berlin)",
        ),
        (
            AnyOfTrigger(
                [CronTrigger("0 9 * * *", each) for each in (NEW_YORK, "UTC", BERLIN)]
            ),
            "every day at 09:00 or every day at 09:00 or every day at 09:00"
            " (America/New_York, UTC, Europe/Berlin)",
        ),
    ],
)
def test_people_are_shown_a_phrase_with_its_zone_unless_it_is_utc(
    trigger: Trigger, text: str
) -> None:
    assert described(trigger) == text
    assert any(f"<bdi>{text}</bdi>" in each for each in pages_of(trigger).values())


@pytest.mark.slow
def test_pages_do_not_wait_for_one_that_hangs(gate: threading.Event) -> None:
    found = pages_of(Hanging())
    assert "hangs: it" in found["/definitions"]
    assert "cannot be shown" in found["page"]


def test_nobody_waits_over_http_for_one_that_hangs(gate: threading.Event) -> None:
    store = MemoryStore(ManualClock())
    store.initialize()
    made = put(store, replace(definition(START + HOUR), trigger=Hanging()))
    with Calling(create_app(Client(store))) as http:
        [listed] = http.get("/v1/definitions").json()["items"]
        refused = http.get(f"/v1/definitions/{made.id}/preview")
    assert (listed["id"], listed["description"]) == (str(made.id), None)
    assert refused.status_code == 422
    assert "hangs: it has not answered yet" in refused.json()["detail"]


def test_no_command_waits_for_one_that_hangs(gate: threading.Event) -> None:
    hanging = definition(START + HOUR)
    hourly = TaskDefinition(trigger=IntervalTrigger(HOUR, anchor=START))
    found = simulate(
        [replace(hanging, trigger=Hanging()), hourly], start=START, span=24 * HOUR
    )
    [warning] = found.definitions[0].warnings
    assert "did not answer within 0.05 s" in warning
    assert found.fires == 23
    assert "hangs: it has not answered yet" in described(Hanging())


def test_what_the_clocks_do_to_one_that_cannot_say_is_left_out() -> None:
    torn = TaskDefinition(trigger=Torn())
    found = simulate([torn], start=datetime(2030, 3, 31, tzinfo=UTC), span=24 * HOUR)
    assert (found.fires, found.definitions[0].effects) == (23, ())


def test_why_is_said_of_what_a_trigger_cannot_tell() -> None:
    assert "ZeroDivisionError" in pages_of(Odd())["page"]
    store = MemoryStore(ManualClock())
    store.initialize()
    fickle = put(store, replace(definition(START + HOUR), trigger=Fickle()))
    facts = Facts(definition=fickle, at=START, now=START, instances=[], nodes=[])
    Fickle.told.add(START + HOUR - MICROSECOND)
    assert facts.nearest() == ()


def pages_of(trigger: Trigger) -> dict[str, str]:
    """The pages on which a trigger is looked at, all of which are there."""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.initialize()
    made = put(store, replace(definition(START + HOUR), trigger=trigger))
    app = create_dashboard(Client(store), authorize=as_ann, clock=clock)
    at = f"/definitions/{made.id}?at="
    paths = {
        "/definitions": "/definitions",
        "strip": f"/strip?of={made.id}&zoom=day",
        "page": f"/definitions/{made.id}",
        "why before": f"{at}2029-12-31T23:59:59",
        "why": f"{at}2030-01-01T05:00",
    }
    with Calling(app) as browser:
        answers = {name: browser.get(path) for name, path in paths.items()}
    assert {each.status_code for each in answers.values()} == {200}
    return {name: each.text for name, each in answers.items()}
