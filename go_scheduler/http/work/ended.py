"""What is answered to those who report of a run that is not theirs any more."""

from __future__ import annotations

from go_scheduler.http.problems import Problem


def lost() -> Problem:
    """That of a run which goes on elsewhere, or whose instance has ended."""
    return Problem(
        409,
        "lost",
        "The run is lost",
        "it runs elsewhere by now, or its instance has ended: stop working on it",
    )


def ended_otherwise() -> Problem:
    """That of a success which is not the first."""
    return Problem(
        409,
        "ended",
        "It has ended otherwise",
        "another run has completed it, or it was cancelled or deleted: this success"
        " changes nothing",
    )
