"""Rules on what was asked for: the platform, CPU or CUDA, and the wishes on versions."""

from __future__ import annotations

from cuenv.core.versions import version
from cuenv.resolver.candidates import Candidate, admits
from cuenv.resolver.rules.verdict import Context, Ground, Verdict, fact_ground


def platform(candidate: Candidate, case: Context) -> Verdict:
    """The build exists for the platform of the host."""
    wanted, have = case.facts.platform, candidate.build.platform
    grounds = (fact_ground(case.facts, "platform", f"the platform is {wanted}"),)
    if wanted == have:
        return Verdict(rule="platform", outcome="pass", because=f"the build is for {have}", grounds=grounds)
    because = f"a build for {have} does not run on {wanted}"
    return Verdict(rule="platform", outcome="reject", because=because, grounds=grounds)


def cpu(candidate: Candidate, case: Context) -> Verdict:
    """A CPU build is chosen when it is asked for, and only then."""
    is_cpu = candidate.build.cuda is None
    grounds = (Ground("wish", "--cpu was given" if case.wish.cpu else "--cpu was not given"),)
    if is_cpu == case.wish.cpu:
        because = "a CPU build was asked for" if is_cpu else "a CUDA build"
        return Verdict(rule="cpu", outcome="pass", because=because, grounds=grounds)
    because = (
        "a CPU build is never chosen unless --cpu asks for it"
        if is_cpu
        else "a CPU build was asked for, and this one is for CUDA"
    )
    return Verdict(rule="cpu", outcome="reject", because=because, grounds=grounds)


def wish(candidate: Candidate, case: Context) -> Verdict:
    """The versions and the stack are those that the options or the profile ask for."""
    build, asked = candidate.build, case.wish
    if asked.stack and asked.stack != build.stack:
        return _refused(f"--stack {asked.stack}", f"this build is of the stack {build.stack}")
    if asked.pytorch and not asked.pytorch.admits(build.version):
        return _refused(f"--pytorch {asked.pytorch}", f"this one has pytorch {build.version}")
    if asked.cuda and candidate.cuda and not admits(asked.cuda, str(candidate.cuda)):
        return _refused(f"--cuda {asked.cuda}", f"this one has CUDA {candidate.cuda}")
    label = candidate.label
    if asked.cuda and label and not asked.cuda.admits(version(label.label)):
        return _refused(f"--cuda {asked.cuda}", f"the toolkit of this one is {label.label}")
    if asked.python and not admits(asked.python, candidate.python):
        return _refused(f"--python {asked.python}", f"this build has python {', '.join(build.pythons)}")
    return _AS_ASKED


_AS_ASKED = Verdict(rule="wish", outcome="pass", because="it is what was asked for")


def _refused(asked: str, but: str) -> Verdict:
    because = f"{asked} was asked for"
    return Verdict(rule="wish", outcome="reject", because=because, grounds=(Ground("wish", f"{asked}; {but}"),))
