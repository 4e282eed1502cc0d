"""What GPUs can do, by the table of features: in words, and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cuenv.host.facts import Gpu
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.gpu_names import find_gpu
from cuenv.knowledge.rows import NUMBERS, Feature


def feature_of(gpu: Gpu, knowledge: Knowledge) -> Feature | None:
    """What a GPU can do; ``None`` where its capability is unknown or no row speaks of it.

    Its product counts where the table knows it: chips of one capability can differ.
    """
    if gpu.capability is None:
        return None
    model = find_gpu(gpu.name, knowledge.gpus) if gpu.name else None
    chip = model.chip if model and model.capability == gpu.capability else ""
    return knowledge.feature(gpu.capability, chip)


def features_of(gpus: Iterable[Gpu], knowledge: Knowledge) -> tuple[Feature, ...]:
    """The rows on some GPUs, lowest capability first, each once."""
    rows = {id(row): row for gpu in gpus if (row := feature_of(gpu, knowledge))}
    return tuple(sorted(rows.values(), key=lambda row: (row.capability, row.chip)))


def title(row: Feature) -> str:
    """Of which GPUs a row speaks: ``7.5`` or ``7.5 (TU116)``."""
    return f"{row.capability} ({row.chip})" if row.chip else str(row.capability)


def sentence(row: Feature) -> str:
    """A row in words: what it has, and of the young kinds of number what it has not."""
    return "; ".join(_parts(row))


def _parts(row: Feature) -> Iterator[str]:
    if row.tensor:
        lacking = ", ".join(number for number in ("bf16", "tf32", "fp8", "fp4") if number not in row.tensor)
        yield f"tensor cores for {', '.join(row.tensor)}" + (f", not for {lacking}" if lacking else "")
    else:
        yield "no tensor cores"
    yield "bf16 arithmetic" if row.bf16 else "no bf16 arithmetic"
    if row.fp64:
        yield f"fp64 at 1/{row.fp64} of fp32"


def features_plain(rows: Iterable[Feature], knowledge: Knowledge) -> dict[str, Any]:
    """Rows as plain data by the GPUs that they speak of, with the titles of their sources."""
    return {
        title(row): {
            "tensor": {number: number in row.tensor for number in NUMBERS},
            "bf16": row.bf16,
            "fp64": f"1/{row.fp64}" if row.fp64 else None,
            "confidence": "low" if row.low else "high",
            "sources": [knowledge.sources[item].title for item in row.sources],
        }
        for row in rows
    }
