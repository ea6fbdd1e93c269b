"""The trials that are calls: sent to be refused, or to be counted. None of them starts a job that goes on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from holdfast.aws.acceptance.bench import NAME_PART, Bench, channel
from holdfast.aws.acceptance.clients import CALLS_AT_ONCE, assumed
from holdfast.aws.errors import DENIALS, FAILED_READ, words_of
from holdfast.core.acceptance.judge_calls import CHECKS
from holdfast.core.acceptance.seen import Answer, CallsSeen, KeysSeen, Missing

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

Release = Callable[[], None]
Change = Callable[[dict[str, Any]], None]
_ACTION = re.compile(r"not authorized to perform: (\S+)")


def burst(bench: Bench, _release: Release) -> CallsSeen:
    """As many Describes at once as CALLS_AT_ONCE, of a job that does not exist: that answer costs a token too."""
    name = f"{bench.place.prefix}absent"

    def describe() -> Answer:
        return bench.call(lambda: bench.clients.once.describe_training_job(TrainingJobName=name))

    describe()  # connections and credentials are there before anything is counted
    bench.sleep(2.0)
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        answers = [one.result() for one in [threads.submit(describe) for _ in range(CALLS_AT_ONCE)]]
    bench.sleep(2.0)  # the others of this account get their calls back before ours go on
    return CallsSeen(burst=tuple(answers))


def calls(bench: Bench, _release: Release) -> CallsSeen:
    token, age = _late_page(bench)
    return CallsSeen(
        unknown_job=_unknown_job(bench),
        order=_order(bench),
        wording=_wording(bench),
        token=token,
        token_age_seconds=age,
    )


def _late_page(bench: Bench) -> tuple[Answer | Missing, float]:
    sagemaker = bench.clients.sagemaker
    try:
        page = sagemaker.list_training_jobs(MaxResults=1)
    except FAILED_READ as error:
        return Missing(f"no list could be read: {words_of(error)}"), 0.0
    if "NextToken" not in page:
        return Missing("the account has fewer than two training jobs, so no list goes on"), 0.0
    began = bench.now()
    bench.sleep(bench.pace.token_age_seconds)
    age = bench.now() - began
    return bench.call(lambda: sagemaker.list_training_jobs(MaxResults=1, NextToken=page["NextToken"])), age


def _unknown_job(bench: Bench) -> dict[str, Answer]:
    sagemaker, name = bench.clients.sagemaker, f"{bench.place.prefix}absent"
    keep: Any = {"KeepAlivePeriodInSeconds": 0}
    return {
        "Describe": bench.call(lambda: sagemaker.describe_training_job(TrainingJobName=name)),
        "Stop": bench.call(lambda: sagemaker.stop_training_job(TrainingJobName=name)),
        "Update": bench.call(lambda: sagemaker.update_training_job(TrainingJobName=name, ResourceConfig=keep)),
        "Delete": bench.call(lambda: sagemaker.delete_training_job(TrainingJobName=name)),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Refusals of CreateTrainingJob


def _order(bench: Bench) -> dict[tuple[str, str], str]:
    """For each pair of faults the one that the request with both was refused for, or the answer if it tells neither."""
    taken = _taken_name(bench)
    if taken is None:
        return {}
    faults: dict[str, Change] = {
        "rules": lambda request: request["StoppingCondition"].update(MaxWaitTimeInSeconds=3_600),
        "name": lambda request: request.update(TrainingJobName=taken),
        "role": lambda request: request.update(RoleArn=f"{request['RoleArn']}-absent"),
        "inputs": lambda request: request["InputDataConfig"].append(
            channel("absent", bench.place.uri(f"{bench.place.data}absent/"))
        ),
        # Beyond every account's quota; it is not reached, since every request has another fault too.
        "quotas": lambda request: request["ResourceConfig"].update(InstanceCount=10_000),
    }
    found: dict[tuple[str, str], str] = {}
    for number, pair in enumerate(itertools.combinations(CHECKS, 2)):
        request = bench.request(f"order{number}", ["leave"], longest=60)
        for fault in pair:
            faults[fault](request)
        answer = bench.create(request)
        if answer.ok:
            bench.stop(request["TrainingJobName"])
        found[pair] = _fault_of(answer)
    return found


def _fault_of(answer: Answer) -> str:
    if answer.code == "ResourceInUse":
        return "name"
    if answer.code == "ResourceLimitExceeded":
        return "quotas"
    if answer.code in DENIALS or "assume" in answer.words or "PassRole" in answer.words:
        return "role"
    if "No S3 objects found" in answer.words or "S3" in answer.words:
        return "inputs"
    if "MaxWaitTimeInSeconds" in answer.words:
        return "rules"
    return f"{answer.code or 'accepted'} {answer.words}".strip()


def _taken_name(bench: Bench) -> str | None:
    """A job of ours that is there: of this acceptance or of an earlier one."""
    try:
        page = bench.clients.sagemaker.list_training_jobs(
            NameContains=f"{bench.place.config.environment}-{bench.place.team}{NAME_PART}", MaxResults=10
        )
    except FAILED_READ:
        return None
    return next((one["TrainingJobName"] for one in page["TrainingJobSummaries"]), None)


def _wording(bench: Bench) -> dict[str, Answer]:
    """One broken rule each. A request that is accepted after all is stopped at once, and ends after a minute anyway."""

    def no_volume(request: dict[str, Any]) -> None:
        del request["ResourceConfig"]["VolumeSizeInGB"]

    broken: Mapping[str, Change] = {
        "longest_run": lambda request: request["StoppingCondition"].update(MaxRuntimeInSeconds=28 * 86_400 + 1),
        "no_volume": no_volume,
        "channel_twice": lambda request: request["InputDataConfig"].append(request["InputDataConfig"][0]),
        "tag_twice": lambda request: request["Tags"].append(request["Tags"][0]),
    }
    found = {}
    for rule, change in broken.items():
        request = bench.request(f"rule-{rule.replace('_', '')}", ["leave"], longest=60)
        change(request)
        found[rule] = bench.create(request)
        if found[rule].ok:
            bench.stop(request["TrainingJobName"])
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Condition keys

# By the service authorization reference, with what a request has to hold for the key to be filled.
CONDITION_KEYS = (
    "aws:TagKeys",
    "sagemaker:InstanceTypes",
    "sagemaker:InterContainerTrafficEncryption",
    "sagemaker:MaxRuntimeInSeconds",
    "sagemaker:NetworkIsolation",
    "sagemaker:OutputKmsKey",
    "sagemaker:VolumeKmsKey",
    "sagemaker:VpcSecurityGroupIds",
    "sagemaker:VpcSubnets",
)
_ALLOWED, _DENIED = "kallowed", "kdenied"


def keys(bench: Bench, _release: Release) -> KeysSeen | Missing:
    """A role may create a job of each name only where that name's key is filled, and may pass no role at all: whatever
    it asks for is denied, and what it is denied says whether the key was filled."""
    try:
        caller = _caller(bench)
    except FAILED_READ as error:
        return Missing(f"a role to call with could not be made, or not be assumed: {words_of(error)}")
    return KeysSeen(
        denied={key: _denied_action(bench, caller, _label(number)) for number, key in enumerate(CONDITION_KEYS)},
        control_allowed=_denied_action(bench, caller, _ALLOWED),
        control_denied=_denied_action(bench, caller, _DENIED),
    )


def _caller(bench: Bench) -> SageMakerClient:
    config = bench.place.config
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:{config.partition}:iam::{config.account}:root"},
                "Action": "sts:AssumeRole",
            }
        ],
    }

    def statement(label: str, key: str | None) -> dict[str, Any]:
        jobs = f"arn:{config.partition}:sagemaker:{config.region}:{config.account}:training-job/"
        allowed = {
            "Effect": "Allow",
            "Action": "sagemaker:CreateTrainingJob",
            "Resource": f"{jobs}{bench.place.prefix}{label}",
        }
        return allowed if key is None else {**allowed, "Condition": {"Null": {key: "false"}}}

    tagging = {"Effect": "Allow", "Action": "sagemaker:AddTags", "Resource": "*"}
    statements = [statement(_label(number), key) for number, key in enumerate(CONDITION_KEYS)]
    role = bench.make_role("keys", trust, [statement(_ALLOWED, None), tagging, *statements])
    deadline = bench.now() + bench.pace.role_deadline_seconds
    while True:
        try:
            caller = assumed(bench.clients, role, "holdfast-acceptance")
        except FAILED_READ:
            if bench.now() > deadline:
                raise
        else:
            # Its policy has arrived once it may do the one thing without a condition.
            if _denied_action(bench, caller, _ALLOWED) == "iam:PassRole" or bench.now() > deadline:
                return caller
        bench.sleep(bench.pace.poll_seconds)


def _label(number: int) -> str:
    return f"k{number}"


def _denied_action(bench: Bench, caller: SageMakerClient, label: str) -> str:
    """The action that the call was denied, or what else was answered."""
    request = bench.request(label, ["leave"], longest=60)
    config = bench.place.config
    key = f"arn:{config.partition}:kms:{config.region}:{config.account}:key/00000000-0000-0000-0000-000000000000"
    request["ResourceConfig"]["VolumeKmsKeyId"] = key
    request["OutputDataConfig"]["KmsKeyId"] = key
    request["VpcConfig"] = {"SecurityGroupIds": ["sg-0123456789abcdef0"], "Subnets": ["subnet-0123456789abcdef0"]}
    answer = bench.create(request, client=caller)
    if answer.ok:
        bench.stop(request["TrainingJobName"])
    found = _ACTION.search(answer.words)
    return found[1] if found else f"{answer.code or 'accepted'} {answer.words}".strip()
