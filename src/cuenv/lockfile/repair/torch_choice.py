"""The nearest torch that fits the host, beside which the entries of a file can stand: the solver chooses it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core.errors import NoChannelError
from cuenv.core.io.exclusive import run_parallel
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import minor as series
from cuenv.core.versions import parse_version_spec
from cuenv.host.request import Request
from cuenv.knowledge.rows import TorchBuild
from cuenv.lockfile.repair.draft_repair import DraftRepair
from cuenv.lockfile.repair.drafts import (
    FORGE,
    Draft,
    KeptMinors,
    forge_first,
    pythons_near,
    torch_of,
    with_core,
    with_entries,
)
from cuenv.lockfile.repair.intent import Intent, further, intent_of, nearness
from cuenv.lockfile.repair.relax import ListedEntry, Relaxed, entries_of, forms_of, relax
from cuenv.resolver.asked_cuda import asks_for_cpu, wants_cuda
from cuenv.resolver.candidates import Candidate, admits_all, pythons
from cuenv.resolver.compose import compose, requested_pin, with_header, with_request
from cuenv.resolver.decision import Decision
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Choice, Solved, Unsatisfiable

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import RecordIndex

_LATE = 2  # candidates after which no further one is locked where enough time was spent
_LOCKS = 6  # candidates that are locked; one that does not lock though its entries can be had is rare

_BESIDE = "the solver cannot satisfy the entries of the file beside it"

_RELEASE = regex(r"\d.*")  # the release of CUDA in a pattern of build strings, and what follows


@dataclass(kw_only=True)
class TorchChoice(DraftRepair):
    """The candidates for torch, and the entries beside them."""

    judged: list[tuple[EnvironmentSpec, tuple[Intent, list[_Row], frozenset[str]]]] = field(default_factory=list)
    weakest: dict[Hashable, tuple[Pin, ...]] = field(default_factory=dict)

    def _judged(self, draft: Draft, needed: frozenset[str]) -> _Judged:
        """The candidates that fit the host and that a draft keeps to, nearest to what it means first."""
        known = next((found for spec, found in self.judged if spec == draft.spec), None)
        if known is None:
            known = self._fitting(draft.spec)
            self.judged.append((draft.spec, known))
        intent, rows, there = known
        taken = [row for row in rows if draft.near.takes(row.item)]
        return _Judged(intent=intent, rows=taken, needed=needed & there)

    def _fitting(self, spec: EnvironmentSpec) -> tuple[Intent, list[_Row], frozenset[str]]:
        """What a file means, the candidates that fit the host, nearest to it first, and the entries with records."""
        intent = intent_of(spec, self.knowledge)
        cpu = asks_for_cpu(self.file) and not wants_cuda(self.file, self.knowledge)
        request = Request(cpu=True, dev=False, pip=intent.pip) if cpu else intent.profile()
        decision = self._decided(request)
        if request.pip and not decision.fitting:  # what pip installs fits no torch: the lock says what is wrong with it
            decision = self._decided(replace(request, pip=()))
        own = self._reached(self.file)
        names = [pin.name for pin in intent.packages]
        records = self._shelf_beyond(names, own, ("pytorch", FORGE)) or self._shelf_beyond(names, own, (FORGE,))
        known = [name for name in names if records and records.has(Pin(name=name))]
        pythons = {name: records.pythons(Pin(name=name)) for name in known} if records else {}

        @cache
        def lost(python: str) -> int:
            return sum(int(python.partition(".")[2]) not in minors for minors in pythons.values())

        rows = [
            _Row(item=item, of=decision, made=self._composed(decision, item, intent))
            for item in _nearest(decision, intent, lost, self.variants)
        ]
        orders = [(row, forge_first(row.made.channels)) for row in rows]
        rows += [replace(row, made=replace(row.made, channels=order)) for row, order in orders if order]
        return intent, rows, frozenset(pythons)

    def _servable(self, draft: Draft, needed: frozenset[str] = frozenset()) -> Draft | None:
        """A draft without what cannot be had beside a torch that fits the host and what is needed.

        ``None`` where no torch is there.
        """
        judged = self._judged(draft, frozenset())
        names = frozenset(pin.name for pin in judged.intent.packages)
        pairs = names.intersection({*OF_TORCH, *needed})
        found: Relaxed | None = None
        fewer = (pairs - {"torchaudio"}, frozenset[str]()) if draft.near == KeptMinors() and not needed else ()
        for hard in dict.fromkeys((pairs, *fewer)):
            rows = ([judged.rows[place] for place in places] for places in _by_channels(judged.rows).values())
            groups = [beside for each in rows if (beside := self._beside(each, judged.intent, hard))]
            answers = run_parallel(self._most_beside, groups, busy=True)
            able = [
                (sum(answer.taken) - len(beside.free), beside)
                for beside, answer in zip(groups, answers, strict=True)
                if isinstance(answer, Solved)
            ]
            if able:
                beside = min(able, key=lambda item: item[0])[1]
                found = relax(beside.free, partial(self._ask_beside, beside), near=False, swaps=self._swaps)
                break
        if found is None:
            return None
        there = {pin.name for pin in found.pins if pin}
        best = names.difference(hard, there)
        index = self._index_of(draft.spec)
        if index is None:
            return None
        pins = draft.spec.pins
        return with_entries(draft, pins, [None if pin.name in best else pin for pin in pins], index)

    def _anew(self, whole: Draft, first: Draft, needed: frozenset[str]) -> Draft | None:
        """What was meant, decided anew: the nearest torch beside which the entries can stand."""
        pins = tuple(pin for pin in whole.spec.pins if pin.name not in first.lost)
        why = tuple(item for item in first.why if item[0] in first.lost)
        plain = Draft(spec=replace(whole.spec, pins=pins), why=(*whole.why, *why), lost=first.lost, near=first.near)
        judged = self._judged(plain, needed)
        mine = self._of_own_channels(first, [row.item for row in judged.rows], judged.needed)
        failed: list[TorchBuild] = []
        for tried in range(_LOCKS):
            if self.late:  # those of the file's own channels and two others are tried in any case, each another build
                judged = replace(judged, rows=[row for row in judged.rows if row.item.candidate.build not in failed])
            if tried > _LATE and self.late:
                return None
            place = self._first_that_closes(judged)
            if mine and (place is None or mine[0] <= place):
                label = f"{mine[2]} from the channels of the file"
                found = self._until_locked(mine[1], label, judged.needed)
                mine = None
            elif place is None:
                return None
            else:
                row = judged.rows.pop(place)
                failed.append(row.item.candidate.build)
                found = self._candidate(row, judged.intent, judged.needed, plain)
            if found:
                return found
        return None

    def _composed(self, decision: Decision, item: Assessment, intent: Intent) -> EnvironmentSpec:
        known = item.candidate, intent.pip, intent.python, intent.channels
        if known not in self.composed:
            made = compose(_case(decision, item, intent), self.file.name or "cuenv", header=False)
            if intent.pip and not made.pip:
                made = replace(made, pip=intent.pip, pins=(*made.pins, Pin(name="pip", why=("installs the pip part",))))
            channels = (*made.channels, *intent.channels)
            self.composed[known] = replace(made, channels=channels, variables={**made.variables, **self.file.variables})
        return self.composed[known]

    def _first_that_closes(self, judged: _Judged) -> int | None:
        """The place of the nearest candidate beside which the needed entries can be had."""
        best: int | None = None
        for places in _by_channels(judged.rows).values():
            before = [place for place in places if best is None or place < best]
            if before:
                self._say(f"trying {judged.rows[before[0]].item.candidate} and {len(before) - 1} more")
                rows = [judged.rows[place] for place in before]
                beside = self._beside(rows, judged.intent, judged.needed)
                found = self._ask(beside.spec, beside.fixed, (beside.choice,)) if beside else None
                best = before[found.taken[0]] if isinstance(found, Solved) else best
        return best

    def _beside(self, rows: Sequence[_Row], intent: Intent, hard: frozenset[str]) -> _Beside | None:
        """Some candidates of the same channels with the entries of a file; ``None`` where a hard one is lacking."""
        made = rows[0].made
        try:
            index = self._index({pin.name for pin in (*intent.packages, *made.pins)}, made.channels)
        except NoChannelError as error:
            self.skipped.append((str(rows[0].item.candidate), error.message))
            return None
        kinds = {_kind(row): row for row in reversed(rows)}
        fixed: list[Pin] = []
        varied: dict[tuple[object, ...], list[Pin]] = {kind: [] for kind in kinds}
        free: list[ListedEntry] = []
        for pin in intent.packages:
            forms = {kind: self._weakest_known(pin, row, index) for kind, row in kinds.items()}
            widest = [form for each in forms.values() for form in each]
            if pin.name in hard and not widest:
                return None
            if pin.name not in hard:
                free += (ListedEntry(pin=pin, forms=(_loose(form),)) for form in widest[:1])
            elif len(dict.fromkeys(widest)) == 1 and all(forms.values()) and not made.pin(pin.name):
                fixed += widest[:1]
            else:
                for kind, each in forms.items():
                    varied[kind] += each or [_NOTHING]
        choice: list[tuple[Pin, ...]] = []
        for row in rows:
            mine = varied[_kind(row)]
            own = {pin.name for pin in mine}
            choice.append((*(pin for pin in row.made.pins if pin.name not in own), *mine))
        return _Beside(spec=made, fixed=tuple(fixed), free=tuple(free), choice=tuple(choice))

    def _most_beside(self, beside: _Beside) -> Solved | Unsatisfiable:
        """A solution with some of the candidates, and with as many entries as were found to go together."""
        return self._ask_beside(beside, (), [((*entry.forms,), ()) for entry in beside.free])

    def _ask_beside(self, beside: _Beside, pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved | Unsatisfiable:
        found = self._ask(beside.spec, [*beside.fixed, *pins], (beside.choice, *choices))
        return replace(found, taken=found.taken[1:]) if isinstance(found, Solved) else found

    def _weakest_known(self, pin: Pin, row: _Row, index: RecordIndex) -> tuple[Pin, ...]:
        """As `_weakest`, computed once for all candidates with the same channels and kind."""
        own = row.made.pin(pin.name)
        if own:
            return (own,)
        key = pin, row.made.channels, _kind(row)
        if key not in self.weakest:
            self.weakest[key] = self._weakest(pin, row, index)
        return self.weakest[key]

    def _weakest(self, pin: Pin, row: _Row, index: RecordIndex) -> tuple[Pin, ...]:
        """The form of an entry that asks for least beside a candidate; none where the channels have none."""
        forms = [*forms_of(replace(pin, channel="")), *forms_of(pin)] if pin.channel else [*forms_of(pin)]
        return next(((form,) for each in reversed(forms) if index.has(form := self._form(each, row))), ())

    def _form(self, pin: Pin, row: _Row) -> Pin:
        own = row.made.pin(pin.name)
        asked = requested_pin(pin, row.item.candidate, self.knowledge, f"of {self.request.path.name}")
        return with_request(own, asked) if own else asked

    def _forms(self, pin: Pin, row: _Row, index: RecordIndex) -> list[Pin]:
        """What may stand for an entry beside a candidate, nearest first."""
        own = row.made.pin(pin.name)
        forms = [done for each in forms_of(pin) if index.has(done := self._form(each, row))]
        if not forms and pin.channel:
            forms = [done for each in forms_of(replace(pin, channel="")) if index.has(done := self._form(each, row))]
        return [*forms, own] if own else forms

    def _candidate(self, row: _Row, intent: Intent, needed: frozenset[str], first: Draft) -> Draft | None:
        """A candidate with the entries of the file, locked; ``None`` where that cannot be."""
        made, label = row.made, str(row.item.candidate)
        index = self._index({pin.name for pin in (*made.pins, *intent.packages)}, made.channels)
        own = {pin.name for pin in made.pins}
        entries = [
            ListedEntry(
                pin=pin,
                forms=tuple(dict.fromkeys(self._forms(pin, row, index))),
                needed=pin.name in own or pin.name in needed,
            )
            for pin in intent.packages
        ]
        asked = {pin.name for pin in intent.packages}
        fixed = [pin for pin in made.pins if pin.name not in asked]
        found = self._solved(made, entries, fixed)
        if found is None:
            self.skipped.append((label, _BESIDE))
            return None
        spec = with_header(made, _case(row.of, row.item, intent))
        spec = replace(spec, pins=(*fixed, *intent.packages))
        draft = Draft(spec=spec, bound=frozenset(pin.name for pin in fixed), anew=True, near=first.near)
        draft = with_entries(draft, intent.packages, found.pins, index)
        draft = replace(draft, why=(*first.why, *draft.why), lost=first.lost | draft.lost)
        return self._until_locked(draft, label, needed)

    def _of_own_channels(
        self, first: Draft, able: Sequence[Assessment], needed: frozenset[str]
    ) -> tuple[int, Draft, str] | None:
        """A draft with the nearest minor of torch from the channels of the file beside which they have all entries.

        Returns:
            also the place of the first candidate of that minor, and what to call it.
        """
        spec = first.spec
        torch, python = torch_of(spec), spec.pin("python")
        index = self._index_of(spec)
        if torch is None or index is None:
            return None
        here = tuple(map(short_channel, spec.channels))
        mine = [(place, item) for place, item in enumerate(able) if item.candidate.build.stack in here]
        lesser = {_minor(item) for _, item in mine if _lesser_code(item)}
        minors: dict[tuple[str, Version, str], int] = {}
        for place, item in mine:
            build = item.candidate.build
            kind = "*cuda*" if build.cuda else "*cpu*"
            # of a minor that has builds with less code for the GPUs, the others are asked for by their CUDA
            minors.setdefault((*_minor(item), build.build if _minor(item) in lesser else kind), place)
        forms = {
            key: Pin(name=torch.name, version=f"{key[1]}.*", build=key[2], channel=torch.channel) for key in minors
        }
        forms = {key: form for key, form in forms.items() if index.has(form)}
        fixed: list[Pin] = []
        core = (torch, python, None if spec.pin("pytorch-cuda") else spec.pin("cudatoolkit"))
        for entry in entries_of((pin for pin in spec.pins if pin not in core and pin.name[:2] != "__"), index):
            if not entry.forms and entry.pin.name in needed and further(entry.pin, self.knowledge):
                return None
            fixed += entry.forms[-1:]
        choices: list[Choice] = [tuple((form,) for form in forms.values())]
        if python:
            choices.append(tuple((form,) for form in pythons_near(python, index)))
        answer = self._ask(spec, fixed, choices) if forms else None
        if not isinstance(answer, Solved):
            return None
        key = list(forms)[answer.taken[0]]
        found = answer.solution.package(torch.name)
        judged = {str(item.candidate.build.version) for item in able if item.candidate.build.stack == key[0]}
        if found is None or found.version not in judged:
            return None
        draft = with_core(first, torch, answer.solution, self.knowledge, build=key[2])
        return minors[key], draft, f"pytorch {key[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A candidate of a decision, and the environment that is composed for it, without its header."""

    item: Assessment
    of: Decision
    made: EnvironmentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The candidates that fit the host, nearest first, for what a file means; and the entries that are needed."""

    intent: Intent
    rows: list[_Row]
    needed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What is asked of the solver for some candidates of the same channels."""

    spec: EnvironmentSpec  # of the first of them, for its channels
    fixed: tuple[Pin, ...]  # entries that have to be there, and ``free`` those that may
    free: tuple[ListedEntry, ...]
    choice: Choice  # the candidates, each with the entries whose form depends on it


def _kind(row: _Row) -> tuple[object, ...]:
    """What the forms of entries depend on, among candidates of the same channels."""
    return row.item.candidate.cuda, row.item.candidate.build.cuda


def _loose(pin: Pin) -> Pin:
    """Any release of a package, for any release of CUDA."""
    return Pin(name=pin.name, channel=pin.channel, build=_RELEASE.sub("*", pin.build))


_NOTHING = Pin(name="cuenv-nothing")  # no channel has it


def _by_channels(rows: Sequence[_Row]) -> dict[tuple[str, ...], list[int]]:
    """The places of candidates by their channels."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        found.setdefault(row.made.channels, []).append(place)
    return found


def _case(decision: Decision, item: Assessment, intent: Intent) -> Decision:
    """The decision for one candidate alone."""
    python = parse_version_spec(item.candidate.python, what="python")
    request = replace(decision.context.request, packages=(), python=python)
    if intent.python and admits_all(intent.python, item.candidate.python):
        request = replace(request, python=intent.python)
    return replace(decision, context=replace(decision.context, request=request), fitting=(item,))


def _nearest(
    decision: Decision, intent: Intent, lost: Callable[[str], int], variants: dict[tuple[Candidate, str], Assessment]
) -> list[Assessment]:
    """Each candidate with each of its Pythons, nearest to what was meant first.

    Args:
        decision: the candidates that fit.
        intent: what was meant.
        lost: counts what a Python loses.
        variants: those that were made before, so that each is one object for good.
    """
    driver = decision.context.facts.driver
    level = driver.cuda if driver else None
    found: list[tuple[tuple[object, ...], int, Assessment]] = []
    for item in decision.fitting:
        if item.verdict("roles").outcome != "pass":
            continue
        lesser = _lesser_code(item)
        for python in pythons(item.candidate.build, intent.python):
            one = variants.get((item.candidate, python))
            if one is None:
                one = replace(item, candidate=replace(item.candidate, python=python))
                variants[item.candidate, python] = one
            torch, *rest = nearness(one.candidate, intent, level)
            found.append(((lesser, torch, lost(python), *rest), len(found), one))
    return [item for _, _, item in sorted(found, key=lambda entry: entry[:2])]


def _lesser_code(item: Assessment) -> int:
    """How little is known to run on the GPUs as it is: then another release is nearer.

    0 where torch has machine code for each, 1 where it is compiled from PTX on some, 2 where no row vouches for torch's
    own code or for cuDNN.
    """
    verdicts = [item.verdict(rule).outcome for rule in ("device-code", "cudnn")]
    return 2 if "unknown" in verdicts else int(verdicts[0] == "warn")


def _minor(item: Assessment) -> tuple[str, Version]:
    """The channel and the minor of a torch."""
    return item.candidate.build.stack, series(item.candidate.build.version)
