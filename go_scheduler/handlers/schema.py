"""JSON schemas of payloads, limited so that a check cannot take for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any, cast

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.json import freeze
from go_scheduler.models import PAYLOAD_LIMIT

if TYPE_CHECKING:
    from jsonschema import ValidationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_LIMIT = 64 * 1024
"""The most bytes a schema may have, as JSON text in UTF-8."""

_MOST_ERRORS = 100
_MOST_STEPS = 10_000
_LONGEST_MESSAGE = 500
_steps_left: ContextVar[Iterator[int]] = ContextVar("go_scheduler_schema_steps")


class Schema:
    """A JSON schema (2020-12) that payloads are checked by.

    References lead to parts of the schema itself; nothing is ever fetched. ``format``
    is an annotation, as the specification has it, and checks nothing.

    Attributes:
        value: The schema, read-only.

    Args:
        schema: A JSON object of at most 64 KiB.
        name: What to call it in an error.
        patterns: Whether it may have regular expressions. Python's may take for ever,
            and all threads of the process with them: let nobody write some whom you
            would not let write code.

    Raises:
        ConfigurationError: It is no schema of this dialect, too large, refers to what
            is not in it, or has regular expressions and may not; or jsonschema, the
            extra ``types``, is not installed.
    """

    def __init__(
        self,
        schema: Mapping[str, object],
        *,
        name: str = "schema",
        patterns: bool = True,
    ) -> None:
        self.value = freeze(schema, name=name, limit=SCHEMA_LIMIT)
        if self.value.get("$schema", DIALECT) != DIALECT:
            raise ConfigurationError(
                f"{name}.$schema must be {DIALECT}, or left out:"
                f" {shown(self.value['$schema'])}"
            )
        self._own = {key: part for key, part in self.value.items() if key != "$schema"}
        _check_schema(self._own, name)
        _check_references(self._own, name)
        if not patterns:
            _refuse_patterns(self._own, name)

    def check(self, value: Mapping[str, object], *, name: str = "payload") -> None:
        """Refuse what does not fit.

        Args:
            value: A JSON object of at most 64 KiB.
            name: What to call it in an error.

        Raises:
            ConfigurationError: It does not fit: the text has the path of what is wrong,
                as in ``payload.items[0].price``, and what was expected there.
        """
        frozen = freeze(value, name=name, limit=PAYLOAD_LIMIT)
        from jsonschema.exceptions import best_match
        from referencing import Registry

        steps = _steps_left.set(count(_MOST_STEPS, -1))
        try:
            # Without a registry, the library would fetch references over the network.
            validator: Any = _validator_class()(self._own, registry=Registry())
            error = best_match(islice(validator.iter_errors(frozen), _MOST_ERRORS))
        except RecursionError:
            raise ConfigurationError(
                f"{name} cannot be checked: its schema refers to itself too often, or"
                " without end"
            ) from None
        finally:
            _steps_left.reset(steps)
        if error is not None:
            raise ConfigurationError(f"{_path(name, error)} {_what(error)}")


@cache
def _validator_class() -> Callable[..., object]:
    """The validator of the dialect, which gives up after too many references."""
    try:
        from jsonschema import Draft202012Validator, validators
    except ImportError:
        raise ConfigurationError(
            "schemas of payloads need jsonschema: install the extra types"
        ) from None
    counted = {
        keyword: _counted(Draft202012Validator.VALIDATORS[keyword])
        for keyword in ("$ref", "$dynamicRef")
    }
    extend: Callable[..., Callable[..., object]] = validators.extend
    return extend(Draft202012Validator, counted)


def _counted(follow: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    """Make a keyword that is followed a limited number of times in one check.

    In a small schema, parts that refer twice to others may add up to billions.
    """

    def follow_counted(
        validator: object, value: object, instance: object, schema: object
    ) -> Iterator[ValidationError]:
        if not next(_steps_left.get()):
            raise RecursionError
        yield from follow(validator, value, instance, schema)

    return follow_counted


def _check_schema(schema: object, name: str) -> None:
    validator: Any = _validator_class()
    from jsonschema.exceptions import SchemaError

    try:
        validator.check_schema(schema)
    except SchemaError as error:
        raise ConfigurationError(f"{_path(name, error)} {_what(error)}") from None


def _check_references(schema: Mapping[str, object], name: str) -> None:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(cast("Any", schema))
    resolver = Registry().resolver_with_root(root)
    for refers_to in sorted(_references(schema, name)):
        try:
            if not refers_to.startswith("#"):
                raise Unresolvable(refers_to)
            part = resolver.lookup(refers_to).contents
        except Unresolvable:
            raise ConfigurationError(
                f"{name} refers to {shown(refers_to)}: it may refer to parts of itself"
                " alone, as in '#/$defs/part', and nothing is fetched"
            ) from None
        _check_schema(part, f"{name}, {shown(refers_to)}")


def _references(schema: Mapping[str, object], name: str) -> set[str]:
    """The references of a schema."""
    found = set()
    for part in _parts(schema):
        for word in ("$schema", "$id"):
            if isinstance(part.get(word), str) and part is not schema:
                raise ConfigurationError(
                    f"{name} has a {word} within it: the schema of a payload is"
                    " one document"
                )
        for word in ("$ref", "$dynamicRef"):
            # If it is no text, a property has this name.
            if isinstance(refers_to := part.get(word), str):
                found.add(refers_to)
    return found


def _refuse_patterns(schema: Mapping[str, object], name: str) -> None:
    for part in _parts(schema):
        # If it is no text, a property has this name.
        if isinstance(part.get("pattern"), str) or "patternProperties" in part:
            raise ConfigurationError(
                f"{name} has a regular expression, which may take for ever to match:"
                " leave out pattern and patternProperties, and write what is meant by"
                " enum, minLength or maxLength, or check it where the job runs"
            )


def _parts(value: object) -> Iterator[Mapping[str, object]]:
    """All objects in a JSON value, itself included."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, Mapping):
            yield each
            rest.extend(each.values())
        elif isinstance(each, Sequence) and not isinstance(each, str):
            rest.extend(each)


def _path(name: str, error: Any) -> str:
    """The path to what is wrong in a value."""
    steps = (
        f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.path
    )
    path = f"{name}{''.join(steps)}"
    return f"{path[:_LONGEST_MESSAGE]}:"


def _what(error: Any) -> str:
    """The message of an error, shortened."""
    text = str(error.message).replace(repr(error.instance), shown(error.instance), 1)
    return text[:_LONGEST_MESSAGE]
