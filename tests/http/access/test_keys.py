"""API keys are shown once, kept as hashes, and say what their callers may do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.keys import ApiKey, ApiKeys, is_key, new_key
from go_scheduler.http.problems import Problem
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

NEW = new_key()
SECOND = timedelta(seconds=1)


def caller(clock: ManualClock, text: str = NEW.key, **given: Any) -> Caller:
    """The caller with a key."""
    key = ApiKey(**{"subject": "reports", "hash": NEW.kept, "scopes": []} | given)
    return ApiKeys([key], clock).caller_of(text)


@pytest.mark.parametrize(
    ("given", "scopes"),
    [
        (["runs:write", "workers"], {"runs:write", "workers"}),
        (["admin"], {*SCOPES}),
        # The former name of these scopes together.
        (["jobs:run"], {"jobs:pause", "runs:write"}),
    ],
)
def test_a_key_is_taken_with_its_scopes(
    clock: ManualClock, given: list[str], scopes: set[str]
) -> None:
    found = caller(clock, scopes=given)
    assert (found.subject, found.scopes) == ("reports", scopes)
    assert (found.queues, found.owners) == (None, None)
    found = caller(clock, queues=["mail"], owners=["shop"])
    assert (found.queues, found.owners) == ({"mail"}, {"shop"})


def test_a_key_is_random_and_kept_nowhere() -> None:
    assert NEW.key != new_key().key
    assert is_key(NEW.key)
    known = ApiKey(subject="reports", hash=NEW.kept, scopes=["admin"])
    assert NEW.key.rpartition("_")[2] not in NEW.kept
    assert NEW.key not in repr(NEW)
    assert NEW.kept.partition(":")[2] not in repr(known)


@pytest.mark.parametrize(
    "other",
    [
        NEW.key[:-1] + ("A" if NEW.key[-1] != "A" else "B"),
        f"gs_{'0' * 8}_{NEW.key[12:]}",
        "gs_",
        new_key().key,
    ],
    ids=["last", "prefix", "empty", "other"],
)
def test_an_unknown_key_is_refused(clock: ManualClock, other: str) -> None:
    with pytest.raises(Problem, match="no such key") as refused:
        caller(clock, other)
    assert refused.value.status == 401


def test_a_key_expires(clock: ManualClock) -> None:
    until = START + SECOND
    assert caller(clock, expires_at=until).subject == "reports"
    clock.advance(SECOND)
    with pytest.raises(Problem, match="has expired"):
        caller(clock, expires_at=until)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"subject": ""}, "subject must have 1 to 200"),
        ({"hash": "gs_secret"}, "hash of the key of reports must be what new_key"),
        ({"scopes": "admin"}, "scopes of reports must be a list"),
        ({"queues": "mail"}, "queues of reports must be a list"),
        ({"owners": "shop"}, "owners of reports must be a list"),
        ({"scopes": ["jobs:all"]}, "scopes of reports has 'jobs:all', which is no sc"),
        ({"expires_at": START.replace(tzinfo=None)}, "expires_at of reports"),
    ],
)
def test_a_wrong_key_is_refused(
    clock: ManualClock, wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        caller(clock, **wrong)
