"""What is preferred among candidates that fit: named criteria in order, so that "why not" has an answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from packaging.version import Version

from cuenv.core.record import NamedTuple, dataclass
from cuenv.knowledge.rows import LabelFit
from cuenv.resolver.candidates import Candidate, distance
from cuenv.resolver.engine import Arguments, Unit, host_arguments, key_of
from cuenv.resolver.rules import LAYERS, RULES, Context, Verdict
from cuenv.resolver.rules.device import jit_count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assessment:
    """A candidate and what every rule said about it, in the order of the rules."""

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    objections: tuple[Verdict, ...]  # the verdicts that reject it; the first leads

    @property
    def fits(self) -> bool:
        """No rule rejects it; unknown is not a no."""
        return not self.objections

    @property
    def open_layers(self) -> tuple[Verdict, ...]:
        """What no row says of torch, cuDNN and NCCL on the GPUs."""
        return tuple(item for item in self.verdicts if item.outcome == "unknown" and item.rule in LAYERS)

    def verdict(self, rule: str) -> Verdict:
        """The verdict of a rule."""
        return next(verdict for verdict in self.verdicts if verdict.rule == rule)


class Criterion(NamedTuple):
    """One named criterion of the preference; a smaller key is better."""

    name: str
    # what it is by; it names in its signature what it reads, as a rule does. ``None`` for what a rule left open
    key: Callable[..., Any] | None
    says: Callable[[Assessment, Context], str]  # how a candidate stands on it, for "why not"
    reads: str = ""  # the rule whose verdict it is by, where it has no key


def unknown_count(verdict: Verdict) -> int:
    """Of how many things no row says it."""
    return verdict.open if verdict.outcome == "unknown" else 0


def _known(rule: str, name: str) -> Criterion:
    """What no row vouches for goes behind what one does: unknown is never as good as known."""
    return Criterion(name, None, lambda item, _: item.verdict(rule).because, reads=rule)


def _level(context: Context) -> Version | None:
    return context.facts.driver.cuda if context.facts.driver else None


def _newest(release: Version) -> tuple[int, ...]:
    return tuple(-part for part in release.release)


def _toolkit(cuda: Version | None, built_cuda: Version | None, level: Version | None) -> tuple[int, ...]:
    """The highest toolkit that the driver's CUDA version reaches, else the build's own."""
    if cuda is None or built_cuda is None:
        return ()
    if level is None:
        # Without a driver the release that runs on the oldest drivers is the one that can be promised.
        return (cuda.major, cuda.minor - built_cuda.minor)
    return (-cuda.major, -cuda.minor) if cuda <= level else (cuda.major, cuda.minor)


def _label(label: LabelFit | None) -> tuple[int, ...]:
    return tuple(-int(part) for part in label.label.split(".")) if label else ()


def _seen(item: Candidate) -> str:
    seen, build = item.build.seen, item.build
    what = f"pytorch {build.version} {build.build}"
    if seen:
        return f"{what} was last seen in a channel on {seen}"
    return f"{what} was not seen in a channel yet, only its recipe"


NATIVE_LEVEL = Criterion(
    "CUDA toolkit not newer than the driver's CUDA version",
    lambda cuda, level: not (level is None or cuda is None or cuda <= level),
    lambda item, context: f"CUDA {item.candidate.cuda}; the driver's CUDA version is {_level(context) or 'unknown'}",
)

NATIVE_CODE = Criterion(
    "native code for every GPU before PTX (JIT)",
    jit_count,
    lambda item, context: (
        f"compute capabilities with PTX only: {jit_count(item.candidate.build.code, context.facts.capabilities)}"
    ),
)

SEEN = Criterion(
    "build was seen in its channel",
    lambda proving, published: not (proving or published),
    lambda item, _: _seen(item.candidate),
)
"""A recipe is not a package: a build that nobody has seen in a channel loses, unless the channels are asked anyway."""

PREFERENCE: tuple[Criterion, ...] = (
    _known("extensions", "the requested libraries are known to support it"),
    _known("device-code", "PyTorch is known to contain code for the GPUs"),
    _known("cudnn", "cuDNN is known to support the GPUs"),
    _known("nccl", "NCCL is known to support the GPUs"),
    _known("glibc", "glibc is known to be new enough"),
    NATIVE_CODE,
    _known("roles", "packages for all requested roles"),
    _known("as-of", "the build is known to have existed on the requested day"),
    SEEN,
    Criterion("newest PyTorch", _newest, lambda item, _: f"pytorch {item.candidate.build.version}"),
    Criterion(
        "stack conda-forge", lambda stack: stack != "conda-forge", lambda item, _: f"stack {item.candidate.build.stack}"
    ),
    NATIVE_LEVEL,
    Criterion(
        "highest CUDA toolkit up to the driver's CUDA version, else the build's own",
        _toolkit,
        lambda item, _: f"CUDA {item.candidate.cuda}",
    ),
    Criterion(
        "build for the highest CUDA",
        # builds for one toolkit are of one major
        lambda built_cuda: (-built_cuda.minor,) if built_cuda else (),
        lambda item, _: f"build {item.candidate.build.build}",
    ),
    Criterion(
        "newest label",
        _label,
        lambda item, _: f"label {item.candidate.label.label}" if item.candidate.label else "no label",
    ),
    Criterion("Python nearest 3.12", distance, lambda item, _: f"python {item.candidate.python}"),
)

SUPPORT_CRITERIA = PREFERENCE[: PREFERENCE.index(NATIVE_CODE) + 1]
"""The criteria on what a GPU gets, before those on which release it is."""


def preference(prefer: str) -> tuple[Criterion, ...]:
    """The criteria in order; ``native`` puts the driver's CUDA version first."""
    if prefer != "native":
        return PREFERENCE
    return (NATIVE_LEVEL, *(criterion for criterion in PREFERENCE if criterion is not NATIVE_LEVEL))


class Ranking:
    """The order of the preference for one context: smaller keys are better; equal questions are asked once."""

    def __init__(self, context: Context) -> None:
        self.criteria = preference(context.request.prefer)
        self._asker = Arguments(context.request, context.knowledge, proving=context.proving)
        self._alive: list[Candidate] = []
        self._parts = [
            self._part(one.key, host_arguments(one.key, Unit(context.facts))) if one.key else _open_part(one.reads)
            for one in self.criteria
        ]

    def key(self, item: Assessment) -> tuple[Any, ...]:
        """The key of a candidate, one part for each criterion."""
        return tuple([part(item) for part in self._parts])

    def rivals(self, items: Iterable[Assessment], than: Assessment) -> list[Assessment]:
        """Those that may rank before another, had every rule no question left: who asks judges fewer by the rules.

        What a rule leaves open only ever puts a candidate further back.
        """
        own = self.key(than)
        if any(bar for criterion, bar in zip(self.criteria, own, strict=True) if criterion.key is None):
            return list(items)
        left, found = list(items), []
        for criterion, part, bar in zip(self.criteria, self._parts, own, strict=True):
            if criterion.key is not None:
                parts = [(part(item), item) for item in left]
                found += [item for mine, item in parts if mine < bar]
                left = [item for mine, item in parts if mine == bar]
        return found

    def best(self, items: Iterable[Assessment]) -> Assessment | None:
        """The first of the best, asked one criterion after another: most candidates lose by an early one."""
        left = list(items)
        for part in self._parts:
            if len(left) <= 1:
                break
            parts = [part(item) for item in left]
            least = min(parts)
            left = [item for item, mine in zip(left, parts, strict=True) if mine == least]
        return left[0] if left else None

    def _part(self, asked: Callable[..., Any], of_host: dict[str, Any]) -> Callable[[Assessment], Any]:
        """What one criterion says of candidates, asked once for what it reads of them."""
        key, known = key_of((asked,)), dict[Hashable, Any]()

        def part(item: Assessment) -> Any:
            same = key(item.candidate)
            found = known.get(same)
            if found is None:
                found = known[same] = asked(**self._asker.values(asked, item.candidate), **of_host)
                self._alive.append(item.candidate)  # keys are identities
            return found

        return part


def _open_part(rule: str) -> Callable[[Assessment], int]:
    """Of how many things a rule leaves open what it says."""
    place = next(place for place, one in enumerate(RULES) if one.name == rule)
    return lambda item: unknown_count(item.verdicts[place])
