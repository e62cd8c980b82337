"""The settings of types of jobs, and of work for workers."""

from __future__ import annotations

import inspect
import json
import re
import sys
from datetime import timedelta
from importlib import import_module, metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from go_scheduler import ConfigurationError, MemoryStore, RetryPolicy, Scheduler
from go_scheduler.dispatch import DispatchWorker, open_bus
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.job_types import ENTRY_POINTS, JobTypes
from go_scheduler.handlers.shell import Command, Limits
from go_scheduler.handlers.webhook import Webhook
from go_scheduler.handlers.webhook_settings import WebhookSettings
from go_scheduler.http.access.authentication import new_key
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.configuration.loading import check
from go_scheduler.http.configuration.sections import (
    CommandLimitsSection,
    CommandSection,
    EmailSection,
    OidcSection,
    SchedulerSection,
    Section,
    WebhookSection,
    WorkSection,
)
from go_scheduler.http.limits import Waiting
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.http.work.long_poll import LongPoll
from tests.case_tables import table
from tests.http.configuration.places import DOCS, YAML, load
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("own_types", None)


NO_SETTINGS = {
    *("settings", "resolve", "clock", "server"),
    *("handler", "store", "executor", "loop", "listeners"),
}
"""Parameters that are not set by the configuration."""

OWN_TYPES = """
from go_scheduler.handlers.job_types import JobTypes

types = JobTypes()

@types.task("double", queue="slow")
def double(number: int) -> int:
    return 2 * number
"""


def types_of(text: str) -> JobTypes:
    return load(text).types.job_types()


def test_the_commands_that_are_shown_can_be_submitted() -> None:
    page = (DOCS / "executors.md").read_text()
    [shown] = YAML.findall(page)[:1]
    Path("secret").write_text("a secret")
    types = types_of(re.sub(r"/run/secrets/\w+", "secret", shown))
    commands = re.findall(r"(?:payload|metadata) '(.*?)'$", page, re.M)
    assert len(commands) == 2
    for each in commands:
        assert types.check("shell", json.loads(each))["command"] == "sort"


@pytest.mark.parametrize(
    ("section", "made", "without"),
    [
        (CommandSection, [Command], ["environment", "folder", "limits"]),
        (CommandLimitsSection, [Limits], []),
        (WebhookSection, [WebhookSettings, Webhook], ["secrets", "authorizations"]),
        (EmailSection, [MailServer, Email], []),
        (OidcSection, [OidcIssuer], []),
        (SchedulerSection, [Scheduler], ["retry", "catch_up"]),
    ],
)
def test_a_section_has_the_parameters_of_what_it_makes_with_their_defaults(
    section: type[Section], made: list[type], without: list[str]
) -> None:
    taken: dict[str, inspect.Parameter] = {}
    for each in made:
        taken |= inspect.signature(each).parameters
    assert section.model_fields.keys() == taken.keys() - NO_SETTINGS
    for name, field in section.model_fields.items():
        if name not in without and not field.is_required():
            assert field.default == taken[name].default, name


def test_work_is_handed_out_as_the_parts_have_it_by_default() -> None:
    work = WorkSection()
    long_poll = inspect.signature(LongPoll).parameters
    waiting = inspect.signature(Waiting).parameters
    for name, parameter in (
        ("lease", long_poll["lease"]),
        ("crews", long_poll["most"]),
        ("idle", long_poll["idle"]),
        ("waiting", waiting["all"]),
        ("waiting_each", waiting["each"]),
    ):
        assert parameter.default == getattr(work, name), name


def test_what_holds_for_jobs_can_be_set() -> None:
    assert load().jobs.made() == JobDefaults()
    defaults = load("jobs: {jitter: 5s, interval: 1m}").jobs.made()
    assert defaults == JobDefaults(
        jitter=timedelta(seconds=5), interval=timedelta(minutes=1)
    )


def test_commands_are_a_type_of_the_servers_own_queue() -> None:
    Path("secret").write_text("abc")
    settings = load(
        """
types:
  queue: here
  announced: false
  shell:
    grace: 5s
    commands:
      hello:
        arguments: [echo, "{name}"]
        options: name
        environment: {PATH: /bin:/usr/bin, TOKEN_file: secret}
        timeout: 1m
        final_codes: [3]
        limits: {cpu_seconds: 5}
      other: {arguments: [echo]}
"""
    )
    types = settings.types.job_types()
    assert settings.types.queues(types) == ("here",)
    assert types.described("shell").definition.queue == "here"
    assert types.check("shell", {"command": "hello", "arguments": {"name": "a"}})
    assert settings.types.shell is not None
    command = settings.types.shell.commands["hello"].made()
    assert command == Command(
        arguments=("echo", "{name}"),
        options=("name",),
        folder=Path("/"),
        environment={"PATH": "/bin:/usr/bin", "TOKEN": "abc"},
        timeout=timedelta(minutes=1),
        final_codes=(3,),
        limits=Limits(cpu_seconds=5),
    )


def test_webhooks_and_mails_are_types_of_the_servers_own_queue() -> None:
    Path("secret").write_text("abc")
    types = types_of(
        """
types:
  webhook:
    hosts: .example.org
    timeout: 10s
    secrets: {shop: {value_file: secret, hosts: [shop.example.org]}}
    authorizations: {crm: {value: Bearer x, hosts: crm.example.org}}
  email: {host: mail.example.org, sender: a@example.org, user: a, password_file: secret}
"""
    )
    assert [each.name for each in types.types] == ["email", "webhook"]
    assert {each.definition.queue for each in types.types} == {"server"}
    url = {"url": "https://shop.example.org/", "secret": "shop"}
    assert types.check("webhook", url)
    assert types_of("types: {email: {host: a.example, sender: a@example.org}}").types


BESIDE_OWN_TYPES = {
    "webhook": "types: {module: 'own_types:types', webhook: {ports: [443]}}",
    "email": """
types:
  module: 'own_types:types'
  email: {host: mail.example.org, sender: a@example.org}
""",
    "shell": f"""
access: {{keys: [{{subject: ann, hash: '{new_key().kept}', scopes: [admin]}}]}}
types:
  module: 'own_types:types'
  shell: {{commands: {{hello: {{arguments: [echo]}}}}}}
""",
    "resize": """
types: {module: 'own_types:types'}
dispatch: {url: 'memory://', types: {resize: {}}}
""",
    "announced": "types: {module: 'own_types:types'}",
}


def add_announced(types: JobTypes) -> None:
    types.job_type("announced", schema={})(lambda instance: None)


@pytest.mark.parametrize("name", BESIDE_OWN_TYPES)
def test_types_of_ones_own_stand_beside_all_others_however_often_they_are_checked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_types.py").write_text(OWN_TYPES)
    if name == "announced":
        point = EntryPoint("a", f"{__name__}:add_announced", ENTRY_POINTS)
        monkeypatch.setattr(
            metadata, "entry_points", lambda group: [point][: group == point.group]
        )
    settings = load(BESIDE_OWN_TYPES[name])
    for _ in range(2):
        check(settings)
    types = settings.types.job_types()
    with settings.dispatch.opened(types, queue="server"):
        pass
    assert [each.name for each in types.types] == sorted([name, "double"])
    own = import_module("own_types").types
    assert [each.name for each in own.types] == ["double"]


def test_what_a_type_of_ones_own_is_called_cannot_be_that_of_another() -> None:
    Path("own_types.py").write_text(OWN_TYPES.replace('"double"', '"webhook"'))
    settings = load(BESIDE_OWN_TYPES["webhook"])
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="registered as 'webhook' already"):
            check(settings)


@pytest.mark.parametrize(
    ("text", "told"),
    table("http/configuration/types_refused"),
)
def test_what_is_wrong_with_types_is_told(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        check(load(f"types: {text}"))


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
    settings, types = load(RESIZE), JobTypes()
    check(settings)
    with settings.dispatch.opened(types, queue="server"):
        pass
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
    listeners = [hears(InstanceFinished)(finished.put)]
    with load(RESIZE).dispatch.opened(types, queue="server") as dispatcher:
        assert dispatcher is not None
        scheduler = Scheduler(
            types, MemoryStore(), queues=["server"], listeners=listeners
        )
        with (
            open_bus("memory://") as bus,
            scheduler,
            dispatcher.hearing(scheduler),
            DispatchWorker(
                bus,
                lambda work: work.payload,
                queues=["server"],
                namespace="test-configured",
            ),
        ):
            instance = scheduler.enqueue("resize", width=7)
            finished.get(timeout=FAILED_AFTER)
    assert scheduler.get_instance(instance.id).result == {"width": 7}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("types: {resize: {}}", "dispatch.types: types are run over a bus"),
        ("url: nowhere://", "dispatch: no bus has the scheme"),
        ("{url: 'memory://', start_timeout: 0}", "dispatch.start_timeout: start_"),
        (
            "{url: 'memory://', types: {resize: {payload: {required: 7}}}}",
            "dispatch.types.resize: payload.required: 7 is not",
        ),
        (
            "{url: 'memory://', types: {resize: {retry: {factor: 0}}}}",
            "dispatch.types.resize.retry.factor: factor",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str) -> None:
    settings = load(f"dispatch:\n  {text}")
    with pytest.raises(ConfigurationError, match=told):
        check(settings)
