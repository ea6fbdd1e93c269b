from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast.aws.settings import IntakeSettings, PublishSettings, ReconcileSettings
from holdfast.core.config import Team
from stacks.application import config_of_context, define_stacks
from tests.stacks.synthesis import ROOT, Statement, Templates, may, write_stack

FUNCTIONS = ("Intake", "Reconcile", "Publish")
BUCKET = "arn:aws:s3:::holdfast-dev-123456789012-us-east-1"
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job"
DIGEST = f"sha256-{'ab' * 32}"

# Every `Resource: *` of the deployment, and why it cannot be narrower.
WILDCARDS = {
    "cloudwatch:GetMetricData": "knows no resources",
    "cloudwatch:PutMetricData": "knows no resources; narrowed by its namespace",
    "ecr:GetAuthorizationToken": "knows no resources: one token for the whole registry",
    "sagemaker:ListTrainingJobs": "knows no resources",
    **{
        f"servicequotas:{call}": "no read of Service Quotas is authorized on a single quota"
        for call in (
            *("GetAWSDefaultServiceQuota", "GetServiceQuota", "ListAWSDefaultServiceQuotas"),
            *("ListRequestedServiceQuotaChangeHistory", "ListServiceQuotas"),
        )
    },
    "xray:PutTelemetryRecords": "knows no resources",
    "xray:PutTraceSegments": "knows no resources",
}


def _statements(templates: Templates, name: str) -> list[Statement]:
    (role,) = (logical for logical in templates.resources("AWS::IAM::Role") if logical.startswith(f"{name}Role"))
    return templates.role_statements(role)


def _actions(templates: Templates, name: str) -> set[str]:
    return {action for statement in _statements(templates, name) for action in statement.actions}


@pytest.fixture(scope="session")
def intake(account: Templates) -> list[Statement]:
    return _statements(account, "Intake")


@pytest.fixture(scope="session")
def reconcile(account: Templates) -> list[Statement]:
    return _statements(account, "Reconcile")


@pytest.fixture(scope="session")
def publish(account: Templates) -> list[Statement]:
    return _statements(account, "Publish")


EVERY_FUNCTION = {
    *("logs:CreateLogStream", "logs:PutLogEvents"),
    *("sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:SendMessage"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
}


@pytest.mark.parametrize(
    ("name", "services"),
    [
        (
            "Intake",
            {
                *("s3:GetObject", "s3:ListBucket", "s3:PutObject"),
                *("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
                *("sns:Publish", "ssm:GetParameter"),
            },
        ),
        (
            "Reconcile",
            {
                *("s3:DeleteObject", "s3:GetObject", "s3:ListBucket", "s3:PutObject"),
                *(
                    "dynamodb:DeleteItem",
                    "dynamodb:GetItem",
                    "dynamodb:PutItem",
                    "dynamodb:Query",
                    "dynamodb:UpdateItem",
                ),
                *("sagemaker:AddTags", "sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob"),
                *("sagemaker:ListTags", "sagemaker:ListTrainingJobs", "sagemaker:StopTrainingJob"),
                *("cloudwatch:GetMetricData", "iam:PassRole", "logs:FilterLogEvents", "sns:Publish"),
                "lambda:InvokeFunction",
            },
        ),
        ("Publish", {"s3:GetObject", "s3:PutObject"}),
    ],
)
def test_a_function_may_call_what_it_uses_and_nothing_more(account: Templates, name: str, services: set[str]) -> None:
    assert _actions(account, name) == services | EVERY_FUNCTION


def test_no_statement_names_an_action_by_wildcard(account: Templates) -> None:
    named = [(role, action) for role, statement in account.all_statements() for action in statement.actions]
    assert named
    assert not [(role, action) for role, action in named if "*" in action or "?" in action]


def test_every_wildcard_resource_is_one_that_cannot_be_narrower(account: Templates) -> None:
    wild = {
        action
        for _, statement in account.all_statements()
        if "*" in statement.resources
        for action in statement.actions
    }
    assert wild == set(WILDCARDS)


def test_intake_reads_what_people_drop_and_writes_what_they_read(intake: list[Statement]) -> None:
    for key in ("manifests/research/run.yaml", "data/research/code.tar.gz", f"templates/{DIGEST}/deployment.json"):
        assert may(intake, "s3:GetObject", f"{BUCKET}/{key}")
    for key in ("status/research/run.json", f"templates/team/research/{DIGEST}/source.tar.gz"):
        assert may(intake, "s3:PutObject", f"{BUCKET}/{key}")
    for key in ("manifests/research/run.yaml", "data/research/x", "checkpoints/research/x", f"templates/{DIGEST}/x"):
        assert not may(intake, "s3:PutObject", f"{BUCKET}/{key}")
    assert may(intake, "ssm:GetParameter", "arn:aws:ssm:us-east-1:123456789012:parameter/holdfast/dev/bundle")
    assert not may(intake, "ssm:GetParameter", "arn:aws:ssm:us-east-1:123456789012:parameter/another")


def test_reconcile_reads_seals_and_writes_status_and_control_alone(reconcile: list[Statement]) -> None:
    assert may(reconcile, "s3:GetObject", f"{BUCKET}/checkpoints/research/run/g001/step-1/seal.json")
    assert may(reconcile, "s3:ListBucket", BUCKET, s3_prefix="checkpoints/research/run/g001/")
    assert not may(reconcile, "s3:ListBucket", BUCKET, s3_prefix="data/research/")
    for prefix in ("status", "control"):
        assert may(reconcile, "s3:PutObject", f"{BUCKET}/{prefix}/research/run.json")
    for key in ("checkpoints/research/run/g001/x", f"templates/{DIGEST}/x", "manifests/research/run.yaml"):
        assert not may(reconcile, "s3:PutObject", f"{BUCKET}/{key}")
        assert not may(reconcile, "s3:DeleteObject", f"{BUCKET}/{key}")


def test_reconcile_lists_manifests_and_hands_them_to_intake_without_reading_them(reconcile: list[Statement]) -> None:
    assert may(reconcile, "s3:ListBucket", BUCKET, s3_prefix="manifests/")
    assert not may(reconcile, "s3:GetObject", f"{BUCKET}/manifests/research/run.yaml")
    assert may(reconcile, "lambda:InvokeFunction", "<IntakeFunction.Arn>")
    for other in ("<PublishFunction.Arn>", "<ReconcileFunction.Arn>"):
        assert not may(reconcile, "lambda:InvokeFunction", other)


def test_reconcile_creates_and_stops_its_own_jobs_and_no_other(reconcile: list[Statement]) -> None:
    for action in ("sagemaker:CreateTrainingJob", "sagemaker:StopTrainingJob", "sagemaker:AddTags"):
        assert may(reconcile, action, f"{JOB}/dev-research-run-0123abcd-a001")
        assert not may(reconcile, action, f"{JOB}/somebody-elses-job")


def test_reconcile_passes_the_teams_roles_to_sagemaker_and_no_other_role(reconcile: list[Statement]) -> None:
    role = "role/holdfast-dev-us-east-1-research"
    assert may(reconcile, "iam:PassRole", role, iam_PassedToService="sagemaker.amazonaws.com")
    assert not may(reconcile, "iam:PassRole", role, iam_PassedToService="ec2.amazonaws.com")
    assert not may(reconcile, "iam:PassRole", "role/admin", iam_PassedToService="sagemaker.amazonaws.com")


def test_publish_reads_its_one_asset_and_writes_releases_alone(account: Templates, publish: list[Statement]) -> None:
    bundle = account.one("Custom::HoldfastBundle")
    asset = f"arn:aws:s3:::{bundle['AssetBucket']}/{bundle['AssetKey']}"
    assert may(publish, "s3:GetObject", asset)
    assert not may(publish, "s3:GetObject", f"arn:aws:s3:::{bundle['AssetBucket']}/another.zip")
    assert may(publish, "s3:PutObject", f"{BUCKET}/templates/{DIGEST}/agent/__main__.py")
    assert not may(publish, "s3:PutObject", f"{BUCKET}/templates/team/research/x")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_writes_to_its_own_log_group_alone(account: Templates, name: str) -> None:
    (lines,) = (one for one in _statements(account, name) if "logs:PutLogEvents" in one.actions)
    assert lines.resources == (f"<{name}Logs.Arn>",)
    assert account.one("AWS::Logs::LogGroup", name)["RetentionInDays"] == 90
    function = account.one("AWS::Lambda::Function", name)
    assert function["LoggingConfig"]["LogGroup"]["Ref"].startswith(f"{name}Logs")


@pytest.mark.parametrize(
    ("name", "settings"),
    [("Intake", IntakeSettings), ("Reconcile", ReconcileSettings), ("Publish", PublishSettings)],
)
def test_a_function_is_told_exactly_what_its_settings_read(account: Templates, name: str, settings: Any) -> None:
    variables = account.one("AWS::Lambda::Function", name)["Environment"]["Variables"]
    assert set(variables) == {f"HOLDFAST_{field.name.upper()}" for field in fields(settings)}
    read = settings.from_env(account.written(variables))
    assert read.bucket == "holdfast-dev-123456789012-us-east-1"


def test_there_are_four_functions_and_each_handler_is_in_the_source(account: Templates) -> None:
    functions = account.resources("AWS::Lambda::Function").values()
    handlers = {function["Properties"]["Handler"] for function in functions}
    assert handlers == {f"lambdas.{name}.handler" for name in ("intake", "reconcile", "publish", "quotas")}
    for handler in handlers:
        module, _, name = handler.rpartition(".")
        found = importlib.util.find_spec(module)
        assert found
        assert found.origin
        assert f"def {name}(" in (ROOT / found.origin).read_text()


def test_all_functions_share_one_asset_for_the_configured_platform(account: Templates, sandbox: Templates) -> None:
    for templates, architecture in ((account, "arm64"), (sandbox, None)):
        functions = [one["Properties"] for one in templates.resources("AWS::Lambda::Function").values()]
        assert len({(one["Code"]["S3Key"], one["Runtime"], *one["Architectures"]) for one in functions}) == 1
        assert architecture is None or functions[0]["Architectures"] == [architecture]
    assert account.one("AWS::Lambda::Function", "Intake")["Runtime"] == "python3.13"


def test_functions_stay_outside_a_vpc_and_reserve_no_concurrency(account: Templates) -> None:
    for function in account.resources("AWS::Lambda::Function").values():
        assert not {"VpcConfig", "ReservedConcurrentExecutions"} & function["Properties"].keys()


def _called(templates: Templates, rule: dict[str, Any]) -> str:
    (target,) = rule["Targets"]
    return str(templates.written(target["Arn"]))


def test_a_dropped_manifest_reaches_intake_and_other_objects_do_not(account: Templates) -> None:
    rule = account.one("AWS::Events::Rule", "ManifestDropped")
    assert _called(account, rule) == "<IntakeFunction.Arn>"
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {
            "bucket": {"name": ["holdfast-dev-123456789012-us-east-1"]},
            "object": {"key": [{"prefix": "manifests/"}]},
        },
    }


def test_a_changed_job_of_ours_reaches_reconcile_and_other_peoples_do_not(account: Templates) -> None:
    rule = account.one("AWS::Events::Rule", "TrainingJobChanged")
    assert _called(account, rule) == "<ReconcileFunction.Arn>"
    assert rule["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
        "detail": {"TrainingJobName": [{"prefix": "dev-"}]},
    }


def test_reconcile_ticks_every_minute_and_neither_tick_nor_call_is_repeated(account: Templates) -> None:
    rule = account.one("AWS::Events::Rule", "Tick")
    assert _called(account, rule) == "<ReconcileFunction.Arn>"
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["Targets"][0]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert account.one("AWS::Lambda::EventInvokeConfig", "Reconcile")["MaximumRetryAttempts"] == 0
    assert account.one("AWS::Lambda::Function", "Reconcile")["Timeout"] < 60


def test_each_rule_may_call_its_function_and_no_one_else_may(account: Templates) -> None:
    permissions = [one["Properties"] for one in account.resources("AWS::Lambda::Permission").values()]
    assert len(permissions) == len(account.resources("AWS::Events::Rule")) == 4
    for permission in permissions:
        assert permission["Principal"] == "events.amazonaws.com"
        assert permission["SourceArn"]["Fn::GetAtt"][0] in account.resources("AWS::Events::Rule")


def test_what_could_not_be_delivered_or_handled_is_kept(account: Templates) -> None:
    for rule in account.resources("AWS::Events::Rule", "control-plane").values():
        (target,) = rule["Properties"]["Targets"]
        assert account.written(target["DeadLetterConfig"]["Arn"]) == "<UndeliveredEvents.Arn>"
    for name in FUNCTIONS:
        config = account.one("AWS::Lambda::EventInvokeConfig", name)
        destination = config["DestinationConfig"]["OnFailure"]["Destination"]
        assert account.written(destination) == "<FailedInvocations.Arn>"


@pytest.mark.parametrize("kind", ["AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"])
def test_queues_and_topic_take_tls_only(account: Templates, kind: str) -> None:
    policies = account.resources(kind).values()
    assert policies
    for policy in policies:
        denials = [one for one in policy["Properties"]["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        assert [one["Condition"] for one in denials] == [{"Bool": {"aws:SecureTransport": "false"}}]


def test_queues_are_encrypted(account: Templates) -> None:
    queues = account.resources("AWS::SQS::Queue").values()
    assert len(queues) == 3
    assert all(queue["Properties"]["SqsManagedSseEnabled"] is True for queue in queues)


def test_the_bundle_is_named_only_after_it_was_published_and_rules_start_after_that(account: Templates) -> None:
    ((parameter_id, parameter),) = account.resources("AWS::SSM::Parameter").items()
    ((published_id, published),) = account.resources("Custom::HoldfastBundle").items()
    assert parameter["DependsOn"] == [published_id]
    assert parameter["Properties"]["Name"] == "/holdfast/dev/bundle"
    assert parameter["Properties"]["Value"] == published["Properties"]["Digest"]
    assert account.written(published["Properties"]["ServiceToken"]) == "<PublishFunction.Arn>"
    # The function's permissions are a resource of their own; without this it may run before it has them.
    assert any(one.startswith("PublishRoleDefaultPolicy") for one in published["DependsOn"])
    for rule in account.resources("AWS::Events::Rule", "control-plane").values():
        assert parameter_id in rule["DependsOn"]


def test_people_and_the_sandbox_find_what_they_need_in_the_outputs(account: Templates) -> None:
    named = {
        name: account.written(output["Value"])
        for template in account.by_stack.values()
        for name, output in template.get("Outputs", {}).items()
        if "Export" not in output
    }
    assert set(named) == {
        *("BucketName", "TableName", "TopicArn"),
        *("IntakeFunction", "ReconcileFunction", "QuotasFunction"),
    }
    assert named["BucketName"] == "holdfast-dev-123456789012-us-east-1"


def test_an_address_gets_the_notices_of_its_own_teams_alone(tmp_path: Path) -> None:
    teams = {
        "research": Team(notify_emails=("ann@example.org", "ops@example.org")),
        "vision": Team(notify_emails=("ops@example.org",)),
    }
    config = config_of_context("config/example.yaml", ROOT).model_copy(update={"teams": teams})
    templates = write_stack(tmp_path, lambda app: define_stacks(app, config=config, root=ROOT))
    told = {
        one["Properties"]["Endpoint"]: one["Properties"]["FilterPolicy"]
        for one in templates.resources("AWS::SNS::Subscription").values()
    }
    assert told == {"ann@example.org": {"team": ["research"]}, "ops@example.org": {"team": ["research", "vision"]}}


def test_an_operator_gets_what_has_no_team_and_each_notice_once(tmp_path: Path) -> None:
    teams = {"research": Team(notify_emails=("ann@example.org", "ops@example.org"))}
    config = config_of_context("config/example.yaml", ROOT)
    config = config.model_copy(update={"teams": teams, "operator_emails": ("ops@example.org",)})
    templates = write_stack(tmp_path, lambda app: define_stacks(app, config=config, root=ROOT))
    told = {
        one["Properties"]["Endpoint"]: one["Properties"].get("FilterPolicy")
        for one in templates.resources("AWS::SNS::Subscription").values()
    }
    assert told == {"ann@example.org": {"team": ["research"]}, "ops@example.org": None}
