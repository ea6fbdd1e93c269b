from __future__ import annotations

import math

from holdfast_agent.beat import Beat, beat_from_env
from holdfast_agent.contract import Heartbeat, parse_heartbeat


class Recorder:
    """A beat at a clock that the test turns, and the heartbeats it wrote."""

    def __init__(self, every_seconds: float = 1.0, speaks: bool = True) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.beat = Beat(2, speaks, every_seconds, clock=lambda: self.now, emit=self.lines.append)

    @property
    def beats(self) -> list[Heartbeat]:
        return [found for line in self.lines if (found := parse_heartbeat(line))]

    @property
    def steps(self) -> list[int | None]:
        return [beat.step for beat in self.beats if beat.phase == "step"]


class Tensor:
    """What a device's tensor does to a heartbeat: reading its value costs a synchronisation."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.reads = 0

    def detach(self) -> Tensor:
        return self

    def __float__(self) -> float:
        self.reads += 1
        return self.value


def test_the_first_step_is_written_at_once_and_later_ones_once_a_second() -> None:
    recorder = Recorder()
    for step in range(1, 31):
        recorder.beat.step(step)
        recorder.now += 0.125
    assert recorder.steps == [1, 9, 17, 25]


def test_every_step_is_written_where_that_is_asked() -> None:
    recorder = Recorder(every_seconds=0)
    for step in range(1, 6):
        recorder.beat.step(step)
    assert recorder.steps == [1, 2, 3, 4, 5]


def test_the_newest_step_is_written_with_its_own_loss_before_another_phase() -> None:
    recorder = Recorder()
    for step in range(1, 5):
        recorder.beat.step(step, loss=float(step))
        recorder.now += 0.1
    recorder.beat.phase("checkpoint", step=4)
    assert [(beat.phase, beat.step, beat.loss) for beat in recorder.beats] == [
        ("step", 1, 1.0),
        ("step", 4, 4.0),
        ("checkpoint", 4, None),
    ]


def test_a_step_that_was_written_is_not_written_again_before_another_phase() -> None:
    recorder = Recorder(every_seconds=0)
    recorder.beat.step(1)
    recorder.beat.phase("finish")
    assert recorder.steps == [1]


def test_throughput_is_the_tokens_between_two_lines_over_the_time_between_them() -> None:
    recorder = Recorder()
    for step in range(1, 12):
        recorder.beat.step(step, tokens=50)
        recorder.now += 0.125
    # Lines at steps 1 and 9: eight steps of 50 tokens in one second; the first has nothing before it to measure.
    assert [beat.tokens_per_second for beat in recorder.beats] == [None, 400.0]


def test_throughput_is_left_out_where_a_steps_tokens_are_not_known() -> None:
    recorder = Recorder()
    recorder.beat.step(1, tokens=50)
    recorder.now += 0.5
    recorder.beat.step(2)
    recorder.now += 0.5
    recorder.beat.step(3, tokens=50)
    assert [beat.tokens_per_second for beat in recorder.beats] == [None, None]


def test_a_loss_on_a_device_is_read_only_for_the_lines_that_are_written() -> None:
    recorder = Recorder()
    losses = [Tensor(1.5) for _ in range(5)]
    for step, loss in enumerate(losses, 1):
        recorder.beat.step(step, loss=loss)
        recorder.now += 0.3
    assert [loss.reads for loss in losses] == [1, 0, 0, 0, 1]


def test_a_loss_that_is_not_a_number_is_said_as_such() -> None:
    recorder = Recorder()
    recorder.beat.step(1, loss=math.nan)
    assert recorder.lines == ["[holdfast/1] phase=step attempt=2 step=1 loss=nan"]


def test_only_the_first_rank_of_all_speaks() -> None:
    silent = Recorder(speaks=False)
    silent.beat.step(1)
    silent.beat.phase("finish")
    assert silent.lines == []
    lines: list[str] = []
    for env in ({"RANK": "0"}, {"RANK": "1"}, {"HOLDFAST_HOST_RANK": "1"}, {}):
        beat = beat_from_env(env)
        beat._emit = lines.append
        beat.step(len(lines))
    assert len(lines) == 2
