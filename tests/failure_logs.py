"""Logs of real failures in ``logs/``, and the catalogue of symptoms that they are read with."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cuenv.diagnosis.causes import Diagnosis, diagnose
from cuenv.host.io.record import read_host
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Guidance, Symptom
from cuenv.knowledge.io.load import load, load_guidance

LOGS = Path(__file__).parent / "logs"
CASES = sorted(LOGS.glob("*/*.log"))


@lru_cache
def tables() -> tuple[Knowledge, Guidance]:
    knowledge = load(None)
    return knowledge, load_guidance(knowledge)


@lru_cache
def rows() -> dict[str, Symptom]:
    return {row.id: row for row in tables()[1].symptoms}


def read(data: bytes, host: str | None = None) -> Diagnosis:
    knowledge, guidance = tables()
    return diagnose([data], guidance.symptoms, knowledge, read_host(host, str, knowledge) if host else None)
