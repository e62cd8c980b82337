"""The commands on the types of jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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


def declared(shell: Shell) -> list[Any]:
    """What is printed from the first word on types to the last."""
    told: list[Any] = [shell("types", "put", "send / 7", *OPTIONS)]
    [found] = shell.json("types", "show", "send / 7")
    told.append({**found, "revision": None})
    told.append(shell("types", "show", "send / 7").rpartition("\nrevision")[0])
    told.append([each["type"] for each in shell.json("types", "list")])
    shell("types", "put", "plain")
    told.append(shell("types", "list", "--limit", "1"))
    told.append(shell.errors)
    told.append(shell.json("types", "put", "plain", "--queue", "other")[0]["queue"])
    told.append(shell("types", "delete", "plain"))
    shell("types", "put", "plain")
    told.append(shell.json("types", "delete", "plain"))
    told.append(shell.refusal("types", "delete", "plain", code=1))
    told.append(shell.refusal("types", "show", "plain", code=1))
    told.append(shell.refusal("types", "put", "plain", "--priority", "9"))
    told.append(shell.refusal("types", "put", "plain", "--schema", '{"type": 7}'))
    return told


@pytest.mark.slow
def test_types_are_declared_alike_in_a_store_and_by_a_server(
    shell: Shell, far: Shell
) -> None:
    near = declared(shell)
    shell("types", "delete", "send / 7")
    assert declared(far) == near
    said, shown, lines, names, _, more, *rest = near
    assert said.endswith("  send / 7, in the queue mail\n")
    assert shown["schema"] == SCHEMA
    assert (shown["retry"]["max_attempts"], shown["retry"]["delay"]) == (3, 5)
    assert (shown["timeout"], shown["expire_after"]) == (10, 60)
    assert (shown["overlap"], shown["owner"], shown["lock"]) == ("skip", "ann", "smtp")
    assert "runs            by workers\n" in lines
    assert names == ["send / 7"]
    assert more == "there are more than 1: see --limit\n"
    assert rest[:3] == [
        "other",
        "plain  deleted\n",
        [{"type": "plain", "answer": "deleted"}],
    ]
    assert all("declare it by" in each for each in rest[3:5])
    assert "priority must be from 0 to 3" in rest[5]
    assert "schema" in rest[6]
