"""Find the CUDA toolchain that a build of an extension would use, and compile a sample with it.

The order of the search is that of ``torch.utils.cpp_extension`` (as in torch 1.13 to 2.13).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cuenv.core.io.files import is_file, is_folder, names_in, private_folder, text_at
from cuenv.core.io.process import run, which
from cuenv.core.reading import shell_words
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import printable
from cuenv.core.versions import Capability, version
from cuenv.host.io.toolkits import parse_compiler, parse_nvcc, release_in, toolkit_root
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.conda_meta import files_of
from cuenv.prefix.toolchain.toolchain import (
    BuildFolder,
    Compilation,
    CompilerBounds,
    CudaToolchain,
    HostCompiler,
    Nvcc,
    gencode,
    library_of,
    sample_source,
)

_GCC = regex(r"^[ \t]*#[ \t]*if[ \t]+\(?[ \t]*__GNUC__[ \t]*(>=?)[ \t]*([0-9]{1,3})\b", re.MULTILINE)
_CLANG = regex(
    r"^[ \t]*#[ \t]*if[ \t]+defined\(__clang__\)[^\n]*\n\s*#[ \t]*if[ \t]+\(?[ \t]*"
    r"\(?__clang_major__[ \t]*(>=?)[ \t]*([0-9]{1,3})\b",
    re.MULTILINE,
)


def parse_host_config(text: str) -> CompilerBounds | None:
    """The newest major versions of gcc and clang that ``host_config.h`` accepts; ``None`` if it has no bound for gcc.

    The header names no lower bound for gcc; that of clang (3.3) is older than any in use.
    """
    gcc = _bound(_GCC, text)
    return None if gcc is None else CompilerBounds(gcc_max=gcc, clang_max=_bound(_CLANG, text))


def _bound(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return (int(found[2]) - (found[1] == ">=")) if found else None


_COMPILER_SECONDS = 20.0
_CACHES = frozenset({"ccache", "sccache", "distcc", "icecc"})
_PROGRAM = regex(
    r"(?P<triple>[\w.-]+-)?(?P<kind>g\+\+|gcc|c\+\+|cc|clang\+\+|clang)(?:-(?P<number>[0-9]{1,3}(?:\.[0-9]{1,3}){0,2}))?"
)
_RECORD = regex(r"g(?:cc|xx)(?:_impl)?_linux-[a-z0-9]{1,20}-([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})-[^-]{1,80}\.json")
_CCBIN = regex(r"--?(?:ccbin|compiler-bindir)(?:=(.*))?", re.DOTALL)


def find_host_compilers(environ: Mapping[str, str], *, running: bool) -> tuple[HostCompiler, ...]:
    """The compiler of C++ files, then the one that nvcc calls.

    torch takes ``CXX`` for the first, and tells nvcc to call ``CC``. nvcc takes the last that it is told: by
    NVCC_APPEND_FLAGS, by its command line, by NVCC_PREPEND_FLAGS, by NVCC_CCBIN; else the gcc on PATH.

    Args:
        running: whether the compilers may be run for their versions; otherwise files beside them are read.
    """
    named = (environ["CXX"], "CXX") if environ.get("CXX") else ("c++", "PATH")
    found = []
    for does, (asked, via) in (("C++", named), ("nvcc", nvcc_host(environ))):
        compiler = HostCompiler(role=does, asked=asked, via=via, path=_find_compiler(asked, environ))
        if compiler.path:
            compiler = (
                _ask_version(compiler, compiler.path, environ) if running else _read_version(compiler, compiler.path)
            )
        found.append(compiler)
    return tuple(found)


def nvcc_host(environ: Mapping[str, str]) -> tuple[str, str]:
    """The host compiler that nvcc calls, and the variable that names it."""
    for name, value in (
        ("NVCC_APPEND_FLAGS", ccbin_option(environ.get("NVCC_APPEND_FLAGS", ""))),
        ("CC", environ.get("CC")),
        ("NVCC_PREPEND_FLAGS", ccbin_option(environ.get("NVCC_PREPEND_FLAGS", ""))),
        ("NVCC_CCBIN", environ.get("NVCC_CCBIN")),
    ):
        if value:
            return value, name
    return "gcc", "PATH"


def ccbin_option(flags: str) -> str | None:
    """The host compiler in the last ``-ccbin`` of nvcc's options."""
    words, found = shell_words(flags), None
    for word, after in zip(words, [*words, ""][1:], strict=True):
        match = _CCBIN.fullmatch(word)
        if match:
            found = match[1] if match[1] is not None else after
    return found or None


def _ask_version(compiler: HostCompiler, path: str, environ: Mapping[str, str]) -> HostCompiler:
    # clang knows -dumpversion alone, gcc answers with its major to that.
    for kind, question in (("gcc", ("-dumpfullversion", "-dumpversion")), ("clang", ("-dumpversion",))):
        done = run([path, *question], _COMPILER_SECONDS, environ)
        number = parse_compiler(done.out)
        if done.reason is None and number:
            return replace(compiler, kind=kind, version=number)
    return compiler


def _read_version(compiler: HostCompiler, path: str) -> HostCompiler:
    """The compiler with the version that its files name, such as ``lib/gcc/x86_64-conda-linux-gnu/13.3.0``."""
    real = Path(os.path.realpath(path))
    found = _PROGRAM.fullmatch(real.name)
    kind = "" if found is None else "clang" if found["kind"].startswith("clang") else "gcc"
    number = _version_in_conda_meta(real, kind) if found else None
    if found and number is None and not _is_script(real):  # a script may call another one
        number = _version_in_folders(real, kind, found)
    return replace(compiler, kind=kind if number else "", version=number, unread=number is None)


def _version_in_conda_meta(real: Path, kind: str) -> str | None:
    """The version of a conda gcc by the file names in conda-meta."""
    names = names_in(real.parent.parent / "conda-meta") if kind == "gcc" else ()
    found = {match[1] for name in names if (match := _RECORD.fullmatch(name))}
    return found.pop() if len(found) == 1 else None


def _version_in_folders(real: Path, kind: str, name: re.Match[str]) -> str | None:
    """The version of a compiler by the folders of its libraries; of several, the one in the compiler's name."""
    root = real.parent.parent
    if kind == "clang":
        folders = [root / lib / "clang" for lib in ("lib", "lib64")]
    else:
        own = (name["triple"] or "").rstrip("-")
        bases = [root / lib / "gcc" for lib in ("lib", "lib64", "libexec")]
        folders = [base / triple for base in bases for triple in names_in(base) if triple == own or not own]
    found = {number for folder in folders for number in names_in(folder) if parse_compiler(number) == number}
    named = name["number"]
    if named:
        found = {number for number in found if f"{number}.".startswith(f"{named}.")} or {named}
    return found.pop() if len(found) == 1 else None


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return True


def _find_compiler(asked: str, environ: Mapping[str, str]) -> str | None:
    """The path of a compiler, without a cache such as ccache in front; for a folder, its gcc, as nvcc does."""
    whole = asked.strip()
    words = [whole] if is_file(whole) or is_folder(whole) else shell_words(whole)
    while len(words) > 1 and Path(words[0]).name in _CACHES:
        words = words[1:]
    if not words:
        return None
    name = words[0]
    if "/" not in name:
        return which(name, environ)
    if is_folder(name):
        name = f"{name}/gcc"
    return name if is_file(name) else None


_SECONDS = 20.0
_TARGETS = {"linux-64": ("x86_64-linux",), "linux-aarch64": ("sbsa-linux", "aarch64-linux")}
_CODE = regex(r"\bsm_([0-9]{2,3})\b")
_BARE = regex(r"[0-9]{1,2}\.[0-9]{1,2}")
_NVCC_WHEEL = regex(r"nvidia_cuda_nvcc(?:_cu[0-9]{2})?-([0-9]{1,2}\.[0-9]{1,2})\.[0-9.]{1,20}\.dist-info")
_SPLAYED = regex(r"""["']targets["'],\s*["']([\w-]{1,40})["'],\s*["']include["']""")
_TORCH_HEADERS = tuple(f"ATen/cuda/{name}.h" for name in ("CUDAContext", "CUDAContextLight"))
_INCLUDED = regex(r"""^[ \t]*#[ \t]*include[ \t]*[<"]((?:cu|nccl)\w{0,40}\.h)[>"]""", re.MULTILINE)
_SYSTEM_INCLUDES = ("/usr/local/include", "/usr/include")
_SYSTEM_LIBRARIES = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)


def nvccs_in(prefix: Prefix) -> tuple[str, ...]:
    """The nvcc programs in an environment: conda's, then those of NVIDIA's wheels."""
    places = [prefix.path, *wheel_folders(prefix)]
    return tuple(path for place in places if os.access(path := f"{place}/bin/nvcc", os.X_OK) and is_file(path))


def target_folders(prefix: Prefix, platform: str) -> tuple[str, ...]:
    """The folders with the headers and libraries of conda's CUDA packages, such as ``targets/x86_64-linux``."""
    found = (f"{prefix.path}/targets/{name}" for name in _TARGETS[platform])
    return tuple(folder for folder in found if is_folder(folder))


def wheel_folders(prefix: Prefix) -> Iterator[str]:
    """The folders of NVIDIA's wheels: ``nvidia/cu13``, ``nvidia/cusparse``."""
    for site in prefix.site_packages:
        for name in names_in(f"{site}/nvidia"):
            if is_folder(f"{site}/nvidia/{name}"):
                yield f"{site}/nvidia/{name}"


def torch_includes(prefix: Prefix) -> tuple[str, ...]:
    """The names of the CUDA headers that torch's headers include."""
    found: dict[str, None] = {}
    for folder in (*(f"{site}/torch/include" for site in prefix.site_packages), f"{prefix.path}/include"):
        for name in _TORCH_HEADERS:
            found |= dict.fromkeys(_INCLUDED.findall(text_at(f"{folder}/{name}")))
    return tuple(found)


def built_libraries(prefix: Prefix, names: Collection[str]) -> frozenset[str]:
    """The named distributions that contain compiled modules."""
    wheels = [wheel for wheel in prefix.wheels if wheel.name in names]
    return frozenset(wheel.name for wheel in wheels if any(name.endswith(".so") for name in files_of(wheel)))


def find_toolchain(
    prefix: Prefix, platform: str, headers: Iterable[str], environ: Mapping[str, str], *, running: bool
) -> CudaToolchain:
    """Find everything that a build would use.

    Args:
        platform: selects the target folder of conda's CUDA packages.
        running: whether compilers may be run for their versions; otherwise files beside them are read.
    """
    home, via = find_cuda_home(environ)
    compilers = find_host_compilers(environ, running=running)
    splayed = target_folders(prefix, platform)
    # conda's compilers only search their own sysroot.
    outside = not any(item.path and item.path.startswith(f"{prefix.path}/") for item in compilers)
    includes = _torch_include_folders(prefix, home, environ)
    includes += [f"{prefix.path}/include"] if prefix.kind == "conda" else []
    looks = [*includes, *_path_entries(environ, "CPATH"), *_path_entries(environ, "CPLUS_INCLUDE_PATH")]
    looks += _SYSTEM_INCLUDES if outside else ()
    wheels = tuple(wheel_folders(prefix))
    places = dict.fromkeys([*looks, *(f"{folder}/include" for folder in (prefix.path, *splayed, *wheels))])
    names = tuple(headers)
    libraries = [*library_folders(home), *_path_entries(environ, "LIBRARY_PATH")]
    libraries += [f"{prefix.path}/lib"] if prefix.kind == "conda" else []
    libraries += _SYSTEM_LIBRARIES if outside else ()
    wanted = {name for name in map(library_of, names) if name}
    further = [f"{folder}/lib" for folder in (*splayed, *wheels)]
    return CudaToolchain(
        nvcc=read_nvcc(home, via, running=running) if home else None,
        inside=nvccs_in(prefix),
        home=home,
        named={name: environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)},
        includes=tuple(item for item in dict.fromkeys(includes) if item != "/usr/include"),  # gcc wants it last
        include_path=tuple(dict.fromkeys(looks)),
        headers={name: tuple(place for place in places if is_file(f"{place}/{name}")) for name in names},
        links=frozenset(name for name in wanted if any(is_file(f"{folder}/lib{name}.so") for folder in libraries)),
        versioned=dict(_versioned_libraries(wanted, [*libraries, *further])),
        ninja=which("ninja", environ),
        compilers=compilers,
        folder=_build_folder(environ),
    )


def find_cuda_home(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The folder that torch uses as CUDA_HOME, and the variable that names it."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            return environ[name].rstrip("/") or "/", name
    nvcc = which("nvcc", environ)
    if nvcc:
        return str(Path(nvcc).parent.parent), "PATH"
    return ("/usr/local/cuda", "/usr/local/cuda") if is_folder("/usr/local/cuda") else (None, "")


def read_nvcc(home: str, via: str, *, running: bool) -> Nvcc:
    """The nvcc of a toolkit, by its output if it may be run, otherwise by the files around it."""
    path = f"{home}/bin/nvcc"
    if not is_file(path):
        return Nvcc(path=path, via=via, reason="no such file")
    if not running:
        told = _wheels_release(home) or next((item[0] for item in map(release_in, _roots(home, path)) if item), None)
        known = _BARE.match(told or "")
        bounds = _bounds(home, path)
        return Nvcc(path=path, via=via, release=version(known[0]) if known else None, bounds=bounds)
    done = run([path, "--version"], _SECONDS)
    release = parse_nvcc(done.out)
    if release is None:
        return Nvcc(path=path, via=via, reason=done.reason or "it names no release")
    listed = run([path, "--list-gpu-code"], _SECONDS)
    numbers = sorted({int(number) for number in _CODE.findall(listed.out)}) if listed.reason is None else []
    return Nvcc(
        path=path,
        via=via,
        release=version(release),
        targets=tuple(Capability(number // 10, number % 10) for number in numbers),
        bounds=_bounds(home, path),
    )


def _roots(home: str, nvcc: str) -> tuple[str, ...]:
    """The folders of a toolkit: the one that was named, and the one that its nvcc is really in."""
    return tuple(dict.fromkeys((home, toolkit_root(nvcc))))


def _wheels_release(home: str) -> str | None:
    """The release of an nvcc from a wheel, by the name of its dist-info."""
    site, folder, _ = home.rpartition("/nvidia/")
    found = filter(None, map(_NVCC_WHEEL.fullmatch, names_in(site))) if folder else ()
    return next((match[1] for match in found), None)


def _bounds(home: str, nvcc: str) -> CompilerBounds | None:
    for base in _roots(home, nvcc):
        folders = (f"{base}/include", *(f"{base}/targets/{name}/include" for name in names_in(f"{base}/targets")))
        for folder in folders:
            found = parse_host_config(text_at(f"{folder}/crt/host_config.h"))
            if found:
                return found
    return None


def _torch_include_folders(prefix: Prefix, home: str | None, environ: Mapping[str, str]) -> list[str]:
    """The folders for CUDA headers that torch passes to the compiler; for conda-forge's torch 2.11 those in targets."""
    texts = (text_at(f"{site}/torch/utils/cpp_extension.py") for site in prefix.site_packages)
    text = next((item for item in texts if item), "")
    splayed = _SPLAYED.search(text)
    conda = environ.get("CONDA_PREFIX")
    if splayed:
        return [f"{conda}/targets/{splayed[1]}/include"] if conda else []
    folders = [f"{home}/include"] if home else []
    folders += [environ["CUDA_INC_PATH"]] if environ.get("CUDA_INC_PATH") else []
    cudnn = environ.get("CUDNN_HOME") or environ.get("CUDNN_PATH")
    return folders + ([f"{cudnn}/include"] if cudnn else [])


def library_folders(home: str | None) -> list[str]:
    """The folder of a toolkit's libraries that torch links with: ``lib64``, or ``lib`` where only that exists."""
    if home is None:
        return []
    return [f"{home}/lib" if not is_folder(f"{home}/lib64") and is_folder(f"{home}/lib") else f"{home}/lib64"]


def find_unlinked(stem: str, folders: Iterable[str]) -> str | None:
    """A versioned file of a library that ``-l`` does not find for lack of a plain link; ``None`` if it finds one."""
    places = tuple(dict.fromkeys(folders))
    if any(is_file(f"{folder}/lib{stem}.so") for folder in places):
        return None
    return dict(_versioned_libraries({stem}, places)).get(stem)


def _path_entries(environ: Mapping[str, str], name: str) -> list[str]:
    return [part.rstrip("/") for part in environ.get(name, "").split(":") if part.startswith("/")]


def _versioned_libraries(libraries: set[str], folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for folder in reversed([*dict.fromkeys(folders)]):
        for name in names_in(folder):
            stem, dot, _ = name.removeprefix("lib").partition(".so.")
            if dot and stem in libraries:
                yield stem, f"{folder}/{name}"


def _build_folder(environ: Mapping[str, str]) -> BuildFolder | None:
    """The folder in which torch builds; if it does not exist, the nearest folder above must be writable."""
    path, via = environ.get("TORCH_EXTENSIONS_DIR"), "TORCH_EXTENSIONS_DIR"
    if path is None:
        home = environ.get("HOME")
        cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
        if cache is None:
            return None
        path, via = f"{cache}/torch_extensions", "torch's own choice"
    real = Path(os.path.realpath(path))
    there = next((item for item in (real, *real.parents) if os.path.lexists(item)), real)
    reason = None
    if not is_folder(there):
        reason = f"{there} is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} is not writable"
    elif os.statvfs(there).f_flag & os.ST_NOEXEC:
        reason = f"{there} is mounted noexec, so libraries built there cannot be loaded"
    return BuildFolder(path=str(real), via=via, reason=reason)


SECONDS = 180.0
"""The time limit of one call of a compiler, long enough for large headers and many architectures on a slow disk."""

_TAIL = 6
_MARKS = ("error", "fatal", "undefined", "cannot find", "not found", "killed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTools:
    """The programs and folders that a build of a CUDA extension uses."""

    nvcc: str
    cxx: str | None = None  # the C++ compiler, which compiles C++ files and links
    # the value of nvcc's option ``-ccbin``; ``None`` to leave the choice to nvcc and its variables
    ccbin: str | None = None
    includes: tuple[str, ...] = ()  # the folders that torch passes with ``-isystem``
    libraries: tuple[str, ...] = ()  # the folders for ``-L``
    environ: Mapping[str, str] = field(default_factory=dict)


def compile_cuda(
    source: Path, target: Path, tools: BuildTools, *, capabilities: Sequence[Capability] = ()
) -> Compilation:
    """Compile a ``.cu`` file to an object as torch does."""
    host = ["-ccbin", tools.ccbin] if tools.ccbin else []
    command = [
        *(tools.nvcc, *host),
        *_includes(tools),
        *gencode(capabilities),
        *("--compiler-options", "-fPIC"),
        *("-c", str(source), "-o", str(target)),
    ]
    return _call(command, target, tools)


def _compile_host(cxx: str, source: Path, target: Path, tools: BuildTools) -> Compilation:
    """Compile a C++ file that includes CUDA headers, as torch does."""
    command = [cxx, *_includes(tools), "-fPIC", "-std=c++17", "-c", str(source), "-o", str(target)]
    return _call(command, target, tools)


def _link(cxx: str, objects: Sequence[Path], target: Path, tools: BuildTools) -> Compilation:
    """Link objects to a shared library with the CUDA runtime, as torch does."""
    folders = [f"-L{folder}" for folder in tools.libraries]
    command = [cxx, *map(str, objects), "-shared", *folders, "-lcudart", "-o", str(target)]
    return _call(command, target, tools)


def compile_sample(
    tools: BuildTools,
    *,
    headers: Sequence[str],
    plain: Sequence[str],
    capabilities: Sequence[Capability] = (),
    runtime: bool = True,
) -> tuple[Compilation, ...]:
    """Build a small extension: a CUDA file, a C++ file if there is a compiler for it, and a library of both.

    The library is not linked if a file did not compile.

    Args:
        headers: the headers that the CUDA file includes.
        plain: the headers that the C++ file includes.
        capabilities: the targets; empty to leave the choice to nvcc.
        runtime: whether to link with ``-lcudart``, as every extension does.
    """
    with private_folder("build") as folder:
        (folder / "probe.cu").write_text(sample_source(headers, device=True), encoding="utf-8")
        (folder / "probe_host.cpp").write_text(sample_source(plain, device=False), encoding="utf-8")
        private = replace(tools, environ={**tools.environ, "TMPDIR": str(folder)})
        objects = [folder / "probe.o", folder / "probe_host.o"]
        done = [compile_cuda(folder / "probe.cu", objects[0], private, capabilities=capabilities)]
        if tools.cxx:
            done.append(_compile_host(tools.cxx, folder / "probe_host.cpp", objects[1], private))
            if runtime and not any(item.reason for item in done):
                done.append(_link(tools.cxx, objects, folder / "probe.so", private))
        return tuple(_without_folder(item, folder) for item in done)


def _includes(tools: BuildTools) -> list[str]:
    return [word for folder in tools.includes for word in ("-isystem", folder)]


def _call(command: list[str], target: Path, tools: BuildTools) -> Compilation:
    start = time.monotonic()
    done = run(command, SECONDS, tools.environ, more=tools.environ, folder=str(target.parent))
    reason = done.reason
    if reason is None and not os.path.lexists(target):
        reason = f"it did not write {target.name}"
    return Compilation(
        what=target.name,
        command=tuple(command),
        seconds=time.monotonic() - start,
        tail=_error_lines(f"{done.out}\n{done.err}") if reason else (),
        reason=reason,
    )


def _error_lines(text: str) -> tuple[str, ...]:
    """At most six lines from the first error on; the last six lines if no line names an error."""
    lines = [printable(line.strip())[:400] for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if any(mark in line.lower() for mark in _MARKS)), None)
    return tuple(lines[-_TAIL:] if start is None else lines[start : start + _TAIL])


def _without_folder(item: Compilation, folder: Path) -> Compilation:
    """The result without the path of the temporary folder."""
    gone = f"{folder}/"
    return replace(
        item,
        command=tuple(word.replace(gone, "") for word in item.command),
        tail=tuple(line.replace(gone, "") for line in item.tail),
    )
