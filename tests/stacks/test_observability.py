"""The bucket's key, metrics and lifetimes, and the alarms: what an account gets that asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.read_config import read_config
from stacks.application import define_stacks
from tests.stacks.synthesis import ROOT, Templates, may, write_stack

ASKED = """
  key: own
  request_metrics: true
  lifetimes:
    data: {infrequent_after_days: 30, archive_after_days: 90}
    output: {delete_after_days: 400}
"""


@pytest.fixture(scope="session")
def careful(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """The small example with everything that a storage section may ask for."""
    text = (ROOT / "config" / "example.yaml").read_text() + f"\nstorage:{ASKED}"
    config = read_config(text)
    outdir = tmp_path_factory.mktemp("careful")
    return write_stack(outdir, lambda app: define_stacks(app, config=config, root=ROOT))


def test_objects_lie_under_the_deployments_own_key_and_ask_kms_seldom(careful: Templates) -> None:
    (rule,) = careful.one("AWS::S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert rule["BucketKeyEnabled"] is True
    (key,) = careful.resources("AWS::KMS::Key").values()
    assert key["Properties"]["EnableKeyRotation"] is True
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_whoever_uses_bucket_or_topic_may_use_the_key_and_without_one_nobody_gets_such_a_grant(
    careful: Templates, account: Templates
) -> None:
    key = "<Key.Arn>"
    via_s3 = {"kms_ViaService": "s3.us-east-1.amazonaws.com"}
    for start in ("JobRole", "Intake", "Reconcile", "Publish"):
        (role,) = [logical for logical in careful.resources("AWS::IAM::Role") if logical.startswith(start)]
        statements = careful.role_statements(role)
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            assert may(statements, action, key, **via_s3)
        assert not may(statements, "kms:ScheduleKeyDeletion", key, **via_s3)
    assert not any(action.startswith("kms:") for _, one in account.all_statements() for action in one.actions)


def test_a_job_uses_the_key_for_the_bucket_alone(careful: Templates) -> None:
    (role,) = [logical for logical in careful.resources("AWS::IAM::Role") if logical.startswith("JobRole")]
    statements = careful.role_statements(role)
    assert not may(statements, "kms:Decrypt", "<Key.Arn>", kms_ViaService="sns.us-east-1.amazonaws.com")


def test_alarms_and_events_reach_the_encrypted_topic(careful: Templates) -> None:
    key_policy = {one["Sid"]: one for one in careful.one("AWS::KMS::Key")["KeyPolicy"]["Statement"] if "Sid" in one}
    alarms, events = key_policy["AlarmsIntoTheTopic"], key_policy["EventsIntoTheTopic"]
    assert alarms["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert alarms["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert events["Principal"] == {"Service": "events.amazonaws.com"}
    # Not a condition that EventBridge's calls do not carry: it would drop every message and say nothing.
    assert "Condition" not in events
    assert careful.one("AWS::SNS::Topic")["KmsMasterKeyId"]


def test_the_topic_takes_alarms_also_without_a_key(account: Templates) -> None:
    statements = account.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    (alarms,) = [one for one in statements if one["Effect"] == "Allow"]
    assert (alarms["Principal"], alarms["Action"]) == ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    assert alarms["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_an_event_that_nobody_could_handle_is_an_alarm_in_every_account(account: Templates) -> None:
    alarms = [one for one in _alarms(account) if one["MetricName"] == "ApproximateNumberOfMessagesVisible"]
    assert len(alarms) == 2
    assert all(alarm["AlarmActions"] and alarm["Threshold"] == 0 for alarm in alarms)


def test_each_prefix_with_metrics_has_an_alarm_on_refusals_and_on_slow_answers(careful: Templates) -> None:
    filters = {one["Id"]: one.get("Prefix") for one in careful.one("AWS::S3::Bucket")["MetricsConfigurations"]}
    assert filters == {"all": None, "data": "data/", "checkpoints": "checkpoints/"}
    seen = {
        (alarm["MetricName"], dimension["Value"])
        for alarm in _alarms(careful)
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "FilterId"
    }
    assert seen == {(metric, one) for metric in ("5xxErrors", "FirstByteLatency") for one in filters}


def test_request_metrics_are_not_paid_for_unasked(account: Templates) -> None:
    assert "MetricsConfigurations" not in account.one("AWS::S3::Bucket")


def test_objects_move_and_go_as_the_config_says_and_checkpoints_do_not(careful: Templates) -> None:
    rules = {one["Id"]: one for one in careful.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]}
    moves = rules["lifetime-of-data"]["Transitions"]
    assert [(one["StorageClass"], one["TransitionInDays"]) for one in moves] == [
        ("STANDARD_IA", 30),
        ("GLACIER_IR", 90),
    ]
    assert (rules["lifetime-of-output"]["Prefix"], rules["lifetime-of-output"]["ExpirationInDays"]) == ("output/", 400)
    assert not [one for one in rules.values() if one.get("Prefix") == "checkpoints/" and "ExpirationInDays" in one]


def _alarms(templates: Templates) -> list[dict[str, Any]]:
    return [one["Properties"] for one in templates.resources("AWS::CloudWatch::Alarm").values()]
