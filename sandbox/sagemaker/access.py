"""A job's way to AWS: clients with the credentials of its own role, and what is asked of the role before it runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.config import Config

from sandbox.cloud.context import CloudContext, Credentials

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
METRIC_NAMESPACE = "/aws/sagemaker/TrainingJobs"

_RENEW_BEFORE = timedelta(minutes=10)
_CLIENT_CREATION = threading.Lock()  # boto3 sessions are not thread-safe while they load models


class RoleClients:
    """boto3 clients that act as the job's role, renewed when the session comes to its end. Thread-safe.

    Every method raises RoleNotAssumable when the role does not exist (any more) or does not trust SageMaker.
    """

    def __init__(self, context: CloudContext, role_arn: str) -> None:
        self.role_arn = role_arn
        self._context = context
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._clients: dict[str, Any] = {}

    def credentials(self) -> Credentials:
        with self._lock:
            return self._renewed()

    def client(self, service: str) -> Any:
        with self._lock:
            credentials = self._renewed()
            if service not in self._clients:
                self._clients[service] = self._new_client(service, credentials)
            return self._clients[service]

    def _renewed(self) -> Credentials:
        held = self._credentials
        if held is None or (held.expiration is not None and held.expiration - _RENEW_BEFORE < datetime.now(UTC)):
            held = self._credentials = self._context.assume_job_role(self.role_arn)
            self._clients.clear()
        return held

    def _new_client(self, service: str, credentials: Credentials) -> Any:
        with _CLIENT_CREATION:
            return boto3.client(  # type: ignore[call-overload]
                service,
                endpoint_url=self._context.endpoint_url,
                region_name=self._context.region,
                config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 3}),
                **credentials.to_boto3(),
            )


# Developer guide, "CreateTrainingJob API: Execution Role Permissions" (sagemaker-roles): these, plus S3 and KMS.
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage")
_NETWORK = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeVpcs",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeSubnets",
    "ec2:DescribeSecurityGroups",
)


def image_refusal(context: CloudContext, request: dict[str, Any]) -> str | None:
    """FailureReason when the role may not pull the image; None when it may. Nothing is pulled: there are no images."""
    image = request["AlgorithmSpecification"]["TrainingImage"]
    repository = repository_arn(image)
    if repository is None:
        return f"ClientError: {image} is not an Amazon ECR image."  # assumed wording
    role = request["RoleArn"]
    needed = [("ecr:GetAuthorizationToken", "*"), *((action, repository) for action in _PULL)]
    missing = next((pair for pair in needed if not context.is_allowed(role, *pair)), None)
    if missing is None:
        return None
    # aws/sagemaker-python-sdk#1968 has the first sentence; which action is missing is the sandbox's addition.
    return (
        "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are "
        f"incorrect. ({role} may not {missing[0]} on {missing[1]})"
    )


def permission_refusal(context: CloudContext, request: dict[str, Any]) -> str | None:
    """FailureReason for a permission that SageMaker uses in the role's name outside S3, ECR and Logs; None if all hold.

    The wording is assumed. SageMaker may run a job on without metrics; the sandbox fails it at once, because a job that
    nobody can watch is what a missing permission means here.
    """
    role = request["RoleArn"]
    for action, resource, condition in _needed(request):
        if not context.is_allowed(role, action, resource, condition):
            return f"ClientError: The role {role} is not authorized to perform: {action} on resource: {resource}"
    return None


def _needed(request: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    # SageMaker writes into its own namespace; a role that is limited to it by condition is enough.
    yield "cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": METRIC_NAMESPACE}
    key = request["OutputDataConfig"].get("KmsKeyId", "")
    if key.startswith("arn:"):
        yield "kms:GenerateDataKey", key, {}
    if "VpcConfig" in request:
        yield from ((action, "*", {}) for action in _NETWORK)


def repository_arn(image: str) -> str | None:
    """ARN of the ECR repository of an image URI; None for an image elsewhere."""
    found = re.fullmatch(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)(?:[:@].+)?", image)
    if found is None:
        return None
    account, region, name = found.groups()
    return f"arn:aws:ecr:{region}:{account}:repository/{name}"
