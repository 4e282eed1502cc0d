"""``cuenv export pixi`` and ``cuenv lock --format pixi``: a pixi workspace whose lock pixi takes as it is.

pixi takes a lock where channels, platforms and indexes are those of the manifest, every requirement is met, and no
package is there that nothing requires. A platform is a gate: a machine takes it whose virtual packages are at least
those that it declares. So it declares the CUDA version and the compute capability that were solved for, of a pool the
lowest, and of the C library what the packages need.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cuenv.core import __version__
from cuenv.core.errors import CuenvError, InputError, Progress
from cuenv.core.findings import allowed
from cuenv.core.record import NamedTuple, dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import blanked, channel_url, index_url, redact
from cuenv.core.versions import Capability, version
from cuenv.export.container import Refused
from cuenv.export.export import Exported, save
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.formats import LockedFile, unlocked_txt
from cuenv.lockfile.formats.others.pixi_lock import LOCK, MANIFEST, PixiEnvironment, PixiPlatform, render
from cuenv.lockfile.lock import Locked, LockRequest, lock_spec
from cuenv.lockfile.pip import PipJob, lock_pip
from cuenv.lockfile.wheel_target import WheelTarget
from cuenv.resolver.asked_cuda import asks_for_cpu, wants_cuda
from cuenv.resolver.asked_torch import torch_asked
from cuenv.solve import PIXI
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec, Pin, normalise
from cuenv.solve.io.pip import indexes, pypi_names
from cuenv.solve.io.solver import solve
from cuenv.solve.match_spec import split_name
from cuenv.solve.model import AS_OF, LockedPackage, Solution, SolveRequest
from cuenv.solve.pip_lines import read_lines
from cuenv.solve.pip_part import provided
from cuenv.solve.uv_output import toml_string

REQUIRES = ">=0.71"  # the first pixi whose platforms declare virtual packages, ``cuda = { driver, arch }`` among them
CUDA, CPU, DEFAULT = "cuda", "cpu", "default"
"""The features of a workspace, which are also what its platforms are called, and its usual environment."""
_KEYS = {"__glibc": "glibc", "__linux": "linux", "__archspec": "archspec"}
_BASES = ("x86_64", "aarch64")
_FLOOR = regex(r"__linux\b.*?>=\s*([0-9]{1,4}(?:\.[0-9]{1,4})*)")
_BARE = regex(r"[A-Za-z0-9_-]+")
_TORCH = ("pytorch", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class PixiPart:
    """An environment of the workspace."""

    name: str  # ``default``, or ``cpu`` for the CPU twin
    feature: str  # what its own requirements stand under
    asked: EnvironmentSpec  # the environment file that it was solved from
    solutions: tuple[Solution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PixiProject:
    """A workspace, from which both files are made."""

    parts: tuple[PixiPart, ...]  # its environments, the usual one first
    channels: tuple[str, ...]  # URLs in order of priority
    knowledge: Knowledge
    names: Mapping[str, str]
    index: str = ""  # the package index that the packages for pip come from; empty where there are none
    extra: tuple[str, ...] = ()
    head: tuple[str, ...] = ()  # lines for the comment at the top of both files

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment file of the usual environment."""
        return self.parts[0].asked

    def platforms(self, part: PixiPart) -> tuple[tuple[PixiPlatform, Solution], ...]:
        """The platforms of an environment, each with what was solved for it."""
        return tuple((_platform(part, item, self.knowledge), item) for item in part.solutions)


def cpu_twin_spec(spec: EnvironmentSpec, knowledge: Knowledge) -> EnvironmentSpec | str:
    """The environment file without CUDA for machines without a GPU; if there is none, the reason.

    A build string that excludes CPU builds becomes one that excludes CUDA builds; NVIDIA's packages are left out.
    """
    if torch_asked(spec.pip):
        return "pip installs PyTorch, and its CPU build is another wheel"
    if asks_for_cpu(spec) or not wants_cuda(spec, knowledge):
        return "the environment has no CUDA build, so it already runs without a GPU"
    kept = [
        replace(pin, build="*cpu*" if "cuda" in pin.build or pin.name in _TORCH else pin.build, why=(), role="")
        for pin in spec.pins
        if not knowledge.is_component(pin.name) and pin.name not in ("pytorch-cuda", "pytorch-gpu")
    ]
    gpu = spec.pin("pytorch-gpu")
    if gpu and not spec.pin("pytorch"):
        kept.append(replace(gpu, name="pytorch", build="*cpu*"))
    return replace(spec, pins=tuple(kept), header=())


def _platform(part: PixiPart, solution: Solution, knowledge: Knowledge) -> PixiPlatform:
    """The platform of a solution with its virtual packages, as pixi declares them."""
    found = {item.name: item for item in solution.virtual_packages}
    virtual = []
    cuda, arch = found.get("__cuda"), found.get("__cuda_arch")
    if cuda and part.feature == CUDA:
        virtual.append(f"__cuda={cuda.version}")
        if arch and not _of_jetson(solution.platform, arch.version, knowledge):
            virtual.append(f"__cuda_arch={arch.version}")
    needs = [text for package in solution.packages for text in package.depends]
    base = found.get("__archspec")
    if base and base.build not in _BASES and any(text.startswith("__archspec") for text in needs):
        virtual.append(f"__archspec=0={base.build}")
    libc = max((lowest for _, lowest in solution.glibcs), default=None)
    if libc:
        virtual.append(f"__glibc={libc}")
    kernel = max((version(hit[1]) for text in needs if (hit := _FLOOR.match(text))), default=None)
    if kernel:
        virtual.append(f"__linux={kernel}")
    return PixiPlatform(f"{solution.platform}-{part.feature}", solution.platform, tuple(virtual))


def _of_jetson(platform: str, capability: str, knowledge: Knowledge) -> bool:
    """Whether the GPU belongs to a Jetson, whose compute capability pixi does not detect (prefix-dev/pixi#6775)."""
    kinds = {row.kind for row in knowledge.gpus if row.capability == Capability.parse(capability)}
    return platform == "linux-aarch64" and kinds == {"jetson"}


def manifest(project: PixiProject) -> str:
    """``pixi.toml``."""
    return "\n".join([*_manifest_head(project), *_workspace(project), *_features(project), *_tasks(project), ""])


def lock_file(project: PixiProject, number: int) -> str:
    """``pixi.lock`` in a version of the format."""
    made = []
    for part in project.parts:
        pip = any(item.pip for item in part.solutions)
        links = read_lines(part.asked.pip).options.links if pip else ()
        urls = (project.index, *project.extra) if pip else ()
        made.append(PixiEnvironment(part.name, project.channels, project.platforms(part), urls, links))
    return render(made, project.names, head=project.head, version=number)


def _manifest_head(project: PixiProject) -> Iterator[str]:
    yield from (f"# {blanked(text)}".rstrip() for text in project.head)
    for place, _ in project.platforms(project.parts[0]):
        if any(text.startswith("__cuda=") for text in place.virtual):
            yield f"# {place.name} is for machines with such a driver and GPU. On others pixi refuses it, except with:"
            yield f"#   {override_variables(place)} pixi install --locked"
    if len(project.parts) > 1:
        yield "# The same without CUDA, for a CI without a driver:"
        yield f"#   pixi install --locked -e {CPU}"


def override_variables(place: PixiPlatform) -> str:
    """The variables that simulate the virtual packages of a platform on another machine."""
    said = dict(text.split("=", 1) for text in place.virtual)
    found = [f"CONDA_OVERRIDE_CUDA={said['__cuda']}"] if "__cuda" in said else []
    found += [f"CONDA_OVERRIDE_CUDA_ARCH={said['__cuda_arch']}"] if "__cuda_arch" in said else []
    return " ".join(found)


def _workspace(project: PixiProject) -> Iterator[str]:
    yield from ("", "[workspace]", f"name = {toml_string(project.spec.name or 'cuenv')}")
    yield f"channels = [{', '.join(map(toml_string, project.channels))}]"
    yield 'channel-priority = "strict"'
    yield f"requires-pixi = {toml_string(REQUIRES)}"
    yield "platforms = ["
    for part in project.parts:
        yield from (f"  {{ {_declared(place)} }}," for place, _ in project.platforms(part))
    yield "]"
    if project.index:
        yield from ("", "[pypi-options]", f"index-url = {toml_string(project.index)}")
        if project.extra:
            yield f"extra-index-urls = [{', '.join(map(toml_string, project.extra))}]"
            yield 'index-strategy = "unsafe-best-match"'
        links = read_lines(project.spec.pip).options.links
        if links:
            rows = (f"{{ {'url' if '://' in text else 'path'} = {toml_string(text)} }}" for text in links)
            yield f"find-links = [{', '.join(rows)}]"


def _declared(place: PixiPlatform) -> str:
    said = {name: rest for name, _, rest in (text.partition("=") for text in place.virtual)}
    parts = [f"name = {toml_string(place.name)}", f"platform = {toml_string(place.subdir)}"]
    if "__cuda" in said:
        arch = f", arch = {toml_string(said['__cuda_arch'])}" if "__cuda_arch" in said else ""
        parts.append(f"cuda = {{ driver = {toml_string(said['__cuda'])}{arch} }}")
    parts += [f"{key} = {toml_string(said[name].rpartition('=')[2])}" for name, key in _KEYS.items() if name in said]
    return ", ".join(parts)


class _Rows(NamedTuple):
    """Requirements as lines of TOML by name: of conda packages, and of pip packages by platform (empty: all)."""

    conda: Mapping[str, str]
    pip: Mapping[tuple[str, str], str]


def _features(project: PixiProject) -> Iterator[str]:
    """The requirements that all environments share, then those of each environment."""
    rows = [_rows(project, part) for part in project.parts]
    common = _Rows(_shared([item.conda for item in rows]), _shared([item.pip for item in rows]))
    yield from _tables("", common)
    for part, own in zip(project.parts, rows, strict=True) if rows[1:] else ():
        names = (toml_string(place.name) for place, _ in project.platforms(part))
        yield from ("", f"[feature.{part.feature}]", f"platforms = [{', '.join(names)}]")
        yield from _tables(
            f"feature.{part.feature}.", _Rows(_rest(own.conda, common.conda), _rest(own.pip, common.pip))
        )
    if rows[1:]:
        yield from ("", "[environments]")
        yield from (f"{part.name} = [{toml_string(part.feature)}]" for part in project.parts)
    if project.spec.variables:
        yield from ("", "[activation.env]")
        yield from (f"{_key(name)} = {toml_string(text)}" for name, text in sorted(project.spec.variables.items()))


_T = TypeVar("_T")


def _shared(rows: Sequence[Mapping[_T, str]]) -> dict[_T, str]:
    return {key: text for key, text in rows[0].items() if all(item.get(key) == text for item in rows)}


def _rest(rows: Mapping[_T, str], shared: Mapping[_T, str]) -> dict[_T, str]:
    return {key: text for key, text in rows.items() if key not in shared}


def _tables(prefix: str, rows: _Rows) -> Iterator[str]:
    if rows.conda or not prefix:
        yield from ("", f"[{prefix}dependencies]", *rows.conda.values())
    for place in dict.fromkeys(place for place, _ in rows.pip):
        target = f"target.{place}." if place else ""
        yield from ("", f"[{prefix}{target}pypi-dependencies]")
        yield from (text for (of, _), text in rows.pip.items() if of == place)


def _rows(project: PixiProject, part: PixiPart) -> _Rows:
    several = len(project.channels) > 1
    conda = {pin.name: f"{_key(pin.name)} = {_condition(pin, several=several)}" for pin in part.asked.pins}
    for solution in part.solutions:
        for package in unrequired_packages(solution, conda):
            conda[package.name] = f'{_key(package.name)} = "*"'
    return _Rows(conda, dict(_pip_rows(part, project)))


def _condition(pin: Pin, *, several: bool) -> str:
    condition = pin.condition() or "*"
    rest = [f"build = {toml_string(pin.build)}"] if pin.build else []
    rest += [f"channel = {toml_string(channel_url(pin.channel))}"] if pin.channel and several else []
    return f"{{ {', '.join([f'version = {toml_string(condition)}', *rest])} }}" if rest else toml_string(condition)


def unrequired_packages(solution: Solution, asked: Iterable[str]) -> Iterator[LockedPackage]:
    """Packages that stand in a solution though nothing that was asked for leads there, such as conda's own pip.

    Each is yielded before those that it leads to.
    """
    there = {package.name: package for package in solution.packages}
    needs = {name: {split_name(text)[0] for text in package.depends} & there.keys() for name, package in there.items()}
    seen: set[str] = set()

    def walk(names: Iterable[str]) -> None:
        todo = [name for name in names if name in there]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += needs[name]

    walk(asked)
    wanted = {name for names in needs.values() for name in names}
    # roots first; of packages that require each other the first by name
    for name in sorted(there, key=lambda name: (name in wanted, name)):
        if name not in seen:
            yield there[name]
            walk([name])


def _pip_rows(part: PixiPart, project: PixiProject) -> Iterator[tuple[tuple[str, str], str]]:
    """The pip part without unpinned requirements; a line with a marker belongs to the platforms where it is true."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - only with a pip part

    aside = {text.text for solution in part.solutions for text in solution.aside}
    for text in read_lines(part.asked.pip).requirements if any(item.pip for item in part.solutions) else ():
        asked = Requirement(text)
        name = normalise(asked.name)
        places = [
            place.name
            for place, solution in project.platforms(part)
            if _is_there(name, solution, project) and _applies(str(asked.marker or ""), solution)
        ]
        if redact(text) in aside or not places:
            continue
        extras = ", ".join(map(toml_string, sorted(asked.extras)))
        if asked.url:
            fields = [f"url = {toml_string(index_url(asked.url))}"]
        else:
            fields = [f"version = {toml_string(str(asked.specifier) or '*')}"]
        fields += [f"extras = [{extras}]"] if extras else []
        value = f"{{ {', '.join(fields)} }}" if fields[1:] or asked.url else fields[0].partition(" = ")[2]
        whole = len(places) == len(part.solutions)
        for place in [""] if whole else places:
            yield (place, name), f"{_key(name)} = {value}"


def _is_there(name: str, solution: Solution, project: PixiProject) -> bool:
    by_conda = {item.name for item in provided(solution.packages, project.names)}
    return name in by_conda or any(item.name == name for item in solution.pip)


def _applies(marker: str, solution: Solution) -> bool:
    python = solution.package("python")
    return WheelTarget(solution.platform, python.version if python else solution.python).meets(marker)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_string(name)


_VERSIONS = "import torch; print(torch.__version__, torch.version.cuda)"
_GPU = "import torch; print(torch.cuda.get_device_name(), torch.cuda.get_arch_list(), torch.ones(1, device='cuda'))"


def _tasks(project: PixiProject) -> Iterator[str]:
    parts = [part for part in project.parts if any(_has_torch(item) for item in part.solutions)]
    if len(parts) < len(project.parts):
        return
    yield from ("", "[tasks]", _task("versions", _VERSIONS, "Print the releases of PyTorch and CUDA"))
    gpu = next((part for part in parts if part.feature == CUDA), None)
    if gpu:
        yield from ("", "[feature.cuda.tasks]") if len(parts) > 1 else ()
        yield _task("gpu", _GPU, "Compute something on the GPU")


def _task(name: str, code: str, about: str) -> str:
    command = toml_string(f'python -c "{code}"')
    return f"{name} = {{ cmd = {command}, description = {toml_string(about)} }}"


def _has_torch(solution: Solution) -> bool:
    return any(solution.package(name) for name in _TORCH) or any(item.name in _TORCH for item in solution.pip)


def counted(project: PixiProject) -> Sequence[tuple[str, PixiPlatform, Solution]]:
    """Every environment on every platform: its name, the platform, and the solution."""
    return [(part.name, place, item) for part in project.parts for place, item in project.platforms(part)]


@dataclass(frozen=True, kw_only=True)
class PixiRequest:
    """The request for a workspace."""

    lock: LockRequest  # the environment file and the host; what it writes is written into the folder instead
    spec: EnvironmentSpec | None = None  # the environment, where it is no file
    twin: bool = True  # whether there is to be a CPU twin for machines without a GPU
    version: int = 7  # of the lock's format


@dataclass(frozen=True, kw_only=True)
class PixiAnswer:
    """The workspace as files, and the result of the lock."""

    made: Exported
    locked: Locked


def export_pixi(asked: PixiRequest, knowledge: Knowledge, progress: Progress | None = None) -> PixiAnswer:
    """Solve an environment and its CPU twin, and render the manifest and the lock; nothing is written.

    Raises:
        InputError: the file or a channel cannot be read, or nothing says which index the packages for pip come from.
        OutsideError: the solver crashed.
    """
    from cuenv.lockfile.files import read_environment  # noqa: PLC0415 - a decision is no file

    spec, warnings = (asked.spec, ()) if asked.spec else read_environment(asked.lock.path)
    answer = replace(lock_spec(asked.lock, spec, knowledge, progress=progress), warnings=warnings, wheels=PIXI)
    if answer.lock is None:
        return PixiAnswer(made=Exported(kind="pixi", refused=_refused(answer, asked)), locked=answer)
    usual = PixiPart(name=DEFAULT, feature=_kind(answer, knowledge), asked=spec, solutions=answer.lock.solutions)
    twin = _twin(asked, spec, answer, knowledge, progress) if asked.twin and usual.feature == CUDA else ""
    parts = (usual, twin) if isinstance(twin, PixiPart) else (usual,)
    project = _project(asked, answer, parts, knowledge)
    notes = [f"no environment {CPU} for machines without a GPU: {twin}"] if twin and isinstance(twin, str) else []
    notes += [f"{name}: pixi expands $ in its value" for name, text in spec.variables.items() if "$" in text]
    files = {MANIFEST: manifest(project), LOCK: lock_file(project, asked.version)}
    for item in answer.lock.solutions:
        if item.aside:
            file = LockedFile(answer.lock, item, Path(), lambda: spec, project.head[0])
            files[unlocked_txt.FORMAT.path(Path(), item.platform).name] = unlocked_txt.FORMAT.write(file)
    made = Exported(
        kind="pixi",
        files=files,
        talk=(*(f"note    {text}" for text in notes), *_talk(project)),
        more={
            "environments": [
                {
                    "name": name,
                    "platform": place.name,
                    "subdir": place.subdir,
                    "virtual_packages": list(place.virtual),
                    "packages": len(item.packages),
                    "pip": len(item.pip),
                }
                for name, place, item in counted(project)
            ],
            "because": list(notes),
        },
    )
    return PixiAnswer(made=made, locked=answer)


def write_pixi(answer: PixiAnswer, folder: Path) -> PixiAnswer:
    """Write the files into a folder, the lock before the manifest that it belongs to.

    Raises:
        OutsideError: one cannot be written.
    """
    files = {folder / name: text for name, text in [*answer.made.files.items()][::-1]}
    written, kept = save(files, WRITTEN_BY)
    return replace(answer, locked=replace(answer.locked, written=written[::-1], kept=kept))


def _kind(answer: Locked, knowledge: Knowledge) -> str:
    """Whether the environment needs a driver: it contains CUDA packages, and the host has a driver."""
    found = answer.lock.solutions if answer.lock else ()
    conda = [one for item in found for one in item.packages]
    asks = any(text.startswith("__cuda") for one in conda for text in one.depends)
    wheels = any(one.name == "torch" and not one.version.endswith("+cpu") for item in found for one in item.pip)
    driver = answer.facts.driver is not None and answer.facts.driver.cuda is not None
    return CUDA if driver and (asks or wheels or any(knowledge.is_component(one.name) for one in conda)) else CPU


def _refused(answer: Locked, asked: PixiRequest) -> Refused:
    words = ["cuenv", "lock", str(asked.lock.path)] if asked.spec is None else ["cuenv", "lock", "--resolve"]
    errors = answer.whole_report.errors or answer.report.findings
    return Refused(
        "; ".join(f"{item.code} {item.message}" for item in errors), shlex.join([*words, *asked.lock.host.words])
    )


def _twin(
    asked: PixiRequest, spec: EnvironmentSpec, answer: Locked, knowledge: Knowledge, progress: Progress | None
) -> PixiPart | str:
    """The environment for machines without a GPU, with the same releases if they exist; otherwise the reason."""
    found = cpu_twin_spec(spec, knowledge)
    if isinstance(found, str) or answer.lock is None:
        return str(found)
    pins = (*found.pins, *([Pin(name="pip")] if found.pip and not found.pin("pip") else []))
    request, solutions, day = asked.lock, [], answer.lock.metadata.get(AS_OF, "")
    sources = replace(request.sources, as_of=day)
    try:
        for item in answer.lock.solutions:
            if progress:
                progress(f"solving for {item.platform} without CUDA")
            question = SolveRequest(
                spec=replace(found, pins=pins),
                channels=found.channels or ("defaults",),
                platform=item.platform,
                virtual_packages=virtual_packages(
                    HostFacts(label="", platform=item.platform, libc=answer.facts.libc, kernel=answer.facts.kernel)
                ),
                prefer=item.packages,
            )
            one = solve(question, sources, progress=progress)
            if not isinstance(one, Solution):
                missing = f": {', '.join(one.missing)}" if one.missing else ""
                return f"the channels cannot satisfy it on {item.platform}{missing}"
            solutions.append(one)
        pip = PipJob(
            spec=found,
            folder=request.path.parent,
            knowledge=knowledge,
            environ=request.host.environ,
            sources=sources,
            old=answer.lock,
            allow=request.allow,
            builds=request.builds,
            progress=progress,
        )
        solutions, of_pip = lock_pip(pip, solutions)
    except CuenvError as error:
        return error.message
    wrong = next((item for item in allowed(of_pip, request.allow) if item.severity == "error"), None)
    if wrong:
        return wrong.message
    return PixiPart(name=CPU, feature=CPU, asked=found, solutions=tuple(solutions))


def _project(asked: PixiRequest, answer: Locked, parts: tuple[PixiPart, ...], knowledge: Knowledge) -> PixiProject:
    """The workspace, with its channels and the index of its packages for pip.

    Raises:
        InputError: nothing says which index that is.
    """
    spec, request = parts[0].asked, asked.lock
    pip = [item for part in parts for item in part.solutions if item.pip]
    options = read_lines(spec.pip).options
    index = indexes(options, request.host.environ, request.sources.certificates) if pip else ()
    if pip and not index:
        message = f"the file does not name the index of the pip packages, which {LOCK} must name"
        raise InputError(message, hint="write it into the pip part: --index-url https://HOST/simple")
    named = answer.lock.channels if answer.lock else spec.channels
    defaults = request.sources.default_channels  # conda's own, which pixi is told one by one
    channels = [url for name in named for url in (defaults if name == "defaults" else (redact(channel_url(name)),))]
    return PixiProject(
        parts=parts,
        channels=tuple(dict.fromkeys(channels)),
        knowledge=knowledge,
        names=pypi_names(),
        index=index[0] if index else "",
        extra=index[1:],
        head=tuple(_head(asked, answer)),
    )


def _head(asked: PixiRequest, answer: Locked) -> Iterator[str]:
    from cuenv.host.describe import host_line, host_options  # noqa: PLC0415 - only for a lock that was made

    words = ["cuenv", "lock", asked.lock.path.name, "--format", "pixi", *host_options(answer.facts)]
    source = "a decision" if asked.spec else f"{asked.lock.path.name}; change that file, then: {shlex.join(words)}"
    yield f"{WRITTEN_BY.removeprefix('# ')} {__version__} from {source}"
    yield f"For {host_line(answer.facts)}."


def _talk(project: PixiProject) -> Iterator[str]:
    for name, place, item in counted(project):
        pip = f" and {len(item.pip)} for pip" if item.pip else ""
        gate = f" ({', '.join(place.virtual)})" if place.virtual else ""
        yield f"{name:7} {len(item.packages)} packages{pip} for {place.name}{gate}"
