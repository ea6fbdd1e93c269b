import pytest

from holdfast.core.detect.flat_hosts import Movement, flat_hosts, horizon_of
from tests.observations import NOW, hosts_at

SINCE = NOW - 120


@pytest.mark.parametrize("level", [0.0, 100.0, 798.0])
def test_gpus_that_do_not_change_are_flat_at_any_level(level: float) -> None:
    found = flat_hosts(hosts_at(level, metric="GPUUtilization", swing=1.0), hosts=2, since=SINCE)
    assert found.movement is Movement.FLAT


@pytest.mark.parametrize("level", [0.0, 90.0])
def test_gpus_that_change_are_moving_however_low(level: float) -> None:
    found = flat_hosts(hosts_at(level, metric="GPUUtilization", swing=5.0), hosts=2, since=SINCE)
    assert found.movement is Movement.MOVING


def test_a_cpu_near_zero_is_flat() -> None:
    assert flat_hosts(hosts_at(0.2), hosts=2, since=SINCE).movement is Movement.FLAT


def test_a_cpu_that_works_steadily_is_moving_although_its_level_does_not_change() -> None:
    assert flat_hosts(hosts_at(99.0), hosts=2, since=SINCE).movement is Movement.MOVING


def test_gpus_decide_where_a_host_has_both() -> None:
    both = hosts_at(100.0, metric="GPUUtilization") + hosts_at(140.0, metric="CPUUtilization")
    assert flat_hosts(both, hosts=2, since=SINCE).movement is Movement.FLAT


def test_one_moving_host_among_flat_ones_is_moving() -> None:
    mixed = (*hosts_at(0.0, count=1), *(one for one in hosts_at(80.0, count=2) if one.host == "algo-2"))
    assert flat_hosts(mixed, hosts=2, since=SINCE).movement is Movement.MOVING


def test_a_host_that_does_not_report_makes_it_unknown() -> None:
    assert flat_hosts(hosts_at(0.0, count=1), hosts=2, since=SINCE).movement is Movement.UNKNOWN
    assert flat_hosts(hosts_at(0.0, count=2), hosts=2, since=SINCE).movement is Movement.FLAT


def test_fewer_than_three_points_since_the_step_make_it_unknown() -> None:
    assert flat_hosts(hosts_at(0.0), hosts=2, since=NOW - 15).movement is Movement.UNKNOWN
    assert flat_hosts(hosts_at(0.0), hosts=2, since=NOW - 25).movement is Movement.FLAT


def test_the_horizon_is_that_of_the_host_that_reported_longest_ago() -> None:
    late = tuple(one for one in hosts_at(0.0, lag=40.0) if one.host == "algo-2")
    assert horizon_of((*hosts_at(0.0, count=1), *late), 2) == NOW - 40
    assert horizon_of(late, 2) is None
