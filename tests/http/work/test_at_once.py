"""An instance that is due on creation is created and started by one write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.models import State
from go_scheduler.stores.memory.store import MemoryStore
from tests.http.work.house import server, wait_until
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance


class Noted(MemoryStore):
    """Notes whether instances start when they are created."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[bool] = []

    def add_and_start(self, *args: Any, **given: Any) -> Sequence[TaskInstance]:
        found = super().add_and_start(*args, **given)
        self.started += [each.state is State.RUNNING for each in found]
        return found

    def put_and_start(self, *args: Any) -> tuple[TaskDefinition, TaskInstance | None]:
        put, instance = super().put_and_start(*args)
        self.started.append(instance is not None)
        return put, instance


@pytest.mark.slow
def test_it_is_started_by_the_write_that_creates_it() -> None:
    store = Noted()
    with server(store) as one:
        one.client.put("/v1/types/send", json={"queue": "mail"}).raise_for_status()
        other = one.ask_meanwhile("fax")

        def sent(**job: Any) -> None:
            waiting = one.ask_meanwhile("mail")
            # Until its crew has found nothing to claim.
            wait_until(lambda: one.scheduler._taker("mail") is not None)
            if job:
                one.client.post("/v1/jobs", json=job).raise_for_status()
            else:
                one.once(queue="mail")
            [work] = waiting.result(FAILED_AFTER).json()["work"]
            assert one.tell(work, "complete").status_code == 200

        job = {"type": "send", "payload": {}}
        # The queue of the type is not known before the first job.
        sent(**job)
        store.started.clear()
        for _ in range(2):
            sent(**job)
        sent()
        assert store.started == [True] * 3
        one.crews.stop_taking()
        assert other.result(FAILED_AFTER).status_code == 503
