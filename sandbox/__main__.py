"""`python -m sandbox`: the embedded cloud with the stacks deployed, to drop one's own manifests into. Ends with Ctrl-C.

Prints what a person needs to use it from another terminal: endpoint, bucket, credentials and commands to paste.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from pathlib import Path

from holdfast.core.config import AccountConfig
from holdfast.core.layout import DATA, manifest_key, status_key
from holdfast.core.read_config import read_config
from sandbox.cloud.denials import DENIALS_FILE
from sandbox.cloud.deploy import CdkApp, DeployError, deploy
from sandbox.cloud.lifecycle import Cloud, CloudError, new_state_dir, running_cloud
from sandbox.cloud.ticker import Ticker
from sandbox.granted import grant_wanted_quotas
from sandbox.sagemaker.profile import CONTRADICTED

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG = "config/sandbox.yaml"
STATE = Path(".sandbox")
ARCHIVE = "code.tar.gz"
RUN = "my-run"


def main() -> int:
    try:
        stand()
    except (DeployError, CloudError) as error:
        say(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        say("ended, and everything in it; the emulator's log stays below .sandbox/")
    return 0


def stand() -> None:
    """Until Ctrl-C. Raises CloudError or DeployError; nothing that it started runs on after it."""
    config = read_config((REPOSITORY / CONFIG).read_text())
    with running_cloud(new_state_dir(STATE), region=config.region, account=config.account) as cloud:
        say(f"an embedded AWS listens on {cloud.endpoint_url}; its log is {cloud.log_file}")
        say(f"what IAM denies to anybody is listed in {cloud.state_dir / DENIALS_FILE}")
        grant_wanted_quotas(cloud, config)
        for words in CONTRADICTED:
            say(f"unlike AWS: {words}")
        app = CdkApp(folder=REPOSITORY, context={"config": CONFIG})
        outputs = deploy(cloud, app, environment=os.environ, report=say)
        reconcile = outputs[f"holdfast-{config.environment}-control-plane"]["ReconcileFunction"]
        with Ticker(cloud, reconcile, every_seconds=config.poll_seconds, on_failure=say):
            print(instructions(cloud, config, python=_python()), flush=True)
            wait(cloud)


def wait(cloud: Cloud, *, every_seconds: float = 2.0) -> None:
    """For as long as the cloud is there. Raises CloudError once nothing listens at its endpoint."""
    port = int(cloud.endpoint_url.rpartition(":")[2])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except OSError as error:
            raise CloudError(f"the embedded cloud is gone ({error}); its log is {cloud.log_file}") from None
        time.sleep(every_seconds)


def instructions(cloud: Cloud, config: AccountConfig, *, python: str) -> str:
    """What a person reads once it stands. `python` is a command that has boto3."""
    team = min(config.teams)
    bucket, endpoint = config.bucket, cloud.endpoint_url
    keys = cloud.client_arguments()
    code, manifest, status = f"{DATA}{team}/{ARCHIVE}", manifest_key(team, RUN), status_key(team, RUN)
    aws = f"aws --endpoint-url {endpoint} s3 cp"
    s3 = f"import boto3; s3 = boto3.client('s3', endpoint_url='{endpoint}')"
    return f"""
The sandbox stands; Ctrl-C ends it and everything in it.

  endpoint     {endpoint}
  bucket       {bucket}
  credentials  {keys["aws_access_key_id"]} / {keys["aws_secret_access_key"]}
  teams        {", ".join(sorted(config.teams))}

In another terminal, in this folder (a script to begin with is in docs/your-own-code.md):

  export AWS_ACCESS_KEY_ID={keys["aws_access_key_id"]} AWS_SECRET_ACCESS_KEY={keys["aws_secret_access_key"]} \
AWS_DEFAULT_REGION={cloud.region}

  {aws} {ARCHIVE} s3://{bucket}/{code}
  {aws} {RUN}.yaml s3://{bucket}/{manifest}
  {aws} s3://{bucket}/{status} -

Without the aws command:

  {python} -c "{s3}; s3.upload_file('{ARCHIVE}', '{bucket}', '{code}')"
  {python} -c "{s3}; s3.upload_file('{RUN}.yaml', '{bucket}', '{manifest}')"
  {python} -c "{s3}; print(s3.get_object(Bucket='{bucket}', Key='{status}')['Body'].read().decode())"
"""


def _python() -> str:
    """The interpreter at its full path: the lines are pasted in whatever folder a person's code is in."""
    return shlex.quote(sys.executable)


def say(words: str) -> None:
    print(f"sandbox: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
