"""Writing a Dockerfile: one stage that installs and checks, one that runs.

Reference: https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cuenv.core.errors import InputError
from cuenv.core.urls import one_line
from cuenv.export.container import Content, Stages
from cuenv.export.tables import Image
from cuenv.solve.environment_spec import WRITTEN_BY

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = re.compile(r'[\\"$]')
_PATH = re.compile(r"[A-Za-z0-9_.+@/ -]+")


def comments(lines: Iterable[str], width: int = 110) -> list[str]:
    """Lines as comments, folded; whatever they hold, none ends a comment early."""
    found = []
    for line in lines:
        parts = textwrap.wrap(
            one_line(line), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        found += [f"# {part}".rstrip() for part in parts or [""]]
    return found


def env(values: Mapping[str, str]) -> str:
    """An ENV instruction.

    Raises:
        InputError: a name that is none, or a value that no ENV can hold.
    """
    pairs = []
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name for a variable of a container")
        if not value.isprintable():
            raise InputError(f"the value of {name} holds characters that no ENV of a Dockerfile can hold: {value!r}")
        pairs.append(f'{name}="{_ESCAPED.sub(_escape, value)}"')
    return "ENV " + " \\\n    ".join(pairs)


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def context_path(path: str) -> str:
    """A path inside the build context, as COPY and .dockerignore read it alike.

    Raises:
        InputError: it holds what one of them takes for a pattern, a variable or a quote.
    """
    if not _PATH.fullmatch(path) or path.startswith(("/", " ")) or path.endswith(" ") or ".." in path.split("/"):
        raise InputError(
            f"a Dockerfile cannot copy {path!r}: only letters, digits, spaces and _ . + @ / - are safe there",
            hint="name it conda-lock.yml, in the folder that the image is built from",
        )
    return path


def copy(source: str, target: str) -> str:
    """A COPY instruction, in the form that takes spaces."""
    return f"COPY {json.dumps([context_path(source), target])}"


def run(*commands: str) -> str:
    """A RUN instruction of several commands, each of which has to succeed."""
    return "RUN " + " \\\n    && ".join(command.replace("\n", " \\\n    ") for command in commands)


PREFIX = "/opt/env"
WORK = "/opt/cuenv"
_CUENV = f"{WORK}/venv/bin/cuenv"
_ARCH = {"linux-64": ("amd64", "x86_64"), "linux-aarch64": ("arm64", "aarch64")}
_NAMES = {"conda-lock": "conda-lock.yml", "explicit": "conda-explicit.txt", "environment": "environment.yml"}
"""What each kind of file is called in the image: micromamba goes by the name."""
_SHELL = 'SHELL ["/bin/bash", "-o", "pipefail", "-c"]'
_MAMBA = "/usr/local/bin/micromamba"
_UID = 10001
_USER = f"useradd --create-home --uid {_UID} --shell /bin/bash work"
_ENTRY = (
    "#!/bin/bash",
    "# Activates the environment as conda does, then becomes the command.",
    'for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do',
    '  if [ -r "$script" ]; then . "$script"; fi',
    "done",
    'exec "$@"',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a Dockerfile is written from.

    Attributes:
        version: of cuenv.
        origin: what it was made from, in words.
        kind: of ``file``: ``conda-lock``, ``explicit`` or ``environment``; empty for none.
        file: what micromamba reads, its path in the build context.
        requirements: what pip reads besides, where the file cannot hold it.
        cuenv: the requirement for pip that brings cuenv, held by a hash.
        wheel: of cuenv, its path in the build context; empty where a URL brings it.
        digests: by image and tag, ``sha256:...``.
        notes: what else to say at the head.
    """

    version: str
    origin: str
    content: Content
    stages: Stages
    sources: Mapping[str, str]
    kind: str = ""
    file: str = ""
    requirements: str = ""
    cuenv: str
    wheel: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def lock_there(self) -> str:
        """Where the file lies inside the image."""
        return f"{WORK}/{_NAMES[self.kind]}"


def render_dockerfile(recipe: Recipe) -> str:
    """The whole file: the same bytes for the same values.

    Raises:
        InputError: a path or variable that no Dockerfile can hold.
    """
    stages = _pytorch(recipe) if recipe.stages.base == "pytorch" else _two(recipe)
    return "\n".join([*_head(recipe), "", *stages]) + "\n"


def ignore(recipe: Recipe) -> str:
    """The ``.dockerignore`` beside it: nothing but what the build copies is sent to it."""
    kept = [f"!{context_path(path)}" for path in (recipe.file, recipe.requirements, recipe.wheel) if path]
    head = [
        f"{WRITTEN_BY} {recipe.version}, export dockerfile: nothing is sent to the build but what stands below.",
        "# What is yours goes into a Dockerfile of its own, FROM this image; the next export writes this file anew.",
    ]
    return "\n".join([*head, "*", *kept]) + "\n"


def _head(recipe: Recipe) -> Iterator[str]:
    content, stages = recipe.content, recipe.stages
    arguments = " ".join(f"--platform linux/{_ARCH[item][0]}" for item in content.platforms[1:2])
    several = f"; for the other platform add {arguments}" if arguments else ""
    lines = [
        f"Written by cuenv {recipe.version}, export dockerfile, from {recipe.origin}.",
        f"Base {stages.base}: {stages.why[0]}.",
        *(f"  {why}." for why in stages.why[1:]),
        *(
            []
            if content.locked or (stages.base == "pytorch" and not content.pip)
            else ["Not locked: the build takes what pip finds that day; write releases to hold it."]
            if stages.base == "pytorch"
            else ["Not locked: the build solves environment.yml. For exact packages: cuenv lock, then export again."]
        ),
        *(f"{note}." for note in recipe.notes),
        *(f"Image {image.name}: {recipe.sources[image.name]}." for image in stages.images),
        "A tag can be moved by its owner; to hold an image for good: --digest IMAGE:TAG=sha256:...",
        f"Build: docker build --tag cuenv-env .{several}",
        "Run:   docker run --rm --gpus all cuenv-env python",
        "cuenv writes this file from tables and does not build it.",
    ]
    yield from comments(lines)


def _from(recipe: Recipe, image: Image, stage: str) -> str:
    digest = recipe.digests.get(image.name)
    return f"FROM {image.name}{f'@{digest}' if digest else ''} AS {stage}"


def _two(recipe: Recipe) -> Iterator[str]:
    content, stages = recipe.content, recipe.stages
    yield from _own(recipe)
    yield ""
    if stages.installer:
        yield _from(recipe, stages.installer, "micromamba")
        yield ""
    yield _from(recipe, stages.build, "build")
    yield _SHELL
    if not stages.installer:
        yield "# Only this stage is root's: it installs, and nothing runs in it later."
        yield "# hadolint ignore=DL3002"
        yield "USER 0"
    else:
        yield f"COPY --from=micromamba /bin/micromamba {_MAMBA}"
        certificates = "/etc/ssl/certs/ca-certificates.crt"
        yield f"COPY --from=micromamba {certificates} {certificates}"
    known = {"MAMBA_ROOT_PREFIX": "/opt/conda", **({"CUDA_HOME": "/usr/local/cuda"} if stages.installer else {})}
    yield env({**known, **content.variables})
    yield f"WORKDIR {WORK}"
    yield copy(recipe.file, recipe.lock_there)
    if recipe.requirements:
        yield copy(recipe.requirements, f"{WORK}/requirements.lock.txt")
    yield "ARG TARGETARCH"
    yield run(_guard(content), _create(recipe), "micromamba clean --all --yes")
    if recipe.requirements:
        flags = "--no-cache-dir --require-hashes --no-deps"
        yield run(f"{PREFIX}/bin/python -m pip install {flags} -r {WORK}/requirements.lock.txt")
    yield ""
    yield "# The check: the build fails where the environment is not what the lock says or does not serve the GPUs."
    if recipe.wheel:
        yield copy(recipe.wheel, f"{WORK}/{recipe.wheel}")
    yield "ARG CUENV"
    yield run(*_checker(content), *_check(recipe))
    yield ""
    yield "# What is yours goes into a Dockerfile of its own, FROM this image: the next export writes this file anew."
    yield ""
    yield from _run_stage(recipe)


def _own(recipe: Recipe) -> Iterator[str]:
    """What pip takes for cuenv: never a bare name, which anybody may put on an index."""
    said = "the wheel beside this file" if recipe.wheel else "a URL"
    yield f"# What pip takes for cuenv in the build: {said}, held by its hash."
    yield f'ARG CUENV="{recipe.cuenv}"'


def _guard(content: Content) -> str:
    """Stops a build for a platform that is not there; without BuildKit the machine says which it is."""
    there = "|".join(name for item in content.platforms for name in _ARCH[item])
    served = " and ".join(_ARCH[item][0] for item in content.platforms)
    refused = f'*) echo "this is made for {served}, and the build is for ${{TARGETARCH:-$(uname -m)}}" >&2; exit 1 ;;'
    return f'case "${{TARGETARCH:-$(uname -m)}}" in {there}) ;; {refused} esac'


def _create(recipe: Recipe) -> str:
    create = f"micromamba create --yes --prefix {PREFIX} --file {shlex.quote(recipe.lock_there)}"
    if recipe.kind == "environment" and recipe.content.cuda:
        return f"CONDA_OVERRIDE_CUDA={recipe.content.cuda} {create}"
    return create


def _checker(content: Content) -> tuple[str, ...]:
    """An environment for cuenv alone: it changes nothing of what it checks."""
    minor = content.python.partition(".")[2]
    if content.python.startswith("3.") and minor.isdigit() and int(minor) >= 10:
        made = f"{PREFIX}/bin/python -m venv {WORK}/venv"
    else:
        made = f"micromamba create --yes --prefix {WORK}/venv --channel conda-forge python=3.12 pip"
    return made, f'{WORK}/venv/bin/python -m pip install --no-cache-dir "$CUENV"'


def _check(recipe: Recipe) -> Iterator[str]:
    lock = ["--lock", recipe.lock_there] if recipe.content.locked else []
    if recipe.content.nvcc:
        yield shlex.join([_CUENV, "hook", "--prefix", PREFIX, *recipe.content.host])
    yield shlex.join([_CUENV, "check", "--prefix", PREFIX, *lock, *recipe.content.host])


def _run_stage(recipe: Recipe) -> Iterator[str]:
    content, stages = recipe.content, recipe.stages
    yield _from(recipe, stages.run, "run")
    yield _SHELL
    script = " ".join(f"'{line}'" for line in _ENTRY)
    yield "# The variables in the script are for the container, and stay as they are here."
    yield "# hadolint ignore=SC2016"
    yield run(
        _USER,
        f"printf '%s\\n' {script} > /usr/local/bin/activated",
        "chmod 0755 /usr/local/bin/activated",
    )
    yield f"COPY --from=build {PREFIX} {PREFIX}"
    home = {"CUDA_HOME": "/usr/local/cuda"} if stages.run is stages.build and stages.installer else {}
    yield env({"CONDA_PREFIX": PREFIX, "CONDA_DEFAULT_ENV": PREFIX, **home, **_driver(content), **content.variables})
    yield f'ENV PATH="{PREFIX}/bin:$PATH"'
    yield "# The environment finds its own libraries: LD_LIBRARY_PATH is not needed, and would only shadow them."
    yield from _user(entry="/usr/local/bin/activated")


def _driver(content: Content) -> dict[str, str]:
    """What the container runtime is told: which of the driver it brings in, and which driver is old."""
    if content.cuda is None:
        return {}
    known = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    # By the driver, not by its CUDA level: minor-version compatibility runs CUDA 12.9 on a driver for 12.2.
    return {**known, "NVIDIA_REQUIRE_CUDA": f"driver>={content.driver}"} if content.driver else known


def _user(entry: str = "") -> Iterator[str]:
    yield f"USER {_UID}"
    yield "WORKDIR /home/work"
    if entry:
        yield f'ENTRYPOINT ["{entry}"]'
    yield 'CMD ["python"]'


def _pytorch(recipe: Recipe) -> Iterator[str]:
    """One stage alone: the image holds torch and its compiler, and what is added is small."""
    content = recipe.content
    yield from _own(recipe)
    yield ""
    yield _from(recipe, recipe.stages.run, "run")
    yield _SHELL
    yield env({**_driver(content), **content.variables})
    yield f"WORKDIR {WORK}"
    if content.pip:
        wanted = " ".join(shlex.quote(item) for item in content.pip)
        yield "# The constraint keeps pip from a second torch over the image's."
        yield run(
            'python -c \'import torch; print("torch==" + torch.__version__.partition("+")[0])\' > constraints.txt',
            f"printf '%s\\n' {wanted} > requirements.txt",
            "python -m pip install --no-cache-dir -c constraints.txt -r requirements.txt",
        )
    if recipe.wheel:
        yield copy(recipe.wheel, f"{WORK}/{recipe.wheel}")
    yield "ARG CUENV"
    prefix = "\"$(python -c 'import sys; print(sys.prefix)')\""
    words = shlex.join(content.host)
    yield run(
        f"python -m venv {WORK}/venv",
        f'{WORK}/venv/bin/python -m pip install --no-cache-dir "$CUENV"',
        f"{_CUENV} check --prefix {prefix} {words}".rstrip(),
        _USER,
    )
    yield from _user()
