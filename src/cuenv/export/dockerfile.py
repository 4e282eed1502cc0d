"""Writing a Dockerfile, a ``devcontainer.json`` or a definition of Apptainer: one stage installs and checks, one runs.

References: https://docs.docker.com/reference/dockerfile/, https://containers.dev/implementors/json_reference/ and
https://apptainer.org/docs/user/latest/definition_files.html
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from cuenv.core import __version__
from cuenv.core.errors import InputError
from cuenv.core.io.templates import Blocks, fill
from cuenv.core.record import dataclass, field
from cuenv.core.regex import VARIABLE, regex
from cuenv.core.urls import one_line
from cuenv.export.container import ContainerContent, Stages
from cuenv.export.tables import Image
from cuenv.solve.environment_spec import WRITTEN_BY

_ESCAPED = regex(r'[\\"$]')
_PATH = regex(r"[A-Za-z0-9_.+@/ -]+")


def comments(lines: Iterable[str]) -> list[str]:
    """Wrapped lines as comments, which no content can end early."""
    found = []
    for line in lines:
        parts = textwrap.wrap(
            one_line(line), 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        found += [f"# {part}".rstrip() for part in parts or [""]]
    return found


def env_values(values: Mapping[str, str]) -> list[dict[str, str]]:
    """The values for an ENV instruction in a template; empty without variables.

    Raises:
        InputError: a name that is none, or a value that no ENV can hold.
    """
    pairs = [(name, _ESCAPED.sub(r"\\\g<0>", value)) for name, value in variables(values)]
    more = "".join(f' \\\n    {name}="{value}"' for name, value in pairs[1:])
    return [{"name": name, "value": value, "more": more} for name, value in pairs[:1]]


def variables(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Check the variables that a container sets.

    Raises:
        InputError: a name that is none, or a value that no file can hold on a line.
    """
    for name, value in values.items():
        if not VARIABLE.fullmatch(name):
            raise InputError(f"{name!r} is not a valid name for a variable of a container")
        if not value.isprintable():
            raise InputError(f"the value of {name} has characters that a recipe cannot contain: {value!r}")
        yield name, value


def context_path(path: str) -> str:
    """A path inside the build context that COPY and .dockerignore read in the same way.

    Raises:
        InputError: it holds what one of them takes for a pattern, a variable or a quote.
    """
    if not _PATH.fullmatch(path) or path.startswith(("/", " ")) or path.endswith(" ") or ".." in path.split("/"):
        message = f"a Dockerfile cannot copy {path!r}: only letters, digits, spaces and _ . + @ / - are safe there"
        raise InputError(message, hint="name it conda-lock.yml, in the folder that the image is built from")
    return path


PREFIX = "/opt/env"
WORK = "/opt/cuenv"
_ARCH = {"linux-64": ("amd64", "x86_64"), "linux-aarch64": ("arm64", "aarch64")}
_NAMES = {"conda-lock": "conda-lock.yml", "explicit": "conda-explicit.txt", "environment": "environment.yml"}
"""What each kind of file is called in the image: micromamba goes by the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a Dockerfile is made from."""

    command: str = "dockerfile"
    origin: str  # what it was made from, in words
    content: ContainerContent
    stages: Stages
    sources: Mapping[str, str]
    kind: str = ""  # of ``file``: ``conda-lock``, ``explicit`` or ``environment``; empty for none
    file: str = ""  # what micromamba reads, its path in the build context
    requirements: str = ""  # what pip reads besides, where the file cannot hold it
    cuenv: str  # the requirement for pip that brings cuenv, held by a hash
    wheel: str = ""  # of cuenv, its path in the build context; empty where a URL brings it
    digests: Mapping[str, str] = field(default_factory=dict)  # by image and tag, ``sha256:...``
    notes: tuple[str, ...] = ()  # what else to say at the head

    @property
    def lock_there(self) -> str:
        """Where the file lies inside the image."""
        return f"{WORK}/{_NAMES[self.kind]}"

    @property
    def locked(self) -> str:
        """The option of a check that names the lock, where the file is one."""
        return words(["--lock", self.lock_there] if self.content.locked else [])


def render_dockerfile(recipe: Recipe) -> str:
    """The Dockerfile; the same values give the same bytes.

    Raises:
        InputError: a path or variable that no Dockerfile can hold.
    """
    values = {
        "head": header(recipe),
        "said": cuenv_source(recipe),
        "cuenv": recipe.cuenv,
        "run": _image(recipe, recipe.stages.run),
        "host": words(recipe.content.host),
        "wheel": context_path(recipe.wheel) if recipe.wheel else "",
    }
    return _single_stage(recipe, values) if recipe.stages.base == "pytorch" else _two_stages(recipe, values)


def render_dockerignore(recipe: Recipe) -> str:
    """The ``.dockerignore``, which sends only the files to the build that it copies."""
    kept = [f"!{context_path(path)}" for path in (recipe.file, recipe.requirements, recipe.wheel) if path]
    head = [
        f"{WRITTEN_BY} {__version__}, export {recipe.command}: only the files below are sent to the build.",
        "# Put your changes in another Dockerfile that begins FROM this image; the next export overwrites this file.",
    ]
    return "\n".join([*head, "*", *kept]) + "\n"


def cuenv_source(recipe: Recipe) -> str:
    """Where cuenv comes from, in words."""
    return "the wheel beside this file" if recipe.wheel else "a URL"


_COMMANDS = {
    "apptainer": (
        "Build: apptainer build cuenv-env.sif apptainer.def",
        "Run:   apptainer run --nv cuenv-env.sif python",
    ),
    "devcontainer": ("Build: devcontainer build, or the command 'Reopen in Container' of an editor",),
    "dockerfile": ("Build: docker build --tag cuenv-env .", "Run:   docker run --rm --gpus all cuenv-env python"),
}


def header(recipe: Recipe) -> str:
    """The comment at the beginning, without the mark of its first line."""
    return "\n".join(comments(_head(recipe))).removeprefix("# ")


def _head(recipe: Recipe) -> Iterator[str]:
    content, stages = recipe.content, recipe.stages
    arguments = " ".join(f"--platform linux/{_ARCH[item][0]}" for item in content.platforms[1:2])
    several = f"; for the other platform add {arguments}" if arguments and recipe.command == "dockerfile" else ""
    build, *run = _COMMANDS[recipe.command]
    yield from (
        f"Written by cuenv {__version__}, export {recipe.command}, from {recipe.origin}.",
        f"Base {stages.base}: {stages.why[0]}.",
        *(f"  {why}." for why in stages.why[1:]),
        *(
            []
            if content.locked or (stages.base == "pytorch" and not content.pip)
            else ["Not locked: the build installs what pip finds that day; pin releases to prevent that."]
            if stages.base == "pytorch"
            else ["Not locked: the build solves environment.yml. For exact packages: cuenv lock, then export again."]
        ),
        *(f"{note}." for note in recipe.notes),
        *(f"Image {image.name}: {recipe.sources[image.name]}." for image in stages.images),
        "The owner of a tag can move it; to pin an image: --digest IMAGE:TAG=sha256:...",
        f"{build}{several}",
        *run,
        "cuenv writes this file from tables and does not build it.",
    )


def _image(recipe: Recipe, image: Image) -> str:
    digest = recipe.digests.get(image.name)
    return f"{image.name}@{digest}" if digest else image.name


def words(items: Iterable[str]) -> str:
    """Words that are appended to a line of a shell."""
    return "".join(f" {shlex.quote(item)}" for item in items)


_TOOLKIT = {"CUDA_HOME": "/usr/local/cuda"}


def build_variables(recipe: Recipe) -> dict[str, str]:
    """The variables of the build stage."""
    toolkit = _TOOLKIT if recipe.stages.installer else {}
    return {"MAMBA_ROOT_PREFIX": "/opt/conda", **toolkit, **recipe.content.variables}


def runtime_variables(recipe: Recipe) -> dict[str, str]:
    """The variables of the runtime stage."""
    content, stages = recipe.content, recipe.stages
    toolkit = _TOOLKIT if stages.run is stages.build and stages.installer else {}
    here = {"CONDA_PREFIX": PREFIX, "CONDA_DEFAULT_ENV": PREFIX}
    return {**here, **toolkit, **_driver_variables(content), **content.variables}


def build_steps(recipe: Recipe) -> dict[str, str]:
    """The steps of the build stage: purpose, command and check."""
    content = recipe.content
    return {
        "there": "|".join(name for item in content.platforms for name in _ARCH[item]),
        "served": " and ".join(_ARCH[item][0] for item in content.platforms),
        "create": _create(recipe),
        "venv": _cuenv_environment(content),
        "checked": f"{recipe.locked}{words(content.host)}",
    }


def _two_stages(recipe: Recipe, values: Mapping[str, str]) -> str:
    """A build stage that installs and checks, and a runtime stage."""
    content, stages = recipe.content, recipe.stages
    more = {
        **build_steps(recipe),
        "build": _image(recipe, stages.build),
        "installer": _image(recipe, stages.installer) if stages.installer else "",
        "file": context_path(recipe.file),
        "lock": recipe.lock_there,
        "requirements": context_path(recipe.requirements) if recipe.requirements else "",
    }
    blocks: Blocks = {
        "installer": bool(stages.installer),
        "root": not stages.installer,
        "building": env_values(build_variables(recipe)),
        "requirements": bool(recipe.requirements),
        "wheel": bool(recipe.wheel),
        "nvcc": content.nvcc,
        "running": env_values(runtime_variables(recipe)),
        "developing": recipe.command == "devcontainer",
    }
    return fill("Dockerfile", {**values, **more}, blocks)


def _single_stage(recipe: Recipe, values: Mapping[str, str]) -> str:
    """A single stage, for an image that contains torch and a compiler."""
    content = recipe.content
    blocks: Blocks = {
        "running": env_values({**_driver_variables(content), **content.variables}),
        "pip": bool(content.pip),
        "wheel": bool(recipe.wheel),
    }
    wanted = " ".join(shlex.quote(item) for item in content.pip)
    return fill("pytorch.Dockerfile", {**values, "wanted": wanted}, blocks)


def _create(recipe: Recipe) -> str:
    create = f"micromamba create --yes --prefix {PREFIX} --file {shlex.quote(recipe.lock_there)}"
    if recipe.kind == "environment" and recipe.content.cuda:
        return f"CONDA_OVERRIDE_CUDA={recipe.content.cuda} {create}"
    return create


def _cuenv_environment(content: ContainerContent) -> str:
    """The commands that make a separate environment for cuenv, so that it does not change what it checks."""
    minor = content.python.partition(".")[2]
    if content.python.startswith("3.") and minor.isdigit() and int(minor) >= 10:
        return f"{PREFIX}/bin/python -m venv {WORK}/venv"
    return f"micromamba create --yes --prefix {WORK}/venv --channel conda-forge python=3.12 pip"


def _driver_variables(content: ContainerContent) -> dict[str, str]:
    """The variables for the container runtime: the driver's capabilities and the minimum driver."""
    if content.cuda is None:
        return {}
    known = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    # By the driver, not by its CUDA version: minor-version compatibility runs CUDA 12.9 on a driver for 12.2.
    return {**known, "NVIDIA_REQUIRE_CUDA": f"driver>={content.driver}"} if content.driver else known


_FOLDER = ".devcontainer"


def render_devcontainer(recipe: Recipe, name: str) -> dict[str, str]:
    """The devcontainer.json, the Dockerfile and its .dockerignore; the same values give the same bytes.

    Raises:
        InputError: a path or variable that no Dockerfile can hold.
    """
    told = [
        f"Written by cuenv {__version__}, export devcontainer, from {recipe.origin}.",
        *([f"It needs driver {recipe.content.driver} or later."] if recipe.content.driver else []),
    ]
    head = "\n".join(line.replace("#", "//", 1) for line in comments(told)).removeprefix("// ")
    check = f"{WORK}/venv/bin/cuenv check --prefix {PREFIX}{recipe.locked}"
    values = {"head": head, "name": json.dumps(name), "check": json.dumps(check)}
    return {
        f"{_FOLDER}/devcontainer.json": fill("devcontainer.json", values, {"cuda": recipe.content.cuda is not None}),
        f"{_FOLDER}/Dockerfile": render_dockerfile(recipe),
        f"{_FOLDER}/Dockerfile.dockerignore": render_dockerignore(recipe),
    }


def render_apptainer(recipe: Recipe) -> str:
    """The definition file; the same values give the same bytes.

    Raises:
        InputError: a path or variable that no definition file can hold.
    """
    content, stages = recipe.content, recipe.stages
    values = {
        **build_steps(recipe),
        "head": header(recipe),
        "said": cuenv_source(recipe),
        "cuenv": recipe.cuenv,
        "installer": _tag_or_digest(recipe, stages.installer) if stages.installer else "",
        "build": _tag_or_digest(recipe, stages.build),
        "run": _tag_or_digest(recipe, stages.run),
        "host": words(content.host),
        "locked": recipe.locked,
        "quick": words([recipe.lock_there] if content.locked else ["--prefix", PREFIX]),
    }
    labels = {
        "org.opencontainers.image.title": "cuenv-env",
        "org.opencontainers.image.description": one_line(recipe.origin),
        **({"org.cuenv.minimum-driver": content.driver} if content.driver else {}),
        **({"org.cuenv.cuda": str(content.cuda)} if content.cuda else {}),
        **({"org.cuenv.pytorch": str(content.torch)} if content.torch else {}),
    }
    blocks: Blocks = {
        "installer": bool(stages.installer),
        "files": list(_files(recipe)),
        "building": _exports(build_variables(recipe)),
        "requirements": bool(recipe.requirements),
        "nvcc": content.nvcc,
        "labels": [{"label": label, "text": text} for label, text in labels.items()],
        "running": _exports(runtime_variables(recipe)),
        "cuda": content.cuda is not None,
    }
    return fill("apptainer.def", values, blocks)


def _files(recipe: Recipe) -> Iterator[dict[str, str]]:
    """The files that are copied into the image, and their targets."""
    requirements = {recipe.requirements: f"{WORK}/requirements.lock.txt"} if recipe.requirements else {}
    wheel = {recipe.wheel: f"{WORK}/{recipe.wheel}"} if recipe.wheel else {}
    for source, target in {recipe.file: recipe.lock_there, **requirements, **wheel}.items():
        path = context_path(source)
        yield {"source": f'"{path}"' if " " in path else path, "target": target}


def _exports(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"assigned": f"{name}={shlex.quote(value)}"} for name, value in variables(values)]


def _tag_or_digest(recipe: Recipe, image: Image) -> str:
    """An image for Apptainer, which accepts a tag or a digest but not both."""
    digest = recipe.digests.get(image.name)
    return f"{image.image}@{digest}" if digest else image.name
