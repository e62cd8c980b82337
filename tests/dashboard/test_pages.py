"""Pages: what is asked of them, what callers see, and what there is much of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    ExecuteOnceTrigger,
    HandedOn,
    MemoryStore,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.clock import ZERO
from go_scheduler.dashboard.pages import policies_of
from go_scheduler.dashboard.words import late, span
from go_scheduler.models import Outcome
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    definition,
    ended,
    fire,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger, load_trigger
from go_scheduler.triggers.simple import IntervalTrigger
from tests.case_tables import table
from tests.dashboard.parsed import Parsed
from tests.dashboard.seeds import sow
from tests.http.serving import Calling

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

PAGES = ("/", "/strip", "/definitions", "/instances", "/search", "/nodes")


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_store_has_every_page(browser: Calling, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert Parsed(answer).open == []


def test_a_path_without_a_page_says_so(browser: Calling) -> None:
    answer = browser.get("/dashboard/strip")
    assert answer.status_code == 404
    assert "there is no page under this path" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        f"/definitions/{UUID(int=9)}",
        f"/instances/{UUID(int=9)}",
        f"/strip?of={UUID(int=9)}",
        "/definitions/x",
    ],
)
def test_what_is_not_there_is_not_found(browser: Calling, path: str) -> None:
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "field"),
    [
        *table("dashboard/filters_refused"),
        ("/definitions?name=" + "x" * 10_001, "name"),
        ("/strip?of=" + ",".join([str(uuid4())] * 11), "of"),
    ],
)
def test_a_wrong_filter_is_told(browser: Calling, path: str, field: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 422
    assert field in Parsed(answer).text


def test_an_id_leads_to_what_has_it(browser: Calling, store: Store) -> None:
    made = pending(store)
    of = browser.get(f"/search?q={made.definition.id}")
    assert of.headers["Location"].endswith(f"/definitions/{made.definition.id}")
    of = browser.get(f"/search?q={made.id}")
    assert of.headers["Location"].endswith(f"/instances/{made.id}")
    assert browser.get(f"/search?q={uuid4()}").status_code == 200


def test_a_definition_is_shown_and_found_by_its_key(
    browser: Calling, store: Store
) -> None:
    made = put(store, definition(START + HOUR, name="report", key="nightly <b>"))
    for path in ("/strip", f"/definitions/{made.id}", "/definitions"):
        assert "nightly <b>" in Parsed(browser.get(path)).text
    found = Parsed(browser.get("/search?q=nightly <b>"))
    assert [row[0] for row in found.rows("whose key it is")] == ["report nightly <b>"]


@pytest.mark.slow
def test_lists_go_on(browser: Calling, store: Store) -> None:
    for key in range(60):
        put(store, definition(START + HOUR, name=f"n{key}", key=key + 1))
        ended(store, outcome=Outcome.FAILED)
    first = Parsed(browser.get("/definitions?state=active&order=soonest"))
    rest = Parsed(browser.get(first.links["Next"]))
    assert len(first.rows("Definitions")) == 50
    assert len(rest.rows("Definitions")) == 10
    first = Parsed(browser.get("/instances?state=failed"))
    rest = Parsed(browser.get(first.links["Earlier"]))
    assert (len(first.rows("are failed")), len(rest.rows("are failed"))) == (50, 10)
    assert "Earlier" not in rest.links
    assert "enter more of the name" in Parsed(browser.get("/search?q=n")).text


def test_a_history_goes_on(browser: Calling, store: Store) -> None:
    made = put(store, definition(START, name="report"))
    fire(store, made, *(START - MINUTE * each for each in range(1, 31)))
    first = Parsed(browser.get(f"/definitions/{made.id}"))
    rest = Parsed(browser.get(first.links["Earlier instances"]))
    rows = first.rows("Instances of its fire times") + rest.rows(
        "Instances of its fire times"
    )
    assert len({row[2] for row in rows}) == 30
    assert "Earlier instances" not in rest.links


def test_of_many_that_run_a_few_are_shown(browser: Calling, store: Store) -> None:
    for _ in range(21):
        running(store)
    page = Parsed(browser.get("/"))
    assert len(page.rows("Claimed and running")) == 20
    assert "21 in all" in page.text


def test_how_far_a_run_on_a_bus_has_come_is_shown(
    browser: Calling, store: Store, clock: ManualClock
) -> None:
    given = HandedOn(start_timeout=MINUTE)
    retry = RetryPolicy(delay=HOUR)
    once = TaskDefinition(trigger=ExecuteOnceTrigger(START), retry=retry)
    with Scheduler(lambda instance: given, store, clock=clock) as scheduler:
        scheduler.schedule(once)
        clock.advance(SECOND)
        [instance] = scheduler.list_instances(definition_id=once.id)
        path = f"/instances/{instance.id}"
        assert "<dt>Stage</dt><dd>published</dd>" in browser.get(path).text
        scheduler.accept(instance.id, 1, worker="bert", by=MINUTE)
        assert "<dt>Stage</dt><dd>accepted</dd>" in browser.get(path).text
        scheduler.begin(instance.id, 1, worker="bert", by=MINUTE)
        scheduler.extend(instance.id, 1, MINUTE, progress="half of it")
        seen = browser.get(path).text
        assert "<dt>Stage</dt><dd>started</dd>" in seen
        assert "half of it" in seen
        clock.advance(3 * MINUTE)
    seen = browser.get(path).text
    assert "<td>lost, started</td>" in seen
    assert "<dt>Stage</dt>" not in seen


def test_nodes_that_have_gone_silent_are_shown_as_such(
    store: Store, clock: ManualClock, browser: Calling
) -> None:
    sow(store, clock)
    clock.advance(2 * MINUTE)
    assert Parsed(browser.get("/nodes")).text.count("longer than its lease") == 2


def test_a_strip_begins_where_it_is_asked_to(browser: Calling, store: Store) -> None:
    made = pending(store, definition(START - 30 * MINUTE))
    for of in ("", f"of={made.definition.id}&"):
        page = Parsed(browser.get(f"/strip?{of}zoom=hour&start=2029-12-31T23:00"))
        assert "2029-12-31 23:00:00 UTC to 2030-01-01 00:00:00 UTC" in page.text
    assert len(page.rows("Each firing")) == 1
    assert "2029-12-31 23:30:00 UTC to" in Parsed(browser.get(page.links["Later"])).text
    assert "zoom=10-minutes" in page.links["Closer"]


def test_of_too_many_a_strip_shows_the_numbers(browser: Calling, store: Store) -> None:
    every = IntervalTrigger(SECOND, anchor=START)
    made = put(store, definition(START + SECOND, trigger=every))
    page = Parsed(browser.get(f"/strip?of={made.id}&zoom=day"))
    assert page.rows("Counts of each part")[-1][2] == "10+ planned"
    assert any("10+ planned" in each for each in page.titles)


def test_why_is_said_of_an_instant(browser: Calling, store: Store) -> None:
    made = put(store, definition(START + HOUR))
    page = Parsed(browser.get(f"/definitions/{made.id}?at=2030-01-01T00:30"))
    assert "no fire time" in page.text or "does not fire" in page.text


@dataclass(frozen=True)
class Broken(Trigger):
    """A third party's, which is not able to anything."""

    kind: ClassVar[str] = "tests.broken"

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise ZeroDivisionError("it is broken")

    def describe(self) -> str:
        raise ZeroDivisionError("it is broken")


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (load_trigger("lunar", {"phase": "full"}), "lunar"),
        (Broken(), "it is broken"),
    ],
)
def test_a_trigger_that_cannot_be_asked_harms_no_page(
    browser: Calling, store: Store, trigger: Trigger, text: str
) -> None:
    made = put(store, replace(definition(START + MINUTE), trigger=trigger))
    for path in ("/definitions", "/strip?zoom=hour", f"/definitions/{made.id}"):
        answer = browser.get(path)
        assert answer.status_code == 200
    assert text in answer.text


def test_a_run_is_late_by_when_it_was_due_again(store: Store) -> None:
    claimed = running(store, definition(START))
    assert late(claimed) == ZERO
    again = replace(claimed, due_at=START + HOUR, started_at=START + HOUR + SECOND)
    assert late(again) == SECOND
    early = replace(claimed, due_at=START + SECOND)
    assert span(late(early)) == "1 s early"


def test_policies_are_written_for_people(browser: Calling, store: Store) -> None:
    expiring = put(store, replace(definition(), retry=RetryPolicy.after_expiry()))
    text = Parsed(browser.get(f"/definitions/{expiring.id}")).text
    assert "Retry: delay until expire after has passed" in text
    assert "Lock" not in text
    made = replace(
        definition(key=2),
        retry=RetryPolicy(max_attempts=3, delay=2 * SECOND, stop_on=[KeyError]),
        catch_up=CatchUp(mode="none"),
        timeout=MINUTE,
        start_timeout=SECOND,
        heartbeat_timeout=2 * SECOND,
    )
    expected = {
        "overlap": "allow",
        "timeout": "1 min",
        "start timeout": "1 s",
        "heartbeat timeout": "2 s",
        "retry: max attempts": "3",
        "retry: delay": "2 s",
        "retry: stop on": "builtins.KeyError",
    }
    assert expected.items() <= dict(policies_of(made)).items()
