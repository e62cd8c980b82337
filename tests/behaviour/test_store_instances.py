"""Instances on every kind of store: made, listed, counted, cancelled, run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    Job,
    RetryPolicy,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    HOUR,
    MINUTE,
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


# Listed and counted.


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


# Run again.


def failed(house: House, name: str = "send", **fields: Any) -> TaskInstance:
    """One that has failed for good."""
    house.task(name, retry=ONCE, **fields)
    made = house.scheduler.enqueue(name)
    house.clock.advance(SECOND)
    assert house.fail(house.again(made))
    assert house.state(made) is State.FAILED
    return house.again(made)


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


# How runs ended.
