"""Which configurations of the models are checked, and what each of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.protocol import claims, exclusion, firing, ownership, remote, success
from tests.protocol.exclusion import Exclusion, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.protocol.checker import Model

Make: TypeAlias = "Callable[..., Model[Any]]"


class Configuration(NamedTuple):
    """A model of a certain size.

    Attributes:
        name: What it is called.
        make: Makes the model; takes ``without`` to leave a guard out.
        sizes: What else it is made with.
        guards: What each guard that it can show is for.
        is_large: Whether it takes longer than a second.
    """

    name: str
    make: Make
    sizes: dict[str, Any]
    guards: dict[str, str]
    is_large: bool = False

    def model(self, without: str = "") -> Model[Any]:
        """The model, perhaps with a guard left out."""
        return self.make(**self.sizes, without=without)


def _some(guards: dict[str, str], *names: str) -> dict[str, str]:
    return {name: guards[name] for name in names}


def _all_but(guards: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in guards.items() if name not in names}


_OF_CREATION = "none begins", "under way"
_OF_TWO_EDITS = "revision rises", "last to stay", "share"

CONFIGURATIONS = [
    Configuration(
        "claims: two nodes, one instance, one fault",
        claims.Claims,
        {"nodes": 2, "waiting": 1, "faults": 1},
        _all_but(claims.GUARDS, *_OF_CREATION),
    ),
    Configuration(
        "claims: two nodes, one instance that is created and started, one fault",
        claims.Claims,
        {"nodes": 2, "waiting": 0, "created": 1, "faults": 1},
        _some(claims.GUARDS, *_OF_CREATION),
    ),
    Configuration(
        "claims: two nodes, one instance, two faults",
        claims.Claims,
        {"nodes": 2, "waiting": 1, "faults": 2},
        {},
        is_large=True,
    ),
    Configuration(
        "claims: two nodes, one instance that is created and started, two faults",
        claims.Claims,
        {"nodes": 2, "waiting": 0, "created": 1, "faults": 2},
        {},
        is_large=True,
    ),
    Configuration(
        "claims: two nodes, one instance that waits and one that is created, one fault",
        claims.Claims,
        {"nodes": 2, "waiting": 1, "created": 1, "faults": 1},
        {},
        is_large=True,
    ),
    Configuration(
        "claims: two nodes, two instances that wait, one fault",
        claims.Claims,
        {"nodes": 2, "waiting": 2, "faults": 1},
        {},
        is_large=True,
    ),
    Configuration(
        "claims: three nodes, one instance, one fault",
        claims.Claims,
        {"nodes": 3, "waiting": 1, "faults": 1},
        {},
        is_large=True,
    ),
    Configuration(
        "firing: two nodes, three fire times, one edit",
        firing.Firing,
        {"nodes": 2, "edits": 1},
        _all_but(firing.GUARDS, *_OF_TWO_EDITS, "not paused", "unique"),
    ),
    Configuration(
        "firing: two nodes, three fire times, two edits",
        firing.Firing,
        {"nodes": 2, "edits": 2},
        _some(firing.GUARDS, *_OF_TWO_EDITS),
        is_large=True,
    ),
    *(
        Configuration(
            f"exclusion: {what}, {mode.value}",
            Exclusion,
            {"mode": mode, **sizes},
            _some(exclusion.GUARDS, *shown),
            is_large=is_large,
        )
        for mode, of_a_lock in (
            (Mode.ATOMIC, ()),
            (Mode.POSTGRESQL, ("reads again", "sweep", "open")),
            (Mode.COCKROACHDB, ("reads again", "sweep", "open")),
        )
        for what, sizes, shown, is_large in (
            ("a lock, three instances", {"slots": 1}, of_a_lock, False),
            (
                "a lock, three instances of which those beside another are skipped",
                {"slots": 1, "skips": True},
                ("behind",),
                False,
            ),
            (
                "a limit of two, four instances",
                {"slots": 2, "instances": 4},
                ("own",),
                mode is not Mode.ATOMIC,
            ),
        )
    ),
    Configuration(
        "exclusion: a rate, three instances",
        exclusion.Rate,
        {"instances": 3},
        exclusion.RATE_GUARDS,
    ),
    Configuration(
        "late success: three runs of one instance",
        success.Success,
        {"calls": 3},
        success.GUARDS,
    ),
    Configuration(
        "late success: three runs of one instance, which a success deletes",
        success.Success,
        {"calls": 3, "deletes": True},
        {**success.GUARDS, **success.OF_DELETION},
    ),
    Configuration(
        "remote ends: two workers, one fault",
        remote.Remote,
        {"workers": 2, "faults": 1},
        _all_but(remote.GUARDS, "its worker"),
    ),
    Configuration(
        "remote ends: two workers, two faults",
        remote.Remote,
        {"workers": 2, "faults": 2},
        _some(remote.GUARDS, "its worker"),
        is_large=True,
    ),
    Configuration(
        "ownership: two nodes, two shards, two mistakes or faults",
        ownership.Ownership,
        {"nodes": 2, "shards": 2, "changes": 2},
        ownership.GUARDS,
    ),
    Configuration(
        "ownership: three nodes, two shards, three mistakes or faults",
        ownership.Ownership,
        {"nodes": 3, "shards": 2, "changes": 3},
        {},
        is_large=True,
    ),
]

NOT_NEEDED = {
    ("firing: two nodes, three fire times, two edits", "not paused"): (
        "a pause raises the revision, by which the step does not count either"
    ),
    ("firing: two nodes, three fire times, two edits", "unique"): (
        "of the one fire time that may have begun ahead the definition says so itself"
    ),
}
"""Guards whose absence no model notices: the rebuilding may leave them out."""

NOBODY_ELSE = "nobody starts under the claim of somebody else"
NOT_TWICE = "a handler is not called twice without a cause"
ENDS = "what is due can always come to a good end"
ONE_INSTANCE = "a fire time has one instance, or one record"
NOT_LATE = "nothing is late while a node is able to fire it"
AT_MOST = "no more run at once than a lock or limit allows, nor start than a rate"
FIRST_SUCCESS = "the first success counts, and stays"
NO_ORPHANS = "nothing is open whose definition is deleted"

COVERED = {
    "claims": (
        (
            "a node dies",
            "a node is frozen for longer than a lease",
            "an answer is lost",
            "a statement is carried out long after it was sent",
            "the store is away for longer than a lease",
        ),
        (NOBODY_ELSE, NOT_TWICE, ENDS),
    ),
    "firing": (
        (
            "two nodes fire the same",
            "somebody edits, pauses or deletes meanwhile",
            "history is cleaned up at once",
        ),
        (ONE_INSTANCE, NO_ORPHANS, ENDS),
    ),
    "exclusion": (
        ("two nodes start at the same moment", "a run fails and is to run again"),
        (AT_MOST, ENDS),
    ),
    "late success": (
        (
            "a run goes on after it was given up",
            "somebody cancels it, or has it run again",
            "a success deletes it, and is reported again",
        ),
        (FIRST_SUCCESS, ENDS),
    ),
    "remote ends": (
        (
            "a worker dies",
            "a worker is not heard in time",
            "a message is lost",
            "a message comes twice, or late",
        ),
        (NOBODY_ELSE, NOT_TWICE, FIRST_SUCCESS, ENDS),
    ),
    "ownership": (
        (
            "a node dies",
            "a node is frozen for longer than a lease",
            "every node is wrong about who owns what",
        ),
        (ONE_INSTANCE, NOT_LATE),
    ),
}
"""Of each model which faults it has, and which promises it shows beside them."""
