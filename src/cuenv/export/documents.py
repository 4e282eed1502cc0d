"""The JSON of `cuenv export`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.host.documents import ToolkitFields


class CuenvFields(TypedDict):
    """The cuenv that an export installs."""

    url: str | None
    wheel: str | None
    sha256: str | None


class ImageFields(TypedDict):
    """A container image."""

    image: str
    digest: str | None


class UvGroupFields(TypedDict):
    """A set of GPUs, and the wheel of PyTorch that uv takes for it."""

    name: str | None  # of the dependency group; null where there is one set without a name
    gpus: list[str]
    pytorch: str
    build: str  # the tag of its index
    requirements: list[str]


class ActionFields(TypedDict):
    """An action of GitHub, by its commit."""

    action: str
    tag: str
    commit: str


class PixiEnvironmentFields(TypedDict):
    """An environment of a pixi workspace on one platform."""

    name: str
    platform: str
    subdir: str
    virtual_packages: list[str]  # what a machine must have at least, beside pixi's defaults
    packages: int
    pip: int


class ExportFields(TypedDict):
    """What only one kind of export says."""

    cuenv: NotRequired[CuenvFields]
    base: NotRequired[str]  # of dockerfile, devcontainer and apptainer
    why: NotRequired[list[str]]  # of the same: why this base
    images: NotRequired[list[ImageFields]]  # of the same, and of gitlab-ci
    actions: NotRequired[list[ActionFields]]  # of github-action
    needed: NotRequired[bool]  # of shell: builds need a toolkit
    toolkit: NotRequired[ToolkitFields | None]  # of shell: the one that is chosen
    because: NotRequired[list[str]]  # of shell: why; of pixi: what was left out
    groups: NotRequired[list[UvGroupFields]]  # of uv: the wheel of each set of GPUs
    environments: NotRequired[list[PixiEnvironmentFields]]  # of pixi: on each of its platforms


ExportKind = Literal[
    "apptainer", "devcontainer", "dockerfile", "github-action", "gitlab-ci", "pixi", "sbatch", "shell", "uv"
]


class ExportDocument(ExportFields):
    """What `cuenv export` made."""

    schema: Literal["cuenv/export/1"]
    kind: ExportKind
    refused: str | None  # why there is nothing
    files: dict[str, str]  # the texts by name
    written: list[str]
