"""What a shell evaluates to be in an environment, as ``conda activate`` leaves it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping

from cuenv.core.record import dataclass
from cuenv.prefix.toolchain.hook import quoter

SHELLS = ("bash", "zsh", "sh", "fish")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What changes on the way into an environment.

    Attributes:
        prefix: its folder, absolute.
        sets: variables and their values, PATH among them.
        removes: variables of the environment that is left.
        leaving: scripts of the environment that is left, by ending (``sh``, ``fish``), in order.
        scripts: those of this one.
    """

    prefix: str
    sets: Mapping[str, str]
    removes: tuple[str, ...]
    leaving: Mapping[str, tuple[str, ...]]
    scripts: Mapping[str, tuple[str, ...]]


def activation_lines(entering: Activation, shell: str) -> str:
    """The lines for a shell; what is left goes first, and scripts see the variables."""
    return "".join(f"{line}\n" for line in _lines(entering, shell == "fish"))


def _lines(entering: Activation, fish: bool) -> Iterator[str]:
    ending = "fish" if fish else "sh"
    quote = quoter(ending)
    for path in entering.leaving.get(ending, ()):
        yield _source(path, quote, fish)
    for name in entering.removes:
        yield f"set -e {name}" if fish else f"unset {name}"
    for name, value in entering.sets.items():
        if fish and name == "PATH":  # a list there
            yield f"set -gx PATH {' '.join(map(quote, value.split(':')))}"
        else:
            yield f"set -gx {name} {quote(value)}" if fish else f"export {name}={quote(value)}"
    for path in entering.scripts.get(ending, ()):
        yield _source(path, quote, fish)


def _source(path: str, quote: Callable[[str], str], fish: bool) -> str:
    return f"source {quote(path)}" if fish else f". {quote(path)}"


def bash_script(entering: Activation) -> str:
    """A script for bash that becomes the program of its arguments inside of the environment.

    What scripts print goes to standard error. One that ends the shell is an error, and nothing is run.
    """
    said = shlex.quote(f"error: a script in {entering.prefix}/etc/conda/activate.d ends the shell: nothing was run")
    return (
        f'trap \'printf "%s\\n" "$_cuenv_said" >&2; trap - EXIT; exit 4\' EXIT\n_cuenv_said={said}\n'
        f'{{\n{activation_lines(entering, "bash")}}} 1>&2\ntrap - EXIT\nunset _cuenv_said\nexec "$@"\n'
    )
