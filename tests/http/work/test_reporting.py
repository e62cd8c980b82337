"""Reports of workers, beside ``behaviour/test_http_work.py``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.models.values import changed
from go_scheduler.running.desk import HandedOut
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Claim
from tests.http.work.house import Server, server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with server(MemoryStore()) as found:
        yield found


@pytest.fixture
def queue() -> str:
    return f"queue {uuid4()}"


@pytest.fixture
def work(shared: Server, queue: str) -> dict[str, Any]:
    shared.once(queue=queue)
    return shared.take_one(queue)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"ended_at": "2029-01-01T00:00:00Z"}, "ended_at"),
        ({"started_at": "0001-01-01T00:00:00+01:00"}, "started_at"),
    ],
)
def test_the_times_of_one_of_several_successes_are_checked_and_answered(
    shared: Server, work: dict[str, Any], wrong: dict[str, str], field: str
) -> None:
    times = {"started_at": "2030-01-01T02:00:00+02:00"}
    item = {name: work[name] for name in ("instance_id", "token")} | times
    body = {"completed": [item | wrong, item]}
    answer = shared.client.post("/v1/work/complete", json=body)
    refused, taken = answer.json()["answers"]
    assert refused["problem"]["errors"][0]["field"] == field
    assert taken == {"problem": None}
    found = shared.client.get(f"/v1/instances/{work['instance_id']}").json()
    assert found["client"] == {"started_at": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize("timeout", [7, 31])
def test_who_sends_heartbeats_is_told_that_a_run_has_timed_out(
    shared: Server, queue: str, timeout: int
) -> None:
    shared.once(queue=queue, timeout=timedelta(seconds=timeout))
    work = shared.take_one(queue)
    assert work["lease"] == min(timeout, 30)
    assert shared.tell(work, "extend", seconds=3600).json() == {"answer": "go_on"}
    instance = shared.instance(work)
    assert instance.started_at is not None
    assert instance.expires_at is not None
    kept = instance.expires_at - instance.started_at
    # The last heartbeat within the timeout is followed by another within the lease.
    assert kept > timedelta(seconds=timeout + 10)


def test_no_more_is_remembered_than_there_is_room_for(
    shared: Server, work: dict[str, Any]
) -> None:
    instance = changed(shared.instance(work), error="x" * 1000)
    handed_out = HandedOut(most=2)
    claims = [Claim(instance_id=instance.id, attempt=each) for each in (1, 2, 3)]
    for each in claims:
        handed_out.add(changed(instance, attempt=each.attempt))
    remembered = [handed_out.pop(each) for each in claims]
    assert [each is None for each in remembered] == [True, False, False]
    [*_, last] = remembered
    assert last is not None
    # Large fields are left out.
    assert not last.definition.metadata
    assert last.error is None
