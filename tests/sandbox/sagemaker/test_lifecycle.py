"""Whole jobs, from the request to the end, as a client sees them."""

from __future__ import annotations

import ast
import io
import json
import tarfile
import time
import uuid
from typing import Any

import pytest

from tests.sandbox.sagemaker.conftest import BUCKET, LOG_GROUP, Lab, channel

PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
cluster = json.loads((base / "input/config/resourceconfig.json").read_text())
rank = cluster["hosts"].index(cluster["current_host"])
"""


def statuses(described: dict[str, Any]) -> list[str]:
    return [transition["Status"] for transition in described["SecondaryStatusTransitions"]]


def archive(lab: Lab, job: str, name: str) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(lab.get(f"output/{job}/output/{name}"))) as tar:
        members = {member.name: tar.extractfile(member) for member in tar.getmembers() if member.isfile()}
        return {name: file.read().decode() for name, file in members.items() if file is not None}


class TestACompletedJob:
    """One job on two hosts; each test looks at another side of it."""

    SCRIPT = (
        PRELUDE
        + """
print("resources", json.dumps(cluster))
print("hyperparameters", (base / "input/config/hyperparameters.json").read_text())
print("channels", (base / "input/config/inputdataconfig.json").read_text())
print("data", sorted(path.relative_to(base / "input/data").as_posix() for path in base.glob("input/data/*/**/*.txt")))
print("environment", json.dumps(dict(os.environ)))
print("arguments", sys.argv[1:])
print("to stderr", file=sys.stderr)
for step in range(1, 5):
    print(f"rank={rank} step={step} loss=0.{step}")
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline:
        pass
print("loss=nan")
(base / "model" / f"weights-{rank}.bin").write_text("weights")
(base / "model" / "shared.bin").write_text(f"of rank {rank}")
(base / "output/data/report.txt").write_text("report")
"""
    )

    @pytest.fixture(scope="class")
    @staticmethod
    def job(lab: Lab, role: str) -> dict[str, Any]:
        queue = lab.client("sqs").create_queue(QueueName="states")["QueueUrl"]
        events = lab.client("events")
        events.put_rule(Name="states", EventPattern=json.dumps({"source": ["aws.sagemaker"]}))
        arn = f"arn:aws:sqs:{lab.cloud.region}:{lab.cloud.account}:states"
        events.put_targets(Rule="states", Targets=[{"Id": "queue", "Arn": arn}])
        for name in ("a.txt", "deep/b.txt", "c.txt"):
            lab.put(f"data/train/{name}", name)
        request = lab.request(TestACompletedJob.SCRIPT, role=role, hosts=2)
        request["InputDataConfig"] += [
            channel("train", "data/train"),
            channel("shards", "data/train/", S3DataDistributionType="ShardedByS3Key"),
        ]
        request["AlgorithmSpecification"] |= {
            "ContainerArguments": ["--out", "/opt/ml/model"],
            "MetricDefinitions": [
                {"Name": "step", "Regex": "rank=0 step=([0-9]+)"},
                {"Name": "loss", "Regex": "loss=([0-9.]+|nan)"},
            ],
        }
        request["HyperParameters"] = {"epochs": "3"}
        request["Environment"] = {"DATA": "/opt/ml/input/data/train", "TEXT": "see /opt/ml/x"}
        request["Tags"] = [{"Key": "team", "Value": "research"}]
        described = lab.run(request)
        described["events"] = drain(lab, queue, described["TrainingJobName"])
        return described

    def test_passes_through_the_statuses_in_their_documented_order(self, job: dict[str, Any]) -> None:
        assert job["TrainingJobStatus"] == "Completed"
        assert statuses(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
        times = [transition["StartTime"] for transition in job["SecondaryStatusTransitions"]]
        ends = [transition["EndTime"] for transition in job["SecondaryStatusTransitions"]]
        assert times == sorted(times)
        assert ends[:-1] == times[1:]

    def test_bills_from_the_start_on_the_instances_to_the_end_of_the_upload(self, job: dict[str, Any]) -> None:
        downloading = job["SecondaryStatusTransitions"][1]["StartTime"]
        assert abs((job["TrainingStartTime"] - downloading).total_seconds()) < 0.1
        seconds = (job["TrainingEndTime"] - job["TrainingStartTime"]).total_seconds()
        assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"] == int(seconds)

    def test_sends_an_event_for_every_state_with_times_in_milliseconds(self, job: dict[str, Any]) -> None:
        events = job["events"]
        assert {event["detail-type"] for event in events} == {"SageMaker Training Job State Change"}
        assert {event["resources"][0] for event in events} == {job["TrainingJobArn"]}
        details = [event["detail"] for event in events]
        seen = sorted(details, key=lambda detail: int(detail["LastModifiedTime"]))
        assert [detail["SecondaryStatus"] for detail in seen] == statuses(job)
        last = seen[-1]
        assert last["TrainingJobStatus"] == "Completed"
        assert last["Tags"] == {"team": "research"}
        assert last["HyperParameters"] == {"epochs": "3"}
        assert int(last["CreationTime"]) == round(job["CreationTime"].timestamp() * 1000)
        assert "Environment" not in last

    def test_tells_each_host_who_it_is(self, lab: Lab, job: dict[str, Any]) -> None:
        seen = [said(lab, job, "resources", host) for host in ("algo-1", "algo-2")]
        assert seen[0]["hosts"] == seen[1]["hosts"] == sorted(entry["current_host"] for entry in seen)
        assert len(set(seen[0]["hosts"])) == 2
        group = seen[0]["instance_groups"]
        assert group == [
            {"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.xlarge", "hosts": seen[0]["hosts"]}
        ]
        assert seen[0]["current_group_name"] == "homogeneousCluster"
        assert seen[0]["network_interface_name"]

    def test_gives_hyperparameters_and_channels_as_documents(self, lab: Lab, job: dict[str, Any]) -> None:
        assert said(lab, job, "hyperparameters") == {"epochs": "3"}
        described = said(lab, job, "channels")
        assert described["shards"]["S3DistributionType"] == "ShardedByS3Key"
        assert described["train"] == {
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        }

    def test_replicates_a_channel_and_shards_another(self, lab: Lab, job: dict[str, Any]) -> None:
        data = [ast.literal_eval(text(lab, job, "data", host)) for host in ("algo-1", "algo-2")]
        whole = ["train/a.txt", "train/c.txt", "train/deep/b.txt"]
        assert [[name for name in names if name.startswith("train/")] for names in data] == [whole, whole]
        shards = [[name for name in names if name.startswith("shards/")] for names in data]
        assert sorted(shards[0] + shards[1]) == ["shards/a.txt", "shards/c.txt", "shards/deep/b.txt"]
        assert all(shards)

    def test_gives_a_clean_environment_of_the_jobs_own(self, lab: Lab, job: dict[str, Any]) -> None:
        env = said(lab, job, "environment")
        base = env["SAGEMAKER_BASE_DIR"]
        assert env["TRAINING_JOB_NAME"] == job["TrainingJobName"]
        assert env["TRAINING_JOB_ARN"] == job["TrainingJobArn"]
        assert env["AWS_ENDPOINT_URL"] == lab.cloud.endpoint_url
        assert env["DATA"] == base + "/input/data/train"
        assert env["TEXT"] == "see /opt/ml/x"  # only a value that *is* a path below /opt/ml is one
        assert env["HOME"] == base
        assert not {"AUTH", "MINISTACK_HOST", "PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST"} & env.keys()
        other = said(lab, job, "environment", "algo-2")
        assert other["SAGEMAKER_BASE_DIR"] != base
        assert other["MASTER_PORT"] == env["MASTER_PORT"]

    def test_moves_opt_ml_in_the_entry_point(self, lab: Lab, job: dict[str, Any]) -> None:
        base = said(lab, job, "environment")["SAGEMAKER_BASE_DIR"]
        assert text(lab, job, "arguments") == str(["--out", base + "/model"])

    def test_ships_stdout_and_stderr_to_a_stream_of_each_host(self, lab: Lab, job: dict[str, Any]) -> None:
        streams = lab.client("logs").describe_log_streams(
            logGroupName=LOG_GROUP, logStreamNamePrefix=job["TrainingJobName"] + "/"
        )["logStreams"]
        names = sorted(stream["logStreamName"].rpartition("-")[0] for stream in streams)
        assert names == [f"{job['TrainingJobName']}/algo-1", f"{job['TrainingJobName']}/algo-2"]
        assert "to stderr" in lab.lines(job["TrainingJobName"], "algo-2")
        assert "rank=1 step=4 loss=0.4" in lab.lines(job["TrainingJobName"], "algo-2")

    def test_turns_log_lines_into_metrics(self, lab: Lab, job: dict[str, Any]) -> None:
        steps = metric(lab, "step", "TrainingJobName", job["TrainingJobName"], "Maximum")
        assert max(steps) == 4
        final = {entry["MetricName"]: entry["Value"] for entry in job["FinalMetricDataList"]}
        assert final["step"] == 4
        assert final["loss"] == pytest.approx(0.4)  # nan was dropped

    def test_measures_the_hosts(self, lab: Lab, job: dict[str, Any]) -> None:
        host = f"{job['TrainingJobName']}/algo-1"
        assert max(metric(lab, "CPUUtilization", "Host", host)) > 20  # it spins
        assert 0 < max(metric(lab, "MemoryUtilization", "Host", host)) < 100
        assert metric(lab, "DiskUtilization", "Host", host)
        assert 0 < max(metric(lab, "GPUUtilization", "Host", host)) < 200  # two synthetic GPUs

    def test_uploads_the_model_and_the_output(self, lab: Lab, job: dict[str, Any]) -> None:
        name = job["TrainingJobName"]
        assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/output/{name}/output/model.tar.gz"
        model = archive(lab, name, "model.tar.gz")
        assert model == {"weights-0.bin": "weights", "weights-1.bin": "weights", "shared.bin": "of rank 0"}
        assert archive(lab, name, "output.tar.gz") == {
            "algo-1/data/report.txt": "report",
            "algo-2/data/report.txt": "report",
        }

    def test_leaves_no_tree_behind(self, lab: Lab, job: dict[str, Any]) -> None:
        lab.until(lambda: not (lab.cloud.state_dir / "jobs" / job["TrainingJobName"]).exists())


def said(lab: Lab, job: dict[str, Any], word: str, host: str = "algo-1") -> Any:
    return json.loads(text(lab, job, word, host))


def text(lab: Lab, job: dict[str, Any], word: str, host: str = "algo-1") -> str:
    (line,) = [line for line in lab.lines(job["TrainingJobName"], host) if line.startswith(word + " ")]
    return line.partition(" ")[2]


def metric(lab: Lab, name: str, dimension: str, value: str, statistic: str = "Average") -> list[float]:
    wanted = {
        "Namespace": "/aws/sagemaker/TrainingJobs",
        "MetricName": name,
        "Dimensions": [{"Name": dimension, "Value": value}],
    }
    now = time.time()
    answer = lab.client("cloudwatch").get_metric_data(
        MetricDataQueries=[{"Id": "m", "MetricStat": {"Metric": wanted, "Period": 10, "Stat": statistic}}],
        StartTime=now - 120,
        EndTime=now + 10,
    )
    return list(answer["MetricDataResults"][0]["Values"])


def drain(lab: Lab, queue: str, job: str) -> list[dict[str, Any]]:
    """The job's events, once the last one is there."""
    events: dict[str, dict[str, Any]] = {}

    def complete() -> bool:
        received = lab.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for message in received:
            event = json.loads(message["Body"])
            if event["detail"]["TrainingJobName"] == job:
                events[event["id"]] = event
            lab.client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return any(event["detail"]["SecondaryStatus"] == "Completed" for event in events.values())

    lab.until(complete)
    return list(events.values())


class TestAFailingJob:
    def test_gives_the_failure_file_and_the_exit_code_as_its_reason(self, lab: Lab, role: str) -> None:
        script = (
            PRELUDE
            + """
(base / "output/failure").write_text("ValueError: the batch is empty")
sys.exit(3)
"""
        )
        described = lab.run(lab.request(script, role=role))
        assert described["TrainingJobStatus"] == "Failed"
        assert described["FailureReason"] == "AlgorithmError: ValueError: the batch is empty, exit code: 3"
        assert statuses(described) == ["Starting", "Downloading", "Training", "Uploading", "Failed"]
        assert archive(lab, described["TrainingJobName"], "output.tar.gz") == {
            "failure": "ValueError: the batch is empty"
        }

    def test_has_a_reason_of_1024_characters_at_most_that_still_ends_in_the_exit_code(
        self, lab: Lab, role: str
    ) -> None:
        script = PRELUDE + '(base / "output/failure").write_text("x" * 5000); sys.exit(4)'
        reason = lab.run(lab.request(script, role=role))["FailureReason"]
        assert len(reason) == 1024
        assert reason.endswith("xxx, exit code: 4")

    def test_takes_the_other_hosts_with_it_and_lets_them_clean_up(self, lab: Lab, role: str) -> None:
        script = (
            PRELUDE
            + """
def leave(number, frame):
    print("told to go", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
if rank == 1:
    time.sleep(0.5)
    sys.exit(9)
time.sleep(60)
"""
        )
        described = lab.run(lab.request(script, role=role, hosts=2))
        assert described["FailureReason"] == "AlgorithmError: , exit code: 9"
        assert "told to go" in lab.lines(described["TrainingJobName"], "algo-1")

    def test_that_is_killed_by_a_signal_has_128_more_as_its_exit_code(self, lab: Lab, role: str) -> None:
        described = lab.run(lab.request("import os; os.kill(os.getpid(), 9)", role=role))
        assert described["FailureReason"] == "AlgorithmError: , exit code: 137"

    def test_whose_entry_point_is_not_there_says_so_in_its_log(self, lab: Lab, role: str) -> None:
        request = lab.request("", role=role)
        request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["train"]
        described = lab.run(request)
        assert described["FailureReason"] == "AlgorithmError: , exit code: 127"
        assert lab.lines(described["TrainingJobName"]) == ['exec: "train": executable file not found in $PATH']


class TestAStoppedJob:
    def test_gets_sigterm_in_its_first_process_and_time_to_save(self, lab: Lab, role: str) -> None:
        script = (
            PRELUDE
            + """
def leave(number, frame):
    (base / "model/saved.txt").write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, lambda *a: print('child told', flush=True)); time.sleep(60)"])
print("ready")
time.sleep(60)
"""
        )
        job = lab.create(lab.request(script, role=role))
        lab.wait_for_line(job, "ready")
        lab.stop(job)
        assert lab.describe(job)["SecondaryStatus"] == "Stopping"
        described = lab.wait_for(job, "Stopped")
        assert statuses(described) == ["Starting", "Downloading", "Training", "Stopping", "Stopped"]
        assert "FailureReason" not in described
        assert archive(lab, job, "model.tar.gz") == {"saved.txt": "saved"}
        assert "child told" not in lab.lines(job)  # only the first process of a container gets the signal

    def test_is_killed_after_the_grace_if_it_does_not_listen(self, lab: Lab, role: str) -> None:
        script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
        job = lab.create(lab.request(script, role=role))
        lab.wait_for_line(job, "deaf")
        lab.stop(job)
        told = time.monotonic()
        lab.wait_for(job, "Stopped")
        assert time.monotonic() - told > 1.3  # the grace of the tests' profile is 1.5 s

    def test_cannot_be_stopped_again(self, lab: Lab, role: str) -> None:
        job = lab.run(lab.request("", role=role))["TrainingJobName"]
        status, body = lab.wire("StopTrainingJob", {"TrainingJobName": job})
        assert status == 400
        assert body["__type"] == "ValidationException"
        assert body["message"] == "The request was rejected because the training job is in status Completed."

    def test_by_its_maximum_runtime_is_stopped_and_not_failed(self, lab: Lab, role: str) -> None:
        request = lab.request("import time; time.sleep(60)", role=role)
        request["StoppingCondition"] = {"MaxRuntimeInSeconds": 1}
        described = lab.run(request)
        assert described["TrainingJobStatus"] == "Stopped"
        assert statuses(described)[-2:] == ["Stopping", "MaxRuntimeExceeded"]


class TestCheckpoints:
    def test_are_there_on_every_host_and_changes_and_deletions_go_to_s3_while_it_trains(
        self, lab: Lab, role: str
    ) -> None:
        script = (
            PRELUDE
            + """
folder = base / "checkpoints"
print("found", sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
if rank == 0:
    (folder / "step-1").mkdir()
    (folder / "step-1/weights").write_text("one")
    (folder / "old").unlink()
    print("written")
while not (base / "go").exists():
    time.sleep(0.05)
if rank == 1:
    (folder / "last").write_text("written just before the end")
"""
        )
        prefix = f"checkpoints/{uuid.uuid4().hex}"
        lab.put(f"{prefix}/old", "old")
        lab.put(f"{prefix}/kept/deep", "kept")
        request = lab.request(script, role=role, hosts=2, CheckpointConfig={"S3Uri": f"s3://{BUCKET}/{prefix}"})
        job = lab.create(request)
        for host in ("algo-1", "algo-2"):
            lab.wait_for_line(job, "found ['kept/deep', 'old']", host)
        lab.until(lambda: lab.keys(prefix) == [f"{prefix}/kept/deep", f"{prefix}/step-1/weights"])
        assert lab.describe(job)["SecondaryStatus"] == "Training"
        for number in (1, 2):
            (lab.cloud.state_dir / "jobs" / job / f"algo-{number}" / "ml/go").touch()
        lab.wait_for(job, "Completed")
        assert lab.get(f"{prefix}/last") == b"written just before the end"
        assert f"{prefix}/old" not in lab.keys(prefix)

    def test_are_synced_once_more_after_a_stop(self, lab: Lab, role: str) -> None:
        script = (
            PRELUDE
            + """
def leave(number, frame):
    (base / "checkpoints/at-the-end").write_text("saved on SIGTERM")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready")
time.sleep(60)
"""
        )
        prefix = f"checkpoints/{uuid.uuid4().hex}/"
        job = lab.create(lab.request(script, role=role, CheckpointConfig={"S3Uri": f"s3://{BUCKET}/{prefix}"}))
        lab.wait_for_line(job, "ready")
        lab.stop(job)
        lab.wait_for(job, "Stopped")
        assert lab.keys(prefix) == [f"{prefix}at-the-end"]

    def test_that_the_role_may_not_write_fail_the_job(self, lab: Lab) -> None:
        allowed = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/output/*"}
        script = PRELUDE + '(base / "checkpoints/x").write_text("x"); time.sleep(60)'
        request = lab.request(script, role=lab.role(write=allowed))
        request["CheckpointConfig"] = {"S3Uri": f"s3://{BUCKET}/checkpoints/denied/"}
        described = lab.run(request)
        assert described["TrainingJobStatus"] == "Failed"
        assert described["FailureReason"].startswith("ClientError: Checkpoint upload failed:AccessDenied (403)")


class TestNetworkIsolation:
    def test_leaves_the_container_without_credentials_and_without_s3(self, lab: Lab, role: str) -> None:
        script = "import os; print(sorted(name for name in os.environ if name.startswith('AWS_')))"
        job = lab.run(lab.request(script, role=role, EnableNetworkIsolation=True))["TrainingJobName"]
        assert lab.lines(job) == ["['AWS_DEFAULT_REGION', 'AWS_EC2_METADATA_DISABLED', 'AWS_REGION']"]
