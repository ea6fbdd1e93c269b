"""The API over the wire: what it refuses and in which words, lists, tags, and who may call it."""

from __future__ import annotations

import json
import uuid
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sandbox.sagemaker.api import service_model
from sandbox.sagemaker.shape_check import unknown_members, violations
from tests.sandbox.sagemaker.conftest import BUCKET, Lab, channel


def refusal(call: Any, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


class TestRefusals:
    def test_every_violation_of_the_model_comes_back_in_one_validation_exception(self, lab: Lab) -> None:
        status, body = lab.wire("CreateTrainingJob", {"TrainingJobName": "a_b", "OutputDataConfig": {}})
        assert status == 400
        assert body["__type"] == "ValidationException"
        assert body["message"].startswith("3 validation errors detected: Value null at 'roleArn' failed to satisfy")

    def test_an_unknown_parameter_is_named(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        request["OutputDataConfig"]["Compression"] = "GZIP"
        status, body = lab.wire("CreateTrainingJob", request)
        assert (status, body["__type"]) == (400, "ValidationException")
        assert body["message"] == "Unknown parameter in the request: OutputDataConfig.Compression"

    def test_a_value_of_another_type_cannot_be_read(self, lab: Lab) -> None:
        status, body = lab.wire("DescribeTrainingJob", {"TrainingJobName": ["job"]})
        assert (status, body["__type"]) == (400, "SerializationException")

    def test_an_operation_that_is_not_emulated_says_so(self, lab: Lab) -> None:
        status, body = lab.wire("CreateProcessingJob", {})
        assert (status, body["__type"]) == (400, "UnknownOperationException")
        assert "CreateProcessingJob" in body["message"]

    def test_a_rule_across_parameters_is_aws_s_and_a_limit_of_the_sandbox_is_called_one(
        self, lab: Lab, role: str
    ) -> None:
        create = lab.client("sagemaker").create_training_job
        request = lab.request("", role=role)
        waiting = {**request, "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}}
        code, message = refusal(create, **waiting)
        assert (code, message.startswith("Invalid MaxWaitTimeInSeconds.")) == ("ValidationException", True)
        del request["AlgorithmSpecification"]["ContainerEntrypoint"]
        code, message = refusal(create, **request)
        assert (code, message.startswith("Not emulated by the sandbox: images")) == ("ValidationException", True)

    @pytest.mark.parametrize("operation", ["describe_training_job", "stop_training_job"])
    def test_an_unknown_job_is_not_found(self, lab: Lab, operation: str) -> None:
        answer = refusal(getattr(lab.client("sagemaker"), operation), TrainingJobName="nobody")
        assert answer == ("ValidationException", "Requested resource not found.")

    def test_a_name_is_used_once(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        lab.create(request)
        code, message = refusal(lab.client("sagemaker").create_training_job, **request)
        assert code == "ResourceInUse"
        assert message.startswith("Training job names must be unique within an AWS account and region")

    def test_a_refused_job_leaves_its_name_free(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        broken = {**request, "InputDataConfig": [channel("none", "nothing/")]}
        refusal(lab.client("sagemaker").create_training_job, **broken)
        assert lab.create(request)


class TestRoles:
    def test_a_role_that_does_not_trust_sagemaker_is_refused_at_once(self, lab: Lab) -> None:
        stranger = lab.role(trusts="lambda.amazonaws.com")
        code, message = refusal(lab.client("sagemaker").create_training_job, **lab.request("", role=stranger))
        assert code == "ValidationException"
        assert message == (
            f"Could not assume role {stranger}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        )

    def test_a_channel_without_objects_is_refused_at_once(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        request["InputDataConfig"].append(channel("train", "data/empty/"))
        code, message = refusal(lab.client("sagemaker").create_training_job, **request)
        assert code == "ValidationException"
        assert message == (
            f'No S3 objects found under S3 URL "s3://{BUCKET}/data/empty/" given in input data source. Please ensure '
            "that the bucket exists in the selected region (us-east-1), that objects exist under that S3 prefix, and "
            f'that the role "{role}" has "s3:ListBucket" permissions on bucket "{BUCKET}".'
        )

    def test_a_role_that_may_not_list_gets_the_same_words_and_s3_s_own(self, lab: Lab) -> None:
        blind = lab.role("list")
        code, message = refusal(lab.client("sagemaker").create_training_job, **lab.request("", role=blind))
        assert (code, message.startswith("No S3 objects found under S3 URL")) == ("ValidationException", True)
        assert " Error message from S3: " in message

    @pytest.mark.parametrize(
        ("missing", "reason", "last"),
        [
            ("read", "ClientError: Data download failed:AccessDenied (403): Access Denied", "Downloading"),
            ("token", "ClientError: Cannot pull algorithm container. Either the image does not exist", "Training"),
            ("pull", "ClientError: Cannot pull algorithm container. Either the image does not exist", "Training"),
            ("logs", "ClientError: CloudWatch Logs: ", "Training"),
            ("metrics", "ClientError: The role ", "Starting"),
        ],
    )
    def test_a_permission_that_is_missing_fails_the_job_where_it_is_needed(
        self, lab: Lab, missing: str, reason: str, last: str
    ) -> None:
        described = lab.run(lab.request("print('ran')", role=lab.role(missing)))
        assert described["TrainingJobStatus"] == "Failed"
        assert described["FailureReason"].startswith(reason)
        assert described["SecondaryStatusTransitions"][-2]["Status"] == last
        assert lab.lines(described["TrainingJobName"]) == []

    def test_a_role_that_may_not_write_the_artifacts_fails_after_the_training(self, lab: Lab) -> None:
        script = "import os, pathlib; pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'], 'model/x').write_text('x')"
        described = lab.run(lab.request(script, role=lab.role("write")))
        assert described["FailureReason"].startswith(
            "ClientError: Artifact upload failed:Error 7: AccessDenied (403): "
        )
        assert described["SecondaryStatusTransitions"][-2]["Status"] == "Uploading"

    def test_the_job_itself_acts_as_its_role(self, lab: Lab, role: str) -> None:
        script = """
import boto3
print(boto3.client("sts").get_caller_identity()["Arn"])
try:
    boto3.client("dynamodb").list_tables()
except Exception as error:
    print(error.response["Error"]["Code"])
"""
        job = lab.run(lab.request(script, role=role))["TrainingJobName"]
        name = role.rpartition("/")[2]
        identity, refused = lab.lines(job)
        assert identity.startswith(f"arn:aws:sts::{lab.cloud.account}:assumed-role/{name}/")
        assert refused == "AccessDeniedException"


class TestCallers:
    """A caller with a role of its own, as the product's Lambdas are."""

    def client(self, lab: Lab, *statements: dict[str, Any]) -> Any:
        user = f"user-{uuid.uuid4().hex[:8]}"
        iam = lab.client("iam")
        iam.create_user(UserName=user)
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **entry} for entry in statements]}
        iam.put_user_policy(UserName=user, PolicyName="caller", PolicyDocument=json.dumps(document))
        key = iam.create_access_key(UserName=user)["AccessKey"]
        return boto3.client(
            "sagemaker",
            endpoint_url=lab.cloud.endpoint_url,
            region_name=lab.cloud.region,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )

    def test_who_may_not_pass_the_role_cannot_create(self, lab: Lab, role: str) -> None:
        client = self.client(lab, {"Action": "sagemaker:*", "Resource": "*"})
        code, message = refusal(client.create_training_job, **lab.request("", role=role))
        assert code == "AccessDeniedException"
        assert f"is not authorized to perform: iam:PassRole on resource: {role}" in message

    def test_who_may_pass_it_to_sagemaker_can(self, lab: Lab, role: str) -> None:
        passing = {
            "Action": "iam:PassRole",
            "Resource": role,
            "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        }
        client = self.client(lab, {"Action": "sagemaker:CreateTrainingJob", "Resource": "*"}, passing)
        assert client.create_training_job(**lab.request("", role=role))["TrainingJobArn"]

    def test_who_may_pass_it_to_another_service_only_cannot(self, lab: Lab, role: str) -> None:
        passing = {
            "Action": "iam:PassRole",
            "Resource": role,
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        }
        client = self.client(lab, {"Action": "sagemaker:CreateTrainingJob", "Resource": "*"}, passing)
        assert refusal(client.create_training_job, **lab.request("", role=role))[0] == "AccessDeniedException"

    def test_tags_at_creation_need_a_permission_of_their_own(self, lab: Lab, role: str) -> None:
        passing = {"Action": "iam:PassRole", "Resource": role}
        client = self.client(lab, {"Action": "sagemaker:CreateTrainingJob", "Resource": "*"}, passing)
        request = {**lab.request("", role=role), "Tags": [{"Key": "a", "Value": "b"}]}
        code, message = refusal(client.create_training_job, **request)
        assert (code, "sagemaker:AddTags" in message) == ("AccessDeniedException", True)

    def test_a_job_is_authorized_by_its_arn(self, lab: Lab, role: str) -> None:
        mine, other = lab.create(lab.request("", role=role)), lab.create(lab.request("", role=role))
        arn = f"arn:aws:sagemaker:us-east-1:{lab.cloud.account}:training-job/{mine}"
        client = self.client(lab, {"Action": "sagemaker:DescribeTrainingJob", "Resource": arn})
        assert client.describe_training_job(TrainingJobName=mine)["TrainingJobArn"] == arn
        assert refusal(client.describe_training_job, TrainingJobName=other)[0] == "AccessDeniedException"


class TestLists:
    @staticmethod
    def list(lab: Lab, **query: Any) -> list[dict[str, Any]]:
        """On the wire, since botocore cuts a time to whole seconds before it sends it."""
        status, body = lab.wire("ListTrainingJobs", query)
        assert status == 200, body
        return list(body["TrainingJobSummaries"])

    def test_jobs_are_listed_by_name_time_and_page(self, lab: Lab, role: str) -> None:
        family = f"list-{uuid.uuid4().hex[:6]}"
        names = [lab.create(lab.request("", role=role, name=f"{family}-{letter}")) for letter in "abc"]
        for name in names:
            lab.wait_for(name, "Completed")  # so that nothing changes between two lists
        listing = lab.client("sagemaker").list_training_jobs
        first = listing(NameContains=family, SortBy="Name", MaxResults=2)
        rest = listing(NameContains=family, SortBy="Name", MaxResults=2, NextToken=first["NextToken"])
        listed = [entry["TrainingJobName"] for entry in first["TrainingJobSummaries"] + rest["TrainingJobSummaries"]]
        assert listed == names
        assert "NextToken" not in rest
        latest = self.list(lab, NameContains=family, SortOrder="Descending")
        assert [entry["TrainingJobName"] for entry in latest] == names[::-1]
        created = latest[1]["CreationTime"]
        assert self.list(lab, NameContains=family, CreationTimeAfter=created) == latest[:1]
        assert self.list(lab, NameContains=family, CreationTimeBefore=created) == latest[2:]

    def test_a_status_is_filtered_after_the_page_was_taken(self, lab: Lab, role: str) -> None:
        family = f"page-{uuid.uuid4().hex[:6]}"
        lab.run(lab.request("", role=role, name=f"{family}-a"))
        failed = lab.run(lab.request("raise SystemExit(1)", role=role, name=f"{family}-b"))
        listing = lab.client("sagemaker").list_training_jobs
        page = listing(NameContains=family, SortBy="Name", MaxResults=1, StatusEquals="Failed")
        assert page["TrainingJobSummaries"] == []
        (entry,) = listing(
            NameContains=family, SortBy="Name", MaxResults=1, StatusEquals="Failed", NextToken=page["NextToken"]
        )["TrainingJobSummaries"]
        assert entry["TrainingJobName"] == failed["TrainingJobName"]
        assert entry["TrainingEndTime"] == failed["TrainingEndTime"]

    def test_what_changed_since_is_found(self, lab: Lab, role: str) -> None:
        family = f"time-{uuid.uuid4().hex[:6]}"
        lab.run(lab.request("", role=role, name=f"{family}-a"))
        (old,) = self.list(lab, NameContains=family)
        new = lab.run(lab.request("", role=role, name=f"{family}-b"))
        found = self.list(lab, NameContains=family, LastModifiedTimeAfter=old["LastModifiedTime"])
        assert [entry["TrainingJobName"] for entry in found] == [new["TrainingJobName"]]

    def test_a_token_that_is_not_one_is_refused(self, lab: Lab) -> None:
        code, _ = refusal(lab.client("sagemaker").list_training_jobs, NextToken="not-a-token")
        assert code == "ValidationException"


class TestTags:
    def test_tags_given_and_added_are_listed(self, lab: Lab, role: str) -> None:
        job = lab.create({**lab.request("", role=role), "Tags": [{"Key": "team", "Value": "research"}]})
        arn = lab.describe(job)["TrainingJobArn"]
        sagemaker = lab.client("sagemaker")
        sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "team", "Value": "vision"}])
        tags = {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}
        assert tags == {"team": "vision", "a": "1"}

    def test_tags_of_nothing_are_not_found(self, lab: Lab) -> None:
        arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/nobody"
        assert refusal(lab.client("sagemaker").list_tags, ResourceArn=arn)[1] == "Requested resource not found."

    def test_fifty_tags_are_the_limit(self, lab: Lab, role: str) -> None:
        job = lab.create({**lab.request("", role=role), "Tags": [{"Key": "a", "Value": "1"}]})
        arn = lab.describe(job)["TrainingJobArn"]
        many = [{"Key": f"k{number}", "Value": "v"} for number in range(50)]
        assert refusal(lab.client("sagemaker").add_tags, ResourceArn=arn, Tags=many)[0] == "ValidationException"


def test_every_answer_on_the_wire_is_what_the_model_says(lab: Lab, role: str) -> None:
    """Call by call, the raw JSON against botocore's output shape: nothing unknown, missing, or of a wrong type."""
    request = {**lab.request("print('step=1')", role=role), "Tags": [{"Key": "a", "Value": "b"}]}
    request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "step", "Regex": "step=([0-9]+)"}]
    request["CheckpointConfig"] = {"S3Uri": f"s3://{BUCKET}/checkpoints/conformance/"}
    name = request["TrainingJobName"]
    arn = f"arn:aws:sagemaker:us-east-1:{lab.cloud.account}:training-job/{name}"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("CreateTrainingJob", request),
        ("DescribeTrainingJob", {"TrainingJobName": name}),
        ("StopTrainingJob", {"TrainingJobName": name}),
        ("ListTrainingJobs", {"NameContains": name}),
        ("AddTags", {"ResourceArn": arn, "Tags": [{"Key": "c", "Value": "d"}]}),
        ("ListTags", {"ResourceArn": arn}),
    ]
    model = service_model()
    for operation, params in calls:
        status, body = lab.wire(operation, params)
        assert status == 200, (operation, body)
        shape = model.operation_model(operation).output_shape
        if shape is None:
            assert body == {}
            continue
        assert unknown_members(shape, body) == []
        assert [str(found) for found in violations(shape, body)] == []
    lab.wait_for(name, "Stopped", "Completed")
    shape = model.operation_model("DescribeTrainingJob").output_shape
    assert shape is not None
    assert violations(shape, lab.wire("DescribeTrainingJob", {"TrainingJobName": name})[1]) == []
