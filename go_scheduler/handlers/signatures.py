"""Signatures of webhooks: how they are made, and how a receiver verifies them."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_positive
from go_scheduler.clock import Clock, SystemClock
from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


INSTANCE = "Go-Scheduler-Instance"
ATTEMPT = "Go-Scheduler-Attempt"
TIMESTAMP = "Go-Scheduler-Timestamp"
SIGNATURE = "Go-Scheduler-Signature"

_VERSION = "v1="
_LONGEST = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidSignature(ValueError):
    """A request that cannot be trusted: its signature is missing, wrong or old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a verified webhook says of itself.

    Attributes:
        instance_id: The id of the instance, the same for each repetition.
        attempt: The attempt, higher for each repetition.
        sent_at: When it was signed, to the second.
    """

    instance_id: UUID
    attempt: int
    sent_at: datetime


def signature_headers(
    secret: str, body: bytes, *, instance_id: UUID, attempt: int, now: datetime
) -> dict[str, str]:
    """The headers of a signed webhook."""
    timestamp = str((now - _EPOCH) // timedelta(seconds=1))
    return {
        TIMESTAMP: timestamp,
        SIGNATURE: _signature(
            secret, body, timestamp=timestamp, id=str(instance_id), attempt=str(attempt)
        ),
    }


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str],
    max_age: timedelta = timedelta(minutes=5),
    clock: Clock | None = None,
) -> Delivery:
    """Verify a webhook that was received, before anything in it is believed.

    The signature covers the time, the instance, the attempt and the body, but no other
    headers. Within ``max_age`` a request can be repeated by whoever has seen it:
    remember ``(instance_id, attempt)`` if that matters.

    Args:
        headers: The request's headers, in upper or lower case.
        body: The request's body, unchanged.
        secrets: The key; while it is being changed, the old and the new one.
        max_age: How far its time may be from now, in either direction.
        clock: Tells the time; None: the machine's.

    Raises:
        InvalidSignature: It cannot be trusted.
        ConfigurationError: There is no secret, or ``max_age`` is no duration.
    """
    check_positive("max_age", max_age)
    keys = [secrets] if isinstance(secrets, str) else [*secrets]
    if not all(keys) or not keys:
        raise ConfigurationError("secrets must hold a key that is not empty")
    found = {name.lower(): value for name, value in headers.items()}
    try:
        timestamp, id, attempt, signature = (
            found[name.lower()] for name in (TIMESTAMP, INSTANCE, ATTEMPT, SIGNATURE)
        )
    except KeyError as missing:
        raise InvalidSignature(f"the header {missing.args[0]} is missing") from None
    if max(map(len, (timestamp, id, attempt, signature))) > _LONGEST:
        raise InvalidSignature("a header of the signature is too long")
    expected = [
        _signature(key, body, timestamp=timestamp, id=id, attempt=attempt)
        for key in keys
    ]
    # All are compared, so that the time it takes reveals nothing.
    given = signature.encode(errors="replace")
    matches = [hmac.compare_digest(each.encode(), given) for each in expected]
    if not any(matches):
        raise InvalidSignature("the signature does not match")
    now = (SystemClock() if clock is None else clock).now()
    sent_at = _EPOCH + timedelta(seconds=int(timestamp))
    if abs(now - sent_at) > max_age:
        raise InvalidSignature(f"it was signed at {sent_at}, which is too far from now")
    return Delivery(instance_id=UUID(id), attempt=int(attempt), sent_at=sent_at)


def _signature(
    secret: str, body: bytes, *, timestamp: str, id: str, attempt: str
) -> str:
    signed = f"{timestamp}.{id}.{attempt}.".encode() + body
    return _VERSION + hmac.digest(secret.encode(), signed, "sha256").hex()
