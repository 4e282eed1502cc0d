"""A draft that locks: mended by what the findings on its lock say, and by relaxing what the channels cannot satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuenv.core.record import replace
from cuenv.core.urls import short_channel
from cuenv.lockfile.lock import Locked
from cuenv.lockfile.repair.drafts import (
    FORGE,
    Draft,
    as_read,
    of_variant,
    pythons_near,
    series_of,
    torch_of,
    with_entries,
)
from cuenv.lockfile.repair.intent import OF_CHANNELS, release_pins
from cuenv.lockfile.repair.obey import loosening, obeyed
from cuenv.lockfile.repair.queries import FIRST, RepairQueries
from cuenv.lockfile.repair.relax import blamed, entries_of
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.prove import unsatisfiable_text
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import names_cpu, names_cuda

_ROUNDS = 10  # times that one environment is mended by what its lock would say of it

_LOOSENING = 30  # seconds after which no further line of the pip part is given up: each costs a resolution


class DraftRepair(RepairQueries):
    """The corrections of a draft, each a draft again."""

    def _until_locked(self, draft: Draft, label: str, needed: frozenset[str]) -> Draft | None:
        """A draft that locks, mended by what its lock would say of it; ``None`` where that leads nowhere.

        Args:
            draft: to begin with.
            label: what it is, for people.
            needed: entries that have to stay in some release, if the channels have any.
        """
        seen: list[EnvironmentSpec] = []
        answer, why = None, ""
        judged: tuple[Draft, Locked] | None = None
        for _ in range(_ROUNDS):
            if draft.spec in seen:
                break
            seen.append(draft.spec)
            answer, why = self._lock(as_read(draft.spec))
            if answer and answer.lock:
                return draft
            if answer is None:
                break
            if why:
                then = self._satisfied(draft, needed, judged)
                judged = None
            elif draft.spec.ours and all(item.code == "CU101" for item in answer.report.errors):
                then = self._of_two_channels(draft)
            else:
                judged, then = (draft, answer), self._obeying(draft, answer)
                then = self._with_looser_pip(draft, answer) if then.spec == draft.spec else then
            why = why or next((item.message for item in answer.report.errors), "")
            if then is None:
                break
            draft = then
        self.skipped.append((label, why))
        if label == self.request.path.name:
            self.obstacles += _obstacles(draft.spec, answer)
        return None

    def _satisfied(self, draft: Draft, needed: frozenset[str], before: tuple[Draft, Locked] | None) -> Draft | None:
        """A draft that the channels satisfy; the pip part gives way before an entry is lost to what pip asks of conda.

        Args:
            draft: that they do not satisfy.
            needed: entries that have to stay.
            before: the draft that became this one, and what its lock said of it.
        """
        then = self._relaxed(draft, needed)
        if before and (then is None or then.lost - before[0].lost):
            then = self._with_looser_pip(*before) or then
        return self._with_cpu_builds(*before) if before and then is None and self.gives_up else then

    def _obeying(self, draft: Draft, answer: Locked) -> Draft:
        """A draft as the findings on it say that it should be."""
        spec, pins = obeyed(draft.spec, answer.report.errors)
        for item in answer.report.errors:
            lines = [text for edit in item.edits if edit.pip for text in edit.entries]
            names = {pin.name for edit in item.edits if not edit.pip for pin in map(parse_spec, edit.entries)}
            names |= {*map(requirement_name, lines), *(edit.over for edit in item.edits), item.subject}
            draft = draft.noting([*sorted(names), *lines], item.message)
        return self._of_release(replace(draft, spec=spec, bound=draft.bound | {pin.name for pin in pins}), pins)

    def _with_looser_pip(self, draft: Draft, answer: Locked) -> Draft | None:
        """A draft whose pip part gives up a release that does not go with the rest; ``None`` where none is named."""
        findings = tuple(loosening(draft.spec, item) for item in answer.report.errors)
        if findings == answer.report.errors or self._spent > _LOOSENING:
            return None
        return self._obeying(draft, replace(answer, report=replace(answer.report, findings=findings)))

    def _of_release(self, draft: Draft, pins: Sequence[Pin]) -> Draft:
        """A draft with NVIDIA's channel of one CUDA release, where that has components that are asked for."""
        channels, index = draft.spec.channels or ("defaults",), self._index_of(draft.spec)
        lacking = [pin for pin in pins if pin.name.startswith("cuda-") and index and not index.has(pin)]
        asked = {row.version: row for pin in lacking if (row := self.knowledge.cuda(series_of(pin))) and row.labels}
        for row in asked.values():
            labels = (f"nvidia/label/cuda-{number}" for number in reversed(row.labels))
            label = next((name for name in labels if self._has_of(name, channels, lacking)), None)
            if label is None or label in map(short_channel, channels):
                continue
            short = [short_channel(item).split("/")[0] for item in channels]
            place = next((short.index(name) for name in ("nvidia", FORGE) if name in short), len(short))
            channels = (*channels[:place], label, *channels[place:])
            why = f"the components of CUDA {row.version} that torch requires are there"
            draft = replace(draft, spec=replace(draft.spec, channels=channels)).noting([OF_CHANNELS], why)
        index = self._index_of(draft.spec)
        gone = {
            pin for pin in lacking if index and not index.has(pin) and (self.gives_up or not self.file.pin(pin.name))
        }
        for pin in gone:
            asked_for = self.file.pin(pin.name)
            why = f"the channels have no {pin.yaml_text()}, the release of torch's CUDA"
            draft = draft.losing(pin.name).noting([pin.name], why) if asked_for else draft
        return replace(draft, spec=replace(draft.spec, pins=tuple(pin for pin in draft.spec.pins if pin not in gone)))

    def _has_of(self, label: str, channels: Sequence[str], pins: Sequence[Pin]) -> bool:
        """Whether a channel beside others has what satisfies one of some pins."""
        there = self._shelf_beyond([pin.name for pin in pins], channels, (label,))
        return there is not None and any(there.has(replace(pin, channel=label)) for pin in pins)

    def _of_two_channels(self, draft: Draft) -> Draft:
        """A draft that does not promise one channel for CUDA, as what the file asks for needs parts of two."""
        why = "a package in the file needs CUDA components of a second channel"
        return replace(draft, spec=replace(draft.spec, ours=False, header=())).noting([OF_CHANNELS], why)

    def _with_cpu_builds(self, draft: Draft, answer: Locked) -> Draft | None:
        """A draft that asks for the CPU builds whose CUDA builds do not fit beside the rest; torch never is one.

        ``None`` where there are none that it does not ask for.
        """
        refused = {item.subject for item in answer.report.errors if item.code == "CU103"} - FIRST
        listed = [item for solution in answer.conda_solutions for item in solution.packages]
        found = [item for item in listed if item.name in refused and names_cpu(item.build)]
        asked: list[Pin] = []
        for package in found:
            pin = draft.spec.pin(package.name) or Pin(name=package.name)
            asked.append(replace(pin, version=pin.condition(), build="*cpu*"))
            why = f"no CUDA build that the channels have of {pin.name} goes with the rest"
            draft = replace(draft, why=tuple(item for item in draft.why if item[0] != pin.name))
            draft = draft.noting([pin.name], why)
        names = {pin.name: pin for pin in asked}
        if not asked or all(draft.spec.pin(name) == pin for name, pin in names.items()):
            return None
        pins = [names.pop(pin.name, pin) for pin in draft.spec.pins]
        bound = draft.bound.union(pin.name for pin in asked)
        return replace(draft, spec=replace(draft.spec, pins=(*pins, *names.values())), bound=bound)

    def _relaxed(self, draft: Draft, needed: frozenset[str]) -> Draft | None:
        """A draft whose entries the channels satisfy; torch keeps its release, and CUDA and Python if they can."""
        spec = draft.spec
        index = self._index((pin.name for pin in spec.pins), self._reached(spec))
        fixed = [pin for pin in spec.pins if pin.name in draft.bound or pin.name.startswith("__")]
        asked = [pin for pin in fixed if pin.build and pin.name not in FIRST]
        fixed = [pin for pin in fixed if pin not in asked]
        free = [pin for pin in spec.pins if pin not in fixed]
        entries = []
        for entry in entries_of(free, index):
            forms = entry.forms
            if entry.pin in asked:
                loose = replace(entry.pin, version="")
                forms = tuple(form for form in (entry.pin, loose) if index.has(form))
            elif entry.pin.name in CONDA_TORCHES:
                minor = replace(entry.pin, version=f"{draft.near.torch}.*", build=of_variant(entry.pin))
                forms = (*release_pins(entry.pin), *((minor,) if draft.near.torch else ()))
                forms = tuple(form for form in forms if index.has(form))
            elif entry.pin.name == "python":
                forms = tuple(pythons_near(entry.pin, index, only=draft.near.python)) or forms
            must = entry.pin.name in (*CONDA_TORCHES, "python") or entry.pin in asked
            must = must or (bool(forms) and entry.pin.name in needed)
            entries.append(replace(entry, forms=forms, needed=must))
        ended = [item for item in entries if not item.forms and self.knowledge.discontinued(item.pin.name)]
        if ended and not self.gives_up and torch_of(spec):  # what takes its place is found where torch is decided anew
            return None
        found = self._solved(spec, entries, fixed)
        return with_entries(draft, free, found.pins, index) if found else None

    def _of_linux(self, draft: Draft) -> Draft:
        """A draft without what exists for another system alone."""
        for _ in range(_ROUNDS):
            answer, _ = self._lock(as_read(draft.spec))
            of_system = [item for item in answer.report.errors if item.code == "CU106"] if answer else []
            if not answer or not of_system:
                break
            draft = self._obeying(draft, replace(answer, report=replace(answer.report, findings=tuple(of_system))))
        return draft


def _obstacles(spec: EnvironmentSpec, answer: Locked | None) -> Iterator[tuple[str, str]]:
    """The entries that are in the way of a lock, and why."""
    if answer and answer.unsatisfiable:
        guilty = blamed(answer.unsatisfiable)
        why = unsatisfiable_text(answer.unsatisfiable, spec)
        yield from ((pin.yaml_text(), why) for pin in spec.pins if pin.name in guilty)
    for item in answer.report.errors if answer else ():
        of_host = item.code.startswith("CU4")
        of_cuda = (torch_of(spec), *(pin for pin in spec.pins if "cuda" in pin.name or names_cuda(pin.build)))
        pin = spec.pin(item.subject) or (next(filter(None, of_cuda), None) if of_host else None)
        about = (text for text in spec.pip if item.about[:1] == (text,))
        named = (text for text in spec.pip if requirement_name(text) in ("torch", item.subject))
        asked = next(iter((*about, *named)), "")
        yield (
            pin.yaml_text() if pin else f"pip: {asked}" if asked else "the file" if of_host else item.subject,
            item.message,
        )
