"""Cron fields by their names: the expression that they make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown
from go_scheduler.triggers.cron.items import is_any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEAST = {
    "year": "*",
    "month": "1",
    "day": "1",
    "day_of_week": "*",
    "hour": "0",
    "minute": "0",
    "second": "0",
}
"""The fields from large to small: what each is if only larger ones are given."""

_AROUND_SIGNS = re.compile(r"\s*([,-])\s*")
# Neither which one of the month, nor a step.
_WEEKDAY_NUMBER = re.compile(r"(?<![#/\d])\d")


def expression_of(expression: object, **given: int | str | None) -> object:
    """The expression that was given, as one or by its fields.

    Args:
        expression: The expression; None: it is given by fields.
        **given: Every field by its name; None: it is not given.

    Returns:
        An expression, of five fields where they suffice.

    Raises:
        InvalidTriggerError: There is none, or two, or a field is not as it has to be.
    """
    texts = {
        name: _text(name, value) for name, value in given.items() if value is not None
    }
    if expression is None:
        if not texts:
            raise InvalidTriggerError(
                'a cron trigger needs an expression, such as "30 9 * * Mon-Fri", or'
                " fields, such as hour=9, minute=30"
            )
        return _joined(texts)
    if texts:
        raise InvalidTriggerError(
            f"the expression {shown(expression)} and {next(iter(texts))}= say the same:"
            " pass one of them"
        )
    return expression


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = shown(value)
    if not isinstance(value, str):
        such_as = '"mon-fri"' if name == "day_of_week" else '"1,2"'
        raise InvalidTriggerError(
            f"{name} must be a number, or a text such as {such_as}, not {shown(value)}"
        )
    text = _AROUND_SIGNS.sub(r"\1", value.strip())
    if not text or text.split() != [text]:
        raise InvalidTriggerError(
            f"{name} {shown(value)} cannot be read; a list has commas and no spaces,"
            ' the second friday is day_of_week="fri#2", the last day of a month day="L"'
        )
    if name == "day_of_week" and _WEEKDAY_NUMBER.search(text):
        raise InvalidTriggerError(
            f'day_of_week {shown(value)}: write names, such as "mon-fri"; in cron 0'
            " and 7 are Sunday, in other schedulers 0 is Monday"
        )
    return text


def _joined(texts: Mapping[str, str]) -> str:
    if not any(is_any(texts.get(name, "*")) for name in ("day", "day_of_week")):
        raise InvalidTriggerError(
            "day and day_of_week are both given: an expression of both matches the days"
            " that match either. Write it as an expression if you mean that; the first"
            ' monday is day_of_week="mon#1"'
        )
    names = list(_LEAST)
    smallest = max(names.index(name) for name in texts)
    fields = {
        name: texts.get(name, "*" if place < smallest else _LEAST[name])
        for place, name in enumerate(names)
    }
    five = [fields[name] for name in ("minute", "hour", "day", "month", "day_of_week")]
    if fields["second"] == "0" and fields["year"] == "*":
        return " ".join(five)
    return " ".join([fields["second"], *five, fields["year"]])
