"""A client whose store knows the type ``send``, and a server that runs ``resize``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import OnDemandTrigger, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.handlers.job_types import JobTypes

if TYPE_CHECKING:
    from go_scheduler import MemoryStore

ON_DEMAND = TaskDefinition(trigger=OnDemandTrigger())


def task(name: str, **fields: object) -> TaskDefinition:
    """The definition of a task, which is a type of jobs."""
    return TaskDefinition(
        id=TaskDefinition.id_for(f"task {name}"),
        name=name,
        trigger=OnDemandTrigger(),
        **fields,  # type: ignore[arg-type]
    )


SEND = task("send")


@pytest.fixture
def client(memory: MemoryStore) -> Client:
    client = Client(memory)
    client.schedule(SEND)
    return client


@pytest.fixture
def types() -> JobTypes:
    types = JobTypes()

    @types.task("resize", queue="pictures")
    def resize(width: int) -> None:
        """Make it smaller."""
        raise AssertionError

    return types
