"""conda-lock.yml: conda-lock's own models, renderer and hash are the judges."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import quick_yaml
from cases import collect
from cuenv.core.errors import InputError
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.formats import explicit_txt
from cuenv.lockfile.formats.conda_lock import content_hash, parse, render
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Lock, LockedPackage, Solution, parse_package_url
from thorough import examples

BASE = "https://conda.anaconda.org/conda-forge"
MD5 = "0123456789abcdef0123456789abcdef"
SHA256 = "00112233445566778899aabbccddeeff" * 2
VIRTUAL = (
    VirtualPackage("__archspec", "1", "x86_64"),
    VirtualPackage("__cuda", "12.2"),
    VirtualPackage("__cuda_arch", "8.0"),
    VirtualPackage("__glibc", "2.31"),
    VirtualPackage("__linux", "5.10"),
    VirtualPackage("__unix", "0"),
)


def package(
    name: str, version: str = "1.0", build: str = "h0_0", subdir: str = "linux-64", **more: Any
) -> LockedPackage:
    channel = more.pop("channel", BASE)
    ending = more.pop("ending", ".conda")
    values: dict[str, Any] = {
        "md5": MD5,
        "sha256": SHA256,
        "url": f"{channel}/{subdir}/{name}-{version}-{build}{ending}",
    }
    values.update(more)
    return LockedPackage(name=name, version=version, build=build, subdir=subdir, channel=channel, **values)


PACKAGES = (
    package("_libgcc_mutex", "0.1", "conda_forge"),
    package("libcudnn", "9.10.2", "h1_0", sha256=None, depends=("__glibc >=2.28,<3.0.a0", "cuda-version >=12,<13.0a0")),
    package("pip", "25.0", "pyh_0", subdir="noarch", depends=("python >=3.9,<3.13.0a0",)),
    package("python", "3.12.8", "h9_1_cpython", depends=("_libgcc_mutex 0.1 conda_forge", "pip")),
    package("pytorch", "2.12.0", "cuda129_py312_0", depends=("libcudnn", "python >=3.12,<3.13.0a0 *_cpython")),
    package("x264", "1!164.3095", "h1_2", ending=".tar.bz2"),
)
SPEC = EnvironmentSpec(
    name="dev",
    channels=("conda-forge", "nvidia/label/cuda-11.8.0"),
    pins=(
        Pin(name="pytorch", version="2.12.0", build="cuda129*", channel="conda-forge", why=("why",)),
        Pin(name="python", version="3.12"),
        Pin(name="libcudnn", version=">=9,<9.11", build="h*"),
        Pin(name="x264", version="==1!164.3095"),
        Pin(name="numpy", version="1.26.*|==2.0"),
        Pin(name="scipy", version="==1.14|==1.15"),
        Pin(name="sympy", version="!=1.13.2"),
        Pin(name="ninja"),
        Pin(name="openblas", build="*openmp*"),
        Pin(name="cuda-toolkit", version="11.8", channel="nvidia/label/cuda-11.8.0"),
    ),
    platforms=("linux-64",),
    variables={"A": "1e3"},
)
LOCK = Lock(
    channels=SPEC.channels,
    sources=("environment.yml",),
    solutions=(Solution(platform="linux-64", packages=PACKAGES, virtual_packages=VIRTUAL, solver="py-rattler 0.28.0"),),
    metadata={"created_by": "cuenv 0.1.0", "cuenv_driver": "535.129.03"},
)
TEXT = render(LOCK, SPEC)


@pytest.fixture(scope="module")
def conda_lock() -> SimpleNamespace:
    """The parts of conda-lock that judge."""
    with warnings.catch_warnings():
        # conda-lock's copy of conda announces the end of its own helpers while it is imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return SimpleNamespace(
            **{
                name: import_module(f"conda_lock.{module}")
                for name, module in {
                    "main": "conda_lock",
                    "lockfile": "lockfile",
                    "hashes": "content_hash",
                    "virtual": "virtual_package",
                    "source": "src_parser",
                }.items()
            }
        )


def read_by(conda_lock: SimpleNamespace, text: str, folder: Path) -> Any:
    path = folder / "conda-lock.yml"
    path.write_text(text, encoding="utf-8")
    return conda_lock.lockfile.parse_conda_lock_file(path)


def as_parsed(lock: Lock) -> Lock:
    """What the format can bring back: no sizes, no constrains, requirements by name, channels without the host."""
    solutions = []
    for solution in sorted(lock.solutions, key=lambda item: item.platform):
        packages = tuple(
            replace(item, size=None, constrains=(), depends=tuple(sorted(item.depends)))
            for item in sorted(solution.packages, key=lambda item: item.name)
        )
        solutions.append(replace(solution, packages=packages))
    metadata = {"created_by": "cuenv", **lock.metadata}
    return replace(lock, solutions=tuple(solutions), metadata=metadata)


def test_read_back_whole_and_written_the_same() -> None:
    again = parse(TEXT, "conda-lock.yml")
    assert again == as_parsed(LOCK)
    assert render(again, SPEC) == TEXT == render(LOCK, SPEC)


def test_what_it_looks_like() -> None:
    data = quick_yaml.load(TEXT)
    assert data["metadata"]["custom_metadata"] == {
        "created_by": "cuenv 0.1.0",
        "cuenv_driver": "535.129.03",
        "cuenv_solver_linux-64": "py-rattler 0.28.0",
        "cuenv_virtual_packages_linux-64": "__archspec=1=x86_64 __cuda=12.2=0 __cuda_arch=8.0=0 __glibc=2.31=0 "
        "__linux=5.10=0 __unix=0=0",
    }
    assert data["metadata"]["channels"][0] == {"url": "conda-forge", "used_env_vars": []}
    torch = next(item for item in data["package"] if item["name"] == "pytorch")
    assert torch == {
        "name": "pytorch",
        "version": "2.12.0",
        "manager": "conda",
        "platform": "linux-64",
        "dependencies": {"libcudnn": "", "python": ">=3.12,<3.13.0a0 *_cpython"},
        "url": f"{BASE}/linux-64/pytorch-2.12.0-cuda129_py312_0.conda",
        "hash": {"md5": MD5, "sha256": SHA256},
        "category": "main",
        "optional": False,
    }
    strings = [line.partition(": ")[2] for line in TEXT.splitlines() if ": " in line and not line.startswith("#")]
    assert {text for text in strings if text[0] != '"'} == {"1", "[]", "{}", "false"}


def test_conda_lock_reads_and_renders_it(conda_lock: SimpleNamespace, tmp_path: Path) -> None:
    lockfile = read_by(conda_lock, TEXT, tmp_path)
    assert {item.name: item.version for item in lockfile.package} == {item.name: item.version for item in PACKAGES}
    lines = conda_lock.main.render_lockfile_for_platform(
        lockfile=lockfile, include_dev_dependencies=False, extras=set(), kind="explicit", platform="linux-64"
    )
    urls = [line for line in lines if "://" in line]
    assert sorted(urls) == sorted(f"{item.url}#{item.md5}" for item in PACKAGES)
    ours = explicit_txt.render(LOCK.solutions[0], head=()).splitlines()
    assert sorted(urls) == sorted(line for line in ours if "://" in line)
    env = conda_lock.main.render_lockfile_for_platform(
        lockfile=lockfile, include_dev_dependencies=False, extras=set(), kind="env", platform="linux-64"
    )
    assert "  - pytorch=2.12.0=cuda129_py312_0" in env


def test_a_lock_that_conda_lock_wrote_is_read(conda_lock: SimpleNamespace, tmp_path: Path) -> None:
    lockfile = read_by(conda_lock, TEXT, tmp_path)
    path = tmp_path / "conda-lock.yml"
    conda_lock.lockfile.write_conda_lock_file(lockfile, path, metadata_choices=None)
    theirs = path.read_text(encoding="utf-8")
    assert theirs != TEXT
    assert parse(theirs, "conda-lock.yml") == as_parsed(LOCK)


def test_pip_and_categories_of_conda_lock() -> None:
    entry = {
        "name": "vllm",
        "version": "0.11.1",
        "manager": "pip",
        "platform": "linux-64",
        "dependencies": {"torch": "==2.9.0"},
        "url": "https://example.org/vllm.whl",
        "hash": {"sha256": SHA256},
        "source": None,
        "category": "main",
        "optional": False,
    }
    data = quick_yaml.load(TEXT)
    again = {**data["package"][0], "category": "dev", "optional": True}
    data["package"] += [entry, {**entry, "platform": "osx-64"}, again, {**again, "name": "__glibc"}]
    data["metadata"]["time_metadata"] = {"created_at": "2026-01-01T00:00:00Z"}
    data["metadata"]["channels"] = ["conda-forge", {"url": "nvidia/label/cuda-11.8.0", "used_env_vars": []}]
    del data["version"]
    lock = parse(quick_yaml.dump(data), "l")
    (solution,) = lock.solutions
    assert lock.pip == ("vllm==0.11.1",)
    assert replace(lock, solutions=(replace(solution, pip=()),)) == as_parsed(LOCK)


def hash_by(
    conda_lock: SimpleNamespace, spec: EnvironmentSpec, virtual: tuple[VirtualPackage, ...], folder: Path
) -> str:
    source = folder / "environment.yml"
    source.write_text(environment_yml.render(spec), encoding="utf-8")
    mapping = folder / "mapping.json"
    mapping.write_text("{}")
    packages = {item.name: f"{item.version} {item.build}".removesuffix(" 0") for item in virtual}
    (folder / "virtual-packages.yml").write_text(json.dumps({"subdirs": {"linux-64": {"packages": packages}}}))
    repo = conda_lock.virtual.virtual_package_repo_from_specification(folder / "virtual-packages.yml")
    made = conda_lock.source.make_lock_spec(
        src_files=[source], platform_overrides=["linux-64"], mapping_url=str(mapping)
    )
    found = conda_lock.hashes.compute_content_hashes(made, repo)["linux-64"]
    assert isinstance(found, str)
    return found


@collect(
    "spec",
    [
        SPEC,
        EnvironmentSpec(name="", channels=(), pins=()),
        replace(SPEC, channels=("nodefaults", "https://conda.example.org/team"), pins=SPEC.pins[:2]),
        replace(
            SPEC, pins=(Pin(name="a", channel="https://repo.anaconda.com/pkgs/main"), Pin(name="b", channel="pkgs/r"))
        ),
        replace(SPEC, pins=(Pin(name="a", version="1.2"), Pin(name="a", version=">=1"), Pin(name="pip", version="24"))),
        replace(SPEC, pip=("vllm==0.11.1", "My_Pkg[b,a] >=1, <2", "tqdm", "six<=2 --hash=sha256:" + SHA256)),
    ],
)
@collect("virtual", [VIRTUAL, ()])
def test_the_content_hash_is_that_of_conda_lock(
    spec: EnvironmentSpec, virtual: tuple[VirtualPackage, ...], conda_lock: SimpleNamespace, tmp_path: Path
) -> None:
    assert content_hash(spec, "linux-64", virtual) == hash_by(conda_lock, spec, virtual, tmp_path)


releases = st.sampled_from(["1", "1.2", "2.0a0", "1!3", "1.2+b", "2024.01.05"])
versions = st.one_of(
    st.just(""),
    releases,
    releases.map("=={}".format),
    releases.map("{}.*".format),
    releases.map(">={}".format),
    st.lists(releases, min_size=2, max_size=3, unique=True).map(lambda texts: "|".join(f"=={text}" for text in texts)),
    releases.map(">={},<9".format),
)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Pin,
            name=st.from_regex(r"[a-z][a-z0-9]{0,3}(-[a-z]{2})?", fullmatch=True),
            version=versions.filter(lambda text: not text.startswith("==") or "|" in text),
            build=st.sampled_from(["", "cuda129*", "py_0", "*a*"]),
            channel=st.sampled_from(["", "conda-forge", "nvidia/label/cuda-12.4.1"]),
        ),
        max_size=5,
    )
)
def test_the_content_hash_of_any_pins(conda_lock: SimpleNamespace, tmp_path: Path, pins: list[Pin]) -> None:
    spec = replace(SPEC, pins=tuple(pins))
    assert content_hash(spec, "linux-64", VIRTUAL) == hash_by(conda_lock, spec, VIRTUAL, tmp_path)


def test_requirements_that_only_pip_reads_have_a_hash_too() -> None:
    pip = ("x @ https://example.org/x.whl", "-e .", "y; python_version < '3'")
    found = content_hash(replace(SPEC, pip=pip), "linux-64", VIRTUAL)
    assert re.fullmatch("[0-9a-f]{64}", found)
    assert found != content_hash(replace(SPEC, pip=pip[:2]), "linux-64", VIRTUAL)


def test_the_hash_changes_with_every_input() -> None:
    found = {
        content_hash(SPEC, "linux-64", VIRTUAL),
        content_hash(SPEC, "linux-aarch64", VIRTUAL),
        content_hash(SPEC, "linux-64", VIRTUAL[1:]),
        content_hash(replace(SPEC, channels=SPEC.channels[:1]), "linux-64", VIRTUAL),
        content_hash(replace(SPEC, pins=SPEC.pins[1:]), "linux-64", VIRTUAL),
    }
    assert len(found) == 5
    assert content_hash(replace(SPEC, name="other", variables={}), "linux-64", VIRTUAL) in found


def test_several_requirements_on_one_name_become_one() -> None:
    depends = (
        "libabseil * cxx17*",
        "libabseil >=20250127.1,<20250128.0a0",
        "numpy",
        "numpy >=1.23,<3",
        "numpy 1.26.*|2.*",
        "python >=3.12",
        "python >=3.12",
        "imath<3.2",
        "blas 2.304   openblas",
        "odd >=1 !2",
        "odd >=3",
        "one =1.2",
        "one <2",
    )
    lock = replace(LOCK, solutions=(replace(LOCK.solutions[0], packages=(package("a", depends=depends),)),))
    assert parse(render(lock, SPEC), "l").solutions[0].packages[0].depends == (
        "blas 2.304 openblas",
        "imath <3.2",
        "libabseil >=20250127.1,<20250128.0a0 cxx17*",
        "numpy >=1.23,<3,1.26.*|>=1.23,<3,2.*",
        "odd >=3",
        "one 1.2.*,<2",
        "python >=3.12",
    )


def test_two_platforms() -> None:
    arm = Solution(
        platform="linux-aarch64",
        packages=(package("python", "3.12.8", "h9_1", subdir="linux-aarch64"), PACKAGES[2]),
        virtual_packages=(),
        solver="",
    )
    text = render(replace(LOCK, solutions=(arm, *LOCK.solutions)), SPEC)
    assert text == render(replace(LOCK, solutions=(*LOCK.solutions, arm)), SPEC)
    lock = parse(text, "l")
    assert [item.platform for item in lock.solutions] == ["linux-64", "linux-aarch64"]
    assert lock.solutions[1] == replace(arm, packages=arm.packages[::-1])
    names = [(item["name"], item["platform"]) for item in quick_yaml.load(text)["package"]]
    assert names == sorted(names)


def test_an_empty_lock_is_written_and_read_back() -> None:
    empty = Lock(channels=(), sources=(), solutions=())
    text = render(empty, EnvironmentSpec(name="", channels=(), pins=()))
    assert parse(text, "l") == as_parsed(empty)


def test_a_package_without_md5_cannot_be_written(conda_lock: SimpleNamespace, tmp_path: Path) -> None:
    bad = (package("b", md5=None), package("a", md5=None), package("c"))
    with pytest.raises(InputError, match=r"an md5 for 2 packages, .*: a, b$") as caught:
        render(replace(LOCK, solutions=(replace(LOCK.solutions[0], packages=bad),)), SPEC)
    assert caught.value.hint
    # conda-lock itself refuses such a lock.
    text = "\n".join(line for line in TEXT.splitlines() if not line.startswith("    md5:"))
    with pytest.raises(ValueError, match="must use MD5"):
        read_by(conda_lock, text, tmp_path)
    assert "libcudnn" not in {item.name for item in parse(TEXT, "l").solutions[0].packages if item.sha256}


def test_credentials_are_never_written() -> None:
    secret = "https://user:s3cret@conda.example.org/t/tk-42/team"
    bad = package("a", channel=secret)
    lock = replace(LOCK, channels=(secret,), solutions=(replace(LOCK.solutions[0], packages=(bad,)),))
    text = render(lock, SPEC)
    assert "s3cret" not in text
    assert "tk-42" not in text
    assert parse(text, "l").channels == ("https://conda.example.org/team",)
    leaked = text.replace("https://conda.example.org/team/linux-64", f"{secret}/linux-64")
    found = parse(leaked, "l").solutions[0].packages[0]
    assert (found.url, found.channel) == (
        "https://conda.example.org/team/linux-64/a-1.0-h0_0.conda",
        "https://conda.example.org/team",
    )


Edit = Callable[[], str]
"""A lock is edited where it is needed: to read and write it fifty times is no business of a collection."""


def edit(**changes: Any) -> Edit:
    """The lock with the first package changed; a value of ``...`` takes the key away."""

    def edited() -> str:
        data = quick_yaml.load(TEXT)
        for key, value in changes.items():
            if value is ...:
                del data["package"][0][key]
            else:
                data["package"][0][key] = value
        return quick_yaml.dump(data)

    return edited


def edit_top(path: str, value: Any) -> Edit:
    def edited() -> str:
        data = quick_yaml.load(TEXT)
        target = data
        *heads, last = path.split(".")
        for key in heads:
            target = target[key]
        if value is ...:
            del target[last]
        else:
            target[last] = value
        return quick_yaml.dump(data)

    return edited


BAD: list[tuple[str | Edit, str]] = [
    ("", "the file is empty"),
    ("# nothing\n", "the file is empty"),
    ("hello", "expected a mapping, got 'hello'"),
    ("\x00\xff", "not a text file"),
    (TEXT.replace("\n  version", "\n\tversion", 1), "line "),
    ("[" * 100_000, "nested deeper"),
    (TEXT + "version: 1\n", "the key 'version' appears twice"),
    (edit_top("version", 6), "version: expected 1, got 6"),
    (edit_top("version", "1"), "version: expected a whole number"),
    (edit_top("extra", 1), "unknown key 'extra'"),
    (edit_top("metadata", ...), "metadata: expected a mapping, got nothing"),
    (edit_top("metadata", []), "metadata: expected a mapping, got a list of 0"),
    (edit_top("package", ...), "package: expected a list, got nothing"),
    (edit_top("package", {}), "package: expected a list, got a mapping"),
    (edit_top("package", ["a"]), "package[0]: expected a mapping, got 'a'"),
    (edit_top("metadata.extra", 1), "metadata: unknown key 'extra'"),
    (edit_top("metadata.platforms", ["noarch 64"]), "metadata.platforms[0]: expected a platform"),
    (edit_top("metadata.platforms", ["osx-64"]), "package[0].platform: 'linux-64' is not among"),
    (edit_top("metadata.platforms", ...), "metadata.platforms: expected a list, got nothing"),
    (edit_top("metadata.sources", [1]), "metadata.sources[0]: expected a string, got 1"),
    (edit_top("metadata.channels", [1]), "metadata.channels[0]: expected a mapping, got 1"),
    (edit_top("metadata.channels", [{"url": 1}]), "metadata.channels[0].url: expected a string, got 1"),
    (edit_top("metadata.channels", [{"url": "a", "x": 1}]), "metadata.channels[0]: unknown key 'x'"),
    (edit_top("metadata.content_hash", ...), "metadata.content_hash: expected a mapping"),
    (edit_top("metadata.custom_metadata", {"a": 1}), "metadata.custom_metadata['a']: expected a string"),
    (edit_top("metadata.git_metadata", 1), "metadata.git_metadata: expected a mapping"),
    (edit(name=...), "package[0].name: expected a string, got nothing"),
    (edit(name=1e3), "package[0].name: expected a string, got 1000.0"),
    (edit(name="\x1b[31m"), "not of '\\x1b[31m 0.1'"),
    (edit(version="\x1b"), "not of '_libgcc_mutex \\x1b'"),
    (edit(platform="\x1b"), "'\\x1b' is not among"),
    (edit(dependencies={"\x1b": 1}), "dependencies['\\x1b']"),
    (edit(url="\x1b"), "got '\\x1b'"),
    (edit(version=3.12), "package[0].version: expected a string, got 3.12"),
    (edit(manager="uv"), "package[0].manager: expected 'conda' or 'pip', got 'uv'"),
    (edit(platform="win-64"), "package[0].platform: 'win-64' is not among metadata.platforms"),
    (edit(dependencies=["a"]), "package[0].dependencies: expected a mapping"),
    (edit(dependencies={"a": 1}), "package[0].dependencies['a']: expected a string"),
    (edit(url="x"), "package[0].url: expected the URL of a package"),
    (
        edit(url=f"{BASE}/linux-64/other-0.1-conda_forge.conda"),
        "it is the URL of 'other 0.1', not of '_libgcc_mutex 0.1'",
    ),
    (edit(url=f"{BASE}/linux-64/_libgcc_mutex-0.2-conda_forge.conda"), "'_libgcc_mutex 0.2', not of"),
    (edit(url=f"{BASE}/win-64/_libgcc_mutex-0.1-conda_forge.conda"), "a package for win-64, but locked for linux-64"),
    (edit(url=f"{BASE}/linux-64/_libgcc_mutex-0.1-conda_forge.exe"), "expected the URL of a package"),
    (edit(hash=...), "package[0].hash: expected a mapping, got nothing"),
    (edit(hash={}), "package[0].hash: expected md5 or sha256, got neither"),
    (edit(hash={"md5": "x"}), "package[0].hash.md5: expected 32 hexadecimal digits, got 'x'"),
    (edit(hash={"md5": MD5.upper()}), "package[0].hash.md5: expected 32 hexadecimal digits"),
    (edit(hash={"sha256": MD5}), "package[0].hash.sha256: expected 64 hexadecimal digits"),
    (edit(hash={"sha1": MD5}), "package[0].hash: unknown key 'sha1'"),
    (edit(optional="no"), "package[0].optional: expected true or false, got 'no'"),
    (edit(optional=...), "package[0].optional: expected true or false, got nothing"),
    (edit(category=1), "package[0].category: expected a string"),
    (edit(size=1), "package[0]: unknown key 'size'"),
    (edit(name="pip", version="25.0", url=f"{BASE}/noarch/pip-25.0-other_0.conda"), "'pip' appears twice for linux-64"),
]


@collect(("text", "part"), BAD)
def test_bad_locks_are_refused_with_their_place(text: str | Edit, part: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text if isinstance(text, str) else text(), "l.yml")
    assert caught.value.message.startswith("l.yml: ")
    assert part in caught.value.message
    assert caught.value.message.replace("\n", "").isprintable()


def test_all_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse(edit(name=1, version=1, optional=1)(), "l.yml")
    assert caught.value.message.count("expected") >= 3


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    assert parse("\ufeff" + TEXT.replace("\n", "\r\n"), "l") == as_parsed(LOCK)


def test_cut_at_every_line_it_is_refused() -> None:
    lines = TEXT.splitlines(keepends=True)
    whole = parse(TEXT, "l")
    for end in range(len(lines)):
        try:
            lock = parse("".join(lines[:end]), "l")
        except InputError:
            continue
        # A cut between two packages leaves a shorter lock that is whole in itself; its digest tells.
        assert lines[end].startswith("- name:")
        assert set(lock.solutions[0].packages) < set(whole.solutions[0].packages)


# Laws

hostile = st.sampled_from(
    ["1e3", "0o17", "12e34", "0x1f", "yes", "null", "on", "1_0", "9e5", "00000000000000000000000000000012"]
)
names = hostile.map(str.lower) | st.from_regex(r"[a-z0-9_][a-z0-9._]{0,8}", fullmatch=True)
plain_names = names.filter(lambda name: not name.startswith("__"))
release = hostile | st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}(a[0-9])?", fullmatch=True)
build = hostile | st.from_regex(r"[a-z0-9_.+]{1,9}", fullmatch=True).filter(
    lambda text: not text.endswith((".tar", "."))
)
hexes = "0123456789abcdef"
digits = st.sampled_from(["1" * 32, "12" + "e" + "3" * 29, MD5]) | st.text(hexes, min_size=32, max_size=32)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def packages(draw: st.DrawFn) -> LockedPackage:
    made = package(
        draw(plain_names),
        draw(release),
        draw(build),
        draw(st.sampled_from(["linux-64", "noarch"])),
        channel=draw(
            st.sampled_from([BASE, "https://conda.example.org/x", "https://conda.anaconda.org/nvidia/label/y"])
        ),
        ending=draw(st.sampled_from([".conda", ".tar.bz2"])),
        md5=draw(digits),
        sha256=draw(st.none() | digits.map(lambda text: text * 2)),
        depends=tuple(
            draw(st.lists(st.tuples(names, st.sampled_from(["", " >=1,<2", " 1.2 b*"])).map("".join), max_size=3))
        ),
    )
    unique = {item.split(" ")[0]: item for item in made.depends}
    return replace(made, depends=tuple(unique.values()))


locks = st.builds(
    Lock,
    channels=st.lists(st.sampled_from(["conda-forge", "https://conda.example.org/x"]), unique=True).map(tuple),
    sources=st.lists(texts, max_size=2).map(tuple),
    metadata=st.dictionaries(texts | hostile, texts | hostile, max_size=3),
    solutions=st.lists(packages(), unique_by=lambda item: item.name, max_size=5).map(
        lambda items: (
            Solution(platform="linux-64", packages=tuple(items), virtual_packages=VIRTUAL, solver="py-rattler"),
        )
    ),
)


@given(locks)
def test_what_is_written_is_read_again(lock: Lock) -> None:
    text = render(lock, SPEC)
    assert text == render(lock, SPEC)
    again = parse(text, "l")
    assert again == as_parsed(lock)
    assert render(again, SPEC) == text
    assert yaml.load(text, Loader=yaml.SafeLoader)["metadata"]["sources"] == list(lock.sources)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(locks)
def test_conda_lock_reads_what_is_written(conda_lock: SimpleNamespace, tmp_path: Path, lock: Lock) -> None:
    lockfile = read_by(conda_lock, render(lock, SPEC), tmp_path)
    found = {item.name: (item.version, item.url, item.hash.md5, item.hash.sha256) for item in lockfile.package}
    expected = {item.name: (item.version, item.url, item.md5, item.sha256) for item in lock.solutions[0].packages}
    assert found == expected
    assert dict(lock.metadata).items() <= lockfile.metadata.custom_metadata.items()


@given(st.binary(max_size=300))
def test_bytes_of_any_kind(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape"), TEXT[:900] + data.decode("latin-1")):
        with pytest.raises(InputError):
            parse(text, "l")


@examples(60)
@given(st.integers(0, len(TEXT) - 1), st.characters(exclude_categories=["Cs"]))
def test_one_wrong_character(place: int, char: str) -> None:
    text = TEXT[:place] + char + TEXT[place + 1 :]
    try:
        parse(text, "l")
    except InputError as error:
        message = error.message
    else:
        message = ""
    assert message.replace("\n", "").isprintable()


# Size


@pytest.mark.slow
@pytest.mark.records
def test_two_hundred_real_packages(records: Path, conda_lock: SimpleNamespace, tmp_path: Path) -> None:
    data = json.loads((records / "conda-forge" / "linux-64" / "repodata.json").read_text())
    found: dict[str, LockedPackage] = {}
    for filename, item in data["packages.conda"].items():
        if item.get("md5") and len(item["depends"]) > 4 and len(found) < 200:
            url = f"{BASE}/linux-64/{filename}"
            found[item["name"]] = package(
                *(item["name"], item["version"], item["build"]),
                url=url,
                md5=item["md5"],
                sha256=item.get("sha256"),
                depends=tuple(item["depends"]),
            )
    assert len(found) == 200
    lock = replace(LOCK, solutions=(replace(LOCK.solutions[0], packages=tuple(found.values())),))
    text = render(lock, SPEC)
    assert render(parse(text, "l"), SPEC) == text
    assert len(read_by(conda_lock, text, tmp_path).package) == 200


def test_the_url_of_a_package() -> None:
    found = parse_package_url(
        "https://conda.anaconda.org/nvidia/label/cuda-11.8.0/linux-64/cuda-nvcc-11.8.89-0.tar.bz2"
    )
    assert (found.channel, found.subdir) == ("https://conda.anaconda.org/nvidia/label/cuda-11.8.0", "linux-64")
    assert (found.name, found.version, found.build) == ("cuda-nvcc", "11.8.89", "0")
    assert parse_package_url("file:///opt/ch/noarch/a-1%2Bb-0.conda").version == "1+b"
    for bad in (
        "",
        "x",
        f"{BASE}/linux-64/a-1.conda",
        f"{BASE}/linux-64/a-1-0.zip",
        "a\x1b/b/c/a-1-0.conda",
        f"{BASE}/a-1-",
    ):
        with pytest.raises(ValueError, match="expected the URL of a package"):
            parse_package_url(bad)
