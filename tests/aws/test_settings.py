import pytest

from holdfast.aws.settings import IntakeSettings, PublishSettings, ReconcileSettings, SettingsError

RECONCILE = ReconcileSettings(
    bucket="b",
    table="t",
    environment="dev",
    topic_arn="arn",
    poll_seconds=60,
    status_refresh_seconds=600,
    intake_function="intake",
)
INTAKE = IntakeSettings(bucket="b", table="t", bundle_parameter="/p", topic_arn="arn")


@pytest.mark.parametrize(
    "settings", [RECONCILE, INTAKE, PublishSettings(bucket="b")], ids=lambda one: type(one).__name__
)
def test_what_the_stack_writes_the_handler_reads(
    settings: IntakeSettings | ReconcileSettings | PublishSettings,
) -> None:
    assert type(settings).from_env({**settings.to_env(), "PATH": "/bin"}) == settings


def test_every_missing_variable_is_named() -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_BUCKET, HOLDFAST_TABLE"):
        IntakeSettings.from_env({"HOLDFAST_BUNDLE_PARAMETER": "/p", "HOLDFAST_TOPIC_ARN": "arn"})
