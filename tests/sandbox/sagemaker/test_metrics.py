from __future__ import annotations

from sandbox.sagemaker.metrics import LogMetrics, gpu_count, synthetic_gpu_utilization


def a_reader(*definitions: tuple[str, str]) -> tuple[LogMetrics, list[tuple[str, float]]]:
    found: list[tuple[str, float]] = []
    entries = [{"Name": name, "Regex": regex} for name, regex in definitions]
    return LogMetrics(entries, lambda name, value, at: found.append((name, value))), found


def test_each_regex_reads_each_line() -> None:
    reader, found = a_reader(("step", r"step=(\d+)"), ("loss", r"loss=(\S+)"))
    reader.read((1.0, "[holdfast/1] phase=step step=12 loss=2.5e-1"))
    reader.read((2.0, "nothing here"))
    assert found == [("step", 12.0), ("loss", 0.25)]


def test_what_cloudwatch_cannot_store_is_dropped() -> None:
    reader, found = a_reader(("loss", r"loss=(\S*)"))
    for text in ("loss=nan", "loss=inf", "loss=abc", "loss="):
        reader.read((1.0, text))
    assert found == []
    assert reader.take("job") == []


def test_data_is_of_one_second_resolution_and_taken_once() -> None:
    reader, _ = a_reader(("step", r"step=(\d+)"))
    reader.read((1_800_000_000.0, "step=1"))
    (datum,) = reader.take("job")
    assert datum["Dimensions"] == [{"Name": "TrainingJobName", "Value": "job"}]
    assert datum["StorageResolution"] == 1
    assert datum["Timestamp"].timestamp() == 1_800_000_000.0
    assert reader.take("job") == []


def test_a_regex_whose_group_took_no_part_says_nothing() -> None:
    reader, found = a_reader(("step", r"end|step=(\d+)"))
    reader.read((1.0, "end"))
    assert found == []


def test_synthetic_gpus_stand_still_without_work_and_rise_with_it() -> None:
    at = [synthetic_gpu_utilization(cpu) for cpu in (0.0, 10.0, 100.0, 400.0)]
    assert at[0] == 0.0
    assert at == sorted(set(at))
    assert at[-1] < 100.0


def test_gpus_are_counted_by_type() -> None:
    counts = {name: gpu_count(name) for name in ("ml.m5.xlarge", "ml.g5.xlarge", "ml.g5.12xlarge", "ml.p5.48xlarge")}
    assert counts == {"ml.m5.xlarge": 0, "ml.g5.xlarge": 1, "ml.g5.12xlarge": 4, "ml.p5.48xlarge": 8}
