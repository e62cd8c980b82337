"""A registry calls the handler of the name, and says what it does not know."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.registry import HandlerRegistry, async_test, find_handler
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import SECOND, definition
from tests.conftest import instance

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance


def named(name: str | None) -> TaskInstance:
    return instance(definition(name=name))


def plain(instance: TaskInstance) -> str:
    return "plain"


async def coroutine(instance: TaskInstance) -> str:
    return "awaited"


class CallsPlainly:
    def __call__(self, instance: TaskInstance) -> str:
        return "called"


class CallsAsync:
    async def __call__(self, instance: TaskInstance) -> str:
        return "awaited"


def test_the_handler_of_the_name_is_called() -> None:
    handlers = HandlerRegistry()
    seen: list[TaskInstance] = []
    handlers.register("note")(seen.append)
    handlers.register("plain")(plain)
    given = named("note")
    assert handlers(named("plain")) == "plain"
    assert handlers(given) is None
    assert seen == [given]


@pytest.mark.parametrize("name", ["other", None])
def test_an_unknown_name_has_no_handler(name: str | None) -> None:
    handlers = HandlerRegistry()
    handlers.register("plain")(plain)
    given = named(name)
    assert handlers.find(given) is None
    assert find_handler(handlers, given) is None
    assert not handlers.is_async(given)
    with pytest.raises(ConfigurationError, match=f"registered as {name!r}"):
        handlers(given)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (plain, False),
        (coroutine, True),
        (functools.partial(plain), False),
        (functools.partial(coroutine), True),
        (CallsPlainly(), False),
        (CallsAsync(), True),
        (CallsAsync().__call__, True),
        ([].append, False),
    ],
)
def test_an_async_handler_is_known_before_it_is_called(
    handler: Handler, expected: bool
) -> None:
    handlers = HandlerRegistry()
    handlers.register("it")(handler)
    given = named("it")
    types = JobTypes()
    types.job_type("it", schema={})(handler)
    assert async_test(handler)(given) is expected
    for each in (handlers, types):
        assert async_test(each)(given) is each.is_async(given) is expected


async def yields_async(instance: TaskInstance) -> AsyncIterator[None]:
    yield


def yields(instance: TaskInstance) -> Iterator[None]:
    yield


class TakesTwo:
    def __call__(self, instance: TaskInstance, more: object) -> None:
        pass


async def takes_nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (5, "cannot be called: 5"),
        (yields, "and to call it runs nothing"),
        (yields_async, "and to call it runs nothing"),
        (lambda: None, r"one argument.*takes none: too many positional arguments"),
        (takes_nothing, "too many positional arguments"),
        (lambda instance, more: None, "missing a required argument: 'more'"),
        (lambda *, instance: None, "too many positional arguments"),
        (TakesTwo(), "missing a required argument: 'more'"),
        (functools.partial(plain, named(None)), "too many positional arguments"),
    ],
)
def test_what_cannot_be_called_with_an_instance_is_refused(
    handler: Any, why: str
) -> None:
    handlers = HandlerRegistry()
    with pytest.raises(ConfigurationError, match=why):
        handlers.register("it")(handler)
    assert handlers.find(named("it")) is None
    with pytest.raises(ConfigurationError, match=why):
        Scheduler(handler)


@pytest.mark.parametrize("name", ["", "x" * 201, "\0", None, 5, "plain", "made"])
def test_a_name_that_is_none_or_is_taken_is_refused(name: str) -> None:
    handlers = HandlerRegistry()
    assert handlers.register("plain")(plain) is plain
    handlers.task("made")(plain)
    problem = "name"
    if name in ("plain", "made"):
        problem = f"registered as {name!r} already: plain of {__name__}$"
    with pytest.raises(ConfigurationError, match=problem):
        handlers.register(name)


@pytest.mark.parametrize(
    "handler", [lambda *given: None, lambda instance, more=1: None, dict, print]
)
def test_what_can_be_called_with_one_argument_is_a_handler(handler: Handler) -> None:
    Scheduler(handler)


class TestRouted:
    """A registry of which some names are run by other handlers."""

    def test_other_handlers_are_called_by_the_names_given(self) -> None:
        handlers = HandlerRegistry()
        handlers.register("here")(coroutine)
        handlers.register("there")(coroutine)
        handlers.register("later")(plain)
        routed = handlers.routed({"there": plain, "later": coroutine})
        assert routed(named("there")) == "plain"
        asked = [routed.is_async(named(each)) for each in ("here", "there", "later")]
        assert asked == [True, False, True]
        assert handlers.is_async(named("there"))
        assert routed.names == handlers.names

    def test_the_tasks_are_the_same_and_are_enqueued(self) -> None:
        handlers = HandlerRegistry(owner="pictures", version=7)
        ran: list[TaskInstance] = []

        @handlers.task("resize")
        def resize(width: int) -> None:
            pytest.fail("it is run elsewhere")

        clock = ManualClock()
        routed = handlers.routed({"resize": ran.append})
        with Scheduler(routed, MemoryStore(clock), clock=clock):
            resize.enqueue(width=7)
            clock.advance(SECOND)
        [instance] = ran
        assert instance.payload == {"width": 7}

    def test_a_name_that_nobody_has_is_refused(self) -> None:
        handlers = HandlerRegistry()
        with pytest.raises(ConfigurationError, match="as 'resise', but none: there"):
            handlers.routed({"resise": plain})
        handlers.register("resize")(plain)
        handlers.register("send")(plain)
        with pytest.raises(ConfigurationError, match="'resise', but resize, send:"):
            handlers.routed({"resise": plain})

    @pytest.mark.parametrize("wrong", [plain, ["resize"], None])
    def test_what_is_not_by_names_is_refused(self, wrong: Any) -> None:
        with pytest.raises(ConfigurationError, match="handlers must be by their names"):
            HandlerRegistry().routed(wrong)

    def test_what_cannot_be_called_is_refused(self) -> None:
        handlers = HandlerRegistry()
        handlers.register("plain")(plain)
        with pytest.raises(ConfigurationError, match="cannot be called"):
            handlers.routed({"plain": 7})  # type: ignore[dict-item]
