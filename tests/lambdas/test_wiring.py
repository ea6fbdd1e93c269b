"""What stands between the functions' libraries and the sorting of AWS's errors."""

from __future__ import annotations

import boto3
import pytest
from aws_lambda_powertools.utilities import parameters
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from lambdas.wiring import _parameter


def test_a_denied_read_of_the_bundles_name_is_botocores_error_and_not_powertools() -> None:
    client = boto3.client("ssm", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    with Stubber(client) as stubbed:
        stubbed.add_client_error("get_parameter", "AccessDeniedException", "not authorized: ssm:GetParameter")
        with pytest.raises(ClientError, match="AccessDeniedException"):
            _parameter(parameters.SSMProvider(boto3_client=client), "/holdfast/test/bundle")


def test_the_bundles_name_is_read_where_that_is_allowed() -> None:
    client = boto3.client("ssm", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    with Stubber(client) as stubbed:
        stubbed.add_response("get_parameter", {"Parameter": {"Name": "/holdfast/test/bundle", "Value": "sha256-1"}})
        assert _parameter(parameters.SSMProvider(boto3_client=client), "/holdfast/test/bundle") == "sha256-1"
