"""The command `doctor`: what it prints, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import NODE, SECOND
from tests.cli.shell import Shell
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable
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
    assert "there is no file" in new("doctor", code=3)
    (tmp_path / "x.db").touch()
    assert "\n    go_scheduler migrate\n" in new("doctor", code=2)
