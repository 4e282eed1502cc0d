"""Writing a ``devcontainer.json``: a container for an editor, whose first act is to check its host.

Reference: https://containers.dev/implementors/json_reference/
"""

from __future__ import annotations

import json

from cuenv.core.io.templates import fill
from cuenv.export.dockerfile import PREFIX, WORK, Recipe, comments, ignore, render_dockerfile

FOLDER = ".devcontainer"


def render_devcontainer(recipe: Recipe, name: str) -> dict[str, str]:
    """The file, and the Dockerfile and its list of what is sent to the build: the same bytes for the same values.

    Raises:
        InputError: a path or variable that no Dockerfile can hold.
    """
    told = [
        f"Written by cuenv {recipe.version}, export devcontainer, from {recipe.origin}.",
        *([f"It needs driver {recipe.content.driver} or later."] if recipe.content.driver else []),
    ]
    head = "\n".join(line.replace("#", "//", 1) for line in comments(told)).removeprefix("// ")
    check = f"{WORK}/venv/bin/cuenv check --prefix {PREFIX}{recipe.locked}"
    values = {"head": head, "name": json.dumps(name), "check": json.dumps(check)}
    return {
        f"{FOLDER}/devcontainer.json": fill("devcontainer.json", values, {"cuda": recipe.content.cuda is not None}),
        f"{FOLDER}/Dockerfile": render_dockerfile(recipe),
        f"{FOLDER}/Dockerfile.dockerignore": ignore(recipe),
    }
