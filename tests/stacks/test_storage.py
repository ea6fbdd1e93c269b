from __future__ import annotations

from holdfast.aws.store import ACTIVE_INDEX
from tests.stacks.synthesis import Templates


def test_the_bucket_takes_tls_only_and_nothing_public(account: Templates) -> None:
    bucket = account.one("AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["BucketEncryption"]
    (statement,) = account.one("AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert account.written(statement["Resource"]) == [
        "arn:aws:s3:::holdfast-dev-123456789012-us-east-1",
        "arn:aws:s3:::holdfast-dev-123456789012-us-east-1/*",
    ]


def test_the_bucket_tells_eventbridge_without_a_function_of_cdks(account: Templates) -> None:
    assert account.one("AWS::S3::Bucket")["NotificationConfiguration"] == {
        "EventBridgeConfiguration": {"EventBridgeEnabled": True}
    }
    storage = account.by_stack["holdfast-dev-storage"]["Resources"].values()
    assert {resource["Type"] for resource in storage} == {
        "AWS::S3::Bucket",
        "AWS::S3::BucketPolicy",
        "AWS::DynamoDB::Table",
    }


def test_what_versioning_would_keep_for_ever_expires_and_manifests_do_not(account: Templates) -> None:
    rules = account.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    expiring = {rule["Prefix"] for rule in rules if "NoncurrentVersionExpiration" in rule}
    assert expiring == {"checkpoints/", "control/", "status/", "data/", "output/", "templates/team/"}
    # No rule may remove what is current: a checkpoint goes when its agent prunes it, nothing else ever goes.
    assert not any("ExpirationInDays" in rule or "ExpirationDate" in rule for rule in rules)
    assert [rule["AbortIncompleteMultipartUpload"] for rule in rules if "Prefix" not in rule] == [
        {"DaysAfterInitiation": 3}
    ]


def test_the_run_table_is_on_demand_recoverable_and_indexed_by_what_is_due(account: Templates) -> None:
    table = account.one("AWS::DynamoDB::Table")
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == ACTIVE_INDEX
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["active", "due"]
    assert index["Projection"] == {"ProjectionType": "ALL"}


def test_data_outlives_the_stack_unless_the_config_says_otherwise(account: Templates, sandbox: Templates) -> None:
    for kind in ("AWS::S3::Bucket", "AWS::DynamoDB::Table"):
        assert _policies(account, kind) == {"Retain"}
        assert _policies(sandbox, kind) == {"Delete"}
    assert account.one("AWS::DynamoDB::Table")["DeletionProtectionEnabled"] is True
    assert sandbox.one("AWS::DynamoDB::Table")["DeletionProtectionEnabled"] is False


def _policies(templates: Templates, kind: str) -> set[str]:
    (resource,) = templates.resources(kind).values()
    return {resource["DeletionPolicy"], resource["UpdateReplacePolicy"]}
