"""How often a caller may call, and how many workers may wait, is bounded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.rate_limits import Rate, Rates, Waiting, network_of
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

RATE = Rate(per_second=2, burst=3)


def caller(subject: str) -> Caller:
    return Caller(subject=subject, scopes=frozenset())


def test_a_burst_is_let_through_and_then_so_many_a_second(clock: ManualClock) -> None:
    rates = Rates(RATE, clock)
    assert [rates.take("a") for _ in range(3)] == [ZERO] * 3
    assert rates.take("a") == timedelta(seconds=0.5)
    assert rates.take("b") == ZERO
    clock.advance(timedelta(seconds=0.5))
    assert rates.take("a") == ZERO
    assert rates.take("a") > ZERO


def test_nobody_saves_up_more_than_a_burst(clock: ManualClock) -> None:
    rates = Rates(RATE, clock)
    rates.take("a")
    clock.advance(timedelta(hours=1))
    assert [rates.take("a") for _ in range(4)].count(ZERO) == 3


def test_the_caller_that_called_least_lately_is_forgotten(clock: ManualClock) -> None:
    rates = Rates(Rate(per_second=1, burst=1), clock, most=2)
    for each in ("a", "b", "a", "c"):
        rates.take(each)
    assert rates.take("a") > ZERO
    assert rates.take("b") == ZERO  # which was forgotten, as it was not c


@pytest.mark.parametrize("rate", [(0, 1), (1, 0), (float("nan"), 1)])
def test_a_rate_that_lets_nobody_through_is_refused(rate: tuple[float, int]) -> None:
    with pytest.raises(ConfigurationError, match="at least 1 per second"):
        Rate(per_second=rate[0], burst=rate[1])


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("testclient", "testclient"),
    ],
)
def test_what_one_caller_may_have_many_of_is_one(address: str, network: str) -> None:
    assert network_of(address) == network


def test_so_many_workers_may_wait_of_one_caller_and_of_all() -> None:
    waiting = Waiting(each=1, all=2)
    with waiting.place(caller("a")):
        with pytest.raises(Problem, match="of this caller") as refused:
            waiting.place(caller("a")).__enter__()
        assert refused.value.status == 429
        assert refused.value.headers == {"Retry-After": "5"}
        with (
            waiting.place(caller("b")),
            pytest.raises(Problem, match="2 workers are waiting"),
        ):
            waiting.place(caller("c")).__enter__()
    with waiting.place(caller("a")), waiting.place(caller("c")):
        pass


def test_a_place_that_is_left_is_free_again() -> None:
    waiting = Waiting(each=2, all=2)
    with waiting.place(caller("a")):
        for _ in range(3):
            with waiting.place(caller("a")):
                pass
