from __future__ import annotations

from pathlib import Path

import pytest

from holdfast_agent.failure import FAILURE_CHARACTERS, describe_failure, shell_code, write_failure

ONE = """\
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 12, in <module>
    main()
  File "/opt/ml/code/train.py", line 9, in main
    load()
  File "/usr/lib/python3.11/site-packages/torch/serialization.py", line 900, in load
    raise ValueError
ValueError: no such file: weights.pt""".splitlines()

# As torch 2.13 writes it, shortened: rank 1 is the cause, rank 0 its victim, and torchrun's own traceback comes last.
TWO_RANKS = """\
[rank1]: Traceback (most recent call last):
[rank0]: Traceback (most recent call last):
[rank1]:   File "/opt/ml/code/train.py", line 30, in step
[rank0]:   File "/opt/ml/code/train.py", line 41, in agree
[rank1]:     raise RuntimeError("the batch of shard 7 is empty")
[rank1]: RuntimeError: the batch of shard 7 is empty
[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234
E1201 03:00:00.000 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 1 (pid: 9)
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 198, in _run_module_as_main
    return _run_code(code)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_03:00:00
  host      : algo-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 9)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================""".splitlines()


def test_an_error_is_named_with_host_place_and_exit_code() -> None:
    assert describe_failure("algo-2", 1, ONE) == (
        "host algo-2: the script ended with exit code 1: ValueError: no such file: weights.pt (train.py:9 in main)"
    )


def test_the_first_failing_rank_is_named_and_not_its_last_victim() -> None:
    assert describe_failure("algo-1", 1, TWO_RANKS) == (
        "host algo-1: rank 1 failed first here and ended with exit code 1: "
        "RuntimeError: the batch of shard 7 is empty (train.py:30 in step)"
    )


def test_the_cause_is_found_without_torchruns_report_too() -> None:
    assert "the batch of shard 7 is empty" in describe_failure("algo-1", 1, TWO_RANKS[:7])


def test_a_host_that_holds_only_a_victim_says_that_it_is_one() -> None:
    victim = [line for line in TWO_RANKS if line.startswith("[rank0]")]
    assert "a consequence: a process on another host" in describe_failure("algo-1", 1, victim)


def test_of_a_chain_of_exceptions_the_last_counts() -> None:
    chain = [
        *ONE,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 14, in <module>',
        "    sys.exit(1 / 0)",
        "ZeroDivisionError: division by zero",
    ]
    assert describe_failure("algo-1", 1, chain).endswith(
        "ZeroDivisionError: division by zero (train.py:14 in <module>)"
    )


def test_an_exception_that_was_caught_and_logged_before_is_not_the_cause() -> None:
    later = [line.replace("ValueError: no such file: weights.pt", "KeyError: 'lr'") for line in ONE]
    assert "KeyError: 'lr'" in describe_failure("algo-1", 1, [*ONE, "retrying", *later])


@pytest.mark.parametrize(
    ("code", "words"), [(-9, "killed by SIGKILL (the kernel"), (-11, "SIGSEGV"), (3, "exit code 3")]
)
def test_a_signal_is_said_in_words(code: int, words: str) -> None:
    assert words in describe_failure("algo-1", code, [])


def test_a_killed_worker_is_told_from_torchruns_report() -> None:
    killed = [line.replace("exitcode  : 1 (pid: 9)", "exitcode  : -9 (pid: 9)") for line in TWO_RANKS[7:]]
    assert "rank 1 failed first here and was killed by SIGKILL" in describe_failure("algo-1", 1, killed)


def test_a_killed_workers_victims_are_not_blamed() -> None:
    silent = [line for line in TWO_RANKS if not line.startswith("[rank1]")]
    killed = [line.replace("exitcode  : 1 (pid: 9)", "exitcode  : -9 (pid: 9)  (SIGKILL)") for line in silent]
    words = describe_failure("algo-1", 1, killed)
    assert "rank 1 failed first here and was killed by SIGKILL" in words
    assert "Connection closed by peer" not in words


def test_exit_codes_of_signals_are_as_a_shell_gives_them() -> None:
    assert [shell_code(code) for code in (0, 7, -9, -15)] == [0, 7, 137, 143]


def test_the_failure_file_holds_at_most_what_sagemaker_reads(tmp_path: Path) -> None:
    write_failure(tmp_path, "é" * 5_000)
    assert (tmp_path / "output" / "failure").read_text(encoding="utf-8") == "é" * FAILURE_CHARACTERS
