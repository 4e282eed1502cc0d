"""Writing a definition file of Apptainer: one stage that installs and checks, one that runs and checks its host.

Reference: https://apptainer.org/docs/user/latest/definition_files.html
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from cuenv.core.io.templates import Blocks, fill
from cuenv.core.urls import one_line
from cuenv.export.dockerfile import (
    PREFIX,
    WORK,
    Recipe,
    building,
    context_path,
    head,
    running,
    said,
    steps,
    variables,
    words,
)
from cuenv.export.tables import Image


def render_apptainer(recipe: Recipe) -> str:
    """The whole file: the same bytes for the same values.

    Raises:
        InputError: a path or variable that no definition file can hold.
    """
    content, stages = recipe.content, recipe.stages
    values = {
        **steps(recipe),
        "head": head(recipe),
        "said": said(recipe),
        "cuenv": recipe.cuenv,
        "installer": _image(recipe, stages.installer) if stages.installer else "",
        "build": _image(recipe, stages.build),
        "run": _image(recipe, stages.run),
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
        "building": _exports(building(recipe)),
        "requirements": bool(recipe.requirements),
        "nvcc": content.nvcc,
        "labels": [{"label": label, "text": text} for label, text in labels.items()],
        "running": _exports(running(recipe)),
        "cuda": content.cuda is not None,
    }
    return fill("apptainer.def", values, blocks)


def _files(recipe: Recipe) -> Iterator[dict[str, str]]:
    """What is copied from the folder of the build, and where to."""
    requirements = {recipe.requirements: f"{WORK}/requirements.lock.txt"} if recipe.requirements else {}
    wheel = {recipe.wheel: f"{WORK}/{recipe.wheel}"} if recipe.wheel else {}
    for source, target in {recipe.file: recipe.lock_there, **requirements, **wheel}.items():
        path = context_path(source)
        yield {"source": f'"{path}"' if " " in path else path, "target": target}


def _exports(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"assigned": f"{name}={shlex.quote(value)}"} for name, value in variables(values)]


def _image(recipe: Recipe, image: Image) -> str:
    """An image as Apptainer takes it: by tag or by digest, and never by both."""
    digest = recipe.digests.get(image.name)
    return f"{image.image}@{digest}" if digest else image.name
