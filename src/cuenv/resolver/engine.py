"""The engine of rules: a rule names in its signature what it reads, and is handed that and nothing else.

A verdict is remembered by exactly what its rule named, so that a wrong key cannot be written. What can be named:

- of a candidate: the names of `_OF_CANDIDATE`, and every function that is marked with `reading`;
- of a host, a machine or a GPU (``per``): the names of `_OF_HOST`;
- of the request and the tables: the names of `_given`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

from cuenv.core.record import NamedTuple
from cuenv.host.facts import Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.verdict import Context, HostWords, Verdict, worst

Per = Literal["host", "machine", "gpu", "capability"]
Presence = Literal["level", "untold", "no", "bare", "blind", "known"]
"""What is known of the GPUs: only a driver's CUDA version is given; nobody told them; there is no GPU; a machine of
several has none; one is of unknown capability; or all capabilities are known."""
RuleFunction: TypeAlias = Callable[..., Any]


class Rule(NamedTuple):
    """A rule; `rule` makes one of a function."""

    name: str
    code: str  # of the finding that an objection becomes
    title: str
    order: int  # the most basic rules first: the first objection leads
    judge: Callable[..., Verdict]
    about: tuple[str, ...] = ()  # what a person may ask about to get its verdict, beside ``pytorch``
    # what it is asked about: the host, each machine, each GPU, or each capability; the worst verdict counts
    per: Per = "host"
    # answers before, where it is no matter of the host; it names nothing of a host
    unless: Callable[..., Verdict | None] | None = None
    cites: RuleFunction | None = None  # the reason that comes first in each of its verdicts
    without: str = ""  # why it passes where there is nothing to ask it about
    locked: bool = True  # it judges a locked environment as well as a choice

    @property
    def questions(self) -> tuple[RuleFunction, ...]:
        """Its functions."""
        return tuple(item for item in (self.judge, self.unless, self.cites) if item)

    @property
    def reads(self) -> frozenset[str]:
        """All that it names."""
        return _all_names(self.questions)


_FOUND: list[Rule] = []
_READINGS: dict[str, RuleFunction] = {}


def rule(name: str, *, code: str, order: int, title: str, **more: Any) -> Callable[[RuleFunction], RuleFunction]:
    """Mark a function as a rule, see `Rule`; what it names must be known, or the import fails."""

    def marked(function: RuleFunction) -> RuleFunction:
        made = Rule(name, code, title, order, function, **more)
        if not code:
            raise TypeError(f"the rule {name} has no finding code")
        _check_names(made.questions, name)
        if made.unless and any(item in _OF_HOST for item in _names(made.unless)):
            raise TypeError(f"what answers before the rule {name} reads the host")
        if made.per in ("gpu", "capability") and not made.without:
            raise TypeError(f"the rule {name} does not say, by `without`, why a host without a GPU passes")
        _FOUND.append(made)
        return function

    return marked


def reading(function: RuleFunction) -> RuleFunction:
    """Mark a function whose name rules and further readings may name: it is asked with what it names itself."""
    _READINGS[function.__name__] = function
    return function


def rules() -> tuple[Rule, ...]:
    """All rules, the most basic first."""
    return tuple(sorted(_FOUND, key=lambda item: item.order))


def _check_names(functions: Iterable[RuleFunction], name: str) -> None:
    strange = {item for function in functions for item in _names(function)}
    strange -= {*_OF_CANDIDATE, *_OF_HOST, *_READINGS, *_given(Request(), None, proving=False)}
    if strange:
        raise TypeError(f"the rule {name} reads {', '.join(sorted(strange))}, which nothing gives")


@lru_cache(maxsize=128)
def _names(function: RuleFunction) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


_OF_CANDIDATE = {
    "build": "build",
    "cuda": "cuda",
    "label": "label",
    "python": "python",
    "cudnn": "cudnn",
    "nccl": "nccl",
    "compiler": "compiler",
    "built_for": "build.platform",
    "built_cuda": "build.cuda",
    "stack": "build.stack",
    "release": "build.version",
    "published": "build.published",
    "of_cudatoolkit": "build.of_cudatoolkit",
    "code": "build.code",
    "asked_cudnn": "build.cudnn",
    "asked_nccl": "build.nccl",
}
"""Where in a candidate what a rule names is found."""


def _presence(facts: HostFacts) -> Presence:
    if not facts.gpus:
        return "level" if facts.driver and not facts.detected else "untold" if facts.untold else "no"
    if any(not machine.gpus for machine in facts.machines):
        return "bare"
    return "blind" if any(gpu.capability is None for gpu in facts.gpus) else "known"


_OF_HOST: Mapping[str, Callable[[HostFacts, Gpu | None], Hashable]] = {
    "platform": lambda facts, _: facts.platform,
    "presence": lambda facts, _: _presence(facts),
    "capabilities": lambda facts, _: facts.capabilities,
    # options name kinds of GPUs, and not how many
    "alone": lambda facts, _: facts.detected and len(facts.gpus) == 1,
    "driver": lambda facts, _: facts.driver,
    "level": lambda facts, _: facts.driver.cuda if facts.driver else None,
    "libc": lambda facts, _: facts.libc,
    "capability": lambda _, gpu: gpu.capability if gpu else None,
}


def _given(request: Request, knowledge: Knowledge | None, *, proving: bool) -> dict[str, Any]:
    return {
        "request": request,
        "dev": request.dev,
        "cpu": request.cpu,
        "as_of": request.as_of,
        "packages": request.packages,
        "pip": request.pip,
        "offload": request.offload,
        "kb": knowledge,
        "proving": proving,
    }


class Unit(NamedTuple):
    """What a rule is asked about: a host or one of its machines, perhaps with one of its GPUs."""

    facts: HostFacts
    gpu: Gpu | None = None


def units(facts: HostFacts, per: Per) -> Iterator[Unit]:
    """What a rule is asked about, of one host."""
    if per == "host":
        yield Unit(facts)
        return
    for machine in facts.machines:
        if per == "machine":
            yield Unit(machine)
        elif per == "gpu":
            kinds = {(gpu.name, gpu.capability): gpu for gpu in reversed(machine.gpus)}
            yield from (Unit(machine, gpu) for gpu in kinds.values())
        else:
            distinct = {gpu.capability: gpu for gpu in machine.gpus}
            yield from (Unit(machine, distinct[capability]) for capability in machine.capabilities)


class Arguments:
    """Asks functions that name what they read, for one request and one knowledge base."""

    def __init__(self, request: Request, knowledge: Knowledge, *, proving: bool = False) -> None:
        self._given = _given(request, knowledge, proving=proving)
        self._readers: dict[str, Callable[[Candidate], Any]] = {}
        self._plans: dict[RuleFunction, tuple[dict[str, Any], tuple[tuple[str, Callable[[Candidate], Any]], ...]]] = {}

    def values(self, function: RuleFunction, candidate: Candidate) -> dict[str, Any]:
        """All that a function names but what is of a host."""
        given, readers = self._plan(function)
        return given | {name: read(candidate) for name, read in readers}

    def given(self, function: RuleFunction) -> dict[str, Any]:
        """What a function names of the request and the tables."""
        return self._plan(function)[0]

    def of_candidate(self, function: RuleFunction) -> frozenset[str]:
        """What a function names of a candidate: functions that name the same divide candidates in the same way."""
        return frozenset(name for name, _ in self._plan(function)[1])

    def same(self, functions: Iterable[RuleFunction]) -> Callable[[Candidate], Hashable]:
        """What functions read of a candidate, equal for candidates of which they say the same."""
        readers = {name: read for function in functions for name, read in self._plan(function)[1]}.values()
        return lambda candidate: tuple([read(candidate) for read in readers])

    def key(self, functions: tuple[RuleFunction, ...]) -> Callable[[Candidate], Hashable]:
        """A quick key of what functions read of a candidate, see `key_of`; equal values of readings are one object."""
        readers = {name: read for function in functions for name, read in self._plan(function)[1]}
        if readers.keys().isdisjoint(_READINGS):
            return key_of(functions)
        reads = tuple(readers.values())
        return lambda candidate: tuple([id(read(candidate)) for read in reads])

    def _plan(
        self, function: RuleFunction
    ) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[Candidate], Any]], ...]]:
        """What a function is given whatever the candidate, and how the rest is read of one."""
        plan = self._plans.get(function)
        if plan is None:
            names = _names(function)
            given = {name: self._given[name] for name in names if name in self._given}
            readers = tuple((name, self._reader(name)) for name in names if name in _OF_CANDIDATE or name in _READINGS)
            plan = self._plans[function] = given, readers
        return plan

    def _reader(self, name: str) -> Callable[[Candidate], Any]:
        if name not in self._readers:
            path = _OF_CANDIDATE.get(name)
            self._readers[name] = attrgetter(path) if path else self._remembering(_READINGS[name])
        return self._readers[name]

    def _remembering(self, asked: RuleFunction) -> Callable[[Candidate], Any]:
        known: dict[Hashable, tuple[Candidate, Any]] = {}
        equal: dict[Hashable, Any] = {}
        key = self.key((asked,))

        def read(candidate: Candidate) -> Any:
            same = key(candidate)
            found = known.get(same)
            if found is None:
                value = asked(**self.values(asked, candidate))
                found = known[same] = candidate, equal.setdefault(value, value)  # a key lives as long as its candidate
            return found[1]

        return read


def host_arguments(function: RuleFunction, unit: Unit) -> dict[str, Any]:
    """What a function reads of a host."""
    return {name: _OF_HOST[name](*unit) for name in _names(function) if name in _OF_HOST}


@lru_cache(maxsize=128)
def _all_names(functions: tuple[RuleFunction, ...]) -> frozenset[str]:
    return frozenset(name for function in functions for name in _names(function))


def _names_in_depth(function: RuleFunction) -> Iterator[str]:
    """What a function names, and what is named by what it names."""
    for name in _names(function):
        yield name
        if name in _READINGS:
            yield from _names_in_depth(_READINGS[name])


@lru_cache(maxsize=128)
def key_of(functions: tuple[RuleFunction, ...]) -> Callable[[Candidate], Hashable]:
    """A quick key of what functions read of a candidate: by identity, so that candidates must outlive its use."""
    names = dict.fromkeys(name for function in functions for name in _names_in_depth(function))
    paths = [_OF_CANDIDATE[name] for name in names if name in _OF_CANDIDATE]
    if not paths:
        return lambda _: None
    get = attrgetter(*paths)
    return (lambda item: id(get(item))) if len(paths) == 1 else (lambda item: tuple(map(id, get(item))))


@lru_cache(maxsize=256)
def _parted(
    of: tuple[Candidate, ...], functions: tuple[RuleFunction, ...]
) -> tuple[tuple[Candidate, ...], tuple[int, ...]]:
    """The first of each group of candidates of which functions read the same, and the group of each candidate.

    The candidates of a platform are the same objects for each host, so that they are parted once.
    """
    key, groups = key_of(functions), dict[Hashable, int]()
    firsts: list[Candidate] = []
    places: list[int] = []
    for item in of:
        place = groups.setdefault(key(item), len(groups))
        if place == len(firsts):
            firsts.append(item)
        places.append(place)
    return tuple(firsts), tuple(places)


class _Memory(NamedTuple):
    """What a rule said already, by what it reads, and without the reason that it cites."""

    rule: Rule
    key: Callable[[Candidate], Hashable]
    known: dict[Hashable, Verdict]
    bare: tuple[Callable[[Candidate], Hashable], dict[Hashable, Verdict]] | None
    units: tuple[tuple[HostWords, dict[str, Any]], ...]
    reads: tuple[RuleFunction, ...]  # the functions on which it depends what the rule says of a candidate


class Judge:
    """Judges candidates for one context, by all rules or by those named; equal questions are asked once."""

    def __init__(self, context: Context, among: Iterable[Rule] | None = None) -> None:
        self.context = context
        self._asker = Arguments(context.request, context.knowledge, proving=context.proving)
        of_per = {per: [(one, HostWords(*one)) for one in units(context.facts, per)] for per in get_args(Per)}
        self._memories = []
        for one in rules() if among is None else among:
            reads = () if self._settled(one) else one.questions
            memory = _Memory(
                one,
                self._asker.key(reads),
                {},
                (key_of((one.judge,)), {}) if one.cites else None,
                tuple([(words, host_arguments(one.judge, unit)) for unit, words in of_per[one.per]]),
                reads,
            )
            self._memories.append(memory)
        self._alive: list[Candidate] = []

    def verdicts(self, candidate: Candidate) -> tuple[Verdict, ...]:
        """The verdict of every rule, in the order of the rules."""
        return tuple([self._verdict(memory, candidate) for memory in self._memories])

    def verdicts_of_all(self, of: tuple[Candidate, ...]) -> list[tuple[Verdict, ...]]:
        """The `verdicts` of many candidates: a rule is asked about the first of those that it cannot tell apart."""
        columns = []
        for memory in self._memories:
            firsts, places = _parted(of, memory.reads)
            said = [self._verdict(memory, first) for first in firsts]
            columns.append([said[place] for place in places])
        return list(zip(*columns, strict=True)) if columns else [()] * len(of)

    def _verdict(self, memory: _Memory, candidate: Candidate) -> Verdict:
        key = memory.key(candidate)
        verdict = memory.known.get(key)
        if verdict is None:
            verdict = memory.known[key] = self._judged(memory, candidate)
            self._alive.append(candidate)  # keys are identities
        return verdict

    def _settled(self, one: Rule) -> bool:
        """Whether a rule says the same of every candidate: what answers before it reads the request alone."""
        before = one.unless
        if before is None or {*_names(before)} & {*_OF_CANDIDATE, *_READINGS}:
            return False
        return before(**self._asker.given(before)) is not None

    def _judged(self, memory: _Memory, candidate: Candidate) -> Verdict:
        one, values = memory.rule, self._asker.values
        before = one.unless(**values(one.unless, candidate)) if one.unless else None
        if before:
            return before
        if not memory.units:
            return Verdict(one.name, "pass", one.without)
        if one.cites is None or memory.bare is None:
            return self._asked(memory, candidate)
        key, known = memory.bare
        same = key(candidate)
        found = known.get(same)
        if found is None:
            found = known[same] = self._asked(memory, candidate)
        return found._replace(reasons=(one.cites(**values(one.cites, candidate)), *found.reasons))

    def _asked(self, memory: _Memory, candidate: Candidate) -> Verdict:
        judge = memory.rule.judge
        given = self._asker.values(judge, candidate)
        return worst([words.filled_in(judge(**given, **of_host)) for words, of_host in memory.units])
