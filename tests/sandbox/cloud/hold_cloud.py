"""Brings up a cloud with everything that could stay behind in it, says what that is, and waits to be killed.

`python -m tests.sandbox.cloud.hold_cloud STATE_DIR`; prints one line of JSON: the pids.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from pathlib import Path

import boto3

from sandbox.cloud.lifecycle import Cloud, running_cloud

_FUNCTION = "import time\ndef handle(event, context):\n    print('busy')\n    time.sleep(600)\n"
PROBE = "tests.sandbox.cloud.probe_plane"


def start_a_busy_function(cloud: Cloud) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("busy.py", _FUNCTION)
    iam = boto3.client("iam", **cloud.client_arguments())
    trust = {
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}]
    }
    role = iam.create_role(RoleName="busy", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    functions = boto3.client("lambda", **cloud.client_arguments())
    functions.create_function(
        FunctionName="busy",
        Runtime="python3.11",
        Handler="busy.handle",
        Role=role,
        Timeout=600,
        Code={"ZipFile": archive.getvalue()},
    )
    functions.get_waiter("function_active_v2").wait(FunctionName="busy")
    functions.invoke(FunctionName="busy", InvocationType="Event", Payload=b"{}")


def main() -> None:
    state_dir = Path(sys.argv[1])
    with running_cloud(state_dir, planes=[PROBE]) as cloud:
        start_a_busy_function(cloud)
        boto3.client("sagemaker", **cloud.client_arguments()).stop_training_job(TrainingJobName="any")
        sys.stdout.write(
            json.dumps({"emulator": cloud.pid, "child": int((state_dir / "child.pid").read_text())}) + "\n"
        )
        sys.stdout.flush()
        time.sleep(300)


if __name__ == "__main__":
    main()
