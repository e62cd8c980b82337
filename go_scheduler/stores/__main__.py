"""Prints the SQL of the statements that the loops execute, to be read and copied."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
from go_scheduler.stores.postgresql.statements.by_name import statements_by_name
from go_scheduler.stores.sqlite.statements.by_name import STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SERVERS = {
    "postgresql": PostgreSQLDialect(None),
    "cockroachdb": CockroachDBDialect(None, follower_reads=False),
}
STORES = (*_SERVERS, "sqlite")
DOES = {
    "cancel": "ends instances that wait, and asks those that run to stop",
    "claim": "claims what is due soon and nobody has",
    "add": "adds instances that are no fire times'",
    "add_started": "makes the instance of a new definition, and starts it",
    "add_and_start": "the same, and starts those that are due",
    "claim_and_look": "claim, and looks which classes of priority are in use",
    "claim_lapsed": "claims anew what others had claimed and lost",
    "claim_lapsed_past_locks": "claim_lapsed, but for rows that are locked",
    "claim_past_locks": "claim, but for rows that are locked",
    "claimed_current": "finds the claims of a batch that are still current",
    "claimed_free": "locks the instances of a batch that nobody else has locked",
    "definitions": "reads the definitions of instances",
    "delete_completed": "deletes definitions that were completed long ago",
    "delete_contacts": "deletes nodes that were seen long ago, and what was counted",
    "delete_contents": "deletes what goes with a definition that was deleted",
    "delete_deleted": "deletes what is left of definitions that were deleted",
    "delete_ended": "deletes instances that ended long ago, but for failed ones",
    "delete_stats": "deletes what was counted long ago",
    "delete_runs": "deletes what is kept of the runs of instances that are gone",
    "delete_failed": "deletes instances that failed long ago",
    "due": "reads the first page of the definitions that fire soon",
    "due_after": "reads the next page of them",
    "finish": "records how runs ended, and moves on what waited for them",
    "find_lapsed": "finds what others had claimed and lost",
    "finish_current": "finds the instances of a batch that may still be finished",
    "finish_end": "records the end of an instance",
    "finish_found": "finds the instances of a batch that may still be finished",
    "finish_free": "locks what a batch of ends writes and nobody else has locked",
    "finish_retry": "records a failure, after which the instance runs again",
    "finish_well": "records ends of a batch that free nothing and move nothing on",
    "free_slot": "takes back a slot from an instance that has ended",
    "fire": "moves definitions on that are as they were read",
    "fire_and_start": "the same, and starts what it makes",
    "fire_current": "finds the definitions of a batch that are as they were read",
    "fire_free": "locks the definitions of a batch that nobody else has locked",
    "fire_waiting": "fire, where some wait for the end of a run",
    "finish_in_full": "finish, where runs did not succeed, or let go of a slot",
    "finish_in_full_with_results": "the same, where any has a result",
    "finish_with_results": "finish, where any has a result",
    "go_on": "moves a definition on that waited for the end of a run",
    "heads": "guesses in which queues, classes and shards there is something to claim",
    "insert_and_start": "the same of one, and starts its instance",
    "insert_contents": "inserts what users set of definitions whose ids are new",
    "insert_new": "inserts definitions whose ids are new",
    "known": "finds the ids of a batch that are stored, were, or are remembered",
    "keep_lost": "keeps how runs ended whose claim is taken over",
    "keep_result": "keeps what came of a run",
    "keep_run": "keeps how a run ended that did not succeed",
    "list_claimed": "reads what a node has claimed",
    "list_contacts": "reads which nodes were seen lately",
    "live": "reads one definition, and what users set of it",
    "look": "finds out whether there is anything to claim",
    "make": "makes the instance of a fire time",
    "note_contact": "notes that a node was in contact, and which queues it serves",
    "release": "gives instances back",
    "remember": "keeps the id of a definition that has ended",
    "renew": "lets claims hold for longer",
    "renew_elsewhere": "renew, for runs that are kept from outside of nodes",
    "start": "records that handlers are about to be called",
    "start_in_slots": "gives slots to what is about to start, and parks the others",
    "start_in_slots_past_locks": "start_in_slots, but for definitions that are locked",
    "start_past_locks": "start, without waiting for definitions that are locked",
    "take_slot": "gives an instance its slot, if nobody has it",
    "trim_runs": "deletes all that is kept of runs but the last",
    "wanted_slots": "reads which slots the instances of a batch have to have",
}
"""What each statement does; one of a name does the same on every store."""


def statements_of(store: str) -> Mapping[str, str]:
    """The SQL of each statement of a kind of store, by name."""
    if (dialect := _SERVERS.get(store)) is not None:
        return {name: each.sql for name, each in statements_by_name(dialect).items()}
    return {name: str(each).strip() for name, each in STATEMENTS.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one statement, or the names of all and what each does."""
    parser = argparse.ArgumentParser(
        prog="python -m go_scheduler.stores",
        description="Print the SQL of a statement that the loops execute on a store,"
        " or the names of all and what each does.",
    )
    parser.add_argument(
        "--store",
        type=_kind,
        choices=STORES,
        required=True,
        help="the kind of store, or the URL of one: %(choices)s",
    )
    parser.add_argument("--show", metavar="NAME", help="the statement to print")
    given = parser.parse_args(arguments)
    statements = statements_of(given.store)
    if given.show is None:
        sys.stdout.writelines(f"{name:25}{DOES[name]}\n" for name in statements)
    elif given.show in statements:
        sys.stdout.write(f"{statements[given.show]}\n")
    else:
        parser.error(
            f"no statement of {given.store} is called {given.show}; there are"
            f" {', '.join(statements)}"
        )


def _kind(text: str) -> str:
    """The kind of store that a URL, or its scheme, names."""
    scheme = text.partition("://")[0].partition("+")[0].lower()
    return "postgresql" if scheme == "postgres" else scheme


if __name__ == "__main__":
    main()
