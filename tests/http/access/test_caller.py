"""What a caller is shown, and what is kept from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import OnDemandTrigger, TaskDefinition
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Set


def caller(**restricted: Set[str]) -> Caller:
    return Caller(subject="ann", scopes=frozenset(), **restricted)


def definition(queue: str = "mail") -> TaskDefinition:
    return TaskDefinition(trigger=OnDemandTrigger(), queue=queue)


@pytest.mark.parametrize(
    ("restricted", "is_seen"),
    [
        ({}, True),
        ({"queues": {"mail", "sms"}}, True),
        ({"queues": {"sms"}}, False),
        ({"queues": set()}, False),
        ({"owners": {"shop"}}, False),
        ({"queues": {"mail"}, "owners": {"shop"}}, False),
    ],
)
def test_what_is_of_another_queue_or_of_nobody_is_not_there(
    restricted: dict[str, Any], is_seen: bool
) -> None:
    assert caller(**restricted).sees(definition()) is is_seen


def test_another_queue_is_refused() -> None:
    caller().check_queue("mail")
    caller(queues={"mail"}).check_queue("mail")
    with pytest.raises(Problem, match="'sms' is none of them") as refused:
        caller(queues={"mail"}).check_queue("sms")
    assert refused.value.status == 403
