"""The quotas' stack: what its function may do, and that no quota can stand in a deployment's way."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast.aws.settings import QuotasSettings
from holdfast.core.quotas.wishes import InstanceQuota, QuotaNeeds, Quotas
from stacks.application import config_of_context, define_stacks
from tests.stacks.synthesis import ROOT, Statement, Templates, may, write_stack

BUCKET = "arn:aws:s3:::holdfast-dev-123456789012-us-east-1"
QUOTA = "arn:aws:servicequotas:us-east-1:123456789012"


@pytest.fixture(scope="module")
def quotas(account: Templates) -> list[Statement]:
    (role,) = (one for one in account.resources("AWS::IAM::Role", "-quotas") if one.startswith("QuotasRole"))
    return account.role_statements(role)


def test_it_may_call_what_it_uses_and_nothing_more(quotas: list[Statement]) -> None:
    assert {action for statement in quotas for action in statement.actions} == {
        *("servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"),
        *("servicequotas:ListAWSDefaultServiceQuotas", "servicequotas:ListServiceQuotas"),
        *("servicequotas:ListRequestedServiceQuotaChangeHistory", "servicequotas:RequestServiceQuotaIncrease"),
        "iam:CreateServiceLinkedRole",
        *("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"),
        *("s3:PutObject", "sns:Publish"),
        *("logs:CreateLogStream", "logs:PutLogEvents"),
        *("sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:SendMessage"),
        *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    }


def test_it_asks_for_quotas_of_sagemaker_and_of_no_other_service(quotas: list[Statement]) -> None:
    assert may(quotas, "servicequotas:RequestServiceQuotaIncrease", f"{QUOTA}:sagemaker/L-09B4A649")
    assert not may(quotas, "servicequotas:RequestServiceQuotaIncrease", f"{QUOTA}:ec2/L-1216C47A")


def test_it_makes_the_role_of_service_quotas_and_no_other(quotas: list[Statement]) -> None:
    role = "arn:aws:iam::123456789012:role/aws-service-role/{0}.amazonaws.com/AWSServiceRoleForServiceQuotas"
    call = "iam:CreateServiceLinkedRole"
    own = role.format("servicequotas")
    assert may(quotas, call, own, iam_AWSServiceName="servicequotas.amazonaws.com")
    assert not may(quotas, call, own, iam_AWSServiceName="support.amazonaws.com")
    assert not may(quotas, call, role.format("support"), iam_AWSServiceName="servicequotas.amazonaws.com")


def test_it_writes_its_own_status_and_no_runs(quotas: list[Statement]) -> None:
    assert may(quotas, "s3:PutObject", f"{BUCKET}/status/quotas.json")
    for key in ("status/research/run.json", "manifests/research/run.yaml", "control/research/run.json"):
        assert not may(quotas, "s3:PutObject", f"{BUCKET}/{key}")


def test_it_is_told_exactly_what_its_settings_read(account: Templates) -> None:
    variables = account.one("AWS::Lambda::Function", "QuotasFunction")["Environment"]["Variables"]
    assert set(variables) == {f"HOLDFAST_{field.name.upper()}" for field in fields(QuotasSettings)}
    assert QuotasSettings.from_env(account.written(variables)).teams == "research"


def _with(tmp_path: Path, quotas: Quotas) -> Templates:
    config = config_of_context("config/example.yaml", ROOT).model_copy(update={"quotas": quotas})
    return write_stack(tmp_path, lambda app: define_stacks(app, config=config, root=ROOT))


def test_a_deployment_and_the_daily_schedule_are_told_the_same(tmp_path: Path) -> None:
    wanted = Quotas(instances=(InstanceQuota(instance_type="ml.p4d.24xlarge", on_demand=16),), profiled_jobs=50)
    templates = _with(tmp_path, wanted)
    asked = templates.one("Custom::HoldfastQuotas")["Needs"]
    rule = templates.one("AWS::Events::Rule", "Daily")
    assert rule["ScheduleExpression"] == "rate(1 day)"
    assert json.loads(rule["Targets"][0]["Input"]) == {"needs": asked}
    needs = QuotaNeeds.model_validate_json(asked)
    assert (needs.quotas, needs.max_instances_per_run) == (wanted, 8)
    assert "ml.p4d.24xlarge" in needs.instance_types


def test_a_list_of_quotas_that_no_rule_can_carry_is_refused_in_words(tmp_path: Path) -> None:
    types = tuple(InstanceQuota(instance_type=f"ml.{'x' * 150}{n}.large", on_demand=1) for n in range(50))
    with pytest.raises(ValueError, match=r"quotas and instance_types come to [0-9,]+ characters; at most 8,000"):
        _with(tmp_path, Quotas(instances=types))


def test_the_function_has_its_permissions_before_it_is_called(account: Templates) -> None:
    (asked,) = account.resources("Custom::HoldfastQuotas").values()
    assert any(one.startswith("QuotasRoleDefaultPolicy") for one in asked["DependsOn"])


def test_nothing_of_the_other_stacks_waits_for_a_quota(account: Templates) -> None:
    """A custom resource that is never answered holds up its own stack alone, which nothing refers to."""
    exports = account.by_stack["holdfast-dev-quotas"].get("Outputs", {}).values()
    assert not [one for one in exports if "Export" in one]


@pytest.mark.parametrize("start", ["Problems", "Failures"])
def test_a_problem_and_a_dead_function_both_raise_an_alarm_that_may_publish(account: Templates, start: str) -> None:
    alarm = account.one("AWS::CloudWatch::Alarm", start)
    assert (alarm["Threshold"], alarm["Period"], alarm["TreatMissingData"]) == (1, 86_400, "notBreaching")
    assert [account.written(one) for one in alarm["AlarmActions"]] == ["<Notices>"]
    policy = account.one("AWS::SNS::TopicPolicy", "Notices")["PolicyDocument"]["Statement"]
    allowed = [one for one in policy if one["Effect"] == "Allow"]
    assert [(one["Principal"], one["Action"], one["Condition"]) for one in allowed] == [
        (
            {"Service": "cloudwatch.amazonaws.com"},
            "sns:Publish",
            {"StringEquals": {"aws:SourceAccount": "123456789012"}},
        )
    ]


def test_the_alarm_watches_the_metric_that_the_function_writes(account: Templates) -> None:
    alarm: dict[str, Any] = account.one("AWS::CloudWatch::Alarm", "Problems")
    source = (ROOT / "lambdas/quotas.py").read_text()
    assert f'name="{alarm["MetricName"]}"' in source
    assert f'Metrics(namespace="{alarm["Namespace"]}", service="{alarm["Dimensions"][0]["Value"]}")' in source


def test_what_could_not_be_delivered_or_handled_is_kept(account: Templates) -> None:
    rule = account.one("AWS::Events::Rule", "Daily")
    assert account.written(rule["Targets"][0]["DeadLetterConfig"]["Arn"]) == "<Lost.Arn>"
    config = account.one("AWS::Lambda::EventInvokeConfig", "Quotas")
    assert account.written(config["DestinationConfig"]["OnFailure"]["Destination"]) == "<Lost.Arn>"
