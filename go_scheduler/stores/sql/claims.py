"""How nodes claim instances: by queue, priority, shard and time.

A *place* is a queue, a priority and a shard: a part of the index of what is claimable.
"""

from __future__ import annotations

import logging
import random
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from go_scheduler.checks import PRIORITIES
from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.messages import MANY, Claimant, Own, ReadLater
from go_scheduler.stores.rules import with_silences
from go_scheduler.stores.sql.database import Lane, Sweep
from go_scheduler.stores.sql.reader import earliest_first, readable_claims
from go_scheduler.stores.sql.rows import NO_ID, silences_of
from go_scheduler.stores.sql.runs import NOT_ELSEWHERE, lease_of, start_terms
from go_scheduler.stores.sql.statement import (
    CONTENTS,
    DEFINITION,
    INSTANCE,
    SQLPart,
    Statement,
    of_shard,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.sql.statement import Terms

Place: TypeAlias = "tuple[str, int, int]"

# What has to have a slot is left to the start.
_STARTS = "t.due_at <= now() + CAST(:lead AS interval) AND t.slot IS NULL"
_MARKED = f"""
     SET claimed_by = CAST(:node AS uuid), attempt = t.attempt + 1, claimable_at = NULL,
         given_back = NULL,
         runs = t.runs + CASE WHEN {_STARTS}
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN {_STARTS}
                      THEN greatest(now(), t.due_at) END,
         expires_at = greatest(now(), t.due_at)
             + CASE WHEN {_STARTS}
               THEN {lease_of("t")}
               ELSE CAST(:lease AS interval) END"""
_FREE = """
     AND t.claimed_by IS NULL AND t.completed_at IS NULL AND NOT t.frozen"""
# A row that was written by other means than this package may be out of all bounds: no
# claim could take it, and it is to fill no batch.
_SOUND = """
     AND is_sound(t)"""
# Of what has started and never fires again, nobody is likely to need them once more.
_WITH_CONTENTS = """
         LEFT JOIN task_contents@task_contents_pkey AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND t.started_at IS NOT NULL THEN d.key END"""


def _in_place(number: int, shards: int) -> str:
    """Whether ``t`` can be claimed in a place, by its index alone."""
    shard = of_shard(f"CAST(:shard{number} AS bigint)", shards)
    ahead = f":ahead{number}" if shards > 1 else ":ahead"
    return f"""t.queue = CAST(:queue{number} AS text)
     AND t.priority = CAST(:priority{number} AS bigint)
     AND {shard}t.claimable_at IS NOT NULL
     AND t.claimable_at >= now() - CAST(:back{number} AS interval)
     AND t.claimable_at <= now() + CAST({ahead} AS interval)"""


_OF_INDEX = "task_instances@task_instances_claimable_idx AS t"


@lru_cache(maxsize=256)
def claim(
    turns: Sequence[int], *, shards: int, reads_rows: bool, swept: bool
) -> Statement:
    """Claims what nobody has claimed in some places, the earliest first.

    Args:
        turns: Of each place: the turn of its priority.
        shards: Over how many parts of the index instances are spread.
        reads_rows: Whether rows are read before they are chosen, by conditions that no
            index has, so that those that are locked are skipped.
        swept: Whether the places of the rows in the index come back as well.
    """
    placed = ", due.place" if swept else ""
    only = _SOUND + _FREE if reads_rows else ""
    if len(turns) == 1:
        due = f"""
  SELECT t.id, t.claimable_at AS place FROM {_OF_INDEX}
   WHERE {_in_place(0, shards)}{only}
   ORDER BY t.claimable_at, t.due_at LIMIT :limit FOR UPDATE SKIP LOCKED"""
    else:
        places = [
            f"""
    SELECT * FROM (
      SELECT t.id, {turn} AS turn, t.claimable_at AS place, t.due_at FROM {_OF_INDEX}
       WHERE {_in_place(number, shards)}{only}
       ORDER BY t.claimable_at, t.due_at LIMIT :limit)"""
            for number, turn in enumerate(turns)
        ]
        due = f"""
  SELECT id, place FROM ({" UNION ALL".join(places)})
   ORDER BY turn, place, due_at LIMIT :limit"""
    return Statement(f"""
WITH due AS MATERIALIZED ({due}),
t AS (
  UPDATE task_instances@task_instances_pkey AS t{_MARKED}
    FROM due
   WHERE t.id = due.id{_SOUND}{_FREE}
  RETURNING {INSTANCE}{placed})
SELECT {INSTANCE},
       {DEFINITION},
       {CONTENTS},
       now() AS now{", t.place" if swept else ""}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{_WITH_CONTENTS}
""")


_LAPSED = """t.claimed_by IS NOT NULL AND t.completed_at IS NULL AND NOT t.frozen
     AND t.expires_at >= now() - CAST(:lapsed AS interval) - CAST(:back AS interval)
     AND t.expires_at <= now() - CAST(:lapsed AS interval)
     AND t.queue = ANY(CAST(:queues AS text[]))"""
_LOST = ("ran_by", "began", "taken_at", "due_by")


@lru_cache(maxsize=2)
def claim_lapsed(shards: int) -> Statement:
    """Claims anew what others had claimed, the longest lapsed first.

    What is known of the runs that are lost comes back as well.

    Args:
        shards: Over how many parts of the index instances are spread: it claims in one.
    """
    shard = of_shard("CAST(:shard AS bigint)", shards)
    return Statement(f"""
WITH due AS MATERIALIZED (
  SELECT t.id, t.expires_at AS place, t.attempt AS lost_as, t.claimed_by AS lost_by,
         t.worker AS ran_by, t.started_at AS began,
         t.accepted_at AS taken_at, t.start_by AS due_by,
         CASE WHEN t.start_by IS NULL
              THEN CASE WHEN t.accepted_at IS NOT NULL THEN 'started' END
              WHEN t.accepted_at IS NULL THEN 'published' ELSE 'accepted' END AS lost_in
    FROM task_instances@task_instances_lease_idx AS t
   WHERE {shard}{_LAPSED}
     AND now() <= CAST(:deadline AS timestamptz){_SOUND}
   ORDER BY t.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED),
t AS (
  UPDATE task_instances@task_instances_pkey AS t{_MARKED},
         {NOT_ELSEWHERE}
    FROM due
   WHERE t.id = due.id{_SOUND}
     AND t.completed_at IS NULL AND t.expires_at <= now() - CAST(:lapsed AS interval)
  RETURNING {INSTANCE}, due.place, due.ran_by, due.began, due.taken_at, due.due_by),
kept AS (
  INSERT INTO task_runs
         (instance_id, attempt, node, worker, started_at, ended_at, outcome, lost_in)
  SELECT t.id, due.lost_as, due.lost_by, due.ran_by, due.began, now(), 'lost',
         due.lost_in
    FROM t JOIN due ON due.id = t.id
   WHERE due.began IS NOT NULL
  ON CONFLICT DO NOTHING
  RETURNING instance_id)
SELECT {INSTANCE},
       {DEFINITION},
       {CONTENTS},
       t.place, now() AS now, {", ".join(f"t.{name}" for name in _LOST)}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{_WITH_CONTENTS}
""")


# Whoever finds nothing by it keeps nobody from writing to a file.
_LOOK = Statement(f"""
SELECT EXISTS (
         SELECT 1 FROM {_OF_INDEX}
          WHERE t.queue = ANY(CAST(:queues AS text[]))
            AND t.priority IN ({", ".join(map(str, PRIORITIES))})
            AND t.claimable_at IS NOT NULL
            AND t.claimable_at <= now() + CAST(:ahead AS interval)) AS is_due,
       EXISTS (
         SELECT 1 FROM task_instances@task_instances_lease_idx AS t
          WHERE {_LAPSED}) AS has_lapsed
""")


@lru_cache(maxsize=256)
def heads(places: int, looks: int, *, shards: int, lapsed: bool) -> Statement:
    """Says in which places there is anything to claim, by their numbers.

    The shards in which anything has lapsed come back as numbers below zero, from -1 on.

    On CockroachDB a plain read of what a claim would take settles it: the claim finds
    it.

    Args:
        places: So many.
        looks: After those so many priorities of queues, in which anything may wait, due
            or not.
        shards: Over how many parts of the index instances are spread.
        lapsed: Whether to look for what has lapsed.
    """
    parts = [
        f"""
head{number} AS MATERIALIZED (
  SELECT {number} AS head FROM {_OF_INDEX}
   WHERE {_in_place(number, shards)}
   ORDER BY t.claimable_at LIMIT :limit)"""
        for number in range(places)
    ]
    parts += [
        f"""
head{number} AS MATERIALIZED (
  SELECT {number} AS head FROM {_OF_INDEX}
   WHERE t.queue = CAST(:queue{number} AS text)
     AND t.priority = CAST(:priority{number} AS bigint) AND t.claimable_at IS NOT NULL
     AND t.claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)"""
        for number in range(places, places + looks)
    ]
    every = [f"SELECT head FROM head{number}" for number in range(places + looks)]
    if lapsed:
        head, where, most = "-1", "", 1
        if shards > 1:
            # All shards in which there is any are told, by one scan: a claim may have
            # to leave what it finds in one of them.
            head, most = "-1 - t.shard", 1000
            where = f"t.shard IN ({', '.join(map(str, range(shards)))}) AND "
        parts.append(f"""
lapsed AS MATERIALIZED (
  SELECT {head} AS head FROM task_instances@task_instances_lease_idx AS t
   WHERE {where}{_LAPSED} LIMIT {most})""")
        every.append("SELECT head FROM lapsed")
    union = "\n        UNION ALL ".join(every)
    return Statement(f"""
WITH{",".join(parts)}
SELECT DISTINCT head FROM ({union}) AS heads
""")


# No index has the node; that of the leases has all claimed instances, and is small.
_LIST_CLAIMED = Statement(f"""
WITH t AS MATERIALIZED (
  SELECT {INSTANCE} FROM task_instances@task_instances_lease_idx AS t
   WHERE t.claimed_by = CAST(:node AS uuid) AND t.completed_at IS NULL AND NOT t.frozen
     AND t.handed_on IS DISTINCT FROM t.attempt
     AND t.shard >= 0 AND t.expires_at IS NOT NULL AND t.id > CAST(:after AS uuid)
   ORDER BY t.id LIMIT :limit)
SELECT {INSTANCE},
       {DEFINITION}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key
 ORDER BY t.id
""")


class _Reach(NamedTuple):
    """How far ahead a node claims.

    Attributes:
        ahead: How far in its own shards.
        own: Those, and how far in the others, as in ``Claimant``.
    """

    ahead: timedelta
    own: Mapping[str, Own] | None

    def is_own(self, place: Place) -> bool:
        """Whether a place is in one of the node's own shards."""
        queue, _, shard = place
        return self.own is None or shard in self.own[queue].shards

    def of(self, place: Place) -> timedelta:
        """How far in one place."""
        if self.own is None or self.is_own(place):
            return self.ahead
        return self.own[place[0]].others

    def terms(self, places: Sequence[Place]) -> dict[str, Any]:
        """The parameters that name places by their numbers, and how far to look."""
        terms: dict[str, Any] = {"ahead": self.ahead}
        for number, place in enumerate(places):
            terms[f"queue{number}"], terms[f"priority{number}"] = place[:2]
            terms[f"shard{number}"] = place[2]
            terms[f"ahead{number}"] = self.of(place)
        return terms


class _Scan(NamedTuple):
    """A scan of a part of an index, which claims what it finds.

    Attributes:
        place: The first of the places that are looked at, or ``_LAPSED_ONES``.
        statement: What claims there.
        careful: What claims there beside a lock.
        terms: Their parameters.
        sweeps: How far the scans have come, by the parameter that says so.
    """

    place: Place | str
    statement: Statement
    careful: Statement
    terms: Terms
    sweeps: Mapping[str, Sweep]


_LAPSED_ONES = "lapsed"
# SQLite takes no more than 500 SELECTs in one.
_MOST_PLACES = 400
_CAREFUL_CLAIMS = 20
# No divisor of the turns of classes: each class has its turn in any order of shards.
_ANY_SHARD_EVERY = 7
_log = logging.getLogger(__name__)


class SQLClaims(SQLPart):
    """Hands due instances to nodes."""

    # By place: how many more claims are careful, since one has met a lock.
    _careful: dict[object, int]
    _reported = False
    # How many claims began in the node's own shards, since one did not.
    _own_first = 0

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        if not claimant.queues:
            return []
        terms = {**start_terms(claimant), "lead": lead}
        reach = _Reach(ahead, claimant.own)
        together = self._dialect.claims_together
        look = self._look_at_all if together else self._look_at_each
        lapsed_in, places = look(claimant.queues, reach, lapsed, limit)
        scans = []
        if lapsed is not None:
            statement = claim_lapsed(self._dialect.shards)
            sweeps = self._lapsed_sweeps(claimant.queues, lapsed)
            again = {**terms, "queues": [*claimant.queues]}
            again |= {"lapsed": lapsed, "deadline": deadline}
            scans += [
                _Scan(
                    _LAPSED_ONES,
                    statement,
                    statement,
                    {**again, "shard": shard},
                    {"back": sweeps[shard]},
                )
                for shard in lapsed_in
            ]
        most = _MOST_PLACES if together else 1
        for first in range(0, len(places), most):
            some = places[first : first + most]
            scans.append(self._scan_of(some, {**terms, **reach.terms(some)}))
        old, new = self._claim_each(scans, limit)
        if lapsed is None and len(new) >= MANY:
            return ReadLater(len(new), partial(self._read, [], new))
        return self._read(old, new)

    def _scan_of(self, places: Sequence[Place], terms: Terms) -> _Scan:
        """What claims in some places what is free."""
        priorities = [priority for _, priority, _ in places]
        claims = partial(
            claim,
            tuple(priorities.index(each) for each in priorities),
            shards=self._dialect.shards,
            swept=not self._dialect.claims_together,
        )
        sweeps = map(self._statements.sweep, places)
        return _Scan(
            places[0],
            claims(reads_rows=self._dialect.reads_rows),
            claims(reads_rows=True),
            terms,
            {f"back{number}": each for number, each in enumerate(sweeps)},
        )

    def _read(self, old: Sequence[Any], new: Sequence[Any]) -> list[TaskInstance]:
        """The instances of rows that were taken over, and of others."""
        claimed = self._reader.claimed(Lane.BY_TIME, [*old, *new], with_contents=True)
        self._classes.seen([each.definition for each in claimed])
        lapsed_first = with_silences(claimed[: len(old)], silences_of(old))
        return earliest_first(lapsed_first) + earliest_first(claimed[len(old) :])

    def _look_at_all(
        self,
        queues: Sequence[str],
        reach: _Reach,
        lapsed: timedelta | None,
        limit: int,
    ) -> tuple[Sequence[int], Sequence[Place]]:
        """The shard if anything may have lapsed, and all places if one has anything."""
        looks = self._classes.look()
        terms = {**self._lapsed_terms(queues, lapsed), "ahead": reach.ahead}
        [row] = self._statements.read(Lane.BY_TIME, _LOOK, terms)
        priorities = self._classes.in_turn(every=looks) if row.is_due else []
        return [0] if row.has_lapsed else [], [
            (queue, priority, 0) for priority in priorities for queue in queues
        ]

    def _look_at_each(
        self,
        queues: Sequence[str],
        reach: _Reach,
        lapsed: timedelta | None,
        limit: int,
    ) -> tuple[Sequence[int], Sequence[Place]]:
        """In which shards anything may have lapsed, and where is anything to claim.

        Both are in the order in which they are claimed. Within a priority the node's
        own come first, and the order is random: nodes should not meet in one place. In
        one claim of seven it is all random, so that what others own does not starve.
        """
        shards = range(self._dialect.shards)
        looks, known = self._classes.look(), self._classes.known
        places = list(product(queues, known, shards))
        if len(places) == 1 and not looks:
            # A claim costs no more than a look.
            return [0], places
        others = [each for each in PRIORITIES if looks and each not in known]
        asked = [*places, *((*each, 0) for each in product(queues, others))]
        sweeps = [self._statements.sweep(each) for each in places]
        look = self._statements.sweep("priorities")
        terms = {
            **reach.terms(asked),
            **{f"back{number}": each.back for number, each in enumerate(sweeps)},
            "look_back": look.back,
            "limit": 1 if self._dialect.reads_rows else limit,
        }
        if lapsed is not None:
            terms |= self._lapsed_terms(queues, lapsed)
        statement = heads(
            len(places),
            len(asked) - len(places),
            shards=self._dialect.shards,
            lapsed=lapsed is not None,
        )
        rows = self._statements.read(Lane.BY_TIME, statement, terms)
        full = {row.head for row in rows}
        for number, sweep in enumerate(sweeps):
            if number not in full:
                sweep.finish()
        lapsed_in = [-1 - number for number in full if number < 0]
        random.shuffle(lapsed_in)
        if lapsed is not None and not lapsed_in:
            for sweep in self._lapsed_sweeps(queues, lapsed):
                sweep.finish()
        found = [asked[number] for number in full if number >= 0]
        if looks:
            look.finish()
            self._classes.learn(priority for _, priority, _ in found)
        # In which shards of those anything waits is not known yet.
        where = [each for each in found if each[1] in known]
        where += product(queues, {each[1] for each in found} - {*known}, shards)
        random.shuffle(where)
        in_turn = self._classes.in_turn()
        self._own_first = (self._own_first + 1) % _ANY_SHARD_EVERY
        own_first = self._own_first > 0

        def turn(place: Place) -> tuple[int, bool]:
            return in_turn.index(place[1]), own_first and not reach.is_own(place)

        where.sort(key=turn)
        return lapsed_in, where

    def _claim_each(
        self, scans: Iterable[_Scan], limit: int
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Claim by one scan after the other, until the limit is reached.

        Returns:
            The rows that were taken over, and those that were free.

        Raises:
            StoreError: Nothing was claimed, and a claim has failed.
        """
        old: list[Any] = []
        new: list[Any] = []
        failure: StoreError | None = None
        left = limit
        for scan in scans:
            if left <= 0:
                break
            try:
                found = self._past_locks(scan, left)
            except StoreError as error:
                unavailable = isinstance(error, StoreUnavailableError)
                # Instances that have been claimed must not lapse meanwhile.
                last = left < limit or failure or unavailable
                failure = error
                if last:
                    break
            else:
                claimed = old if scan.place == _LAPSED_ONES else new
                claimed += found
                left -= len(found)
        if failure is not None and left == limit:
            raise failure
        if failure is not None and not self._reported:
            # The first time in a row.
            _log.warning("some of what is due cannot be claimed: %s", failure)
        self._reported = failure is not None
        return old, new

    def _lapsed_terms(self, queues: Sequence[str], lapsed: timedelta | None) -> Terms:
        terms = {"queues": list(queues), "lapsed": lapsed, "back": None}
        if lapsed is not None:
            sweeps = self._lapsed_sweeps(queues, lapsed)
            terms["back"] = max(each.back for each in sweeps)
        return terms

    def _lapsed_sweeps(
        self, queues: Sequence[str], lapsed: timedelta
    ) -> Sequence[Sweep]:
        # A look for claims that lapsed long ago reaches no further than that.
        of = (_LAPSED_ONES, tuple(queues), lapsed > ZERO)
        shards = range(self._dialect.shards)
        return [self._statements.sweep((*of, shard)) for shard in shards]

    def _past_locks(self, scan: _Scan, limit: int) -> Sequence[Any]:
        """Claim, past rows that a user's open transaction has locked.

        PostgreSQL skips those. What it does not skip, such as the lock for a page that
        another session adds to the table, is held for a moment: it is asked once more.

        On CockroachDB such a lock may be on the row alone and not on the index that is
        walked: a claim that does not read the row waits for it. It may be on the
        definition: one that reads that waits as well. Reading all rows would lock more
        of them than are claimed, and reading their definitions apart is one statement
        more, so that is done only where it is needed, and by the claims that follow:
        the rows that a claim has locked before it met the lock are free only some time
        later, and each claim that is made anew would skip them again.
        """
        if careful := self._careful.get(scan.place, 0):
            self._careful[scan.place] = careful - 1
            return self._claim(scan, limit, careful=True)
        try:
            return self._claim(scan, limit)
        except StoreError as error:
            if not self._statements.met_a_lock(error):
                raise
            if not self._dialect.reads_rows:
                self._careful[scan.place] = _CAREFUL_CLAIMS
            return self._claim(scan, limit, careful=True)

    def _claim(
        self, scan: _Scan, limit: int, *, careful: bool = False
    ) -> Sequence[Any]:
        back = {name: each.back for name, each in scan.sweeps.items()}
        with self._statements.scanning(*scan.sweeps.values()):
            # A claim that was done, and is repeated, leaves instances to their lease.
            rows = self._statements.run(
                Lane.BY_TIME,
                scan.careful if careful else scan.statement,
                {**scan.terms, **back, "limit": limit},
                repeatable=False,
                apart=careful and not self._dialect.reads_rows,
            )
        for sweep in scan.sweeps.values():
            if len(rows) < limit:
                sweep.finish()
            elif scan.place != _LAPSED_ONES and not self._dialect.claims_together:
                sweep.go_on(rows[0].now - max(row.place for row in rows))
        return rows

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = NO_ID if after is None else after.id
        terms = {"node": node, "after": last, "limit": limit}
        rows = self._statements.read(Lane.BY_TIME, _LIST_CLAIMED, terms)
        return readable_claims(self._reader.claimed(Lane.BY_TIME, rows))
