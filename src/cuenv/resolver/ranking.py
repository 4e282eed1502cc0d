"""What is preferred among candidates that fit: named criteria in order, so that "why not" has an answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from packaging.version import Version

from cuenv.resolver.candidates import Candidate, distance
from cuenv.resolver.rules import RULES, Context, Verdict, views
from cuenv.resolver.rules.device import jit_count
from cuenv.resolver.rules.views import View


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assessment:
    """A candidate and what every rule said about it, in the order of the rules.

    Attributes:
        objections: the verdicts that reject it; the first leads.
    """

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    objections: tuple[Verdict, ...]

    @property
    def fits(self) -> bool:
        """No rule rejects it; unknown is not a no."""
        return not self.objections

    def verdict(self, rule: str) -> Verdict:
        """The verdict of a rule."""
        return next(verdict for verdict in self.verdicts if verdict.rule == rule)


class Criterion(NamedTuple):
    """One named criterion of the preference; a smaller key is better.

    Attributes:
        says: how a candidate stands on it, for "why not".
        sees: what of a host the key depends on.
        reads: the rule whose verdict the key reads; none when empty.
        of: what of a candidate the key depends on, so that equal questions are asked once; all of it when absent.
    """

    name: str
    key: Callable[[Assessment, Context], Any]
    says: Callable[[Assessment, Context], str]
    sees: View = views.nothing
    of: Callable[[Candidate], Hashable] | None = None
    reads: str = ""


def _build(item: Candidate) -> Hashable:
    return id(item.build)


def _level(case: Context) -> Version | None:
    return case.facts.driver.cuda if case.facts.driver else None


def _within(item: Assessment, case: Context) -> bool:
    level, cuda = _level(case), item.candidate.cuda
    return level is None or cuda is None or cuda <= level


def _jit(item: Assessment, case: Context) -> int:
    return jit_count(item.candidate.build, case.facts.capabilities)


def _left_open(verdict: Verdict) -> int:
    return verdict.open if verdict.outcome == "unknown" else 0


def _known(rule: str, name: str) -> Criterion:
    """What no row vouches for goes behind what one does: unknown is never as good as known."""
    by = next(item for item in RULES if item.name == rule)
    return Criterion(
        name,
        lambda item, _: _left_open(item.verdict(rule)),
        lambda item, _: item.verdict(rule).because,
        sees=by.sees,
        of=by.weighs or by.key,
        reads=rule,
    )


def _newest(item: Assessment, _: Context) -> tuple[int, ...]:
    return tuple(-part for part in item.candidate.build.version.release)


def _toolkit(item: Assessment, case: Context) -> tuple[int, ...]:
    """The highest toolkit that the driver's level reaches, else the build's own."""
    level, cuda, own = _level(case), item.candidate.cuda, item.candidate.build.cuda
    if cuda is None or own is None:
        return ()
    if level is None:
        # Without a driver the release that runs on the oldest drivers is the one that can be promised.
        return (cuda.major, cuda.minor - own.minor)
    return (-cuda.major, -cuda.minor) if cuda <= level else (cuda.major, cuda.minor)


def _own_cuda(item: Assessment, _: Context) -> tuple[int, ...]:
    own = item.candidate.build.cuda
    return (-own.minor,) if own else ()  # builds for one toolkit are of one major


def _label(item: Assessment, _: Context) -> tuple[int, ...]:
    label = item.candidate.label
    return tuple(-int(part) for part in label.label.split(".")) if label else ()


def _seen(item: Candidate) -> str:
    seen, build = item.build.seen, item.build
    what = f"pytorch {build.version} {build.build}"
    return (
        f"{what} was last seen in a channel on {seen}"
        if seen
        else f"{what} was never seen in a channel, only its recipe"
    )


NATIVE_LEVEL = Criterion(
    "CUDA toolkit not newer than the driver's CUDA version",
    lambda item, case: not _within(item, case),
    lambda item, case: f"CUDA {item.candidate.cuda}; the driver's CUDA version is {_level(case) or 'unknown'}",
    sees=views.level,
    of=lambda item: id(item.cuda),
)

SEEN = Criterion(
    "build was seen in its channel",
    lambda item, case: not (case.proving or item.candidate.build.seen),
    lambda item, _: _seen(item.candidate),
    of=_build,
)
"""A recipe is no package: a build that nobody has seen in a channel loses, unless the channels are asked anyway."""

PREFERENCE: tuple[Criterion, ...] = (
    _known("extensions", "the requested libraries are known to support it"),
    _known("device-code", "PyTorch is known to contain code for the GPUs"),
    _known("cudnn", "cuDNN is known to support the GPUs"),
    _known("nccl", "NCCL is known to support the GPUs"),
    _known("glibc", "glibc is known to be new enough"),
    Criterion(
        "native code for every GPU before PTX (JIT)",
        _jit,
        lambda item, case: f"compute capabilities with PTX only: {_jit(item, case)}",
        sees=views.capabilities,
        of=lambda item: id(item.build.code),
    ),
    _known("roles", "packages for all requested roles"),
    SEEN,
    Criterion("newest PyTorch", _newest, lambda item, _: f"pytorch {item.candidate.build.version}", of=_build),
    Criterion(
        "stack conda-forge",
        lambda item, _: item.candidate.build.stack != "conda-forge",
        lambda item, _: f"stack {item.candidate.build.stack}",
        of=_build,
    ),
    NATIVE_LEVEL,
    Criterion(
        "highest CUDA toolkit up to the driver's CUDA version, else the build's own",
        _toolkit,
        lambda item, _: f"CUDA {item.candidate.cuda}",
        sees=views.level,
        of=lambda item: (id(item.cuda), id(item.build.cuda)),
    ),
    Criterion(
        "build for the highest CUDA",
        _own_cuda,
        lambda item, _: f"build {item.candidate.build.build}",
        of=_build,
    ),
    Criterion(
        "newest label",
        _label,
        lambda item, _: f"label {item.candidate.label.label}" if item.candidate.label else "no label",
    ),
    Criterion(
        "Python nearest 3.12",
        lambda item, _: distance(item.candidate.python),
        lambda item, _: f"python {item.candidate.python}",
    ),
)


def preference(prefer: str) -> tuple[Criterion, ...]:
    """The criteria in order; ``native`` puts the driver's CUDA level first."""
    if prefer != "native":
        return PREFERENCE
    return (NATIVE_LEVEL, *(criterion for criterion in PREFERENCE if criterion is not NATIVE_LEVEL))


class Ranking:
    """The order of the preference for one case: smaller keys are better."""

    def __init__(self, case: Context) -> None:
        self._case = case
        self._criteria = preference(case.wish.prefer)
        self._memo: dict[tuple[int, Hashable], Any] = {}

    def key(self, item: Assessment) -> tuple[Any, ...]:
        """The key of a candidate, one part for each criterion."""
        return tuple([self._part(index, criterion, item) for index, criterion in enumerate(self._criteria)])

    def _part(self, index: int, criterion: Criterion, item: Assessment) -> Any:
        if criterion.of is None:
            return criterion.key(item, self._case)
        known = (index, criterion.of(item.candidate))
        if known not in self._memo:
            self._memo[known] = criterion.key(item, self._case)
        return self._memo[known]
