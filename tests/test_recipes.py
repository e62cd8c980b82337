"""What the pages give to be copied does what they say."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import (
    ExecuteOnceTrigger,
    HandedOn,
    HandlerRegistry,
    IntervalTrigger,
    MemoryStore,
    Overlap,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import calendars
from tests.conftest import seconds
from tests.patience import FAILED_AFTER
from tests.test_examples import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.testing import ManualClock

DOCS = Path(__file__).parents[1] / "docs"
HOURLY = IntervalTrigger(timedelta(hours=1))


class Recipes:
    """What a page defines, on a clock that tests move, and a scheduler for it."""

    def __init__(self, page: str, clock: ManualClock) -> None:
        class Time(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
                return clock.now()

        self.clock = clock
        self.ran: list[TaskInstance] = []
        self.handlers = HandlerRegistry()
        self.handlers.register("job")(self.ran.append)
        self.scheduler = Scheduler(self.handlers, MemoryStore(clock), clock=clock)
        self._names: dict[str, Any] = {}
        exec(program(DOCS / page), self._names)
        self._names |= {"datetime": Time, "scheduler": self.scheduler}

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._names[name] = value


@pytest.fixture
def recipes(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recipes]:
    # What the page registers is forgotten.
    monkeypatch.setattr(calendars, "_calendars", dict(calendars._calendars))
    found = Recipes("recipes.md", clock)
    with found.scheduler:
        yield found


def job(**values: Any) -> TaskDefinition:
    given: dict[str, Any] = {"trigger": HOURLY, "name": "job"}
    return TaskDefinition(**given | values)


def instance() -> TaskInstance:
    return TaskInstance(
        id=uuid4(), definition=job(), fire_time=START, execute_at=START, due_at=START
    )


def test_what_is_enqueued_runs_at_once_or_after_its_wait(recipes: Recipes) -> None:
    scheduler, task = recipes.scheduler, recipes["send"]
    recipes.handlers.register("send mail")(recipes.ran.append)
    scheduler.schedule(task)
    for wait in (0, 60):
        scheduler.enqueue("send mail", delay=seconds(wait), wait=wait)
    recipes.clock.advance(seconds(30))
    assert [each.payload for each in recipes.ran] == [{"wait": 0}]
    recipes.clock.advance(seconds(60))
    assert [each.payload for each in recipes.ran] == [{"wait": 0}, {"wait": 60}]


def test_what_is_run_now_runs_besides_its_schedule(recipes: Recipes) -> None:
    definition = recipes.scheduler.schedule(job(metadata={"to": "ada"}))
    recipes["run_now_as_well"](recipes.scheduler, definition)
    recipes.clock.advance(seconds(10))
    [ran] = recipes.ran
    assert (ran.metadata, ran.payload) == ({"to": "ada"}, {"by": "hand"})
    assert recipes.scheduler.get_definition(definition.id) == definition


def test_another_program_does_the_work_and_says_what_came_of_it(
    recipes: Recipes,
) -> None:
    published: list[dict[str, Any]] = []
    recipes["publish"] = published.append
    recipes.handlers.register("convert video")(recipes["convert"])
    now = ExecuteOnceTrigger(recipes.clock.now())
    for file in ("one", "two"):
        video = job(name="convert video", trigger=now, metadata={"file": file})
        recipes.scheduler.schedule(video)
    recipes.clock.advance(seconds(10))
    one, two = published
    for _ in range(2):
        assert recipes["on_answer"]({**one, "kind": "progress"}) == "go on"
        recipes.clock.advance(seconds(100))
    assert recipes["on_answer"]({**one, "kind": "done"})
    [again] = published[2:]
    assert (again["id"], again["attempt"]) == (two["id"], 2)
    assert recipes["on_answer"]({**two, "kind": "progress"}) == "lost"
    assert recipes["on_answer"]({**again, "kind": "failed", "error": "no such file"})
    found = {str(each.id): each for each in recipes.scheduler.list_instances()}
    assert found[one["id"]].state is State.COMPLETED
    assert found[two["id"]].error == "no such file"


def test_all_that_has_failed_is_run_again_and_not_a_page_of_it(
    recipes: Recipes,
) -> None:
    def fail(instance: TaskInstance) -> None:
        recipes.ran.append(instance)
        raise ValueError("no paper")

    recipes.handlers.register("fails")(fail)
    now = ExecuteOnceTrigger(recipes.clock.now())
    retry = RetryPolicy(max_attempts=1)
    for _ in range(101):
        recipes.scheduler.schedule(job(name="fails", trigger=now, retry=retry))
    recipes.clock.advance(seconds(10))
    recipes["run_failed_again"](recipes.scheduler, "fails")
    recipes.clock.advance(seconds(10))
    assert len(recipes.ran) == 202


def test_what_is_late_is_dropped(recipes: Recipes) -> None:
    recipes.handlers.register("remind")(recipes.ran.append)
    for late in (timedelta(minutes=9), timedelta(minutes=11)):
        recipes["remind"](recipes.scheduler, recipes.clock.now() - late)
    recipes.clock.advance(seconds(1))
    counts = recipes.scheduler.counts()
    assert (counts[State.COMPLETED], counts[State.SKIPPED]) == (1, 1)


def test_each_retry_waits_longer_and_then_it_has_failed(recipes: Recipes) -> None:
    times = []

    @recipes.handlers.register("fetch")
    def fetch(instance: TaskInstance) -> None:
        times.append((recipes.clock.now() - START).total_seconds())
        raise ConnectionError("away")

    once = replace(recipes["fetch_prices"], trigger=ExecuteOnceTrigger(START))
    recipes.scheduler.schedule(once)
    recipes.clock.advance(timedelta(minutes=5))
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) == 4
    for wait, least in zip(waits, [10, 20, 40, 80], strict=True):
        assert least <= wait <= 1.1 * least + 0.5
    [failed] = recipes.scheduler.list_instances(state="failed")
    assert "ConnectionError: away" in (failed.error or "")


def test_the_other_side_says_when_to_ask_again(recipes: Recipes) -> None:
    answers = [(429, 100), (429, 10), (404, 0)]
    asked = []

    def ask(instance: TaskInstance) -> tuple[int, int]:
        asked.append(round((recipes.clock.now() - START).total_seconds()))
        return answers.pop(0)

    recipes["ask_for_prices"] = ask
    recipes.handlers.register("fetch")(recipes["fetch"])
    now = ExecuteOnceTrigger(recipes.clock.now())
    recipes.scheduler.schedule(job(name="fetch", trigger=now))
    recipes.clock.advance(timedelta(minutes=5))
    assert asked == [0, 100, 110]
    [failed] = recipes.scheduler.list_instances(state="failed")
    assert "there are no such prices" in (failed.error or "")


def test_two_backups_of_one_disk_wait_for_each_other(recipes: Recipes) -> None:
    most = 0

    @recipes.handlers.register("backup")
    def backup(instance: TaskInstance) -> HandedOn:
        nonlocal most
        running = recipes.scheduler.list_instances(state="running")
        most = max(most, len(running))
        recipes.ran.append(instance)
        return HandedOn()

    disks = ["a", "a", "b"]
    made = [recipes["backup_of"](each, number) for number, each in enumerate(disks)]
    now = [replace(each, trigger=ExecuteOnceTrigger(START)) for each in made]
    with recipes.scheduler:
        recipes.scheduler.schedule_all(now)
        recipes.clock.advance(seconds(5))
        assert {each.definition.lock for each in recipes.ran} == {"disk a", "disk b"}
        assert len(recipes.ran) == 2
        first = next(each for each in recipes.ran if each.definition.lock == "disk a")
        recipes.scheduler.complete(first.id, first.attempt)
        recipes.clock.advance(seconds(2))
        assert len(recipes.ran) == 3
    assert most == 2
    assert recipes["sync"].overlap is Overlap.SKIP


@pytest.mark.slow
def test_the_customers_runs_are_spread_over_half_an_hour(
    clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    clock.advance(timedelta(hours=2, minutes=55))
    recipes: Recipes = request.getfixturevalue("recipes")
    recipes.handlers.register("nightly")(recipes.ran.append)
    recipes.scheduler.schedule_all([recipes["nightly"](each) for each in range(50)])
    clock.advance(timedelta(minutes=40))
    assert len(recipes.ran) == 50
    three = START.replace(hour=3)
    assert {each.fire_time for each in recipes.ran} == {three}
    seconds_late = {(each.execute_at - three).seconds for each in recipes.ran}
    assert len(seconds_late) > 40
    assert 20 * 60 < max(seconds_late) <= 30 * 60


def test_a_run_is_logged_as_done_or_failed(
    recipes: Recipes, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(instance: TaskInstance) -> None:
        raise ValueError("what")

    caplog.set_level(logging.INFO)
    recipes["logged"](recipes.ran.append)(instance())
    with pytest.raises(ValueError, match="what"):
        recipes["logged"](fail)(instance())
    told = [each.split(",")[0] for each in caplog.messages]
    assert told == ["job done", "job failed"]


def test_an_async_run_is_logged_once_it_has_ended(
    recipes: Recipes, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        assert not caplog.messages
        recipes.ran.append(instance)

    caplog.set_level(logging.INFO, logger="shop.jobs")
    asyncio.run(recipes["logged_async"](work)(instance()))
    assert caplog.messages == ["job has ended"]
    assert len(recipes.ran) == 1


def test_an_application_ends_though_a_handler_holds_a_connection_of_its_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in ("asyncpg", "fastapi"):
        pytest.importorskip(package)
    monkeypatch.setenv("DATABASE_URL", "memory://")
    names: dict[str, Any] = {}
    exec(program(DOCS / "web-applications.md").partition("nightly = ")[0], names)

    class Pool:
        """Waits for its connections when it is closed, as asyncpg's does."""

        def __init__(self) -> None:
            self.free = asyncio.Event()

        async def __aenter__(self) -> Pool:
            return self

        async def __aexit__(self, *_: object) -> None:
            await self.free.wait()

        def terminate(self) -> None:
            self.free.set()

    class Stopped:
        """A scheduler that stops, and a handler that does not."""

        def __init__(self, *_: object) -> None:
            pass

        async def __aenter__(self) -> Stopped:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def astop(self, timeout: timedelta) -> bool:
            return False

    async def live() -> None:
        async with names["lifespan"](None):
            pass

    monkeypatch.setattr("asyncpg.create_pool", lambda url: Pool())
    names["Scheduler"] = Stopped
    asyncio.run(asyncio.wait_for(live(), FAILED_AFTER))


def test_what_is_scheduled_and_what_waits_moves_once(recipes: Recipes) -> None:
    recipes.handlers.register("other")(recipes.ran.append)
    scheduler, new = recipes.scheduler, Scheduler(None, MemoryStore())
    hourly = scheduler.schedule(job(metadata={"to": "ada"}))
    scheduler.run_now(hourly.id, payload={"by": "hand"})
    scheduler.schedule(job(name="other", paused=True))
    for _ in range(2):
        recipes["move"](scheduler, new)
    assert {each.id: each.name for each in new.list_definitions()} == {
        each.id: each.name for each in scheduler.list_definitions()
    }
    [waits] = new.list_instances()
    assert (waits.definition.name, waits.payload) == ("job", {"by": "hand"})
    assert waits.metadata == {"to": "ada"}
