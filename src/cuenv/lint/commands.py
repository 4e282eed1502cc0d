"""Lint of shell commands, in scripts, profiles and the RUN of a Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.versions import minor, version
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Edit, Lint, Machine, told
from cuenv.lint.build_settings import arch_list_lints, sparse_attention
from cuenv.resolver.requirements import broken, pip_demand, with_condition, without_broken

_SET = re.compile(
    r"\b(?P<name>[A-Z][A-Z0-9_]*)=(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s;&|)\"']*))"
)
_TOOLKIT = re.compile(r"/usr/local/cuda(?:-(?P<release>[0-9]+\.[0-9]+))?(?=/|$)")
ON = r"(?:[^\n;&|\\]|\\\r?\n(?:[ \t]*\r?\n)*|\\.)*"
"""The rest of a command: to the end of the line, over lines that it goes on, and what was a comment between them."""
PIP = re.compile(rf"\b(?:pip3?|uv pip|python3? -m pip)\s+install\b(?P<rest>{ON})")
WORD = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\\]+")
_CONDA = re.compile(rf"\b(?:conda|mamba|micromamba)\s+(?:install|create|update|remove)\b(?P<rest>{ON})")
_YES = re.compile(r"(?:^|\s)(?:-y|--yes|-qy|-yq|--dry-run|-d)(?=\s|$|\\)")
_ALWAYS_YES = re.compile(r"(?i)always_yes[\"']?[=: ]\s*[\"']?(?:1|true|yes|on)\b")
_ANSWERED = re.compile(r"\b(?:yes|echo\s+[\"']?y(?:es)?[\"']?)\s*\|\s*\Z")
_COMMENT = re.compile(r"(?P<kept>\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|\\.)|(?<![^\s;&|()])#[^\r\n]*")
_SETTINGS = re.compile(
    r"\bnvidia-smi\b[^\n;&|]*?\s(?P<option>-e|-r|--ecc-config|--gpu-reset|-mig|--multi-instance-gpu|-pl|-pm)(?=[\s=]|$)"
)
_DRIVER = re.compile(rf"\b(?:apt-get|apt|dnf|yum|zypper)\s(?P<rest>{ON})")
_DRIVER_NAME = re.compile(r"(?<![\w-])(?:nvidia-driver(?:-[a-z0-9-]+)?|cuda-drivers(?:-[0-9]+)?)(?![\w-])")


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
    elif name == "LD_LIBRARY_PATH" and (found := _TOOLKIT.search(value)):
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
    """``conda install`` without ``-y``, which waits for an answer that nobody gives."""
    for found in _CONDA.finditer(text):
        if not _YES.search(found["rest"]) and not _ANSWERED.search(text, 0, found.start()):
            end = at + found.start("rest")
            yield told(
                "CU323",
                "error",
                at + found.start(),
                "conda",
                f"{' '.join(found[0].split()[:2])} asks for a confirmation, which fails in a build",
                "add -y",
                Edit(start=end, end=end, text=" -y"),
            )


def drivers(text: str, at: int) -> Iterator[Lint]:
    """A driver that is installed into an image: it belongs to the host, and the runtime brings its libraries in."""
    for found in _DRIVER.finditer(text):
        for name in _DRIVER_NAME.finditer(found["rest"]):
            yield told(
                "CU324",
                "warning",
                at + found.start("rest") + name.start(),
                name[0],
                f"{name[0]} is installed in an image; the driver belongs to the host, and a second one hides it",
                f"take {name[0]} out, and start the container with --gpus all",
            )


def second_torch(text: str, at: int) -> Iterator[Lint]:
    """A torch from pip where the image already has one."""
    for found in PIP.finditer(text):
        for word in WORD.finditer(found["rest"]):
            if re.fullmatch(r"[\"']?torch(?:[<>=!~\[@ ].*)?[\"']?", word[0]):
                start = at + found.start("rest") + word.start()
                message = f"pip install {word[0]} installs torch over the one of the image"
                yield told(
                    "CU325", "warning", start, "torch", message, "take it out, or begin with an image without torch"
                )


def release_of(text: str) -> Version | None:
    """The CUDA release X.Y that a path or tag names."""
    found = re.search(r"[0-9]+\.[0-9]+", text)
    return minor(version(found[0])) if found else None
