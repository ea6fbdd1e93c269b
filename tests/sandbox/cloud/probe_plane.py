"""A plane that shows what the context gives: its few operations answer with what they were told."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from sandbox.cloud.context import Caller, CloudContext, JsonObject, RoleNotAssumable, access_denied

JOB_ROLE = "arn:aws:iam::000000000000:role/tiny-job"


def install(context: CloudContext) -> None:
    probe = Probe(context)
    context.register_json_service("sagemaker", probe.handle, resource_of=probe.resources_of)
    context.on_shutdown((context.state_dir / "shut-down").touch)


class Probe:
    def __init__(self, context: CloudContext) -> None:
        self._context = context

    def resources_of(self, operation: str, params: JsonObject) -> list[str]:
        if operation == "CreateTrainingJob":
            return [f"arn:aws:sagemaker:us-east-1:000000000000:training-job/{params['TrainingJobName']}"]
        return ["*"]

    def handle(self, operation: str, params: JsonObject, caller: Caller) -> tuple[int, JsonObject]:
        if operation == "CreateTrainingJob":
            return self._create(params, caller)
        if operation == "StopTrainingJob":
            self._start_guarded_child()
            return 200, {}
        # ListTags answers free words, which is what a probe wants.
        return 200, {"Tags": [{"Key": "answer", "Value": json.dumps(self._answer(params["ResourceArn"], caller))}]}

    def _create(self, params: JsonObject, caller: Caller) -> tuple[int, JsonObject]:
        role = params["RoleArn"]
        if not caller.is_caller_allowed("iam:PassRole", role, {"iam:PassedToService": "sagemaker.amazonaws.com"}):
            return access_denied(caller.principal_arn, "iam:PassRole", role)
        arn = self.resources_of("CreateTrainingJob", params)[0]
        detail = {"TrainingJobName": params["TrainingJobName"], "TrainingJobStatus": "InProgress"}
        self._context.emit_event("SageMaker Training Job State Change", detail, [arn])
        return 200, {"TrainingJobArn": arn}

    def _answer(self, question: str, caller: Caller) -> Any:
        word, _, rest = question.partition(" ")
        if word == "caller":
            return caller.principal_arn
        if word == "allowed":
            role, action, resource = rest.split(" ")
            return self._context.is_allowed(role, action, resource)
        try:
            return self._context.assume_job_role(rest).to_env()
        except RoleNotAssumable as error:
            return str(error)

    def _start_guarded_child(self) -> None:
        child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
        self._context.guard_process_group(os.getpgid(child.pid))
        (self._context.state_dir / "child.pid").write_text(str(child.pid))
