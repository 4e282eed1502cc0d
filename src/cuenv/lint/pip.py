"""Lint of what pip installs, by commands or a list: torch, its libraries, and what is not read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.core.versions import VersionSpec, minor
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lint import Lint, Machine, fix_for_commands, make_lint, place_of
from cuenv.lint.environment_file import has_login, login_finding
from cuenv.lint.shell import (
    CONDA,
    NO_DEPS,
    PIP,
    PIP_VALUED,
    REST_OF_COMMAND,
    ListReader,
    ShellCommands,
    Word,
    command_words,
    expand_variables,
    index_options,
    indexes_of_variables,
    package_words,
    requirement_lists,
)
from cuenv.lockfile.requirement_files import with_lists
from cuenv.resolver.asked_torch import (
    AskedTorch,
    library_requiring_torch,
    torch_asked,
    wheel_as_requirement,
    wheels_asked,
)
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.policy import spec_findings
from cuenv.resolver.requirements import pip_demand
from cuenv.resolver.torch_findings import asked_torch_not_in_tables, index_findings, pair_findings, torch_not_named
from cuenv.resolver.wheels import INDEX
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.pip_lines import line_text, logical_lines


def wheel_lints(
    runs: Iterable[ShellCommands],
    image: str,
    nvcc: Version | None,
    machine: Machine,
    knowledge: Knowledge,
    *,
    own: str,
    empty: bool,
    there: bool = False,
    lists: ListReader,
    python: VersionSpec | None = None,
    compat: bool = False,
) -> Iterator[Lint]:
    """Mistakes in the torch that commands install with pip: its indexes, the nvcc of the image, its libraries.

    Args:
        runs: the commands of a stage, with the variables that are set before them.
        image: the image of the stage, where it has nvcc and something is compiled.
        own: the torch of the image, as a requirement; empty where it is not known.
        empty: whether the image is known to have no torch.
        there: whether the image is known to have one.
        lists: what reads a list of requirements that a command names.
        python: of the image, where it is known.
        compat: whether the image may hold NVIDIA's libraries for forward compatibility.
    """
    before = {own: own} if own else {}
    for run in runs:
        empty &= not (CONDA.search(run.text) or _PROJECT_INSTALL.search(run.text))
        for found in PIP.finditer(run.text):
            words = command_words(found, run)
            packages = [word.text for word in package_words(words, PIP_VALUED)]
            lines = [*indexes_of_variables(run), *index_options(words), *packages]
            named = [(word, lists(word.text)) for word in requirement_lists(words)]
            yield from (_unread_lint(word.text, word.start) for word, read in named if read is None)
            source = next((word.text for word, read in named if read and torch_asked(read)), "")
            packages += [line for _, read in named for line in read or () if not line.startswith("-")]
            lines += [line for _, read in named for line in read or ()]
            there &= not _LEAVES_IMAGE.search(run.text, 0, found.start())
            asked = _new_torch_request(lines, found["rest"], there=there)
            if asked and not NO_DEPS.search(found["rest"]):
                pairs = pair_findings(_spec_of_lines(packages), knowledge)
                yield from (Lint(finding=finding, at=_start_within(finding, words)) for finding in pairs)
            elif not NO_DEPS.search(found["rest"]):
                yield from _later_pair_lints(words, packages, before, knowledge)
            unlisted = asked_torch_not_in_tables(_spec_of_lines(lines), knowledge)
            if unlisted:
                yield Lint(finding=unlisted, at=_start_of_word(asked.text if asked else "", words))
            wheels = wheels_asked(asked, PLATFORMS[0], python, knowledge, lines) if asked else ()
            if asked:
                taken = (
                    _newest_for_each_python(wheels, python) if empty and not (asked.exact or asked.elsewhere) else ()
                )
                exact = f"torch=={asked.exact}+cpu" if asked.exact and asked.of_cpu else asked.text
                before = {f"torch=={item}": f"{asked.text} ({item} today)" for item in taken} or {exact: asked.text}
            yield from _unnamed_torch_lints(packages, words, knowledge) if empty and asked is None else ()
            empty &= asked is None and not named and not _UNREAD_REQUIREMENTS.search(found["rest"])
            there |= asked is not None
            if asked is None or "--torch-backend" in found["rest"]:
                continue
            at = _start_of_word(asked.text, words)
            indexes = tuple(index_findings(lines, python, knowledge, of_image=True))
            where = f"{source}: " if source and all(word.text != asked.text for word in words) else ""
            spec = _spec_of_lines(lines, (Pin(name="python", version=str(python)),) if python else ())
            for finding in indexes or findings_on_host(spec, machine, knowledge, compat=compat):
                yield Lint(
                    finding=replace(finding, message=where + finding.message, fix=fix_for_commands(finding)), at=at
                )
            newest = max(wheels, key=lambda item: item.build.version, default=None)
            if nvcc and image and newest and newest.cuda and newest.cuda.major != nvcc.major:
                message = (
                    f"{_taken_torch_text(asked, newest)} made with CUDA {newest.cuda}, but {image} has nvcc {nvcc}; "
                    "torch compiles extensions only with its own CUDA major version"
                )
                fix = _same_major_fix(asked, newest.cuda, nvcc, knowledge)
                yield make_lint("CU326", "error" if asked.exact else "warning", at, "torch", message, fix)


def _new_torch_request(lines: Sequence[str], rest: str, *, there: bool) -> AskedTorch | None:
    """The torch that a command requests; ``None`` if pip keeps the existing one."""
    asked = torch_asked(lines)
    left = asked and there and not (asked.demand.condition or asked.tag or _UPGRADE.search(rest))
    return None if left else asked


def installs_torch(run: ShellCommands, lists: ListReader) -> bool:
    """Whether commands install torch, by name or by a list that is read."""
    for found in PIP.finditer(run.text):
        words = command_words(found, run)
        lines = [word.text for word in package_words(words, PIP_VALUED)]
        lines += [line for word in requirement_lists(words) for line in lists(word.text) or ()]
        if torch_asked(lines) and not NO_DEPS.search(found["rest"]):
            return True
    conda = (command_words(found, run) for found in CONDA.finditer(run.text))
    return any(re.match(r"(?:\S+::)?pytorch(?![\w-])", word.text) for words in conda for word in words)


def environment_file_lints(text: str, at: int, variables: Mapping[str, str]) -> Iterator[Lint]:
    """Environment files that commands pass to conda, which are not read here."""
    for found in _ENV_FILE.finditer(text):
        name = expand_variables(found["file"].strip("'\""), variables)
        if name.endswith((".yml", ".yaml", ".txt")):
            yield _unread_lint(name, at + found.start("file"))


def _unread_lint(name: str, at: int, what: str = "") -> Lint:
    """The finding that a list, a project or an environment file was not read."""
    plain = name.rpartition("/")[2]
    verb = "check" if "lock" in plain else "lint"
    known = plain.endswith((".yml", ".yaml")) or plain in ("pixi.lock", "uv.lock")
    message = f"{what or name} was not read, so cuenv did not check whether it installs a torch that runs on the GPUs"
    fix = f"cuenv {verb} {shlex.quote(plain)}" if known and "$" not in plain else None
    finding = Finding(code="CU327", severity="info", subject=name, message=message, fix=fix, unknown=True)
    return Lint(finding=finding, at=at)


def unread_lints(runs: Iterable[ShellCommands], lists: ListReader) -> Iterator[Lint]:
    """Projects, repositories and locks that commands install and whose requirements are not read."""
    for run in runs:
        for found in _PROJECT_INSTALL.finditer(run.text):
            name = "setup.py" if found["setup"] else _LOCK_OF_TOOL[found["tool"]]
            yield _unread_lint(name, run.at + found.start("setup" if found["setup"] else "tool"))
        for found in PIP.finditer(run.text):
            if not NO_DEPS.search(found["rest"]):
                words = command_words(found, run)
                named_lists = [*requirement_lists(words)]
                yield from _unread_projects([word for word in words if word not in named_lists])
                for word in named_lists:
                    named = (replace(word, text=part) for line in lists(word.text) or () for part in line.split())
                    yield from _unread_projects([*named])


def _unread_projects(words: Sequence[Word]) -> Iterator[Lint]:
    before = ""
    for word in words:
        option, equals, value = word.text.partition("=")
        editable = before in _EDITABLE or option in _EDITABLE
        text = value if option in _EDITABLE else "" if before and not editable else word.text
        before = option if not equals and PIP_VALUED.fullmatch(option) else ""
        if text and not text.startswith("-") and (editable or _PROJECT.search(text)):
            name = redact(text)
            folder = not re.search(r"://|\.(?:whl|gz|zip)$|^\$[^/]*$", name)
            yield _unread_lint(name, word.start, f"the project in {name}" if folder else "")


def _unnamed_torch_lints(packages: Iterable[str], words: Sequence[Word], knowledge: Knowledge) -> Iterator[Lint]:
    """The first package of a command that requires torch, if the command does not name torch."""
    found = library_requiring_torch(packages, knowledge)
    if found:
        finding = torch_not_named(found[0], "no command names", "name torch, with its release, in the same command")
        yield Lint(finding=finding, at=_start_of_word(found[0], words))


def _taken_torch_text(asked: AskedTorch, newest: Candidate) -> str:
    """The torch that a command installs: the one that it names, or the newest of today."""
    if asked.exact:
        return f"{asked.text} is"
    return f"pip takes torch {newest.build.version} for {asked.text} today, which is"


def _same_major_fix(asked: AskedTorch, cuda: Version, nvcc: Version, knowledge: Knowledge) -> str:
    """The fix for another CUDA major version: a torch for the nvcc of the image, or an image for the torch."""
    rows = [row for row in knowledge.wheels if row.platform == PLATFORMS[0] and "index" in row.comes and row.cuda]
    same = [row for row in rows if row.cuda and row.cuda.major == nvcc.major and asked.demand.admits(row.version)]
    like = max(same, key=lambda row: (row.version, row.cuda), default=None)
    begin = next((row for row in reversed(knowledge.toolkits) if minor(row.version) == cuda), None)
    ways = [
        f"write torch=={like.name} with --extra-index-url {INDEX}{like.build}" if like else "",
        f"begin this stage with nvidia/cuda:{begin.version}-devel-ubuntu22.04" if begin else "",
    ]
    return ", or ".join(filter(None, ways))


def findings_on_host(
    spec: EnvironmentSpec, machine: Machine, knowledge: Knowledge, *, compat: bool
) -> Iterator[Finding]:
    """Why no torch that commands allow runs on the host: its driver, or GPUs without code.

    Args:
        spec: what commands or an image bring.
        compat: whether the image may hold NVIDIA's libraries for forward compatibility, which serve GPUs of data
            centres: a driver that is too old is certain for GeForce GPUs alone.
    """
    if machine.facts is None:
        return
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - only where a host is named
    from cuenv.lockfile.file_check import judge_file  # noqa: PLC0415 - as above

    # The glibc is that of the image.
    members = tuple(replace(one, libc=None) for one in machine.facts.members)
    inside = replace(machine.facts, platform=PLATFORMS[0], libc=None, members=members)
    found = judge_file(spec, inside, knowledge, alone=True)
    models = (find_gpu(gpu.name, knowledge.gpus) for gpu in machine.facts.gpus)
    certain = not compat or any(model and model.kind == "geforce" for model in models)
    for item in [item for item in found if item.code == "CU401"][:1]:
        yield item if certain else _as_unchecked(item)
    yield from [item for item in found if item.code in ("CU403", "CU404", "CU405")][:1]  # cuDNN comes with that torch


def _as_unchecked(finding: Finding) -> Finding:
    """A finding that forward-compatibility libraries in the image could make wrong, as unknown."""
    message = f"{finding.message}; cuenv did not check whether the image's forward-compatibility libraries support it"
    return replace(finding, severity="info", unknown=True, message=message)


def _start_of_word(text: str, words: Sequence[Word]) -> int:
    return next((word.start for word in words if word.text == text), words[0].start)


def _newest_for_each_python(wheels: Iterable[Candidate], python: VersionSpec | None) -> list[Version]:
    """The newest release for each Python, because most commands do not name the Python."""
    found: dict[str, Version] = {}
    for item in wheels:
        for text in [item.python] if python else item.build.pythons:
            found[text] = max(found.get(text, item.build.version), item.build.version)
    return sorted({*found.values()}, reverse=True)


def _later_pair_lints(
    words: Sequence[Word], lines: Sequence[str], before: Mapping[str, str], knowledge: Knowledge
) -> Iterator[Lint]:
    """Libraries that fit no torch that an earlier command may have installed.

    Args:
        before: the releases of torch that may be there, the newest first, each with the words for people.
    """
    found = [
        {item.subject: item for item in pair_findings(_spec_of_lines([text, *lines]), knowledge, before=said)}
        for text, said in before.items()
    ]
    for subject, finding in found[0].items() if found else ():
        if all(subject in other for other in found):
            several = replace(finding, edits=(), fix="install it together with torch, in one command")
            yield Lint(finding=finding if len(before) == 1 else several, at=_start_within(finding, words))


def _spec_of_lines(lines: Iterable[str], pins: tuple[Pin, ...] = ()) -> EnvironmentSpec:
    return EnvironmentSpec(name="", channels=(), pins=pins, pip=tuple(lines))


def _start_within(finding: Finding, words: Sequence[Word]) -> int:
    found = place_of(finding, {word.text: word.start for word in reversed(words)})
    return words[0].start if found is None else found


_ENV_FILE = regex(
    rf"(?<![\w.-])(?:conda|mamba|micromamba)\s+(?:env\s+)?(?:create|update|install)\b{REST_OF_COMMAND}?\s(?:-f|--file)[\s=]+(?P<file>[^\s;&|]+)"
)
_UNREAD_REQUIREMENTS = regex(r"(?:^|\s)(?:-r|--requirement|-e|--editable|\./|\.(?=\s|$|\[)|/|git\+)")
"""Words that bring requirements which nobody reads here."""
_UPGRADE = regex(r"\s(?:-U|--upgrade|--force-reinstall|--ignore-installed|-I|--pre)(?=\s|=|$)")
_EDITABLE = ("-e", "--editable")
_PROJECT = regex(
    r"^(?:\.{1,2}(?:/|\[|$)|[/~]|\$[\w{]|(?:git|hg|svn|bzr)\+|(?:https?|file):)|@ ?(?:git\+|https?:|file:)"
    r"|\.(?:whl|tar\.gz|zip)$"
)
"""A requirement that names a folder, a repository or a file."""
_PROJECT_INSTALL = regex(
    r"(?:^|(?<=[\s;&|(/]))(?:(?P<tool>poetry|uv|pixi|pdm|pipenv)\s+(?:-\S+\s+)*(?:install|sync|(?<=uv )run)\b"
    r"|\S*python[0-9.]*\s+(?P<setup>(?:\S*/)?setup\.py)\s+(?:install|develop)\b)"
)
_LOCK_OF_TOOL = {
    "poetry": "poetry.lock",
    "uv": "uv.lock",
    "pixi": "pixi.lock",
    "pdm": "pdm.lock",
    "pipenv": "Pipfile.lock",
}
"""Programs that install a project, and the file that they install."""
_REQUIRE_EXACT_TORCH = ("torchaudio", "torchvision", "vllm")
"""Packages on PyPI of which each release requires one exact release of torch; xformers does so no more."""
_UNINSTALLS_TORCH = rf"\bpip[0-9.]*\s+uninstall\b{REST_OF_COMMAND}?\storch(?=[\s;&|]|$)"
_LEAVES_IMAGE = regex(
    rf"{_UNINSTALLS_TORCH}|-m\s+venv\b|\bvirtualenv\b|\buv\s+venv\b"
    r"|\b(?:conda|mamba|micromamba)\s+(?:create|env|run)\b"
)
"""What removes the torch of an image, or begins an environment of its own."""
REMOVES_TORCH = regex(_UNINSTALLS_TORCH)


def second_torch_lints(run: ShellCommands, image: str) -> Iterator[Lint]:
    """A torch that pip installs over the torch of the image, by name or as a requirement."""
    own = re.search(r":(\d+\.\d+\.\d+)-cuda", image)
    removed = REMOVES_TORCH.search(run.text)
    for found in PIP.finditer(run.text, 0, removed.start() if removed else len(run.text)):
        if NO_DEPS.search(found["rest"]):
            continue
        words = command_words(found, run)
        named = any(re.match(r"torch(?![\w-])", word.text) for word in words)  # with whatever release
        for word in words:
            demand = None if word.text.startswith("-") else pip_demand(word.text)
            if demand is None or (own and demand.condition == f"=={own[1]}"):
                continue
            if demand.name == "torch" and not demand.condition and not _UPGRADE.search(found["rest"]):
                continue  # pip leaves what is there
            if demand.name == "torch":
                message = f"pip install {word.text} installs torch over the one of {image}"
                fix = "remove it, or begin with an image without torch"
            elif demand.name in _REQUIRE_EXACT_TORCH and not own and not named:
                message = (
                    f"pip install {word.text} replaces the torch of {image}, because each release of {demand.name} on "
                    "PyPI requires one exact release of torch"
                )
                fix = f"build {demand.name} from source with pip install --no-deps --no-build-isolation"
            else:
                continue
            yield make_lint("CU325", "warning", word.start, "torch", message, fix)


def requirement_lints(text: str, folder: Path | None, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """Mistakes in a list of requirements.

    Args:
        folder: where it lies, for the lists and folders that it names; ``None`` where nobody knows.
    """
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    lines = [(starts[number - 1], line) for number, line in logical_lines(text)]
    for at, line in lines:
        if has_login(line):
            yield Lint(finding=login_finding(redact(line), "requirements"), at=at)
    spec = _spec_of_lines(line for _, line in lines)
    spec = with_lists(spec, folder) if folder else spec
    for finding in _list_findings(spec, folder, machine, knowledge):
        yield Lint(finding=replace(finding, fix=fix_for_commands(finding)), at=_position_of(finding, lines))


def _list_findings(
    spec: EnvironmentSpec, folder: Path | None, machine: Machine, knowledge: Knowledge
) -> Iterator[Finding]:
    from cuenv.lockfile.file_check import judge_file, names_nothing  # noqa: PLC0415 - only for a list
    from cuenv.lockfile.pip import beforehand  # noqa: PLC0415 - as above

    of_file = (*spec_findings(spec, knowledge), *beforehand(spec, folder, knowledge))
    yield from of_file
    if machine.facts:
        found = judge_file(spec, machine.facts, knowledge, alone=True)
        yield from found
        unread = any(item.code == "CU514" for item in of_file)
        if spec.pip and not (found or unread) and machine.gpus and names_nothing(spec, knowledge):
            yield no_torch_finding("the list")
    else:
        unlisted = asked_torch_not_in_tables(spec, knowledge)
        yield from (unlisted,) if unlisted else ()


def no_torch_finding(what: str) -> Finding:
    """The finding that requirements name no torch, so that nothing was checked for the GPUs."""
    message = f"{what} names no torch, and what its packages require was not read, so nothing was checked for the GPUs"
    return Finding(code="CU327", severity="info", subject="torch", message=message, unknown=True)


def _position_of(finding: Finding, lines: list[tuple[int, str]]) -> int:
    """The first line that a finding is about, otherwise that of its subject, otherwise that of torch."""
    found = place_of(finding, {line_text(line): at for at, line in reversed(lines)})
    if found is not None:
        return found
    names = finding.subject.split(", ")
    named = (at for at, line in lines if requirement_name(line) in names)
    torch = (at for at, line in lines if requirement_name(wheel_as_requirement(line) or line) == "torch")
    return next(chain(named, torch, (at for at, _ in lines)), 0)
