"""What a receiver of webhooks believes, and what it does not."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from go_scheduler import ConfigurationError
from go_scheduler.handlers.signatures import (
    ATTEMPT,
    INSTANCE,
    SIGNATURE,
    TIMESTAMP,
    InvalidSignature,
    signature_headers,
    verify_webhook,
)
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START
from tests.conftest import seconds

ID = UUID(int=7)
BODY = b'{"order":7}'
HEADERS = {
    INSTANCE: str(ID),
    ATTEMPT: "3",
    **signature_headers("key", BODY, instance_id=ID, attempt=3, now=START),
}


def refused(headers: dict[str, str], body: bytes = BODY, **more: Any) -> str:
    given: Any = {"secrets": ["key"], "clock": ManualClock()} | more
    with pytest.raises(InvalidSignature) as refusal:
        verify_webhook(headers, body, **given)
    return str(refusal.value)


def test_what_is_signed_is_believed_whatever_the_case_of_headers() -> None:
    lower = {name.lower(): value for name, value in HEADERS.items()}
    for secrets in (["key"], ["new", "key"], "key"):
        found = verify_webhook(lower, BODY, secrets=secrets, clock=ManualClock())
        assert (found.instance_id, found.attempt, found.sent_at) == (ID, 3, START)


@pytest.mark.parametrize(
    "changed",
    [
        {INSTANCE: str(UUID(int=8))},
        {ATTEMPT: "4"},
        {TIMESTAMP: "1"},
        {SIGNATURE: "v1=00"},
        {SIGNATURE: "ü"},
        {SIGNATURE: HEADERS[SIGNATURE].removeprefix("v1=")},
    ],
)
def test_what_was_changed_is_not(changed: dict[str, str]) -> None:
    assert refused(HEADERS | changed) == "the signature does not match"


def test_neither_is_another_body_nor_another_key() -> None:
    assert refused(HEADERS, b"{}") == "the signature does not match"
    assert refused(HEADERS, secrets=["other"]) == "the signature does not match"


@pytest.mark.parametrize("name", [INSTANCE, ATTEMPT, TIMESTAMP, SIGNATURE])
def test_nor_is_what_lacks_a_header_or_has_a_long_one(name: str) -> None:
    without = {key: value for key, value in HEADERS.items() if key != name}
    assert refused(without) == f"the header {name.lower()} is missing"
    assert refused(HEADERS | {name: "1" * 201}).endswith("is too long")


@pytest.mark.parametrize("by", [301, -301])
def test_what_is_old_or_of_the_future_is_not_believed(by: int) -> None:
    answer = refused(HEADERS, clock=ManualClock(START + seconds(by)))
    assert answer.endswith("which is too far from now")
    verify_webhook(
        HEADERS,
        BODY,
        secrets=["key"],
        max_age=seconds(302),
        clock=ManualClock(START + seconds(by)),
    )


def test_the_machines_clock_is_asked_if_no_other_is_given() -> None:
    with pytest.raises(InvalidSignature, match="too far from now"):
        verify_webhook(HEADERS, BODY, secrets=["key"])


@pytest.mark.parametrize("secrets", [[], [""], ["key", ""]])
def test_without_a_key_nothing_can_be_verified(secrets: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="secrets must hold a key"):
        verify_webhook(HEADERS, BODY, secrets=secrets)
