"""What is due is published, and given back while the bus is away."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.client.store_access import CARRIED
from go_scheduler.dispatch.dispatcher import Dispatcher
from go_scheduler.dispatch.messages.message import Run, read_action
from go_scheduler.events import BusAway, BusBack, InstanceGivenBack
from go_scheduler.models import Stage
from go_scheduler.run import GiveBack, run_here
from go_scheduler.running.held import HeldRun
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND
from go_scheduler.testing.clock import START
from tests.dispatch.direct_bus import DirectBus
from tests.dispatch.house import House

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


def test_all_that_a_worker_needs_is_published(house: House) -> None:
    token = CARRIED.set(f"{TRACE} a=1")
    with house.runs():
        definition = house.put(
            metadata={"of": ["cats"], "go_scheduler.type": {}},
            timeout=timedelta(seconds=90),
            heartbeat_timeout=timedelta(seconds=7),
        )
        house.scheduler.run_now(definition.id, payload={"width": 7}, key="cat")
        CARRIED.reset(token)
        house.clock.advance(SECOND)
        [message] = house.bus.published["go_scheduler.run.default"]
        run = house.run()
        instance = house.instance(run)
    assert message.expires == MINUTE
    assert run.task == "resize"
    assert run.queue == "default"
    assert run.definition_id == definition.id
    assert (run.fire_time, run.execute_at) == (None, instance.execute_at)
    assert (run.payload, run.metadata) == ({"width": 7}, {"of": ["cats"]})
    assert (run.key, run.runs, run.attempt) == ("cat", 0, instance.attempt)
    assert instance.started_at is not None
    assert run.start_by == instance.started_at + MINUTE
    assert (run.heartbeat_timeout, run.timeout) == (timedelta(seconds=7), 90 * SECOND)
    assert (run.trace_context, run.trace_state) == (TRACE, "a=1")
    assert instance.stage is Stage.PUBLISHED


def test_limits_are_the_definitions_the_dispatchers_and_the_schedulers(
    clock: ManualClock,
) -> None:
    house = House(clock, start_timeout=3 * SECOND, heartbeat_timeout=4 * SECOND)
    with house.runs():
        plain = house.publish()
        own = house.publish(start_timeout=5 * SECOND, heartbeat_timeout=6 * SECOND)
        for run, waits, silent in ((plain, 3, 4), (own, 5, 6)):
            started_at = house.instance(run).started_at
            assert started_at is not None
            assert run.start_by == started_at + waits * SECOND
            assert run.heartbeat_timeout == silent * SECOND
    # Without a heartbeat timeout a run may be silent for its expire_after.
    house = House(clock)
    with house.runs():
        assert house.publish().heartbeat_timeout == 5 * MINUTE
        assert house.publish(expire_after=9 * SECOND).heartbeat_timeout == 9 * SECOND


def test_its_timeout_does_not_pass_while_it_is_published(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[tuple[timedelta | None, timedelta]] = []
    publish_soon = house.bus.publish_soon

    def noted(*given: Any, **more: Any) -> Any:
        run = run_here()
        assert isinstance(run, HeldRun)
        later = house.clock.elapsed() + MINUTE
        left.append((run.until_timeout(later), run.until_over(later)))
        return publish_soon(*given, **more)

    monkeypatch.setattr(house.bus, "publish_soon", noted)
    with house.runs():
        assert house.publish(timeout=SECOND).timeout == SECOND
    assert left == [(None, 4 * MINUTE)]


def test_one_whose_scheduler_does_not_hear_has_the_limits_of_that(
    clock: ManualClock,
) -> None:
    bus = DirectBus()
    dispatcher = Dispatcher(bus, clock=clock)
    scheduler = Scheduler(
        dispatcher,
        MemoryStore(clock),
        clock=clock,
        expire_after=9 * SECOND,
        timeout=8 * SECOND,
    )
    with scheduler:
        made = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        id = scheduler.run_now(made.id).id
        clock.advance(SECOND)
    # What calls it within no run knows no better than the dispatcher.
    asyncio.run(dispatcher(scheduler.get_instance(id)))
    runs = [
        read_action(each.body) for each in bus.published["go_scheduler.run.default"]
    ]
    assert [
        (each.heartbeat_timeout, each.timeout) for each in runs if isinstance(each, Run)
    ] == [
        (9 * SECOND, 8 * SECOND),
        (5 * MINUTE, None),
    ]


def test_what_no_worker_has_begun_waits_and_fills_its_queue(house: House) -> None:
    def enqueue() -> State:
        made = house.scheduler.enqueue("resize", width=7)
        house.clock.advance(SECOND)
        return house.scheduler.get_instance(made.id).state

    with house.runs():
        task = house.put(
            id=TaskDefinition.id_for("task resize"), max_queue=2, when_full="drop"
        )
        taken = [State.RUNNING, State.RUNNING, State.SKIPPED]
        assert [enqueue() for _ in range(3)] == taken
        assert "It is full: 2 of it wait" in house.scheduler.why(task.id).text
        run = house.run()
        house.tell(run, "accepted")
        assert enqueue() is State.SKIPPED
        house.tell(run, "started")
        assert "full" not in house.scheduler.why(task.id).text
        assert [enqueue() for _ in range(2)] == taken[1:]


@pytest.mark.parametrize(
    ("apart", "topic"),
    [
        (False, "default"),
        (True, "default.resize"),
        (["resize"], "default.resize"),
        ({"video"}, "default"),
    ],
)
def test_topics_are_those_of_queues_or_of_tasks(
    clock: ManualClock, apart: Any, topic: str
) -> None:
    house = House(clock, namespace="shop", topic_per_task=apart)
    with house.scheduler:
        house.scheduler.run_now(house.put().id)
        clock.advance(SECOND)
    assert list(house.bus.published) == [f"shop.run.{topic}"]


def test_one_whose_topic_would_be_too_long_has_failed(clock: ManualClock) -> None:
    house = House(clock, topic_per_task=True)
    with house.scheduler:
        house.scheduler.run_now(house.put(name="ä" * 200).id)
        clock.advance(SECOND)
        [instance] = house.scheduler.list_instances()
    assert instance.state is State.FAILED
    assert "bytes, and a bus takes" in (instance.error or "")


def test_that_nothing_here_hears_is_said_at_the_first_run(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    heard = House(clock)
    with heard.dispatcher.hearing(heard.scheduler), heard.scheduler:
        heard.publish()
    # What a process has heard once it may hear again: no other test has this one.
    house = House(clock, namespace="unheard")
    with house.scheduler:
        for _ in range(2):
            house.scheduler.run_now(house.put().id)
            clock.advance(SECOND)
        assert len(house.bus.published["unheard.run.default"]) == 2
    [line] = [each for each in caplog.messages if "namespace" in each]
    assert line.startswith(
        "this process does not receive the statuses of workers in namespace"
    )
    assert "`dispatcher.hearing(scheduler)`" in line


class TestAway:
    """The bus is away."""

    def test_what_is_due_waits_and_counts_as_no_run(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "go_scheduler.running")
        with house.runs():
            house.bus.up = False
            house.scheduler.run_now(house.put(retry=RetryPolicy(max_attempts=1)).id)
            house.clock.advance(MINUTE)
            # It may be offered to the bus again just then, and be given back soon.
            while not (waiting := house.scheduler.list_instances(state="pending")):
                house.look()
            [instance] = waiting
            assert instance.runs == 0
            why = house.scheduler.why(instance.id)
            assert "It was given back: the message bus cannot be reached." in why.text
            assert why.reason == "the message bus cannot be reached"
            assert house.scheduler.health().warnings == (
                "the message bus cannot be reached: what is to run over it waits",
            )
            house.bus.up = True
            house.clock.advance(6 * SECOND)
            assert house.run().runs == 0
            assert house.scheduler.health().warnings == ()
        delays = [each.delay for each in house.of(InstanceGivenBack)]
        assert all(SECOND <= each <= 5 * SECOND for each in delays)
        assert 60 / 6 <= len(delays) <= 60
        # Told anew each time, and once in the log.
        assert caplog.text.count("is given back for") == 1
        assert len(house.of(BusAway)) == 1
        [back] = house.of(BusBack)
        assert back.away >= MINUTE - SECOND

    def test_of_thousands_that_wait_few_come_back_at_once(self, house: House) -> None:
        with house.runs():
            instance = house.instance(house.publish())
        house.bus.up = False
        delays = [self.delay(house, instance) for _ in range(3000)]
        [(_, busiest)] = Counter(each // SECOND for each in delays).most_common(1)
        assert busiest <= 800
        assert max(delays) < 10 * SECOND
        house.dispatcher._last_turn = HOUR
        assert self.delay(house, instance) == MINUTE

    @staticmethod
    def delay(house: House, instance: TaskInstance) -> timedelta:
        with pytest.raises(GiveBack) as raised:
            house.dispatcher(instance).send(None)
        return raised.value.delay

    def test_one_that_may_have_been_published_is_not_published_twice(
        self, house: House
    ) -> None:
        with house.runs():
            house.bus.fails = True
            house.scheduler.run_now(house.put().id)
            house.clock.advance(SECOND)
            [instance] = house.scheduler.list_instances()
            assert instance.stage is Stage.PUBLISHED
            assert (instance.runs, instance.start_by) == (1, START + MINUTE)

    def test_one_that_was_not_published_runs_when_it_is_back(
        self, house: House
    ) -> None:
        with house.runs():
            house.bus.fails = house.bus.unsent = True
            house.scheduler.run_now(house.put().id)
            house.clock.advance(SECOND)
            house.bus.up, house.bus.fails = True, False
            house.clock.advance(3 * SECOND)
            assert house.run().runs == 0
        [given_back] = house.of(InstanceGivenBack)
        assert given_back.reason == "the bus is away"


def test_what_has_priority_does_not_wait_for_all_that_is_published(
    clock: ManualClock,
) -> None:
    bus, before = DirectBus(), {}
    published = bus.published["go_scheduler.run.default"]

    def note(instance: TaskInstance) -> None:
        before[instance.definition.name] = len(published)

    tasks = HandlerRegistry()
    tasks.register("there")(Dispatcher(bus, clock=clock))
    for name in ("first", "in line"):
        tasks.register(name)(note)
    scheduler = Scheduler(tasks, MemoryStore(clock), clock=clock, max_workers=1)
    for name, priority, count in (("there", 1, 40), ("first", 0, 1), ("in line", 1, 1)):
        definition = TaskDefinition(
            name=name, trigger=OnDemandTrigger(), priority=priority
        )
        scheduler.schedule(definition)
        for _ in range(count):
            scheduler.run_now(definition.id)
        clock.advance(SECOND)
    with scheduler:
        clock.advance(SECOND)
    assert len(published) == 40
    # All were due before the scheduler began, what is here last.
    assert before["first"] < 20 < before["in line"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"bus": "amqp://me:secret@localhost"}, r"open_bus\(\)"),
        *(({"topic_per_task": each}, "topic_per_task") for each in ("resize", [1], 7)),
        ({"start_timeout": timedelta(0)}, "start_timeout"),
        ({"heartbeat_timeout": timedelta(0)}, "heartbeat_timeout"),
    ],
)
def test_what_no_dispatcher_is_made_of_is_refused(wrong: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        Dispatcher(**{"bus": DirectBus()} | wrong)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("wrong", [None, MemoryStore()])
def test_only_a_scheduler_is_heard_for(wrong: Any) -> None:
    with (
        pytest.raises(ConfigurationError, match="must be a Scheduler"),
        Dispatcher(DirectBus()).hearing(wrong),
    ):
        pytest.fail("nothing is heard")


def test_a_hearing_that_cannot_begin_leaves_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.bus, "subscribe", lambda *given, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError), house.dispatcher.hearing(house.scheduler):
        pytest.fail("it has not begun")
    assert house.scheduler._notices.texts == ()
