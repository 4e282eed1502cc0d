"""Write the files of a plan: environment files with their hosts, locks, the plan, and scripts that select one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.errors import CuenvError, Progress
from cuenv.core.io.files import DATA, is_file, make_folder, read_text
from cuenv.core.io.products import remove_unedited, write_product
from cuenv.core.io.templates import fill
from cuenv.core.io.writing import write_atomically
from cuenv.core.reading import Faults, read_by_schema
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.render import json_text
from cuenv.fleet.plan import Environment, FleetPlan
from cuenv.fleet.plan_json import MAKE, SCHEMA, identity, plan_plain, read_plan
from cuenv.host.facts import HostFacts
from cuenv.host.host_json import dump
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import MACHINES
from cuenv.resolver.compose import environment_of
from cuenv.solve.environment_spec import ADVICE, WRITTEN_BY
from cuenv.solve.environment_yml import render
from cuenv.solve.io.sources import Sources

if TYPE_CHECKING:  # a type alone
    from cuenv.fleet.documents import FleetPlanDocument

PLAN = "fleet.json"
HOSTS = "hosts.ndjson"  # the hosts of an environment, beside its file
_SCRIPT_OWN = "# Written by cuenv fleet plan."
SCRIPTS = ("which-env.sh", "which-env.fish")
_PLAIN = regex(r"[\w +.|()/-]+")


@dataclass(frozen=True, kw_only=True)
class WrittenPlan:
    """The result of ``cuenv fleet plan --output``: the plan, and the locks that were written for it."""

    plan: FleetPlan  # the plan; if the channels were asked, with the candidates that they have
    written: tuple[Path, ...]
    faults: tuple[str, ...]  # the reasons why environments have no lock
    kept: tuple[Path, ...]  # the copies of files that were edited
    removed: tuple[Path, ...]  # files of environments of an earlier plan
    left: tuple[Path, ...]  # such files that were changed since, and were not removed
    instead: tuple[str, ...]  # sentences on candidates that the channels do not have, and their replacements


def deliver(
    plan: FleetPlan,
    folder: Path,
    knowledge: Knowledge,
    sources: Sources | None = None,
    *,
    prove: bool = False,
    broken: Iterable[str] = (),
    progress: Progress | None = None,
) -> WrittenPlan:
    """Write the files of a plan.

    Args:
        folder: for all of them; each environment gets a folder of its name.
        sources: where channels are read; without them nothing is locked.
        prove: take the best candidate of each environment that solves on the channels.

    Raises:
        InputError: a channel cannot be read.
        OutsideError: a file cannot be written.
    """
    written: list[Path] = []
    faults: list[str] = []
    kept: list[Path] = []
    found: list[Environment] = []
    instead: list[str] = []
    for item in plan.environments:
        decision = item.decision(plan.request, knowledge)
        if prove and sources:
            from cuenv.resolver.prove import solving  # noqa: PLC0415 - the solver is heavy

            decision, _ = solving(decision, item.name, sources, progress)
        if decision.chosen is None:
            faults.append(f"{item.name}: the channels can satisfy no candidate that runs on its hosts")
            continue
        chosen = item._replace(candidate=decision.chosen.candidate)
        if identity(chosen.candidate) != identity(item.candidate):
            instead.append(
                f"{item.name}: the channels cannot satisfy {item.candidate}; {chosen.candidate} is used instead"
            )
        path = folder / item.name / "environment.yml"
        spec = environment_of(decision, item.name)
        # the options of a pool would give every GPU of it the lowest driver of it
        spec = replace(spec, header=(*spec.header[:-1], f"  cuenv lock environment.yml --host {HOSTS}"))
        aside = write_product(path, render(spec), WRITTEN_BY, ADVICE)
        write_atomically(path.with_name(HOSTS), _hosts(item))
        kept += [aside] if aside else []
        written += [path, path.with_name(HOSTS)]
        found.append(chosen)
        if sources:
            locks, fault = _lock_environment(path, decision.context.facts, sources, knowledge, progress)
            written += locks
            faults += [f"{item.name}: {fault}"] if fault else []
    # prices speak of candidates of the tables, which these channels do not all have
    plan = replace(plan, environments=tuple(found), prices=() if instead else plan.prices)
    scripts = {name: _selection_script(plan, name) for name in SCRIPTS}
    make_folder(folder)
    for name, text in scripts.items():
        first = text.partition("\n")[0]
        aside = write_product(folder / name, text, f"{first}\n{_SCRIPT_OWN}")
        kept += [aside] if aside else []
    files = [*written, *(folder / name for name in (*SCRIPTS, PLAN))]
    stale = [path for path in _files_of_earlier_plan(folder) if path not in files]
    removed, left = remove_unedited(stale, folder / PLAN)
    write_atomically(folder / PLAN, json_text(plan_plain(plan, knowledge, broken, map(str, files))))
    return WrittenPlan(
        plan=plan,
        written=tuple(files),
        faults=tuple(faults),
        kept=tuple(kept),
        removed=tuple(removed),
        left=tuple(left),
        instead=tuple(instead),
    )


def read_full_plan(text: str, source: str) -> FleetPlanDocument:
    """Read all of a plan according to its JSON Schema.

    Raises:
        InputError: with every fault in it and its path.
    """
    read_plan(text, source)
    faults = Faults(source)
    schema = json.loads(read_text(Path(DATA, "schemas", f"{SCHEMA.removeprefix('cuenv/').replace('/', '-')}.json")))
    found: FleetPlanDocument = read_by_schema(json.loads(text), schema, faults)
    faults.check(hint=MAKE)
    return found


def _files_of_earlier_plan(folder: Path) -> Iterator[Path]:
    """The environment files of an earlier plan in this folder; empty if there was no plan of cuenv."""
    path = folder / PLAN
    try:
        plan = read_full_plan(read_text(path), str(path)) if is_file(path) else None
    except (CuenvError, ValueError):
        return
    names = {item["name"] for item in plan["environments"]} if plan else set()
    for text in plan["written"] if plan else ():
        file = Path(text)
        if file.parent.name in names and file.parent.name not in ("", "..") and file.parent.parent.name == folder.name:
            yield folder / file.parent.name / file.name


def _lock_environment(
    path: Path, facts: HostFacts, sources: Sources, knowledge: Knowledge, progress: Progress | None
) -> tuple[tuple[Path, ...], str]:
    """Lock an environment for its hosts; returns the files, or why there are none."""
    from cuenv.lockfile.lock import LockRequest, lock  # noqa: PLC0415 - the solver is heavy

    if progress:
        progress(f"locking {path}")
    answer = lock(
        LockRequest(path=path, host=HostOptions(), sources=sources, facts=facts), knowledge, progress=progress
    )
    if answer.lock:
        return answer.written, ""
    if answer.unsatisfiable:
        return (), "the channels cannot satisfy it; --prove chooses the best that they can satisfy"
    return (), "; ".join(finding.message for finding in answer.report.errors)


def _hosts(item: Environment) -> str:
    """One host of each kind that uses an environment, in the format of ``--host``."""
    hosts = (replace(kind.facts, name=kind.names[0]) for kind in item.kinds)
    return "".join(f"{dump(facts, compact=True).strip()}\n" for facts in hosts)


def _selection_script(plan: FleetPlan, name: str) -> str:
    """A script that prints the environment of a host by the host's own facts."""
    rows = dict(_facts(plan))
    quoted = [{"facts": shlex.quote(facts), "environment": shlex.quote(of)} for facts, of in sorted(rows.items())]
    return fill(name, {}, {"kind": quoted})


def _facts(plan: FleetPlan) -> Iterator[tuple[str, str]]:
    """The facts by which a script recognises a host: GPU names, and compute capabilities."""
    for item in plan.environments:
        for kind in item.kinds:
            facts = kind.facts
            driver, libc = facts.driver, facts.libc
            if driver is None or driver.version is None or libc is None:
                continue
            rest = f"{driver.version}|{libc.family} {libc.version}|{MACHINES[facts.platform]}"
            for texts in ({gpu.name for gpu in facts.gpus}, {str(gpu.capability) for gpu in facts.gpus}):
                said = f"{'+'.join(sorted(texts))}|{rest}"
                if _PLAIN.fullmatch(said):
                    yield said, item.name
