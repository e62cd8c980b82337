from __future__ import annotations

import dataclasses
import re
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from importlib import import_module
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler import triggers
from go_scheduler.errors import (
    ConfigurationError,
    InvalidTriggerError,
    UnknownTriggerError,
)
from go_scheduler.json import JSON
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import Trigger, UnknownTrigger, base
from go_scheduler.triggers.base import dump_trigger, load_trigger, next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


SLOW_KIND = """
from dataclasses import dataclass
from typing import ClassVar
import gate
from go_scheduler.triggers import Trigger

class SlowTrigger(Trigger):
    kind: ClassVar[str] = "tests.slow"

    def next_fire_time(self, after):
        return None

gate.reached.set()
gate.opens.wait(10)
SlowTrigger = dataclass(frozen=True, slots=True)(SlowTrigger)
"""
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class NoonTrigger(Trigger):
    """A third party's trigger: noon in UTC, for some days from a first one."""

    kind: ClassVar[str] = "tests.noon"

    first: datetime = NOON
    days: int = 30
    every: timedelta = DAY
    labels: Mapping[str, JSON] | None = field(default=None, hash=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        times = (self.first + count * self.every for count in range(self.days))
        return next((time for time in times if time > after), None)


class LeapTrigger(Trigger):
    """A third party's trigger that is no dataclass and cannot be hashed."""

    kind: ClassVar[str] = "tests.leap"
    __slots__ = ("years",)

    def __init__(self, years: Sequence[int]) -> None:
        self.years = tuple(years)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeapTrigger) and self.years == other.years

    __hash__ = None  # type: ignore[assignment]

    def next_fire_time(self, after: datetime) -> datetime | None:
        days = (datetime(year, 2, 29, tzinfo=UTC) for year in sorted(self.years))
        return next((day for day in days if day > after), None)

    def to_dict(self) -> Mapping[str, JSON]:
        return {"years": list(self.years)}


class Named(Trigger):
    """What those tests need that are about the class of a trigger."""

    __slots__ = ()

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None


class Nowhere(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> str | None:
        return None


class TestThirdPartyTrigger(TriggerSuite):
    @pytest.fixture(
        params=[
            NoonTrigger(labels={"a": [1, 2.5, None, True, "ü"], "b": {}}),
            LeapTrigger([2024, 1960, 2028]),
        ],
        ids=["dataclass", "by hand"],
    )
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        assert isinstance(request.param, Trigger)
        return request.param


def test_an_unknown_kind_keeps_what_was_stored() -> None:
    state: dict[str, JSON] = {"phase": "full", "hours": [22, 23]}
    trigger = load_trigger("tests.moon", state)
    assert isinstance(trigger, UnknownTrigger)
    reason = "no imported class has the trigger kind 'tests.moon'"
    assert reason in trigger.reason
    assert trigger.describe() == f"not known here: {trigger.reason}"
    assert dump_trigger(trigger) == ("tests.moon", state)
    with pytest.raises(UnknownTriggerError, match=r"tests\.moon"):
        trigger.next_fire_time(NOON)


@pytest.mark.parametrize(
    "state",
    [
        {"nobody": 1},
        {"first": {"datetime": "yesterday"}},
        {"every": {"microseconds": 10**30}},
    ],
)
def test_a_state_that_does_not_load_is_kept(state: dict[str, JSON]) -> None:
    trigger = load_trigger("tests.noon", state)
    assert isinstance(trigger, UnknownTrigger)
    assert "the stored state of a 'tests.noon' trigger" in trigger.reason
    assert dump_trigger(trigger) == ("tests.noon", state)


def test_why_it_is_unknown_is_not_compared() -> None:
    one = UnknownTrigger("a", {"b": 1}, "one reason")
    assert one == UnknownTrigger("a", {"b": 1}, "another")
    assert one != UnknownTrigger("a", {"b": 2}, "one reason")


class TestRegistry:
    @pytest.fixture(autouse=True)
    def forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a test registers is forgotten."""
        # But for this package's own kinds: no module is imported a second time.
        for kind in base.OWN_KINDS:
            base.find(kind)
        monkeypatch.setattr(base, "_kinds", dict(base._kinds))
        monkeypatch.setattr(base, "_imported", set(base._imported))
        monkeypatch.setattr(base, "_announced", threading.Event())
        monkeypatch.setattr(base, "_broken", {})

    @pytest.fixture
    def gate(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> Iterator[SimpleNamespace]:
        """What a module ``slow_kind`` waits at, half imported."""
        (tmp_path / "slow_kind.py").write_text(SLOW_KIND, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        gate = SimpleNamespace(reached=threading.Event(), opens=threading.Event())
        monkeypatch.setitem(sys.modules, "gate", gate)
        yield gate
        sys.modules.pop("slow_kind", None)

    def test_a_kind_belongs_to_one_class(self) -> None:
        with pytest.raises(ConfigurationError, match="is taken by") as caught:

            class OtherTrigger(NoonTrigger):
                kind: ClassVar[str] = "tests.noon"

        assert "OtherTrigger" in str(caught.value)
        assert "NoonTrigger" in str(caught.value)
        assert type(load_trigger("tests.noon", {})) is NoonTrigger

    @pytest.mark.parametrize("kind", sorted(base.OWN_KINDS))
    def test_a_kind_of_this_package_belongs_to_its_own_class(self, kind: str) -> None:
        with pytest.raises(ConfigurationError, match=r"is taken by go_scheduler\."):
            define(kind)

    def test_the_module_of_each_kind_of_this_package_is_listed(self) -> None:
        for each in walk_packages(triggers.__path__, f"{triggers.__name__}."):
            import_module(each.name)
        own = {
            kind: cls.__module__
            for kind, cls in base._kinds.items()
            if cls.__module__.startswith(triggers.__name__)
        }
        assert own == base.OWN_KINDS

    def test_a_kind_whose_module_cannot_be_imported_is_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(base, "OWN_KINDS", {"tests.gone": "go_scheduler.gone"})
        loaded = load_trigger("tests.gone", {"a": 1})
        assert isinstance(loaded, UnknownTrigger)
        assert "go_scheduler.gone" in loaded.reason
        assert dump_trigger(loaded) == ("tests.gone", {"a": 1})

    def test_a_module_that_another_thread_imports_is_waited_for(
        self, monkeypatch: pytest.MonkeyPatch, gate: SimpleNamespace
    ) -> None:
        monkeypatch.setattr(base, "OWN_KINDS", {"tests.slow": "slow_kind"})

        def open_and_import(name: str) -> object:
            gate.opens.set()
            return import_module(name)

        monkeypatch.setattr(base, "import_module", open_and_import)
        with ThreadPoolExecutor(1) as pool:
            imported = pool.submit(import_module, "slow_kind")
            assert gate.reached.wait(10)
            loaded = load_trigger("tests.slow", {})
            assert type(loaded) is imported.result().SlowTrigger

    def test_announced_triggers_that_another_thread_imports_are_waited_for(
        self, monkeypatch: pytest.MonkeyPatch, gate: SimpleNamespace
    ) -> None:

        def load() -> object:
            if gate.reached.is_set():
                gate.opens.set()
            return import_module("slow_kind")

        announce(monkeypatch, slow=load)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(load_trigger, "tests.other", {})
            assert gate.reached.wait(10)
            loaded = load_trigger("tests.slow", {})
            assert isinstance(other.result(), UnknownTrigger)
        assert type(loaded) is sys.modules["slow_kind"].SlowTrigger

    def test_a_class_may_be_defined_anew(self) -> None:
        assert isinstance(load_trigger("tests.moon", {}), UnknownTrigger)
        for _ in range(2):
            cls = define("tests.moon")
            assert type(load_trigger("tests.moon", {})) is cls

    def test_a_state_that_is_no_object_is_kept(self) -> None:
        loaded = load_trigger("once", [1, 2])
        assert isinstance(loaded, UnknownTrigger)
        assert dump_trigger(loaded) == ("once", [1, 2])
        assert hash(loaded) == hash(load_trigger("once", [3]))

    def test_slots_do_not_count_as_another_class(self) -> None:
        loaded = load_trigger("tests.slotted", {"days": 3})
        assert loaded == SlottedTrigger(3)
        assert not hasattr(loaded, "__dict__")

    @pytest.mark.parametrize("kind", ["", 5, b"noon"])
    def test_a_kind_is_a_name(self, kind: object) -> None:
        with pytest.raises(ConfigurationError, match="must be a name"):
            define(kind)

    def test_a_kind_is_no_field_of_a_dataclass_with_slots(self) -> None:
        with pytest.raises(ConfigurationError, match=r"annotate it as ClassVar\[str\]"):

            @dataclass(frozen=True, slots=True)
            class Annotated(Named):
                kind: str = "tests.annotated_with_slots"  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda: define(None)(), "needs a `kind`"),
            (lambda: dataclass(frozen=True)(annotated())(), r"as ClassVar\[str\]"),
            (lambda: dataclass(unfrozen())(), r"@dataclass\(frozen=True\)"),
            (lambda: Computed(lambda _: None), "needs a `kind`"),
            (lambda: NoonTrigger(first=NOON.replace(tzinfo=None)), "no time zone"),
        ],
        ids=["no kind", "a field", "not frozen", "by hand", "naive"],
    )
    def test_what_cannot_be_stored_is_told(
        self, make: Callable[[], Trigger], problem: str
    ) -> None:
        with pytest.raises(InvalidTriggerError, match=problem):
            dump_trigger(make())

    def test_an_announced_trigger_is_imported_when_its_kind_is_met(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = announce(monkeypatch, moon=lambda: define("tests.moon"))
        assert isinstance(load_trigger("tests.noon", {}), NoonTrigger)
        assert asked == []
        loaded = load_trigger("tests.moon", {})
        assert type(loaded).kind == "tests.moon"
        assert not isinstance(loaded, UnknownTrigger)
        assert isinstance(load_trigger("tests.none", {}), UnknownTrigger)
        assert asked == ["go_scheduler.triggers"]

    def test_a_broken_announced_trigger_costs_only_itself(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken() -> object:
            raise ImportError("no module named tides")

        announce(monkeypatch, tide=broken, moon=lambda: define("tests.moon"))
        assert not isinstance(load_trigger("tests.moon", {}), UnknownTrigger)
        tide = load_trigger("tests.tide", {"high": True})
        assert isinstance(tide, UnknownTrigger)
        assert "no module named tides" in tide.reason
        assert dump_trigger(tide) == ("tests.tide", {"high": True})


def test_times_and_lengths_of_time_are_kept_exactly() -> None:
    trigger = NoonTrigger(
        first=NOON + timedelta(microseconds=1),
        every=timedelta(days=400_000, microseconds=1),
    )
    state = trigger.to_dict()
    assert state["first"] == {"datetime": "2030-06-01T12:00:00.000001+00:00"}
    assert state["every"] == {"microseconds": 34_560_000_000_000_001}
    assert NoonTrigger.from_dict(state) == trigger


@pytest.mark.parametrize("labels", [{"a": 1}, {"a": 1, "b": 2}, {"datetime": 3}])
def test_a_mapping_stays_a_mapping(labels: dict[str, JSON]) -> None:
    trigger = NoonTrigger(labels=labels)
    assert NoonTrigger.from_dict(trigger.to_dict()) == trigger


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, r"\['labels'\] is a set, which JSON cannot hold: write to_dict"),
        (b"bytes", "is bytes, which JSON cannot hold"),
        (float("nan"), "labels"),
        ("a\0b", "labels"),
        ({1: "a key that is no text"}, "labels"),
        (NOON.replace(tzinfo=None), "no time zone"),
        ("x" * 65_536, "65536"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_field_that_no_store_can_keep_is_refused(value: object, problem: str) -> None:
    trigger = dataclasses.replace(NoonTrigger(), labels=value)  # type: ignore[arg-type]
    with pytest.raises(InvalidTriggerError, match=problem):
        trigger.to_dict()


def test_only_a_dataclass_has_a_state_of_its_own() -> None:
    with pytest.raises(InvalidTriggerError, match="no dataclass"):
        Computed(lambda _: None).to_dict()


def test_a_trigger_recurs_counts_from_nowhere_and_begins_with_its_next_time() -> None:
    trigger = NoonTrigger()
    assert trigger.recurring
    assert not trigger.waits
    assert trigger.first_fire_time(NOON) == NOON + DAY
    assert trigger.anchored(NOON) is trigger
    assert trigger.describe() == repr(trigger)


def test_a_good_answer_is_given_in_utc() -> None:
    elsewhere = (NOON + DAY).astimezone(timezone(timedelta(hours=9)))
    found = next_fire_time_of(Computed(lambda _: elsewhere), NOON)
    assert found == NOON + DAY
    assert found.tzinfo is UTC
    assert next_fire_time_of(Computed(lambda _: None), NOON) is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (NOON, "which is not later"),
        ("tomorrow", "Computed returned must be a datetime"),
        (NOON.replace(tzinfo=None), "Computed returned has no time zone"),
        (NOON.replace(tzinfo=Nowhere()), "Computed returned has no time zone"),
    ],
)
def test_another_answer_is_refused(answer: object, problem: str) -> None:
    with pytest.raises(InvalidTriggerError, match=problem):
        next_fire_time_of(Computed(lambda _: answer), NOON)


class TestSuite:
    """A trigger that breaks a law fails the suite."""

    @pytest.mark.parametrize(
        ("broken", "law"),
        [
            (lambda after: after, "the_next_fire_time_is_strictly_later"),
            (lambda after: NOON, "the_next_fire_time_is_strictly_later"),
            (
                lambda after: (after + DAY).replace(tzinfo=None),
                "the_next_fire_time_is_strictly_later",
            ),
            (
                lambda after: (after + DAY).astimezone(timezone(DAY / 24)),
                "the_first_fire_time_is_utc",
            ),
            (lambda after: after + DAY, "no_fire_time_is_passed_over"),
            (lambda after: NOON, "it_answers_at_the_ends_of_time"),
            (lambda after: NOON.replace(year=after.year + 1), "it_is_frozen"),
            (
                lambda after, asked=[]: asked.append(1) or NOON + len(asked) * DAY,
                "the_answer_depends_on_the_instant_alone",
            ),
            (
                lambda after: after + DAY,
                "it_fires_once_unless_it_is_recurring",
            ),
        ],
    )
    def test_a_broken_answer_is_noticed(
        self, broken: Callable[[datetime], datetime], law: str
    ) -> None:
        assert fails(law, Computed(broken))

    @pytest.mark.parametrize(
        "law",
        [
            "it_is_compared_by_value",
            "it_survives_the_store",
            "it_survives_pickling",
            "an_anchor_is_no_part_of_its_value",
        ],
    )
    def test_a_trigger_that_comes_back_as_another_is_noticed(self, law: str) -> None:
        assert fails(law, Forgetful(3))

    def test_a_series_that_depends_on_when_it_is_asked_is_told_by_its_times(
        self,
    ) -> None:
        drifting = Computed(lambda after: after + timedelta(hours=3))
        told = (
            "asked from 1899-12-31 23:59:59.999999+00:00 it fires next at 1900-01-01"
            " 02:59:59.999999+00:00, and asked from 1900-01-01 00:59:59.999999+00:00,"
            " which is between them, at 1900-01-01 03:59:59.999999+00:00: the series"
        )
        with pytest.raises(AssertionError, match=re.escape(told)):
            TriggerSuite().test_no_fire_time_is_passed_over(drifting)

    @pytest.mark.parametrize("law", ["is_compared_by_value", "survives_the_store"])
    def test_a_state_that_comes_back_changed_is_told_what_to_write(
        self, law: str
    ) -> None:
        with pytest.raises(AssertionError, match="write to_dict"):
            getattr(TriggerSuite(), f"test_it_{law}")(Forgetful(3))

    def test_a_subclass_without_a_kind_of_its_own_is_noticed(self) -> None:
        with pytest.raises(InvalidTriggerError, match="a `kind` of its own"):
            fails("its_kind_is_registered", Nameless())

    def test_the_fixture_says_what_to_write(self) -> None:
        with pytest.raises(NotImplementedError, match="fixture `trigger`"):
            TriggerSuite.trigger.__wrapped__(TriggerSuite())  # type: ignore[attr-defined]


class Computed(Trigger):
    """Answers with what a function says; not frozen, and fires once."""

    recurring: ClassVar[bool] = False

    def __init__(self, answer: Callable[[datetime], Any]) -> None:
        self.answer = answer

    def next_fire_time(self, after: datetime) -> datetime | None:
        return self.answer(after)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Forgetful(Named):
    """Comes back from a store, from a pickle and anchored as another value."""

    kind: ClassVar[str] = "tests.forgetful"

    days: int

    def anchored(self, now: datetime) -> Forgetful:
        return Forgetful(self.days + 1)

    def to_dict(self) -> Mapping[str, JSON]:
        return {"days": self.days + 1}

    def __reduce__(self) -> tuple[type[Forgetful], tuple[int]]:
        return Forgetful, (self.days + 1,)


class Nameless(NoonTrigger):
    """Has no kind of its own, and so would come back as its parent."""


@dataclass(frozen=True, slots=True)
class SlottedTrigger(Named):
    """Is defined twice, the second time with slots."""

    kind: ClassVar[str] = "tests.slotted"

    days: int


def define(kind: object) -> type[Trigger]:
    @dataclass(frozen=True)
    class MoonTrigger(Named):
        pass

    if kind is None:
        return MoonTrigger
    return type("Moon", (MoonTrigger,), {"kind": kind, "__module__": __name__})


def unfrozen() -> type[Trigger]:
    class Changeable(Named):
        kind = "tests.changeable"

    return Changeable


def annotated() -> type[Trigger]:
    class Annotated(Named):
        kind: str = "tests.annotated"  # type: ignore[misc]

    return Annotated


def announce(
    monkeypatch: pytest.MonkeyPatch, **loads: Callable[[], object]
) -> list[str]:
    """Let packages announce triggers; the list takes each group asked for."""
    asked: list[str] = []

    @dataclass
    class Announced:
        name: str
        load: Callable[[], object]

    def entry_points(*, group: str) -> Sequence[Announced]:
        asked.append(group)
        return [Announced(name, load) for name, load in loads.items()]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    return asked


def fails(law: str, trigger: Trigger) -> bool:
    try:
        getattr(TriggerSuite(), f"test_{law}")(trigger)
    except (AssertionError, pytest.fail.Exception):
        return True
    return False
