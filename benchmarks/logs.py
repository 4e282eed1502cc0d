"""How long `cuenv diagnose` reads a long log, against a Python loop that searches each line for one literal.

    python benchmarks/logs.py [--megabytes 200] [--runs 3] [--logs tests/logs] [--kind training]

The log is made up in the words of real tools: lines of training with numbers that differ, progress bars, warnings, and
the logs of the tests strewn in. The other kinds are of high entropy, where no line is like another: words with numbers
behind them, base 64, records of JSON, and JSON in a single line. Both are processes of their own; their CPU time
counts.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TARGET = 4.0
"""CPU of the loop that diagnosing may take."""
LOOP = """
import sys
found = 0
with open(sys.argv[1], "rb") as log:
    for line in log:
        if b"CUDA out of memory" in line:
            found += 1
"""
WORDS = ["loading", "module", "tensor", "worker", "checkpoint", "layer", "weights", "optimizer", "shard", "batch"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--logs", type=Path, default=Path(__file__).parents[1] / "tests/logs")
    parser.add_argument("--kind", choices=sorted(KINDS), default="training")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        write(log, options.megabytes * 1_000_000, sorted(options.logs.glob("*/*.log")), KINDS[options.kind])
        loop = [sys.executable, "-c", LOOP, str(log)]
        cuenv = [sys.executable, "-m", "cuenv", "diagnose", "--no-config", "--quiet", str(log)]
        taken = [(measure(loop)[0], *measure(cuenv)) for _ in range(options.runs)]
    base, ours = statistics.median(item[0] for item in taken), statistics.median(item[1] for item in taken)
    memory = max(item[2] for item in taken)
    print(f"{options.megabytes} MB, {options.kind}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"the loop {base:.2f} s, cuenv diagnose {ours:.2f} s of CPU, {memory / 1024:.0f} MB")
    print(f"ratio {ours / base:.1f}, target {TARGET}")


def write(path: Path, size: int, cases: list[Path], line: Callable[[random.Random], str]) -> None:
    chance = random.Random(1)
    done = 0
    with path.open("wb") as log:
        while done < size:
            text = line(chance)
            if chance.random() < 0.0001:
                text += chance.choice(cases).read_text(encoding="utf-8")
            done += log.write(text.encode())


def usual(chance: random.Random) -> str:
    part = chance.randrange(100)
    bar = "█" * (part // 10) + " " * (10 - part // 10)
    kind = chance.random()
    if kind < 0.9:
        return (
            f"[rank{chance.randrange(8)}]: {{'loss': {chance.random():.4f}, 'grad_norm': {chance.random():.3f}, "
            f"'epoch': {chance.random():.2f}}}  {part}%|{bar}| {chance.randrange(1000)}/1000 [00:12<01:23]\n"
        )
    if kind < 0.97:
        return f"2024-05-{part % 30:02d} 10:{part % 60:02d}:11,{part:03d} INFO [engine.py:{part}] step={part}\n"
    return f"/env/lib/python3.10/site-packages/x.py:{part}: UserWarning: value {chance.random():.3f} is not finite\n"


def words(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) + hex(chance.getrandbits(24)) for _ in range(7)) + "\n"


def base_64(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(57)).decode() + "\n"


def records(chance: random.Random) -> str:
    return single(chance) + "\n"


def single(chance: random.Random) -> str:
    return json.dumps(
        {chance.choice(WORDS): chance.random(), "id": f"{chance.getrandbits(64):x}", "text": words(chance)}
    )


KINDS = {"training": usual, "words": words, "base64": base_64, "json": records, "line": single}


def measure(command: list[str]) -> tuple[float, int]:
    """CPU seconds and peak kilobytes of a process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


if __name__ == "__main__":
    main()
