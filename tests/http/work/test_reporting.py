"""What workers report of their runs: those that are theirs, and the first success."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.models import State
from go_scheduler.models.values import changed
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.running.desk import HandedOut
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Claim
from tests.http.work.callers import Believing
from tests.http.work.house import Server, server
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

AT_ONCE = RetryPolicy(delay=timedelta(0), max_attempts=3)


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with server(MemoryStore(), access=Believing(), retry=AT_ONCE) as found:
        yield found


@pytest.fixture
def queue() -> str:
    return f"queue {uuid4()}"


@pytest.fixture
def work(shared: Server, queue: str) -> dict[str, Any]:
    shared.once(queue=queue)
    return shared.take_one(queue)


def slug(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:go_scheduler:")


@pytest.mark.parametrize("way", ["complete", "completes", "error"])
def test_what_a_worker_says_of_its_times_is_kept_beside_the_servers(
    shared: Server, work: dict[str, Any], way: str
) -> None:
    times = {
        "started_at": "2030-01-01T02:00:00+02:00",
        "ended_at": "2030-01-01T00:00:01Z",
    }

    def tell(**said: Any) -> Any:
        if way == "completes":
            item = {"instance_id": work["instance_id"], "token": work["token"], **said}
            answer = shared.client.post("/v1/work/complete", json={"completed": [item]})
            return answer.json()["answers"][0]["problem"]
        more = {"message": "no paper"} if way == "error" else {}
        answer = shared.tell(work, way, **more, **said)
        return None if answer.status_code == 200 else answer.json()

    wrong = {**times, "ended_at": "2029-01-01T00:00:00Z"}
    assert tell(**wrong)["errors"][0]["field"] == "ended_at"
    wrong = {**times, "started_at": "0001-01-01T00:00:00+01:00"}
    assert tell(**wrong)["errors"][0]["field"] == "started_at"
    assert tell(**times) is None
    instance = shared.instance(work)
    assert instance.client == {
        "started_at": "2030-01-01T00:00:00Z",
        "ended_at": "2030-01-01T00:00:01Z",
    }
    path = f"/v1/instances/{instance.id}"
    assert shared.client.get(path).json()["client"] == instance.client


def test_a_run_goes_on_as_long_as_it_asks_for_more_time(
    shared: Server, work: dict[str, Any]
) -> None:
    until = shared.instance(work).expires_at
    answer = shared.tell(work, "heartbeat")
    assert (answer.status_code, answer.json()) == (200, {"answer": "go_on"})
    assert shared.tell(work, "extend", seconds=3600).json() == {"answer": "go_on"}
    later = shared.instance(work).expires_at
    assert later is not None
    assert until is not None
    assert later > until + timedelta(seconds=3000)


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
    # The last within its time is followed by another while it is still kept.
    assert kept > timedelta(seconds=timeout + 10)


def test_a_run_that_was_cancelled_is_to_stop(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.scheduler.cancel(shared.instance(work).id)
    assert shared.tell(work, "heartbeat").json() == {"answer": "stop"}
    assert shared.tell(work, "error", message="stopped").status_code == 200
    assert shared.instance(work).state is State.CANCELLED


def test_what_was_not_begun_is_given_back_and_counts_as_no_run(
    shared: Server, queue: str, work: dict[str, Any]
) -> None:
    assert shared.instance(work).runs == 1
    wrong = shared.tell(work, "release", delay=-1)
    assert [each["field"] for each in wrong.json()["errors"]] == ["delay"]
    told = shared.tell(work, "release", delay=0.001, reason="it is away")
    assert told.status_code == 200
    instance = shared.instance(work)
    assert (instance.state, instance.runs) == (State.PENDING, 0)
    assert instance.due_at > instance.execute_at
    assert slug(shared.tell(work, "release")) == (409, "lost")
    again = shared.take_one(queue)
    assert again["instance_id"] == work["instance_id"]
    assert slug(shared.tell(again | {"token": "x"}, "release"))[0] == 403


def test_a_success_may_be_said_again(shared: Server, work: dict[str, Any]) -> None:
    for _ in range(2):
        assert shared.tell(work, "complete").status_code == 200
    assert shared.instance(work).state is State.COMPLETED


def test_what_came_of_a_run_is_kept(shared: Server, work: dict[str, Any]) -> None:
    result = {"sent": [1, 2.5, None], "to": "é"}
    assert shared.tell(work, "complete", result=result).status_code == 200
    assert shared.instance(work).result == result


def test_a_result_that_is_too_large_is_refused(
    shared: Server, work: dict[str, Any]
) -> None:
    answer = shared.tell(work, "complete", result="x" * 70_000)
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["result"]
    assert shared.instance(work).state is State.RUNNING


def test_a_run_that_is_not_remembered_any_more_is_completed_all_the_same(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.crews._handed_out._instances.clear()
    assert shared.tell(work, "complete").status_code == 200
    assert shared.instance(work).state is State.COMPLETED


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
    # None of what may be large.
    assert not last.definition.metadata
    assert last.error is None


def test_what_waits_for_the_end_of_a_run_is_handed_out_then(
    shared: Server, queue: str
) -> None:
    task = shared.task(queue=queue, overlap=Overlap.BUFFER_ALL)
    for _ in range(2):
        shared.scheduler.run_now(task.id)
    work = shared.take_one(queue)
    waiting = shared.ask_meanwhile(queue)
    assert shared.tell(work, "complete").status_code == 200
    [next_one] = waiting.result(FAILED_AFTER).json()["work"]
    assert next_one["instance_id"] != work["instance_id"]


def test_a_run_that_failed_is_tried_again_as_its_policy_says(
    shared: Server, work: dict[str, Any], queue: str
) -> None:
    assert shared.tell(work, "error", message="no such host").status_code == 200
    again = shared.take_one(queue)
    assert (again["instance_id"], again["attempt"]) == (work["instance_id"], 2)
    assert shared.instance(work).error == "no such host"


def test_the_worker_may_say_when_it_is_tried_again(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.tell(work, "error", message="busy", retry_after=3600)
    due_at = shared.instance(work).due_at
    assert due_at > shared.now() + timedelta(seconds=3000)


def test_the_worker_may_say_that_it_is_not_tried_again(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.tell(work, "error", message="nonsense", fail=True)
    assert shared.instance(work).state is State.FAILED


def test_the_success_of_an_earlier_attempt_counts(
    shared: Server, work: dict[str, Any], queue: str
) -> None:
    shared.tell(work, "error", message="perhaps")
    again = shared.take_one(queue)
    assert shared.tell(work, "complete").status_code == 200
    assert shared.instance(work).state is State.COMPLETED
    assert slug(shared.tell(again, "complete")) == (409, "ended")
    assert slug(shared.tell(again, "heartbeat")) == (409, "lost")


def test_the_success_of_what_has_only_failed_counts(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.tell(work, "error", message="nonsense", fail=True)
    assert shared.tell(work, "complete").status_code == 200
    assert shared.instance(work).state is State.COMPLETED


def test_the_success_of_what_was_cancelled_changes_nothing(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.scheduler.cancel(shared.instance(work).id)
    shared.tell(work, "error", message="stopped")
    assert slug(shared.tell(work, "complete")) == (409, "ended")


def test_an_old_token_keeps_and_fails_nothing(
    shared: Server, work: dict[str, Any], queue: str
) -> None:
    shared.tell(work, "error", message="perhaps")
    shared.take_one(queue)
    assert slug(shared.tell(work, "heartbeat")) == (409, "lost")
    assert slug(shared.tell(work, "extend", seconds=5)) == (409, "lost")
    assert slug(shared.tell(work, "error", message="again")) == (409, "lost")
    assert shared.instance(work).state is State.RUNNING


@pytest.mark.parametrize("what", ["heartbeat", "extend", "complete", "error"])
@pytest.mark.parametrize(
    "token", ["", "x", "é", "AAAA", "A" * 80, "changed", "of another", "\x00"]
)
def test_a_token_that_is_not_its_own_is_refused(
    shared: Server, work: dict[str, Any], what: str, token: str
) -> None:
    real = work["token"]
    if token == "changed":
        token = real[:-4] + ("AAAA" if real[-4:] != "AAAA" else "BBBB")
    elif token == "of another":
        shared.once(queue="another")
        token = shared.take_one("another")["token"]
    bodies: dict[str, Any] = {"extend": {"seconds": 1}, "error": {"message": "x"}}
    body = bodies.get(what, {})
    answer = shared.tell({**work, "token": token}, what, **body)
    assert slug(answer) == (403, "work-token")
    assert shared.instance(work).state is State.RUNNING


def test_a_token_holds_for_the_caller_it_was_given_to(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.client.headers["X-Name"] = "eve"
    try:
        assert slug(shared.tell(work, "complete")) == (403, "work-token")
    finally:
        del shared.client.headers["X-Name"]
    assert shared.tell(work, "complete").status_code == 200


def test_a_caller_is_restricted_to_its_queues(
    shared: Server, work: dict[str, Any], queue: str
) -> None:
    shared.client.headers["X-Queues"] = "mine,yours"
    try:
        assert slug(shared.ask(f"mine,{queue}")) == (403, "queue")
        assert shared.ask("yours,mine", wait=0).status_code == 204
        bodies: dict[str, Any] = {
            "heartbeat": {},
            "extend": {"seconds": 1},
            "complete": {},
            "error": {"message": "x"},
        }
        for what, body in bodies.items():
            assert slug(shared.tell(work, what, **body)) == (403, "queue")
    finally:
        del shared.client.headers["X-Queues"]


def test_a_caller_who_is_restricted_to_owners_is_handed_nothing_and_ends_nothing(
    shared: Server, work: dict[str, Any]
) -> None:
    shared.client.headers["X-Owners"] = "mine"
    try:
        assert slug(shared.ask("default", wait=0)) == (403, "owner")
        assert slug(shared.tell(work, "complete")) == (403, "owner")
    finally:
        del shared.client.headers["X-Owners"]


def test_who_may_not_work_is_refused(shared: Server, work: dict[str, Any]) -> None:
    shared.client.headers["X-Scopes"] = "jobs:read"
    try:
        assert slug(shared.ask("default", wait=0)) == (403, "scope")
        assert slug(shared.tell(work, "complete")) == (403, "scope")
    finally:
        del shared.client.headers["X-Scopes"]


@pytest.mark.parametrize(
    ("what", "body", "field"),
    [
        ("extend", {}, "seconds"),
        ("extend", {"seconds": 0}, "seconds"),
        ("extend", {"seconds": -1}, "seconds"),
        ("extend", {"seconds": "5"}, "seconds"),
        ("error", {}, "message"),
        ("error", {"message": 1}, "message"),
        ("error", {"message": "x", "retry_after": -1}, "retry_after"),
        ("error", {"message": "x", "retry_after": 1, "fail": True}, "retry_after"),
        ("complete", {"results": 1}, "results"),
        ("heartbeat", {"token": 1}, "token"),
    ],
)
def test_what_is_reported_wrongly_is_refused(
    shared: Server, work: dict[str, Any], what: str, body: dict[str, Any], field: str
) -> None:
    answer = shared.tell(work, what, **body)
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert shared.instance(work).state is State.RUNNING


def test_what_nobody_knows_is_lost(shared: Server, work: dict[str, Any]) -> None:
    shared.scheduler.delete_definition(shared.instance(work).definition.id)
    assert slug(shared.tell(work, "error", message="x")) == (409, "lost")


def test_several_successes_may_be_told_at_once(shared: Server, queue: str) -> None:
    for _ in range(3):
        shared.once(queue=queue)
    ended, kept, wrong = (shared.take_one(queue) for _ in range(3))
    shared.scheduler.cancel(shared.instance(ended).id)
    assert shared.tell(ended, "error", message="stopped").status_code == 200

    def item(work: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"instance_id": work["instance_id"], "token": work["token"], **more}

    body = {
        "completed": [
            item(ended),
            item(kept, result=[1]),
            item(wrong, token="none"),
            item(wrong, result="x" * 70_000),
        ]
    }
    answer = shared.client.post("/v1/work/complete", json=body)
    assert answer.status_code == 200
    problems = [each["problem"] for each in answer.json()["answers"]]
    assert [each and each["status"] for each in problems] == [409, None, 403, 422]
    assert problems[3]["errors"][0]["field"] == "result"
    assert shared.instance(kept).result == [1]
    assert shared.instance(wrong).state is State.RUNNING
