"""Commands and options of conda, pixi, uv and pip, and what to type instead; read only after an unknown word."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

ALIASES: Mapping[str, str] = {"create": "install", "doctor": "diagnose", "info": "inspect", "whatif": "what-if"}
"""Commands of other tools that do the same as a command of cuenv."""

POINTERS: Mapping[str, tuple[str, str]] = {
    "init": (
        "cuenv resolve -o environment.yml",
        "'cuenv resolve' chooses the packages and writes the environment file",
    ),
    "new": ("cuenv resolve -o environment.yml", "'cuenv resolve' chooses the packages and writes the environment file"),
    "add": ("cuenv resolve --with PACKAGE -o environment.yml", "--with requests packages, or write them into the file"),
    "remove": ("cuenv lock", "remove the package from environment.yml, then lock again"),
    "uninstall": ("cuenv lock", "remove the package from environment.yml, then lock again"),
    "update": ("cuenv lock --update PACKAGE", "'cuenv lock --update' updates single packages of a lock"),
    "upgrade": ("cuenv lock --update PACKAGE", "'cuenv lock --update' updates single packages of a lock"),
    "solve": ("cuenv lock", "'cuenv lock' solves environment.yml and pins every package"),
    "freeze": ("cuenv lock", "'cuenv lock' solves environment.yml and pins every package"),
    "sync": (
        "cuenv install --prefix DIR --replace",
        "'cuenv install --replace' recreates an environment from its lock",
    ),
    "repair": (
        "cuenv lock --repair -o environment.new.yml",
        "'cuenv lock --repair' writes a corrected environment file",
    ),
    "fix": ("cuenv lint --fix", "'cuenv lint --fix' corrects environment files, Dockerfiles and DeepSpeed files"),
    "verify": ("cuenv check", "'cuenv check' checks a lock or an environment"),
    "validate": ("cuenv lint", "'cuenv lint' checks environment files, Dockerfiles and DeepSpeed files"),
    "list": (
        "cuenv check --prefix DIR",
        "'cuenv check' checks an environment, and 'cuenv profile list' lists profiles",
    ),
    "search": ("cuenv kb pytorch 2.5", "the tables know builds of PyTorch, CUDA, drivers and GPUs"),
    "env": ("cuenv install --prefix DIR", "'cuenv install' creates an environment from a lock"),
    "clean": ("cuenv cache clean", "'cuenv cache clean' empties the cache"),
    "activate": ("cuenv shell-hook --prefix DIR", 'your shell evaluates it: eval "$(cuenv shell-hook --prefix DIR)"'),
    "shell": ("cuenv shell-hook --prefix DIR", 'your shell evaluates it: eval "$(cuenv shell-hook --prefix DIR)"'),
    "exec": ("cuenv run --prefix DIR COMMAND", "'cuenv run' runs a program inside an environment"),
    "gpu": ("cuenv inspect", "'cuenv inspect' shows the driver and the GPUs of this machine"),
    "docker": ("cuenv export dockerfile -o .", "'cuenv export dockerfile' writes a Dockerfile"),
    "dockerfile": ("cuenv export dockerfile -o .", "'cuenv export dockerfile' writes a Dockerfile"),
}
"""Other commands of other tools: the command of cuenv to use, and what it does."""

RENAMED: Mapping[str, str] = {
    "--torch": "--pytorch",
    "--torch-version": "--pytorch",
    "--pytorch-version": "--pytorch",
    "--cuda-version": "--cuda",
    "--python-version": "--python",
    "--package": "--with",
    "--packages": "--with",
    "--debug": "-v",
    "--gpus": "--gpu",
}
"""Options of other tools, and their names in cuenv."""

_CHANNEL = (
    "environment.yml lists the channels; --stack selects the source of "
    "CUDA and PyTorch, and --mirror where a channel is read"
)
_POSITIONAL = "give the file without an option"
OPTIONS: Mapping[str, str] = {
    "--cuda-arch": "a compute capability is a --gpu: --gpu 8.9",
    "--file": _POSITIONAL,
    "-f": _POSITIONAL,
    "--from-file": _POSITIONAL,
    "--channel": _CHANNEL,
    "-c": _CHANNEL,
    "--channels": _CHANNEL,
    "--override-channels": "cuenv reads only the channels that environment.yml lists",
    "-n": "name an environment by its folder: --prefix DIR",
    "--name": "name an environment by its folder: --prefix DIR",
    "--dry-run": "'cuenv resolve' without -o, 'cuenv lock --check' and 'cuenv lint --diff' write nothing",
    "-y": "cuenv asks no questions, so it needs no --yes",
    "--yes": "cuenv asks no questions, so it needs no --yes",
    "--force": "an edited file is kept as FILE.bak; 'cuenv install --replace' replaces an environment",
    "--fix": "'cuenv lint --fix' corrects files, and 'cuenv lock --repair -o environment.new.yml' writes a "
    "corrected one",
    "--repair": "'cuenv lock --repair -o environment.new.yml' writes a corrected environment file",
    "--no-color": "use --color never or set NO_COLOR=1",
    "--no-colour": "use --color never or set NO_COLOR=1",
    "--version": "'cuenv --version' prints it",
}
"""Options of other tools that cuenv does not have, and what to do instead."""

VALUES: Mapping[str, str] = {
    "--gpu": "'RTX 4090'",
    "--add-gpu": "'RTX 5090'",
    "--remove-gpu": "V100",
    "--driver": "535.129.03",
    "--driver-now": "535.129.03",
    "--host": "rtx4090-535",
    "--glibc": "2.31",
    "--platform": "linux-aarch64",
    "--pytorch": "2.5",
    "--cuda": "12.4",
    "--python": "3.12",
    "--with": "'transformers>=4.36'",
    "--mirror": "conda-forge=https://mirror.example.com/conda-forge",
    "--prefix": "./env",
    "-o": "environment.yml",
}
"""An example of a value for each option, for the error about a missing value."""


ARGUMENTS: Mapping[str, str] = {"cuenv export sbatch": " -- python train.py"}
"""Arguments that a command needs beside its options, for the same error."""


def option_of_other_tool(name: str, known: Collection[str], typed: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The message on an option of another tool, and the words to type instead.

    Returns:
        The words are empty if there are no better ones; ``None`` for an option of no other tool.
    """
    if name in RENAMED:
        new = RENAMED[name]
        if new not in known:
            return f"it is an option of other commands, called {new}", ()
        return f"it is called {new}", [_renamed(word, name, new) for word in typed]
    if OPTIONS.get(name) == _POSITIONAL:
        words = (word.removeprefix(f"{name}=") for word in typed if word != name)
        return _POSITIONAL, tuple(words)
    return (OPTIONS[name], ()) if name in OPTIONS else None


def _renamed(word: str, old: str, new: str) -> str:
    return new + word.removeprefix(old) if word.partition("=")[0] == old else word
