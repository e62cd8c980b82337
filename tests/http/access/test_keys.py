"""API keys are shown once, kept as hashes, and taken as what they allow."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.http.access.keys import ApiKey, ApiKeys, is_key, new_key
from go_scheduler.http.problems import Problem
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

SECOND = timedelta(seconds=1)


def taken(clock: ManualClock, key: ApiKey, text: str) -> Any:
    return ApiKeys([key], clock).caller_of(text)


def test_a_new_key_is_taken_with_what_it_allows(clock: ManualClock) -> None:
    new = new_key()
    caller = taken(
        clock,
        ApiKey(
            subject="reports",
            hash=new.kept,
            scopes=["runs:write", "workers"],
            queues=["mail"],
            owners=["shop"],
        ),
        new.key,
    )
    assert caller.subject == "reports"
    assert caller.scopes == {"runs:write", "workers"}
    assert (caller.queues, caller.owners) == ({"mail"}, {"shop"})


def test_a_key_is_random_and_nothing_that_is_kept_has_it() -> None:
    new, other = new_key(), new_key()
    assert new.key != other.key
    assert is_key(new.key)
    secret = new.key.rpartition("_")[2]
    known = ApiKey(subject="reports", hash=new.kept, scopes=["admin"])
    assert secret not in new.kept
    assert new.key not in repr(new)
    assert new.kept.partition(":")[2] not in repr(known)


def test_an_admin_may_do_everything(clock: ManualClock) -> None:
    new = new_key()
    key = ApiKey(subject="root", hash=new.kept, scopes=["admin"])
    caller = taken(clock, key, new.key)
    caller.check_scopes(*SCOPES)
    assert (caller.queues, caller.owners) == (None, None)


def test_a_key_that_may_run_jobs_may_pause_and_run_them_as_before(
    clock: ManualClock,
) -> None:
    new = new_key()
    key = ApiKey(subject="ops", hash=new.kept, scopes=["jobs:run"])
    assert taken(clock, key, new.key).scopes == {"jobs:pause", "runs:write"}


@pytest.mark.parametrize("change", ["last", "prefix", "empty", "other"])
def test_another_key_is_not_taken(clock: ManualClock, change: str) -> None:
    new = new_key()
    key = ApiKey(subject="reports", hash=new.kept, scopes=["admin"])
    last = "A" if new.key[-1] != "A" else "B"
    others = {
        "last": new.key[:-1] + last,
        "prefix": f"gs_{'0' * 8}_{new.key[12:]}",
        "empty": "gs_",
        "other": new_key().key,
    }
    with pytest.raises(Problem, match="no such key") as refused:
        taken(clock, key, others[change])
    assert refused.value.status == 401


def test_a_key_that_has_expired_is_not_taken(clock: ManualClock) -> None:
    new = new_key()
    until = START + SECOND
    key = ApiKey(subject="x", hash=new.kept, scopes=["workers"], expires_at=until)
    assert taken(clock, key, new.key).subject == "x"
    clock.advance(SECOND)
    with pytest.raises(Problem, match="has expired"):
        taken(clock, key, new.key)


def test_two_keys_that_begin_alike_are_refused(clock: ManualClock) -> None:
    key = ApiKey(subject="a", hash=new_key().kept, scopes=["admin"])
    with pytest.raises(ConfigurationError, match="keys of a and b both"):
        ApiKeys([key, replace(key, subject="b")], clock)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"subject": ""}, "subject must have 1 to 200"),
        ({"hash": "gs_secret"}, "hash of the key of x must be what new_key"),
        ({"scopes": "admin"}, "scopes of x must be a list"),
        ({"queues": "mail"}, "queues of x must be a list"),
        ({"owners": "shop"}, "owners of x must be a list"),
        ({"scopes": ["jobs:all"]}, "scopes of x has 'jobs:all', which is no scope"),
        ({"expires_at": START.replace(tzinfo=None)}, "expires_at of x"),
    ],
)
def test_a_key_that_is_none_is_refused(wrong: dict[str, Any], why: str) -> None:
    right: dict[str, Any] = {"subject": "x", "hash": new_key().kept, "scopes": []}
    with pytest.raises(ConfigurationError, match=why):
        ApiKey(**(right | wrong))
