"""Lock and check on the sample channel, with the real solver: what is written, what refuses, what is out of date."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import quick_yaml
from cases import collect, quick
from channel_builder import edit, pkg
from cuenv.core.errors import InputError, OutsideError, UsageError
from cuenv.core.findings import Report
from cuenv.demo.io.sample import write_channel, write_sample
from cuenv.host.facts import Driver, Surroundings
from cuenv.host.io.record import SHIPPED
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.lockfile.check import LockCheck, check
from cuenv.lockfile.files import LOCK_NAME, options_in, read_environment, read_lock, spec_digest
from cuenv.lockfile.fresh import out_of_date
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.resolver.resolve import resolve
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.environment_yml import render
from cuenv.solve.io.sources import Mirror, Sources
from given import base, shipped

HERE = {"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_GLIBC": "2.35"}
"""A machine without GPU, whatever this one has."""
MADE = ("conda-linux-64.lock", "conda-linux-64.lock.yml", LOCK_NAME)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("sample")
    return Sources(mirrors=write_sample(folder, "linux-64"), cache=str(folder / "cache"))


@pytest.fixture(scope="module")
def environments(sources: Sources) -> dict[str, EnvironmentSpec]:
    """What the sample channel closes for three recorded hosts."""
    found = {}
    for name in ("rtx4090-535", "a800-470", "v100-rtx5090-575"):
        spec = resolve(shipped(name), Request(), base(), name="sample", prove=sources).spec
        assert spec
        found[name] = spec
    return found


@pytest.fixture
def folder(tmp_path: Path, environments: dict[str, EnvironmentSpec]) -> Path:
    """A folder with the environment file of the RTX 4090."""
    (tmp_path / "environment.yml").write_text(render(environments["rtx4090-535"]))
    return tmp_path


def options(*hosts: str, environ: dict[str, str] | None = None, **given: Any) -> HostOptions:
    return HostOptions(hosts=hosts, environ=environ if environ is not None else HERE, **given)


RTX = options("rtx4090-535")


def locked(folder: Path, sources: Sources, host: HostOptions = RTX, **more: Any) -> Locked:
    return lock(LockRequest(path=folder / "environment.yml", host=host, sources=sources, **more), base())


def codes(report: Report, severity: str = "error") -> list[str]:
    return sorted({item.code for item in report.findings if item.severity == severity})


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in MADE if (folder / name).exists()}


def change(path: Path, edit: Callable[[str], str]) -> None:
    before = path.read_text()
    after = edit(before)
    assert after != before
    path.write_text(after)


def looked(folder: Path, host: HostOptions = RTX) -> LockCheck:
    return check(folder / LOCK_NAME, host, base())


def stale(folder: Path, host: HostOptions | None = None) -> Report:
    return out_of_date(folder / "environment.yml", host or options(), base())


# what is written


def test_three_files_are_written_and_hold_the_same(folder: Path, sources: Sources) -> None:
    answer = locked(folder, sources)
    assert answer.lock
    assert answer.report.errors == ()
    written = [path.name for path in answer.written]
    assert [name for name in written if name in MADE] == list(MADE)
    assert written[-1] == LOCK_NAME  # it vouches for the others
    assert sorted(path.name for path in folder.iterdir()) == sorted(["environment.yml", *written])
    (solution,) = answer.lock.solutions
    assert len(solution.packages) > 15
    again = read_lock(folder / LOCK_NAME)
    assert [item.url for item in again.solutions[0].packages] == [item.url for item in solution.packages]
    explicit = read_lock(folder / MADE[0]).solutions[0]
    assert {item.url for item in explicit.packages} == {item.url for item in solution.packages}
    assert all(item.url.startswith("https://conda.anaconda.org/") for item in again.solutions[0].packages)


def test_the_lock_remembers_its_host_and_its_file(folder: Path, sources: Sources) -> None:
    answer = locked(folder, sources)
    assert answer.lock
    kept = read_lock(folder / LOCK_NAME).metadata
    spec, _ = read_environment(folder / "environment.yml")
    assert kept["cuenv_gpus"] == "8.9"
    assert kept["cuenv_driver"] == "535.129.03"
    assert kept["cuenv_minimum_driver"] == "525.60.13"
    assert kept["cuenv_environment"] == spec_digest(spec)
    assert kept["cuenv_knowledge"] == base().edition
    assert "created_by" in kept
    told = {item.name: item.version for item in read_lock(folder / LOCK_NAME).solutions[0].virtual_packages}
    assert (told["__cuda"], told["__cuda_arch"], told["__glibc"]) == ("12.2", "8.9", "2.35")


def test_a_second_run_is_byte_identical(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    first = content(folder)
    locked(folder, sources)
    assert content(folder) == first
    for name in MADE:
        (folder / name).unlink()
    locked(folder, sources)
    assert content(folder) == first


def test_nothing_of_this_machine_is_in_the_files(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    for name, data in content(folder).items():
        text = data.decode()
        assert str(folder) not in text, name
        assert "file://" not in text, name
        assert str(Path.home()) not in text, name


def test_existing_packages_stay_while_they_satisfy_the_file(
    folder: Path, sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> None:
    change(folder / "environment.yml", lambda text: text.replace("- ninja", "- ninja\n  - libcudnn<9.11"))
    locked(folder, sources)
    capped = read_lock(folder / LOCK_NAME).solutions[0].package("libcudnn")
    assert capped
    assert capped.version.startswith("9.10")
    change(folder / "environment.yml", lambda text: text.replace("\n  - libcudnn<9.11", ""))
    locked(folder, sources)
    kept = read_lock(folder / LOCK_NAME).solutions[0].package("libcudnn")
    assert kept == capped
    (folder / LOCK_NAME).unlink()
    locked(folder, sources)
    fresh = read_lock(folder / LOCK_NAME).solutions[0].package("libcudnn")
    assert fresh
    assert fresh.version != capped.version


def test_the_commands_make_the_environment_from_what_was_written(folder: Path, sources: Sources) -> None:
    commands = locked(folder, sources).commands
    assert len(commands) >= 5
    for command in commands:
        assert "#" not in command  # an interactive zsh passes it on
        files = [word for word in command.split() if "lock" in word and word != "conda-lock"]
        assert all((folder / name).exists() for name in files), command
        assert "sample" in command
    (solving,) = [command for command in commands if "conda env create" in command]
    assert solving.startswith("CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY=false CONDA_OVERRIDE_CUDA=12.2 conda env create ")
    assert all("--no-default-packages" in command for command in commands if command.startswith("conda create"))
    assert solving.endswith("conda-linux-64.lock.yml")


@pytest.mark.parametrize(("name", "said"), [("", "-n cuenv "), ("a$(b)", "-n 'a$(b)' "), ("team", "-n team ")])
def test_the_name_in_the_commands_is_quoted_and_never_empty(
    folder: Path, sources: Sources, name: str, said: str
) -> None:
    line = f"name: {name}\n" if name else ""
    change(folder / "environment.yml", lambda text: re.sub(r"name: sample\n", lambda _: line, text))
    named = [f"{command} " for command in locked(folder, sources).commands if " -n " in command]
    assert len(named) >= 5
    assert all(said in command for command in named)


def test_another_host_is_another_lock(
    tmp_path: Path, sources: Sources, environments: dict[str, EnvironmentSpec]
) -> None:
    for name in ("a800-470", "v100-rtx5090-575"):
        place = tmp_path / name
        place.mkdir()
        (place / "environment.yml").write_text(render(environments[name]))
        answer = locked(place, sources, options(name))
        assert answer.lock, answer.report
        assert looked(place, options(name)).report.errors == ()
        assert stale(place).findings == ()
    channels = {item.channel_name for item in read_lock(tmp_path / "a800-470" / LOCK_NAME).solutions[0].packages}
    assert channels == {"pytorch", "nvidia/label/cuda-11.8.0", "conda-forge"}


# where the virtual packages come from


def test_without_a_driver_it_refuses_and_says_what_to_type(folder: Path, sources: Sources) -> None:
    for host in (options(), options(gpus=("8.9",))):
        answer = locked(folder, sources, host)
        assert answer.lock is None
        assert "CU413" in codes(answer.report)
        (finding,) = [item for item in answer.report.findings if item.code == "CU413"]
        assert finding.fix
        assert "--driver" in finding.message + finding.fix
        named = ["--gpu", "8.9", "--driver", "535.129.03", "--glibc", "2.35"]
        assert shlex.split(finding.fix) == ["cuenv", "lock", str(folder / "environment.yml"), *named]
    assert content(folder) == {}
    change(folder / "environment.yml", lambda text: re.sub(r"(?m)^#.*\n", "", text))  # nobody named a host
    (finding,) = [item for item in locked(folder, sources, options()).report.findings if item.code == "CU413"]
    assert finding.fix
    assert finding.fix.startswith("CONDA_OVERRIDE_CUDA=12.")


def test_a_file_of_ours_is_locked_for_the_host_that_its_head_names_on_any_machine(
    folder: Path, sources: Sources
) -> None:
    for environ in ({}, {"CONDA_OVERRIDE_GLIBC": "2.28"}):
        answer = locked(folder, sources, HostOptions(environ=environ))
        assert answer.lock, answer.report
        assert answer.host_named == "--gpu 8.9 --driver 535.129.03 --glibc 2.35"
        assert answer.lock.metadata["cuenv_driver"] == "535.129.03"
        assert answer.lock.metadata["cuenv_gpus"] == "8.9"
        glibc = environ.get("CONDA_OVERRIDE_GLIBC", "2.35")
        assert f"__glibc={glibc}" in (folder / LOCK_NAME).read_text()
    assert locked(folder, sources, options("a800-470")).host_named == ""  # options go first


@collect(
    "head",
    [
        "#   cuenv lock environment.yml --gpu 8.9 --driver 535.129.03",  # nobody's file
        "# Written by cuenv\n#   cuenv lock environment.yml --host -",
        "# Written by cuenv\n#   cuenv lock environment.yml --gpu 8.9 --allow CU104",
        "# Written by cuenv\n#   cuenv lock environment.yml --gpu $(reboot)",
        "# Written by cuenv\n#   cuenv lock environment.yml --gpu",
        "# Written by cuenv\n#   cuenv lock environment.yml --gpu --driver 535.129.03",
        "# Written by cuenv\nname: x\n#   cuenv lock environment.yml --gpu 8.9 --driver 535.129.03",
    ],
)
def test_a_head_that_is_not_ours_names_no_host(head: str) -> None:
    assert options_in(f"{head}\nname: x\n", {}) is None


def test_a_head_with_a_recorded_host_that_is_not_here_names_none(folder: Path, sources: Sources) -> None:
    change(folder / "environment.yml", lambda text: re.sub("--gpu 8.9 --driver.*", "--host gone/node.json", text))
    assert locked(folder, sources, HostOptions(environ={})).host_named == ""
    answer = locked(folder, sources, options())
    (finding,) = [item for item in answer.report.findings if item.code == "CU413"]
    assert finding.fix == f"cuenv lock {folder / 'environment.yml'} --host gone/node.json"


@pytest.mark.parametrize("gpus", [(), ("8.9",)])
def test_conda_override_cuda_is_enough(folder: Path, sources: Sources, gpus: tuple[str, ...]) -> None:
    environ = {"CONDA_OVERRIDE_CUDA": "12.2", "CONDA_OVERRIDE_GLIBC": "2.35"}
    answer = locked(folder, sources, options(environ=environ, gpus=gpus))
    assert answer.lock, answer.report
    assert "__cuda=12.2" in (folder / LOCK_NAME).read_text()
    assert stale(folder).findings == ()


def test_options_go_before_the_variables(folder: Path, sources: Sources) -> None:
    environ = {"CONDA_OVERRIDE_CUDA": "11.4", "CONDA_OVERRIDE_GLIBC": "2.17"}
    answer = locked(folder, sources, options(environ=environ, gpus=("8.9",), driver="535.129.03", glibc="2.35"))
    assert answer.lock, answer.report
    text = (folder / LOCK_NAME).read_text()
    assert "__cuda=12.2" in text
    assert "__glibc=2.35" in text


def test_a_cpu_environment_needs_no_driver(tmp_path: Path, sources: Sources) -> None:
    spec = resolve(shipped("no-gpu"), Request(cpu=True, dev=False, name="cpu"), base(), prove=sources).spec
    assert spec
    (tmp_path / "environment.yml").write_text(render(spec))
    answer = locked(tmp_path, sources, options())
    assert answer.lock, answer.report
    assert check(tmp_path / LOCK_NAME, options("no-gpu"), base()).report.errors == ()
    assert check(tmp_path / LOCK_NAME, options(), base()).report.errors == ()


# refusing


REFUSED = {
    "two channels": ("channels:\n  - conda-forge\n", "channels:\n  - nvidia\n  - conda-forge\n", "CU101"),
    "a cpu twin": ("  - ninja\n", "  - ninja\n  - conda-forge::torchvision=*=cpu*\n", "CU103"),
    "a release that never was": ("  - ninja\n", "  - ninja\n  - cudatoolkit-dev=12.1\n", "CU110"),
    "a release that was never built": ("cuda-version=12.9", "cuda-version=12.7", "CU110"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_writes_nothing_and_leaves_the_old_files(folder: Path, sources: Sources, name: str) -> None:
    locked(folder, sources)
    before = content(folder)
    old, new, code = REFUSED[name]
    change(folder / "environment.yml", lambda text: text.replace(old, new, 1))
    answer = locked(folder, sources)
    assert answer.lock is None
    assert answer.written == ()
    assert code in codes(answer.report)
    assert content(folder) == before


def test_what_the_solver_makes_of_a_file_is_judged_before_anything_is_written(folder: Path, sources: Sources) -> None:
    """The build of the file does not say CPU, and only a CPU build is of this number."""
    text = "channels: [conda-forge]\ndependencies: [pytorch=2.12.0=*_sample_100, cuda-version=12.9, python=3.12]\n"
    (folder / "environment.yml").write_text(text)
    answer = locked(folder, sources)
    assert answer.lock is None
    assert codes(answer.report) == ["CU103"]
    assert content(folder) == {}
    assert locked(folder, sources, allow=("CU103",)).lock


@pytest.fixture
def with_variants(tmp_path: Path) -> Sources:
    """The sample with two libraries that have a CUDA build for 12.9 and a CPU build: one with a row, one without."""
    mirrors = write_sample(tmp_path / "sample", "linux-64")
    forge = tmp_path / "sample" / "conda-forge" / "linux-64" / "repodata.json"
    variants = [
        pkg(name, "0.49.2", build, depends=depends, build_number=number)
        for name in ("bitsandbytes", "newlib")
        for build, number, depends in (
            ("cuda129_h0_200", 200, ("cuda-version >=12.9,<13", "pytorch")),
            ("cpu_h0_0", 0, ("pytorch",)),
        )
    ]
    write_channel(tmp_path / "more", variants, subdirs=("linux-64",))
    more = json.loads((tmp_path / "more" / "linux-64" / "repodata.json").read_text())["packages"]
    edit(forge.parent, lambda data: data["packages"].update(more))
    return Sources(mirrors=mirrors, cache=str(tmp_path / "cache"))


NEW_DRIVER: dict[str, Any] = {"gpus": ("H100",), "driver": "590.48.01", "glibc": "2.35"}


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(["newlib", "bitsandbytes"], first=1))
def test_a_library_with_cpu_and_cuda_builds_is_never_locked_as_a_cpu_build(
    tmp_path: Path, with_variants: Sources, name: str
) -> None:
    host = options(**NEW_DRIVER)
    facts = host_facts(host, base())
    plain = resolve(facts, Request(packages=("ninja",)), base(), name="x", prove=with_variants).spec
    assert plain
    assert "pytorch=2.12.1=cuda130*" in render(plain)
    found = resolve(facts, Request(packages=(name,)), base(), name="x", prove=with_variants).spec
    assert found
    (tmp_path / "environment.yml").write_text(render(found))
    answer = locked(tmp_path, with_variants, host)
    assert answer.lock, answer.report
    package = answer.lock.solutions[0].package(name)
    assert package
    assert package.build == "cuda129_h0_200"
    # Beside a torch of CUDA 13 there is only the CPU build.
    (tmp_path / "environment.yml").write_text(render(plain).replace("  - ninja\n", f"  - {name}\n"))
    refused = locked(tmp_path, with_variants, host)
    assert refused.lock is None
    assert codes(refused.report) == ["CU103"]
    lenient = locked(tmp_path, with_variants, host, allow=("CU103",))
    assert lenient.lock
    (tmp_path / LOCK_NAME).write_text((tmp_path / LOCK_NAME).read_text().replace("cuenv_allowed: CU103", "x: y"))
    assert ("CU103", name) in {(item.code, item.subject) for item in looked(tmp_path, host).report.findings}


@pytest.mark.parametrize(("host", "code"), [("a800-470", "CU401"), ("rtx5090-560", "CU402"), ("no-gpu", "CU413")])
def test_a_host_that_it_cannot_serve_refuses(folder: Path, sources: Sources, host: str, code: str) -> None:
    answer = locked(folder, sources, options(host))
    assert answer.lock is None
    assert code in codes(answer.report)
    assert content(folder) == {}


def test_what_is_allowed_is_locked_and_recorded(folder: Path, sources: Sources) -> None:
    more = "  - nvidia\n  - conda-forge\n"
    change(folder / "environment.yml", lambda text: text.replace("  - conda-forge\n", more, 1))
    mirrors = (*sources.mirrors, Mirror(origin="https://conda.anaconda.org/nvidia", target=_empty(folder / "nvidia")))
    also = Sources(mirrors=mirrors, cache=str(folder / "cache"))
    assert locked(folder, also).lock is None
    answer = locked(folder, also, allow=("CU101",))
    assert answer.lock, answer.report
    assert "CU101" in codes(answer.report, "warning")
    assert read_lock(folder / LOCK_NAME).metadata["cuenv_allowed"] == "CU101"
    assert looked(folder).report.errors == ()


def _empty(folder: Path) -> str:
    for subdir in ("linux-64", "noarch"):
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps({"info": {"subdir": subdir}, "packages": {}}))
    return str(folder)


def test_another_code_allows_nothing(folder: Path, sources: Sources) -> None:
    answer = locked(folder, sources, options("a800-470"), allow=("CU101", "CU402"))
    assert answer.lock is None
    assert codes(answer.report) == ["CU401"]


def test_what_the_channels_do_not_have_is_no_lock(folder: Path, sources: Sources) -> None:
    change(folder / "environment.yml", lambda text: text.replace("- ninja", "- ninja\n  - no-such-package"))
    answer = locked(folder, sources)
    assert answer.lock is None
    assert answer.unsatisfiable
    assert answer.unsatisfiable.missing == ("no-such-package",)
    assert content(folder) == {}


def test_an_unreadable_old_lock_is_said_and_kept(folder: Path, sources: Sources) -> None:
    (folder / LOCK_NAME).write_text("version: 1\npackage: {}\n")
    with pytest.raises(InputError, match=re.escape(LOCK_NAME)):
        locked(folder, sources)
    assert (folder / LOCK_NAME).read_text() == "version: 1\npackage: {}\n"


def test_a_file_that_cannot_be_written_keeps_the_others(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    (folder / MADE[0]).unlink()
    (folder / MADE[0] / "full").mkdir(parents=True)
    before = [(folder / name).read_bytes() for name in MADE[1:]]
    change(folder / "environment.yml", lambda text: text.replace("- ninja", "- ninja\n  - libcudnn<9.11"))
    with pytest.raises(OutsideError, match=re.escape(MADE[0])):
        locked(folder, sources)
    assert [(folder / name).read_bytes() for name in MADE[1:]] == before
    assert codes(stale(folder)) == ["CU107"]


def test_the_folder_of_a_lock_means_the_lock_and_the_file_beside_it(
    folder: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(folder, sources)
    change(folder / "environment.yml", lambda text: text.replace("cuda-version=12.9", "cuda-version=12.8", 1))
    above = folder.parent / "environment.yml"
    above.write_text("name: another\ndependencies: [zlib]\n")
    monkeypatch.chdir(folder.parent)
    by_folder = check(Path(folder.name), RTX, base()).report
    assert by_folder == check(Path(folder.name) / LOCK_NAME, RTX, base()).report
    assert [item.code for item in by_folder.errors] == ["CU107"]
    above.unlink()


# platforms


def test_the_platform_option_goes_before_the_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("aarch64")
    there = Sources(mirrors=write_sample(place, "linux-aarch64"), cache=str(place / "cache"))
    spec = resolve(shipped("gh200-570"), Request(), base(), prove=there).spec
    assert spec
    text = render(spec)
    assert "linux-aarch64" in text
    (folder / "environment.yml").write_text(text.replace("  - linux-aarch64\n", "  - linux-64\n", 1))
    answer = locked(folder, there, options(gpus=("9.0",), driver="570.124.06", platform="linux-aarch64"))
    assert answer.lock, (answer.report, answer.unsatisfiable)
    assert [solution.platform for solution in answer.lock.solutions] == ["linux-aarch64"]
    (foreign,) = [item for item in check(folder / LOCK_NAME, RTX, base()).report.errors if item.code == "CU106"]
    assert "linux-aarch64" in foreign.message
    assert check(folder / LOCK_NAME, options("gh200-570"), base()).report.errors == ()


def test_a_host_of_another_platform_than_the_file_is_a_warning(folder: Path, sources: Sources) -> None:
    answer = locked(folder, sources, options("gh200-570"))
    (finding,) = [item for item in answer.report.findings if item.code == "CU106"]
    assert finding.severity == "warning"
    assert "linux-aarch64" in finding.message
    assert finding.fix


def test_a_file_for_a_platform_that_is_not_served(folder: Path, sources: Sources) -> None:
    change(folder / "environment.yml", lambda text: text.replace("  - linux-64\n", "  - linux-64\n  - osx-arm64\n", 1))
    answer = locked(folder, sources)
    assert answer.lock
    assert [item.platform for item in answer.lock.solutions] == ["linux-64"]
    (told,) = [item for item in answer.report.findings if item.code == "CU106"]
    assert (told.severity, "osx-arm64 too" in told.message) == ("warning", True)
    change(folder / "environment.yml", lambda text: text.replace("  - linux-64\n", "", 1))
    with pytest.raises(UsageError, match="osx-arm64 is not supported"):
        locked(folder, sources)


# --check: no solve, no GPU, no network


def test_a_fresh_lock_is_up_to_date_whatever_machine_asks(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    for environ in ({}, {"CONDA_OVERRIDE_CUDA": "9.0"}, {"CONDA_OVERRIDE_GLIBC": "2.99"}):
        report = stale(folder, options(environ=environ))
        assert report.findings == ()
    assert stale(folder, RTX).findings == ()
    assert stale(folder, options(gpus=("8.9",), driver="535.129.03")).findings == ()
    assert stale(folder, options(gpus=("RTX 4090",))).findings == ()


KINDS = {
    "another version": ("cuda-version=12.9", "cuda-version=12.8"),
    "another package": ("  - ninja\n", "  - ninja\n  - pip\n"),
    "one package less": ("  - ninja\n", ""),
    "another channel": ("channels:\n  - conda-forge\n", "channels:\n  - conda-forge\n  - defaults\n"),
    "another build": ("=cuda129*", "=cuda12*"),
    "another variable": ('TORCH_CUDA_ARCH_LIST: "8.9"', 'TORCH_CUDA_ARCH_LIST: "8.6"'),
    "another platform": ("  - linux-64\n", "  - linux-64\n  - linux-aarch64\n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_is_out_of_date_and_named(folder: Path, sources: Sources, kind: str) -> None:
    locked(folder, sources)
    before = content(folder)
    change(folder / "environment.yml", lambda text: text.replace(*KINDS[kind], 1))
    report = stale(folder)
    assert codes(report) == ["CU107"]
    assert "environment.yml" in report.errors[0].subject
    assert report.errors[0].fix
    assert content(folder) == before


def test_comments_and_the_order_of_entries_do_not_count(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    spec, _ = read_environment(folder / "environment.yml")
    text = (folder / "environment.yml").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    start, end = lines.index("dependencies:") + 1, lines.index("variables:")
    turned = [*lines[:start], *reversed(lines[start:end]), *lines[end:], "# new"]
    (folder / "environment.yml").write_text("\n".join(turned) + "\n")
    again, _ = read_environment(folder / "environment.yml")
    assert again.pins != spec.pins
    assert stale(folder).findings == ()


@pytest.mark.parametrize(
    ("host", "subject", "numbers"),
    [
        (options("a800-470"), "gpus", ("8.9", "8.0")),
        (options(gpus=("9.0",)), "gpus", ("8.9", "9.0")),
        (options(gpus=("8.9",), driver="550.54.14"), "driver", ("535.129.03", "550.54.14")),
        (options(gpus=("8.9",), glibc="2.28"), "glibc", ("2.35", "2.28")),
        (options(gpus=("8.9",), platform="linux-aarch64"), "platform", ("linux-64", "linux-aarch64")),
    ],
)
def test_another_option_is_out_of_date_and_named(
    folder: Path, sources: Sources, host: HostOptions, subject: str, numbers: tuple[str, ...]
) -> None:
    locked(folder, sources)
    findings = {item.subject: item for item in stale(folder, host).errors}
    assert subject in findings
    assert all(number in findings[subject].message for number in numbers)


def test_a_lock_that_is_not_there_is_out_of_date(folder: Path) -> None:
    assert codes(stale(folder)) == ["CU107"]


def test_a_lock_that_cuenv_did_not_make_is_out_of_date(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    _foreign(folder)
    assert codes(stale(folder)) == ["CU107"]


def _foreign(folder: Path) -> None:
    """Take out what cuenv notes, as if conda-lock had written the file."""
    data = quick_yaml.load((folder / LOCK_NAME).read_text())
    del data["metadata"]["custom_metadata"]
    (folder / LOCK_NAME).write_text(quick_yaml.dump(data))


# check


def test_a_fresh_lock_is_fine_for_its_host(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    checked = looked(folder)
    assert codes(checked.report) == codes(checked.report, "warning") == []
    assert checked.facts == shipped("rtx4090-535")


def test_a_machine_without_gpu_judges_for_the_host_it_was_made_for(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    checked = looked(folder, options())
    assert checked.report.errors == ()
    assert [str(gpu) for gpu in checked.facts.capabilities] == ["8.9"]
    assert checked.facts.driver
    assert checked.facts.driver.version == "535.129.03"
    assert "CU409" in codes(checked.report, "info")


def test_a_pool_is_remembered_machine_by_machine(folder: Path, sources: Sources, environments: dict[str, Any]) -> None:
    hosts = []
    for name, driver, cuda in (("pool-v100", "535.183.01", "12.2"), ("pool-rtx5090", "575.57.08", "12.9")):
        data = json.loads(Path(SHIPPED, f"{name}.json").read_text())
        data["driver"] |= {"version": driver, "cuda": cuda, "kernel_module": None}
        (folder / f"{name}.json").write_text(json.dumps(data))
        hosts.append(str(folder / f"{name}.json"))
    (folder / "environment.yml").write_text(render(environments["v100-rtx5090-575"]))
    answer = locked(folder, sources, options(*hosts))
    assert answer.lock, answer.report
    checked = looked(folder, options())
    assert checked.report.errors == ()
    assert {
        str(member.capabilities[0]): member.driver.version for member in checked.facts.members if member.driver
    } == {
        "7.0": "535.183.01",
        "12.0": "575.57.08",
    }


@pytest.mark.parametrize(
    ("host", "code", "numbers"),
    [
        (options("a800-470"), "CU401", ("470.129.06", "525.60.13")),
        (options("rtx5090-560"), "CU402", ("560.35.03", "570")),
        (options(gpus=("V100",), driver="575.57.08"), "CU405", ("7.0",)),
        (options(gpus=("K80",), driver="470.129.06"), "CU403", ("3.7",)),
        (options(gpus=("8.9",), driver="535.129.03", glibc="2.17"), "CU407", ("2.17", "2.28")),
        (options("gh200-570"), "CU106", ("linux-aarch64",)),
        (options("no-gpu"), "CU409", ()),
    ],
)
def test_a_host_that_does_not_fit(
    folder: Path, sources: Sources, host: HostOptions, code: str, numbers: tuple[str, ...]
) -> None:
    locked(folder, sources)
    findings = [item for item in looked(folder, host).report.errors if item.code == code]
    assert findings
    assert all(number in findings[0].message for number in numbers)


def test_a_lock_that_was_edited(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    change(folder / LOCK_NAME, lambda text: re.sub(r"sha256: \"[0-9a-f]{4}", 'sha256: "0000', text, count=1))
    assert "CU108" in codes(looked(folder).report)
    assert "CU108" in codes(stale(folder))


def test_a_package_taken_out_of_the_lock(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    data = quick_yaml.load((folder / LOCK_NAME).read_text())
    data["package"] = [item for item in data["package"] if item["name"] != "ninja"]
    (folder / LOCK_NAME).write_text(quick_yaml.dump(data))
    assert "CU108" in codes(looked(folder).report)


def test_a_changed_file_that_the_lock_still_satisfies_is_a_warning(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    change(folder / "environment.yml", lambda text: text.replace("- ninja", "- ninja>=1"))
    checked = looked(folder)
    assert codes(checked.report) == []
    assert codes(checked.report, "warning") == ["CU107"]


def test_a_changed_file_that_it_no_longer_satisfies_is_an_error(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    change(folder / "environment.yml", lambda text: text.replace("- ninja", "- ninja>=99\n  - scipy"))
    errors = {item.subject: item for item in looked(folder).report.errors}
    assert set(errors) == {"ninja", "scipy"}
    assert "99" in errors["ninja"].message


def test_a_file_that_moved_away_is_no_finding(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    (folder / "environment.yml").unlink()
    assert codes(looked(folder).report) == []
    with pytest.raises(InputError):
        stale(folder)


def test_a_lock_that_moved_is_checked_where_it_lies(folder: Path, sources: Sources, tmp_path: Path) -> None:
    locked(folder, sources)
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.copy(folder / LOCK_NAME, place / LOCK_NAME)
    assert codes(looked(place).report) == []
    (place / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [python=3.9]\n")
    assert codes(looked(place).report) == ["CU107"]


def test_the_explicit_file_is_checked_as_well(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    explicit = check(folder / MADE[0], RTX, base())
    assert explicit.report.errors == ()
    assert "CU401" in codes(check(folder / MADE[0], options("a800-470"), base()).report)
    bare = check(folder / MADE[0], options("no-gpu"), base()).report
    (finding,) = [item for item in bare.findings if item.code == "CU409"]
    assert (finding.fix or "").startswith("name the machine that it is for: --gpu NAME")  # on a login node


def test_a_lock_that_cuenv_did_not_make_is_judged_all_the_same(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    _foreign(folder)
    assert {item.code for item in looked(folder).report.findings} == {"CU408"}
    assert "CU401" in codes(looked(folder, options("a800-470")).report)


@pytest.mark.parametrize("source", ["pyproject.toml", "meta.yaml", "../environment.yml", "x" * 5000, "nowhere.yml"])
def test_a_source_that_is_no_environment_file_is_left_alone(folder: Path, sources: Sources, source: str) -> None:
    locked(folder, sources)
    for name in ("pyproject.toml", "meta.yaml"):
        (folder / name).write_text("[tool.x]\n")
    data = quick_yaml.load((folder / LOCK_NAME).read_text())
    data["metadata"]["sources"] = [source]
    (folder / LOCK_NAME).write_text(quick_yaml.dump(data))
    assert codes(looked(folder).report) == []


@pytest.mark.parametrize(("key", "value"), [("cuenv_gpus", "many"), ("cuenv_driver", "new"), ("cuenv_machines", "x@y")])
def test_a_record_that_is_none_is_bad_input(folder: Path, sources: Sources, key: str, value: str) -> None:
    locked(folder, sources)
    data = quick_yaml.load((folder / LOCK_NAME).read_text())
    data["metadata"]["custom_metadata"][key] = value
    (folder / LOCK_NAME).write_text(quick_yaml.dump(data))
    with pytest.raises(InputError, match="custom_metadata"):
        looked(folder, options())
    assert looked(folder).report.errors == ()


def test_what_was_allowed_stays_a_warning_and_info_stays_info(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    data = quick_yaml.load((folder / LOCK_NAME).read_text())
    data["metadata"]["custom_metadata"]["cuenv_allowed"] = "CU401 CU408"
    (folder / LOCK_NAME).write_text(quick_yaml.dump(data))
    report = looked(folder, options(gpus=("8.9",), driver="520.61.05")).report
    assert "CU401" in codes(report, "warning")
    assert "CU401" not in codes(report)
    assert codes(looked(folder).report, "info") == ["CU408"]


def test_a_lock_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        check(tmp_path / LOCK_NAME, RTX, base())


def test_every_finding_of_a_lock_has_a_plain_sentence(folder: Path, sources: Sources) -> None:
    locked(folder, sources)
    hosts: Iterable[str] = ("a800-470", "rtx5090-560", "gtx1080ti-580", "v100-rtx5090-575", "no-gpu", "gh200-570")
    for host in hosts:
        for finding in looked(folder, options(host)).report.findings:
            assert finding.message.isprintable()
            assert "None" not in finding.message


def test_why_this_machine_shows_no_gpu_is_told_and_decides_nothing(
    folder: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(folder, sources)
    hidden = replace(
        shipped("no-gpu"),
        driver=Driver(kernel_module="535.129.03"),
        environment=Surroundings(container="docker", device_nodes=()),
    )
    monkeypatch.setattr("cuenv.lockfile.check.checked_host", lambda *_: hidden)
    checked = looked(folder, options())
    assert checked.report.errors == ()
    told = {item.code: item for item in checked.report.findings if item.severity == "info"}
    assert "checked for" in told["CU409"].message
    assert "this container has no GPU" in told["CU417"].message
