"""The rules, most basic first. The first objection leads; all of them stay in the data.

One truth: acceptance, ``why``, ``why-not``, ``check`` and hints all read the verdicts of these rules.
"""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.versions import Capability
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.engine import Judge, Rule, rule, rules
from cuenv.resolver.rules import device, driver, layers, roles, wishes  # noqa: F401 - each holds rules
from cuenv.resolver.verdict import Context, Ground, Outcome, Remedy, Verdict

__all__ = ["RULES", "Context", "Ground", "Judge", "Outcome", "Remedy", "Rule", "Verdict", "rule_named", "verdict_of"]

_NO_LIBRARY = Verdict(rule="extensions", outcome="pass", because="no library that uses PyTorch was requested")


def _no_library(packages: tuple[str, ...], pip: tuple[str, ...]) -> Verdict | None:
    return None if packages or pip else _NO_LIBRARY


@rule("extensions", code="CU505", order=130, title="the requested libraries work with this build", unless=_no_library)
def requested_libraries(
    *,
    build: TorchBuild,
    cuda: Version | None,
    capabilities: tuple[Capability, ...],
    packages: tuple[str, ...],
    pip: tuple[str, ...],
    dev: bool,
    offload: str,
    kb: Knowledge,
) -> Verdict:
    """A requested release of each library (such as DeepSpeed) works with this torch, CUDA, GPUs and compiler."""
    from cuenv.resolver.requirements import demands  # noqa: PLC0415 - 5 ms, and most runs ask for no library
    from cuenv.resolver.rules.extensions import judged  # noqa: PLC0415 - as above

    asked = demands(packages, pip)
    return judged(build, cuda, capabilities, asked, kb, dev=dev, offload=offload) if asked else _NO_LIBRARY


RULES: tuple[Rule, ...] = rules()
_BY_NAME = {one.name: one for one in RULES}


def rule_named(name: str) -> Rule:
    """A rule by its name."""
    return _BY_NAME[name]


def verdict_of(name: str, candidate: Candidate, case: Context) -> Verdict:
    """What one rule says of one candidate."""
    (verdict,) = Judge(case, (_BY_NAME[name],)).verdicts(candidate)
    return verdict
