"""Lint of a Dockerfile: images that do not exist or may change, and compilation without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.version import Version

from cuenv.core.errors import InputError
from cuenv.core.findings import DriverFix, Finding, WheelFix
from cuenv.core.reading import lines_of
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.versions import VersionSpec, minor, parse_version_spec
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Edit, Lint, Machine, make_lint
from cuenv.lint.commands import (
    command_lints,
    cuda_release_in,
    driver_in_image_lints,
    install_lints,
    library_compiled_later,
    missing_yes_lints,
    names_cuda,
    second_toolkit_lints,
    sets_always_yes,
    setting_lints,
)
from cuenv.lint.pip import (
    REMOVES_TORCH,
    environment_file_lints,
    findings_on_host,
    installs_torch,
    second_torch_lints,
    unread_lints,
    wheel_lints,
)
from cuenv.lint.shell import ListReader, ShellCommands, expand_variables, install_commands, without_comments
from cuenv.resolver.asked_cuda import version_spec_of
from cuenv.resolver.torch_findings import torch_not_in_tables
from cuenv.solve.environment_spec import EnvironmentSpec, Pin

_SYSTEM_IMAGES = (
    r"(?:library|continuumio|condaforge|mambaorg|balenalib|bitnami|redhat|rockylinux|amd64|arm64v8)/.+"
    r"|ghcr\.io/(?:astral-sh/uv|prefix-dev/pixi|mamba-org/.+)|public\.ecr\.aws/(?:docker/library|lambda)/.+"
    r"|mcr\.microsoft\.com/(?:devcontainers|vscode/devcontainers)/.+|(?:registry\.access\.redhat\.com|quay\.io/centos)/.+"
)
_OLDEST_CUDA_IMAGE = 11
"""Docker Hub has no tag of an earlier CUDA since 2023: https://github.com/NVIDIA/nvidia-docker/issues/1768."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction of a Dockerfile."""

    name: str  # in capitals: ``FROM``, ``RUN``; of ``ONBUILD RUN`` it is ``RUN``
    start: int
    at: int
    # its arguments as they stand, with their line breaks, comments and here-documents: an index into it plus ``at`` is
    # an index into the file
    text: str


_DIRECTIVE = regex(r"#\s*(?P<name>[a-zA-Z]+)\s*=\s*(?P<value>\S+)\s*")
_INSTRUCTION_NAME = regex(r"[ \t]*(?P<name>[A-Za-z]+)(?:[ \t]+|(?=[\\`]?\r?\n|$))")
# A word of its own: in `cat<<EOF`, `$((1<<N))` and `<<<word` BuildKit sees none.
_HEREDOC = regex(r"(?<!\S)[0-9]*<<(?P<tabs>-?)(?P<quote>['\"]?)(?P<word>[^\s<'\"]+)(?P=quote)(?!\S)")
# The last character but for blanks; behind another one it is only a character.
_LINE_CONTINUES = {mark: re.compile(rf"(?<!{re.escape(mark)}){re.escape(mark)}[ \t]*\r?\n?\Z") for mark in "\\`"}
_TAKE_HEREDOC = ("RUN", "COPY", "ADD")
_INSTRUCTIONS = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
        *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)


def parse(text: str, source: str) -> tuple[Instruction, ...]:
    """The instructions of a Dockerfile, in order.

    Raises:
        InputError: a line that begins no instruction; none at all.
    """
    lines = lines_of(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: list[Instruction] = []
    escape, number = _escape(lines), 0
    while number < len(lines):
        line = lines[number].lstrip("\ufeff") if number == 0 else lines[number]
        if not line.strip() or line.lstrip().startswith("#"):
            number += 1
            continue
        last = _last_line(lines, number, escape)
        at = starts[number] + (len(lines[number]) - len(line))
        instruction = _parse_instruction(text[at : starts[last + 1]], at)
        if instruction is None:
            message = f"{source}: line {number + 1}: not a Dockerfile instruction: {line.strip()[:60]!a}"
            raise InputError(message, line=number + 1)
        found.append(instruction)
        number = last + 1
    if not found:
        raise InputError(f"{source}: the file contains no instruction")
    return tuple(found)


def _escape(lines: list[str]) -> str:
    """The escape character, which a directive in the first lines may set to the back quote."""
    for line in lines:
        found = _DIRECTIVE.fullmatch(line.strip())
        if not found:
            break
        if found["name"].lower() == "escape" and found["value"] in ("`", "\\"):
            return str(found["value"])
    return "\\"


def _last_line(lines: list[str], number: int, escape: str) -> int:
    """The last line of the instruction that begins here, with its here-documents."""
    last, goes_on = number, _LINE_CONTINUES[escape].search(lines[number])
    while goes_on and last + 1 < len(lines):
        last += 1
        if _is_code(lines[last]):  # blank lines and comments inside an instruction are passed over
            goes_on = _LINE_CONTINUES[escape].search(lines[last])
    name = _INSTRUCTION_NAME.match(lines[number])
    if name and name["name"].upper() in _TAKE_HEREDOC:
        for found in _HEREDOC.finditer("".join(filter(_is_code, lines[number : last + 1]))):
            rest = range(last + 1, len(lines))
            last = next((index for index in rest if _ends_heredoc(lines[index], found["word"], found["tabs"])), last)
    return last


def _ends_heredoc(line: str, word: str, tabs: str) -> bool:
    """Whether a line ends a here-document: the word alone, after tabs if it began with ``<<-``."""
    bare = line.rstrip("\r\n")
    return (bare.lstrip("\t") if tabs else bare) == word


def _is_code(line: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return bool(line.strip()) and not line.strip().startswith("#")


def _parse_instruction(text: str, start: int) -> Instruction | None:
    at, name = 0, "ONBUILD"
    while name == "ONBUILD":
        found = _INSTRUCTION_NAME.match(text, at)
        if not found or found["name"].upper() not in _INSTRUCTIONS:
            return None
        name, at = found["name"].upper(), found.end()
    return Instruction(name=name, start=start, at=start + at, text=text[at:])


_FROM_ARGUMENTS = regex(r"(?P<flags>(?:--[a-z]+=\S+\s+)*)(?P<image>\S+)(?:\s+[Aa][Ss]\s+(?P<stage>\S+))?")
_CUDA_TAG = regex(r"(?P<release>[0-9]+(?:\.[0-9]+)*)-(?P<rest>.+)")
_VARIABLE = regex(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=|[ \t]+)(?P<quote>[\"']?)(?P<value>[^\"'\n]*?)(?P=quote)(?=\s|\\|$)"
)
_PREDEFINED = {"TARGETARCH": "amd64", "TARGETOS": "linux", "TARGETPLATFORM": "linux/amd64"}
"""Arguments that BuildKit sets in every ``FROM``, for linux-64."""
_ARGUMENT_NAME = regex(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?=[ \t]|\\?$)", re.MULTILINE)
"""An argument without a value: inside a stage it takes the one from before the first ``FROM``."""
_CUDA_COMPILATION = regex(
    r"\bDS_BUILD_[A-Z_]+=1|(?:^|(?<=[\n;&|(]))\s*(?:\S*/)?nvcc\s|--no-build-isolation|\bsetup\.py\s+(?:install|develop|build_ext|bdist_wheel)"
)
_CUDA_BUILD = regex(r"(?:^|(?<=[\n;&|(]))\s*(?:\S*/)?(?:cmake\s+(?!--version)\S|nvcc\s[^\n;&|]*\.cu\b)")
"""Commands that compile a program of CUDA, which nobody has read."""
_TOOLKIT_ADDED = regex(
    r"cuda-(?:toolkit|nvcc|compiler|minimal-build)|nvidia-cuda-toolkit|\bcuda-[0-9]+-[0-9]+|\bcuda_[0-9.]+_\S*linux"
)
_CLONED = regex(r"\bgit\s+clone\s[^\n;&|]*/(?:DeepSpeed|apex|flash-attention|TransformerEngine)(?:\.git)?(?![\w-])")
"""Sources that compile operators with nvcc, whatever script installs them."""
_UBUNTU_PYTHON = {"18.04": "3.6", "20.04": "3.8", "22.04": "3.10", "24.04": "3.12"}
"""The python3 of each release of Ubuntu: https://packages.ubuntu.com/search?keywords=python3-minimal."""
_PYTHON = regex(r"\bpython(3\.\d+)(?![\w.])")
_OTHER_PYTHON = regex(r"(?i)conda|mamba|\bpython3?\.\d|py3\d|pyenv|deadsnakes|\buv\b|\bpixi\b|Python-3")
_COPIES_TOOLKIT = regex(r"--from=\S+\s[^\n]*(?:cuda|nvcc)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """The image of a stage: its name, its tag, and their places."""

    name: str
    tag: str | None
    at: int
    tag_at: int

    @property
    def cuda(self) -> Version | None:
        """The CUDA release that the tag names."""
        found = re.search(r"cuda([0-9]+\.[0-9]+)", self.tag or "") if self.is_torch else None
        return cuda_release_in(found[1] if found else self.tag or "") if self.is_cuda or found else None

    @property
    def is_cuda(self) -> bool:
        """Whether it is NVIDIA's CUDA image."""
        return self.name.removeprefix("docker.io/").removeprefix("nvcr.io/") == "nvidia/cuda"

    @property
    def is_torch(self) -> bool:
        """Whether it is the official PyTorch image."""
        return self.name.removeprefix("docker.io/") == "pytorch/pytorch"

    @property
    def torch(self) -> str:
        """The torch release in the tag of the official PyTorch image."""
        found = re.match(r"[0-9]+\.[0-9]+\.[0-9]+(?=-)", self.tag or "") if self.is_torch else None
        return found[0] if found else ""

    @property
    def has_torch(self) -> bool:
        """Whether the image contains torch: the official PyTorch image, or that of NVIDIA."""
        return self.is_torch or self.name == "nvcr.io/nvidia/pytorch"

    @property
    def is_tensorflow(self) -> bool:
        """Whether it is the official TensorFlow image for GPUs, or that of NVIDIA."""
        of_project = self.name.removeprefix("docker.io/") == "tensorflow/tensorflow" and "gpu" in (self.tag or "")
        return of_project or self.name == "nvcr.io/nvidia/tensorflow"

    @property
    def is_system(self) -> bool:
        """Whether it contains a system, a language or conda, and nothing that uses GPUs."""
        name = self.name.removeprefix("docker.io/")
        return "/" not in name or re.fullmatch(_SYSTEM_IMAGES, name) is not None

    @property
    def has_own_cuda(self) -> bool:
        """Whether its torch uses the CUDA libraries of the toolkit in the image, as NVIDIA's builds do."""
        return self.has_torch and not self.is_torch

    @property
    def compiler(self) -> bool:
        """Whether it may contain a compiler; the tags of NVIDIA and PyTorch say so."""
        return not (self.is_cuda or self.is_torch) or "devel" in (self.tag or "devel")


@dataclass(slots=True, kw_only=True)
class _Stage:
    """One stage of a build: its image if it is known, its variables and its commands."""

    base: _Image | None = None
    named: tuple[str, int] = ("", 0)  # an image that an unknown variable names, and its position
    toolkit: bool = False  # whether one was added
    # whether commands, of the stage that it is made from as well, install another torch than the image's
    torch: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    runs: list[ShellCommands] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


def dockerfile_lints(
    found: tuple[Instruction, ...], machine: Machine, knowledge: Knowledge, lists: ListReader
) -> Iterator[Lint]:
    """Mistakes in a Dockerfile.

    Args:
        lists: what reads a list of requirements, by its name in the folder that the image is built from.
    """
    stages: dict[str, _Stage] = {}
    stage, arguments = _Stage(), dict[str, str]()
    asks = began = False
    involved = any(names_cuda(without_comments(item.text)) for item in found)
    for item in found:
        text = without_comments(item.text)
        asks = (asks or not began) and not sets_always_yes(text)
        nvcc = stage.base.cuda if stage.base else None
        if item.name == "FROM":
            began = True
            yield from _stage_lints(stage, machine, knowledge, lists, involved=involved)
            stage, lints = _begin_stage(item, stages, arguments, knowledge)
            yield from lints
        elif item.name in ("ENV", "ARG"):
            yield from _variable_lints(text, item.at, stage, machine, knowledge)
            if item.name == "ARG" and began:
                stage.variables |= {name: arguments[name] for name in _ARGUMENT_NAME.findall(text) if name in arguments}
            elif not began:
                arguments = dict(stage.variables)
        elif item.name in ("COPY", "ADD"):
            stage.toolkit |= _COPIES_TOOLKIT.search(text) is not None
            if "--from=" not in text:
                stage.copied += [word.strip("[],\"'") for word in expand_variables(text, stage.variables).split()][:-1]
        elif item.name == "RUN":
            stage.toolkit |= _TOOLKIT_ADDED.search(text) is not None
            run = ShellCommands(text=text, at=item.at, variables=dict(stage.variables))
            stage.runs.append(run)
            yield from environment_file_lints(text, item.at, stage.variables)
            yield from command_lints(text, item.at, machine, nvcc, knowledge)
            if asks:
                yield from missing_yes_lints(text, item.at)
            yield from driver_in_image_lints(text, item.at)
            yield from _image_conflict_lints(run, stage)
    yield from _stage_lints(stage, machine, knowledge, lists, involved=involved)
    yield from _last_image_lints(stage, machine, knowledge, involved=involved)


def _variable_lints(text: str, at: int, stage: _Stage, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """Mistakes in variables, which are stored in the stage."""
    for pair in _VARIABLE.finditer(text):
        stage.variables[pair["name"]] = expand_variables(pair["value"], stage.variables)
        if pair["name"] != "LD_LIBRARY_PATH" or not (stage.base and stage.base.has_own_cuda):
            nvcc = stage.base.cuda if stage.base else None
            yield from setting_lints(pair["name"], pair["value"], at + pair.start(), machine, nvcc, knowledge)


def _image_conflict_lints(run: ShellCommands, stage: _Stage) -> Iterator[Lint]:
    """Commands that replace the torch of the image, or compile where the image has no compiler."""
    base = stage.base
    if base is None:
        return
    if base.is_cuda and base.compiler and base.cuda:
        yield from second_toolkit_lints(run, f"{base.name}:{base.tag}", base.cuda)
    if base.has_torch and not any(REMOVES_TORCH.search(earlier.text) for earlier in stage.runs[:-1]):
        yield from second_torch_lints(run, f"{base.name}:{base.tag or 'latest'}")
    if not (base.compiler or stage.toolkit) and (compiles := _cuda_compilation(run.text)):
        sure, word = _is_for_cuda(run.text), compiles[0].strip()
        verb, needs = ("compiles", "") if sure else ("may compile", ", which a CUDA extension needs")
        message = f"{word} {verb}, but {base.name}:{base.tag} contains neither nvcc nor headers{needs}"
        fix = f"begin this stage with {_devel_image(base)}, and copy the result into a slim image"
        yield make_lint("CU322", "error" if sure else "warning", run.at + compiles.start(), "image", message, fix)


def _is_for_cuda(text: str) -> bool:
    """Whether commands compile for CUDA, by the names in them."""
    return names_cuda(text) or _CLONED.search(text) is not None or "DS_BUILD" in text or "nvcc" in text


def _cuda_compilation(text: str) -> re.Match[str] | None:
    """The command that compiles with nvcc; ``setup.py`` counts only if the commands are for CUDA."""
    found = _CUDA_COMPILATION.search(text)
    return None if found and "setup.py" in found[0] and not _is_for_cuda(text) else found


def _last_image_lints(stage: _Stage, machine: Machine, knowledge: Knowledge, *, involved: bool) -> Iterator[Lint]:
    """Findings on the torch and the CUDA that the image of the last stage contains."""
    base, (image, at) = stage.base, stage.named
    if base is None:
        if image and involved and not stage.torch:
            yield Lint(finding=torch_not_in_tables(f"what {image} contains", "image"), at=at)
        return
    image = f"{base.name}:{base.tag or 'latest'}"
    if base.is_tensorflow:
        yield Lint(finding=torch_not_in_tables(f"the TensorFlow of {image}", "image"), at=base.at)
    elif involved and not (stage.torch or base.is_cuda or base.has_torch or base.is_system):
        yield Lint(finding=torch_not_in_tables(f"what {image} contains", "image"), at=base.at)
    if machine.facts is None or stage.torch or base.cuda is None:
        return
    if base.torch:
        tag = f"cu{base.cuda.major}{base.cuda.minor}"
        spec = EnvironmentSpec(name="", channels=(), pins=(), pip=(f"torch=={base.torch}+{tag}",))
    else:
        names = ("cuda-version", *(("cuda-nvcc",) if base.compiler else ()))
        pins = tuple(Pin(name=name, version=str(base.cuda)) for name in names)
        spec = EnvironmentSpec(name="", channels=(), pins=pins)
    for finding in findings_on_host(spec, machine, knowledge, compat=base.is_cuda or base.compiler):
        told = replace(finding, message=f"{image}: {finding.message}", fix=_image_fix(finding), edits=())
        # an image with a compiler may well be one in which nothing is compiled
        yield Lint(finding=replace(told, severity="warning") if told.code == "CU404" else told, at=base.at)


def _image_fix(finding: Finding) -> str:
    """The fix for an image that the host cannot run: a newer driver if that helps, or another image."""
    driver = finding.fix.driver if isinstance(finding.fix, DriverFix | WheelFix) else ""
    return f"{f'install {driver}, or ' if driver else ''}begin with an image that the host can run"


def _stage_lints(
    stage: _Stage, machine: Machine, knowledge: Knowledge, lists: ListReader, *, involved: bool
) -> Iterator[Lint]:
    """Findings on what a stage installs: as an environment file, and with the compiler of the image."""
    base, asked = stage.base, install_commands(stage.runs)
    compat = base is None or not base.is_system
    for one in asked:
        yield from install_lints(one, machine, knowledge, compat=compat)
    compiling, word = any(_cuda_compilation(run.text) for run in stage.runs), library_compiled_later(asked, knowledge)
    cloned = any(_CLONED.search(run.text) for run in stage.runs)
    nvcc = base.cuda if base and base.compiler and (compiling or word or cloned) else None
    image = f"{base.name}:{base.tag or 'latest'}" if base else ""
    own = f"torch=={base.torch}" if base and base.torch else ""
    if base and base.has_torch and all(str(row.version) != base.torch for row in knowledge.wheels):
        yield Lint(finding=torch_not_in_tables(f"the torch of {image}", "image"), at=base.at)
    empty = base is not None and (base.is_cuda or base.is_system)  # an image of a stranger may have a torch
    pins = [pin for one in asked for pin, _ in one.pins if pin.name == "python"]
    own_python = _python_of_image(base, stage.runs) if base else None
    python = own_python if not pins else version_spec_of(pins[0]) if len(asked) == 1 else None

    def copied(name: str) -> tuple[str, ...] | None:
        """A list that was copied into the image is read where it comes from; another one was made there."""
        same = [text for text in stage.copied if text.rpartition("/")[2] == name.rpartition("/")[2]]
        whole = any(text in (".", "./") for text in stage.copied) and not name.startswith(("/", "~"))
        return lists(same[-1]) if same else lists(name) if whole else None

    yield from unread_lints(stage.runs, copied) if involved else ()
    yield from wheel_lints(
        stage.runs,
        image,
        nvcc,
        machine,
        knowledge,
        own=own,
        empty=empty and not stage.torch,
        there=stage.torch or bool(stage.base and stage.base.has_torch),
        lists=copied,
        python=python,
        compat=compat,
    )
    stage.torch |= any(installs_torch(run, copied) for run in stage.runs)
    if machine.gpus and base and base.is_cuda and base.compiler:
        yield from _unchecked_build_lints(stage)
    if base and word and not (base.compiler or stage.toolkit or compiling):
        message = f"{word.text} compiles its operators, but {base.name}:{base.tag} contains neither nvcc nor headers"
        fix = f"begin this stage with {_devel_image(base)}"
        yield make_lint("CU322", "error", word.start, "image", message, fix)


def _unchecked_build_lints(stage: _Stage) -> Iterator[Lint]:
    """The finding that code compiled in the image was not checked."""
    for run in stage.runs:
        found = _CUDA_BUILD.search(run.text)
        if found:
            message = (
                "the code that this command compiles was not checked: only "
                "the built image shows whether it has code for the GPUs"
            )
            finding = Finding(
                code="CU403",
                severity="info",
                subject="image",
                message=message,
                fix="scan the result in the image: cuenv scan FOLDER",
                unknown=True,
            )
            start = found.end() - len(found[0].lstrip())
            yield Lint(finding=finding, at=run.at + start)
            return


def _python_of_image(base: _Image, runs: Sequence[ShellCommands]) -> VersionSpec | None:
    """The Python version of the image, if its tag gives it and no command installs another."""
    tag = base.tag or ""
    if base.name.removeprefix("docker.io/") in ("python", "library/python"):
        found = re.match(r"3\.\d+", tag)
        release = found[0] if found else ""
    elif not (base.is_cuda or base.is_system):  # of strangers, whose tag may say it
        found = re.search(r"(?<![a-z0-9])py(?:thon)?-?(3)\.?(\d{1,2})(?![0-9])", tag)
        release = f"{found[1]}.{found[2]}" if found else ""
    else:
        image = f"{base.name.rpartition('/')[2]}:{tag}"
        release = next(
            (text for name, text in _UBUNTU_PYTHON.items() if re.search(rf"ubuntu:?{name}(?![0-9])", image)), ""
        )
    named = {found for run in runs for found in _PYTHON.findall(run.text)}
    if any("python$" in run.text for run in runs):
        return None  # a variable names one
    if len(named) == 1:
        return parse_version_spec(named.pop(), what="python")
    if not release or any(_OTHER_PYTHON.search(run.text) for run in runs):
        return None
    return parse_version_spec(release, what="python")


def _devel_image(base: _Image) -> str:
    """The ``devel`` variant of an image, which contains the compiler."""
    tag = re.sub(r"\b(runtime|base)\b", "devel", base.tag or "")
    return f"{base.name}:{tag}"


def _begin_stage(
    item: Instruction, stages: dict[str, _Stage], arguments: Mapping[str, str], knowledge: Knowledge
) -> tuple[_Stage, tuple[Lint, ...]]:
    """The stage that begins, which is stored under its name, and the findings on its image."""
    parts = _FROM_ARGUMENTS.match(item.text)
    if not parts:
        return _Stage(), ()
    image = expand_variables(parts["image"].strip("'\""), _PREDEFINED | dict(arguments))
    stage = _Stage()
    lints: tuple[Lint, ...] = ()
    earlier = stages.get(image.lower())
    if earlier:
        stage = _Stage(base=earlier.base, named=earlier.named, toolkit=earlier.toolkit, torch=earlier.torch)
        stage.variables = dict(earlier.variables)
        stage.copied = [*earlier.copied]
    elif "$" in image:
        stage.named = (image, item.at + parts.start("image"))
    elif image != "scratch":
        stage.base = _parse_image(image, item.at + parts.start("image"))
        if stage.base.is_cuda and (release := _CUDA_TAG.fullmatch(stage.base.tag or "")):
            stage.variables["CUDA_VERSION"] = release["release"]  # as NVIDIA's images set it
        chosen = image != parts["image"]  # by who builds: the default is judged, and no edit replaces the variable
        lints = tuple(_image_lints(stage.base, knowledge, pinned=chosen or "@sha256:" in image))
        lints = tuple(replace(lint, edits=()) for lint in lints) if chosen else lints
    if parts["stage"]:
        stages[parts["stage"].lower()] = stage
    return stage, lints


def _parse_image(image: str, at: int) -> _Image:
    name, _, _ = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # a port of the registry, and no tag
        return _Image(name=name, tag=None, at=at, tag_at=at + len(name))
    return _Image(name=head, tag=tag, at=at, tag_at=at + len(head) + 1)


def _image_lints(base: _Image, knowledge: Knowledge, *, pinned: bool) -> Iterator[Lint]:
    """Findings on the name and tag of an image."""
    if not pinned and (base.tag is None or re.fullmatch(r"latest(?:-.*)?", base.tag)):
        message = f"{base.name} has no tag" if base.tag is None else f"{base.name}:{base.tag}"
        what = "a later build may use another image"
        yield make_lint(
            "CU320",
            "warning",
            base.at,
            "image",
            f"{message}: {what}",
            f"name a release: {_example_image(base, knowledge)}",
        )
    if base.is_cuda and base.tag and (found := _CUDA_TAG.fullmatch(base.tag)):
        if int(found["release"].partition(".")[0]) < _OLDEST_CUDA_IMAGE:
            oldest = _OLDEST_CUDA_IMAGE
            message = f"{base.name}:{base.tag}: NVIDIA removed its images for CUDA before {oldest} from the registry"
            yield make_lint(
                "CU321", "error", base.at, "image", message, f"begin with an image of CUDA {oldest} or later"
            )
        else:
            yield from _cuda_tag_lints(base, found, knowledge)


def _example_image(base: _Image, knowledge: Knowledge) -> str:
    if base.is_cuda:
        return f"nvidia/cuda:{max(row.version for row in knowledge.toolkits)}-devel-ubuntu22.04"
    return f"{base.name}:RELEASE"


def _cuda_tag_lints(base: _Image, found: re.Match[str], knowledge: Knowledge) -> Iterator[Lint]:
    """Findings on a tag of nvidia/cuda, which begins with a CUDA release X.Y.Z."""
    release = found["release"]
    known = sorted(row.version for row in knowledge.toolkits)
    if any(str(item) == release for item in known):
        return
    numbers = tuple(int(part) for part in release.split("."))
    if len(numbers) == 3 and (numbers > known[-1].release or minor(known[-1]).release == numbers[:2]):
        return  # newer than the tables
    same = [item for item in known if item.release[:2] == numbers[:2]]
    if len(numbers) == 2 and same:
        better = f"{same[-1]}-{found['rest']}"
        message = f"{base.name}:{base.tag}: this tag does not exist; the tags have three numbers"
        edit = Edit(start=base.tag_at, end=base.tag_at + len(base.tag or ""), text=better)
        yield make_lint("CU321", "error", base.at, "image", message, f"write {base.name}:{better}", edit)
    elif same or numbers < known[-1].release:
        there = ", ".join(map(str, same)) or f"none of {'.'.join(map(str, numbers[:2]))}"
        message = f"{base.name}:{base.tag}: CUDA {release} does not exist; known are {there}"
        yield make_lint("CU321", "error", base.at, "image", message, None)
