"""The part of ``cuenv/host/1`` that tells states: MIG, ECC, what encloses the process, memory and disk.

Every key here came after the first records, and may be left out: it is then unknown, as it was when they were written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cuenv.facts import Gpu, LibraryPath, Resources, Surroundings
from cuenv.reading import Reader, describe
from cuenv.versions import check_driver

if TYPE_CHECKING:  # see `cuenv.facts`
    from cuenv.host_state import CudaLibrary, Mig, Switch

_MOST = 10**12
"""More MiB than any machine has."""
_LATER = ("driver_capabilities", "device_nodes", "libcuda")


def gpu_plain(gpu: Gpu) -> dict[str, Any]:
    """A GPU as JSON-ready data; a mode that it has not is left out."""
    plain = {**asdict(gpu), "capability": gpu.capability and str(gpu.capability)}
    return {key: value for key, value in plain.items() if value is not None or key not in ("mig", "ecc")}


def surroundings_plain(around: Surroundings) -> dict[str, Any]:
    """What encloses the process, as JSON-ready data."""
    plain = asdict(around)
    plain["library_path"] = [{"path": entry.path, "libraries": list(entry.libraries)} for entry in around.library_path]
    if around.device_nodes is not None:
        plain["device_nodes"] = list(around.device_nodes)
    return {key: value for key, value in plain.items() if value is not None or key not in _LATER}


def resources_plain(resources: Resources) -> dict[str, Any]:
    """Memory and disk as JSON-ready data; what is not known is left out."""
    return {key: value for key, value in asdict(resources).items() if value is not None}


def read_mig(reader: Reader | None) -> Mig | None:
    """The MIG mode of a GPU, or ``None``."""
    if reader is None:
        return None
    from cuenv.host_state import Mig, MigInstance  # noqa: PLC0415 - see `cuenv.facts`

    mode = read_switch(reader.reader("mode"))
    if mode is None:
        reader.faults.add(reader.at("mode"), "expected a mapping, got nothing")
    instances = []
    for item in reader.readers("instances"):
        instances.append(MigInstance(profile=item.text("profile"), memory_mib=amount(item, "memory_mib")))
        item.done()
    reader.done()
    return Mig(mode=mode, instances=tuple(instances)) if mode else None


def read_switch(reader: Reader | None) -> Switch | None:
    """A mode with what it will be, or ``None``."""
    if reader is None:
        return None
    from cuenv.host_state import Switch  # noqa: PLC0415 - see `cuenv.facts`

    now = reader.get("on", bool, required=True)
    pending = reader.get("pending", bool, now)
    reader.done()
    return None if now is None else Switch(on=now, pending=bool(pending))


def read_surroundings(reader: Reader | None) -> Surroundings:
    """What encloses the process."""
    if reader is None:
        return Surroundings()
    entries = []
    for item in reader.readers("library_path"):
        entries.append(LibraryPath(path=item.text("path"), libraries=item.texts("libraries")))
        item.done()
    found = Surroundings(
        container=reader.get("container", str),
        wsl=reader.get("wsl", bool) or False,
        conda_prefix=reader.get("conda_prefix", str),
        virtual_env=reader.get("virtual_env", str),
        library_path=tuple(entries),
        driver_capabilities=reader.get("driver_capabilities", str),
        device_nodes=reader.texts("device_nodes") if reader.has("device_nodes") else None,
        libcuda=_libcuda(reader.reader("libcuda")),
    )
    reader.done()
    return found


def _libcuda(reader: Reader | None) -> CudaLibrary | None:
    if reader is None:
        return None
    from cuenv.host_state import CudaLibrary  # noqa: PLC0415 - see `cuenv.facts`

    found = CudaLibrary(
        path=reader.text("path"),
        version=reader.parsed("version", check_driver),
        via=reader.get("via", str, "loader") or "",
        forward=reader.get("forward", bool) or False,
    )
    reader.done()
    return found


def read_resources(reader: Reader | None) -> Resources:
    """Memory and disk."""
    if reader is None:
        return Resources()
    found = Resources(
        memory_mib=amount(reader, "memory_mib"),
        shm_mib=amount(reader, "shm_mib"),
        disk_mib=amount(reader, "disk_mib"),
    )
    reader.done()
    return found


def amount(reader: Reader, key: str, default: int | None = None) -> int | None:
    """A number that is not below 0, and that a machine can have."""
    value = reader.get(key, int, default)
    if value is not None and not 0 <= value <= _MOST:
        what = "expected 0 or more" if value < 0 else f"expected at most {_MOST}"
        reader.faults.add(reader.at(key), f"{what}, got {describe(value)}")
        return default
    return value
