"""Which configurations of the models are checked, and what each of them shows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.protocol import claims, exclusion, firing, ownership, remote, success
from tests.protocol.exclusion import Exclusion, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def _sized(
    model: str,
    make: Make,
    size: str,
    guards: dict[str, str] | None = None,
    *,
    is_large: bool | None = None,
    **sizes: Any,
) -> Configuration:
    """A configuration; one that shows no guard is large unless told otherwise."""
    shown = guards or {}
    large = not shown if is_large is None else is_large
    return Configuration(f"{model}: {size}", make, sizes, shown, large)


_claims = partial(_sized, "claims", claims.Claims, nodes=2, waiting=1, faults=1)
_firing = partial(_sized, "firing", firing.Firing, nodes=2)
_remote = partial(_sized, "remote ends", remote.Remote, workers=2)
_success = partial(_sized, "late success", success.Success, calls=3)
_owners = partial(_sized, "ownership", ownership.Ownership, nodes=2, shards=2)


def _exclusions(mode: Mode) -> Iterator[Configuration]:
    made = partial(_sized, "exclusion", Exclusion, mode=mode)
    shows = partial(_some, exclusion.GUARDS)
    of_a_lock = () if mode is Mode.ATOMIC else ("reads again", "sweep", "open")
    lock, limit = "a lock, three instances", "a limit of two, four instances"
    yield made(f"{lock}, {mode.value}", shows(*of_a_lock), is_large=False, slots=1)
    skipped = f"{lock} of which those beside another are skipped, {mode.value}"
    yield made(skipped, shows("behind"), slots=1, skips=True)
    large = mode is not Mode.ATOMIC
    yield made(
        f"{limit}, {mode.value}", shows("own"), is_large=large, slots=2, instances=4
    )


CONFIGURATIONS = [
    _claims(
        "two nodes, one instance, one fault", _all_but(claims.GUARDS, *_OF_CREATION)
    ),
    _claims(
        "two nodes, one instance that is created and started, one fault",
        _some(claims.GUARDS, *_OF_CREATION),
        waiting=0,
        created=1,
    ),
    _claims("two nodes, one instance, two faults", faults=2),
    _claims(
        "two nodes, one instance that is created and started, two faults",
        waiting=0,
        created=1,
        faults=2,
    ),
    _claims(
        "two nodes, one instance that waits and one that is created, one fault",
        created=1,
    ),
    _claims("two nodes, two instances that wait, one fault", waiting=2),
    _claims("three nodes, one instance, one fault", nodes=3),
    _firing(
        "two nodes, three fire times, one edit",
        _all_but(firing.GUARDS, *_OF_TWO_EDITS, "not paused", "unique"),
        edits=1,
    ),
    _firing(
        "two nodes, three fire times, two edits",
        _some(firing.GUARDS, *_OF_TWO_EDITS),
        is_large=True,
        edits=2,
    ),
    *(each for mode in Mode for each in _exclusions(mode)),
    _sized(
        *("exclusion", exclusion.Rate, "a rate, three instances"),
        exclusion.RATE_GUARDS,
        instances=3,
    ),
    _success("three runs of one instance", success.GUARDS),
    _success(
        "three runs of one instance, which a success deletes",
        {**success.GUARDS, **success.OF_DELETION},
        deletes=True,
    ),
    _remote("two workers, one fault", _all_but(remote.GUARDS, "its worker"), faults=1),
    _remote(
        "two workers, two faults",
        _some(remote.GUARDS, "its worker"),
        is_large=True,
        faults=2,
    ),
    _owners(
        "two nodes, two shards, two mistakes or faults", ownership.GUARDS, changes=2
    ),
    _owners("three nodes, two shards, three mistakes or faults", nodes=3, changes=3),
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
