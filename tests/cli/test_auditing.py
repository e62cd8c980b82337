"""The command `audit`: what it prints, and how it ends."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler import TaskDefinition
from go_scheduler.testing.builders import fire
from go_scheduler.triggers import IntervalTrigger
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from go_scheduler.client import Client
    from tests.cli.shell import Shell

MINUTE = timedelta(minutes=1)


def lose(client: Client) -> UUID:
    """A definition of each minute that has lost one fire time of the last three."""
    store = client._ready()
    first = store.now().replace(second=0, microsecond=0) - 10 * MINUTE
    trigger = IntervalTrigger(MINUTE, anchor=first)
    new = TaskDefinition(trigger=trigger, name="report", next_fire_time=first)
    [stored] = store.put_definitions([new])
    fire(store, stored, first, first + 2 * MINUTE, next_fire_time=first + 99 * MINUTE)
    return stored.id


def test_a_lost_fire_time_is_shown_and_the_exit_code_is_1(either: Shell) -> None:
    either.call(lose)
    printed = either("audit", code=1)
    assert "report: " in printed
    assert "missed   it has neither an instance nor a record" in printed
    assert "waits    it has not begun" not in printed
    assert "waits    it has not begun" in either("audit", "report", "--times", code=1)


def test_as_json_each_definition_is_a_line(either: Shell) -> None:
    id = either.call(lose)
    [found] = either.json("audit", code=1)
    assert (found["id"], found["name"], found["error"]) == (f"{id}", "report", None)
    assert found["counts"]["waits"] == 2
    assert {each["verdict"] for each in found["times"]} == {"missed"}
    assert found["times"][0]["fire_time"].endswith("Z")
    [all_times] = either.json("audit", "--times", code=1)
    assert len(all_times["times"]) == sum(found["counts"].values())


def test_a_time_in_which_nothing_was_lost_ends_with_0(either: Shell) -> None:
    either("add", "mail", "--on-demand")
    assert either("audit") == "mail: it runs on demand\n"
    either("add", "report", "--at", "2999-01-01T00:00:00Z")
    assert either("audit", "report") == "report: no fire times\n"
    assert "no task definition" in either.refusal("audit", f"{uuid4()}", code=1)
    assert "report" in either("audit", "--retention", "7d", "--late", "5s")


def test_a_run_of_unknown_times_is_one_line(either: Shell) -> None:
    either("add", "often", "--cron", "* * * * *")
    printed = either("audit", "--times")
    assert re.search(r"UTC to .* UTC +unknown +1,4\d\d times: ", printed)
    since = ("--unchanged-since", "2020-01-01T00:00:00Z")
    assert "unknown" not in either("audit", *since, "--retention", "2d", code=1)


def test_what_cannot_be_audited_ends_with_1(
    near: Shell, importable: Callable[[str], str]
) -> None:
    def schedule(client: Client) -> None:
        trigger = UnknownTrigger("tests.moon", {}, "no class for it is imported")
        new = TaskDefinition(trigger=trigger, next_fire_time=client._ready().now())
        client._ready().put_definitions([new])

    near.call(schedule)
    assert "moon" in near("audit", code=1)
    module = importable(
        "from go_scheduler import Trigger\n"
        "class Moon(Trigger):\n"
        "    kind = 'tests.moon'\n"
        "    def next_fire_time(self, after): return None\n"
        "def handler(instance): pass\n"
    )
    assert "no fire times" in near("audit", "--handlers", f"{module}:handler")


def test_wrong_times_are_refused(either: Shell) -> None:
    either.call(lose)
    assert "--since must be a time" in either.refusal("audit", "--since", "soon")
    refused = either.refusal("audit", "--since", "2999-01-01T00:00:00Z")
    assert "since must have passed" in refused
