"""Rules on the request: the platform, CPU or CUDA, and the versions."""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.versions import version
from cuenv.host.request import Request
from cuenv.knowledge.rows import LabelFit, TorchBuild
from cuenv.resolver.candidates import admits
from cuenv.resolver.engine import rule
from cuenv.resolver.verdict import HOST, Ground, Verdict, fact_ground


@rule("platform", code="CU110", order=10, title="the build is for the platform of the host", locked=False)
def platform(built_for: str, platform: str) -> Verdict:
    """The build exists for the platform of the host."""
    grounds = (fact_ground("platform", f"the platform of {HOST} is {platform}"),)
    if platform == built_for:
        return Verdict(rule="platform", outcome="pass", because=f"this build is for {built_for}", grounds=grounds)
    because = f"this build is for {built_for}, but the platform of the host is {platform}"
    return Verdict(rule="platform", outcome="reject", because=because, grounds=grounds)


@rule("cpu", code="CU110", order=20, title="a CPU build is chosen only on request", locked=False)
def cpu_only_when_asked_for(built_cuda: Version | None, cpu: bool) -> Verdict:
    """A CPU build is chosen when it is asked for, and only then."""
    is_cpu = built_cuda is None
    grounds = (Ground("wish", "--cpu was given" if cpu else "--cpu was not given"),)
    if is_cpu == cpu:
        because = "--cpu requests this CPU build" if is_cpu else "this is a CUDA build"
        return Verdict(rule="cpu", outcome="pass", because=because, grounds=grounds)
    because = (
        "a CPU build is chosen only with --cpu" if is_cpu else "--cpu requests a CPU build, but this is a CUDA build"
    )
    return Verdict(rule="cpu", outcome="reject", because=because, grounds=grounds)


_AS_ASKED = Verdict(rule="wish", outcome="pass", because="this build has the requested versions")


def _nothing_asked(request: Request) -> Verdict | None:
    asked = request.stack or request.pytorch or request.cuda or request.python
    return None if asked else _AS_ASKED


@rule(
    "wish",
    code="CU110",
    order=40,
    title="the build has the requested versions",
    about=("cuda", "python", "stack"),
    unless=_nothing_asked,
    locked=False,
)
def wish(build: TorchBuild, cuda: Version | None, label: LabelFit | None, python: str, request: Request) -> Verdict:
    """The versions and the stack are those that the options or the profile request."""
    asked = request
    if asked.stack and asked.stack != build.stack:
        return _refused(f"--stack {asked.stack}", f"this build is from the stack {build.stack}")
    if asked.pytorch and not asked.pytorch.admits(build.version):
        return _refused(f"--pytorch {asked.pytorch}", f"this build has pytorch {build.version}")
    if asked.cuda and cuda and not admits(asked.cuda, str(cuda)):
        return _refused(f"--cuda {asked.cuda}", f"this build has CUDA {cuda}")
    if asked.cuda and label and not asked.cuda.admits(version(label.label)):
        return _refused(f"--cuda {asked.cuda}", f"its CUDA toolkit is {label.label}")
    if asked.python and not admits(asked.python, python):
        return _refused(f"--python {asked.python}", f"this build has python {', '.join(build.pythons)}")
    return _AS_ASKED


def _refused(asked: str, but: str) -> Verdict:
    because = f"the build does not match {asked}"
    return Verdict(
        rule="wish", outcome="reject", because=because, grounds=(Ground("wish", f"{asked} was given, but {but}"),)
    )
