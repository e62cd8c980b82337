"""The command `doctor`: what it prints, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import NODE, SECOND
from tests.cli.shell import Shell
from tests.conftest import SQL

if TYPE_CHECKING:
    from pathlib import Path


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
    printed = shell("doctor", "--least", "error", code=2)
    assert "no living node serves queue 'mail'" in printed
    assert "\nqueue-unserved: Name the queue in the queues= of a scheduler" in printed


def test_a_one_off_that_no_node_has_a_handler_for_is_an_error(shell: Shell) -> None:
    announced = Announcement(node=NODE, queues=("default",), names=("known",))
    shell.call(lambda client: client._ready().note_contact(announced, unbroken=SECOND))
    [typo] = shell.json("add", "typo", "--on-demand")
    shell("run", typo["id"])
    printed = shell("doctor", code=2)
    assert "has a handler for 'typo'" in printed


def test_a_store_that_is_away_has_an_exit_code_of_its_own(shell: Shell) -> None:
    url = "postgresql://user:secret@127.0.0.1:1/jobs"
    printed = shell("doctor", "--store", url, where=False, code=3)
    assert "error     unreachable  connection failed" in printed
    assert "secret" not in printed + shell.errors


def test_handlers_that_lack_a_name_are_told(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "known_jobs.py").write_text(
        "from go_scheduler import HandlerRegistry\n"
        "registry = HandlerRegistry()\n"
        "registry.register('send')(print)\n"
    )
    shell("add", "send", "--on-demand")
    given = ("--handlers", "known_jobs:registry", "--expire-after", "1h", "--most", "9")
    assert "ok        handlers" in shell("doctor", *given, code=1)
    shell("add", "report", "--on-demand")
    printed = shell("doctor", *given, code=1)
    assert "name-unregistered  the handlers have none for 'report'" in printed
    assert "there is no module" in shell.refusal("doctor", "--handlers", "no:thing")


def test_what_is_to_be_run_is_printed_with_the_finding(
    shell: Shell, tmp_path: Path
) -> None:
    printed = shell(
        "doctor", "--store", f"sqlite:///{tmp_path}/x.db", where=False, code=3
    )
    assert "there is no file" in printed
    (tmp_path / "x.db").touch()
    printed = shell(
        "doctor", "--store", f"sqlite:///{tmp_path}/x.db", where=False, code=2
    )
    assert "\n    go_scheduler migrate\n" in printed
