"""Writing a batch script for Slurm that checks its nodes before it runs anything.

Reference: https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import shlex

from cuenv.core.errors import UsageError
from cuenv.core.io.templates import fill
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.export.dockerfile import comments

_GPUS = regex(r"(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,63}:)?[1-9][0-9]{0,3}")
_OPTION = regex(r"--?[A-Za-z][^\s#]*(?: [^#]*)?")
_JOB = regex(r"[^A-Za-z0-9_.-]+")
_HINT = "cuenv export sbatch --prefix ~/envs/train --gpus a100:2 --option --partition=gpu -- python train.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """What a batch script is written from.

    Attributes:
        version: of cuenv.
        origin: what the environment was made from, in words.
        lock: its path on the nodes.
        environment: the folder of the environment on the nodes.
        gpus: of each node: a number, or Slurm's type and a number.
        options: further options of sbatch.
        command: the words that the job runs.
    """

    version: str
    origin: str
    lock: str
    environment: str
    gpus: str
    options: tuple[str, ...]
    command: tuple[str, ...]


def render_batch_job(job: BatchJob) -> str:
    """The whole script: the same bytes for the same values.

    Raises:
        UsageError: a value that would be another line of a script, or nothing to run.
    """
    if not job.command:
        raise UsageError("nothing says what the job runs", hint=_HINT)
    if not _GPUS.fullmatch(job.gpus):
        raise UsageError(f"--gpus {job.gpus!r} is neither a number nor TYPE:NUMBER", hint=_HINT)
    odd = next((item for item in job.options if not (_OPTION.fullmatch(item) and item.isprintable())), None)
    if odd is not None:
        raise UsageError(f"--option {odd!r} is not an option of sbatch on one line", hint=_HINT)
    for path in (job.lock, job.environment, *job.command):
        if not path.isprintable():
            raise UsageError(f"{path!r} has characters that do not print", hint=_HINT)
    told = [
        f"Written by cuenv {job.version}, export sbatch, from {job.origin}.",
        "Each node is checked before the job begins, so that a node of another kind fails in seconds.",
    ]
    values = {
        "head": "\n".join(comments(told)).removeprefix("# "),
        "job": _JOB.sub("-", job.environment.rstrip("/").rpartition("/")[2]).strip("-") or "cuenv",
        "gpus": job.gpus,
        "lock": shlex.quote(job.lock),
        "environment": shlex.quote(job.environment),
        "command": shlex.join(job.command),
    }
    return fill("job.sbatch", values, {"options": [{"option": item} for item in job.options]})
