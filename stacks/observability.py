"""What tells people that something is wrong before a run does."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from holdfast.core.config import AccountConfig
from stacks.storage import METRIC_FILTERS

# A restore of many hosts is refused here and there while S3 spreads a new prefix; that heals by itself in minutes, and
# clients retry. Three bad minutes of five are hosts that wait.
REFUSED_A_MINUTE = 50
# S3 answers small objects in 100 to 200 ms (user guide, "Performance guidelines"); a second is no longer that.
SLOW_FIRST_BYTE_MS = 1_000


class ObservabilityStack(cdk.Stack):
    """Alarms go to the topic of the notices. Nothing here is needed for a run to go on."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        env: cdk.Environment,
        description: str,
        config: AccountConfig,
        bucket: s3.IBucket,
        topic: sns.ITopic,
        undelivered: sqs.IQueue,
        failed_invocations: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description=description)
        self._bucket = bucket
        self._topic = topic
        self._queue_alarm("Undelivered", undelivered, "Events reached no function")
        self._queue_alarm("FailedInvocations", failed_invocations, "A function failed at an event each time it tried")
        if config.storage.request_metrics:
            for name, prefix in METRIC_FILTERS.items():
                self._bucket_alarms(name, f"s3://{config.bucket}/{prefix or ''}")

    def _queue_alarm(self, construct_id: str, queue: sqs.IQueue, what: str) -> None:
        self._alarm(
            construct_id,
            queue.metric_approximate_number_of_messages_visible(
                statistic=cloudwatch.Stats.MAXIMUM, period=cdk.Duration.minutes(5)
            ),
            threshold=0,
            periods=(1, 1),
            description=(
                f"{what}. The next sweep looks at every run anew, so a run is late and not lost; the messages in the "
                "queue say what happened. It ends when the queue is empty."
            ),
        )

    def _bucket_alarms(self, metric_filter: str, place: str) -> None:
        self._alarm(
            f"Refused-{metric_filter}",
            self._bucket_metric("5xxErrors", metric_filter, cloudwatch.Stats.SUM),
            threshold=REFUSED_A_MINUTE,
            periods=(3, 5),
            description=(
                f"S3 refuses requests to {place} (500 and 503 Slow Down): reads and checkpoints of many hosts take "
                "longer. It heals while S3 spreads the prefix; if it stays, more prefixes are needed."
            ),
        )
        self._alarm(
            f"SlowFirstByte-{metric_filter}",
            self._bucket_metric("FirstByteLatency", metric_filter, cloudwatch.Stats.percentile(90)),
            threshold=SLOW_FIRST_BYTE_MS,
            periods=(3, 5),
            description=f"S3 takes more than {SLOW_FIRST_BYTE_MS} ms to begin its answers for {place}.",
        )

    def _bucket_metric(self, name: str, metric_filter: str, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/S3",
            metric_name=name,
            dimensions_map={"BucketName": self._bucket.bucket_name, "FilterId": metric_filter},
            statistic=statistic,
            period=cdk.Duration.minutes(1),
        )

    def _alarm(
        self,
        construct_id: str,
        metric: cloudwatch.Metric,
        *,
        threshold: float,
        periods: tuple[int, int],
        description: str,
    ) -> None:
        """`periods`: so many bad ones of so many."""
        bad, looked_at = periods
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=looked_at,
            datapoints_to_alarm=bad,
            # No traffic is no data, and S3 promises no series to be whole: silence is no alarm.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=description,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
