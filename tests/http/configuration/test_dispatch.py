"""Types of jobs are run over a message bus, as the configuration says."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import pytest

from go_scheduler import ConfigurationError, MemoryStore, RetryPolicy, Scheduler
from go_scheduler.dispatch import DispatchWorker, open_bus
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.http.configuration.checking import check
from go_scheduler.http.serving import BusIntegration
from tests.http.configuration.places import load
from tests.patience import FAILED_AFTER

RESIZE = """
dispatch:
  url: memory://
  namespace: test-configured
  types:
    resize:
      description: Makes pictures smaller.
      payload: {required: [width]}
      start_timeout: 5m
      heartbeat_timeout: 10s
      retry: {max_attempts: 3}
    video: {queue: slow, timeout: 1h}
"""


def test_types_are_those_of_the_server_with_what_is_said_of_them() -> None:
    settings, types = load(RESIZE).settings, JobTypes()
    check(settings)
    BusIntegration(settings, types).close()
    resize, video = types.types
    definition = resize.definition
    assert resize.description == "Makes pictures smaller."
    assert definition.queue == "server"
    assert definition.start_timeout == timedelta(minutes=5)
    assert definition.heartbeat_timeout == timedelta(seconds=10)
    assert definition.retry == RetryPolicy(max_attempts=3)
    assert video.description == "Run by a worker on the message bus."
    assert video.definition.queue == "slow"
    assert video.definition.timeout == timedelta(hours=1)
    assert settings.types.queues(types) == ("server", "slow")
    with pytest.raises(ConfigurationError, match="width"):
        types.check("resize", {})


def test_they_are_run_by_a_worker() -> None:
    types, finished = JobTypes(), SimpleQueue[InstanceFinished]()
    dispatched = BusIntegration(load(RESIZE).settings, types)
    listeners = [hears(InstanceFinished)(finished.put)]
    scheduler = Scheduler(types, MemoryStore(), queues=["server"], listeners=listeners)
    with open_bus("memory://") as bus, scheduler:
        dispatched.hear(scheduler)
        worker = DispatchWorker(
            bus,
            lambda work: work.payload,
            queues=["server"],
            namespace="test-configured",
        )
        with worker:
            instance = scheduler.enqueue("resize", width=7)
            finished.get(timeout=FAILED_AFTER)
        dispatched.close()
    assert scheduler.get_instance(instance.id).result == {"width": 7}


def test_what_the_page_configures_is_right() -> None:
    page = (Path(__file__).parents[3] / "docs/dispatch.md").read_text()
    [shown] = re.findall(r"^```yaml[^\n]*\n(.*?)^```$", page, re.M | re.S)
    settings, types = load(shown).settings, JobTypes()
    check(settings)
    BusIntegration(settings, types).close()
    assert [each.name for each in types.types] == ["resize", "video"]
    assert settings.types.queues(types) == ("pictures",)


def test_without_a_bus_there_is_nothing() -> None:
    types = JobTypes()
    dispatched = BusIntegration(load().settings, types)
    dispatched.hear(Scheduler(None, MemoryStore()))
    dispatched.close()
    assert types.types == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("types: {resize: {}}", "dispatch.types: they are run over a bus"),
        ("url: nowhere://", "dispatch: no bus has the scheme"),
        ("{url: 'memory://', start_timeout: 0}", "dispatch.start_timeout: start_"),
        (
            "{url: 'memory://', types: {resize: {payload: {required: 7}}}}",
            "dispatch.types.resize: payload.required: 7 is not",
        ),
        (
            "{url: 'memory://', types: {resize: {retry: {factor: 0}}}}",
            "dispatch.types.resize: factor",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str) -> None:
    settings = load(f"dispatch:\n  {text}").settings
    with pytest.raises(ConfigurationError, match=told):
        check(settings)
