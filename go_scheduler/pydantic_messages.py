"""What pydantic says of a value, in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIST = "it must be a list"
_NUMBER = "it must be a number"
_OBJECT = "it must be an object"
_TEXT = "it must be a text"
_TRUE_OR_FALSE = "it must be true or false"
_UUID = "it must be a UUID, such as 0190d7c2-5a4e-7c3b-9f1e-2b6d8a4c1e70"
_WHOLE = "it must be a whole number"

_WORDS = {
    "bool_parsing": _TRUE_OR_FALSE,
    "bool_type": _TRUE_OR_FALSE,
    "dict_type": _OBJECT,
    "enum": "it must be {expected}",
    "finite_number": _NUMBER,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "list_type": _LIST,
    "literal_error": "it must be {expected}",
    "missing": "it is missing",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "string_too_long": "it must have at most {max_length} characters",
    "string_too_short": "it must have at least {min_length} characters",
    "string_type": _TEXT,
    "tuple_type": _LIST,
    "uuid_parsing": _UUID,
    "uuid_type": _UUID,
}


def worded(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a value, in the words of the other messages.

    Args:
        error: One error of a ``ValidationError``, with its context.

    Returns:
        Our words; pydantic's, where there are none.
    """
    if (words := _WORDS.get(error["type"])) is None:
        return str(error["msg"]).removeprefix("Value error, ")
    # As JSON and YAML have it, and not as Python.
    return words.format_map(error.get("ctx", {})).replace(" True", " true")
