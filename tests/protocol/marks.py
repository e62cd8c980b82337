"""Where each guard of the models stands in the code, and the test that is about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.protocol import claims, exclusion, firing, ownership, remote, success

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
CODE = ROOT / "go_scheduler"

MODELS: Mapping[str, Mapping[str, str]] = {
    "claims": claims.GUARDS,
    "firing": firing.GUARDS,
    "exclusion": exclusion.GUARDS,
    "late success": success.GUARDS,
    "remote ends": remote.GUARDS,
    "ownership": ownership.GUARDS,
}


class Mark(NamedTuple):
    """Where a guard stands.

    Attributes:
        test: The name of a test that is about it.
        places: Files below ``go_scheduler``, each with the words of the guard.
    """

    test: str
    places: Mapping[str, str]


RUNS, CLAIMS = "stores/sql/runs.py", "stores/sql/claims.py"
FIRING, EDITS = "stores/sql/firing.py", "stores/sql/edits.py"
LUA = "stores/redis/scripts/"
ROWS, STEP, CHANGES = (
    f"{LUA}parts/{each}.lua" for each in ("instances", "firing", "changing")
)
DEFINITIONS, INSTANCES, TABLES = (
    f"stores/memory/{each}.py" for each in ("definitions", "instances", "tables")
)
RECOVERY, CLAIMER = "running/recovery.py", "running/claimer.py"

OWNED = {
    RUNS: "t.id = x.id AND t.attempt = x.attempt",
    ROWS: "row.attempt == claim.attempt and row.claimed_by and not row.outcome",
    TABLES: "row is None or row.attempt != claim.attempt",
}
FIRST_SUCCESS = {
    RUNS: "(t.completed_at IS NULL OR t.outcome = 'failed')",
    f"{LUA}finish_instances.lua": "not row.outcome or row.outcome == 'failed'",
    INSTANCES: "row.outcome not in (None, _FAILED)",
}
SAME_NEXT = {
    FIRING: "AND d.next_fire_time IS NOT DISTINCT FROM x.expected",
    STEP: "of.next_fire_time ~= firing.next_fire_time",
    DEFINITIONS: "stored.next_fire_time != read.next_fire_time",
}

MARKS: Mapping[tuple[str, str], Mark] = {
    ("claims", "lapsed"): Mark(
        "test_a_claim_is_taken_over_that_has_lapsed_so_long_ago",
        {
            CLAIMS: "t.expires_at <= now() - CAST(:lapsed AS interval)",
            f"{LUA}claim_instances.lua": "heads('l:', plus(now, -A.lapsed), A.limit)",
            INSTANCES: "tables.take_lapsed(queues, now - lapsed, limit)",
        },
    ),
    ("claims", "contact"): Mark(
        "a_takeover_does_not_wait_after_an_outage",
        {RECOVERY: "if unbroken >= self._lease:"},
    ),
    ("claims", "attempt"): Mark(
        "a_claim_does_not_raise_the_attempt",
        {
            CLAIMS: "attempt = t.attempt + 1",
            f"{LUA}parts/claiming.lua": "row.attempt = row.attempt + 1",
            TABLES: "self.attempt += 1",
        },
    ),
    ("claims", "owned"): Mark("a_start_does_not_look_at_the_claim", OWNED),
    ("claims", "first end"): Mark(
        "test_of_a_former_claim_the_success_alone_counts",
        {
            RUNS: "AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL",
            ROWS: "row.claimed_by and not row.outcome",
            TABLES: "row.claimed_by is not None and row.completed_at is None",
        },
    ),
    ("claims", "asks"): Mark(
        "test_what_a_lost_answer_had_claimed_is_given_back_and_runs_once",
        {CLAIMER: "unknown = self._list_unknown()"},
    ),
    ("claims", "none begins"): Mark(
        "what_a_lost_answer_claimed_is_not_given_back",
        {CLAIMER: "if self._lost_at is not None: return"},
    ),
    ("claims", "under way"): Mark(
        "test_what_runs_is_held_or_not_recorded_is_not_taken_for_lost",
        {CLAIMER: "self._lost_at is None or self.in_flight"},
    ),
    ("claims", "may still come"): Mark(
        "test_what_a_store_claims_only_after_its_answer_was_lost_is_given_back_too",
        {CLAIMER: "self._clock.elapsed() - self._lost_at >= _MAY_STILL_COME"},
    ),
    ("claims", "deadline"): Mark(
        "test_a_lapsed_claim_is_left_alone_after_the_deadline",
        {
            CLAIMS: "now() <= CAST(:deadline AS timestamptz)",
            f"{LUA}claim_instances.lua": "A.lapsed and now <= A.deadline",
            INSTANCES: "lapsed is not None and now <= deadline",
        },
    ),
    ("claims", "by then"): Mark(
        "test_what_a_store_claims_only_after_its_answer_was_lost_is_given_back_too",
        {CLAIMER: "# Before the list is asked for: what comes behind it"},
    ),
    ("firing", "same next"): Mark(
        "test_a_firing_of_another_fire_time_changes_nothing", SAME_NEXT
    ),
    ("firing", "same revision"): Mark(
        "test_a_firing_of_another_revision_changes_nothing",
        {
            FIRING: "AND d.revision = x.revision",
            STEP: "of.revision ~= firing.revision",
            DEFINITIONS: "stored.revision != read.revision",
        },
    ),
    ("firing", "not paused"): Mark(
        "test_a_fire_beside_a_pause_or_an_edit_loses_nothing",
        {
            FIRING: "AND d.deleted_at IS NULL AND NOT d.paused",
            STEP: "if not of or of.paused",
            DEFINITIONS: "if stored.paused or",
        },
    ),
    ("firing", "unique"): Mark(
        "test_a_fire_time_never_gets_a_second_instance",
        {
            FIRING: "ON CONFLICT (definition_key, fire_time) DO NOTHING",
            STEP: "if not fired_at(of, fire_time)",
            DEFINITIONS: "if fire_time not in of.instances",
        },
    ),
    ("firing", "revision rises"): Mark(
        "test_a_deleted_id_may_be_put_again_and_is_new",
        {
            "stores/sql/puts.py": "known.get(each.id, 0) + 1 for each in new",
            CHANGES: "call('SET', P .. 'first', revision + 1)",
            TABLES: "max(self.first_revision, next_revision(of.definition))",
        },
    ),
    ("firing", "definition first"): Mark(
        "test_a_fire_beside_a_pause_or_an_edit_loses_nothing",
        {EDITS: "keys.where(definitions.c.key == row.key).with_for_update()"},
    ),
    ("firing", "last to stay"): Mark(
        "test_a_pause_goes_back_over_nothing_that_began",
        {
            EDITS: "SELECT max(b.fire_time)",
            CHANGES: "if is_unused(row) then",
            DEFINITIONS: "max((at for at, row in coming if not row.is_unused)",
        },
    ),
    ("firing", "records"): Mark(
        "test_a_fire_beside_an_edit_records_each_time_once",
        {
            EDITS: "skipped = rules.unfired(self.old, now)",
            "stores/redis/store.py": "skipped := rules.unfired(stored, now)",
            DEFINITIONS: "skipped := rules.unfired(of.definition, tables.now)",
        },
    ),
    ("firing", "has fired"): Mark(
        "test_another_trigger_does_not_repeat_what_has_fired",
        {"stores/rules.py": "next_fire_time_of(old.trigger, first - _MICROSECOND)"},
    ),
    ("firing", "has begun"): Mark(
        "test_another_trigger_repeats_no_fire_time_that_has_begun",
        {
            FIRING: "f.fire_time IS DISTINCT FROM d.fired_until",
            STEP: "fire_time ~= of.fired_until",
            DEFINITIONS: "fire_time != of.fired_until",
        },
    ),
    ("firing", "share"): Mark(
        "test_what_does_not_lock_the_row_it_has_read_is_found",
        {"stores/sql/inserts.py": 'FOR {"NO KEY UPDATE" if limited else "KEY SHARE"}'},
    ),
    ("exclusion", "reads again"): Mark(
        "test_who_loses_a_slot_to_a_start_that_it_does_not_see_knows_who_has_it",
        {
            RUNS: "ON CONFLICT (name, number) DO UPDATE SET name = excluded.name",
            f"{LUA}start_instances.lua": "if had and had ~= row.id then",
            TABLES: "self.holders.setdefault(row.slot, row) is row",
        },
    ),
    ("exclusion", "sweep"): Mark(
        "test_a_lock_that_is_let_go_of_elsewhere_is_noticed",
        {"running/start_queue.py": "self._store.review_parked(limit=_BATCH)"},
    ),
    ("exclusion", "own"): Mark(
        "test_a_delete_leaves_the_slot_to_who_has_it",
        {
            RUNS: "AND s.instance_id = e.id",
            ROWS: "call('HGET', P .. 'slots', row.slot) == row.id",
            TABLES: "self.holders.get(row.slot) is row",
        },
    ),
    ("exclusion", "behind"): Mark(
        "test_what_met_one_that_has_just_ended_is_skipped_whoever_has_the_slot_since",
        {
            RUNS: "behind = CASE WHEN NOT mine.starts THEN mine.holder END",
            f"{LUA}start_instances.lua": "row.parked, row.behind = '1', had",
            INSTANCES: "row.behind = None if holder is None else holder.id",
        },
    ),
    ("exclusion", "open"): Mark(
        "test_an_instance_has_its_slot_until_it_has_ended",
        {
            EDITS: ("i.id = s.instance_id AND i.completed_at IS NULL"),
            f"{LUA}parts/base.lua": "call('HEXISTS', P .. 'slots', slot)",
            TABLES: "for name in self.parked if name not in self.holders",
        },
    ),
    ("late success", "first"): Mark(
        "test_the_first_of_several_successes_wins", FIRST_SUCCESS
    ),
    ("late success", "not cancelled"): Mark(
        "test_a_delete_removes_instances_and_cancels_runs", FIRST_SUCCESS
    ),
    ("late success", "current"): Mark("an_end_does_not_look_at_the_claim", OWNED),
    ("late success", "attempt goes on"): Mark(
        "test_a_reopened_instance_is_as_if_it_had_never_run",
        {"stores/base.py": "``attempt``, ``execute_at``, ``error``"},
    ),
    ("late success", "late"): Mark(
        "test_a_success_counts_of_a_claim_that_was_current_once",
        {
            RUNS: "x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt",
            f"{LUA}finish_instances.lua": (
                "claim.attempt >= 1 and claim.attempt <= row.attempt"
            ),
            INSTANCES: "not 0 < claim.attempt <= row.attempt",
        },
    ),
    ("late success", "one transaction"): Mark(
        "test_ends_that_come_with_their_rows_are_one_call",
        {RUNS: "self._lock([outcome.claim.instance_id])"},
    ),
    ("remote ends", "first worker"): Mark(
        "test_the_first_worker_to_accept_has_it",
        {
            RUNS: "t.accepted_at IS NULL OR coalesce(x.worker = t.worker, true)",
            f"{LUA}renew_claims.lua": "row.worker ~= each.worker",
            INSTANCES: "row.worker != renewal.worker",
        },
    ),
    ("remote ends", "never back"): Mark(
        "test_a_stage_never_goes_back",
        {
            RUNS: "WHEN x.step > 0 AND x.step >= {_STEP}",
            f"{LUA}renew_claims.lua": "local comes_on = step > 0 and step >= was",
            INSTANCES: "renewal.step >= step_of(was)",
        },
    ),
    ("remote ends", "its worker"): Mark(
        "test_who_comes_second_on_a_bus_fails_nothing",
        {"running/remote_runs.py": "accepted_by not in (None, ended.worker)"},
    ),
    ("remote ends", "once"): Mark(
        "test_what_comes_twice_runs_once",
        {"dispatch/worker.py": "known := self._taken.get(taken.key)"},
    ),
    ("remote ends", "silence"): Mark(
        "test_its_timeout_counts_from_when_it_has_begun_and_then_it_runs_again",
        {
            CLAIMS: "WHEN t.accepted_at IS NULL THEN 'published' ELSE 'accepted' END",
            f"{LUA}parts/rows.lua": "{ 'published', 'accepted', 'started' }",
            INSTANCES: "with_silences([row.view() for row in rows], silent)",
        },
    ),
    ("remote ends", "current"): Mark(
        "test_of_a_former_claim_the_success_alone_counts", OWNED
    ),
    ("remote ends", "first success"): Mark(
        "test_the_first_of_several_successes_wins", FIRST_SUCCESS
    ),
    ("ownership", "compare"): Mark(
        "test_a_firing_of_another_fire_time_changes_nothing", SAME_NEXT
    ),
    ("ownership", "others"): Mark(
        "test_what_the_owner_does_not_fire_is_fired_by_another_in_time",
        {
            "firing/definition_scheduler.py": "others = min(ahead,",
            FIRING: "ahead if shard in mine else others",
        },
    ),
}


def missing() -> Iterator[str]:
    """What does not hold together, and where."""
    guards = {(model, each) for model, all_of in MODELS.items() for each in all_of}
    for model, name in guards - {*MARKS}:
        yield f"{model}: {name}: it has no mark"
    for model, name in {*MARKS} - guards:
        yield f"{model}: {name}: no model has this guard"
    folders = (ROOT / "tests", CODE / "testing")
    tests = "".join(
        each.read_text() for folder in folders for each in folder.rglob("*.py")
    )
    for (model, name), mark in MARKS.items():
        if f"def {mark.test}(" not in tests:
            yield f"{model}: {name}: there is no {mark.test}"
        for file, words in mark.places.items():
            if _plain(words) not in _plain((CODE / file).read_text()):
                yield f"{model}: {name}: {file} has not got: {words}"


def _plain(text: str) -> str:
    """The text in a single line."""
    return " ".join(text.split())


def table() -> Iterator[str]:
    """The guards, as lines of a table."""
    yield "| model | guard | in the code | test |"
    yield "|---|---|---|---|"
    for (model, name), mark in MARKS.items():
        places = ", ".join(f"`{each}`" for each in mark.places)
        yield f"| {model} | {MODELS[model][name]} | {places} | `{mark.test}` |"
