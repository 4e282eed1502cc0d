"""What is odd about a machine itself, whatever is locked: findings of the range CU4xx."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.candidates import Candidate
from cuenv.facts import HostFacts
from cuenv.knowledge import Knowledge
from cuenv.machine.driver import driver_findings
from cuenv.machine.state import state_findings
from cuenv.profile import Profile
from cuenv.report import Finding


def machine_findings(
    facts: HostFacts, chosen: Candidate | None, knowledge: Knowledge, wish: Profile | None = None
) -> tuple[Finding, ...]:
    """What is odd about each real machine itself, whatever is locked.

    Args:
        facts: the host; each real machine of a pool is looked at by itself.
        chosen: what is to run there.
        knowledge: the tables.
        wish: what a profile asks of the machine.
    """
    found: list[Finding] = []
    for machine in facts.machines:
        if machine.detected:
            found += [*_modules(machine, knowledge), *driver_findings(machine, knowledge)]
            found += [*state_findings(machine, chosen, knowledge, wish), *_nvcc_on_path(machine, chosen)]
    return tuple(found)


def _modules(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """GPUs in one box that need different flavours of the kernel modules exclude each other; Windows has neither."""
    if machine.environment.wsl:
        return
    needs: dict[str, list[str]] = {}
    for capability in machine.capabilities:
        row = knowledge.generation(capability)
        if row and row.module in ("open", "proprietary"):
            needs.setdefault(row.module, []).append(f"{capability} ({row.architecture})")
    if len(needs) > 1:
        yield Finding(
            code="CU410",
            severity="warning",
            subject=machine.label,
            message=f"{machine.label}: {', '.join(needs['open'])} works only with the open kernel modules, "
            f"{', '.join(needs['proprietary'])} only with the proprietary ones: one driver cannot drive both",
            fix="put the cards into two machines; one lock can still serve both",
        )


def _nvcc_on_path(machine: HostFacts, chosen: Candidate | None) -> Iterator[Finding]:
    """An nvcc of another CUDA major on PATH would break the build of extensions."""
    if chosen is None or chosen.cuda is None:
        return
    for toolkit in machine.toolkits:
        major = (toolkit.release or "").partition(".")[0]
        if toolkit.on_path and major and major != str(chosen.cuda.major):
            yield Finding(
                code="CU412",
                severity="warning",
                subject=toolkit.path,
                message=f"nvcc {toolkit.release} of {toolkit.path} is on PATH: extensions for a torch of CUDA "
                f"{chosen.cuda} would not build with it",
                fix="conda activate the environment first, or take it from PATH; check with: which nvcc",
            )
