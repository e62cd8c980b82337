"""The command `audit`: what it prints, and how it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import TaskDefinition
from go_scheduler.testing.builders import fire
from go_scheduler.triggers import IntervalTrigger

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.client import Client
    from tests.cli.shell import Shell

MINUTE = timedelta(minutes=1)


@pytest.fixture
def lost(shell: Shell) -> UUID:
    """A definition of each minute that has lost one fire time of the last three."""

    def make(client: Client) -> UUID:
        store = client._ready()
        first = store.now().replace(second=0, microsecond=0) - 10 * MINUTE
        trigger = IntervalTrigger(MINUTE, anchor=first)
        new = TaskDefinition(trigger=trigger, name="report", next_fire_time=first)
        [stored] = store.put_definitions([new])
        fire(
            store, stored, first, first + 2 * MINUTE, next_fire_time=first + 99 * MINUTE
        )
        return stored.id

    made: UUID = shell.call(make)
    return made


def test_a_lost_fire_time_is_shown_and_the_exit_code_is_1(
    shell: Shell, lost: UUID
) -> None:
    printed = shell("audit", code=1)
    assert "report: " in printed
    assert "missed   it has neither an instance nor a record" in printed
    assert "waits    it has not begun" not in printed
    assert "waits    it has not begun" in shell("audit", "report", "--times", code=1)


def test_as_json_each_definition_is_a_line(shell: Shell, lost: UUID) -> None:
    [found] = shell.json("audit", code=1)
    assert (found["id"], found["name"], found["error"]) == (f"{lost}", "report", None)
    assert found["counts"]["waits"] == 2
    assert {each["verdict"] for each in found["times"]} == {"missed"}
    assert found["times"][0]["fire_time"].endswith("Z")
    [all_times] = shell.json("audit", "--times", code=1)
    assert len(all_times["times"]) == sum(found["counts"].values())


def test_a_time_in_which_nothing_was_lost_ends_with_0(shell: Shell) -> None:
    shell("add", "report", "--on-demand")
    assert shell("audit") == ""
    shell("add", "report", "--at", "2999-01-01T00:00:00Z")
    assert shell("audit") == "report: no fire times\n"
    assert shell("audit", "--retention", "7d", "--late", "5s").startswith("report")


def test_wrong_times_are_refused(shell: Shell) -> None:
    assert "--since must be a time" in shell.refusal("audit", "--since", "soon")
    refused = shell.refusal("audit", "--since", "2999-01-01T00:00:00Z")
    assert "nothing from since on has passed" in refused
