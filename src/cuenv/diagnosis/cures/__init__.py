"""The command that cures a symptom in its place, by the names that the rows of the table give."""

from cuenv.diagnosis.cures import build, compiled, driver, libraries, run, solvers, system, torch
from cuenv.diagnosis.cures.case import JOINS

__all__ = ["JOINS", "build", "compiled", "driver", "libraries", "run", "solvers", "system", "torch"]
