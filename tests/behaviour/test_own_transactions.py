"""Runs that succeed with a transaction of the handler's own, or not at all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.orm import Session

from go_scheduler import (
    Cancelled,
    ConfigurationError,
    DelayTrigger,
    RetryPolicy,
    State,
    TaskDefinition,
    current_run,
)
from go_scheduler.events import (
    DefinitionCompleted,
    InstanceFinished,
    ResultDiscarded,
    RunEnded,
    RunFailed,
    RunHung,
)
from go_scheduler.stores.opening import open_store
from tests.behaviour.house import Later, World, at, once, seconds
from tests.shop import METADATA, RollBack, Shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler import TaskInstance


class OwnShop(Shop):
    """A world whose store is in the database that handlers write their orders to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.world = World(lambda clock: open_store(url, clock=clock))
        METADATA.create_all(self.engine)


@pytest.fixture
def shop(own_file: Path) -> Iterator[OwnShop]:
    shop = OwnShop(f"sqlite:///{own_file}")
    yield shop
    shop.world.close()
    shop.engine.dispose()
    shop.world.store.close()


def test_what_commits_has_succeeded_and_is_told_once(shop: OwnShop) -> None:
    shop.world.node(lambda _: shop.complete()).schedule(once(1))
    shop.world.advance(2)
    ended = shop.world.only()
    assert (ended.state, ended.runs, ended.started_at) == (State.COMPLETED, 1, at(1))
    assert shop.orders == 1
    told = shop.world.heard.of(RunEnded, InstanceFinished, ResultDiscarded)
    assert [type(each) for each in told] == [RunEnded, InstanceFinished]


def test_a_second_of_many_that_do_not_commit_has_few_lines(
    shop: OwnShop, caplog: pytest.LogCaptureFixture
) -> None:
    node = shop.world.node(lambda _: shop.complete(commits=False))
    node.schedule_all(once(1 + number / 50) for number in range(20))
    shop.world.advance(1.9)
    assert len(shop.world.heard.of(RunFailed)) == 20
    assert len([each for each in caplog.messages if "not committed" in each]) == 5


def test_what_fires_again_before_its_handler_returns_is_not_told_as_completed(
    shop: OwnShop,
) -> None:
    later = Later()

    def handler(_: TaskInstance) -> None:
        shop.complete()
        shop.world.until(lambda: later.waiting)

    node = shop.world.node(handler, executor=later)
    node.schedule(TaskDefinition(trigger=DelayTrigger(seconds(1))))
    shop.world.until(lambda: later.waiting)
    later.run()
    shop.world.advance(0)
    assert len(shop.world.heard.of(InstanceFinished)) == 1
    assert shop.world.heard.of(DefinitionCompleted) == []


def test_what_was_asked_to_stop_and_does_not_commit_is_cancelled(shop: OwnShop) -> None:
    later = Later()
    node = shop.world.node(lambda _: shop.complete(commits=False), executor=later)
    node.schedule(once())
    shop.world.advance(0)
    # As another process does: this node is not told.
    asked = shop.world.store.cancel_instances({shop.world.only().id: None})
    assert [*asked.values()] == [Cancelled.REQUESTED]
    shop.world.advance(7)
    later.run()
    shop.world.advance(1)
    assert shop.world.only().state is State.CANCELLED


@pytest.mark.parametrize("commits", [True, False])
def test_a_run_that_is_presumed_hung_in_its_transaction_may_commit_all_the_same(
    shop: OwnShop, commits: bool
) -> None:
    later = Later()

    def handler(instance: TaskInstance) -> None:
        if instance.attempt == 1:
            shop.complete(commits=commits)
            shop.world.advance(15)

    node = shop.world.node(handler, executor=later)
    node.schedule(once(expire_after=seconds(10)))
    shop.world.advance(0)
    later.run()
    shop.world.advance(1)
    assert len(shop.world.heard.of(RunHung)) == 1
    if not commits:
        shop.world.advance(2)
        later.waiting.clear()
        shop.world.until(lambda: later.waiting)
        later.run()
    shop.world.advance(1)
    ended = shop.world.only()
    assert ended.state is State.COMPLETED
    assert (ended.ended_attempt == 1) is commits
    assert shop.orders == commits


def test_a_run_that_completes_in_a_transaction_is_renewed_no_more(
    shop: OwnShop,
) -> None:
    later = Later()

    def handler(_: TaskInstance) -> None:
        shop.world.advance(7)
        assert "renew_claims" in shop.world.faults.asked
        shop.complete(commits=False)
        shop.world.faults.asked.clear()
        # A renewal would wait for the lock that the transaction may have.
        shop.world.advance(8)
        assert "renew_claims" not in shop.world.faults.asked
        shop.complete()

    shop.world.node(handler, executor=later).schedule(once())
    shop.world.advance(0)
    later.run()
    shop.world.advance(1)
    assert shop.world.only().state is State.COMPLETED


def test_ends_of_others_do_not_wait_for_an_open_transaction(shop: OwnShop) -> None:
    def handler(instance: TaskInstance) -> object:
        if instance.definition.name == "own":
            shop.complete()
        return None

    names = ("own", "plain", "own")
    shop.world.node(handler).schedule_all(once(1, name=name) for name in names)
    shop.world.advance(3)
    assert shop.world.states() == {State.COMPLETED: 3}
    assert shop.orders == 2


def test_a_store_without_transactions_completes_in_none(world: World) -> None:
    def handler(_: TaskInstance) -> None:
        current_run().complete_in(object())

    node = world.node(handler)
    node.schedule(once(retry=RetryPolicy(max_attempts=1)))
    world.advance(1)
    assert world.only().state is State.FAILED
    assert ConfigurationError.__name__ in (world.only().error or "")


@pytest.mark.parametrize("kind", ["delete", "pause", "cancel"])
@pytest.mark.parametrize("commits", [True, False])
def test_an_edit_by_a_session_holds_from_its_commit_on(
    shop: OwnShop, kind: str, commits: bool
) -> None:
    node = shop.world.node(shop.world.note)
    definition = node.schedule(once(2))
    shop.world.advance(1.99)
    instance = shop.world.only()
    assert instance.state is State.RUNNING
    with suppress(RollBack), Session(shop.engine) as session, session.begin():
        if kind == "delete":
            node.delete_definition(definition.id, connection=session)
        elif kind == "pause":
            node.pause(definition.id, connection=session)
        else:
            answer = node.cancel(instance.id, connection=session)
            # Whether it will run is known at the commit.
            assert answer is Cancelled.REQUESTED
        if not commits:
            raise RollBack
    shop.world.advance(10)
    assert len(shop.world.called) == (not commits)
