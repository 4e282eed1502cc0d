"""``cuenv/host/1``: a machine as JSON, what ``cuenv inspect --json`` prints and ``--host`` reads.

Only ``schema``, ``platform`` and ``gpus`` are required, so that a person can write one by hand; of the driver the
version is enough. Reading is strict, and ``parse(dump(facts), ...)`` gives the facts back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from packaging.version import Version

from cuenv.core.errors import InputError
from cuenv.core.reading import Faults, Reader, describe, no_constant, unique_keys
from cuenv.core.record import asdict, replace
from cuenv.core.regex import regex
from cuenv.core.urls import one_line
from cuenv.core.versions import Capability, check_driver, version
from cuenv.host.facts import (
    LONGEST_NAME,
    THIS_MACHINE,
    Compiler,
    CudaLibrary,
    Driver,
    Evidence,
    FoundToolkit,
    FoundTorch,
    Gap,
    Gpu,
    HostFacts,
    Libc,
    LibraryPath,
    Mig,
    MigInstance,
    Resources,
    Surroundings,
    Switch,
)
from cuenv.host.request import pool
from cuenv.knowledge.rows import PLATFORMS

_MOST = 10**12  # more MiB than any machine has
_LATER = ("driver_capabilities", "device_nodes", "libcuda")


def gpu_plain(gpu: Gpu) -> dict[str, Any]:
    """A GPU as JSON, without modes that it does not have."""
    plain = {**asdict(gpu), "capability": gpu.capability and str(gpu.capability)}
    return {key: value for key, value in plain.items() if value is not None or key not in ("mig", "ecc")}


def surroundings_plain(around: Surroundings) -> dict[str, Any]:
    """The environment of the process as JSON."""
    plain = asdict(around)
    plain["library_path"] = [{"path": entry.path, "libraries": list(entry.libraries)} for entry in around.library_path]
    if around.device_nodes is not None:
        plain["device_nodes"] = list(around.device_nodes)
    return {key: value for key, value in plain.items() if value is not None or key not in _LATER}


def resources_plain(resources: Resources) -> dict[str, Any]:
    """Memory and disk as JSON, without unknown values."""
    return {key: value for key, value in asdict(resources).items() if value is not None}


def _mig(reader: Reader) -> Mig | None:
    mode = reader.one("mode", _switch)
    if mode is None:
        reader.faults.add(reader.at("mode"), "expected a mapping, got nothing")
    instances = reader.each("instances", _mig_instance)
    return Mig(mode=mode, instances=instances) if mode else None


def _mig_instance(reader: Reader) -> MigInstance:
    return MigInstance(profile=reader.text("profile"), memory_mib=amount(reader, "memory_mib"))


def _switch(reader: Reader) -> Switch | None:
    now = reader.get("on", bool, required=True)
    pending = reader.get("pending", bool, now)
    return None if now is None else Switch(on=now, pending=bool(pending))


def _surroundings(reader: Reader) -> Surroundings:
    return Surroundings(
        container=reader.get("container", str),
        wsl=reader.get("wsl", bool) or False,
        conda_prefix=reader.get("conda_prefix", str),
        virtual_env=reader.get("virtual_env", str),
        library_path=reader.each("library_path", _library_path),
        driver_capabilities=reader.get("driver_capabilities", str),
        device_nodes=reader.texts("device_nodes") if reader.has("device_nodes") else None,
        libcuda=reader.one("libcuda", _libcuda),
    )


def _library_path(reader: Reader) -> LibraryPath:
    return LibraryPath(path=reader.text("path"), libraries=reader.texts("libraries"))


def _libcuda(reader: Reader) -> CudaLibrary:
    return CudaLibrary(
        path=reader.text("path"),
        version=reader.parsed("version", check_driver),
        via=reader.get("via", str, "loader") or "",
        forward=reader.get("forward", bool) or False,
    )


def _resources(reader: Reader) -> Resources:
    names = ("memory_mib", "shm_mib", "disk_mib")
    return Resources(**{name: amount(reader, name) for name in names})


def amount(reader: Reader, key: str, default: int | None = None) -> int | None:
    """A plausible number that is not negative."""
    value = reader.get(key, int, default)
    if value is not None and not 0 <= value <= _MOST:
        what = "expected 0 or more" if value < 0 else f"expected at most {_MOST}"
        reader.faults.add(reader.at(key), f"{what}, got {describe(value)}")
        return default
    return value


SCHEMA = "cuenv/host/1"

_LONGEST = 4096  # characters of a text in a host file: what a path may have
_RELEASE = regex(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}")
HINT = "cuenv inspect --json > host.json"


def to_plain(facts: HostFacts, features: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The facts as JSON.

    A pool carries its ``members`` as whole hosts beside the merged facts; a single host has no such key. ``features``
    is what the tables say that its GPUs can do; it is no fact of the host, and is passed over in reading.
    """
    plain: dict[str, Any] = {"schema": SCHEMA, **_host(facts)}
    if features:
        plain["features"] = dict(features)
    if facts.members:
        plain["members"] = [_host(member) for member in facts.members]
    return plain


def dump(facts: HostFacts, features: Mapping[str, Any] | None = None, *, compact: bool = False) -> str:
    """The text of a host file, on one line if compact."""
    plain = _shown(to_plain(facts, features))
    return (json.dumps(plain, separators=(",", ":")) if compact else json.dumps(plain, indent=2)) + "\n"


def _shown(data: Any) -> Any:
    if isinstance(data, str):
        return one_line(data)
    if isinstance(data, dict):
        return {key: _shown(value) for key, value in data.items()}
    return [_shown(item) for item in data] if isinstance(data, (list, tuple)) else data


def _host(facts: HostFacts) -> dict[str, Any]:
    driver, libc = facts.driver, facts.libc
    return {
        "label": facts.label,
        **({"name": facts.name} if facts.name else {}),
        "detected": facts.detected,
        "platform": facts.platform,
        "kernel": facts.kernel,
        **({"archspec": facts.archspec} if facts.archspec else {}),
        "driver": driver and {**asdict(driver), "cuda": driver.cuda and str(driver.cuda)},
        "gpus": [gpu_plain(gpu) for gpu in facts.gpus],
        "libc": libc and {"family": libc.family, "version": str(libc.version)},
        "toolkits": [asdict(item) for item in facts.toolkits],
        "compilers": [asdict(item) for item in facts.compilers],
        "torch": [asdict(item) for item in facts.torch],
        "environment": surroundings_plain(facts.environment),
        **({"resources": resources} if (resources := resources_plain(facts.resources)) else {}),
        "gaps": [asdict(item) for item in facts.gaps],
        "evidence": [asdict(item) for item in facts.evidence],
    }


def parse(text: str, source: str, label: str) -> HostFacts:
    """Read a host file.

    Args:
        source: what to call the file in an error.
        label: what to call the host when the file gives it no label of its own.

    Raises:
        InputError: the text is no host of a schema that this version knows; all faults are named at once.
    """
    return read_plain(_load(text, source), source, label)


def read_plain(data: object, source: str, label: str) -> HostFacts:
    """Read the decoded JSON of a host file.

    Args:
        source: what to call it in an error.
        label: what to call the host when the document gives it no label of its own.

    Raises:
        InputError: it is no host of a schema that this version knows; all faults are named at once.
    """
    faults = Faults(source)
    _refuse_odd_texts(data, faults)
    reader = Reader(data, faults)
    schema = reader.text("schema") if isinstance(data, dict) else SCHEMA
    if schema and schema != SCHEMA:
        message = f"{source}: schema: expected {SCHEMA!r}, got {describe(schema)}"
        raise InputError(message, hint=f"write it again with this cuenv: {HINT}")
    facts = _read_host(reader, label)
    members = tuple(_read_members(reader, facts.platform, faults))
    reader.raw("features")  # what the tables said of it, read from them anew
    reader.done()
    if members and not faults.items:
        merged = replace(pool(members), label=facts.label)
        _compare(facts, merged, faults)
        facts = merged
    faults.check(hint=HINT)
    return facts


def _refuse_odd_texts(data: object, faults: Faults) -> None:
    """Refuse texts with unprintable characters, because other people write these files."""
    waiting: list[tuple[str, object]] = [("", data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{key}" if path else str(key), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", inner) for index, inner in reversed(list(enumerate(value)))]
        elif isinstance(value, str):
            odd = next((mark for mark in value if not mark.isprintable()), None)
            if odd is not None:
                faults.add(path, f"expected text on one line, got a control character (U+{ord(odd):04X})")
            elif len(value) > _LONGEST:
                faults.add(path, f"expected at most {_LONGEST} characters, got {len(value)}")


def _named(reader: Reader, key: str) -> str | None:
    """A name that may appear in messages."""
    name = reader.get(key, str)
    if name is not None and LONGEST_NAME < len(name) <= _LONGEST:
        reader.faults.add(reader.at(key), f"expected at most {LONGEST_NAME} characters, got {len(name)}")
    return name


def _load(text: str, source: str) -> object:
    if not text.strip():
        raise InputError(f"{source}: it is empty, expected the JSON of a host", hint=HINT)
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except RecursionError as error:
        raise InputError(f"{source}: nested too deeply for the JSON of a host", hint=HINT) from error
    except ValueError as error:
        raise InputError(f"{source}: not the JSON of a host: {error}", hint=HINT) from error


def _read_members(reader: Reader, platform: str, faults: Faults) -> Iterator[HostFacts]:
    for member in reader.readers("members"):
        facts = _read_host(member, member.text("label"))
        if facts.platform and facts.platform != platform:
            faults.add(member.at("platform"), f"expected {platform!r} like the pool, got {facts.platform!r}")
        member.done()
        yield facts


def _compare(written: HostFacts, merged: HostFacts, faults: Faults) -> None:
    for name in ("driver", "gpus", "libc", "kernel"):
        value = getattr(written, name)
        if value and value != getattr(merged, name):
            faults.add(name, "differs from what the members give together")


def _read_host(reader: Reader, label: str) -> HostFacts:
    members = reader.has("members") if not reader.path else False
    own = _named(reader, "label") or THIS_MACHINE
    return HostFacts(
        label=one_line(label) if own == THIS_MACHINE else own,
        name=_named(reader, "name") or "",
        platform=reader.parsed("platform", _one_of(*PLATFORMS), required=True) or "",
        detected=bool(reader.get("detected", bool, default=not members)),
        driver=reader.one("driver", _driver),
        gpus=_gpus(reader),
        libc=reader.one("libc", _libc),
        kernel=reader.get("kernel", str),
        archspec=reader.get("archspec", str),
        toolkits=reader.each("toolkits", _toolkit),
        compilers=reader.each("compilers", lambda item: Compiler(**_texts(item, "name", "path", "version"))),
        torch=reader.each("torch", _torch),
        environment=reader.one("environment", _surroundings) or Surroundings(),
        resources=reader.one("resources", _resources) or Resources(),
        evidence=reader.each("evidence", lambda item: Evidence(**_texts(item, "fact", "source", "text"))),
        gaps=reader.each("gaps", lambda item: Gap(**_texts(item, "fact", "source", "reason"))),
    )


def _texts(reader: Reader, *names: str) -> dict[str, str]:
    return {name: reader.text(name) for name in names}


def _driver(reader: Reader) -> Driver:
    return Driver(
        version=reader.parsed("version", check_driver),
        cuda=reader.parsed("cuda", _release),
        kernel_module=reader.parsed("kernel_module", check_driver),
        module_kind=reader.parsed("module_kind", _one_of("open", "proprietary")),
    )


def _gpus(reader: Reader) -> tuple[Gpu, ...]:
    found: list[Gpu] = []
    for position, item in enumerate(reader.readers("gpus", required=True)):
        gpu = Gpu(
            index=amount(item, "index", position) or 0,
            name=_named(item, "name") or "",
            capability=_capability(item),
            memory_mib=amount(item, "memory_mib"),
            mig=item.one("mig", _mig),
            ecc=item.one("ecc", _switch),
        )
        if any(gpu.index == other.index for other in found):
            item.faults.add(item.at("index"), f"{gpu.index} appears twice")
        item.done()
        found.append(gpu)
    return tuple(found)


def _capability(reader: Reader) -> Capability | None:
    """A capability as a string; the number 8.6 is refused, because 8.10 would be the number 8.1."""
    value = reader.raw("capability")
    if value is None or isinstance(value, str):
        return reader.parsed("capability", Capability.parse)
    reader.faults.add(reader.at("capability"), f"expected 'X.Y', got {describe(value)}")
    return None


def _libc(reader: Reader) -> Libc | None:
    family = reader.parsed("family", _one_of("glibc", "musl"), required=True)
    number = reader.parsed("version", _release, required=True)
    return Libc(family=family, version=number) if family and number else None


def _toolkit(reader: Reader) -> FoundToolkit:
    return FoundToolkit(
        path=reader.text("path"),
        release=reader.get("release", str),
        on_path=reader.get("on_path", bool) or False,
        via=reader.get("via", str, "directory") or "",
    )


def _torch(reader: Reader) -> FoundTorch:
    texts = _texts(reader, "where", "path", "version", "origin")
    return FoundTorch(cuda=reader.get("cuda", str), **texts)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(repr(name) for name in allowed)}, got {describe(text)}")
        return text

    return parse


def _release(text: str) -> Version:
    if not _RELEASE.fullmatch(text):
        raise ValueError(f"expected a release such as 12.2, got {describe(text)}")
    return version(text)
