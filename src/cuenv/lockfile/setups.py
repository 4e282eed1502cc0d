"""What is set aside and built against torch where pip installs it: which lines, and what their build needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cuenv.core.errors import CuenvError
from cuenv.core.findings import FileEdit, Finding, first_of
from cuenv.core.io.files import expand_home, is_file, is_folder, read_text
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import minor, target_for, version
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Cuda, Extension
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.compilers import gcc_range
from cuenv.resolver.requirements import pip_demand
from cuenv.resolver.verdict import named_capability
from cuenv.solve.environment_spec import normalise
from cuenv.solve.model import SetAside, Solution, build_cuda
from cuenv.solve.pip_lines import PipLines, folder_of, line_text, project_of

_SETUPS = ("setup.py", "pyproject.toml", "setup.cfg")
_TORCH = regex(r"\b(?:import|from)\s+torch\b|[\"']torch\b")
_COMPILES = regex(r"\bCUDAExtension\b")
_LONGEST = 1 << 20
_SHOWN = 4


def with_build_needs(lines: PipLines, folder: Path | None, knowledge: Knowledge) -> PipLines:
    """The lines with what is known of those that are set aside: whether a build needs torch, and compiles CUDA code.

    A name under which the index has another project is set aside as well: the one that is meant is in its repository.

    Args:
        folder: where the environment file lies, for the folders that they name; ``None`` where nobody knows.
    """
    moved = {} if lines.options.lines() else {text: _of_repository(text, knowledge) for text in lines.requirements}
    aside = (*lines.aside, *(item for item in moved.values() if item))
    known = (_of_known_project(_read_setup(item, folder) if folder else item, knowledge) for item in aside)
    left = tuple(text for text in lines.requirements if not moved.get(text))
    return replace(lines, requirements=left, aside=tuple(known))


def _of_repository(text: str, knowledge: Knowledge) -> SetAside | None:
    """A requirement by a name that is no package of a project, but that of its repository: NVIDIA's apex."""
    name = name_on_index(text)
    row = next((row for row in knowledge.extensions if row.builds and name and name == _repository(row)), None)
    if row is None or knowledge.extension(name):
        return None
    says = "is another project on the index or does not exist there; this one is built from its repository"
    why = f"{line_text(text)} {says}"
    return SetAside(text=f"git+https://github.com/{row.repository}", why=why, build=True)


def name_on_index(text: str) -> str:
    """The package of an index that a requirement names; empty for a URL, whose file is meant and no other."""
    demand = pip_demand(text)
    return demand.name if demand else ""


def _repository(row: Extension) -> str:
    """The name of a repository, as a package would bear it."""
    return normalise(row.repository.rpartition("/")[2])


def _read_setup(item: SetAside, folder: Path) -> SetAside:
    name = folder_of(item.text)
    if not name:
        return item
    place = expand_home(folder / name)
    if not is_folder(place):
        return replace(item, why=f"{item.why}, which does not exist")
    text = ""
    for file in _SETUPS:
        with suppress(CuenvError):
            text += read_text(place / file, limit=_LONGEST) if is_file(place / file) else ""
    if _COMPILES.search(text):
        why = f"{item.why} with a CUDA extension, which nvcc compiles when it is installed"
        return replace(item, why=why, build=True)
    return replace(item, build=bool(_TORCH.search(text)))


def _of_known_project(item: SetAside, knowledge: Knowledge) -> SetAside:
    """A repository or a package of a project that the tables know, such as flash-attention."""
    name = project_of(item.text)
    known = name and any(name in (row.package, _repository(row)) for row in knowledge.extensions if row.builds)
    return replace(item, build=True) if known and not item.build else item


def compiles(name: str, knowledge: Knowledge) -> bool:
    """Whether a package of an index compiles CUDA code when it is installed from source."""
    return any(row.builds for row in knowledge.extension(name))


def build_findings(
    solution: Solution, facts: HostFacts, knowledge: Knowledge, *, of_list: bool = False
) -> Iterator[Finding]:
    """What the builds against torch need, in one finding; none where nothing is built, or torch has no CUDA.

    Args:
        solution: with what is built.
        facts: the host.
        knowledge: the tables.
        of_list: whether it was made from a list for pip, to which no entry of conda can be added.
    """
    built = [item for item in solution.aside if item.build]
    torch = candidate_of(solution, knowledge) if built else None
    if torch is None or torch.cuda is None:
        return
    names = [project_of(item.text) or item.text for item in built]
    shown = first_of(names, _SHOWN)
    row = knowledge.cuda(torch.cuda)
    nvcc = solution.package("cuda-nvcc")
    allowed = gcc_range(row, conda_forge=row.conda_nvcc) if row else None
    needs = [f"nvcc {torch.cuda.major}.x", "the headers of the toolkit"]
    first = f"{allowed[0]} to" if allowed and allowed[0] else "up to"
    needs += [f"GCC {first} {allowed[1]}"] if allowed else ["a GCC that nvcc supports"]
    able = row.targets if row and row.targets else facts.capabilities
    targets = {item: target_for(item, able) for item in facts.capabilities}
    archs = ";".join(dict.fromkeys(str(item) for item in targets.values() if item))
    needs += [f"TORCH_CUDA_ARCH_LIST={archs}"] if archs else []
    there = f"the environment has nvcc {nvcc.version}" if nvcc else "the environment has no nvcc"
    strange = [item for item, target in targets.items() if target is None]
    older = ((item, target) for item, target in targets.items() if target not in (None, item))
    beyond = "".join(f"; code for {target} runs on {named_capability(facts, item)}" for item, target in older)
    beyond += f"; nvcc {torch.cuda} cannot compile for {named_capability(facts, *strange)}" if strange else ""
    conda = solution.package("pytorch")
    own = (build_cuda(conda.build) if conda else None) or torch.cuda
    alone = of_list or not solution.packages  # conda has no part in it
    them, are = ("them", "are") if len(names) > 1 else ("it", "is")
    yield Finding(
        code="CU518",
        severity="info" if nvcc and minor(version(nvcc.version)).major == torch.cuda.major else "warning",
        subject=names[0] if len(names) == 1 else "pip",
        message=f"pip: {shown} {are} built against torch {torch.build.version} of CUDA {own} when pip installs "
        f"{them}; CUDA code in {them} needs {', '.join(needs)}; {there}{beyond}",
        evidence=tuple(row.sources) if row else (),
        fix=f"have that nvcc and GCC on the machine on which pip installs {them}" if alone and not nvcc else None,
        edits=() if nvcc or alone else _compiler(row, allowed),
    )


def _compiler(row: Cuda | None, allowed: tuple[int, int] | None) -> tuple[FileEdit, ...]:
    """The packages that bring the compiler of a CUDA release."""
    if row is None:
        return ()
    gxx = f"gxx_linux-64={allowed[1]}.*" if allowed else "gxx_linux-64"
    if row.conda_nvcc:
        names = (f"cuda-nvcc={row.version}", f"cuda-libraries-dev={row.version}")
    elif row.labels:
        label = f"nvidia/label/cuda-{row.labels[-1]}"
        names = (f"{label}::cuda-nvcc", f"{label}::cuda-libraries-dev")
    else:
        return ()
    return (FileEdit(how="add", entries=(*names, gxx, "ninja")),)
