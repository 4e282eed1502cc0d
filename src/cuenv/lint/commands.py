"""Lint of shell commands, in scripts, profiles and the RUN of a Dockerfile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.findings import Finding, mended_by
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.core.versions import VersionSpec, minor, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lint import Edit, Lint, Machine, in_its_place, told
from cuenv.lint.environment_file import arch_list_lints, frozen_finding, post_link_finding, sparse_attention
from cuenv.resolver.asked_torch import AskedTorch, unlisted_finding
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.policy import REPAIR, spec_findings
from cuenv.resolver.requirements import broken, pip_demand, with_condition, without_broken
from cuenv.resolver.wheels import INDEX
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec

_SET = regex(r"\b(?P<name>[A-Z][A-Z0-9_]*)=(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s;&|)\"']*))")
_TOOLKIT = regex(r"/usr/local/cuda(?:-(?P<release>[0-9]+\.[0-9]+))?(?=/|$)")
_LIBRARIES = regex(r"/usr/local/cuda(?:-[0-9.]+)?(?:/(?:lib|lib64|targets/[^/:\s]+/lib)/?)?(?=:|\s|$)")
_STUBS = regex(r"/usr/local/cuda(?:-[0-9.]+)?/(?:[^:\s]*/)?stubs(?=/|:|$)")
ON = r"(?:[^\n;&|\\]|\\\r?\n(?:[ \t]*\r?\n)*|\\.)*"
"""The rest of a command: to the end of the line, over lines that it goes on, and what was a comment between them."""
PIP = regex(rf"\bpip[0-9.]*(?:\s+--?[a-z][\w=-]*)*\s+install\b(?P<rest>{ON})")
_INSTEAD = regex(r"\|\|[^;&|\n]*(?:\\\r?\n[^;&|\n]*)*\Z")
"""What stands before a command that runs only where the one before it failed."""
_NO_DEPS = regex(r"\s--no-deps\b")
WORD = regex(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\\]+")
_CONDA = regex(rf"\b(?:conda|mamba|micromamba)\s+(?:install|create|update|remove)\b(?P<rest>{ON})")
_YES = regex(r"(?:^|\s)(?:-y|--yes|-qy|-yq|--dry-run|-d)(?=\s|$|\\)")
_ALWAYS_YES = regex(r"(?i)always_yes[\"']?[=: ]\s*[\"']?(?:1|true|yes|on)\b")
_ANSWERED = regex(r"\b(?:yes|echo\s+[\"']?y(?:es)?[\"']?)\s*\|\s*\Z")
_COMMENT = regex(r"(?P<kept>\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|\\.)|(?<![^\s;&|()])#[^\r\n]*")
_SETTINGS = regex(
    r"\bnvidia-smi\b[^\n;&|]*?\s(?P<option>-e|-r|--ecc-config|--gpu-reset|-mig|--multi-instance-gpu|-pl|-pm)(?=[\s=]|$)"
)
_SYSTEM = regex(rf"\b(?:apt-get|apt|dnf|yum|zypper)\s(?P<rest>{ON})")
_TOOLKIT_NAME = regex(
    r"(?<![\w-])(?:nvidia-cuda-toolkit|cuda-(?:toolkit|nvcc|compiler|minimal-build)-(?P<major>\d+)-(?P<minor>\d+))(?![\w-])"
)
_DRIVER_NAME = regex(r"(?<![\w-])(?:nvidia-driver(?:-[a-z0-9-]+)?|cuda-drivers(?:-[0-9]+)?)(?![\w-])")


def without_comments(text: str) -> str:
    """Shell code with blanks in place of its comments, so that every other character keeps its place."""
    return _COMMENT.sub(lambda found: found["kept"] or " " * len(found[0]), text)


def command_lints(text: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge) -> Iterator[Lint]:
    """What is wrong with shell commands.

    Args:
        text: the commands, without comments.
        at: where they stand in the file.
        machine: what they are for.
        nvcc: the release of the compiler that they call; ``None`` when it is not known.
        knowledge: the tables.
    """
    yield from _requirements(text, at, knowledge)
    for found in _SETTINGS.finditer(text):
        yield told(
            "CU314",
            "warning",
            at + found.start(),
            "nvidia-smi",
            f"nvidia-smi {found['option']} changes a GPU for every user; it needs root "
            "and sometimes a reset, which fails "
            "while the GPU is in use",
            "leave it to the administrator; cuenv inspect says what is set",
        )
    for found in _SET.finditer(text):
        yield from setting_lints(found["name"], _value(found), at + found.start(), machine, nvcc, knowledge)
    yield from _toolkits(text, at)


def _value(found: re.Match[str]) -> str:
    return found["double"] or found["single"] or found["bare"] or ""


def setting_lints(  # noqa: PLR0917 - a name and its value, then what every lint of settings asks for
    name: str, value: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge
) -> Iterator[Lint]:
    """What is wrong with a variable that is set, in whatever notation."""
    if name == "TORCH_CUDA_ARCH_LIST" and value:
        yield from arch_list_lints(value, at, machine, nvcc, knowledge)
    elif name == "DS_BUILD_SPARSE_ATTN" and value == "1":
        yield sparse_attention(at)
    elif name == "LD_LIBRARY_PATH" and (stubs := _STUBS.search(value)):
        yield told(
            "CU312",
            "warning",
            at,
            name,
            f"LD_LIBRARY_PATH names {stubs[0]}, which holds stand-ins of the driver's libraries for the linker; a "
            "program that loads one of them at run time finds no GPU",
            "put it into LIBRARY_PATH, which the compiler reads, and take it out of LD_LIBRARY_PATH",
        )
    elif name == "LD_LIBRARY_PATH" and (found := _LIBRARIES.search(value)):
        yield told(
            "CU312",
            "warning",
            at,
            name,
            f"LD_LIBRARY_PATH names {found[0]}: its cuBLAS, nvJitLink or cuDNN can shadow those that torch came with, "
            "and it cannot change torch's CUDA",
            "take it out of LD_LIBRARY_PATH; cuenv explain ld-library-path",
        )


def _toolkits(text: str, at: int) -> Iterator[Lint]:
    """Two toolkits in one file: the compiler of one and the libraries of the other."""
    named: dict[str, tuple[str, int]] = {}
    for found in _SET.finditer(text):
        if found["name"] in ("PATH", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CUDACXX"):
            toolkit = _TOOLKIT.search(_value(found))
            if toolkit and toolkit["release"]:
                named.setdefault(toolkit["release"], (found["name"], at + found.start()))
    if len(named) > 1:
        parts = ", ".join(f"{name} CUDA {release}" for release, (name, _) in sorted(named.items()))
        first = min(named.values(), key=lambda item: item[1])
        message = (
            f"two CUDA toolkits are set: {parts}; a build takes the compiler of one and the libraries of the other"
        )
        yield told("CU313", "warning", first[1], first[0], message, "set all of them to one toolkit")


def _requirements(text: str, at: int, knowledge: Knowledge) -> Iterator[Lint]:
    """Requirements of ``pip install`` that admit releases which are known to be broken."""
    for found in PIP.finditer(text):
        for word in WORD.finditer(found["rest"]):
            quoted = word[0][:1] in ("'", '"')
            requirement = word[0][1:-1] if quoted else word[0]
            demand = pip_demand(requirement) if not requirement.startswith("-") else None
            for row, releases in broken(demand, knowledge) if demand and demand.condition else ():
                better, _ = without_broken(requirement, (row.when,), knowledge)
                exact = demand is not None and demand.condition.startswith("==")
                better = with_condition(requirement, f">={row.mended}") if exact else better
                start = at + found.start("rest") + word.start()
                mark = "'" if '"' in better else '"'
                edit = Edit(start=start, end=start + len(word[0]), text=f"{mark}{better}{mark}")
                names = " and ".join(map(str, releases))
                yield Lint(
                    finding=Finding(
                        code="CU503",
                        severity="warning",
                        subject=row.package,
                        message=f"{requirement} admits {row.package} {names}, broken with {row.when}: {row.says} "
                        f"({row.issue})",
                        evidence=row.sources,
                        fix=f"write {better}",
                    ),
                    at=start,
                    edits=(edit,) if mark not in better else (),
                )


def always_yes(text: str) -> bool:
    """Whether commands or variables tell conda not to ask."""
    return _ALWAYS_YES.search(text) is not None


def unanswered(text: str, at: int) -> Iterator[Lint]:
    """``conda install`` without ``-y``: in a build nobody answers, and conda takes the end of its input for a yes."""
    for found in _CONDA.finditer(text):
        if not _YES.search(found["rest"]) and not _ANSWERED.search(text, 0, found.start()):
            end = at + found.start("rest")
            yield told(
                "CU323",
                "info",
                at + found.start(),
                "conda",
                f"{' '.join(found[0].split()[:2])} asks for a confirmation; in a build conda goes on without an answer",
                "add -y",
                Edit(start=end, end=end, text=" -y"),
            )


def drivers(text: str, at: int) -> Iterator[Lint]:
    """A driver that is installed into an image: it belongs to the host, and the runtime brings its libraries in."""
    for found in _SYSTEM.finditer(text):
        for name in _DRIVER_NAME.finditer(found["rest"]):
            yield told(
                "CU324",
                "warning",
                at + found.start("rest") + name.start(),
                name[0],
                f"{name[0]} is installed in an image; the driver belongs to the host, and a second one hides it",
                f"take {name[0]} out, and start the container with --gpus all",
            )


def second_toolkit(run: ShellCommands, image: str, cuda: Version) -> Iterator[Lint]:
    """A toolkit that the system's package manager adds to the one of the image."""
    for found in _SYSTEM.finditer(run.text):
        for word in _words(found, run):
            name = _TOOLKIT_NAME.fullmatch(word.text)
            release = f"{name['major']}.{name['minor']}" if name and name["major"] else ""
            if name and release != str(cuda):
                what = f"CUDA {release}" if release else "the CUDA release of the distribution, in /usr/bin"
                message = (
                    f"{word.text} installs {what}, beside CUDA {cuda} of {image}; a build may take the nvcc of one and "
                    "the libraries of the other"
                )
                yield told("CU313", "warning", word.start, word.text, message, f"take {word.text} out")


_INDEXES = {
    "PIP_INDEX_URL": "--index-url",
    "PIP_EXTRA_INDEX_URL": "--extra-index-url",
    "PIP_FIND_LINKS": "--find-links",
    "UV_DEFAULT_INDEX": "--index-url",
    "UV_INDEX": "--extra-index-url",
}
_INDEX_OPTION = regex(r"(-i|--index-url|--extra-index-url|-f|--find-links|--index|--default-index)(?:=(.+))?")


def wheel_lints(
    runs: Iterable[ShellCommands],
    image: str,
    nvcc: Version | None,
    machine: Machine,
    knowledge: Knowledge,
    *,
    own: str,
    empty: bool,
    lists: ListReader,
    python: VersionSpec | None = None,
    compat: bool = False,
) -> Iterator[Lint]:
    """What is wrong with the torch that commands ask pip for: its indexes, the nvcc of the image, its libraries.

    Args:
        runs: the commands of a stage, with the variables that are set before them.
        image: the image of the stage, where it has nvcc and something is compiled.
        nvcc: the release of that nvcc.
        machine: what the image is for.
        knowledge: the tables.
        own: the torch of the image, as a requirement; empty where it is not known.
        empty: whether the image is known to have no torch.
        lists: what reads a list of requirements that a command names.
        python: of the image, where it is known.
        compat: whether the image may hold NVIDIA's libraries for forward compatibility.
    """
    from cuenv.resolver.asked_torch import index_findings, torch_asked, wheels_asked  # noqa: PLC0415 - only for pip

    before = {own: own} if own else {}
    for run in runs:
        empty &= not (_CONDA_PROGRAMS.search(run.text) or _TOOLS.search(run.text))
        for found in PIP.finditer(run.text):
            words = _words(found, run)
            packages = [word.text for word in _packages(words, _PIP_VALUED)]
            lines = [*_set_indexes(run), *_indexes(words), *packages]
            named = [(word, lists(word.text)) for word in _lists(words)]
            yield from (_unread(word.text, word.start) for word, read in named if read is None)
            source = next((word.text for word, read in named if read and torch_asked(read)), "")
            packages += [line for _, read in named for line in read or () if not line.startswith("-")]
            lines += [line for _, read in named for line in read or ()]
            asked = torch_asked(lines)
            if asked and not _NO_DEPS.search(found["rest"]):
                yield from _pairs(words, packages, knowledge)
            elif not _NO_DEPS.search(found["rest"]):
                yield from _pairs_later(words, packages, before, knowledge)
            unlisted = unlisted_finding(EnvironmentSpec(name="", channels=(), pins=(), pip=tuple(lines)), knowledge)
            if unlisted:
                yield Lint(finding=unlisted, at=_start_of(asked.text if asked else "", words))
            wheels = wheels_asked(asked, PLATFORMS[0], python, knowledge) if asked else ()
            if asked:
                taken = _taken(wheels, python) if empty and not (asked.exact or asked.elsewhere) else ()
                exact = f"torch=={asked.exact}+cpu" if asked.exact and asked.of_cpu else asked.text
                before = {f"torch=={item}": f"{asked.text} ({item} today)" for item in taken} or {exact: asked.text}
            yield from _brought(packages, words, knowledge) if empty and asked is None else ()
            empty &= asked is None and not _FILES.search(found["rest"])
            if asked is None or "--torch-backend" in found["rest"]:
                continue
            at = _start_of(asked.text, words)
            indexes = tuple(map(_of_python, index_findings(lines, python, knowledge)))
            where = f"{source}: " if source and all(word.text != asked.text for word in words) else ""
            for finding in indexes or _on_machine(lines, python, machine, knowledge, compat=compat):
                yield Lint(finding=replace(finding, message=where + finding.message, fix=of_commands(finding)), at=at)
            newest = max(wheels, key=lambda item: item.build.version, default=None)
            if nvcc and image and newest and newest.cuda and newest.cuda.major != nvcc.major:
                message = (
                    f"{_as_taken(asked, newest)} made with CUDA {newest.cuda}, but {image} has nvcc {nvcc}; torch "
                    "compiles extensions only with its own CUDA major version"
                )
                fix = _one_major(asked, newest.cuda, nvcc, knowledge)
                yield told("CU326", "error" if asked.exact else "warning", at, "torch", message, fix)


def brings_torch(run: ShellCommands, lists: ListReader) -> bool:
    """Whether commands install a torch, named or in a list that is read."""
    from cuenv.resolver.asked_torch import torch_asked  # noqa: PLC0415 - only for pip

    for found in PIP.finditer(run.text):
        words = _words(found, run)
        lines = [word.text for word in _packages(words, _PIP_VALUED)]
        lines += [line for word in _lists(words) for line in lists(word.text) or ()]
        if torch_asked(lines) and not _NO_DEPS.search(found["rest"]):
            return True
    conda = (_words(found, run) for found in _CONDA_PROGRAMS.finditer(run.text))
    return any(re.match(r"(?:\S+::)?pytorch(?![\w-])", word.text) for words in conda for word in words)


def file_lints(text: str, at: int, variables: Mapping[str, str]) -> Iterator[Lint]:
    """Environment files that commands give to conda: what is in them is judged by itself."""
    for found in _ENV_FILE.finditer(text):
        name = expanded(found["file"].strip("'\""), variables)
        if name.endswith((".yml", ".yaml", ".txt")):
            yield _unread(name, at + found.start("file"))


def _unread(name: str, at: int, what: str = "") -> Lint:
    """A list, a project or an environment file that is not read here, so that nobody knows which torch it brings."""
    plain = name.rpartition("/")[2]
    verb = "check" if "lock" in plain else "lint"
    known = plain.endswith((".yml", ".yaml")) or plain in ("pixi.lock", "uv.lock")
    finding = Finding(
        code="CU327",
        severity="info",
        subject=name,
        message=f"{what or name} was not read, so whether it brings a torch, and one that runs on the GPUs, was not "
        "checked",
        fix=f"cuenv {verb} {shlex.quote(plain)}" if known and "$" not in plain else None,
        unknown=True,
    )
    return Lint(finding=finding, at=at)


def unread_lints(runs: Iterable[ShellCommands], lists: ListReader) -> Iterator[Lint]:
    """Projects, repositories and locks that commands install, of which nobody reads here what they require."""
    for run in runs:
        for found in _TOOLS.finditer(run.text):
            name = "setup.py" if found["setup"] else _LOCKS[found["tool"]]
            yield _unread(name, run.at + found.start("setup" if found["setup"] else "tool"))
        for found in _SYNC.finditer(run.text):
            words = _words(found, run)
            yield from (_unread(word.text, word.start) for word in words if _SYNCED.search(word.text))
        for found in PIP.finditer(run.text):
            if not _NO_DEPS.search(found["rest"]):
                words = _words(found, run)
                yield from _unread_projects(words)
                for word in _lists(words):
                    named = (replace(word, text=part) for line in lists(word.text) or () for part in line.split())
                    yield from _unread_projects([*named])


def _unread_projects(words: Sequence[_Word]) -> Iterator[Lint]:
    before = ""
    for word in words:
        option, equals, value = word.text.partition("=")
        editable = before in _EDITABLE or option in _EDITABLE
        text = value if option in _EDITABLE else "" if before and not editable else word.text
        before = option if not equals and _PIP_VALUED.fullmatch(option) else ""
        if text and not text.startswith("-") and (editable or _PROJECT.search(text)):
            name = redact(text)
            folder = "://" not in name and not name.endswith((".whl", ".gz", ".zip"))
            yield _unread(name, word.start, f"the project in {name}" if folder else "")


def _brought(packages: Iterable[str], words: Sequence[_Word], knowledge: Knowledge) -> Iterator[Lint]:
    """The first package that requires a torch, of a command that names none."""
    from cuenv.resolver.asked_torch import library_of_torch, unnamed  # noqa: PLC0415 - only for pip

    found = library_of_torch(packages, knowledge)
    if found:
        finding = unnamed(found[0], "no command names", "name torch, with its release, in the same command")
        yield Lint(finding=finding, at=_start_of(found[0], words))


def _lists(words: Sequence[_Word]) -> Iterator[_Word]:
    """The lists of requirements that a command of pip names."""
    for word, after in zip_longest(words, words[1:]):
        found = _LIST.fullmatch(word.text)
        if found and found[1]:
            yield replace(word, text=found[1])
        elif found and after:
            yield after


def _as_taken(asked: AskedTorch, newest: Candidate) -> str:
    """Which torch a command gets: the one that it names, or the newest of today."""
    if asked.exact:
        return f"{asked.text} is"
    return f"pip takes torch {newest.build.version} for {asked.text} today, which is"


def _one_major(asked: AskedTorch, cuda: Version, nvcc: Version, knowledge: Knowledge) -> str:
    """A torch for the major of nvcc where one is as it is asked for, and the image for the CUDA of torch."""
    rows = [row for row in knowledge.wheels if row.platform == PLATFORMS[0] and "index" in row.comes and row.cuda]
    same = [row for row in rows if row.cuda and row.cuda.major == nvcc.major and asked.demand.admits(row.version)]
    like = max(same, key=lambda row: (row.version, row.cuda), default=None)
    begin = next((row for row in reversed(knowledge.toolkits) if minor(row.version) == cuda), None)
    ways = [
        f"write torch=={like.name} with --extra-index-url {INDEX}{like.build}" if like else "",
        f"begin this stage with nvidia/cuda:{begin.version}-devel-ubuntu22.04" if begin else "",
    ]
    return ", or ".join(filter(None, ways))


def _on_machine(
    lines: Sequence[str], python: VersionSpec | None, machine: Machine, knowledge: Knowledge, *, compat: bool
) -> Iterator[Finding]:
    """Why no torch that a command of pip admits runs on the host, where one is named."""
    pins = (Pin(name="python", version=str(python)),) if python else ()
    spec = EnvironmentSpec(name="", channels=(), pins=pins, pip=tuple(lines))
    yield from unfit(spec, machine, knowledge, compat=compat)


def unfit(spec: EnvironmentSpec, machine: Machine, knowledge: Knowledge, *, compat: bool) -> Iterator[Finding]:
    """Why no torch that a command admits runs on the host: its driver, and the GPUs that it has no code for.

    Args:
        spec: what commands or an image bring.
        machine: what the image is for.
        knowledge: the tables.
        compat: whether the image may hold NVIDIA's libraries for forward compatibility, which serve GPUs of data
            centres: a driver that is too old is certain for GeForce GPUs alone.
    """
    if machine.facts is None:
        return
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - only where a host is named
    from cuenv.lockfile.file_check import judge_file  # noqa: PLC0415 - as above

    found = judge_file(spec, replace(machine.facts, platform=PLATFORMS[0]), knowledge, alone=True)
    models = (find_gpu(gpu.name, knowledge.gpus) for gpu in machine.facts.gpus)
    certain = not compat or any(model and model.kind == "geforce" for model in models)
    for item in [item for item in found if item.code == "CU401"][:1]:
        yield item if certain else _by_forward(item)
    yield from [item for item in found if item.code in ("CU403", "CU404", "CU405")][:1]  # cuDNN comes with that torch


def _of_python(finding: Finding) -> Finding:
    """A Python for which there is no wheel, in the words of commands: the image brings it."""
    if finding.code != "CU110":
        return finding
    message = finding.message.replace("the file asks for Python", "pip runs with Python")
    newest = "".join(edit.entries[0].partition("=")[2] for edit in finding.edits)
    return replace(finding, message=message, fix=f"take Python {newest}", edits=())


def _by_forward(finding: Finding) -> Finding:
    message = f"{finding.message}; whether libraries of the image for forward compatibility serve it was not checked"
    return replace(finding, severity="info", unknown=True, message=message)


def _start_of(text: str, words: Sequence[_Word]) -> int:
    return next((word.start for word in words if word.text == text), words[0].start)


def _taken(wheels: Iterable[Candidate], python: VersionSpec | None) -> list[Version]:
    """The newest release for each Python, of which pip takes one: most commands do not say which Python it is."""
    found: dict[str, Version] = {}
    for item in wheels:
        for text in [item.python] if python else item.build.pythons:
            found[text] = max(found.get(text, item.build.version), item.build.version)
    return sorted({*found.values()}, reverse=True)


def _pairs(words: Sequence[_Word], lines: Sequence[str], knowledge: Knowledge) -> Iterator[Lint]:
    """Libraries for another torch, which pip refuses in one command."""
    for finding in _unpaired(lines, knowledge):
        yield Lint(finding=finding, at=_start_within(finding, words))


def _pairs_later(
    words: Sequence[_Word], lines: Sequence[str], before: Mapping[str, str], knowledge: Knowledge
) -> Iterator[Lint]:
    """Libraries that fit no torch that an earlier command may have installed: pip replaces that, or breaks it.

    Args:
        words: of the command.
        lines: its requirements.
        before: the releases of torch that may be there, the newest first, each with the words for people.
        knowledge: the tables.
    """
    found = [{item.subject: item for item in _unpaired([text, *lines], knowledge)} for text in before]
    for subject, finding in found[0].items() if found else ():
        if all(subject in other for other in found):
            text, said = next(iter(before.items()))
            replaced = "its triton" if subject == "triton" else "it"
            then = f"; pip replaces {replaced}" if finding.severity == "error" else ""  # else it is compiled for it
            message = finding.message.replace(f"{text} is asked for", f"{said} is installed before{then}")
            edits = finding.edits if len(before) == 1 else ()
            fix = finding.fix if len(before) == 1 else "ask for it together with torch, in one command"
            mended = replace(finding, severity="warning", message=message, edits=edits, fix=fix)
            yield Lint(finding=mended, at=_start_within(finding, words))


def _unpaired(lines: Iterable[str], knowledge: Knowledge) -> Iterator[Finding]:
    from cuenv.resolver.asked_torch import pair_findings  # noqa: PLC0415 - as above

    yield from pair_findings(EnvironmentSpec(name="", channels=(), pins=(), pip=tuple(lines)), knowledge)


def _start_within(finding: Finding, words: Sequence[_Word]) -> int:
    return next((word.start for word in words if finding.message.startswith(f"{word.text} ")), words[0].start)


def _set_indexes(run: ShellCommands) -> Iterator[str]:
    """The indexes that variables name, as a requirements file has them."""
    for name, option in _INDEXES.items():
        if run.variables.get(name):
            yield f"{option} {run.variables[name]}"


def _indexes(words: Sequence[_Word]) -> Iterator[str]:
    """The options of pip and uv that name an index, as a requirements file has them."""
    for word, after in zip_longest(words, words[1:]):
        option = _INDEX_OPTION.fullmatch(word.text)
        value = option[2] if option and option[2] else after.text if option and after else ""
        if option and value:
            name = {"--index": "--extra-index-url", "--default-index": "--index-url"}.get(option[1], option[1])
            yield f"{name} {value}"


ListReader: TypeAlias = "Callable[[str], tuple[str, ...] | None]"
"""The lines of a list of requirements by the name that a command has for it; ``None`` where it cannot be read."""

_LIST = regex(r"(?:-r|--requirements?)(?:=?([^=\s]\S*))?")
_ENV_FILE = regex(
    rf"(?<![\w.-])(?:conda|mamba|micromamba)\s+(?:env\s+)?(?:create|update|install)\b{ON}?\s(?:-f|--file)[\s=]+(?P<file>[^\s;&|]+)"
)
_FILES = regex(r"(?:^|\s)(?:-r|--requirement|-e|--editable|\./|\.(?=\s|$|\[)|/|git\+)")
"""Words that bring requirements which nobody reads here."""
_UPGRADE = regex(r"\s(?:-U|--upgrade|--force-reinstall|--ignore-installed|-I|--pre)(?=\s|=|$)")
_EDITABLE = ("-e", "--editable")
_PROJECT = regex(
    r"^(?:\.{1,2}(?:/|\[|$)|[/~]|\$\w|(?:git|hg|svn|bzr)\+|(?:https?|file):)|@ ?(?:git\+|https?:|file:)"
    r"|\.(?:whl|tar\.gz|zip)$"
)
"""A requirement that names a folder, a repository or a file."""
_TOOLS = regex(
    r"(?:^|(?<=[\s;&|(/]))(?:(?P<tool>poetry|uv|pixi|pdm|pipenv)\s+(?:-\S+\s+)*(?:install|sync|(?<=uv )run)\b"
    r"|\S*python[0-9.]*\s+(?P<setup>(?:\S*/)?setup\.py)\s+(?:install|develop)\b)"
)
_SYNC = regex(rf"\b(?:uv\s+pip\s+sync|pip-sync)\b(?P<rest>{ON})")
_SYNCED = regex(r"\.(?:txt|toml|lock)$")
_LOCKS = {"poetry": "poetry.lock", "uv": "uv.lock", "pixi": "pixi.lock", "pdm": "pdm.lock", "pipenv": "Pipfile.lock"}
"""Programs that install a project, and the file that they install."""
_OF_CUDA = regex(
    r"(?i)cuda|nvidia|torch|tensorflow|flash[-_]attn"
    r"|(?<![a-z])(?:gpus?|jax(?:lib)?|cupy|deepspeed|vllm|xformers|nvcr)(?![a-z])"
)


def names_cuda(text: str) -> bool:
    """Whether commands name CUDA, or a program that uses it."""
    return _OF_CUDA.search(text) is not None


_EXACT_TORCH = ("torchaudio", "torchvision", "vllm")
"""Packages on PyPI of which each release requires one exact release of torch; xformers does so no more."""


def second_torch(run: ShellCommands, image: str) -> Iterator[Lint]:
    """A torch from pip over the one of the image, asked for by name or by what requires one release of it."""
    own = re.search(r":(\d+\.\d+\.\d+)-cuda", image)
    for found in PIP.finditer(run.text):
        if _NO_DEPS.search(found["rest"]):
            continue
        words = _words(found, run)
        named = any(re.match(r"torch(?![\w-])", word.text) for word in words)  # with whatever release
        for word in words:
            demand = None if word.text.startswith("-") else pip_demand(word.text)
            if demand is None or (own and demand.condition == f"=={own[1]}"):
                continue
            if demand.name == "torch" and not demand.condition and not _UPGRADE.search(found["rest"]):
                continue  # pip leaves what is there
            if demand.name == "torch":
                message = f"pip install {word.text} installs torch over the one of {image}"
                fix = "take it out, or begin with an image without torch"
            elif demand.name in _EXACT_TORCH and not own and not named:
                message = (
                    f"pip install {word.text} replaces the torch of {image}, because each release of {demand.name} on "
                    "PyPI requires one exact release of torch"
                )
                fix = f"build {demand.name} from source with pip install --no-deps --no-build-isolation"
            else:
                continue
            yield told("CU325", "warning", word.start, "torch", message, fix)


def release_of(text: str) -> Version | None:
    """The CUDA release X.Y that a path or tag names."""
    found = re.search(r"[0-9]+\.[0-9]+", text)
    return minor(version(found[0])) if found else None


_CONDA_PROGRAMS = regex(rf"(?<![\w.-])(?:conda|mamba|micromamba)\s+(?:install|create)\b(?P<rest>{ON})")
_CONFIG = regex(
    r"(?<![\w.-])(?:conda|mamba|micromamba)\s+config\s[^\n;&|]*?--(?P<how>add|prepend|append)\s+channels\s+(?P<channel>[^\s;&|]+)"
)
_VALUED = regex(
    r"-[cnpfr]|--(?:channel|name|prefix|file|solver|platform|subdir|root-prefix|revision|rc-file)",
)
_PIP_VALUED = regex(
    r"-[rcifte]|--(?:requirement|constraint|index-url|extra-index-url|find-links|target|prefix|root|editable"
    r"|config-settings|trusted-host)"
)
"""The options that a value follows."""
_FOREIGN = regex(r"[$`{}()]|://|^[./~-]|\.(?:ya?ml|txt|conda|bz2|whl|lock)$")
"""What is not a valid name of a package by itself: a variable, a path, a URL, a file."""

_ELSEWHERE = ("CU503", "CU504")
"""Requirements of pip are judged where they stand; what a compilation finds is the image's as well."""


_VARIABLE = regex(
    r"\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::?-(?P<default>[^}$`]*))?\}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))"
)


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with the values of the variables that are known; the others stay as they are written."""

    def value(found: re.Match[str]) -> str:
        known = variables.get(found["braced"] or found["bare"])
        return next((text for text in (known, found["default"]) if text is not None), found[0])

    return _VARIABLE.sub(value, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommands:
    """Shell commands without comments, where they stand in the file, and the variables that are set before them."""

    text: str
    at: int
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """A word of a command; not ``literal`` where a variable stood in it, so that no edit may replace it."""

    text: str
    start: int
    end: int
    quoted: bool
    literal: bool = True


@dataclass(slots=True, kw_only=True)
class InstallCommand:
    """What one environment is asked for, over all commands that name it."""

    at: int
    channels: dict[str, int] = field(default_factory=dict)
    pins: list[tuple[Pin, _Word]] = field(default_factory=list)
    pip: list[_Word] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)

    def spec(self) -> EnvironmentSpec:
        """The same as an environment file."""
        pins = tuple(dict.fromkeys(pin for pin, _ in self.pins))
        pip = tuple(dict.fromkeys([*self.indexes, *(word.text for word in self.pip)]))
        return EnvironmentSpec(name="", channels=tuple(self.channels), pins=pins, pip=pip)


def asked_in(parts: Iterable[ShellCommands]) -> tuple[InstallCommand, ...]:
    """What commands ask for, each environment by itself; pip's part belongs to the only one."""
    found: dict[str, InstallCommand] = {}
    configured: dict[str, int] = {}
    pip: list[_Word] = []
    indexes: list[str] = []
    for part in parts:
        for item in _CONFIG.finditer(part.text):
            one = {item["channel"].strip("'\""): part.at + item.start("channel")}
            configured = {**configured, **one} if item["how"] == "append" else {**one, **configured}
        for item in _CONDA_PROGRAMS.finditer(part.text):
            _conda(item, part, found)
        for item in PIP.finditer(part.text):
            if not _INSTEAD.search(part.text, 0, item.start()):
                words = _words(item, part)
                named = list(_packages(words, _PIP_VALUED))
                pip += named
                if any(requirement_name(word.text) == "torch" for word in named):
                    indexes += [*_set_indexes(part), *_indexes(words)]
    for asked in found.values():
        asked.channels = asked.channels or configured
    if not found:
        found[""] = InstallCommand(at=pip[0].start if pip else 0)
    if len(found) == 1:
        only = next(iter(found.values()))
        only.pip, only.indexes = pip, indexes
    return tuple(found.values())


def _conda(item: re.Match[str], part: ShellCommands, found: dict[str, InstallCommand]) -> None:
    words = _words(item, part)
    values: dict[str, list[_Word]] = {}
    for word, after in zip_longest(words, words[1:]):
        option, equals, value = word.text.partition("=")
        if _VALUED.fullmatch(word.text) and after:
            values.setdefault(word.text, []).append(after)
        elif equals and _VALUED.fullmatch(option):
            values.setdefault(option, []).append(replace(word, text=value))
    named = [word for key in ("-n", "--name", "-p", "--prefix") for word in values.get(key, ())]
    asked = found.setdefault(named[-1].text if named else "", InstallCommand(at=part.at + item.start()))
    for word in sorted((*values.get("-c", ()), *values.get("--channel", ())), key=lambda item: item.start):
        for channel in word.text.split(","):
            asked.channels.setdefault(channel, word.start)
    for word in _packages(words, _VALUED):
        pin = _pin(word.text)
        if pin:
            asked.pins.append((pin, word))


def _pin(text: str) -> Pin | None:
    try:
        return parse_spec(text)
    except ValueError:
        return None


def _words(command: re.Match[str], part: ShellCommands) -> list[_Word]:
    """The words behind the name of a command, with the variables that are known."""
    found, at = [], part.at + command.start("rest")
    for item in WORD.finditer(command["rest"]):
        quoted = item[0][:1] in ("'", '"')
        bare = item[0][1:-1] if quoted else item[0]
        text = bare if item[0][:1] == "'" else expanded(bare, part.variables)
        literal = text == bare
        found.append(_Word(text=text, start=at + item.start(), end=at + item.end(), quoted=quoted, literal=literal))
    return found


def _packages(words: list[_Word], valued: re.Pattern[str]) -> Iterator[_Word]:
    """The words that name packages; a bare ``<`` or ``>`` is a redirection of the shell."""
    skip = False
    for word in words:
        if skip or word.text.startswith("-"):
            skip = not skip and valued.fullmatch(word.text) is not None
            continue
        redirects = not word.quoted and any(mark in word.text for mark in "<>")
        if not redirects and word.text and not _FOREIGN.search(word.text):
            yield word


def install_lints(asked: InstallCommand, machine: Machine, knowledge: Knowledge, *, compat: bool) -> Iterator[Lint]:
    """The policy for environment files on what commands ask for, each at the word that it is about.

    Args:
        asked: the commands of one environment.
        machine: what they are for.
        knowledge: the tables.
        compat: whether there may be NVIDIA's libraries for forward compatibility.
    """
    if not asked.pins:
        return
    spec = asked.spec()
    judged = list(spec_findings(spec, knowledge))
    frozen = frozen_finding(spec, knowledge, machine)
    unlisted = unlisted_finding(replace(spec, pip=()), knowledge)
    judged += [item for item in (frozen, unlisted) if item]
    gone = {finding.subject for finding in judged if finding.code == "CU110"}
    for pin, word in asked.pins:
        late = post_link_finding(pin.name, word.text, knowledge) if pin.name not in gone else None
        judged += [late] if late else []
    judged += unfit(spec, machine, knowledge, compat=compat) if spec.pin("pytorch") else ()
    of_pip = ("CU505", "CU520") if spec.pin("pytorch") is None else ("CU520",)  # told by `wheel_lints`
    for finding in judged:
        if finding.code not in (*_ELSEWHERE, *of_pip):
            fix = "cuenv lock --resolve" if finding.fix == REPAIR else of_commands(finding)
            yield _placed(asked, replace(finding, fix=fix))


def of_commands(finding: Finding) -> str | None:
    """What mends a finding, without the words about the parts of an environment file."""
    if finding.fix == mended_by(finding.edits):
        return ", and ".join(edit.for_command for edit in finding.edits) or None
    return finding.fix


def _placed(asked: InstallCommand, finding: Finding) -> Lint:
    subject = finding.subject.split(", ")[0]
    meant = [(pin, word) for pin, word in asked.pins if pin.name == subject]
    exact = [item for item in meant if finding.message.startswith(f"{item[0].yaml_text()} ")]
    for _, word in [*exact, *meant]:
        edits: tuple[Edit, ...] = ()
        better = in_its_place(finding)
        if better and finding.subject == subject:
            edits = (
                () if '"' in better or not word.literal else (Edit(start=word.start, end=word.end, text=f'"{better}"'),)
            )
        return Lint(finding=finding, at=word.start, edits=edits)
    of_pip = [word for word in asked.pip if word.text in finding.message]
    if of_pip:
        return Lint(finding=finding, at=of_pip[0].start)
    return Lint(finding=finding, at=next(iter(asked.channels.values()), asked.at))


def compiles_later(asked: Iterable[InstallCommand], knowledge: Knowledge) -> _Word | None:
    """The first library that compiles with nvcc at its first use or installation, where no command brings one."""
    several = tuple(asked)
    brought = {pin.name for one in several for pin, _ in one.pins} & (set(NVCC) - {"cudatoolkit-dev"})
    if brought:
        return None
    for one in several:
        for pin, word in one.pins:
            if _needs_nvcc(pin.name, ("conda-forge", "pytorch"), knowledge):
                return word
        for word in one.pip:
            demand = pip_demand(word.text)
            if demand and _needs_nvcc(demand.name, ("wheel", "source"), knowledge):
                return word
    return None


def _needs_nvcc(name: str, ways: tuple[str, ...], knowledge: Knowledge) -> bool:
    rows = [row for row in knowledge.extensions if row.package == name and set(row.comes) & set(ways)]
    return bool(rows) and all(row.nvcc for row in rows)
