"""Tasks: a handler and its definition in one place, with a payload that has types."""

from __future__ import annotations

import asyncio
import functools
import pickle
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    HandlerRegistry,
    OnDemandTrigger,
    Outcome,
    RetryPolicy,
    Scheduler,
    State,
    StoreError,
    StoreUnavailableError,
    Task,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstance,
)
from go_scheduler.client import Client
from go_scheduler.handlers.registry import TAKEN_BY_A_TASK
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import HOUR, SECOND
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


class Order(BaseModel):
    number: int
    on: date


@dataclass
class Parcel:
    to: str
    weight: float = 1.0
    ids: list[UUID] = field(default_factory=list)


def anything(**payload: object) -> None: ...


kept = HandlerRegistry()


@kept.task("kept")
def kept_task(order: int) -> int:
    return order + 1


class House:
    """A registry, and a scheduler that is made of it when it is first used."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.store = MemoryStore(clock)
        self.handlers = HandlerRegistry()
        self.ran: list[object] = []

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        return made(self.handlers, self.store)


class Away(MemoryStore):
    """A store that takes no definitions while it is away."""

    away = True

    def put_definitions(self, *definitions: Any, **given: Any) -> Any:
        if self.away:
            raise StoreUnavailableError("away")
        return super().put_definitions(*definitions, **given)


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


@pytest.fixture
def send(house: House) -> Task[Any, Any, Any]:
    """A task that keeps its orders."""

    @house.handlers.task("send")
    def send(order: int) -> None:
        house.ran.append(order)

    return send


def made(handlers: HandlerRegistry, store: Store, **settings: Any) -> Scheduler:
    return Scheduler(handlers, store, clock=store.clock, **settings)


def only(scheduler: Scheduler) -> TaskInstance:
    [instance] = scheduler.list_instances()
    return instance


class TestScheduling:
    def test_what_a_registry_has_is_scheduled_at_the_start(self, house: House) -> None:
        ran: list[str] = []

        @house.handlers.task("report", CronTrigger(hour=1), queue="mail")
        def report() -> None:
            ran.append("report")

        @house.handlers.task("send", retry=RetryPolicy(max_attempts=2))
        def send(order: int) -> None: ...

        scheduler = made(house.handlers, house.store, queues=["default", "mail"])
        assert scheduler.list_definitions() == []
        with scheduler:
            found = {each.name: each for each in scheduler.list_definitions()}
            assert found["report"].trigger == CronTrigger("0 1 * * *")
            assert found["report"].queue == "mail"
            assert found["report"].id == TaskDefinition.id_for("task report")
            assert found["send"].trigger == OnDemandTrigger()
            assert found["send"].retry == RetryPolicy(max_attempts=2)
            house.clock.advance(2 * HOUR)
        assert ran == ["report"]

    def test_a_second_start_changes_nothing_and_adds_what_is_new(
        self, house: House
    ) -> None:
        house.handlers.task("one")(anything)
        scheduler = house.scheduler
        with scheduler:
            pass
        house.handlers.task("two")(anything)
        with scheduler:
            found = scheduler.list_definitions()
        assert {each.name: each.revision for each in found} == {"one": 1, "two": 1}

    def test_one_that_is_decorated_while_it_runs_is_scheduled_at_once(
        self, house: House
    ) -> None:
        scheduler = made(HandlerRegistry(), house.store)
        with scheduler:

            @scheduler.task("send")
            def send(order: int) -> None:
                house.ran.append(order)

            assert scheduler.get_definition(send.definition.id) == send.definition
            send.enqueue(order=7)
            house.clock.advance(SECOND)
        assert house.ran == [7]

    def test_a_check_schedules_them_and_the_next_one_writes_nothing(
        self, house: House
    ) -> None:
        house.handlers.task("send")(anything)
        scheduler = house.scheduler
        scheduler.check()
        [task] = scheduler.list_definitions()
        assert (task.name, scheduler.health().ok) == ("send", False)
        scheduler.delete_definition(task.id)
        scheduler.check()
        assert scheduler.list_definitions() == []
        house.handlers.task("pack")(anything)
        asyncio.run(scheduler.acheck())
        assert [each.name for each in scheduler.list_definitions()] == ["pack"]

    def test_one_that_is_not_in_the_store_is_named_with_what_schedules_it(
        self, house: House
    ) -> None:
        house.handlers.task("send")(anything)
        scheduler = house.scheduler
        scheduler.check()
        scheduler.delete_definition(TaskDefinition.id_for("task send"))
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            scheduler.enqueue("send")
        expected = (
            "task 'send' is in this scheduler's registry, and not in the store: start()"
            " schedules it, and so does the first check(); call one of them before a"
            " transaction of yours begins"
        )
        assert str(caught.value) == expected
        assert str(pickle.loads(pickle.dumps(caught.value))) == expected

    def test_an_unknown_one_is_named_with_the_nearest_that_is_known(
        self, house: House
    ) -> None:
        house.handlers.task("plain")(anything)
        scheduler = house.scheduler
        with pytest.raises(
            TaskDefinitionNotFoundError,
            match=r"made by @handlers\.task\('plan'\) when .*; did you mean 'plain'\?$",
        ):
            scheduler.enqueue("plan")
        with pytest.raises(TaskDefinitionNotFoundError, match=r"name='other'\)$"):
            scheduler.enqueue("other")

    def test_a_start_while_the_store_is_away_schedules_them_once_it_is_back(
        self, house: House
    ) -> None:
        house.handlers.task("send")(anything)
        store = Away(house.clock)
        with made(house.handlers, store) as scheduler:
            house.clock.advance(SECOND)
            assert scheduler.list_definitions() == []
            health = scheduler.health()
            assert "away" in str(health.loops["tasks"].error)
            assert (health.ok, health.store_reachable) == (False, False)
            store.away = False
            house.clock.advance(10 * SECOND)
            [task] = scheduler.list_definitions()
            assert task.name == "send"
            assert scheduler.health().ok
        with scheduler:
            assert "tasks" not in scheduler.health().loops
        assert scheduler.get_definition(task.id).revision == 1

    def test_a_start_that_its_store_refuses_schedules_nothing_and_says_so(
        self, house: House
    ) -> None:
        class Broken(MemoryStore):
            def put_definitions(self, *_: object, **__: object) -> Any:
                raise StoreError("full")

        house.handlers.task("send")(anything)
        with pytest.raises(StoreError, match="full"):
            made(house.handlers, Broken(house.clock)).start()

    def test_a_scheduler_without_a_registry_has_no_tasks(self, house: House) -> None:
        with pytest.raises(ConfigurationError, match=r"Scheduler\(HandlerRegistry\("):
            Scheduler(print, house.store, clock=house.clock).task("send")


class TestVersions:
    """Tasks of an owner, through a rolling deploy."""

    def started(
        self, house: House, version: int | None, hour: int, *names: str
    ) -> Scheduler:
        """A scheduler of a version, that has been started and stopped."""
        handlers = HandlerRegistry(owner="shop", version=version)
        for name in names:
            handlers.task(name, CronTrigger(hour=hour))(anything)
        scheduler = made(handlers, house.store)
        with scheduler:
            pass
        return scheduler

    def hours(self, house: House) -> dict[str | None, str]:
        found = house.store.select_definitions(DefinitionFilter(owners=["shop"]))
        assert found == house.store.select_definitions()
        return {each.name: each.trigger.describe()[-5:] for each in found}

    def test_an_older_version_that_starts_late_changes_nothing(
        self, house: House
    ) -> None:
        self.started(house, 1, 1, "report", "gone")
        self.started(house, 2, 2, "report")
        late = self.started(house, 1, 1, "report", "gone", "late")
        assert self.hours(house) == {"report": "02:00", "gone": "01:00"}
        late.enqueue("report")
        assert self.hours(house)["report"] == "02:00"
        self.started(house, 3, 3, "report", "late")
        assert self.hours(house) == {
            "report": "03:00",
            "gone": "01:00",
            "late": "03:00",
        }

    def test_what_is_no_longer_there_goes_by_a_declaration(self, house: House) -> None:
        self.started(house, 1, 1, "report", "gone")
        scheduler = self.started(house, 2, 2, "report")
        left = [scheduler.get_definition(TaskDefinition.id_for("task report"))]
        scheduler.declare(left, owner="shop", version=2)
        assert self.hours(house) == {"report": "02:00"}

    def test_what_was_in_no_set_is_taken_into_it(self, house: House) -> None:
        house.handlers.task("report", CronTrigger(hour=9))(anything)
        with house.scheduler:
            pass
        self.started(house, None, 9, "report")
        assert self.hours(house) == {"report": "09:00"}
        assert house.store.select_definitions()[0].revision == 1

    def test_one_that_is_decorated_while_it_runs_is_in_the_set_too(
        self, house: House
    ) -> None:
        handlers = HandlerRegistry(owner="shop", version=1)
        handlers.task("early", CronTrigger(hour=9))(anything)
        with made(handlers, house.store) as scheduler:
            scheduler.task("late", CronTrigger(hour=9))(anything)
            assert self.hours(house) == {"early": "09:00", "late": "09:00"}

    @pytest.mark.parametrize(
        ("wrong", "problem"),
        [
            ({"owner": ""}, "owner must have 1 to 200"),
            ({"owner": "shop", "version": "1"}, "version must be an int"),
            ({"owner": "shop", "version": -1}, "version must be from 0 to"),
            ({"version": 1}, "pass owner= too"),
        ],
    )
    def test_what_no_set_has_is_refused(
        self, wrong: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            HandlerRegistry(**wrong)


class TestRunning:
    def test_sync_and_async_handlers_are_given_their_arguments(
        self, house: House
    ) -> None:
        @house.handlers.task("sync")
        def sync(order: int, *, urgent: bool = False, **others: object) -> None:
            house.ran.append((order, urgent, others))

        @house.handlers.task("async")
        async def later(order: int) -> None:
            await asyncio.sleep(0)
            house.ran.append(order)

        with house.scheduler as scheduler:
            scheduler.enqueue("sync", order=7)
            scheduler.enqueue("sync", order=8, urgent=True, note=[1], self=3)
            scheduler.enqueue("async", payload={"order": 9})
            scheduler.enqueue_all("async", [{"order": 10}, {"order": 11}])
            house.clock.advance(SECOND)
        assert len(house.ran) == 5
        assert (7, False, {}) in house.ran
        assert (8, True, {"note": [1], "self": 3}) in house.ran
        assert {9, 10, 11} < {each for each in house.ran if isinstance(each, int)} | {0}

    def test_the_first_parameter_may_be_the_instance(self, house: House) -> None:
        @house.handlers.task("annotated")
        def annotated(it: TaskInstance, order: int) -> None:
            house.ran.append((it.definition.name, it.payload, order))

        @house.handlers.task("bare")
        def bare(instance) -> None:  # type: ignore[no-untyped-def]
            house.ran.append((instance.definition.name, instance.payload))

        with house.scheduler:
            annotated.enqueue(order=7)
            bare.enqueue()
            house.clock.advance(SECOND)
        assert len(house.ran) == 2
        assert ("annotated", {"order": 7}, 7) in house.ran
        assert ("bare", None) in house.ran

    def test_models_dataclasses_and_dates_are_handed_over_as_such(
        self, house: House
    ) -> None:
        @house.handlers.task("send")
        def send(order: Order, parcel: Parcel, by: datetime | None = None) -> None:
            house.ran.append((order, parcel, by))

        order = Order(number=7, on=date(2030, 1, 2))
        parcel = Parcel("Ada", ids=[UUID(int=5)])
        with house.scheduler:
            instance = send.enqueue(order, parcel=parcel, by=START)
            house.clock.advance(SECOND)
        assert house.ran == [(order, parcel, START)]
        assert instance.payload == {
            "order": {"number": 7, "on": "2030-01-02"},
            "parcel": {"to": "Ada", "weight": 1.0, "ids": [str(UUID(int=5))]},
            "by": "2030-01-01T00:00:00Z",
        }

    @pytest.mark.usefixtures("send")
    def test_a_payload_that_does_not_fit_any_more_fails_for_good_at_once(
        self, house: House
    ) -> None:
        scheduler = house.scheduler
        other = Client(house.store)
        with scheduler:
            for payload in ({"order": "x"}, {"other": 7}, {}, {"order": 7}):
                other.enqueue("send", payload=payload)
            house.clock.advance(2 * SECOND)
        assert house.ran == [7]
        failed = scheduler.list_instances(state="failed")
        assert [(each.outcome, each.runs) for each in failed] == 3 * [
            (Outcome.FAILED, 1)
        ]
        told = (
            "{'order': 'x'} does not fit: order must be int, not 'x'",
            "{'other': 7} does not fit: task 'send' takes no 'other'; did you mean"
            " 'order'?",
            "{} does not fit: task 'send': missing a required argument: 'order'",
        )
        assert {each.error for each in failed} == {
            f"go_scheduler.run.Fail: the payload {each}\n" for each in told
        }


class TestEnqueueing:
    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            ({}, "task 'send': missing a required argument: 'order'"),
            ({"order": 7, "extra": 1}, "takes no 'extra'; it takes order"),
            ({"order": "seven"}, "task 'send': order must be int, not 'seven'"),
            ({"order": 7, "to": {"weight": 1}}, "to.to: it is missing"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, house: House, payload: dict[str, Any], problem: str
    ) -> None:
        @house.handlers.task("send")
        def send(order: int, to: Parcel | None = None) -> None: ...

        scheduler = house.scheduler
        for enqueue in (
            lambda: scheduler.enqueue("send", payload=payload),
            lambda: scheduler.enqueue_all("send", [{"order": 1}, payload]),
            lambda: send.enqueue(**payload),
            lambda: scheduler.run_now(send.definition.id, payload=payload),
            lambda: asyncio.run(
                scheduler.arun_now(send.definition.id, payload=payload)
            ),
        ):
            with pytest.raises(ConfigurationError, match=problem):
                enqueue()
        assert scheduler.list_instances() == []

    def test_what_a_task_is_run_with_by_hand_is_stored_as_if_enqueued(
        self, house: House
    ) -> None:
        @house.handlers.task("send")
        def send(to: Parcel | None = None) -> None: ...

        scheduler = house.scheduler
        sent = scheduler.run_now(send.definition.id, payload={"to": Parcel("me")})
        assert sent.payload == {"to": {"to": "me", "weight": 1.0, "ids": []}}
        assert scheduler.run_now(send.definition.id).payload is None
        other = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        assert scheduler.run_now(other.id, payload={"a": 1}).payload == {"a": 1}
        plain = Scheduler(print, house.store, clock=house.clock)
        assert plain.run_now(send.definition.id, payload={"a": 1}).payload == {"a": 1}

    @pytest.mark.parametrize("payload", [5, {1: 2}])
    def test_what_is_no_payload_is_refused(self, house: House, payload: Any) -> None:
        house.handlers.task("send")(anything)
        with pytest.raises(ConfigurationError, match="payload"):
            house.scheduler.enqueue("send", payload=payload)

    def test_it_can_be_awaited(self, house: House, send: Task[Any, Any, Any]) -> None:
        scheduler = house.scheduler
        instance = asyncio.run(send.aenqueue(7))
        assert scheduler.get_instance(instance.id).payload == {"order": 7}

    @pytest.mark.usefixtures("send")
    def test_a_time_and_a_key_are_given_to_the_scheduler(self, house: House) -> None:
        scheduler = house.scheduler
        one = scheduler.enqueue("send", order=7, delay=HOUR, key="7")
        assert scheduler.enqueue("send", order=8, key="7") == one
        assert one.execute_at == START + HOUR

    def test_without_a_scheduler_there_is_nobody_to_take_it(self, house: House) -> None:
        @house.handlers.task("send")
        def send() -> None: ...

        with pytest.raises(ConfigurationError, match="no scheduler takes task 'send'"):
            send.enqueue()

    def test_the_last_scheduler_that_was_made_takes_it(self, house: House) -> None:
        made(house.handlers, MemoryStore(house.clock))
        early = house.handlers.task("early")(anything)
        scheduler = house.scheduler
        late = house.handlers.task("late")(anything)
        instances = [early.enqueue(), late.enqueue()]
        assert scheduler.counts()[State.PENDING] == len(instances)

    def test_called_it_is_the_function_it_was(self, house: House) -> None:
        @house.handlers.task("send")
        def send(order: int) -> int:
            """Send an order."""
            return order + 1

        assert send(7) == 8
        assert (repr(send), send.__doc__) == ("<task 'send'>", "Send an order.")
        assert isinstance(send, Task)

    def test_it_can_be_pickled_for_other_processes(self) -> None:
        Scheduler(kept)
        again = pickle.loads(pickle.dumps(kept))
        assert again.names == ("kept",)
        assert again.tasks["kept"] is kept_task


def reserved(name: str) -> Callable[..., object]:
    return eval(f"lambda {name}: None")  # type: ignore[no-any-return]


def unknown(what: Decimal) -> None: ...


def gone(*orders: int) -> None: ...


def ordered(order: int, /) -> None: ...


def needs(order: int) -> None: ...


def thread(of: asyncio.Lock) -> None: ...


def generates(order: int) -> Any:
    yield order


class TestRefusals:
    @pytest.mark.parametrize(
        ("function", "problem"),
        [
            *(
                (reserved(name), f"no parameter can be called {name}, which enqueue")
                for name in ("at", "delay", "key", "connection", "payload")
            ),
            (gone, r"parameter \*orders: .*cannot be given by its name"),
            (ordered, "parameter order: .*cannot be given by its name"),
            (unknown, "name 'Decimal' is not defined; import it outside of TYPE_CH"),
            (thread, "parameter of is <class 'asyncio.locks.Lock'>, which no payload"),
            (min, "the handler's parameters are not known"),
            (generates, "generator function"),
            (5, "cannot be called"),
        ],
    )
    def test_what_cannot_be_a_task_is_refused(
        self, house: House, function: Any, problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            house.handlers.task("send")(function)
        assert (house.handlers.names, house.handlers.tasks) == ((), {})

    def test_what_fires_by_itself_must_not_need_arguments(self, house: House) -> None:
        with pytest.raises(ConfigurationError, match="give order a default"):
            house.handlers.task("needs", CronTrigger(hour=9))(needs)

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ("id", ": its id follows from its name"),
            ("key", ": its id follows from its name"),
            ("owner", "; it takes queue, priority, .*, note"),
            ("_revision_of", "; it takes queue, priority, .*, note"),
            ("quue", r"; did you mean 'queue'\?"),
            ("retries", r"; did you mean 'retry'\?"),
        ],
    )
    def test_what_no_task_takes_is_refused(
        self, house: House, wrong: str, told: str
    ) -> None:
        scheduler = Scheduler(house.handlers, house.store, clock=house.store.clock)
        given: Any = {wrong: 5}
        for decorate in (house.handlers.task, scheduler.task):
            with pytest.raises(
                ConfigurationError, match=f"'send' takes no {wrong}{told}$"
            ):
                decorate("send", **given)
        with pytest.raises(ConfigurationError, match="takes no id, name_: its id"):
            house.handlers.task("send", name_="a", id=5)
        assert (house.handlers.names, house.handlers.tasks) == ((), {})

    def test_a_task_takes_what_a_user_says_of_a_definition(self) -> None:
        kept = (
            "named",
            "owner",
            "next_fire_time",
            "paused_at",
            "overdue",
            "last_pause",
            "completed_at",
            "revision",
            "trace_context",
            "_revision_of",
        )
        others = {"id", "key", "name", "trigger", *kept}
        known = {each.name for each in fields(TaskDefinition)}
        assert {*TAKEN_BY_A_TASK} == known - others

    def test_a_handler_that_is_no_function_may_be_a_task(self, house: House) -> None:
        task: Any = house.handlers.task("part")(functools.partial(needs, order=5))
        assert task.payload.required == ()
