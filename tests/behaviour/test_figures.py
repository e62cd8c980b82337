"""Figures: lateness, counts, health, and what is kept of them and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler import (
    HandedOn,
    RetryAfter,
    RetryPolicy,
    StoreUnavailableError,
)
from go_scheduler.events import InstanceFinished, ObjectiveBroken, ObjectiveMet
from go_scheduler.health import Lateness
from go_scheduler.stores.filters import Filter
from tests.behaviour.house import (
    HOUR,
    MINUTE,
    SECOND,
    SELDOM,
    ThreadedWorld,
    World,
    at,
    meanwhile,
    once,
    run_now,
    seconds,
    several,
)

if TYPE_CHECKING:
    from go_scheduler import TaskInstance


def stats(world: World) -> list[tuple[float, str, Any, int]]:
    found = world.scheduler(None).stats_since(at(0))
    return [
        (
            (each.at - at(0)).total_seconds() / 60,
            each.queue,
            dict(each.ended),
            each.lateness.total,
        )
        for each in found
    ]


def test_what_ran_is_written_by_the_minute(world: World) -> None:
    def handler(instance: TaskInstance) -> None:
        if instance.definition.queue == "mail" and instance.runs < 3:
            raise RetryAfter(SECOND)

    node = world.node(handler, queues=["default", "mail"])
    node.schedule(once(20))
    node.schedule(once(20, queue="mail"))
    node.schedule(once(80))
    world.advance(59)
    assert stats(world) == []
    world.advance(90)
    assert stats(world) == [
        (0, "default", {"completed": 1}, 1),
        (0, "mail", {"completed": 1, "retried": 2}, 3),
        (1, "default", {"completed": 1}, 1),
    ]


def test_what_is_not_yet_written_is_as_the_node_stops(world: World) -> None:
    for _ in range(2):
        node = world.node(world.note)
        node.schedule(once(0))
        world.advance(1)
        node.stop()
    assert stats(world) == [(0, "default", {"completed": 2}, 2)]


def test_ends_of_each_kind_are_counted(world: World) -> None:
    def handler(instance: TaskInstance) -> object:
        if instance.definition.name == "fail":
            raise ValueError
        return HandedOn() if instance.definition.name == "hand on" else None

    node = world.node(handler, retry=RetryPolicy(max_attempts=1))
    names = ("ok", "ok", "fail", "hand on")
    node.schedule_all(once(1, name=name) for name in names)
    cancelled = node.schedule(once(2, name="cancel"))
    world.advance(1.5)
    [held] = world.store.select(Filter(definition_id=cancelled.id))
    node.cancel(held.id)
    [run] = world.store.select(Filter(name="hand on"))
    node.complete(run.id, 1)
    world.advance(70)
    [(_, _, ended, begun)] = stats(world)
    assert ended == {"completed": 3, "failed": 1}
    assert begun == 4


def test_where_nothing_runs_nothing_is_written(world: World) -> None:
    node = world.node(world.note)
    world.advance(200)
    node.stop()
    assert "note_stats" not in world.faults.asked


def test_what_could_not_be_written_is_written_later(world: World) -> None:
    world.node(world.note).schedule_all(map(once, (20, 80, 140)))
    world.faults.failing["note_stats"] = StoreUnavailableError("away")
    world.advance(170)
    assert stats(world) == []
    world.faults.failing.clear()
    world.advance(70)
    assert [(each[0], each[3]) for each in stats(world)] == [(0, 1), (1, 1), (2, 1)]


def test_how_late_runs_began_is_in_health(world: World) -> None:
    node = world.node(world.bench.handler, max_workers=1, runner_window=seconds(60))
    node.schedule_all(several(9, 1))
    for _ in range(9):
        world.advance(1)
        world.bench.end_all()
    world.advance(12)
    recent = node.health().lateness
    assert recent.minute.runs == 9
    p50, p99 = recent.minute.p50, recent.minute.p99
    assert p50 is not None
    assert p99 is not None
    # None, none, one second, two and so on, up to seven.
    assert seconds(3) <= p50 <= seconds(4.5)
    assert seconds(7) <= p99 <= seconds(10.5)
    assert recent.day == recent.hour == recent.minute
    assert (recent.objective, recent.met) == (None, None)
    world.advance(75)
    assert node.health().lateness.minute == Lateness()
    assert node.health().lateness.hour.runs == 9


def test_what_is_recent_is_forgotten_in_time(world: World) -> None:
    node = world.node(world.note, **{**SELDOM, "lease": 10 * MINUTE})
    node.schedule(once(1))
    world.advance(20)
    for span, minute, hour, day in [
        (0, 1, 1, 1),
        (200, 0, 1, 1),
        (2 * 3600, 0, 0, 1),
        (25 * 3600, 0, 0, 0),
    ]:
        world.advance(span)
        recent = node.health().lateness
        counts = (recent.minute.runs, recent.hour.runs, recent.day.runs)
        assert counts == (minute, hour, day)


def test_an_objective_is_broken_and_met_again(world: World) -> None:
    node = world.node(
        world.note, max_workers=500, lateness_objective=seconds(0.5), lease=MINUTE
    )
    node.schedule_all(several(100, 1))
    world.advance(15)
    assert node.health().lateness.met is True
    # One of a hundred may be later; two may not.
    for late in (1, 2):
        world.clock.freeze("node")
        world.advance(2)
        world.scheduler(None).schedule(once(world.clock.elapsed().total_seconds() - 1))
        world.clock.thaw("node")
        world.advance(12)
        assert node.health().lateness.met is (late == 1)
    [broken] = world.heard.of(ObjectiveBroken)
    assert (broken.objective, broken.runs, broken.late) == (seconds(0.5), 102, 2)
    world.advance(90)
    [met] = world.heard.of(ObjectiveMet)
    assert met.after >= seconds(30)
    assert node.health().lateness.met is True


def test_counts_lose_nothing_though_many_threads_count(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: None, max_workers=8, runner_window=HOUR / 60)
    with meanwhile(*[lambda: run_now(node, 50)] * 4):
        threaded.heard.wait(InstanceFinished, 200)
    assert node.stop()
    found = node.stats_since(threaded.clock.now() - HOUR)
    assert sum(each.lateness.total for each in found) == 200
    assert sum(each.ended["completed"] for each in found) == 200


def test_a_scheduler_that_runs_is_well_and_has_its_loops(world: World) -> None:
    node = world.node(world.note)
    world.advance(30)
    health = node.health()
    assert (health.ok, health.store_reachable) == (True, True)
    assert (health.trouble, health.warnings) == (None, ())
    assert {"definition scheduler", "instance runner", "cleanup"} <= {*health.loops}
    assert {(each.ok, each.error) for each in health.loops.values()} == {(True, None)}
    looks = health.loops["definition scheduler"].last_good
    assert looks is not None
    assert looks <= SECOND
    without = world.node(None, "without")
    world.advance(5)
    assert {*without.health().loops} < {*health.loops}
    assert without.health().ok


def test_health_counts_what_waits_and_what_is_busy(world: World) -> None:
    node = world.node(world.bench.handler, max_workers=2)
    node.schedule_all(map(once, (1, 1, 5)))
    world.advance(0.9)
    assert (node.health().waiting, node.health().busy) == (2, 0)
    world.advance(0.1)
    assert (node.health().waiting, node.health().busy) == (0, 2)
    world.bench.end_all()
    world.advance(3.9)
    assert (node.health().waiting, node.health().busy) == (1, 0)


def test_a_loop_that_fails_says_why(world: World) -> None:
    node = world.node(world.note)
    world.advance(5)
    world.faults.failing["delete_finished"] = ZeroDivisionError("odd")
    world.advance(70)
    health = node.health()
    assert not health.ok
    assert health.store_reachable
    assert health.loops["cleanup"].error == "ZeroDivisionError('odd')"
    assert health.loops["instance runner"].ok
