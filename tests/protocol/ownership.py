"""Ownership of firing: who looks where is a hint, and any idea of it may be wrong.

Nodes share the shards. Each looks at what it takes for its own well ahead, and at all
others within the lead by which instances are made ahead. Who owns what each believes by
itself, and may change its mind at any time.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.checker import Model, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name


GUARDS = {
    "others": "within the lead a node fires what others own as well",
    "compare": "a step counts only if the definition has not gone on",
}


class Node(NamedTuple):
    """A node: which shards it takes for its own, what it has read, and how it is.

    Attributes:
        owns: The shards that it takes for its own.
        read: Of which shards it has read that the definition is due.
        looked: Whether it has looked at all since the lead began.
        able: Whether it has neither died nor is frozen.
    """

    owns: tuple[bool, ...]
    read: tuple[bool, ...]
    looked: bool = False
    able: bool = True


class State(NamedTuple):
    """The definitions, one in each shard, the nodes, and what may still go wrong."""

    phase: str
    fired: tuple[int, ...]
    nodes: tuple[Node, ...]
    changes: int
    broken: str = ""


class Ownership(Model[State]):
    """Nodes that fire the definitions of several shards once.

    Args:
        nodes: How many there are.
        shards: How many shards.
        changes: How often a node changes its mind, dies or freezes; one is always able.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(
        self, *, nodes: int = 2, shards: int = 2, changes: int = 2, without: str = ""
    ) -> None:
        nothing = (False,) * shards
        # Nobody owns anything: the worst idea of all is a possible beginning.
        node = Node(nothing, nothing)
        self._first = State("ahead", (0,) * shards, (node,) * nodes, changes)
        self._without = without

    def alike(self, state: State) -> State:
        return state._replace(nodes=tuple(sorted(state.nodes)))

    def broken(self, state: State) -> str:
        if max(state.fired) > 1:
            return "one fire time has two instances"
        if state.phase == "late" and not all(state.fired):
            return "a definition fires late though a node was able to fire it"
        return ""

    def is_good(self, state: State) -> bool:
        return all(state.fired)

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        if state.phase == "ahead":
            yield ("the lead begins",), state._replace(phase="lead")
        elif state.phase == "lead" and _may_be_over(state):
            yield ("the lead is over",), state._replace(phase="late")
        for at, node in enumerate(state.nodes):
            if not node.able:
                continue
            yield (at, "looks"), self._looked(state, at)
            for shard, is_read in enumerate(node.read):
                if is_read:
                    yield (at, "fires", shard), self._fired(state, at, shard)
        if state.changes:
            yield from _changes(state._replace(changes=state.changes - 1))

    def _looked(self, state: State, at: int) -> State:
        node, in_lead = state.nodes[at], state.phase != "ahead"
        everywhere = in_lead and self._without != "others"
        read = tuple(
            (is_own or everywhere) and not fired
            for is_own, fired in zip(node.owns, state.fired, strict=True)
        )
        return _with(state, at, node._replace(read=read, looked=in_lead))

    def _fired(self, state: State, at: int, shard: int) -> State:
        node = state.nodes[at]
        read = put(node.read, shard, False)
        state = _with(state, at, node._replace(read=read))
        if state.fired[shard] and self._without != "compare":
            return state
        return state._replace(fired=put(state.fired, shard, state.fired[shard] + 1))


def _may_be_over(state: State) -> bool:
    """The lead is longer than a look of a node that is able, and what it fires then."""
    return all(each.looked and not any(each.read) for each in state.nodes if each.able)


def _changes(state: State) -> Iterator[tuple[Name, State]]:
    for at, node in enumerate(state.nodes):
        for owns in product((False, True), repeat=len(node.owns)):
            if owns != node.owns:
                mistaken = _with(state, at, node._replace(owns=owns))
                yield ("fault", at, "believes that it owns", owns), mistaken
        if node.able and sum(each.able for each in state.nodes) > 1:
            unable = _with(state, at, node._replace(able=False))
            yield ("fault", at, "dies or freezes"), unable
        if not node.able:
            yield ("fault", at, "returns"), _with(state, at, node._replace(able=True))


def _with(state: State, at: int, node: Node) -> State:
    return state._replace(nodes=put(state.nodes, at, node))
