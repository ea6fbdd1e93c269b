"""A host's processes, without a cloud: nothing may escape the shim, and nothing may stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.sagemaker import processes
from sandbox.sagemaker.host import HOST_MARKER, Host
from sandbox.sagemaker.processes import descendants, table, with_environment

# A family that tries to get away: a session of its own, and an orphan whose parent ended.
FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True)
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.Popen(sleep)
        os.write(writes, b"x")
        time.sleep(300)
    os._exit(0)
os.wait()
os.read(reads, 1)
print("ready", flush=True)
"""


@pytest.fixture
def new_host(tmp_path: Path) -> Iterator[Callable[[str], Host]]:
    """Starts a host with a Python script; whatever a test leaves is destroyed."""
    hosts: list[Host] = []

    def new(script: str) -> Host:
        host = Host(f"job-{uuid.uuid4().hex[:8]}", len(hosts) + 1, "127.0.0.1", tmp_path / f"algo-{len(hosts) + 1}")
        host.prepare()
        hosts.append(host)
        environment = host.environment({}, {})
        output, _ = host.start([sys.executable, "-u", "-c", textwrap.dedent(script)], environment)
        host.output = output  # type: ignore[attr-defined]
        return host

    yield new
    for host in hosts:
        host.destroy()
        host.output.close()  # type: ignore[attr-defined]
        host.discard(keep_tree=False)


def first_line(host: Host) -> str:
    return str(host.output.readline().decode().strip())  # type: ignore[attr-defined]


def of(host: Host) -> list[int]:
    return with_environment(HOST_MARKER, host.process_marker)


def states(host: Host) -> set[str]:
    known = table()
    return {known[pid].state for pid in of(host)}


def eventually(met: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not met() and time.monotonic() < deadline:
        time.sleep(0.02)
    return met()


def test_when_the_entry_point_ends_its_descendants_end_with_it(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "sys.exit(7)")
    assert first_line(host) == "ready"
    assert host.wait(5)
    assert host.exit_code == 7
    assert of(host) == []


def test_while_the_entry_point_lives_its_descendants_do(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "time.sleep(300)")
    first_line(host)
    assert len(of(host)) == len(host.processes()) == 5
    assert host.exit_code is None


def test_a_freeze_stops_every_process_and_a_thaw_lets_every_one_go_on(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "time.sleep(300)")
    first_line(host)
    report = host.freeze()
    assert report.processes == 5
    assert abs(report.at - time.time()) < 5
    assert states(host) == {"T"}
    assert host.thaw().processes == 5
    assert eventually(lambda: "T" not in states(host))


def test_a_frozen_host_ignores_sigterm_and_is_killed_whole(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "time.sleep(300)")
    first_line(host)
    host.freeze()
    host.terminate()
    assert not host.wait(0.5)
    assert host.kill().processes == 5
    assert host.wait(5)
    assert host.exit_code == 137
    assert of(host) == []


def test_sigterm_reaches_the_entry_point_alone(new_host: Callable[[str], Host]) -> None:
    host = new_host(
        """
        import signal, subprocess, sys, time
        loud = "import signal, time; signal.signal(signal.SIGTERM, lambda *a: print('child')); time.sleep(300)"
        subprocess.Popen([sys.executable, "-u", "-c", loud])
        def leave(*a):
            print("entry point"); sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        print("ready")
        time.sleep(300)
        """
    )
    first_line(host)
    time.sleep(0.3)
    host.terminate()
    assert host.wait(5)
    assert host.exit_code == 0
    assert host.output.read() == b"entry point\n"  # type: ignore[attr-defined]


def test_a_process_that_forks_while_it_is_frozen_is_frozen_whole(new_host: Callable[[str], Host]) -> None:
    host = new_host(
        """
        import os, time
        print("ready")
        for _ in range(200):
            if os.fork() == 0:
                time.sleep(300)
        time.sleep(300)
        """
    )
    first_line(host)
    host.freeze()
    count = len(of(host))
    time.sleep(0.3)
    assert len(of(host)) == count
    assert states(host) == {"T"}


def test_a_host_whose_shim_is_killed_counts_as_killed_and_leaves_nothing(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "time.sleep(300)")
    first_line(host)
    assert host._running is not None
    host._running.shim.kill()
    assert host.wait(5)
    assert host.exit_code == 137
    host.destroy()
    assert eventually(lambda: of(host) == [])


def test_a_host_of_the_same_name_in_another_emulator_is_left_alone(
    new_host: Callable[[str], Host], tmp_path: Path
) -> None:
    host = new_host("import time; print('ready', flush=True); time.sleep(300)")
    assert first_line(host) == "ready"
    Host(host.job, 1, "127.0.0.1", tmp_path / "elsewhere").destroy()
    assert len(of(host)) == 1
    host.destroy()
    assert of(host) == []


def test_when_the_emulator_dies_the_hosts_die(tmp_path: Path) -> None:
    job, folder = f"job-{uuid.uuid4().hex[:8]}", tmp_path / "algo-1"
    marker = f"{job}/algo-1 in {folder}"
    emulator = f"""
import pathlib, sys, time
from sandbox.sagemaker.host import Host
host = Host({job!r}, 1, "127.0.0.1", pathlib.Path({str(folder)!r}))
host.prepare()
output, _ = host.start([sys.executable, "-u", "-c", {FAMILY + "time.sleep(300)"!r}], host.environment({{}}, {{}}))
output.readline()
host.freeze()
print(host.environment({{}}, {{}})["TMPDIR"], flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", emulator], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        scratch = Path(process.stdout.readline().strip())
        assert scratch.is_dir()
        assert len(with_environment(HOST_MARKER, marker)) == 5
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert eventually(lambda: with_environment(HOST_MARKER, marker) == [])
    assert eventually(lambda: not scratch.exists())


def test_opt_ml_is_replaced_where_it_is_a_path_and_nowhere_else(tmp_path: Path) -> None:
    host = Host("job", 1, "127.0.0.1", tmp_path)
    tree = str(tmp_path / "ml")
    assert host.local("exec python3 /opt/ml/input/data/agent") == f"exec python3 {tree}/input/data/agent"
    assert host.local('echo x >/opt/ml/output/failure; cd "/opt/ml"') == f'echo x >{tree}/output/failure; cd "{tree}"'
    assert host.local("/opt/ml/a:/opt/ml/b") == f"{tree}/a:{tree}/b"
    for other in ("/data/opt/ml/x", "/opt/mlx", "/opt/ml-cache", "/opt/ml.d"):
        assert host.local(other) == other


def test_a_path_outside_opt_ml_is_not_the_hosts(tmp_path: Path) -> None:
    host = Host("job", 1, "127.0.0.1", tmp_path)
    assert host.local_path("/opt/ml/checkpoints/") == tmp_path / "ml/checkpoints"
    with pytest.raises(ValueError, match="'/tmp/x' is not below /opt/ml"):
        host.local_path("/tmp/x")


def test_ps_and_proc_tell_the_same_family(new_host: Callable[[str], Host]) -> None:
    host = new_host(FAMILY + "time.sleep(300)")
    first_line(host)
    assert host._running is not None
    by_proc = descendants(host._running.shim.pid, processes._from_proc())
    by_ps = descendants(host._running.shim.pid, processes._from_ps())
    assert {process.pid for process in by_ps} == {process.pid for process in by_proc}
    assert all(process.resident_bytes > 0 for process in by_ps)


def test_ps_writes_cpu_time_in_three_forms() -> None:
    assert [processes._seconds(text) for text in ("00:01:05", "2-01:00:00", "12:30.5")] == [65.0, 176400.0, 750.5]
