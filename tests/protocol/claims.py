"""Claims and leases: who may start an instance, and what a lost answer may do.

A node sends one statement at a time in each of its lanes. A statement is carried out
whole, at any time after it was sent, also if the node has died or given up waiting by
then. Its answer arrives later, or never. A lease may lapse under a node that lives: it
was frozen, or its clock is wrong.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.protocol.checker import Model, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

NOBODY = -1

GUARDS = {
    "lapsed": "a claim is taken over only once its lease has lapsed",
    "contact": "after an outage nobody takes over before all could renew",
    "attempt": "each claim has an attempt of its own",
    "owned": "a start is recorded only under the claim that is current",
    "first end": "what has ended does not end again",
    "asks": "a node whose claim was not answered asks what it has",
    "none begins": "nothing is created and started once an answer was lost",
    "under way": "nothing is given back while the answer to a creation is under way",
    "may still come": "it goes on asking while such a claim may still be carried out",
    "deadline": "a claim that is carried out after an outage takes nothing over",
    "by then": "whether it may is judged when it asks, not when it is answered",
}

Claimed: TypeAlias = "tuple[tuple[int, int], ...]"
"""Instances, each with the attempt of a claim."""


class Row(NamedTuple):
    """An instance in the table, and of its history what the invariants need.

    Attributes:
        there: Whether it has been created.
        owner: The node that has claimed it.
        attempt: How many claims it has had.
        valid: Whether the lease of its claim has not lapsed.
        started: Whether its start is recorded.
        ended: Whether it has ended.
        calls: How often a handler was called for it.
        excused: How often its node died, or was frozen for a lease.
    """

    there: bool = True
    owner: int = NOBODY
    attempt: int = 0
    valid: bool = False
    started: bool = False
    ended: bool = False
    calls: int = 0
    excused: int = 0


class Run(NamedTuple):
    """What a node believes of an instance: under which claim it has it, how far."""

    attempt: int = 0
    stage: str = ""


class Sent(NamedTuple):
    """A statement under way.

    Attributes:
        lane: Which of the node's threads waits for it; empty: none does any more.
        kind: What it does.
        claims: The instances that it names.
        known: What the node had when it sent it.
        takes_over: Whether it may take over: its node had contact for a lease when it
            sent it, and its deadline has not passed.
        done: Whether it was carried out, and its answer is under way.
        answer: The instances in the answer.
    """

    lane: str
    kind: str
    claims: Claimed = ()
    known: Claimed = ()
    takes_over: bool = False
    done: bool = False
    answer: Claimed = ()

    def __str__(self) -> str:
        """What it does with which instances."""
        return " ".join(
            [self.kind, *(f"{at}/{attempt}" for at, attempt in self.claims)]
        )


class Node(NamedTuple):
    """A node.

    Attributes:
        alive: Whether it has not died.
        contact: Whether it knows that the store has answered all nodes for a lease.
        unanswered: Whether a claim of its got no answer.
        runs: What it believes of each instance.
        sent: Its statements under way.
    """

    alive: bool
    contact: bool
    unanswered: bool
    runs: tuple[Run, ...]
    sent: tuple[Sent, ...] = ()


class State(NamedTuple):
    """The table, the nodes, and how many faults may still come."""

    rows: tuple[Row, ...]
    nodes: tuple[Node, ...]
    faults: int
    broken: str = ""


class Claims(Model[State]):
    """Nodes that claim, create, start, call, renew and end instances.

    Args:
        nodes: How many there are.
        waiting: How many instances wait to be claimed.
        created: How many are to be created and started by one write.
        faults: How often a node dies, an answer is lost, a lease lapses, or the store
            is away.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(
        self,
        *,
        nodes: int = 2,
        waiting: int = 1,
        created: int = 0,
        faults: int = 2,
        without: str = "",
    ) -> None:
        rows = (Row(),) * waiting + (Row(there=False),) * created
        node = Node(
            alive=True, contact=True, unanswered=False, runs=(Run(),) * len(rows)
        )
        self._first = State(rows, (node,) * nodes, faults)
        self._without = without
        self._orders = [
            some + others
            for some in permutations(range(waiting))
            for others in permutations(range(waiting, waiting + created))
        ]

    def broken(self, state: State) -> str:
        if any(each.calls > 1 + each.excused for each in state.rows):
            return "an instance is called twice though no claim of it has lapsed"
        return state.broken

    def is_good(self, state: State) -> bool:
        return all(each.ended for each in state.rows)

    def alike(self, state: State) -> State:
        if len(self._orders) == 1:
            return _nodes_in_order(state)
        return min(_nodes_in_order(_reordered(state, each)) for each in self._orders)

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        if state.broken:
            return
        for node, each in enumerate(state.nodes):
            if each.alive:
                yield from self._sends(state, node)
                yield from self._calls(state, node)
                if not each.contact and _all_have_renewed(state):
                    after = _with_node(state, node, contact=True)
                    yield (node, "has had contact for a lease"), after
            for index, sent in enumerate(each.sent):
                if sent.done:
                    yield (node, "is answered:", sent), self._hears(state, node, index)
                else:
                    for what, after in self._carries_out(state, node, index):
                        yield ("store, for", node, ":", sent, what), after
        for at, row in enumerate(state.rows):
            if row.valid and not state.nodes[row.owner].alive:
                after = _with_row(state, at, valid=False)
                yield ("the claim of", at, "lapses, as its node has died"), after
        if state.faults:
            yield from self._faults(state._replace(faults=state.faults - 1))

    # What nodes do.

    def _sends(self, state: State, node: int) -> Iterator[tuple[Name, State]]:
        me = state.nodes[node]
        busy = {each.lane for each in me.sent}
        wanted = []
        if "claim" not in busy:
            under_way = "create" in busy and self._without != "under way"
            if me.unanswered and not under_way and self._without != "asks":
                known = tuple(
                    (at, run.attempt) for at, run in enumerate(me.runs) if run.stage
                )
                last = not self._may_still_come(me) and self._without != "by then"
                kind = "last list" if last else "list"
                wanted.append(Sent("claim", kind, known=known))
            wanted.append(Sent("claim", "claim", takes_over=me.contact))
        if "create" not in busy and (
            not me.unanswered or self._without == "none begins"
        ):
            wanted += [
                Sent("create", "create", ((at, 0),))
                for at, row in enumerate(state.rows)
                if not row.there
            ]
        for at, run in enumerate(me.runs):
            lane, claim = f"write {at}", ((at, run.attempt),)
            if run.stage == "claimed" and lane not in busy:
                wanted.append(Sent(lane, "start", claim))
            if run.stage == "returned" and lane not in busy:
                wanted.append(Sent(lane, "finish", claim))
            if run.stage and not state.rows[at].valid:
                yield (node, "renews", at), self._renewed(state, node, at)
        for each in wanted:
            yield (node, "sends:", each), _with_sent(state, node, each)

    def _calls(self, state: State, node: int) -> Iterator[tuple[Name, State]]:
        for at, run in enumerate(state.nodes[node].runs):
            if run.stage == "started":
                after = _with_run(state, node, at, run._replace(stage="called"))
                after = _with_row(after, at, calls=state.rows[at].calls + 1)
                yield (node, "calls the handler for", at), after
            if run.stage == "called":
                after = _with_run(state, node, at, run._replace(stage="returned"))
                yield ("the handler for", at, "returns on", node), after

    def _renewed(self, state: State, node: int, at: int) -> State:
        if _is_owned(state.rows[at], state.nodes[node].runs[at].attempt):
            return _with_row(state, at, valid=True)
        return _with_run(state, node, at, Run())

    # What the store does: each is one statement.

    def _carries_out(
        self, state: State, node: int, index: int
    ) -> Iterator[tuple[str, State]]:
        sent = state.nodes[node].sent[index]
        if sent.kind == "claim":
            yield from self._claimed(state, node, index)
        elif sent.kind == "create":
            ((at, _),) = sent.claims
            if state.rows[at].there:
                yield "", _answered(state, node, index)
            else:
                new = Row(owner=node, attempt=1, valid=True, started=True)
                after = _with_whole_row(state, at, new)
                yield "", _answered(after, node, index, ((at, 1),))
        elif sent.kind in _LISTS:
            mine = tuple(
                (at, row.attempt)
                for at, row in enumerate(state.rows)
                if row.owner == node and not row.ended
            )
            yield "", _answered(state, node, index, mine)
        elif sent.kind == "release":
            yield "", _answered(_released(state, node, sent.claims), node, index)
        elif sent.kind == "start":
            after = self._started(state, node, *sent.claims[0])
            answer = () if after is state else sent.claims
            yield "", _answered(after, node, index, answer)
        else:
            after = self._finished(state, *sent.claims[0])
            yield "", _answered(after, node, index, sent.claims)

    def _claimed(
        self, state: State, node: int, index: int
    ) -> Iterator[tuple[str, State]]:
        found = False
        sent = state.nodes[node].sent[index]
        for at, row in enumerate(state.rows):
            if not row.there or row.ended:
                continue
            if row.owner != NOBODY:
                if row.valid and self._without != "lapsed":
                    continue
                if not sent.takes_over and self._without != "contact":
                    continue
            found = True
            rises = not (self._without == "attempt" and row.attempt)
            attempt = row.attempt + rises
            after = _with_row(
                state, at, owner=node, attempt=attempt, valid=True, started=False
            )
            if row.valid:
                after = after._replace(broken="a claim is taken that is valid")
            yield f"takes {at}", _answered(after, node, index, ((at, attempt),))
        if not found:
            yield "finds nothing", _answered(state, node, index)

    def _started(self, state: State, node: int, at: int, attempt: int) -> State:
        row = state.rows[at]
        if not (_is_owned(row, attempt) or self._without == "owned"):
            return state
        after = _with_row(state, at, started=True, valid=True)
        if row.owner != node:
            after = after._replace(broken="started under the claim of somebody else")
        return after

    def _finished(self, state: State, at: int, attempt: int) -> State:
        """The first success wins, of whichever attempt."""
        row = state.rows[at]
        if row.ended and self._without != "first end":
            return state
        after = _with_row(state, at, ended=True, valid=False)
        if row.ended:
            after = after._replace(broken="an end is written over an end")
        return after

    # What answers do.

    def _hears(self, state: State, node: int, index: int) -> State:
        sent = state.nodes[node].sent[index]
        state = _without_sent(state, node, index)
        if sent.kind in ("claim", "create"):
            stage = "claimed" if sent.kind == "claim" else "started"
            for at, attempt in sent.answer:
                # Of two claims of its own the older one is lost.
                if attempt > state.nodes[node].runs[at].attempt:
                    state = _with_run(state, node, at, Run(attempt, stage))
        elif sent.kind in _LISTS:
            unknown = tuple(each for each in sent.answer if each not in sent.known)
            if unknown:
                return _with_sent(state, node, Sent("claim", "release", unknown))
            judged_now = self._without == "by then"
            may_come = self._may_still_come(state.nodes[node])
            if sent.kind == "last list" or (judged_now and not may_come):
                state = _with_node(state, node, unanswered=False)
        elif sent.kind in ("start", "finish"):
            ((at, attempt),) = sent.claims
            run = state.nodes[node].runs[at]
            if run.attempt == attempt:
                goes_on = sent.kind == "start" and sent.answer
                new = run._replace(stage="started") if goes_on else Run()
                state = _with_run(state, node, at, new)
        return state

    def _may_still_come(self, node: Node) -> bool:
        return self._without != "may still come" and any(
            not each.lane and each.kind in ("claim", "create") for each in node.sent
        )

    # What goes wrong.

    def _faults(self, state: State) -> Iterator[tuple[Name, State]]:
        for node, each in enumerate(state.nodes):
            for index, sent in enumerate(each.sent):
                if sent.lane:
                    name = ("fault", node, "hears nothing of:", sent)
                    yield name, _lost(state, node, index)
            if each.alive and sum(other.alive for other in state.nodes) > 1:
                yield ("fault", node, "dies"), _dead(state, node)
        for at, row in enumerate(state.rows):
            if row.valid and state.nodes[row.owner].alive:
                after = _with_row(state, at, valid=False, excused=row.excused + 1)
                yield ("fault: the claim of", at, "lapses, its node is frozen"), after
        if any(each.valid for each in state.rows):
            rows = tuple(each._replace(valid=False) for each in state.rows)
            nodes = tuple(
                each._replace(contact=False, sent=tuple(map(self._held_up, each.sent)))
                for each in state.nodes
            )
            after = state._replace(rows=rows, nodes=nodes)
            yield ("fault", "the store is away for a lease"), after

    def _held_up(self, sent: Sent) -> Sent:
        return sent._replace(takes_over=sent.takes_over and self._without == "deadline")


_LISTS = ("list", "last list")
_RUNS = ("started", "called", "returned")


def _is_owned(row: Row, attempt: int) -> bool:
    return row.owner != NOBODY and row.attempt == attempt and not row.ended


def _all_have_renewed(state: State) -> bool:
    """Whether a lease may have passed since an outage.

    By then who lives has renewed what it has, and heard of it: an answer that takes
    longer is given up.
    """
    return not any(
        not row.valid and _is_owned(row, attempt) and row.owner == node
        for node, each in enumerate(state.nodes)
        for at, attempt in (
            *((at, run.attempt) for at, run in enumerate(each.runs) if run.stage),
            *(claim for sent in each.sent if sent.lane for claim in sent.answer),
        )
        for row in [state.rows[at]]
    )


def _released(state: State, node: int, claims: Claimed) -> State:
    for at, attempt in claims:
        if not _is_owned(state.rows[at], attempt):
            continue
        run = state.nodes[node].runs[at]
        if run.attempt == attempt and run.stage in _RUNS:
            state = state._replace(broken="given back while it runs")
        state = _with_row(state, at, owner=NOBODY, valid=False, started=False)
    return state


def _answered(state: State, node: int, index: int, answer: Claimed = ()) -> State:
    sent = state.nodes[node].sent[index]
    state = _without_sent(state, node, index)
    if not sent.lane:
        return state
    return _with_sent(state, node, sent._replace(done=True, answer=answer))


def _lost(state: State, node: int, index: int) -> State:
    sent = state.nodes[node].sent[index]
    state = _without_sent(state, node, index)
    if not sent.done:
        # It may be carried out yet.
        state = _with_sent(state, node, sent._replace(lane="", known=()))
    if sent.kind in ("claim", "create"):
        state = _with_node(state, node, unanswered=True)
    return state


def _dead(state: State, node: int) -> State:
    for at, row in enumerate(state.rows):
        if row.owner == node:
            state = _with_row(state, at, excused=row.excused + 1)
    sent = sorted(
        each._replace(lane="", known=())
        for each in state.nodes[node].sent
        if not each.done
    )
    return _with_node(
        state,
        node,
        alive=False,
        contact=False,
        unanswered=False,
        runs=(Run(),) * len(state.rows),
        sent=tuple(sent),
    )


def _with_whole_row(state: State, at: int, row: Row) -> State:
    return state._replace(rows=put(state.rows, at, row))


def _with_row(state: State, at: int, **values: Any) -> State:
    return _with_whole_row(state, at, state.rows[at]._replace(**values))


def _with_node(state: State, node: int, **values: Any) -> State:
    changed = state.nodes[node]._replace(**values)
    return state._replace(nodes=put(state.nodes, node, changed))


def _with_run(state: State, node: int, at: int, run: Run) -> State:
    return _with_node(state, node, runs=put(state.nodes[node].runs, at, run))


def _with_sent(state: State, node: int, sent: Sent) -> State:
    return _with_node(state, node, sent=tuple(sorted((*state.nodes[node].sent, sent))))


def _without_sent(state: State, node: int, index: int) -> State:
    sent = state.nodes[node].sent
    return _with_node(state, node, sent=sent[:index] + sent[index + 1 :])


def _nodes_in_order(state: State) -> State:
    """The same with its nodes in one order: two that compare equal are alike."""
    owners = [row.owner for row in state.rows]
    keys = [
        ([each == n for each in owners], node) for n, node in enumerate(state.nodes)
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if order == sorted(order):
        return state
    places = {old: new for new, old in enumerate(order)}
    rows = tuple(
        row if row.owner == NOBODY else row._replace(owner=places[row.owner])
        for row in state.rows
    )
    nodes = tuple(state.nodes[old] for old in order)
    return state._replace(rows=rows, nodes=nodes)


def _reordered(state: State, order: tuple[int, ...]) -> State:
    """The same with instance n at place ``order[n]``."""
    if order == tuple(sorted(order)):
        return state
    sources = [order.index(at) for at in range(len(order))]
    lanes = {f"write {old}": f"write {new}" for old, new in enumerate(order)}

    def claims(some: Claimed) -> Claimed:
        return tuple(sorted((order[at], attempt) for at, attempt in some))

    def moved(node: Node) -> Node:
        sent = sorted(
            each._replace(
                lane=lanes.get(each.lane, each.lane),
                claims=claims(each.claims),
                known=claims(each.known),
                answer=claims(each.answer),
            )
            for each in node.sent
        )
        runs = tuple(node.runs[old] for old in sources)
        return node._replace(runs=runs, sent=tuple(sent))

    rows = tuple(state.rows[old] for old in sources)
    return state._replace(rows=rows, nodes=tuple(map(moved, state.nodes)))
