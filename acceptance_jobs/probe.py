"""What the single jobs of `holdfast acceptance` run: writes down its own time, and behaves as it is told.

    python3 probe.py talk <seconds> | linger | peers | leave

Standard library, Python 3.9: it runs in whatever image the account's config lists. Every line says when it was written
by this host's clock, so that what CloudWatch shows later can be laid beside it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

BASE = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
CHECKPOINTS = BASE / "checkpoints"
# SIGKILL comes 120 s after SIGTERM (API reference, StopTrainingJob). Past this it did not come.
LONGEST_SECONDS = 300.0


def say(event, **words):
    told = " ".join("{}={}".format(name, value) for name, value in words.items())
    print("[acceptance/1] t={:.3f} host={} event={} {}".format(time.time(), host(), event, told).rstrip(), flush=True)


def host():
    # The name that CloudWatch uses, algo-<n>, is the place in the sorted list where the hosts are not called that.
    config = json.loads((BASE / "input/config/resourceconfig.json").read_text())
    current, hosts = config["current_host"], config["hosts"]
    return current if current.startswith("algo-") else "algo-{}".format(hosts.index(current) + 1)


def save(name):
    """One checkpoint: a file that says when it was written."""
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    (CHECKPOINTS / "{}-{}".format(host(), name)).write_text("{:.3f}".format(time.time()))


def talk(seconds):
    folder = BASE / "input/data/code"
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            say("file", path=path.relative_to(folder).as_posix())
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        number += 1
        say("tick", n=number)
        if number % 5 == 0:
            save("tick-{}".format(number))
            say("saved", n=number)
        time.sleep(0.87)  # out of step with whatever is sent once a second
    say("last")


def outstay_sigterm(write=None):
    """Go on after SIGTERM, and say so: the last line of all is as near to SIGKILL as anything in here can see."""
    state = {"term": None}

    def on_term(*_):
        state["term"] = time.monotonic()

    signal.signal(signal.SIGTERM, on_term)
    began = time.monotonic()
    number = 0
    said = False
    while time.monotonic() - began < LONGEST_SECONDS:
        if state["term"] is not None and not said:
            said = True
            say("sigterm")
            if write is not None:
                write("sigterm")
        number += 1
        say("alive", n=number)
        if write is not None:
            write("alive-{}".format(number))
        time.sleep(0.5)
    say("outlived")


def peers():
    """The second host fails; the first one watches what becomes of it."""
    if host() == "algo-2":
        time.sleep(5)
        say("failing")
        sys.exit(7)
    outstay_sigterm()


def main():
    what = sys.argv[1]
    say("begin", pid=os.getpid())
    if what == "talk":
        talk(float(sys.argv[2]))
    elif what == "linger":
        outstay_sigterm(save)
    elif what == "peers":
        peers()
    elif what != "leave":
        sys.exit("probe.py: no such behaviour: {}".format(what))


if __name__ == "__main__":
    main()
