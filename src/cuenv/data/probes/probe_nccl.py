"""NCCL adds up over all visible GPUs, one process each; they meet through a file."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _told import Observed, Skip, answer, load

PATIENCE = 120


def look(told: Observed) -> None:
    torch = load("torch")
    world = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not world:
        raise Skip("no GPU")
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        raise Skip("this torch is built without NCCL")
    with tempfile.TemporaryDirectory() as folder:
        ended = together(world, Path(folder))
    failed = [rank for rank in ended if rank[1]]
    # What was stopped is told only where nothing failed: the others waited for what did.
    bad = failed or [rank for rank in ended if rank[1] is None]
    for rank, code, text in bad:
        lines = [line for line in text.splitlines() if line.strip()]
        last = lines[-1] if lines else f"it ended with status {code}"
        told.fail(f"rank {rank} of {world}", last if code else f"no result within {PATIENCE} s", lines[-12:])
    version = ".".join(map(str, torch.cuda.nccl.version()))
    told.facts["nccl"] = version
    if not bad:
        told.done.append("NCCL %s over %d GPU%s" % (version, world, "" if world == 1 else "s"))


def together(world: int, folder: Path) -> list[tuple[int, int | None, str]]:
    """Each rank, how it ended (``None``: it was stopped), and what it wrote; one that fails ends the others."""
    environ = dict(os.environ)
    environ.setdefault("NCCL_DEBUG", "WARN")
    ranks = [start(rank, world, folder, environ) for rank in range(world)]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        codes = [process.poll() for process in ranks]
        if None not in codes:
            break
        if any(codes):
            deadline = min(deadline, time.monotonic() + 1)  # the others may have something to say as well
        time.sleep(0.05)
    codes = [process.poll() for process in ranks]
    for process in ranks:
        process.kill()
        process.wait()
    return [(rank, code, said(folder, rank).read_text(errors="replace")[-8000:]) for rank, code in enumerate(codes)]


def start(rank: int, world: int, folder: Path, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-B", str(Path(__file__).resolve()), str(rank), str(world), str(folder / "meet")]
    with said(folder, rank).open("wb") as stream:
        return subprocess.Popen(words, stdout=stream, stderr=subprocess.STDOUT, env=environ)  # noqa: S603 - this very file


def said(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}"


def one(rank: int, world: int, meet: str) -> None:
    """What each process does: put its number in, and take the sum out."""
    import torch  # noqa: PLC0415 - the parent has looked whether it is there

    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl",
        init_method="file://" + meet,
        rank=rank,
        world_size=world,
        timeout=dt.timedelta(seconds=PATIENCE),
    )
    numbers = torch.full((1024,), float(rank + 1), device=f"cuda:{rank}")
    torch.distributed.all_reduce(numbers)
    torch.cuda.synchronize()
    expected = world * (world + 1) / 2
    if not bool((numbers == expected).all()):
        sys.exit("the sum is %s, not %s" % (float(numbers[0]), expected))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        one(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        answer(look)
