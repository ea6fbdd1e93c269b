"""The sweep: one at a time, bounded in time, and no run takes another's turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from holdfast.aws.lost_manifests import Handed
from holdfast.aws.survey import NotThisTickError, Survey
from holdfast.aws.sweep import LEASE_SECONDS, LONGEST_NAP_SECONDS, SWEEP_SECONDS
from holdfast.aws.tokens import Call
from holdfast.core.model import Run
from holdfast.core.observation import Observation
from holdfast.core.reconcile import SendCreate
from tests.builders import a_run
from tests.fakes import FakeAccount, FakeStore, Watcher
from tests.observations import NOW

NAMES = [f"run-{number}" for number in range(6)]


class KilledError(BaseException):
    """The function was killed: out of memory, or out of time. No handler of ours runs after it."""


class Night:
    """Six runs and a watcher. `costs` are the seconds that one look takes."""

    def __init__(self, *, costs: float = 0.0) -> None:
        self.store = FakeStore(*(a_run(name=name) for name in NAMES))
        self.account = FakeAccount(NOW)
        self.watcher = Watcher(self.store, self.account)
        self.looked: list[str] = []
        self.costs = costs
        self.happens: dict[str, Callable[[], None]] = {}
        self._observe = self.account.observe
        self.account.observe = self.observe  # type: ignore[method-assign]

    def observe(self, run: Run, *, read_seals_too: bool = False, survey: Survey | None = None) -> Observation:
        self.looked.append(run.name)
        self.account.now += self.costs
        self.happens.get(run.name, lambda: None)()
        return self._observe(run, read_seals_too=read_seals_too, survey=survey)

    def looks(self) -> list[str]:
        looked, self.looked = self.looked, []
        return looked

    def created(self) -> set[str]:
        return {one.job for one in self.account.calls if isinstance(one, SendCreate)}


def dies() -> None:
    raise KilledError


def test_a_second_sweep_at_once_does_nothing_and_says_so() -> None:
    night = Night()
    second: list[str] = []
    night.happens["run-0"] = lambda: second.append(night.watcher.sweep.run().words)
    swept = night.watcher.sweep.run()
    assert second == ["another sweep is under way; this one does nothing"]
    assert night.looks() == NAMES
    assert len(swept.reports) == 6


def test_a_sweep_that_died_blocks_the_next_no_longer_than_the_function_could_have_lived() -> None:
    night = Night()
    night.happens["run-0"] = dies
    with pytest.raises(KilledError):
        night.watcher.sweep.run()
    night.happens.clear()
    night.account.now += LEASE_SECONDS - 1
    assert night.watcher.sweep.run().reports == ()
    night.account.now += 1
    swept = night.watcher.sweep.run()
    assert len(swept.reports) == 6
    assert "did not end" in swept.words


def test_the_lease_outlives_the_sweep_and_is_over_before_the_next_minute() -> None:
    assert SWEEP_SECONDS < LEASE_SECONDS < 60


def test_a_sweep_ends_with_its_time_and_the_next_begins_with_what_did_not_fit() -> None:
    night = Night(costs=15.0)
    swept = night.watcher.sweep.run()
    assert (night.looks(), swept.left) == (NAMES[:3], 3)
    night.account.now += 60
    night.watcher.sweep.run()
    assert night.looks() == NAMES[3:]
    night.account.now += 60
    night.watcher.sweep.run()
    assert night.looks() == NAMES[:3]


def test_a_run_that_fails_every_time_takes_nobodys_turn() -> None:
    night = Night(costs=15.0)
    night.happens["run-1"] = lambda: (_ for _ in ()).throw(ValueError("poison"))
    looked = []
    for _ in range(4):
        night.watcher.sweep.run()
        looked += night.looks()
        night.account.now += 60
    assert looked == NAMES * 2


def test_a_run_that_kills_the_function_takes_nobodys_turn_for_longer_than_two_sweeps() -> None:
    night = Night()
    night.happens["run-1"] = dies
    for expected in (NAMES[:2], NAMES[:2], [*NAMES[2:], NAMES[0], NAMES[1]], [*NAMES[2:], NAMES[0], NAMES[1]]):
        with pytest.raises(KilledError):
            night.watcher.sweep.run()
        assert night.looks() == expected
        night.account.now += 60
    night.happens.clear()
    assert "was looking at research/run-1" in night.watcher.sweep.run().words
    night.looks()
    night.account.now += 60
    night.watcher.sweep.run()
    assert night.looks() == NAMES  # and all is as before


def test_a_quiet_sweep_writes_its_item_twice_however_many_runs_there_are() -> None:
    night = Night()
    night.watcher.sweep.run()
    assert night.watcher.item.writes == 2  # type: ignore[attr-defined]


def test_a_record_that_cannot_be_read_is_reported_and_the_others_are_looked_at() -> None:
    night = Night()
    spoiled = night.store.get("research", "run-2")
    assert spoiled is not None
    night.store.spoil(spoiled)
    reports = night.watcher.sweep.run().reports
    assert [one.run for one in reports if one.error] == ["research/run-2"]
    assert night.looks() == [name for name in NAMES if name != "run-2"]


def test_an_index_that_cannot_be_read_is_raised_and_the_lease_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night()
    error = ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "Query")
    with monkeypatch.context() as broken:
        broken.setattr(night.store, "active", lambda: (_ for _ in ()).throw(error))
        with pytest.raises(ClientError):
            night.watcher.sweep.run()
    assert len(night.watcher.sweep.run().reports) == 6


def test_without_a_token_nothing_is_sent_or_written_and_the_next_tick_derives_it_again() -> None:
    night = Night()
    night.watcher.tokens.left = {Call.CREATE: 0}
    writes = night.store.writes
    assert night.watcher.sweep.run().left == 6
    assert night.store.writes == writes
    assert len(night.looks()) <= SWEEP_SECONDS  # one look a second, since there might have been a token
    night.watcher.tokens.left = {Call.CREATE: 2}
    night.watcher.sweep.run()
    assert len(night.created()) == 2
    night.watcher.tokens.left = {}
    night.watcher.sweep.run()
    assert len(night.created()) == 6


def test_a_wait_for_a_token_is_short_and_ends_with_the_sweep() -> None:
    night = Night()
    night.watcher.tokens.left = {Call.CREATE: 0}
    naps: list[float] = []
    began = night.account.now

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        night.account.now += seconds

    night.watcher.sweep._sleep = sleep
    night.watcher.sweep.run()
    assert naps
    assert max(naps) <= LONGEST_NAP_SECONDS
    assert night.account.now - began <= SWEEP_SECONDS


def test_runs_that_wait_for_a_token_do_not_hold_up_those_that_need_none() -> None:
    night = Night()
    night.watcher.sweep.run()
    night.store.save(a_run(name="a-new-one"))
    night.watcher.tokens.left = {Call.CREATE: 0}
    night.looks()
    assert night.watcher.sweep.run().left == 1
    assert [name for name in night.looks() if name != "a-new-one"] == NAMES


def test_what_did_not_fit_because_reads_were_used_up_goes_first_next_time() -> None:
    night = Night()
    night.watcher.sweep.run()
    night.happens["run-3"] = lambda: (_ for _ in ()).throw(NotThisTickError("used up"))
    assert night.watcher.sweep.run().left == 1
    night.happens.clear()
    night.looks()
    night.watcher.sweep.run()
    assert night.looks() == [*NAMES[3:], *NAMES[:3]]


class Handing:
    def __init__(self, *, whole: bool = True) -> None:
        self.windows: list[tuple[float, float]] = []
        self.whole = whole

    def hand_over(self, since: float, to: float, *, until: float) -> Handed:
        assert until > to
        self.windows.append((since, to))
        return Handed(whole=self.whole)


@pytest.mark.parametrize("whole", [True, False])
def test_every_fifth_sweep_compares_the_manifests_and_goes_on_only_where_all_were(whole: bool) -> None:
    account = FakeAccount(NOW)
    handing = Handing(whole=whole)
    watcher = Watcher(FakeStore(), account, lost_manifests=handing)
    for _ in range(11):
        account.now += 60
        watcher.sweep.run()
    (first_from, first_to), (second_from, _) = handing.windows
    assert first_to == NOW + 5 * 60 - 60
    assert first_from < first_to - 3_600
    assert (first_to - 3_600 < second_from <= first_to) is whole


def test_a_sweep_whose_lease_was_taken_meanwhile_says_so_and_writes_no_state() -> None:
    night = Night()
    between: list[int] = []

    def overtaken() -> None:
        night.happens.clear()
        night.account.now += LEASE_SECONDS
        between.append(len(night.watcher.sweep.run().reports))

    night.happens["run-5"] = overtaken
    swept = night.watcher.sweep.run()
    assert between == [6]
    assert "was taken by another" in swept.words
