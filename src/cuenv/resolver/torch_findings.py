"""What is wrong with the torch that a pip part asks for: no index has it, or its libraries are for another torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding, Severity, WheelFix, first_of, mended_by
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.core.versions import VersionSpec, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS, Extension, TorchBuild, TorchWheel
from cuenv.resolver.asked_torch import (
    EXACT,
    PYTORCH_INDEX,
    TAG,
    AskedTorch,
    goes_with,
    made_for_any,
    on_linux,
    torch_asked,
    wheels_here,
)
from cuenv.resolver.requirements import OF_TORCH, Demand, pin_demand, pip_demand
from cuenv.resolver.wheels import INDEX
from cuenv.solve.environment_spec import NUMBERS, EnvironmentSpec, index_option, normalise, requirement_name
from cuenv.solve.model import names_cpu
from cuenv.solve.pip_lines import without_options

_FIRST_LISTED_TAG = 100
_OFFICIAL_LOCAL = regex(r"cu\d{2,3}|cpu")
"""A local version of PyTorch's own wheels; another is somebody's own build, for whatever torch was there."""


def with_companions(finding: Finding, requirements: Iterable[str], knowledge: Knowledge) -> Finding:
    """A finding that names another wheel of torch, with the releases for it of what is pinned beside torch."""
    text = finding.edits[0].entries[0] if finding.edits and finding.edits[0].pip else ""
    row = next((row for row in knowledge.wheels if text == f"torch=={row.name}"), None)
    if row is None or not finding.fix:
        return finding
    lines = [line for line in requirements if on_linux(line) and requirement_name(line) != "torch"]
    wrong = [item for line in lines if (item := pip_demand(line)) and not goes_with(row, item, knowledge)]
    better, out = list[str](), list[str]()
    for item in wrong:
        ready = (
            each
            for each in knowledge.extension(item.name)
            if "wheel" in each.comes and made_for_any(each, (row.version,))
        )
        release = max((one for each in ready for one in each.releases), default=None)
        named = bool(release) or item.name in OF_TORCH  # of which pip finds the release for that torch by itself
        (better if named else out).append(f"{item.name}=={release}" if release else item.name)
    out += [item.name for item in map(pip_demand, lines) if item and item.condition and _BROUGHT.match(item.name)]
    without = f", without the {first_of([*dict.fromkeys(out)], _SHOWN)} of the file" if out else ""
    fix: str
    if isinstance(finding.fix, WheelFix):
        fix = finding.fix.but(requirements=(text, *better), without=without)
    else:
        first = replace(finding.edits[0], entries=(" ".join((text, *better)),))
        fix = f"{mended_by((first, *finding.edits[1:]))}{without}"
    edits = (*finding.edits, *(FileEdit(how="write", entries=(one,), pip=True) for one in better))
    return replace(finding, fix=fix, edits=edits)


_BROUGHT = regex(r"nvidia-[a-z]+(?:-[a-z]+)*-cu1\d$")  # wheels of NVIDIA that each torch brings in releases of its own


def index_findings(
    requirements: Sequence[str],
    python: VersionSpec | None,
    knowledge: Knowledge,
    *,
    project: bool = False,
    of_image: bool = False,
) -> Iterator[Finding]:
    """Where the indexes of a pip part do not have the wheel of torch that it asks for, or pip takes another one.

    Args:
        project: the requirements are those of a project, which uv installs as well as pip.
        of_image: commands install them with the Python of an image.
    """
    asked = torch_asked(requirements)
    if asked is None or asked.of_cpu or (asked.tag and not TAG.fullmatch(asked.tag)):
        return
    rows = list(wheels_here(PLATFORMS[0], python, knowledge))
    passed = next((found for line in requirements if (found := _ignored_index_finding(line, asked, rows))), None)
    if passed:
        yield passed
        return
    if not any(map(asked.has, rows)):
        yield from python_findings(asked, python, PLATFORMS[0], knowledge, of_image=of_image)
    told = _tag_problem(asked, rows) if asked.tag else _index_problem(asked, rows, project=project)
    if told:
        severity: Severity = "error" if asked.tag or not asked.pypi else "warning"
        why, edits = told
        about = (asked.text,)
        yield Finding(code="CU520", severity=severity, subject="torch", message=why, edits=edits, about=about)


_SHOWN = 3
_LOCAL = regex(r"(?P<name>[A-Za-z0-9._-]+)\s*={2,3}\s*(?P<release>[0-9][^+;\s]*)\+(?P<local>[\w.]+)\s*(?:;.*)?")


def local_findings(requirements: Sequence[str], *, project: bool = False) -> Iterator[Finding]:
    """Local versions that are asked of PyPI, which takes none: ``torchvision==0.19.0a0+1713e84``."""
    asked = torch_asked(requirements)
    where = " in [[tool.uv.index]] and [tool.uv.sources]" if project else ": --extra-index-url URL"
    if any(map(index_option, requirements)):
        return
    lacking: dict[str, list[tuple[str, str]]] = {}
    for line in requirements:
        found = _LOCAL.fullmatch(line.strip())
        cpu = asked is not None and asked.of_cpu
        if not found or (requirement_name(line) == "torch" and not cpu) or not on_linux(line):
            continue
        own = _OFFICIAL_LOCAL.fullmatch(found["local"]) and normalise(found["name"]) in ("torch", *OF_TORCH)
        if own and asked and asked.tag and not cpu:
            continue  # the index of torch has it as well
        public = re.match(r"[0-9.]*[0-9]", found["release"])
        plain = f"{found['name']}=={public[0] if public else found['release']}"
        index = f"--extra-index-url {INDEX}{found['local']}" if own else ""
        lacking.setdefault(index, []).append((line.partition(";")[0].strip(), plain))
    for index, pairs in lacking.items():
        texts, plains = zip(*pairs, strict=True)
        write = FileEdit(how="write", entries=plains, pip=True, near=True)
        yield Finding(
            code="CU520",
            severity="error",
            subject=", ".join(map(requirement_name, texts)),
            message=f"{first_of(texts, _SHOWN)} {'are' if len(texts) > 1 else 'is'} not on PyPI, which has "
            f"no local versions such as +{texts[0].partition('+')[2]}",
            fix=None if index else f"write {', '.join(plains)}, or name their index{where}",
            edits=(FileEdit(how="add", entries=(index,), pip=True) if index else write,),
            about=texts,
        )


def _ignored_index_finding(line: str, asked: AskedTorch, rows: Iterable[TorchWheel]) -> Finding | None:
    """An index that stands behind torch itself, where pip does not read it; ``None`` for another line."""
    text, options = without_options(line)
    site = index_option(options.split(" #")[0])
    if text.strip() != asked.text or not site or not PYTORCH_INDEX.match(site[1]) or asked.tags:
        return None
    plain = max((row for row in rows if "pypi" in row.comes and asked.has(row)), key=_release, default=None)
    if plain and not asked.tag and plain.build in site[1]:
        return None  # the wheel of PyPI is the same one
    own = f"torch {plain.version} on PyPI is built with CUDA {plain.cuda}" if plain else ""
    takes = f"PyPI has no wheel +{asked.tag}" if asked.tag else own
    return Finding(
        code="CU520",
        severity="error" if asked.tag else "warning",
        subject="torch",
        message=f"pip ignores {site[0]} after {asked.text}{f': {takes}' if takes else ''}",
        fix=f"write {site[0].replace('--index-url', '--extra-index-url')} {site[1]} on its own line",
        about=(asked.text,),
    )


def python_findings(
    asked: AskedTorch, python: VersionSpec | None, platform: str, knowledge: Knowledge, *, of_image: bool = False
) -> Iterator[Finding]:
    """A torch that has wheels, and none for the Python that is asked for, or that an image brings."""
    rows = [row for row in knowledge.wheels if row.platform == platform and row.cuda and asked.has(row)]
    if rows and python:
        pythons = ", ".join(dict.fromkeys(text for row in rows for text in row.pythons))
        newest, who = rows[-1].pythons[-1], "pip runs with" if of_image else "the file requests"
        yield Finding(
            code="CU110",
            severity="error",
            subject="torch",
            message=f"pip: {asked.text} has wheels for Python {pythons}, but {who} Python {python}",
            fix=f"take Python {newest}" if of_image else None,
            edits=() if of_image else (FileEdit(how="write", entries=(f"python={newest}",)),),
            other_python=True,
            about=(asked.text,),
        )


def wheels_with_other_tags(asked: AskedTorch, rows: Iterable[TorchWheel]) -> list[str]:
    """The wheels that exist of a release whose wheel for the tag that is asked for was never made; else none."""
    have = [row.name for row in rows if row.version == asked.exact and "index" in row.comes and row.cuda]
    known = TAG.fullmatch(asked.tag) and int(asked.tag.removeprefix("cu")) >= _FIRST_LISTED_TAG
    return have if known and f"{asked.exact}+{asked.tag}" not in have else []  # the tables have every tag from there on


def _tag_problem(asked: AskedTorch, rows: list[TorchWheel]) -> tuple[str, tuple[FileEdit, ...]] | None:
    """The requirement names a tag: that wheel must exist, and the index of the tag must be asked."""
    here = [row for row in rows if row.version == asked.exact]
    name = f"torch {asked.exact}+{asked.tag}"
    if have := wheels_with_other_tags(asked, rows):
        return f"{name} does not exist; PyTorch's indexes have {', '.join(have)}", _nearest(asked, rows)
    if asked.tag in asked.tags or asked.elsewhere:
        return None
    fix = (_index(asked.tag),)
    if asked.tags:
        return f"the index {asked.tags[0]} does not have {name}", fix
    plain = next((row for row in here if "pypi" in row.comes), None)
    but = f", whose torch {plain.version} is built with CUDA {plain.cuda}" if plain else ""
    return f"{name} is not on PyPI{but}", fix


def _index_problem(
    asked: AskedTorch, rows: list[TorchWheel], *, project: bool
) -> tuple[str, tuple[FileEdit, ...]] | None:
    """The pip part names an index: it must have a release that is asked for, and pip must not prefer PyPI's."""
    tags = [tag for tag in asked.tags if tag != "cpu"]
    of_index = [row for row in rows if "index" in row.comes and row.build in tags]
    last = max(of_index, key=_release, default=None)
    taken = max((row for row in of_index if asked.has(row)), key=_release, default=None)
    plain = (row for row in rows if asked.pypi and "pypi" in row.comes and asked.has(row))
    rival = max(plain, key=_release, default=None)
    if (
        last is None
        or asked.elsewhere
        or (taken and (rival is None or rival.version <= taken.version))
        or (rival is None and asked.pypi)
    ):
        return None
    later = (row for row in of_index if asked.exact and row.version >= asked.exact)
    instead = taken or min(later, key=_release, default=last)
    first = min(of_index, key=_release)
    span = f"{first.version} to {last.version}" if first.version < last.version else f"{last.version}"
    who = "uv and pip install" if project else "pip installs"
    then = f"; {who} torch {rival.version} from PyPI, which is built with CUDA {rival.cuda}" if rival else ""
    why = f"the index {' and '.join(tags)} has torch {span}, but {asked.text} is requested{then}"
    return why, (FileEdit(how="write", entries=(f"torch=={instead.name}",), pip=True),)


def pair_findings(spec: EnvironmentSpec, knowledge: Knowledge, *, before: str = "") -> Iterator[Finding]:
    """Libraries that are asked for beside a torch of which no release of theirs is made.

    Torch by pip is compared with the wheels of the libraries. Beside torch by conda, only torchvision and torchaudio
    are compared: builds of other libraries are made by each channel for a torch of its own choice.

    Args:
        before: the torch for people, where an earlier command installed it: pip replaces it, or breaks it.
    """
    asked, pin = torch_asked(spec.pip), spec.pin("pytorch")
    if pin and (torch := pin_demand(pin)):
        beside = [item for each in spec.pins if each.name in OF_TORCH and (item := pin_demand(each))]
        yield from _library_conflicts(beside, torch, ("conda-forge", "pytorch", "wheel"), knowledge)
    elif asked:
        lines = (line for line in spec.pip if on_linux(line) & on_linux(asked.text))
        found = [item for line in lines if (item := pip_demand(line)) and item.name != "torch"]
        beside = [item for item in found if not (asked.of_cpu and item.name == "triton")]  # of CUDA builds alone
        torch = replace(asked.demand, text=asked.text)
        yield from _library_conflicts(beside, torch, ("wheel",), knowledge, before=before)
        yield from _nvidia_wheel_conflicts(beside, asked, knowledge, later=bool(before))


def _nvidia_wheel_conflicts(
    beside: Iterable[Demand], asked: AskedTorch, knowledge: Knowledge, *, later: bool
) -> Iterator[Finding]:
    """Wheels of NVIDIA of which torch requires one exact release, and the pip part another: pip refuses both.

    Args:
        later: torch is there already: pip ends well, and broke what torch requires.
    """
    rows = [row for row in wheels_here(PLATFORMS[0], None, knowledge) if asked.has(row)]
    if not asked.exact or not rows or not all(row.pins for row in rows):
        return  # of a wheel without pins nobody knows what it requires
    theirs = {normalise(name): release for name, _, release in (pin.partition("==") for pin in rows[-1].pins)}
    wrong = [
        item
        for item in beside
        if item.name in theirs and item.name != "triton" and not item.admits(version(theirs[item.name]))
    ]
    if wrong:
        needs = ", ".join(f"{item.name}=={theirs[item.name]}" for item in wrong)
        named = ", ".join(item.text for item in wrong)
        replaced = "; pip puts the other release in its place, and reports a conflict"
        then = replaced if later else ", and pip cannot install another release beside it"
        yield Finding(
            code="CU505",
            severity="info" if later else "error",
            subject=", ".join(item.name for item in wrong),
            message=f"{named}: {asked.text} requires {needs}{then}",
            evidence=tuple(rows[-1].sources),
            fix=f"take {needs}, or leave {'them' if len(wrong) > 1 else 'it'} out: torch installs what it needs",
            about=(*(item.text for item in wrong), asked.text),
        )


def asked_torch_not_in_tables(spec: EnvironmentSpec, knowledge: Knowledge) -> Finding | None:
    """That the tables list no build of the torch that is asked for; ``None`` where they do, or none is asked for."""
    pin, asked = spec.pin("pytorch"), torch_asked(spec.pip)
    of_cpu = (
        (asked is not None and asked.of_cpu) or bool(pin and names_cpu(pin.build)) or spec.pin("cpuonly") is not None
    )
    demand = pin_demand(pin) if pin else asked.demand if asked else None
    if of_cpu or (pin and demand is None):
        return None
    text = next((line.strip() for line in spec.pip if requirement_name(line) == "torch"), "")
    if demand is None and "@" not in text:
        return None
    known: Iterable[TorchBuild] = knowledge.torch if pin else knowledge.wheels
    nightly = not pin and any("/whl/nightly/" in line for line in spec.pip)
    if demand and not nightly and any(demand.admits(row.version) for row in known):
        return None
    named = demand.text if demand else redact(text)
    what = f"{named} of PyTorch's nightly builds" if nightly else named
    return torch_not_in_tables(what, "pytorch" if pin else "torch")


def torch_not_in_tables(what: str, subject: str) -> Finding:
    """The finding that nobody can say for which GPUs a torch has code."""
    message = f"the cuenv tables do not list {what}, so its GPU support was not checked"
    return Finding(code="CU111", severity="info", subject=subject, message=message, unknown=True, about=(what,))


def torch_not_named(library: str, where: str, fix: str) -> Finding:
    """The finding that a library brings a torch that nobody named, so that no release of it was judged."""
    message = f"{library} installs a torch that {where}, so cuenv did not check whether it runs on the GPUs"
    return Finding(
        code="CU327", severity="info", subject=library, message=message, fix=fix, unknown=True, about=(library,)
    )


def _library_conflicts(
    libraries: Iterable[Demand], torch: Demand, ways: tuple[str, ...], knowledge: Knowledge, *, before: str = ""
) -> Iterator[Finding]:
    """Findings on libraries of which every release that is asked for is made for another torch."""
    named = [item for item in libraries if item.condition]
    known = (*knowledge.torch, *knowledge.wheels) if torch.condition and named else ()
    releases = {row.version for row in known if torch.admits(row.version)}
    if not releases:
        return
    for library in named:
        rows = [row for row in knowledge.extension(library.name) if row.torch and set(row.comes) & set(ways)]
        condition, _, local = library.condition.partition("+")
        if local and not _OFFICIAL_LOCAL.fullmatch(local):
            continue
        exact = EXACT.fullmatch(condition)
        meant = replace(library, condition=condition)
        fit = [row for row in rows if any(map(meant.admits, row.releases))]
        ranges = [row for row in rows if not row.releases]
        fit += [row for row in ranges if (row.covers(version(exact[1])) if exact else _admits_an_end(meant, row))]
        if not fit or any(made_for_any(row, releases) for row in fit):
            continue
        mine = sorted({release for row in rows for release in row.releases if made_for_any(row, releases)})
        if library.name == "triton" and not any(made_for_any(row, releases) for row in rows):
            continue  # torch before 2.0 requires no triton, so that any may lie beside it
        equals = "==" if "wheel" in library.ways else "="
        better = f"{library.name}{equals}{mine[-1]}" if mine else _range_for(library, ranges, releases)
        needs = " or ".join(dict.fromkeys(row.torch.span for row in fit[-2:] if row.torch))
        # of triton each torch requires one release, and triton requires none of torch
        verb = f"is what torch {needs} requires" if library.name == "triton" else f"requires torch {needs}"
        there = f"{before} is installed before" if before else f"{torch.text} is requested"
        replaced = f"; pip replaces {'its triton' if library.name == 'triton' else 'it'}" if before else ""
        message = f"{library.text} {verb}, but {there}{replaced}"
        asked = [version(exact[1])] if exact else [one for row in fit for one in row.releases if meant.admits(one)]
        compiled = any(_compiles(library, one, releases, knowledge) for one in asked)
        if compiled:
            message = f"{library.text} has wheels only for torch {needs}, but {there}, so pip compiles it"
        yield Finding(
            code="CU505",
            severity="warning" if compiled or before else "error",
            subject=library.name,
            message=message,
            evidence=tuple(fit[-1].sources),
            fix=f"use {better}, which is built for this torch" if better else None,
            edits=(FileEdit(how="write", entries=(better,), pip=equals == "==", near=True),) if better else (),
            about=(library.text, torch.text),
        )


def _range_for(library: Demand, ranges: Iterable[Extension], torch: Iterable[Version]) -> str:
    """The releases of a library for a torch, of which the rows have the range: ``vllm>=0.9,<0.10``; of wheels alone."""
    fit = [row for row in ranges if row.first and row.below and made_for_any(row, torch)]
    asked = NUMBERS.search(library.condition)
    after = [row for row in fit if row.below and asked and row.below > Version(asked[0])]
    row = next(iter(after), None) or next(reversed(fit), None)
    return f"{library.name}>={row.first},<{row.below}" if row and "wheel" in library.ways else ""


def _admits_an_end(library: Demand, row: Extension) -> bool:
    """Whether a condition admits a release of a range: its first one, or the last where the range is open."""
    ends = (row.first, _LAST if row.below is None else None)
    return any(end is not None and library.admits(end) for end in ends)


_LAST = version("9999")


def _compiles(library: Demand, release: Version, torch: Iterable[Version], knowledge: Knowledge) -> bool:
    """Whether pip compiles a release from its source where no wheel is for this torch."""
    rows = (row for row in knowledge.extension(library.name) if "source" in row.comes and row.builds)
    return "source" in library.ways and any(
        row.covers(release) and (not row.torch or made_for_any(row, torch)) for row in rows
    )


def _release(row: TorchWheel) -> Version:
    return row.version


def _nearest(asked: AskedTorch, rows: Iterable[TorchWheel]) -> tuple[FileEdit, ...]:
    """The wheel of the same tag that is nearest to the release that is asked for."""
    same = [row for row in rows if row.build == asked.tag and "index" in row.comes]
    before = [row for row in same if asked.exact is None or row.version <= asked.exact]
    row = max(before, key=_release, default=None) or min(same, key=_release, default=None)
    return (FileEdit(how="write", entries=(f"torch=={row.name}",), pip=True), _index(row.build)) if row else ()


def _index(tag: str) -> FileEdit:
    return FileEdit(how="add", entries=(f"--extra-index-url {INDEX}{tag}",), pip=True)
