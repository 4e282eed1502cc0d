"""Functions that suggest a command for a symptom in its log; `CURES` holds each by the name that the table uses."""

from cuenv.diagnosis.cures import build, compiled, driver, libraries, run, solvers, sources, system, torch
from cuenv.diagnosis.cures.context import CURES

__all__ = ["CURES", "build", "compiled", "driver", "libraries", "run", "solvers", "sources", "system", "torch"]
