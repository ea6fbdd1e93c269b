from __future__ import annotations

from sandbox.sagemaker.profile import AWS, FAST, deviations


def test_aws_deviates_in_nothing_and_the_fast_profile_in_what_it_lists() -> None:
    assert deviations(AWS) == {}
    listed = deviations(FAST)
    assert listed["stop_grace_seconds"] == (120.0, 5.0)
    assert listed["host_metric_seconds"] == (60.0, 5.0)
    assert "keep_host_trees" not in listed
