"""The lines that a shell evaluates to activate an environment as ``conda activate`` does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping

from cuenv.core.record import dataclass
from cuenv.prefix.toolchain.hook import quoter

SHELLS = ("bash", "zsh", "sh", "fish")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What activating an environment changes."""

    prefix: str  # the absolute path of its folder
    sets: Mapping[str, str]  # the variables that are set, also PATH
    removes: tuple[str, ...]  # the variables of the formerly active environment that are unset
    # the deactivation scripts of the formerly active environment, by file ending (``sh``, ``fish``)
    leaving: Mapping[str, tuple[str, ...]]
    scripts: Mapping[str, tuple[str, ...]]  # the activation scripts of this environment, by file ending


def activation_lines(entering: Activation, shell: str) -> str:
    """The lines for a shell: deactivation scripts, then variables, then activation scripts."""
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
    """A bash script that activates the environment and then executes its arguments as a program.

    The output of activation scripts goes to standard error. If one of them exits the shell, the program is not run.
    """
    said = shlex.quote(f"error: a script in {entering.prefix}/etc/conda/activate.d ends the shell, so nothing was run")
    return (
        f'trap \'printf "%s\\n" "$_cuenv_said" >&2; trap - EXIT; exit 4\' EXIT\n_cuenv_said={said}\n'
        f'{{\n{activation_lines(entering, "bash")}}} 1>&2\ntrap - EXIT\nunset _cuenv_said\nexec "$@"\n'
    )
