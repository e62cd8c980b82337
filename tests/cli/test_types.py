"""The commands on the types of jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.shell import Shell

SCHEMA = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}
OPTIONS = (
    *("--queue", "mail", "--priority", "2", "--timeout", "10s", "--lock", "smtp"),
    *("--max-attempts", "3", "--retry-delay", "5s", "--overlap", "skip"),
    *("--expire-after", "1m", "--description", "Sends.", "--owner", "ann"),
    *("--schema", json.dumps(SCHEMA)),
)


@pytest.mark.slow
def test_types_are_declared_listed_and_deleted(either: Shell) -> None:
    said = either("types", "put", "send / 7", *OPTIONS)
    assert said.endswith("  send / 7, in the queue mail\n")
    [shown] = either.json("types", "show", "send / 7")
    assert shown["schema"] == SCHEMA
    assert (shown["retry"]["max_attempts"], shown["retry"]["delay"]) == (3, 5)
    assert (shown["timeout"], shown["expire_after"]) == (10, 60)
    assert (shown["overlap"], shown["owner"], shown["lock"]) == ("skip", "ann", "smtp")
    lines = either("types", "show", "send / 7")
    for line in ("runs            by workers", "timeout         10s"):
        assert f"{line}\n" in lines
    assert [each["type"] for each in either.json("types", "list")] == ["send / 7"]
    either("types", "put", "plain")
    assert "plain" in either("types", "list", "--limit", "1")
    assert either.errors == "there are more than 1: see --limit\n"
    [changed] = either.json("types", "put", "plain", "--queue", "other")
    assert changed["queue"] == "other"
    assert either("types", "delete", "plain") == "plain  deleted\n"
    either("types", "put", "plain")
    deleted = {"type": "plain", "answer": "deleted"}
    assert either.json("types", "delete", "plain") == [deleted]
    for words, code, told in (
        (["delete", "plain"], 1, "declare it by"),
        (["show", "plain"], 1, "declare it by"),
        (["put", "plain", "--priority", "9"], 2, "priority must be from 0 to 3"),
        (["put", "plain", "--schema", '{"type": 7}'], 2, "schema"),
    ):
        assert told in either.refusal("types", *words, code=code)
