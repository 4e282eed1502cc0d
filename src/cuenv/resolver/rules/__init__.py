"""The rules, most basic first. The first objection leads; all of them stay in the data.

One truth: acceptance, ``why``, ``why-not``, ``check`` and hints all read the verdicts of these rules.
"""

from __future__ import annotations

from collections.abc import Hashable

from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import device, driver, layers, roles, views, wishes
from cuenv.resolver.rules.verdict import Context, Ground, Outcome, Remedy, Rule, Verdict

__all__ = ["RULES", "Context", "Ground", "Judge", "Outcome", "Remedy", "Rule", "Verdict"]


def _nothing(_: Candidate) -> Hashable:
    return None


def _platform(candidate: Candidate) -> Hashable:
    return candidate.build.platform


def _is_cpu(candidate: Candidate) -> Hashable:
    return candidate.build.cuda is None


def _cuda(candidate: Candidate) -> Hashable:
    return id(candidate.cuda)


def _build(candidate: Candidate) -> Hashable:
    return id(candidate.build)


def _stack_and_cuda(candidate: Candidate) -> Hashable:
    return (candidate.build.stack, id(candidate.cuda), id(candidate.label))


def _build_and_cuda(candidate: Candidate) -> Hashable:
    return (id(candidate.build), id(candidate.cuda))


def _cudnn(candidate: Candidate) -> Hashable:
    return (candidate.build.cudnn, candidate.cudnn, candidate.build.cuda, candidate.build.stack)


def _nccl(candidate: Candidate) -> Hashable:
    return (candidate.build.nccl, candidate.nccl, candidate.build.cuda, candidate.build.stack)


def _cudnn_asked(candidate: Candidate) -> Hashable:
    return (id(candidate.build.cudnn), id(candidate.cudnn), id(candidate.build.cuda))


def _nccl_asked(candidate: Candidate) -> Hashable:
    return (id(candidate.build.nccl), id(candidate.nccl), id(candidate.build.cuda))


def _code(candidate: Candidate) -> Hashable:
    return (candidate.build.cuda is None, candidate.build.code)


def _glibc(candidate: Candidate) -> Hashable:
    build = candidate.build
    return (build.glibc, build.stack, build.cudnn, build.nccl, candidate.cuda)


def _wished(candidate: Candidate) -> Hashable:
    return (id(candidate.build), id(candidate.cuda), id(candidate.label), candidate.python)


_NO_EXTENSIONS = Verdict(rule="extensions", outcome="pass", because="no library that sits on torch was asked for")


def _extensions(candidate: Candidate, case: Context) -> Verdict:
    if not case.wish.packages and not case.wish.pip:
        return _NO_EXTENSIONS
    from cuenv.resolver.rules.extensions import extensions  # noqa: PLC0415 - 5 ms, and most runs wish for nothing

    return extensions(candidate, case)


RULES: tuple[Rule, ...] = (
    Rule(
        name="platform",
        title="the build is for the platform",
        key=_platform,
        sees=views.platform,
        judge=wishes.platform,
    ),
    Rule(name="cpu", title="CPU only when asked for", key=_is_cpu, sees=views.nothing, judge=wishes.cpu),
    Rule(name="gpu", title="there is a GPU of known capability", key=_nothing, sees=views.presence, judge=driver.gpu),
    Rule(name="wish", title="it is what was asked for", key=_wished, sees=views.nothing, judge=wishes.wish),
    Rule(
        name="driver-gpu",
        title="the driver drives the GPUs",
        key=_nothing,
        sees=views.driven,
        judge=driver.driver_gpu,
        driver=True,
    ),
    Rule(
        name="driver-floor",
        title="the driver runs the CUDA major",
        key=_cuda,
        sees=views.drivers,
        judge=driver.driver_floor,
        apart=True,
        driver=True,
    ),
    Rule(
        name="device-code",
        title="torch holds code for the GPUs",
        key=_build,
        sees=views.served,
        judge=device.device_code,
        weighs=_code,
        apart=True,
        driver=True,
    ),
    Rule(
        name="nvcc",
        title="nvcc compiles for the GPUs",
        key=_cuda,
        sees=views.capabilities,
        judge=device.nvcc,
        apart=True,
        dev=True,
    ),
    Rule(
        name="cudnn",
        title="cuDNN serves the GPUs",
        key=_cudnn_asked,
        sees=views.capabilities,
        judge=layers.cudnn,
        weighs=_cudnn,
    ),
    Rule(
        name="nccl",
        title="NCCL serves the GPUs",
        key=_nccl_asked,
        sees=views.joined,
        judge=layers.nccl,
        weighs=_nccl,
    ),
    Rule(
        name="glibc",
        title="the C library is new enough",
        key=_build_and_cuda,
        sees=views.libraries,
        judge=layers.glibc,
        weighs=_glibc,
        rests=layers.glibc_rests_on,
        apart=True,
    ),
    Rule(
        name="roles",
        title="every asked role is filled",
        key=_stack_and_cuda,
        sees=views.nothing,
        judge=roles.roles,
        dev=True,
    ),
    Rule(
        name="extensions",
        title="the wished libraries suit it",
        key=_build_and_cuda,
        sees=views.capabilities,
        judge=_extensions,
        dev=True,
    ),
    Rule(
        name="driver-level",
        title="the toolkit is within the driver's level",
        key=_cuda,
        sees=views.level,
        judge=driver.driver_level,
        driver=True,
    ),
)


class Judge:
    """Judges candidates for one case; equal questions are asked once.

    The keys of the rules are identities of table rows: the candidates must outlive the judge.
    """

    def __init__(self, case: Context, rules: tuple[Rule, ...] = RULES) -> None:
        self.case = case
        self._memo: list[tuple[Rule, dict[Hashable, Verdict]]] = [(rule, {}) for rule in rules]
        self._resting: dict[tuple[str, Hashable], Verdict] = {}

    def verdicts(self, candidate: Candidate) -> tuple[Verdict, ...]:
        """The verdict of every rule, in the order of the rules."""
        found = []
        for rule, memo in self._memo:
            key = rule.key(candidate)
            verdict = memo.get(key)
            if verdict is None:
                verdict = memo[key] = self._judged(rule, candidate)
            found.append(verdict)
        return tuple(found)

    def _judged(self, rule: Rule, candidate: Candidate) -> Verdict:
        if rule.rests is None:
            return rule.judge(candidate, self.case)
        known = (rule.name, rule.rests(candidate, self.case.knowledge))
        if known not in self._resting:
            self._resting[known] = rule.judge(candidate, self.case)
        return self._resting[known]
