"""Messages are what their page and their schema say, and are read as they were."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from go_scheduler import ConfigurationError
from go_scheduler.dispatch import (
    Cancel,
    Run,
    Status,
    message_schema,
    read_action,
    read_statuses,
)
from go_scheduler.dispatch.messages.message import Said, many_to_bytes
from tests.case_tables import json_table

PAGE = (Path(__file__).parents[2] / "docs/messages.md").read_text()
SHOWN = [
    json.loads(text) for text in re.findall(r"^```json\n({.*?)^```$", PAGE, re.M | re.S)
]
VALIDATOR = Draft202012Validator(message_schema())
NOW = datetime(2030, 1, 1, 9, tzinfo=UTC)
OF: dict[str, Any] = {"instance_id": UUID(int=1), "attempt": 2}
CANCEL = Cancel(**OF, reason="lost")
STATUS = Status(**OF, status=Said.HEARTBEAT, worker="one", at=NOW)
RUN = Run(
    **OF,
    task=None,
    queue="default",
    definition_id=UUID(int=3),
    fire_time=NOW,
    execute_at=NOW,
    payload={"ü": [None, 1.5]},
    metadata={},
    key=None,
    runs=0,
    start_by=None,
    heartbeat_timeout=timedelta(seconds=0.5),
    timeout=timedelta(minutes=1),
)
INSTANTS = st.datetimes(timezones=st.just(UTC))
SECONDS = st.timedeltas(timedelta(0), timedelta(days=36_525))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each),
    max_leaves=5,
)


def name(message: dict[str, object]) -> str:
    return str(message.get("action") or message["status"])


def read_status(body: bytes) -> Status:
    [found] = read_statuses(body)
    if isinstance(found, ConfigurationError):
        raise found
    return found


def changed(message: Run | Cancel | Status, **fields: object) -> bytes:
    found = {**json.loads(message.to_bytes()), **fields}
    return json.dumps(found).encode()


def made_schema() -> dict[str, Any]:
    """The schema of the messages as they are."""
    kinds = (Run, Cancel, Status)
    _, made = models_json_schema([(each, "validation") for each in kinds])
    definitions = made["$defs"]
    for kind in kinds:
        schema = definitions[kind.__name__]
        required = {*schema["required"], "version", "action"}
        schema["required"] = sorted(required & kind.model_fields.keys())
        for each in schema["properties"].values():
            each.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of go_scheduler, version 1",
        "oneOf": [
            *({"$ref": f"#/$defs/{each.__name__}"} for each in kinds),
            {"type": "array", "items": {"$ref": "#/$defs/Status"}, "minItems": 1},
        ],
        "$defs": definitions,
    }


def test_of_what_is_said_nothing_is_left_out() -> None:
    class Sent(BaseModel):
        to: str | None = None

    status = Status(**OF, status=Said.SUCCEEDED, worker="one", at=NOW, result=Sent())
    assert json.loads(status.to_bytes())["result"] == {"to": None}
    assert "error" not in json.loads(status.to_bytes())


def test_the_schema_is_that_of_the_messages() -> None:
    # The file is json.dumps(made_schema(), indent=2).
    assert message_schema() == made_schema()
    Draft202012Validator.check_schema(message_schema())


def test_the_page_shows_every_message() -> None:
    of_actions = {"run", "cancel"}
    assert {*map(name, SHOWN)} | {"heartbeat"} == {*Said} | of_actions


@pytest.mark.parametrize("message", SHOWN, ids=name)
def test_what_the_page_shows_is_read_and_written_so(message: dict[str, object]) -> None:
    VALIDATOR.validate(message)
    read = read_action if "action" in message else read_status
    written = json.loads(read(json.dumps(message).encode()).to_bytes())
    assert written.keys() == message.keys()
    VALIDATOR.validate(written)


def test_the_page_shows_several_statuses_in_one_message() -> None:
    [body] = re.findall(r"^```json\n(\[.*?)^```$", PAGE, re.M | re.S)
    VALIDATOR.validate(json.loads(body))
    assert [type(each) for each in read_statuses(body.encode())] == [Status, Status]


def test_the_page_has_each_field_of_a_run() -> None:
    for field in Run.model_fields:
        assert f"`{field}`" in PAGE or f'"{field}"' in PAGE, field


@pytest.mark.parametrize("message", [RUN, CANCEL, STATUS], ids=lambda m: type(m))
def test_a_message_is_read_as_it_was_written(message: Run | Cancel | Status) -> None:
    read = read_status if isinstance(message, Status) else read_action
    VALIDATOR.validate(json.loads(message.to_bytes()))
    assert read(message.to_bytes()) == message
    # Of later versions of this package, perhaps.
    assert read(changed(message, unheard_of=1)) == message


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(at=INSTANTS, delay=SECONDS, value=VALUES, text=st.text())
def test_what_a_status_says_comes_through(
    at: datetime, delay: timedelta, value: object, text: str
) -> None:
    status = Status(
        **OF,
        status=Said.FAILED,
        worker="one",
        at=at,
        progress=value,
        error=text,
        retry=False,
        retry_in=delay,
    )
    VALIDATOR.validate(json.loads(status.to_bytes()))
    again = read_status(status.to_bytes())
    assert again.progress == value
    assert (again.at, again.error, again.retry) == (at, text, False)
    assert again.retry_in is not None
    # A float of seconds has microseconds for three centuries.
    assert abs(again.retry_in - delay) <= timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Invalid JSON"),
        (b"\xff", "cannot be read"),
        (b"[]", "object"),
        (b'{"version": 1}', "action"),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        read_action(body)


@pytest.mark.parametrize(
    ("fields", "kind", "why"), json_table("dispatch/messages_refused")
)
def test_a_message_with_a_wrong_field_is_refused(
    fields: dict[str, object], kind: str, why: str
) -> None:
    messages: dict[str, Run | Cancel | Status]
    messages = {"run": RUN, "cancel": CANCEL, "status": STATUS}
    read = read_status if kind == "status" else read_action
    with pytest.raises(ConfigurationError, match=why):
        read(changed(messages[kind], **fields))


def test_an_error_that_is_no_utf_8_is_told_all_the_same() -> None:
    status = Status(**OF, status=Said.FAILED, worker="one", at=NOW, error="\udc80!")
    assert read_status(status.to_bytes()).error == r"\udc80!"


def test_what_is_refused_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_action(changed(RUN, payload="secret"))
    assert "secret" not in str(raised.value)


def test_several_statuses_are_one_message() -> None:
    many = [changed_status(Said.STARTED), changed_status(Said.SUCCEEDED)]
    body = many_to_bytes([each.to_bytes() for each in many])
    VALIDATOR.validate(json.loads(body))
    assert read_statuses(body) == many
    assert read_statuses(b" " + body) == many
    alone = many_to_bytes([many[0].to_bytes()])
    VALIDATOR.validate(json.loads(alone))
    assert read_statuses(alone) == many[:1]


def changed_status(said: Said) -> Status:
    return Status(**OF, status=said, worker="one", at=NOW)


def test_what_is_no_status_among_others_is_refused_alone() -> None:
    good = STATUS.to_bytes()
    first, *wrong, last = read_statuses(b"[%b,7,{},%b]" % (good, good))
    assert first == last == STATUS
    assert [str(each) for each in wrong] == [
        "a message of the bus cannot be read: it must be an object",
        "a message of the bus cannot be read: instance_id: it is missing",
    ]


@pytest.mark.parametrize(
    "body", [b"[", b"[" * 100_000, b"[\xff]", b"", b"7"], ids=range(5)
)
def test_what_is_no_message_at_all_is_refused_once(body: bytes) -> None:
    [error] = read_statuses(body)
    assert isinstance(error, ConfigurationError)


def test_more_statuses_than_anybody_has_to_say_are_refused_together() -> None:
    [error] = read_statuses(b"[%b7]" % (b"7," * 1000))
    assert isinstance(error, ConfigurationError)
    assert "has 1001 statuses" in str(error)
    assert len(read_statuses(b"[%b7]" % (b"7," * 999))) == 1000
