"""Find the libraries that Python would open in an environment, from its folders and torch's files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from cuenv.binary.data import BinaryError
from cuenv.binary.loader import CacheEntry, Look, System, chosen, parse_ld_cache
from cuenv.core.io.files import DATA, is_file, names_in, reason_of
from cuenv.core.regex import regex
from cuenv.host.io.surroundings import read_small_file
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.conda_meta import built_extensions, files_of, torch_in
from cuenv.prefix.linkage.opening import Plan, Preload, Root, TorchPlan, stem_of
from cuenv.solve.environment_spec import normalise

_LIBRARIES = Path(DATA, "linkage", "libraries.json")
_SUFFIX = regex(r"nvidia-[a-z-]+(-cu\d+)")


@lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(_LIBRARIES.read_bytes())["libraries"]
    return found


def library_packages(prefix: Prefix) -> dict[str, str]:
    """The package of each library by its stem (``libcudart``): a conda package, or a wheel with the usual suffix."""
    conda = prefix.kind == "conda" and not any(wheel.name.startswith("nvidia-") for wheel in prefix.wheels)
    if conda:
        return {stem: row["conda"] for stem, row in _rows().items() if "conda" in row}
    suffixes = [found[1] for wheel in prefix.wheels if (found := _SUFFIX.fullmatch(wheel.name))]
    suffix = max(set(suffixes), key=suffixes.count) if suffixes else ""
    return {stem: row["wheel"] + suffix if "wheel" in row else "" for stem, row in _rows().items()}


_MOST_ENTRIES = 200_000
_DEPTH = 6
_SKIP = {"__pycache__", "include", "test", "tests", "share", "nvidia", "torch", "cmake"}
_TORCH_LIBRARIES = regex(r"lib(?:c10|torch|torch_cpu|torch_cuda|torch_python|c10_cuda)\.so")
# What these need is on few machines, and what holds them chooses among them or works without.
_OPTIONAL = regex(r"ffmpeg|sox|video_reader|rocm|hip|_xpu|_npu|tensorrt|mpi")
_PAIR = r"[\"'](\w{2,40})[\"']\s*[,:]\s*[\"'](lib\w{1,40}\.so[\w.*\[\]-]{0,40})[\"']"
_DIRECT = regex(r"_preload_cuda_(?:deps|lib)\(\s*" + _PAIR)
_SPARE = {"nvtx"}  # torch goes on without it
_BNB = regex(r"libbitsandbytes_cuda(\d+)[^/]*\.so")


def linkage_plan(prefix: Prefix, environ: Mapping[str, str], look: Look, stems: frozenset[str]) -> Plan:
    """The files to open.

    Args:
        environ: TORCH_EXTENSIONS_DIR and HOME name the folder of the extensions that torch compiled.
        stems: names of NVIDIA's libraries (``libcudart``), which are also opened alone.
    """
    home = next((folder for folder in prefix.site_packages if is_file(f"{folder}/torch/__init__.py")), None)
    torch = _torch_plan(Path(home), prefix) if home else None
    found = torch_in(home) if home else None
    cuda = found.cuda if found else None
    roots = [root for folder in prefix.site_packages for root in _extension_roots(folder, prefix, look, cuda)]
    for path in built_extensions(prefix, environ, cuda) if torch else ():
        roots.append(Root(path=path, label=path, kind="extension", needed=False, built=True))
    roots += _nvidia_roots(prefix, stems)
    return Plan(python=_python(prefix), torch=torch, roots=tuple(dict.fromkeys(roots)))


def own_libraries(prefix: Prefix) -> dict[str, tuple[str, ...]]:
    """The paths of the libraries in the environment's library folders, by file name."""
    folders = [f"{prefix.path}/lib", f"{prefix.path}/lib64"]
    for site in prefix.site_packages:
        folders += [f"{site}/torch/lib", *(f"{site}/nvidia/{name}/lib" for name in names_in(f"{site}/nvidia"))]
    found: dict[str, list[str]] = {}
    for folder in folders:
        for name in names_in(folder):
            if ".so" in name and is_file(f"{folder}/{name}"):
                found.setdefault(name, []).append(f"{folder}/{name}")
    return {name: tuple(paths) for name, paths in found.items()}


def _python(prefix: Prefix) -> str | None:
    names = (f"python{prefix.python}", "python3", "python")
    return next(filter(is_file, (os.path.realpath(f"{prefix.path}/bin/{name}") for name in names)), None)


def _torch_plan(site: Path, prefix: Prefix) -> TorchPlan:
    folder = site / "torch"
    first = folder / "lib/libtorch_global_deps.so"
    text = read_small_file(site, "torch/__init__.py").text
    direct = _DIRECT.findall(text)
    pairs = [pair for pair in re.findall(_PAIR, text) if pair not in direct]
    after = [*(pairs if "_preload_cuda_deps()" in text else []), *(pair for pair in direct if pair[0] not in _SPARE)]
    then = [
        Root(path=str(folder / name), label=f"torch/{name}", kind="torch", owner="torch")
        for name in names_in(folder)
        if re.fullmatch(r"_C\.(?:cpython-|abi3)[\w.-]*so|_C\.so", name)
    ]
    for name in ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so"):
        if is_file(folder / "lib" / name):
            label = f"torch/lib/{name}"
            then.append(Root(path=str(folder / "lib" / name), label=label, kind="torch", owner="torch", needed=False))
    return TorchPlan(
        first=Root(path=str(first), label="torch/lib/libtorch_global_deps.so", kind="torch", owner="torch")
        if is_file(first)
        else None,
        fallback=tuple(_preloads(pairs, prefix)),
        preloads=tuple(_preloads(after, prefix)),
        modules=tuple(then),
    )


def _preloads(pairs: list[tuple[str, str]], prefix: Prefix) -> Iterator[Preload]:
    """The file of each library that torch opens by path: in ``nvidia/FOLDER``, since CUDA 13 in ``nvidia/cu13``."""
    majors = {
        site: [f"nvidia/{name}" for name in names_in(f"{site}/nvidia") if re.fullmatch(r"cu\d+", name)]
        for site in prefix.site_packages
    }
    for folder, pattern in pairs:
        found = (
            f"{site}/{place}/lib/{name}"
            for site in prefix.site_packages
            for place in (f"nvidia/{folder}", *majors[site], folder)
            for name in names_in(f"{site}/{place}/lib")
            if fnmatch(name, pattern)
        )
        yield Preload(pattern=pattern, path=next(found, None))


def _extension_roots(site: str, prefix: Prefix, look: Look, cuda: str | None) -> Iterator[Root]:
    """The files that link to torch's libraries, and the library of bitsandbytes for this CUDA release."""
    for path in _shared_objects(site):
        label = path.removeprefix(f"{site}/")
        name = label.rsplit("/", 1)[-1]
        bnb = _BNB.fullmatch(name)
        if bnb and (cuda is None or bnb[1] != cuda.replace(".", "")):
            continue
        seen = look(path)
        needed = seen.elf.dynamic.needed if seen.elf and seen.elf.dynamic else ()
        if _OPTIONAL.search(label):
            continue
        if bnb or any(_TORCH_LIBRARIES.fullmatch(item) for item in needed):
            yield Root(path=path, label=label, kind="extension", owner=_owner(site, label, prefix))


def _owner(site: str, label: str, prefix: Prefix) -> str:
    """The distribution of an extension, by the name of its folder, otherwise by the RECORD that lists it.

    A module outside of folders may have another name: ``flash_attn_2_cuda.so`` belongs to flash-attn.
    """
    name = normalise(label.partition("/")[0].partition(".")[0])
    wheel = prefix.wheel(name) or next(
        (item for item in prefix.wheels if item.folder == site and label in files_of(item)), None
    )
    if wheel is None:
        return name if "/" in label else ""
    return wheel.conda if wheel.conda and not wheel.replaced else wheel.name


def _shared_objects(folder: str) -> Iterator[str]:
    """The ``.so`` files below a folder; links to folders are not followed."""
    left, stack = _MOST_ENTRIES, [(folder, 0)]
    while stack:
        here, depth = stack.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            left -= 1
            if left < 0:
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and entry.name not in _SKIP and not entry.name.endswith((".dist-info", ".libs")):
                    stack.append((entry.path, depth + 1))
            elif entry.name.endswith(".so") and is_file(entry.path):
                yield entry.path


def _nvidia_roots(prefix: Prefix, stems: frozenset[str]) -> Iterator[Root]:
    """NVIDIA's libraries in the environment, under the names that NEEDED entries use."""
    for name, paths in own_libraries(prefix).items():
        if stem_of(name) in stems and re.fullmatch(r"\.so\.\d+", name[len(stem_of(name)) :]):
            for path in paths:
                label = path.removeprefix(f"{prefix.path}/")
                yield Root(path=path, label=label, kind="library", needed=False)


_LIMIT = 64 * 1024 * 1024
_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_FOLDERS = regex(rb"(?:/[A-Za-z0-9._/+-]{1,200}/\0){2,16}")
_CACHE = regex(rb"/[A-Za-z0-9._/+-]{1,200}/ld\.so\.cache\0")
_LIB = regex(rb"\0(lib(?:64|x?32)?(?:/[a-z0-9_]+-linux-gnu)?)\0")
_MULTIARCH = regex(rb"\0(lib/[a-z0-9_]+-linux-gnu)\0")
# What each level asks for beyond the one below, as /proc/cpuinfo says it (x86-64 psABI, table 3.1).
_LEVELS = (
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


def loader_facts(
    environ: Mapping[str, str], machine: str, *, interpreter: str | None = None, root: Path = Path("/")
) -> tuple[System, tuple[str, ...]]:
    """How the loader of this machine searches, and one sentence for each file that could not be read.

    Args:
        environ: LD_LIBRARY_PATH and LD_PRELOAD are read from it.
        machine: ``x86_64`` or ``aarch64``.
        interpreter: the loader that the environment's Python names.
        root: the root of the file system.
    """
    notes: list[str] = []
    loader = _read_bytes(root, interpreter or _LOADERS.get(machine, ""), notes)
    plain = System()
    folders = [found[0].rstrip(b"\0").split(b"\0") for found in _FOLDERS.finditer(loader)]
    listed = next((found for found in folders if any(b"lib" in folder for folder in found)), None)
    cached = _CACHE.search(loader)
    cache = os.fsdecode(cached[0][:-1]) if cached else "/etc/ld.so.cache"
    lib = _MULTIARCH.search(loader) or _LIB.search(loader)
    hwcaps = _hwcaps(root) if machine == "x86_64" and b"glibc-hwcaps" in loader else ()
    return System(
        library_path=environ.get("LD_LIBRARY_PATH", ""),
        preload=environ.get("LD_PRELOAD", ""),
        cache=chosen(read_cache(root, cache, notes), machine, hwcaps),
        defaults=tuple(os.fsdecode(folder).rstrip("/") for folder in listed) if listed else plain.defaults,
        hwcaps=hwcaps,
        lib=os.fsdecode(lib[1]) if lib else plain.lib,
        platform="haswell" if "x86-64-v3" in hwcaps else machine,
        cwd=_cwd(),
    ), tuple(notes)


def _read_bytes(root: Path, path: str, notes: list[str]) -> bytes:
    if not path:
        return b""
    place = root / path.lstrip("/")
    if os.path.exists(place) and not is_file(place):  # noqa: PTH110 - never an error
        notes.append(f"{path}: it is not a regular file")  # a pipe would never end
        return b""
    try:
        with place.open("rb") as stream:
            return stream.read(_LIMIT)
    except (OSError, ValueError) as error:
        notes.append(f"{path}: {reason_of(error)}")
        return b""


def read_cache(root: Path, path: str, notes: list[str]) -> tuple[CacheEntry, ...]:
    """The entries of the loader's cache; if it cannot be read, no entries, and a note."""
    data = _read_bytes(root, path, notes)
    if not data:
        return ()
    try:
        return parse_ld_cache(data)
    except BinaryError as error:
        notes.append(f"{path}: {error.reason}")
        return ()


def _hwcaps(root: Path) -> tuple[str, ...]:
    """The glibc-hwcaps subfolders that this processor supports, best first."""
    found = re.search(r"^flags\s*:(.*)$", read_small_file(root, "proc/cpuinfo").text, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    levels: list[str] = []
    for name, needs in _LEVELS:
        if not needs <= flags:
            break
        levels.append(name)
    return tuple(reversed(levels))


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - text is wanted
    except OSError:
        return "/"
