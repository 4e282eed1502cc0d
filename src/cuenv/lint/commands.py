"""Lint of shell commands, in scripts, profiles and the RUN of a Dockerfile: settings, toolkits, drivers, conda."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import minor, version
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Edit, Lint, Machine, fix_for_commands, make_lint, place_of, replacement_entry
from cuenv.lint.environment_file import (
    arch_list_lints,
    frozen_channel_finding,
    post_link_finding,
    sparse_attention_lint,
)
from cuenv.lint.pip import findings_on_host
from cuenv.lint.shell import PIP, REST_OF_COMMAND, WORD, InstallCommand, ShellCommands, Word, command_words
from cuenv.resolver.policy import REPAIR, spec_findings
from cuenv.resolver.requirements import newest_is_broken, pip_demand, with_condition, without_broken
from cuenv.resolver.torch_findings import asked_torch_not_in_tables
from cuenv.solve.environment_spec import NVCC

_ASSIGNMENT = regex(
    r"\b(?P<name>[A-Z][A-Z0-9_]*)=(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s;&|)\"']*))"
)
_TOOLKIT = regex(r"/usr/local/cuda(?:-(?P<release>[0-9]+\.[0-9]+))?(?=/|$)")
_TOOLKIT_LIBRARIES = regex(r"/usr/local/cuda(?:-[0-9.]+)?(?:/(?:lib|lib64|targets/[^/:\s]+/lib)/?)?(?=:|\s|$)")
_STUB_FOLDER = regex(r"/usr/local/cuda(?:-[0-9.]+)?/(?:[^:\s]*/)?stubs(?=/|:|$)")
_CONDA_CHANGE = regex(rf"\b(?:conda|mamba|micromamba)\s+(?:install|create|update|remove)\b(?P<rest>{REST_OF_COMMAND})")
_YES = regex(r"(?:^|\s)(?:-y|--yes|-qy|-yq|--dry-run|-d)(?=\s|$|\\)")
_ALWAYS_YES = regex(r"(?i)always_yes[\"']?[=: ]\s*[\"']?(?:1|true|yes|on)\b")
_PIPED_YES = regex(r"\b(?:yes|echo\s+[\"']?y(?:es)?[\"']?)\s*\|\s*\Z")
_GPU_SETTINGS = regex(
    r"\bnvidia-smi\b[^\n;&|]*?\s(?P<option>-e|-r|--ecc-config|--gpu-reset|-mig|--multi-instance-gpu|-pl|-pm)(?=[\s=]|$)"
)
_SYSTEM_INSTALL = regex(rf"\b(?:apt-get|apt|dnf|yum|zypper)\s(?P<rest>{REST_OF_COMMAND})")
_TOOLKIT_NAME = regex(
    r"(?<![\w-])(?:nvidia-cuda-toolkit|cuda-(?:toolkit|nvcc|compiler|minimal-build)-(?P<major>\d+)-(?P<minor>\d+))(?![\w-])"
)
_DRIVER_NAME = regex(r"(?<![\w-])(?:nvidia-driver(?:-[a-z0-9-]+)?|cuda-drivers(?:-[0-9]+)?)(?![\w-])")


def command_lints(text: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge) -> Iterator[Lint]:
    """Mistakes in shell commands.

    Args:
        text: the commands, without comments.
        nvcc: the release of the compiler that they call; ``None`` when it is not known.
    """
    yield from _broken_release_lints(text, at, knowledge)
    for found in _GPU_SETTINGS.finditer(text):
        yield make_lint(
            "CU314",
            "warning",
            at + found.start(),
            "nvidia-smi",
            f"nvidia-smi {found['option']} changes a GPU for every user; it needs root and sometimes a reset, which "
            "fails while the GPU is in use",
            "leave it to the administrator; cuenv inspect shows the setting",
        )
    for found in _ASSIGNMENT.finditer(text):
        yield from setting_lints(found["name"], _assigned_value(found), at + found.start(), machine, nvcc, knowledge)
    yield from _two_toolkit_lints(text, at)


def _assigned_value(found: re.Match[str]) -> str:
    return found["double"] or found["single"] or found["bare"] or ""


def setting_lints(  # noqa: PLR0917 - a name and its value, then what every lint of settings asks for
    name: str, value: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge
) -> Iterator[Lint]:
    """Mistakes in a variable that is set, in any notation."""
    if name == "TORCH_CUDA_ARCH_LIST" and value:
        yield from arch_list_lints(value, at, machine, nvcc, knowledge)
    elif name == "DS_BUILD_SPARSE_ATTN" and value == "1":
        yield sparse_attention_lint(at)
    elif name == "LD_LIBRARY_PATH" and (stubs := _STUB_FOLDER.search(value)):
        yield make_lint(
            "CU312",
            "warning",
            at,
            name,
            f"LD_LIBRARY_PATH names {stubs[0]}, which contains stubs of the driver's libraries for the linker; "
            "a program that loads one at run time finds no GPU",
            "add it to LIBRARY_PATH, which the compiler reads, and remove it from LD_LIBRARY_PATH",
        )
    elif name == "LD_LIBRARY_PATH" and (found := _TOOLKIT_LIBRARIES.search(value)):
        yield make_lint(
            "CU312",
            "warning",
            at,
            name,
            f"LD_LIBRARY_PATH names {found[0]}: its cuBLAS, nvJitLink or cuDNN can hide "
            "torch's own, and it cannot change torch's CUDA",
            "remove it from LD_LIBRARY_PATH; cuenv explain ld-library-path",
        )


def _two_toolkit_lints(text: str, at: int) -> Iterator[Lint]:
    """Two CUDA toolkits in one file, so that a build uses the compiler of one and the libraries of the other."""
    named: dict[str, tuple[str, int]] = {}
    for found in _ASSIGNMENT.finditer(text):
        if found["name"] in ("PATH", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CUDACXX"):
            toolkit = _TOOLKIT.search(_assigned_value(found))
            if toolkit and toolkit["release"]:
                named.setdefault(toolkit["release"], (found["name"], at + found.start()))
    if len(named) > 1:
        parts = ", ".join(f"{name} CUDA {release}" for release, (name, _) in sorted(named.items()))
        first = min(named.values(), key=lambda item: item[1])
        message = (
            f"two CUDA toolkits are set: {parts}; a build would use the compiler of one and the libraries of the other"
        )
        yield make_lint("CU313", "warning", first[1], first[0], message, "set all of them to one toolkit")


def _broken_release_lints(text: str, at: int, knowledge: Knowledge) -> Iterator[Lint]:
    """Requirements of ``pip install`` that allow releases that are known to be broken."""
    for found in PIP.finditer(text):
        for word in WORD.finditer(found["rest"]):
            quoted = word[0][:1] in ("'", '"')
            requirement = word[0][1:-1] if quoted else word[0]
            demand = pip_demand(requirement) if not requirement.startswith("-") else None
            for row, releases in newest_is_broken(demand, knowledge) if demand else ():
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
                        message=(
                            f"{requirement} allows {row.package} {names}, which is broken with {row.when}: {row.says} "
                            f"({row.issue})"
                        ),
                        evidence=row.sources,
                        fix=f"write {better}",
                    ),
                    at=start,
                    edits=(edit,) if mark not in better else (),
                )


def sets_always_yes(text: str) -> bool:
    """Whether commands or variables tell conda not to ask for confirmation."""
    return _ALWAYS_YES.search(text) is not None


def missing_yes_lints(text: str, at: int) -> Iterator[Lint]:
    """``conda install`` without ``-y`` in a build, where nobody answers."""
    for found in _CONDA_CHANGE.finditer(text):
        if not _YES.search(found["rest"]) and not _PIPED_YES.search(text, 0, found.start()):
            end = at + found.start("rest")
            yield make_lint(
                "CU323",
                "info",
                at + found.start(),
                "conda",
                f"{' '.join(found[0].split()[:2])} asks for confirmation; in a build conda continues without an answer",
                "add -y",
                Edit(start=end, end=end, text=" -y"),
            )


def driver_in_image_lints(text: str, at: int) -> Iterator[Lint]:
    """A driver that is installed in an image, although the driver belongs to the host."""
    for found in _SYSTEM_INSTALL.finditer(text):
        for name in _DRIVER_NAME.finditer(found["rest"]):
            yield make_lint(
                "CU324",
                "warning",
                at + found.start("rest") + name.start(),
                name[0],
                f"{name[0]} is installed in an image, but the driver belongs to the host, and a second one hides it",
                f"remove {name[0]}, and start the container with --gpus all",
            )


def second_toolkit_lints(run: ShellCommands, image: str, cuda: Version) -> Iterator[Lint]:
    """A toolkit that the system's package manager adds beside the toolkit of the image."""
    for found in _SYSTEM_INSTALL.finditer(run.text):
        for word in command_words(found, run):
            name = _TOOLKIT_NAME.fullmatch(word.text)
            release = f"{name['major']}.{name['minor']}" if name and name["major"] else ""
            if name and release != str(cuda):
                what = f"CUDA {release}" if release else "the CUDA release of the distribution, in /usr/bin"
                message = (
                    f"{word.text} installs {what}, beside CUDA {cuda} of {image}; a build may use the nvcc "
                    "of one and the libraries of the other"
                )
                yield make_lint("CU313", "warning", word.start, word.text, message, f"remove {word.text}")


_CUDA_WORD = regex(
    r"(?i)cuda|nvidia|torch|tensorflow|flash[-_]attn"
    r"|(?<![a-z])(?:gpus?|jax(?:lib)?|cupy|deepspeed|vllm|xformers|nvcr)(?![a-z])"
)


def names_cuda(text: str) -> bool:
    """Whether commands name CUDA or a program that uses it."""
    return _CUDA_WORD.search(text) is not None


def cuda_release_in(text: str) -> Version | None:
    """The CUDA release X.Y that a path or tag names."""
    found = re.search(r"[0-9]+\.[0-9]+", text)
    return minor(version(found[0])) if found else None


_JUDGED_ELSEWHERE = ("CU503", "CU504")
"""Requirements of pip are judged where they stand; what a compilation finds is the image's as well."""


def install_lints(asked: InstallCommand, machine: Machine, knowledge: Knowledge, *, compat: bool) -> Iterator[Lint]:
    """Findings of the policy for environment files on what commands install, each at its word.

    Args:
        asked: the commands of one environment.
        compat: whether there may be NVIDIA's libraries for forward compatibility.
    """
    if not asked.pins:
        return
    spec = asked.spec()
    judged = list(spec_findings(spec, knowledge))
    frozen = frozen_channel_finding(spec, knowledge, machine)
    unlisted = asked_torch_not_in_tables(replace(spec, pip=()), knowledge)
    judged += [item for item in (frozen, unlisted) if item]
    gone = {finding.subject for finding in judged if finding.code == "CU110"}
    for pin, word in asked.pins:
        late = post_link_finding(pin.name, word.text, knowledge) if pin.name not in gone else None
        judged += [late] if late else []
    judged += findings_on_host(spec, machine, knowledge, compat=compat) if spec.pin("pytorch") else ()
    of_pip = ("CU505", "CU520") if spec.pin("pytorch") is None else ("CU520",)  # told by `wheel_lints`
    for finding in judged:
        if finding.code not in (*_JUDGED_ELSEWHERE, *of_pip):
            fix = "cuenv lock --resolve" if finding.fix == REPAIR else fix_for_commands(finding)
            yield _place_finding(asked, replace(finding, fix=fix))


def _place_finding(asked: InstallCommand, finding: Finding) -> Lint:
    """The finding at the word that it is about."""
    subject = finding.subject.split(", ")[0]
    meant = [(pin, word) for pin, word in asked.pins if pin.name == subject]
    exact = [item for item in meant if item[0].yaml_text() in finding.about]
    for _, word in [*exact, *meant]:
        edits: tuple[Edit, ...] = ()
        better = replacement_entry(finding)
        if better and finding.subject == subject:
            edits = (
                () if '"' in better or not word.literal else (Edit(start=word.start, end=word.end, text=f'"{better}"'),)
            )
        return Lint(finding=finding, at=word.start, edits=edits)
    of_pip = place_of(finding, {word.text: word.start for word in reversed(asked.pip)})
    at = next(iter(asked.channels.values()), asked.at) if of_pip is None else of_pip
    return Lint(finding=finding, at=at)


def library_compiled_later(asked: Iterable[InstallCommand], knowledge: Knowledge) -> Word | None:
    """The first library that nvcc compiles on first use or at installation, if no command installs nvcc."""
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
