from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cloud.deploy import CdkApp, Outputs, deploy
from sandbox.cloud.lifecycle import Cloud, running_cloud
from tests.sandbox.cloud.hold_cloud import PROBE

REPOSITORY = Path(__file__).resolve().parents[3]
TINY_APP = CdkApp(folder=Path(__file__).parent / "tiny_app", cdk=REPOSITORY / "node_modules" / ".bin" / "cdk")


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One embedded cloud for all tests, with the probe in place of the training plane."""
    planes = [PROBE, "sandbox.cloud.service_quotas", "sandbox.cloud.fsx"]
    with running_cloud(tmp_path_factory.mktemp("cloud"), planes=planes) as running:
        yield running


@pytest.fixture(scope="session")
def outputs(cloud: Cloud) -> Outputs:
    """The tiny app, deployed by the real CDK command line."""
    return deploy(cloud, TINY_APP, environment=os.environ)
