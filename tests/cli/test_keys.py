"""The command `key` makes keys that the configuration it prints lets in."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from go_scheduler.cli import main
from go_scheduler.clock import SystemClock
from go_scheduler.http.access.keys import ApiKey, ApiKeys
from go_scheduler.http.configuration.loading import load_configuration

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["key", "mail workers", "-s", "workers", "--scope", "runs:read", "-q", "mail"]


def test_a_key_is_let_in_by_what_is_to_be_configured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(WORDS) == 0
    output, told = capsys.readouterr()
    [key] = re.findall(r"gs_\S+", told)
    assert key not in output
    file = tmp_path / "go_scheduler.yaml"
    file.write_text(output)
    known = [each.key() for each in load_configuration(file).settings.access.keys]
    caller = ApiKeys(known, SystemClock()).caller_of(key)
    assert caller.subject == "mail workers"
    assert caller.scopes == {"workers", "runs:read"}
    assert (caller.queues, caller.owners) == ({"mail"}, None)


def test_scripts_are_told_both_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS[:4], "--owner", "shop", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    known = ApiKey(**{name: told[name] for name in told if name != "key"})
    caller = ApiKeys([known], SystemClock()).caller_of(told["key"])
    assert (caller.queues, caller.owners) == (None, {"shop"})


@pytest.mark.parametrize("words", [[], ["-s", "everything"]])
def test_a_key_that_allows_nothing_is_none(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "a", *words]) == 2
    output, told = capsys.readouterr()
    assert output == ""
    assert "scope" in told
    assert "gs_" not in told
