"""Where things lie in the bucket, and what a training job is called.

The only place that knows these names: the stacks grant on them, the Lambdas read and write them, the sandbox's
scenarios look at them.
"""

from __future__ import annotations

import hashlib
import re

TEAM_PATTERN = r"[a-z][a-z0-9-]{0,18}[a-z0-9]|[a-z]"
RUN_PATTERN = r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?"
# No hyphen: the event rule matches the job name's prefix `<env>-`, so `prod` must not match the jobs of `prod-eu`.
ENVIRONMENT_PATTERN = r"[a-z][a-z0-9]{0,11}"

MANIFESTS = "manifests/"
STATUS = "status/"
DATA = "data/"
CHECKPOINTS = "checkpoints/"
OUTPUT = "output/"
TEMPLATES = "templates/"
CONTROL = "control/"
QUOTAS_STATUS = "status/quotas.json"
MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")

JOB_NAME_LIMIT = 63  # botocore's model: TrainingJobName


class ManifestKeyError(ValueError):
    """An object under manifests/ whose key does not name a team and a run, in words. The part that does is kept."""

    def __init__(self, words: str, *, team: str | None = None, run: str | None = None) -> None:
        super().__init__(words)
        self.team = team
        self.run = run


def run_id(team: str, run: str) -> str:
    return f"{team}/{run}"


def split_run_id(identity: str) -> tuple[str, str]:
    team, _, run = identity.partition("/")
    return team, run


def parse_manifest_key(key: str) -> tuple[str, str]:
    """(team, run) of `manifests/<team>/<run>.yaml`. Raises ManifestKeyError that says what would be right."""
    found = re.fullmatch(r"manifests/([^/]*)/([^/]*)", key)
    if not found:
        raise ManifestKeyError(f"{key!r}: a manifest lies at manifests/<team>/<run>.yaml, neither higher nor deeper")
    team, name = found.groups()
    ending = next((one for one in MANIFEST_SUFFIXES if name.endswith(one)), "")
    run = name.removesuffix(ending)
    wrong: list[str] = []
    if not (team_is_right := re.fullmatch(TEAM_PATTERN, team)):
        wrong.append(f"team {team!r} must be 1 to 20 lower-case letters, digits and hyphens, starting with a letter")
    if not ending:
        wrong.append(f"a manifest's name ends in {', '.join(MANIFEST_SUFFIXES)}")
    elif not re.fullmatch(RUN_PATTERN, run):
        wrong.append(
            f"run {run!r} must be 1 to 48 lower-case letters, digits and hyphens, "
            "starting and ending with a letter or digit (it becomes part of the SageMaker job's name)"
        )
    if wrong:
        run_is_right = re.fullmatch(RUN_PATTERN, run) and ending
        raise ManifestKeyError(
            f"{key!r}: {'; '.join(wrong)}", team=team if team_is_right else None, run=run if run_is_right else None
        )
    return team, run


def manifest_key(team: str, run: str, suffix: str = ".yaml") -> str:
    return f"{MANIFESTS}{team}/{run}{suffix}"


def status_key(team: str, run: str) -> str:
    return f"{STATUS}{team}/{run}.json"


def history_key(team: str, run: str, job: str, digest: str) -> str:
    """One ended attempt that left the record. A run's name has no dot, so this is no other run's folder.

    `digest` is the attempt's request digest: writing it twice writes the same object, and no other attempt's.
    """
    return f"{STATUS}{team}/{run}.history/{job}-{digest[:8]}.jsonl"


def control_key(team: str, run: str) -> str:
    return f"{CONTROL}{team}/{run}.json"


def checkpoint_prefix(team: str, run: str, generation: int) -> str:
    """Root of one lineage's checkpoints, with its slash. A new generation starts from nothing, so it has its own."""
    return f"{CHECKPOINTS}{team}/{run}/g{generation:03d}/"


def lease_key(team: str, run: str, generation: int) -> str:
    """Beside the lineage's root and not in it: SageMaker's sync would copy a host's stale copy over it."""
    return f"{CHECKPOINTS}{team}/{run}/lease-g{generation:03d}.json"


def output_prefix(team: str, run: str) -> str:
    return f"{OUTPUT}{team}/{run}/"


def bundle_prefix(digest: str) -> str:
    """Agent, templates' code and deployment document of one release: `templates/sha256-<hex>/`."""
    return f"{TEMPLATES}{digest}/"


def source_prefix(team: str, digest: str) -> str:
    """A team's own code, copied at registration so that overwriting the original cannot change a running lineage."""
    return f"{TEMPLATES}team/{team}/{digest}/"


def job_family(environment: str, team: str, run: str) -> str:
    """Common prefix of all of a run's job names, with its final hyphen: `<env>-<team>-<run, cut>-<8 hex>-`.

    The hash is over env/team/run with slashes, which none of the three can contain: team `a` with run `b-c` and team
    `a-b` with run `c` read alike once joined by hyphens, and must not meet.
    """
    digest = hashlib.sha256(f"{environment}/{team}/{run}".encode()).hexdigest()[:8]
    room = JOB_NAME_LIMIT - len(f"{environment}-{team}--{digest}-a00000")
    cut = run[:room].rstrip("-")
    return f"{environment}-{team}-{cut}-{digest}-"


def job_name(environment: str, team: str, run: str, attempt: int) -> str:
    """SageMaker's idempotency key for one attempt."""
    return f"{job_family(environment, team, run)}a{attempt:03d}"
