"""Instances on every kind of store: made, listed, counted, cancelled, run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Job,
    QueueFullError,
    RetryPolicy,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    House,
    ids,
    pages,
    running,
    task,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from go_scheduler import Store, TaskInstance
    from go_scheduler.testing import ManualClock

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
def client(store: Store) -> Client:
    """What makes and reads instances, and runs none."""
    client = Client(store)
    client.check()
    return client


@pytest.fixture
def house(store: Store, clock: ManualClock) -> Iterator[House]:
    """A scheduler whose runs go on until they are ended."""
    with running(store, clock) as house:
        yield house


# Made by hand.


def test_what_is_enqueued_is_there_with_all_that_was_said(client: Client) -> None:
    of = client.schedule(task(queue="mail"))
    payload: Mapping[str, Any] = {"é": [1, 2.5, None, {"'\"\\": "😀"}]}
    made = client.enqueue("send", payload=payload, key="ключ 1", delay=HOUR)
    [listed] = client.list_instances()
    for found in (made, listed, client.get_instance(made.id)):
        assert (found.id, found.state, found.key) == (made.id, "pending", "ключ 1")
        assert found.payload == payload
        assert found.definition == of
        assert (found.fire_time, found.attempt, found.runs) == (None, 0, 0)
        assert found.execute_at == found.due_at == START + HOUR
        assert found.created_at == START
    assert client.get_definition(of.id) == of


def test_a_time_may_have_passed_and_is_kept(client: Client) -> None:
    client.schedule(task())
    made = client.enqueue("send", at=START - DAY)
    assert made.execute_at == made.due_at == START - DAY


def test_a_key_is_made_once_whatever_became_of_it(house: House) -> None:
    of, other = house.task(), house.task("other")
    first = house.scheduler.enqueue("send", key="k", n=1)
    for n in (2, 3):
        again = house.scheduler.enqueue("send", key="k", n=n)
        assert (again.id, again.payload) == (first.id, {"n": 1})
    assert house.scheduler.run_now(of.id, key="k", id=uuid4()).id == first.id
    # It is of its definition alone.
    elsewhere = house.scheduler.enqueue("other", key="k")
    assert elsewhere.definition.id == other.id
    house.clock.advance(SECOND)
    assert house.complete(house.again(first))
    ended = house.scheduler.enqueue("send", key="k")
    assert (ended.id, ended.state) == (first.id, State.COMPLETED)
    assert ids(house.of(of)) == [first.id]


def test_a_key_is_free_again_once_its_instance_is_cleaned_up(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, retention=MINUTE) as house:
        house.answer = lambda _: None
        house.task()
        first = house.scheduler.enqueue("send", key="k")
        clock.advance(SECOND)
        house.rest(2 * MINUTE)
        again = house.scheduler.enqueue("send", key="k")
        assert again.id != first.id
        with pytest.raises(TaskInstanceNotFoundError):
            house.scheduler.get_instance(first.id)


def test_an_id_is_made_once(client: Client) -> None:
    of, id = client.schedule(task()), uuid4()
    first = client.run_now(of.id, id=id, payload={"n": 1})
    again = client.run_now(of.id, id=id, payload={"n": 2})
    assert first.id == again.id == id
    assert again.payload == {"n": 1}
    assert len(client.list_instances()) == 1


def test_many_are_made_and_answered_in_their_order(client: Client) -> None:
    client.schedule(task())
    jobs: list[Job] = [Job(payload={"n": n}) for n in range(700)]
    jobs[3] = Job(payload={"n": 3}, key="k", at=START + HOUR)
    jobs[650] = Job(payload={"n": 650}, key="k")
    made = client.enqueue_all("send", jobs)
    numbers = [each.payload["n"] for each in made]  # type: ignore[index]
    assert numbers == [3 if n == 650 else n for n in range(700)]
    assert made[650].id == made[3].id
    found = [each for page in pages(client.list_instances, limit=250) for each in page]
    assert {each.id for each in found} == {*ids(made)}
    assert len(found) == 699


def test_without_its_definition_nothing_is_made(client: Client) -> None:
    with pytest.raises(TaskDefinitionNotFoundError):
        client.run_now(uuid4())
    with pytest.raises(TaskDefinitionNotFoundError, match="send"):
        client.enqueue("send")
    assert client.list_instances() == []


def test_what_is_paused_keeps_what_is_made_of_it(house: House) -> None:
    of = house.task(paused=True)
    made = house.scheduler.enqueue("send")
    house.clock.advance(2 * SECOND)
    assert (house.called, house.state(made)) == ([], State.PENDING)
    assert house.scheduler.backlog() == []
    house.scheduler.resume(of.id)
    house.clock.advance(SECOND)
    assert ids(house.called) == [made.id]


@pytest.mark.parametrize("when_full", ["refuse", "drop"])
def test_no_more_than_max_queue_wait_and_what_runs_does_not_count(
    house: House, when_full: str
) -> None:
    of = house.task(max_queue=2, when_full=when_full, max_per_node=1)
    house.scheduler.enqueue("send")
    house.clock.advance(SECOND)
    [runs] = house.called
    waiting = [house.scheduler.enqueue("send", delay=HOUR, n=n) for n in range(2)]
    if when_full == "refuse":
        for jobs in ([None], [None] * 3):
            with pytest.raises(QueueFullError):
                house.scheduler.enqueue_all("send", jobs)
    else:
        dropped = house.scheduler.enqueue("send", key="k")
        assert dropped.state is State.SKIPPED
        assert "max_queue" in ((dropped.skipped and dropped.skipped.reason) or "")
        # What has the key is answered, dropped or not.
        assert house.scheduler.enqueue("send", key="k").id == dropped.id
    open_ones = [each for each in house.of(of) if each.outcome is None]
    assert {*ids(open_ones)} == {runs.id, *ids(waiting)}
    house.scheduler.cancel(waiting[0].id)
    assert house.scheduler.enqueue("send", delay=HOUR).state is State.PENDING


def test_of_a_batch_that_does_not_fit_the_first_are_made(client: Client) -> None:
    client.schedule(task(max_queue=3, when_full="drop"))
    made = client.enqueue_all("send", [{"n": n} for n in range(5)])
    assert [each.state.value for each in made] == ["pending"] * 3 + ["skipped"] * 2
    assert [each.payload for each in made] == [{"n": n} for n in range(5)]


# Listed and counted.

EVERY = 10 * MINUTE


class Full:
    """A store in which there is something in each state, by one letter each."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.names: dict[UUID, str] = {}
        self.at: dict[str, TaskInstance] = {}
        clock, make = house.clock, house.scheduler
        mail = house.task("mail", queue="mail", retry=ONCE)
        make.declare([task("fax", queue="fax", retry=ONCE)], owner="shop")
        fax = TaskDefinition.id_for("task fax")
        for letter, of in zip("abcdef", [mail.id, fax] * 3, strict=True):
            self.note(letter, make.run_now(of, key=letter))
            clock.advance(SECOND)
        runs = {each: house.again(one) for each, one in self.at.items()}
        clock.advance(SECOND)
        assert house.complete(runs["a"])
        clock.advance(SECOND)
        assert house.complete(runs["b"])
        clock.advance(SECOND)
        assert house.fail(runs["c"])
        assert make.cancel(runs["d"].id) == "requested"
        # What is to come: two that can be cancelled, and one that is.
        for letter, of in zip("uvw", (mail.id, fax, mail.id), strict=True):
            later = HOUR + (ord("w") - ord(letter)) * MINUTE
            self.note(letter, make.run_now(of, delay=later))
        assert make.cancel(self.at["w"].id) == "cancelled"
        idle = house.task("idle", queue="idle")
        self.note("x", make.run_now(idle.id, key="a"))
        clock.advance(SECOND)
        self.note("y", make.run_now(idle.id))

    def note(self, letter: str, made: TaskInstance) -> None:
        self.at[letter], self.names[made.id] = made, letter

    def letters(self, found: Any) -> str:
        return "".join(self.names[each.id] for each in found)


@pytest.fixture
def full(store: Store, clock: ManualClock) -> Iterator[Full]:
    with running(store, clock, queues=["mail", "fax"]) as house:
        yield Full(house)


# a, b completed; c failed; d is asked to stop; e, f run; u, v wait for later; w was
# cancelled; x, y wait in a queue that nobody serves.
LISTS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdefxywvu"),
    ({"newest_first": True}, "uvwyxfedcba"),
    ({"state": "completed"}, "ab"),
    ({"state": State.FAILED}, "c"),
    ({"state": "cancelling"}, "d"),
    ({"state": "running"}, "ef"),
    ({"state": "claimed"}, ""),
    ({"state": "pending"}, "xyvu"),
    ({"state": "pending", "newest_first": True}, "uvyx"),
    ({"state": "cancelled"}, "w"),
    ({"state": "skipped"}, ""),
    ({"name": "mail"}, "acewu"),
    ({"name": "mail", "state": "running"}, "e"),
    ({"name": "nobody"}, ""),
    ({"key": "a"}, "ax"),
    ({"key": "a", "name": "mail"}, "a"),
    ({"key": "A"}, ""),
    ({"queues": ["fax"]}, "bdfv"),
    ({"queues": ["fax", "idle"], "newest_first": True}, "vyxfdb"),
    ({"queues": []}, ""),
    ({"owners": ["shop"]}, "bdfv"),
    ({"owners": ["shop"], "state": "running"}, "f"),
    ({"owners": ["nobody"]}, ""),
    ({"since": START + 2 * SECOND}, "cdefxywvu"),
    ({"since": START + HOUR, "state": "pending"}, "vu"),
    ({"since": START + 2 * SECOND, "queues": ["fax"], "newest_first": True}, "vfd"),
    ({"definition_id": TaskDefinition.id_for("task idle")}, "xy"),
    ({"definition_id": TaskDefinition.id_for("task mail"), "state": "failed"}, "c"),
    ({"definition_id": TaskDefinition.id_for("task mail"), "key": "c"}, "c"),
    ({"definition_id": TaskDefinition.id_for("task nobody")}, ""),
]


def test_lists_are_of_what_meets_every_condition_in_their_order_page_after_page(
    full: Full,
) -> None:
    read = full.house.scheduler.list_instances
    for conditions, expected in LISTS:
        found = read(**conditions)
        assert full.letters(found) == expected, conditions
        assert found == [full.house.again(each) for each in found]
        for limit in (1, 3, 4):
            parts = [
                full.letters(each) for each in pages(read, limit=limit, **conditions)
            ]
            assert "".join(parts) == expected, (conditions, limit)
            assert all(len(each) == limit for each in parts[:-1])


COUNTS: list[tuple[dict[str, Any], dict[str, int]]] = [
    (
        {},
        {
            "pending": 4,
            "running": 2,
            "cancelling": 1,
            "completed": 2,
            "failed": 1,
            "cancelled": 1,
        },
    ),
    (
        {"queues": ["mail"]},
        {"pending": 1, "running": 1, "completed": 1, "failed": 1, "cancelled": 1},
    ),
    (
        {"owners": ["shop"]},
        {"pending": 1, "running": 1, "cancelling": 1, "completed": 1},
    ),
    ({"queues": ["mail"], "owners": ["shop"]}, {}),
    ({"queues": ["idle", "none"]}, {"pending": 2}),
    ({"queues": []}, {}),
]


def test_counts_are_by_state_of_all_or_of_some(full: Full) -> None:
    client = full.house.scheduler
    for conditions, expected in COUNTS:
        counts = client.counts(**conditions)
        assert counts.keys() == {*State}
        assert {each.value: n for each, n in counts.items() if n} == expected
        up_to = client.counts_up_to(**conditions)
        assert {each.value: n.count for each, n in up_to.items() if n.count} == expected
        assert not any(each.more for each in up_to.values())
    few = client.counts_up_to(2)
    assert (few[State.PENDING].count, few[State.PENDING].more) == (2, True)
    assert few[State.FAILED].count <= 1


def test_what_ended_is_listed_the_last_first(full: Full) -> None:
    client = full.house.scheduler

    def ended(outcome: str, **conditions: Any) -> str:
        read = pages(client.list_ended, limit=1, outcome=outcome, **conditions)
        parts = "".join(map(full.letters, read))
        assert full.letters(client.list_ended(outcome, **conditions)) == parts
        return parts

    assert ended("completed") == "ba"
    assert ended("completed", queues=["mail"]) == "a"
    assert ended("completed", owners=["shop"]) == "b"
    assert (ended("failed"), ended("cancelled"), ended("skipped")) == ("c", "w", "")


def test_what_waits_and_what_runs_is_listed_in_its_order(full: Full) -> None:
    client = full.house.scheduler
    assert full.letters(client.list_waiting()) == "xyvu"
    assert full.letters(client.list_waiting(queues=["fax"])) == "v"
    assert full.letters(client.list_waiting(owners=["shop"])) == "v"
    assert len(client.list_waiting(limit=3)) == 3
    # In the order in which their claims expire: they began a second apart.
    assert full.letters(client.list_claims()) == "def"
    assert full.letters(client.list_claims(queues=["mail"])) == "e"
    assert full.letters(client.list_claims(owners=["shop"], limit=1)) == "d"
    run = full.house.again(full.at["d"])
    assert client.extend(run.id, run.attempt, 2 * HOUR) == "stop"
    assert full.letters(client.list_claims()) == "efd"


def test_a_backlog_is_of_what_is_due_and_nobody_has(full: Full) -> None:
    client = full.house.scheduler
    [idle] = client.backlog()
    assert (idle.queue, idle.due.count, idle.due.more) == ("idle", 2, False)
    assert idle.oldest == full.at["x"].execute_at
    [idle] = client.backlog(1)
    assert (idle.due.count, idle.due.more) == (1, True)
    assert client.backlog(queues=["mail"]) == []
    client.pause(TaskDefinition.id_for("task idle"))
    assert client.backlog() == []


def test_a_key_is_searched_in_all_definitions(full: Full) -> None:
    client = full.house.scheduler
    assert full.letters(client.search_key("a")) == "ax"
    assert full.letters(client.search_key("a", queues=["idle"])) == "x"
    assert full.letters(client.search_key("b", owners=["shop"])) == "b"
    assert full.letters(client.search_key("a", limit=1)) == "a"
    assert client.search_key("A") == client.search_key("%") == []


def test_what_a_definition_has_fired_is_read_by_span(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, schedule_window=HOUR, lease=HOUR) as house:
        client = house.scheduler
        of = client.schedule(
            TaskDefinition(trigger=IntervalTrigger(EVERY, anchor=START), retry=ONCE)
        )
        by_hand = client.run_now(of.id, at=START + EVERY)
        house.rest(EVERY)
        [first, *_] = [each for each in house.called if each.id != by_hand.id]
        assert house.complete(first)
        times = [START + n * EVERY for n in range(1, 5)]
        span: dict[str, Any] = {"since": times[0], "before": times[3]}
        fired = client.list_fired(of.id, **span)
        assert [each.fire_time for each in fired] == times[:3]
        newest = client.list_fired(of.id, newest_first=True, limit=2, **span)
        assert [each.fire_time for each in newest] == [times[2], times[1]]
        bounds = [START, times[0], times[1], times[3]]
        counted = client.count_fired(of.id, bounds)
        assert [dict(each) for each in counted] == [
            {},
            {State.COMPLETED: 1},
            {State.PENDING: 2},
        ]
        few = client.count_fired(of.id, bounds, most=1)
        assert few[2] == {State.PENDING: 1}
        assert ids(client.list_unscheduled(of.id)) == [by_hand.id]
        nobody = uuid4()
        assert list(client.list_fired(nobody, **span)) == []
        assert [dict(each) for each in client.count_fired(nobody, bounds)] == [{}] * 3
        assert list(client.list_unscheduled(nobody)) == []


def test_a_long_list_of_instances_is_read_whole_both_ways(client: Client) -> None:
    of = client.schedule(task())
    jobs = [Job(at=START + n % 7 * SECOND) for n in range(1100)]
    made = client.enqueue_all("send", jobs)
    expected = [
        each.id for each in sorted(made, key=lambda one: (one.execute_at, one.id.bytes))
    ]
    for newest_first in (False, True):
        read = pages(
            client.list_instances,
            limit=400,
            definition_id=of.id,
            newest_first=newest_first,
        )
        found = [id for page in read for id in ids(page)]
        assert found == (expected[::-1] if newest_first else expected)
    assert client.counts()[State.PENDING] == 1100
    assert str(client.counts_up_to(1000)[State.PENDING]) == "1,000+"


# Cancelled.


def test_what_waits_is_cancelled_at_once_and_what_has_ended_stays(
    house: House,
) -> None:
    house.task()
    waits = house.scheduler.enqueue("send", delay=HOUR)
    assert house.scheduler.cancel(waits.id) == "cancelled"
    found = house.again(waits)
    assert (found.state, found.completed_at) == (State.CANCELLED, START)
    assert house.scheduler.cancel(waits.id) is None
    runs = house.run()
    assert house.complete(runs)
    assert house.scheduler.cancel(runs.id) is None
    assert house.state(runs) is State.COMPLETED
    with pytest.raises(TaskInstanceNotFoundError):
        house.scheduler.cancel(uuid4())
    house.rest(2 * HOUR)
    assert waits.id not in ids(house.called)


def test_a_run_is_asked_to_stop_and_its_end_says_what_it_came_to(
    house: House,
) -> None:
    stopped, finished = house.run(), house.run()
    for each in (stopped, finished):
        assert house.scheduler.cancel(each.id) == "requested"
        assert house.state(each) is State.CANCELLING
        assert house.scheduler.cancel(each.id) == "requested"
        assert house.scheduler.extend(each.id, each.attempt, HOUR) == "stop"
    # What was asked to stop and fails has been cancelled, whatever its retry says.
    assert house.fail(stopped)
    assert house.state(stopped) is State.CANCELLED
    assert house.complete(finished)
    assert house.state(finished) is State.COMPLETED


def test_what_waits_for_a_retry_is_cancelled_with_its_error(house: House) -> None:
    runs = house.run(retry=RetryPolicy(delay=HOUR, max_attempts=3))
    assert house.fail(runs)
    assert house.scheduler.cancel(runs.id) == "cancelled"
    found = house.again(runs)
    assert (found.state, found.error) == (State.CANCELLED, "no paper")
    house.rest(2 * HOUR)
    assert len(house.called) == 1


# Run again.


def failed(house: House, name: str = "send", **fields: Any) -> TaskInstance:
    """One that has failed for good."""
    house.task(name, retry=ONCE, **fields)
    made = house.scheduler.enqueue(name)
    house.clock.advance(SECOND)
    assert house.fail(house.again(made))
    assert house.state(made) is State.FAILED
    return house.again(made)


def test_what_has_failed_runs_again_with_what_it_had(house: House) -> None:
    instance = failed(house)
    house.clock.advance(SECOND)
    again = house.scheduler.retry(instance.id)
    assert (again.id, again.state, again.runs) == (instance.id, State.PENDING, 0)
    assert (again.reopened_at, again.due_at) == (START + 2 * SECOND,) * 2
    assert (again.error, again.outcome) == ("no paper", None)
    with pytest.raises(TaskInstanceStateError):
        house.scheduler.retry(instance.id)
    house.clock.advance(SECOND)
    run = house.again(instance)
    assert (run.attempt, run.runs, run.state) == (2, 1, State.RUNNING)
    assert [each.attempt for each in house.scheduler.list_runs(run.id)] == [1]
    assert house.complete(run)
    with pytest.raises(TaskInstanceStateError):
        house.scheduler.retry(instance.id)


def test_what_cannot_run_again_is_refused(house: House) -> None:
    with pytest.raises(TaskInstanceNotFoundError):
        house.scheduler.retry(uuid4())
    instance = failed(house)
    house.scheduler.delete_definition(instance.definition.id)
    with pytest.raises(TaskDefinitionNotFoundError):
        house.scheduler.retry(instance.id)
    paused = failed(house, "paused")
    house.scheduler.pause(paused.definition.id)
    assert house.scheduler.retry(paused.id).state is State.PENDING
    house.clock.advance(SECOND)
    assert house.state(paused) is State.PENDING
    house.scheduler.resume(paused.definition.id)
    house.clock.advance(SECOND)
    assert house.state(paused) is State.RUNNING


def test_all_that_failed_and_meets_every_condition_runs_again(house: House) -> None:
    first, second, third = (failed(house, each) for each in ("a", "b", "a"))
    retry = house.scheduler.retry_failed
    assert retry(name="nobody") == 0
    assert retry(definition_id=second.definition.id) == 1
    assert retry(name="a", since=third.execute_at) == 1
    assert house.state(first) is State.FAILED
    assert retry(limit=5) == 1
    assert retry() == 0
    counts = house.scheduler.counts()
    assert (counts[State.FAILED], counts[State.PENDING]) == (0, 3)


def test_the_earliest_of_them_run_again_first(house: House) -> None:
    made = [failed(house) for _ in range(3)]
    assert house.scheduler.retry_failed(limit=2) == 2
    states = [house.state(each) for each in made]
    assert states == [State.PENDING, State.PENDING, State.FAILED]


# How runs ended.


def test_the_last_twenty_runs_that_did_not_succeed_are_kept(house: House) -> None:
    run = house.run(retry=RetryPolicy(delay=NOW, max_attempts=None))
    for number in range(1, 23):
        assert house.fail(run, f"no paper {number} é\n'\"")
        house.clock.advance(NOW)
        run = house.again(run)
        assert (run.attempt, run.state) == (number + 1, State.RUNNING)
    kept = house.scheduler.list_runs(run.id)
    assert [each.attempt for each in kept] == [*range(3, 23)]
    assert {each.outcome for each in kept} == {"failed"}
    assert kept[-1].error == "no paper 22 é\n'\""
    assert kept[-1].node == house.called[-1].claimed_by
    assert house.complete(run)
    assert len(house.scheduler.list_runs(run.id)) == 20
    assert list(house.scheduler.list_runs(uuid4())) == []


def test_what_was_asked_for_wrongly_changes_nothing(client: Client) -> None:
    client.schedule(task())
    for wrong in ({"payload": [1]}, {"key": ""}, {"delay": -SECOND}):
        with pytest.raises(ConfigurationError):
            client.enqueue("send", **wrong)
    with pytest.raises(ConfigurationError):
        client.enqueue("send", payload={"a": "x" * 70_000})
    assert client.list_instances() == []


def test_each_fire_time_has_its_own_instance_and_the_same_definition(
    house: House,
) -> None:
    of = house.scheduler.schedule(
        TaskDefinition(trigger=ExecuteOnceTrigger(START), metadata={"a": [1]})
    )
    house.clock.advance(SECOND)
    [instance] = house.of(of)
    assert (instance.fire_time, instance.metadata) == (START, {"a": [1]})
    assert instance.definition.id == of.id
