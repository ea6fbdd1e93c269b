"""What a container runtime is for a container: starts one host's entry point, signals it, and leaves nothing behind.

Run by host.py as `python -S -E -m sandbox.sagemaker.shim <control fd>`, in a session of its own. Orders come as lines
over the control socket:

    {"argv": [...], "env": {...}, "cwd": "...", "scratch": "..."}   first; the answer is {"pid": n}
    term     SIGTERM to the entry point alone, as the container's process 1 gets it
    stop     SIGSTOP to every process of the host; cont the reverse; kill SIGKILL
             each is answered by {"done": order, "processes": n, "at": epoch seconds}

When the entry point ends, all of its descendants are killed (a container ends with its process 1) and the last line is
{"exit": code}, 128 + n for signal n. When the control socket closes because the emulator died, in whatever way, the
same happens without the line. The folder `scratch` is deleted in either case.

The shim is its descendants' subreaper (Linux), so a process that double-forks or opens a session of its own, as
torchrun's workers do, still descends from it and is found. Standard library only.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from sandbox.sagemaker.processes import Process, descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_PASSES = 100
"""A process may fork while its host is being stopped: look again, so often at most."""


class Shim:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._entry = 0
        self._exit_code: int | None = None
        self._received = b""
        self._emulator = os.getppid()
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup pipe alone matters

    def run(self) -> None:
        if sys.platform == "linux":
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        order = self._next_order()
        if order is None:
            return
        spec = json.loads(order)
        self._start(spec)
        while self._exit_code is None:
            # The time limit is for an emulator that died while somebody else holds a copy of its end of the socket.
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [], 1.0)
            if self._woken in ready:
                os.read(self._woken, 1024)
                self._reap()
            if (self._control.fileno() in ready and not self._obey()) or os.getppid() != self._emulator:
                break
        self._kill_all()
        shutil.rmtree(spec["scratch"], ignore_errors=True)
        if self._exit_code is not None:
            self._answer({"exit": self._exit_code})

    def _start(self, spec: dict[str, Any]) -> None:
        self._entry = os.fork()
        if self._entry == 0:
            _become(spec)
        # The host's output ends when its own processes have closed it: this copy must not keep it open.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        self._answer({"pid": self._entry})

    def _obey(self) -> bool:
        """One order; False at the end of the socket."""
        order = self._next_order()
        if order is None:
            return False
        if order == "term":
            os.kill(self._entry, signal.SIGTERM)
            count = 1
        elif order == "stop":
            # D: it waits inside the kernel (for its vfork child, say) and stops before it runs another instruction.
            count = self._signal_all(signal.SIGSTOP, until=lambda process: process.state in ("T", "D"))
        elif order == "cont":
            count = self._signal_all(signal.SIGCONT, until=lambda process: process.state != "T")
        elif order == "kill":
            count = len(descendants(os.getpid()))
            self._kill_all()
        else:
            raise ValueError(f"unknown order {order!r}")
        self._answer({"done": order, "processes": count, "at": time.time()})
        return True

    def _signal_all(self, number: int, until: Callable[[Process], bool]) -> int:
        """Signal every descendant, the new ones too, until all are as wanted; the number of processes signalled."""
        signalled: set[int] = set()
        for _ in range(_PASSES):
            found = descendants(os.getpid())
            left = [process for process in found if process.pid not in signalled or not until(process)]
            if not left:
                break
            for process in left:
                signalled.add(process.pid)
                _send(process, number)
            time.sleep(0.002)
        return len(signalled)

    def _kill_all(self) -> None:
        """SIGKILL until there is no child left. As subreaper the shim becomes the parent of every orphan in the end."""
        while True:
            for process in descendants(os.getpid()):
                _send(process, signal.SIGKILL)
            if not self._reap():
                return
            time.sleep(0.005)

    def _reap(self) -> bool:
        """Take the exit codes of children that ended; whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._entry:
                code = os.waitstatus_to_exitcode(status)
                self._exit_code = code if code >= 0 else 128 - code

    def _next_order(self) -> str | None:
        while b"\n" not in self._received:
            try:
                chunk = self._control.recv(65536)
            except OSError:
                return None
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def _answer(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the emulator is gone; the loop finds out by itself
            self._control.sendall(json.dumps(message).encode() + b"\n")


def _become(spec: dict[str, Any]) -> NoReturn:
    """In the forked child: turn into the entry point."""
    code = _NOT_EXECUTABLE
    argv, env = spec["argv"], spec["env"]
    try:
        os.setsid()
        if sys.platform == "linux":
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # should the shim itself be killed
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and an ignored signal survives exec
        os.chdir(spec["cwd"])
        os.execvpe(argv[0], argv, env)  # noqa: S606 - this is what a container runtime does
    except FileNotFoundError:
        # As the container runtime says it (aws/amazon-sagemaker-examples#739).
        os.write(2, f'exec: "{argv[0]}": executable file not found in $PATH\n'.encode())
        code = _NOT_FOUND
    except OSError as error:
        os.write(2, f'exec: "{argv[0]}": {error.strerror}\n'.encode())
    finally:
        os._exit(code)


def _send(process: Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # ended meanwhile
        os.kill(process.pid, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as endpoint:
        endpoint.set_inheritable(False)
        Shim(endpoint).run()
