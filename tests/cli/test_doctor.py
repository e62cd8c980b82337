"""The commands `audit` and `doctor`: what they print, and how they end."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import TaskDefinition
from go_scheduler.client.views import Page
from go_scheduler.http.remote import Remote
from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import NODE, SECOND, claim, fire, start
from go_scheduler.triggers import IntervalTrigger
from go_scheduler.triggers.base import UnknownTrigger
from tests.cli.shell import Shell
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from go_scheduler.client import Client


MINUTE = timedelta(minutes=1)


def lose(client: Client) -> UUID:
    """A definition of each minute that has lost one fire time of the last three."""
    store = client._ready()
    first = store.now().replace(second=0, microsecond=0) - 10 * MINUTE
    trigger = IntervalTrigger(MINUTE, anchor=first)
    new = TaskDefinition(trigger=trigger, name="report", next_fire_time=first)
    [stored] = store.put_definitions([new]).definitions
    fire(store, stored, first, first + 2 * MINUTE, next_fire_time=first + 99 * MINUTE)
    return stored.id


def begin(client: Client) -> None:
    """Start what is due."""
    store = client._ready()
    start(store, *claim(store))


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
    either.call(begin)
    for late, verdict in (("5s", "late"), ("1h", "on time")):
        [found] = either.json("audit", "--late", late, code=1)
        assert found["counts"][verdict] == 2


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


def test_what_is_deleted_while_a_server_is_audited_is_left_out(
    far: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.call(lose)
    [kept] = far.call(lambda client: client.list_definitions())
    gone = TaskDefinition(trigger=IntervalTrigger(MINUTE))
    pages = {None: Page([gone], next="2"), "2": Page([kept])}
    monkeypatch.setattr(
        Remote, "list_definitions", lambda _, *, limit, after=None: pages[after]
    )
    [found] = far.json("audit", code=1)
    assert found["id"] == f"{kept.id}"
    assert "no task definition" in far.refusal("audit", f"{gone.id}", code=1)


def test_what_cannot_be_audited_ends_with_1(
    near: Shell, importable: Callable[[str], str]
) -> None:
    def schedule(client: Client) -> None:
        trigger = UnknownTrigger("tests.full_moon", {}, "no class for it is imported")
        new = TaskDefinition(trigger=trigger, next_fire_time=client._ready().now())
        client._ready().put_definitions([new])

    near.call(schedule)
    assert "moon" in near("audit", code=1)
    assert "moon" in near.refusal("simulate", "--faults")
    module = importable(
        "from go_scheduler import Trigger\n"
        "class Moon(Trigger):\n"
        "    kind = 'tests.full_moon'\n"
        "    def next_fire_time(self, after): return None\n"
        "def handler(instance): pass\n"
    )
    assert "no fire times" in near("audit", "--handlers", f"{module}:handler")


def test_wrong_times_are_refused(either: Shell) -> None:
    either.call(lose)
    assert "--since must be a time" in either.refusal("audit", "--since", "soon")
    refused = either.refusal("audit", "--since", "2999-01-01T00:00:00Z")
    assert "since must have passed" in refused


@pytest.mark.parametrize("engine", SQL)
def test_the_doctor_ends_as_what_it_found_matters(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(store_url, capsys)
    found = shell.json("doctor", code=1)
    names = {each["name"] for each in found if each["severity"] != "ok"}
    # Others may be at work on the same server.
    assert names - {"long-transaction"} == {"no-nodes"}
    announced = Announcement(node=NODE, queues=("default",))
    shell.call(lambda client: client._ready().note_contact(announced, unbroken=SECOND))
    assert "ok        nodes" in shell("doctor")
    assert shell.json("doctor", "--least", "notice") == []
    told = shell("doctor", "--least", "notice")
    assert told == "nothing was found that matters as much as notice or more\n"
    shell("add", "report", "--every", "5m", "--queue", "mail")
    [typo] = shell.json("add", "typo", "--on-demand")
    known = Announcement(node=NODE, queues=("default",), names=("known",))
    shell.call(lambda client: client._ready().note_contact(known, unbroken=SECOND))
    shell("run", typo["id"])
    printed = shell("doctor", "--least", "error", code=2)
    assert "has a handler for 'typo'" in printed
    assert "no living node serves queue 'mail'" in printed
    assert "\nqueue-unserved: Name the queue in the queues= of a scheduler" in printed


def test_handlers_that_lack_a_name_are_told(
    shell: Shell, importable: Callable[[str], str]
) -> None:
    module = importable(
        "from go_scheduler import HandlerRegistry\n"
        "registry = HandlerRegistry()\n"
        "registry.register('send')(print)\n"
    )
    shell("add", "send", "--on-demand")
    given = ("--handlers", f"{module}:registry", "--expire-after", "1h", "--most", "9")
    assert "ok        handlers" in shell("doctor", *given, code=1)
    shell("add", "report", "--on-demand")
    printed = shell("doctor", *given, code=1)
    assert "name-unregistered  the handlers have none for 'report'" in printed
    assert "there is no module" in shell.refusal("doctor", "--handlers", "no:thing")


def test_a_store_that_is_away_or_behind_has_its_exit_code_and_what_to_run(
    shell: Shell, tmp_path: Path
) -> None:
    away = shell.at("postgresql://user:secret@127.0.0.1:1/jobs")
    printed = away("doctor", code=3)
    assert "error     unreachable  connection failed" in printed
    assert "secret" not in printed + away.errors
    new = shell.at(f"sqlite:///{tmp_path}/x.db")
    printed = new("doctor", code=3)
    assert "there is no file" in printed
    assert "`go_scheduler migrate` makes the file of a new SQLite" in printed
    (tmp_path / "x.db").touch()
    assert "\n    go_scheduler migrate\n" in new("doctor", code=2)
