"""The trial that is a person's: a manifest and a tarball are dropped, and what becomes of them is read.

Its script freezes itself in the first attempt. Holdfast is to find that, to have it ended and to restart it; then the
manifest asks for a stop, and at last for the end of the training.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from holdfast.aws.acceptance.bench import Bench
from holdfast.aws.errors import FAILED_READ, MISSING, code_of, words_of
from holdfast.aws.evidence import LOG_GROUP, NAMESPACE
from holdfast.core.acceptance.seen import Missing, RunSeen, parse_line
from holdfast.core.layout import DATA, manifest_key, status_key

HOSTS = 2
FREEZE_AT = 25
"""Above the step of the second checkpoint, so that the restart has one to go on from."""
_METRIC_SLACK_SECONDS = 60
_OVER = ("succeeded", "failed", "refused", "stopped")


class RunTrial:
    """`template` is any job template's name: the run brings its own code."""

    def __init__(self, bench: Bench, template: str, jobs_folder: Path) -> None:
        self._bench = bench
        self._template = template
        self._folder = jobs_folder
        self._name = f"accept-{bench.place.uid}"
        # Not in the folder that the single jobs download, and that is emptied in any case: a manifest that asks for a
        # stop is read with its tarball.
        self._archive_key = f"{DATA}{bench.place.team}/acceptance/{self._name}/train.tar.gz"
        self._marks: dict[str, float] = {}
        self._status: dict[str, Any] = {}
        self._frozen: dict[str, float] = {}
        self._dropped = False

    def __call__(self, release: Callable[[], None]) -> RunSeen | Missing:
        bench = self._bench
        try:
            bench.put(self._archive_key, self._archive())
            self._drop(steps=self._bench.pace.run_steps)
        except FAILED_READ as error:
            return Missing(f"the manifest could not be dropped: {words_of(error)}")
        deadline = bench.now() + bench.pace.run_deadline_seconds
        while "succeeded" not in self._marks and bench.now() < deadline:
            self._status = self._read_status() or self._status
            if self._status.get("phase") in ("refused", "failed"):
                break
            self._mark()
            bench.sleep(bench.pace.poll_seconds)
        release()
        return self._seen()

    def end(self) -> list[str]:
        """Ask for the run's end by its manifest, so that no other attempt begins; its job is stopped beside that.

        What is left then, in words. Raises botocore's errors.
        """
        if not self._dropped:
            return []
        place = self._bench.place
        self._status = self._read_status() or self._status
        if self._status.get("phase") in _OVER:
            self._bench.clients.s3.delete_object(Bucket=place.config.bucket, Key=self._archive_key)
            return []
        self._drop(steps=self._bench.pace.run_steps, state="stopped")
        for attempt in self._attempts()[-1:]:
            self._bench.stop(attempt["job"])
        told = place.uri(status_key(place.team, self._name))
        return [f"run {place.team}/{self._name}: asked to stop by its manifest; what becomes of it is in {told}"]

    # -- the story ---------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        attempts = self._attempts()
        if self._status.get("manifest", {}).get("accepted"):
            self._once("registered")
        if not attempts:
            return
        first = attempts[0]
        if first["started"]:
            self._once("training")
        if "frozen" not in self._marks and first["started"]:
            self._frozen = self._said("frozen", first["job"])
            if len(self._frozen) >= HOSTS:
                self._once("frozen")
        if first["hung"]:
            self._once("hung")
        if first["outcome"]:
            self._once("ended")
        if len(attempts) > 1 and "restarted" not in self._marks and self._said("again", attempts[1]["job"]):
            self._once("restarted")
            self._drop(steps=self._bench.pace.run_steps, state="stopped")
        if "restarted" in self._marks and self._status["phase"] == "stopped" and self._once("stopped"):
            reached = max(attempts[1]["last_step"] or 0, attempts[1]["sealed_step"] or 0)
            self._drop(steps=reached + 20)
        if len(attempts) > 2 and attempts[2]["started"]:
            self._once("resumed")
        if self._status["phase"] == "succeeded":
            self._once("succeeded")

    def _once(self, step: str) -> bool:
        """True the first time."""
        if step in self._marks:
            return False
        self._marks[step] = self._bench.now()
        self._bench.say(f"run: {step}")
        return True

    def _said(self, event: str, job: str) -> dict[str, float]:
        """Log stream -> the host's time of the line with this event. In an account the status lags by minutes."""
        pages = self._bench.clients.logs.get_paginator("filter_log_events").paginate(
            logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/", filterPattern="acceptance"
        )
        try:
            events = [one for page in pages for one in page["events"]]
        except FAILED_READ:
            return {}
        lines = (parse_line(one["logStreamName"], one["timestamp"] / 1000, 0.0, one["message"]) for one in events)
        return {line.stream: line.said_at for line in lines if line is not None and line.event == event}

    # -- the account -------------------------------------------------------------------------------------------------

    def _attempts(self) -> list[dict[str, Any]]:
        return list(self._status.get("attempts", []))

    def _drop(self, *, steps: int, state: str = "running") -> None:
        self._dropped = True
        place, pace = self._bench.place, self._bench.pace
        manifest = {
            "apiVersion": "holdfast/v1",
            "kind": "TrainingRun",
            "template": self._template,
            "image": place.image,
            "source": {"archive": place.uri(self._archive_key), "entry_point": "train.py"},
            "resources": {"instance_type": place.instance_type, "instance_count": HOSTS, "launch": "python"},
            "hyperparameters": {"steps": steps, "freeze_at": FREEZE_AT, "step_seconds": pace.step_seconds},
            "watch": {"stall_after_seconds": pace.stall_after_seconds, "ask_seconds": pace.ask_seconds},
            "limits": {"max_run_seconds": pace.longest_attempt_seconds, "max_restarts": 1, "backoff_seconds": 0},
            # It hangs on purpose: nobody is to be called for that.
            "notify": {"on": []},
            "state": state,
        }
        self._bench.put(manifest_key(place.team, self._name), yaml.safe_dump(manifest).encode())

    def _archive(self) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(self._folder / "train.py", "train.py")
        return packed.getvalue()

    def _read_status(self) -> dict[str, Any] | None:
        place = self._bench.place
        try:
            found = self._bench.clients.s3.get_object(
                Bucket=place.config.bucket, Key=status_key(place.team, self._name)
            )
        except FAILED_READ as error:
            if code_of(error) not in MISSING:
                self._bench.say(f"run: its status cannot be read: {words_of(error)}")
            return None
        document: dict[str, Any] = json.loads(found["Body"].read())
        return document

    def _seen(self) -> RunSeen:
        attempts = self._attempts()
        frozen_at = max(self._frozen.values()) if len(self._frozen) >= HOSTS else None
        until = _epoch(attempts[0]["asked"] or attempts[0]["ended"]) if attempts else None
        values = {}
        if frozen_at is not None and until is not None:
            values = self._host_values(attempts[0]["job"], frozen_at, until)
        return RunSeen(
            marks=dict(self._marks),
            attempts=tuple(attempts),
            phase=str(self._status.get("phase", "never registered")),
            why=_why(self._status),
            frozen_at=frozen_at,
            frozen_until=until,
            hosts=HOSTS,
            host_values=values,
        )

    def _host_values(self, job: str, start: float, end: float) -> dict[str, tuple[tuple[float, float], ...]]:
        hosts = [f"algo-{number}" for number in range(1, HOSTS + 1)]
        try:
            found = self._bench.clients.cloudwatch.get_metric_data(
                MetricDataQueries=[
                    {
                        "Id": f"h{number}",
                        "MetricStat": {
                            "Metric": {
                                "Namespace": NAMESPACE,
                                "MetricName": "CPUUtilization",
                                "Dimensions": [{"Name": "Host", "Value": f"{job}/{host}"}],
                            },
                            "Period": self._bench.pace.metric_period_seconds,
                            "Stat": "Average",
                        },
                    }
                    for number, host in enumerate(hosts)
                ],
                StartTime=datetime.fromtimestamp(start - 3 * _METRIC_SLACK_SECONDS, UTC),
                EndTime=datetime.fromtimestamp(end + _METRIC_SLACK_SECONDS, UTC),
                ScanBy="TimestampAscending",
            )
        except FAILED_READ as error:
            self._bench.say(f"run: host metrics cannot be read: {words_of(error)}")
            return {}
        return {
            hosts[int(one["Id"][1:])]: tuple(
                (at.timestamp(), value) for at, value in zip(one["Timestamps"], one["Values"], strict=True)
            )
            for one in found["MetricDataResults"]
            if one.get("Values")
        }


def _epoch(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _why(status: Mapping[str, Any]) -> str:
    errors = status.get("manifest", {}).get("errors", [])
    return " ".join([str(status.get("why", "no status came")), *map(str, errors)])
