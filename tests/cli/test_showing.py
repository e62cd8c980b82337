"""What `show` prints of an instance that is on a bus, or was."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler import TaskDefinition
from go_scheduler.cli.showing import instance_lines
from go_scheduler.models import Outcome, TaskInstance
from go_scheduler.testing.clock import START
from go_scheduler.triggers import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.json import JSON

ON_A_BUS = TaskInstance(
    id=UUID(int=1),
    definition=TaskDefinition(
        id=UUID(int=2), name="resize", queue="pictures", trigger=OnDemandTrigger()
    ),
    fire_time=None,
    execute_at=START,
    due_at=START,
    attempt=1,
    runs=1,
    claimed_by=UUID(int=3),
    worker="anna",
    accepted_at=START,
    started_at=START,
    progress={"done": 1},
)


def shown(instance: TaskInstance) -> dict[str, str]:
    return {each[:16].rstrip(): each[16:] for each in instance_lines(instance, [])}


def test_what_a_worker_on_a_bus_runs_is_shown_with_its_stage_and_progress() -> None:
    lines = instance_lines(ON_A_BUS, [])
    assert lines[9:13] == [
        "node            00000000-0000-0000-0000-000000000003",
        "worker          anna",
        "stage           started",
        "started at      2030-01-01 00:00:00Z",
    ]
    assert lines[13:] == ['progress        {"done": 1}']
    published = replace(ON_A_BUS, accepted_at=None, start_by=START)
    assert shown(published)["stage"] == "published"


@pytest.mark.parametrize(
    ("result", "text"), [({"width": 640}, '{"width": 640}'), (0, "0"), ([], "[]")]
)
def test_what_has_ended_is_shown_with_its_result_and_without_a_stage(
    result: JSON, text: str
) -> None:
    ended = START + timedelta(seconds=1)
    done = replace(ON_A_BUS, completed_at=ended, outcome=Outcome.COMPLETED)
    lines = shown(replace(done, result=result, progress=None))
    assert (lines["worker"], lines["result"]) == ("anna", text)
    assert not {"stage", "progress"} & {*lines}
