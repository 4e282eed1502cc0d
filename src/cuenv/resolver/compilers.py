"""Compilers of an environment: nvcc against the CUDA release of torch, GCC against nvcc, a second CUDA runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuenv.core.findings import FileEdit, Finding, Severity
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import minor, version, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Cuda
from cuenv.resolver.asked_cuda import NVCC_PACKAGES, NamedRelease, cuda_home, exact_release, nvcc_asked, torch_cuda
from cuenv.resolver.requirements import pin_demand
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import LockedPackage

_GCC = regex(r"g(?:cc|xx)(?:_linux-(?:64|aarch64))?")  # packages that make a GCC the compiler of an environment
_LIBRARIES = ("cudnn", "libcudnn", "nccl")
_MAJOR = regex(r"cuda_?(1\d)")
_LAST = version("9999")


def compiler_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Pins of nvcc, of a CUDA runtime and of GCC that do not fit together or torch."""
    nvcc, torch = nvcc_asked(spec), torch_cuda(spec, knowledge)
    for item in nvcc:
        if torch and item.release.major != torch.release.major:
            name = item.text.split("::")[-1].split("=")[0].split()[0]
            ended = knowledge.discontinued(name)
            better = f"{'cuda-nvcc' if ended else name}={torch.release}"
            yield _cuda_mix_finding(
                name,
                f"{item.text} contains nvcc {item.release}, but {torch.text} is built with CUDA {torch.release}: torch "
                "does not build extensions with an nvcc of another CUDA major version",
                FileEdit(how="write", entries=(better,), over=name if ended else ""),
                "error",
                about=(item.text, torch.text),
            )
    yield from _open_nvcc_findings(spec, torch)
    yield from _second_runtime_findings(spec, nvcc, torch)
    yield from _library_build_findings(spec, torch)
    row = knowledge.cuda(nvcc[0].release) if nvcc else None
    if row:
        yield from _gcc_findings(spec, nvcc[0], row)


def _open_nvcc_findings(spec: EnvironmentSpec, torch: NamedRelease | None) -> Iterator[Finding]:
    """An nvcc of any release beside a torch by pip: nothing that conda knows of binds the one to the other."""
    bound = spec.pin("cuda-version")
    if torch is None or not torch.text.startswith("pip: ") or (bound and bound.version):
        return
    pins = [pin for name in NVCC_PACKAGES for pin in spec.pins if pin.name == name]
    if not pins or any(pin.version or exact_release(pin, spec) for pin in pins):
        return
    yield _cuda_mix_finding(
        pins[0].name,
        f"{pins[0].yaml_text()} allows any release, but {torch.text} is built with CUDA {torch.release}: torch "
        "does not build extensions with an nvcc of another CUDA major version",
        FileEdit(how="write", entries=(f"{pins[0].name}={torch.release}",)),
        "warning",
        about=(pins[0].yaml_text(), torch.text),
    )


def _second_runtime_findings(
    spec: EnvironmentSpec, nvcc: tuple[NamedRelease, ...], torch: NamedRelease | None
) -> Iterator[Finding]:
    """``cudatoolkit`` of one release beside the CUDA of another."""
    pin = spec.pin("cudatoolkit")
    release = exact_release(pin, spec) if pin else None
    lead = torch if torch and pin and torch.text != pin.yaml_text() else next(iter(nvcc), None)
    bound = spec.pin("pytorch-cuda")
    if pin and bound and lead and release == lead.release:
        message = f"{pin.yaml_text()} contains the CUDA libraries again that {bound.yaml_text()} already installs"
        edit, about = FileEdit(how="remove", entries=(pin.yaml_text(),)), (pin.yaml_text(), bound.yaml_text())
        yield _cuda_mix_finding(pin.name, message, edit, "warning", about=about)
        return
    if pin is None or release is None or lead is None or release == lead.release:
        return
    if lead is torch and not spec.pin("pytorch-cuda") and release.major == lead.release.major:
        return  # conda-forge's builds for CUDA 11.2 run with a later cudatoolkit of CUDA 11
    message = f"{pin.yaml_text()} has libraries of CUDA {release}, but {lead.text} is built with CUDA {lead.release}"
    edit = FileEdit(how="remove", entries=(pin.yaml_text(),))
    yield _cuda_mix_finding(pin.name, message, edit, "warning", about=(pin.yaml_text(), lead.text))


def _library_build_findings(spec: EnvironmentSpec, torch: NamedRelease | None) -> Iterator[Finding]:
    """Packages of cuDNN and NCCL whose build string names another CUDA major version than torch has."""
    for pin in spec.pins if torch else ():
        found = _MAJOR.match(pin.build) if pin.name in _LIBRARIES else None
        if found and torch and int(found[1]) != torch.release.major:
            message = (
                f"{pin.yaml_text()} is built for CUDA {found[1]}, but {torch.text} is built with CUDA {torch.release}"
            )
            edit = FileEdit(how="write", entries=(replace(pin, build="").yaml_text(),))
            yield _cuda_mix_finding(pin.name, message, edit, "error", about=(pin.yaml_text(), torch.text))


def _cuda_mix_finding(
    subject: str, message: str, edit: FileEdit, severity: Severity, *, about: tuple[str, ...]
) -> Finding:
    return Finding(code="CU102", severity=severity, subject=subject, message=message, edits=(edit,), about=about)


def gcc_range(row: Cuda, *, conda_forge: bool = False) -> tuple[int, int] | None:
    """The majors of GCC that an nvcc accepts; ``None`` where no row says."""
    bounds = [item for item in (row.gcc_max, row.conda_gcc_max if conda_forge else None) if item]
    return (row.gcc_min or 0, min(bounds)) if bounds else None


def bounded_gcc(name: str, spec: EnvironmentSpec, knowledge: Knowledge) -> str:
    """The name of a package, with the newest major that nvcc of the file accepts where it is a GCC."""
    nvcc = nvcc_asked(spec) if _GCC.fullmatch(name) else ()
    row = knowledge.cuda(nvcc[0].release) if nvcc else None
    allowed = gcc_range(row) if row else None
    return f"{name}={allowed[1]}.*" if allowed else name


def _gcc_findings(spec: EnvironmentSpec, nvcc: NamedRelease, row: Cuda) -> Iterator[Finding]:
    """Findings on a GCC of the file that its nvcc does not accept."""
    allowed = gcc_range(row)
    for pin in spec.pins if allowed else ():
        demand = pin_demand(pin) if _GCC.fullmatch(pin.name) else None
        if demand is None or allowed is None:
            continue
        first, beyond = version(str(allowed[0])), version(str(allowed[1] + 1))
        majors = [version(str(major)) for major in range(allowed[0], allowed[1] + 1)]
        points = (*demand.points(), *majors, *(version(f"{item}.9") for item in majors), beyond, _LAST)
        admitted = [point for point in points if demand.admits(point)]
        good = [point for point in admitted if first <= point < beyond]
        compiler = next(filter(None, map(spec.pin, NVCC_PACKAGES)), None)
        # the records of conda-forge's nvcc bind GCC themselves
        if len(good) == len(admitted) or (good and cuda_home(compiler, spec) == "conda-forge"):
            continue
        edit = FileEdit(how="write", entries=(replace(pin, version=f"{allowed[1]}.*").yaml_text(),))
        says = f"nvcc {nvcc.release} ({nvcc.text}) accepts GCC {allowed[0] or ''} to {allowed[1]}".replace(
            "  to", " up to"
        )
        verb = "allows a newer GCC than nvcc" if good else "does not work with nvcc"
        yield _gcc_finding(pin.name, f"{pin.yaml_text()} {verb}: {says}", row, edit, "warning" if good else "error")


def locked_gcc_findings(packages: Iterable[LockedPackage], knowledge: Knowledge) -> Iterator[Finding]:
    """A GCC that is locked, or installed, beside an nvcc that refuses it."""
    there = {package.name: package for package in packages}
    nvcc = there.get("cuda-nvcc")
    gcc = next((package for name, package in there.items() if _GCC.fullmatch(name)), None)
    release, major = (version_or_none(item.version) if item else None for item in (nvcc, gcc))
    row = knowledge.cuda(minor(release)) if release else None
    allowed = gcc_range(row, conda_forge=nvcc is not None and nvcc.channel_name == "conda-forge") if row else None
    if gcc is None or nvcc is None or row is None or major is None or allowed is None:
        return
    if not allowed[0] <= major.major <= allowed[1]:
        message = (
            f"{gcc.name} {gcc.version} does not work with cuda-nvcc {nvcc.version}: nvcc {row.version} accepts GCC "
            f"{allowed[0]} to {allowed[1]}"
        )
        edit = FileEdit(how="add", entries=(f"{gcc.name}={allowed[1]}.*",))
        yield _gcc_finding(gcc.name, message, row, edit, "error")


def _gcc_finding(subject: str, message: str, row: Cuda, edit: FileEdit, severity: Severity) -> Finding:
    return Finding(
        code="CU117", severity=severity, subject=subject, message=message, evidence=tuple(row.sources), edits=(edit,)
    )
