"""Health is a value: what a scheduler that does not run says of itself."""

from __future__ import annotations

from go_scheduler import MemoryStore, Scheduler


def test_one_that_was_not_started_says_so_and_what_asks_the_store() -> None:
    trouble = Scheduler(None, MemoryStore()).health().trouble
    assert trouble == "it has not been started; check() asks the store"


def test_one_that_was_stopped_says_so() -> None:
    with Scheduler(print) as scheduler:
        assert scheduler.health().trouble is None
    assert scheduler.health().trouble == "it has been stopped"


def test_it_warns_of_what_is_so_at_this_moment() -> None:
    warnings = ["the bus is away"]
    with Scheduler(print) as scheduler:
        with scheduler._notices.passing(lambda: warnings):
            assert scheduler.health().warnings == ("the bus is away",)
            warnings.clear()
            assert scheduler.health().warnings == ()
            warnings.append("it is away again")
        assert scheduler.health().warnings == ()
