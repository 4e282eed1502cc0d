"""``cuenv export uv``: the tables of a ``pyproject.toml`` by which uv takes the torch of each set of GPUs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from cuenv.core import __version__
from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.versions import Capability
from cuenv.export.container import Refused
from cuenv.export.export import Exported
from cuenv.host.describe import host_line, host_options
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS, TorchWheel
from cuenv.lockfile.wheel_target import WheelTarget
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.requirements import OF_TORCH, with_torch
from cuenv.resolver.rules import Context
from cuenv.resolver.wheels import INDEX, last_wheel_note
from cuenv.solve.environment_spec import requirement_name
from cuenv.solve.uv_output import toml_string

_SET = regex(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)=(?P<gpus>[^@]+)(?:@(?P<driver>[0-9.]+))?")
_RECORD = regex(r".*[./].*json|.*/.*")
ALONE = ""  # the name of the one set of GPUs, where no other is named


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenWheel:
    """A set of GPUs, and its wheel of torch."""

    name: str  # of the set, which is that of the dependency group
    facts: HostFacts
    wheel: TorchWheel
    needs: tuple[str, ...]  # what the group asks for: torch, and what was asked for beside it
    notes: tuple[str, ...] = ()


def parse_sets(texts: Iterable[str], options: HostOptions) -> dict[str, HostOptions]:
    """The hosts of each set: GPUs with a driver, or recorded hosts.

    Args:
        texts: ``NAME=GPU[,GPU][@DRIVER]`` as they were typed.
        options: driver, glibc and platform of sets that name none.

    Raises:
        UsageError: one has another form, or two have one name.
    """
    found: dict[str, HostOptions] = {}
    for text in texts:
        parts = _SET.fullmatch(text.strip())
        names = [item.strip() for item in parts["gpus"].split(",")] if parts else []
        if not parts or not all(names):
            message = f"--set {text!a}: expected NAME=GPU[,GPU][@DRIVER]"
            raise UsageError(message, hint="--set 'old=GTX 1080,V100@580.65.06'")
        if parts["name"] in found:
            raise UsageError(f"--set {parts['name']} appears twice", hint="give each set its own name")
        hosts = tuple(item for item in names if _RECORD.fullmatch(item))
        gpus = tuple(item for item in names if item not in hosts)
        found[parts["name"]] = replace(options, hosts=hosts, gpus=gpus, driver=parts["driver"] or options.driver)
    return found or {ALONE: options}


def choose_wheels(
    sets: Mapping[str, HostOptions], request: Request, knowledge: Knowledge
) -> list[ChosenWheel] | Refused:
    """The best wheel for each set of GPUs by the rules of ``cuenv resolve``, or why the first set has none.

    Raises:
        UsageError: a conda package is asked for, or an option names nothing that exists.
    """
    if request.stack not in (None, WHEELS) or request.cpu:
        what = "--cpu" if request.cpu else f"--stack {request.stack}"
        raise UsageError(f"uv installs CUDA wheels here, but {what} requests another build", hint="cuenv export uv")
    made = []
    for name, options in sets.items():
        facts = host_facts(options, knowledge, request)
        asked = replace(request, stack=WHEELS, dev=False)
        decision = decide(Context(facts=facts, request=asked, knowledge=knowledge))
        refused = _refused(name, decision, options)
        build = decision.chosen.candidate.build if decision.chosen else None
        if refused or not isinstance(build, TorchWheel):
            return refused or Refused(because="no wheel of torch fits", hint="cuenv resolve --stack wheels")
        left = decision.context.request
        if left.packages:
            message = f"--with {left.packages[0]} is a conda package, which uv cannot install"
            raise UsageError(message, hint=f"--with {shlex.quote(f'pip:{left.packages[0]}')}")
        beside = tuple(with_torch(text, build, knowledge) for text in left.pip)
        notes = tuple(last_wheel_note(build, facts, knowledge))
        made.append(
            ChosenWheel(name=name, facts=facts, wheel=build, needs=(f"torch=={build.name}", *beside), notes=notes)
        )
    return made


def _gpus_by_wheel(decision: Decision) -> dict[str, list[Capability]]:
    """The GPUs of a host grouped by the wheel that each would have alone; empty if a GPU has none."""
    case, tags = decision.context, dict[str, list[Capability]]()
    for capability in case.facts.capabilities:
        gpus = tuple(gpu for gpu in case.facts.gpus if gpu.capability == capability)
        alone = decide(replace(case, facts=replace(case.facts, gpus=gpus, members=()))).chosen
        if alone is None or alone.open_layers:
            return {}
        tags.setdefault(alone.candidate.build.build, []).append(capability)
    return tags


def _refused(name: str, decision: Decision, options: HostOptions) -> Refused | None:
    """Why no wheel supports a set, with the sets into which its GPUs can be split; ``None`` if one does."""
    chosen, facts = decision.chosen, decision.context.facts
    if chosen and not chosen.open_layers:
        return None
    tags = _gpus_by_wheel(decision)
    if chosen and len(tags) < 2:
        return None
    objections = [item.because for item in decision.rejections if item.rule != "wish"]
    objections += [item.because for item in decision.rejections]
    rejected = objections[0] if objections else "the cuenv tables list no wheel"
    lead = chosen.open_layers[0].because if chosen else rejected
    words = ["cuenv", "export", "uv"]
    for tag, capabilities in tags.items():
        words += ["--set", f"{tag}={','.join(map(str, capabilities))}"]
    words += ["--driver", facts.driver.version] if facts.driver and facts.driver.version else []
    words += ["--glibc", options.glibc] if options.glibc else []
    asked = decision.context.request
    specs = {"--pytorch": asked.pytorch, "--cuda": asked.cuda, "--python": asked.python}
    given = [word for option, spec in specs.items() if spec for word in (option, spec.text)]
    look = shlex.join(["cuenv", "resolve", "--stack", "wheels", *given, *host_options(facts)])
    hint = shlex.join(words) if len(tags) > 1 else f"what each wheel lacks: {look}"
    of_set = f"the set {name}" if name else host_line(facts)
    return Refused(because=f"the cuenv tables list no torch wheel that supports {of_set}: {lead}", hint=hint)


def render(sets: list[ChosenWheel], request: Request) -> str:
    """The tables for ``pyproject.toml``."""
    alone = sets[0] if sets[0].name == ALONE else None
    groups = [f"{item.name} = [{', '.join(map(toml_string, item.needs))}]" for item in sets]
    head = [] if alone else ["", "[dependency-groups]", *groups]
    return "\n".join([*_head(sets, alone, request), *head, *_tables(sets, alone), ""])


def _head(sets: list[ChosenWheel], alone: ChosenWheel | None, request: Request) -> Iterator[str]:
    yield f"# Written by cuenv {__version__}: torch for uv. Add this to pyproject.toml, then run: uv lock"
    for item in sets:
        of_set = f"{item.name}: " if item.name else ""
        yield f"# {of_set}torch {item.wheel.name} for {host_line(item.facts)}."
        yield from (f"# {of_set}{note}." for note in item.notes)
        yield f"# {of_set}Install: uv sync{f' --group {item.name}' if item.name else ''}"
    common = [text for text in sets[0].wheel.pythons if all(text in item.wheel.pythons for item in sets)]
    if common and not request.python:
        yield f"# These wheels are for Python {', '.join(common)}: requires-python must allow no other."
    if alone:
        yield f"# [project] dependencies need: {', '.join(map(toml_string, alone.needs))}"


def _tables(sets: list[ChosenWheel], alone: ChosenWheel | None) -> Iterator[str]:
    yield from ("", "[tool.uv]")
    machines = dict.fromkeys(WheelTarget(item.facts.platform, "3.12").environment["platform_machine"] for item in sets)
    markers = [f"sys_platform == 'linux' and platform_machine == '{machine}'" for machine in machines]
    yield f"environments = [{', '.join(map(toml_string, markers))}]"
    if alone:
        yield f"constraint-dependencies = [{toml_string(alone.needs[0])}]"
    elif len(sets) > 1:
        yield f"conflicts = [[{', '.join(f'{{ group = {toml_string(item.name)} }}' for item in sets)}]]"
    indexes = {item.wheel.build: f"{INDEX}{item.wheel.build}" for item in sets if "index" in item.wheel.comes}
    sources: dict[str, list[str]] = {}
    for item in sets:
        for text in item.needs if item.wheel.build in indexes and "index" in item.wheel.comes else ():
            if requirement_name(text) in ("torch", *OF_TORCH):
                where = f"index = {toml_string(_index(item.wheel.build))}"
                of_group = f", group = {toml_string(item.name)}" if item.name else ""
                sources.setdefault(requirement_name(text), []).append(f"{{ {where}{of_group} }}")
    if sources:
        yield from ("", "[tool.uv.sources]")
        yield from (f"{name} = [{', '.join(rows)}]" for name, rows in sources.items())
    for tag, url in indexes.items():
        rows = (f"name = {toml_string(_index(tag))}", f"url = {toml_string(url)}", "explicit = true")
        yield from ("", "[[tool.uv.index]]", *rows)


def _index(tag: str) -> str:
    return f"pytorch-{tag}"


def export_uv(sets: Iterable[str], options: HostOptions, request: Request, knowledge: Knowledge) -> Exported:
    """The tables of a ``pyproject.toml`` by which uv takes the torch of the host, or of each set of GPUs.

    Raises:
        UsageError: a set or an option names nothing that exists, or asks for what uv cannot install.
    """
    made = choose_wheels(parse_sets(sets, options), request, knowledge)
    if isinstance(made, Refused):
        return Exported(kind="uv", refused=made)
    return Exported(
        kind="uv",
        files={"pyproject.toml": render(made, request)},
        talk=tuple(f"{item.name or 'torch':7} {item.wheel.name} for {host_line(item.facts)}" for item in made),
        more={
            "groups": [
                {
                    "name": item.name or None,
                    "gpus": [str(gpu) for gpu in item.facts.capabilities],
                    "pytorch": str(item.wheel.version),
                    "build": item.wheel.build,
                    "requirements": list(item.needs),
                }
                for item in made
            ]
        },
    )
