"""Bad input to the client is refused at the call that brought it."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta
from itertools import repeat
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    MemoryStore,
    Scheduler,
    ScheduleWarning,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.checks import NOTE_LIMIT
from go_scheduler.client import Client
from go_scheduler.client.views import MOST_LISTED
from go_scheduler.testing.builders import NOBODY, clean_up, definition
from go_scheduler.testing.clock import START
from go_scheduler.triggers import LimitedTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.filters import Page
    from go_scheduler.stores.messages import Put
    from go_scheduler.testing import ManualClock


def soon(**values: object) -> TaskDefinition:
    trigger = ExecuteOnceTrigger(START + timedelta(hours=1))
    return TaskDefinition(**{"trigger": trigger, **values})  # type: ignore[arg-type]


def timeless(order: str) -> str:
    """A cursor of an order whose time has been taken out."""
    text = json.dumps([order, None, str(uuid4())])
    return urlsafe_b64encode(text.encode()).decode()


NAIVE = START.replace(tzinfo=None)
DEEP = urlsafe_b64encode(b"[" * 100_000).decode()
REFUSED: list[tuple[str, Callable[[Client], object]]] = [
    ("limit 0", lambda client: client.list_definitions(limit=0)),
    ("limit", lambda client: client.list_instances(limit=MOST_LISTED + 1)),
    ("limit text", lambda client: client.list_instances(limit="9")),  # type: ignore[arg-type]
    ("name", lambda client: client.list_definitions(name=5)),  # type: ignore[arg-type]
    ("queue", lambda client: client.list_definitions(queue=5)),  # type: ignore[arg-type]
    ("after", lambda client: client.list_definitions(after="x")),
    ("metadata", lambda client: client.list_definitions(metadata=[1])),  # type: ignore[arg-type]
    ("one id", lambda client: client.list_definitions(ids=uuid4())),  # type: ignore[arg-type]
    ("text id", lambda client: client.list_definitions(ids=["x"])),  # type: ignore[list-item]
    ("delete all", lambda client: client.delete_definitions()),
    ("delete text", lambda client: client.delete_definition("x")),  # type: ignore[arg-type]
    ("get text", lambda client: client.get_definition("x")),  # type: ignore[arg-type]
    ("instance text", lambda client: client.get_instance("x")),  # type: ignore[arg-type]
    ("cancel text", lambda client: client.cancel("x")),  # type: ignore[arg-type]
    ("of text", lambda client: client.list_instances(definition_id="x")),  # type: ignore[arg-type]
    ("state", lambda client: client.list_instances(state="over")),
    ("state of", lambda client: client.list_definitions(state="pending")),
    ("state 5", lambda client: client.list_definitions(state=5)),  # type: ignore[arg-type]
    ("name of", lambda client: client.list_instances(name=5)),  # type: ignore[arg-type]
    ("since", lambda client: client.list_instances(since=NAIVE)),
    ("newest", lambda client: client.list_instances(newest_first=1)),  # type: ignore[arg-type]
    ("soonest", lambda client: client.list_definitions(soonest_first=1)),  # type: ignore[arg-type]
    ("after id", lambda client: client.list_instances(after=uuid4())),  # type: ignore[arg-type]
    ("after é", lambda client: client.list_instances(after="é")),
    ("after {}", lambda client: client.list_instances(after="e30=")),
    ("after 1", lambda client: client.list_instances(after="WzEsMiwzXQ==")),
    ("after [", lambda client: client.list_instances(after=DEEP)),
    ("after no time", lambda client: client.list_instances(after=timeless("i"))),
    (
        "newest after no time",
        lambda client: client.list_instances(newest_first=True, after=timeless("in")),
    ),
    ("note", lambda client: client.pause(uuid4(), 5)),  # type: ignore[arg-type]
    ("note NUL", lambda client: client.pause(uuid4(), "\0")),
    ("long note", lambda client: client.pause(uuid4(), "x" * (NOTE_LIMIT + 1))),
    ("resume text", lambda client: client.resume("x")),  # type: ignore[arg-type]
    ("no definition", lambda client: client.schedule("x")),  # type: ignore[arg-type]
    ("no definitions", lambda client: client.schedule_all("x")),  # type: ignore[arg-type]
    ("one definition", lambda client: client.schedule_all(soon())),  # type: ignore[arg-type]
    ("complete text", lambda client: client.complete("x", 1)),  # type: ignore[arg-type]
    ("attempt text", lambda client: client.complete(NOBODY, "1")),  # type: ignore[arg-type]
    ("attempt 0", lambda client: client.fail(NOBODY, 0, "x")),
    ("attempt 2**63", lambda client: client.release(NOBODY, 2**63)),
    ("error 5", lambda client: client.fail(NOBODY, 1, 5)),  # type: ignore[arg-type]
    ("extend by none", lambda client: client.extend(NOBODY, 1, timedelta(0))),
    ("delay 5", lambda client: client.release(NOBODY, 1, delay=5)),  # type: ignore[arg-type]
    *(
        (f"retry {limit}", lambda client, limit=limit: client.retry_failed(limit=limit))
        for limit in (0, -1, True, "all")
    ),
    ("counts 0", lambda client: client.counts_up_to(0)),
    ("counts True", lambda client: client.counts_up_to(True)),
    ("backlog", lambda client: client.backlog("many")),  # type: ignore[arg-type]
    ("ended", lambda client: client.list_ended("lost")),
    ("ended after", lambda client: client.list_ended("failed", after="?")),
    ("claims", lambda client: client.list_claims(limit=0)),
    ("fired id", lambda client: client.list_fired("x", since=START, before=START)),  # type: ignore[arg-type]
    ("fired", lambda client: client.list_fired(NOBODY, since=1, before=START)),  # type: ignore[arg-type]
    ("unscheduled", lambda client: client.list_unscheduled(NOBODY, limit=1001)),
    ("one bound", lambda client: client.count_fired(NOBODY, [START])),
    ("bounds", lambda client: client.count_fired(NOBODY, [START] * 102)),
    ("no times", lambda client: client.count_fired(NOBODY, [1, 2])),  # type: ignore[list-item]
    ("names", lambda client: client.search_names(7)),  # type: ignore[arg-type]
    ("names NUL", lambda client: client.search_names("\0")),
    ("key", lambda client: client.search_key(None)),  # type: ignore[arg-type]
    ("stats naive", lambda client: client.stats_since(NAIVE)),
    ("stats until", lambda client: client.stats_since(START, 7)),  # type: ignore[arg-type]
    ("pause ids", lambda client: client.pause_definitions(ids=7)),  # type: ignore[arg-type]
    ("pause metadata", lambda client: client.pause_definitions(metadata=[])),  # type: ignore[arg-type]
    ("resume queue", lambda client: client.resume_definitions(queue="\0")),
    ("delete name", lambda client: client.delete_definitions(name=7)),  # type: ignore[arg-type]
    ("pause note", lambda client: client.pause_definitions("x" * (NOTE_LIMIT + 1))),
]


@pytest.mark.parametrize("engine", ["memory"])
@pytest.mark.parametrize(
    "call", [call for _, call in REFUSED], ids=[name for name, _ in REFUSED]
)
def test_a_wrong_argument_is_refused(
    client: Client, call: Callable[[Client], object]
) -> None:
    kept = client.schedule(soon())
    with pytest.raises(ConfigurationError):
        call(client)
    assert client.list_definitions() == [kept]


def test_what_is_no_store_is_refused_and_a_url_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="store must be a Store, not 1"):
        Client(1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="store must be a Store") as caught:
        Client("postgresql://user:secret@host/database")  # type: ignore[arg-type]
    assert "open_store(), in go_scheduler.stores, makes one of a URL" in str(
        caught.value
    )
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("soonest_first", [False, True])
def test_pages_of_definitions_go_on_at_their_next(
    client: Client, soonest_first: bool
) -> None:
    for _ in range(5):
        client.schedule(soon())
    everything = client.list_definitions(soonest_first=soonest_first)
    first = client.list_definitions(soonest_first=soonest_first, limit=3)
    for each in first:
        client.delete_definition(each.id)
    rest = client.list_definitions(
        soonest_first=soonest_first, limit=3, after=first.next
    )
    assert [*first, *rest] == everything
    assert rest.next is None
    with pytest.raises(ConfigurationError, match="of the same list in the same order"):
        client.list_definitions(soonest_first=not soonest_first, after=first.next)
    with pytest.raises(ConfigurationError, match="of the same list in the same order"):
        client.list_instances(after=first.next)


def test_definitions_are_deleted_by_metadata_page_after_page(
    client: Client, store: Store
) -> None:
    given = [definition(metadata={"odd": bool(number % 2)}) for number in range(350)]
    store.put_definitions(given)
    assert client.delete_definitions(metadata={"odd": True}) == 175
    left = client.list_definitions(limit=1000)
    assert [each.metadata["odd"] for each in left] == list(repeat(False, 175))
    # Two whole pages.
    store.put_definitions([definition(metadata={"odd": None}) for _ in range(200)])
    assert client.delete_definitions(metadata={"odd": None}) == 200


def test_some_definitions_are_paused_or_all(client: Client) -> None:
    one = client.schedule(soon(name="a", metadata={"shop": 1}))
    other = client.schedule(soon(name="b", queue="mail"))
    assert client.pause_definitions("why", ids=[one.id, NOBODY]) == 1
    assert client.pause_definitions(metadata={"shop": 2}) == 0
    notes = {each.id: each.note for each in client.list_definitions(state="paused")}
    assert notes == {one.id: "why"}
    assert client.pause_definitions("all") == 2
    assert {each.note for each in client.list_definitions()} == {"all"}
    assert client.resume_definitions(queue="mail") == 1
    assert [each.id for each in client.list_definitions(state="paused")] == [one.id]
    assert client.resume_definitions(name="b") == 1
    assert client.resume_definitions(metadata={"shop": 1}) == 1
    assert client.list_definitions(state="paused") == []
    assert client.pause_definitions(ids=[]) == 0
    assert other in client.list_definitions()


class TestMany:
    """Many definitions are scheduled in one write, or none is."""

    def test_one_write_puts_them(
        self, client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written: list[int] = []
        put = store.put_definitions

        def counting(given: Sequence[TaskDefinition]) -> Put:
            written.append(len(given))
            return put(given)

        monkeypatch.setattr(store, "put_definitions", counting)
        client.schedule_all([soon() for _ in range(3)])
        asyncio.run(client.aschedule_all([soon() for _ in range(2)]))
        assert written == [3, 2]

    def test_an_id_that_is_there_twice_is_refused(self, client: Client) -> None:
        for one in (soon(), soon(key="report")):
            text = ", key 'report'," if one.key else str(one.id)
            with pytest.raises(ConfigurationError, match=f"{text} is there twice$"):
                client.schedule_all([one, replace(one, name="b")])
        assert client.list_definitions() == []

    def test_what_has_ended_before_is_warned_of_no_more(
        self, client: Client, store: Store
    ) -> None:
        never = TaskDefinition(trigger=IntervalTrigger(days=2_915_000), id=NOBODY)
        with pytest.warns(ScheduleWarning, match="never fires"):
            client.schedule(never)
        clean_up(store)
        assert client.list_definitions() == []
        [ended] = client.schedule_all([never])
        assert ended.completed_at is not None


class TestWarnings:
    """What people often do not mean is said when it is scheduled, and only then."""

    ODD = CronTrigger("*/7 * * * *")

    @pytest.mark.parametrize("awaited", [False, True])
    def test_the_author_of_an_odd_schedule_is_warned_where_it_was_called(
        self, client: Client, awaited: bool
    ) -> None:
        async def schedule() -> None:
            await client.aschedule(TaskDefinition(trigger=self.ODD))

        def call() -> None:
            if awaited:
                asyncio.run(schedule())
            else:
                client.schedule(TaskDefinition(trigger=self.ODD))

        with pytest.warns(ScheduleWarning, match=r"\*/7") as shown:
            call()
        assert [each.filename for each in shown] == [__file__]

    def test_a_part_of_a_schedule_may_be_odd(self, client: Client) -> None:
        with pytest.warns(ScheduleWarning, match=r"\*/7"):
            client.schedule(TaskDefinition(trigger=LimitedTrigger(self.ODD, limit=5)))

    def test_as_an_error_it_is_raised_before_anything_is_written(
        self, client: Client
    ) -> None:
        with pytest.raises(ScheduleWarning):
            client.schedule(TaskDefinition(trigger=self.ODD))
        assert client.list_definitions() == []

    def test_it_is_said_again_when_it_changes_and_not_at_every_start(
        self, client: Client, store: Store
    ) -> None:
        odd = TaskDefinition(id=NOBODY, trigger=self.ODD)
        for given in (odd, replace(odd, name="other")):
            with pytest.warns(ScheduleWarning):
                client.schedule(given)
            for each in (client, Client(store)):
                assert each.schedule(given).trigger == self.ODD
        client.delete_definition(NOBODY)
        with pytest.warns(ScheduleWarning):
            client.schedule(odd)


def test_no_more_minutes_are_read_at_once_than_can_be() -> None:
    client, until = Client(MemoryStore()), START + timedelta(minutes=2000)
    assert client.stats_since(START, until) == []
    with pytest.raises(ConfigurationError, match="more than 2,000 minutes: ask in"):
        client.stats_since(START, until + timedelta(seconds=1))


def test_ids_that_are_too_many_to_be_remembered_are_told(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store.most_remembered = 2
    with Scheduler(print, store, clock=clock, retention=timedelta(0)) as scheduler:
        for number in range(4):
            scheduler.schedule(
                TaskDefinition(
                    id=TaskDefinition.id_for(str(number)),
                    trigger=ExecuteOnceTrigger(START),
                )
            )
        clock.advance(timedelta(minutes=2))
    assert "2 ids of definitions that have ended are forgotten" in caplog.text


def test_a_check_answers_while_the_store_does_and_changes_nothing(
    client: Client,
) -> None:
    client.check()
    asyncio.run(client.acheck())
    assert client.list_definitions() == []


def test_a_check_raises_what_keeps_it_from_the_store() -> None:
    class Away(MemoryStore):
        def select_definitions(self, *_: object, **__: object) -> Page[TaskDefinition]:
            raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError, match="away"):
        Client(Away()).check()
