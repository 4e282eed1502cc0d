"""An installed environment against its lock and against itself: prefixes that the installer made, and then spoiled."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cases import collect
from channel_builder import PLATFORM
from cuenv.core.errors import InputError
from cuenv.core.findings import Finding, Severity, report
from cuenv.host.select import HostOptions
from cuenv.prefix.check import CODE_ORDER, PrefixCheck, check_prefix, fold_effects
from cuenv.prefix.consistency import prefix_findings
from cuenv.prefix.inventory import DamagedRecord, Prefix
from cuenv.prefix.io.prefix import find_prefix, outside_sites
from cuenv.solve.model import PipLocked, Solution
from given import base
from prefixes import SITE, dist, installed, lock_file, package, put, standard, torch_files, venv, wheel_file

QUIET = {"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_GLIBC": "2.35", "HOME": ""}
RTX = HostOptions(gpus=("8.9",), driver="570.124.06", glibc="2.35", platform=PLATFORM, environ=QUIET)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that whoever runs the tests may write: torch builds its extensions there."""
    (tmp_path / "home").mkdir()
    monkeypatch.setitem(QUIET, "HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Solution]:
    return installed(tmp_path_factory.mktemp("made"), standard())


@pytest.fixture
def env(tmp_path: Path, made: tuple[Path, Solution]) -> Path:
    """A copy of the environment that a test may spoil, and its lock beside it."""
    shutil.copytree(made[0], tmp_path / "env", symlinks=True)
    lock_file(tmp_path / "conda-lock.yml", made[1])
    return tmp_path / "env"


def checked(env: Path, *, lock: bool = False, environ: dict[str, str] | None = None) -> PrefixCheck:
    options = HostOptions(
        gpus=RTX.gpus, driver=RTX.driver, glibc=RTX.glibc, platform=PLATFORM, environ=environ or QUIET
    )
    return check_prefix(env, options, base(), lock=env.parent / "conda-lock.yml" if lock else None)


def found(told: PrefixCheck, check: str = "packages") -> list[Finding]:
    (one,) = [item for item in told.checks if item.name == check]
    return list(one.findings)


def codes(told: PrefixCheck, check: str = "packages") -> list[tuple[str, str, str]]:
    return [(item.code, item.severity, item.subject) for item in found(told, check)]


def status(told: PrefixCheck) -> dict[str, str]:
    return {item.name: item.status for item in told.checks}


def drop(env: Path, name: str) -> None:
    for path in (env / "conda-meta").glob(f"{name}-*.json"):
        path.unlink()


def test_an_environment_as_it_was_locked_is_fine(env: Path) -> None:
    told = checked(env, lock=True)
    assert told.report.errors == ()
    assert {status(told)[name] for name in ("packages", "sources", "runtime")} == {"ok"}
    # No row tells the GPU code of this made-up build, and what nobody knows is not called fine.
    assert ("CU111", "warning") in [(item.code, item.severity) for item in found(told, "host")]
    (line,) = [item.says for item in told.checks if item.name == "packages"]
    assert line == "9 conda packages; against the lock"
    assert status(checked(env))["packages"] == "ok"


def with_conda(env: Path) -> dict[str, str]:
    """A conda is at hand, which nobody starts."""
    conda = env.parent / "conda"
    conda.touch()
    conda.chmod(0o755)
    return QUIET | {"CONDA_EXE": str(conda)}


def test_missing_changed_and_further_packages_have_one_command_each(env: Path) -> None:
    drop(env, "nccl")
    for path in (env / "conda-meta").glob("numpy-*.json"):
        path.write_text(path.read_text().replace('"py312_0"', '"py312_1"'))
    record = json.loads(next((env / "conda-meta").glob("cuda-version-*.json")).read_text())
    put(env, {"conda-meta/scipy-1.0-0.json": json.dumps(record | {"name": "scipy", "files": [], "paths_data": {}})})
    findings = {
        item.code: item
        for item in found(checked(env, lock=True, environ=with_conda(env)))
        if item.subject in ("nccl", "numpy", "scipy")
    }
    url = "https://conda.anaconda.org/conda-forge/linux-64/"
    put_back = f"conda install -y -p {env} {url}"
    assert findings["CU201"].fix == f"{put_back}nccl-2.27.5.1-0.tar.bz2"
    assert findings["CU202"].fix == f"{put_back}numpy-2.3.1-py312_0.tar.bz2"
    assert findings["CU203"].fix == f"conda remove -y --force -p {env} scipy"
    assert "numpy is 2.3.1 py312_1, but the lock has 2.3.1 py312_0" in findings["CU202"].message


def test_a_hash_decides_before_a_channel(env: Path) -> None:
    path = next((env / "conda-meta").glob("nccl-*.json"))
    whole = json.loads(path.read_text())
    mirror = whole["url"].replace("conda.anaconda.org", "mirror.example.com")
    path.write_text(json.dumps(whole | {"url": mirror}))
    assert "CU202" not in {code for code, _, _ in codes(checked(env, lock=True))}
    path.write_text(json.dumps(whole | {"sha256": "0" * 64}))
    (finding,) = [item for item in found(checked(env, lock=True)) if item.code == "CU202"]
    assert "has the sha256" in finding.message
    path.write_text(json.dumps(whole | {"url": mirror, "sha256": None, "md5": None}))
    (finding,) = [item for item in found(checked(env, lock=True)) if item.code == "CU202"]
    assert "from https://mirror.example.com/conda-forge" in finding.message


def test_the_pip_part_of_the_lock_counts(env: Path, made: tuple[Path, Solution]) -> None:
    pip = tuple(
        PipLocked(
            name=name, version="1.0", url=f"https://files.example.com/{name}-1.0-py3-none-any.whl", sha256="0" * 64
        )
        for name in ("there", "other", "absent")
    )
    lock_file(env.parent / "conda-lock.yml", made[1], pip)
    for name, number in (("there", "1.0"), ("other", "1.1"), ("extra", "3.0")):
        put(env, dist(name, number, "pip"))
    folder = f"{SITE}/mine-0.1.dist-info"
    put(env, {**dist("mine", "0.1", "pip"), f"{folder}/direct_url.json": '{"url": "file:///srv/mine"}'})
    assert set(codes(checked(env, lock=True))) == {
        ("CU201", "error", "absent"),
        ("CU202", "error", "other"),
        ("CU203", "warning", "extra"),
        ("CU203", "info", "mine"),
    }


def test_pip_over_conda_in_each_of_its_forms(env: Path) -> None:
    shutil.rmtree(env / SITE / "torch-2.7.1.dist-info")  # as pip does it: conda's files go, conda's record stays
    put(env, torch_files("2.9.1+cu128", "12.8", "pip"))
    put(env, dist("numpy", "2.3.1", "pip"))  # the same version, written over
    put(env, dist("requests", "2.33.0", "pip"))  # beside
    told = checked(env)
    assert set(codes(told)) == {
        ("CU204", "error", "torch"),
        ("CU204", "error", "numpy"),
        ("CU204", "warning", "requests"),
    }
    messages = {item.subject: item.message for item in found(told)}
    assert "removed its files" in messages["torch"]
    assert "overwrote its files" in messages["numpy"]
    assert "is beside" in messages["requests"]
    fix = next(item.fix for item in found(told) if item.subject == "torch")
    assert fix is not None
    again = f"conda remove -y --force -p {env} pytorch && conda install -y -p {env} https://"
    assert fix.startswith(f"uv pip uninstall --python {env}/bin/python torch && {again}")


def test_a_record_without_its_files(env: Path) -> None:
    shutil.rmtree(env / SITE / "requests-2.32.0.dist-info")
    assert codes(checked(env)) == [("CU205", "error", "requests")]


@pytest.mark.parametrize(
    ("gone", "severity"),
    [
        (("humble/core.py", "humble/tests/test_it.py"), "error"),
        (("humble/lib/libhumble.so.1",), "error"),
        (("humble/data.json",), "warning"),
        (("humble/core.pyi", "humble/tests/test_it.py"), "info"),
    ],
)
def test_files_that_a_wheel_brought_and_that_are_gone(tmp_path: Path, gone: tuple[str, ...], severity: str) -> None:
    """What lies on the disk is compared with RECORD; Python's own files and dist-info do not count."""
    names = ("core.py", "core.pyi", "data.json", "lib/libhumble.so.1", "tests/test_it.py", "__pycache__/core.pyc")
    wheel = wheel_file(tmp_path, "humble", "1.0", {f"humble/{name}": "x" for name in names})
    env = venv(tmp_path / "env", wheel)
    site = Path(find_prefix(env).site_packages[0])
    shutil.rmtree(site / "humble/__pycache__")
    assert codes(checked(env)) == []
    for name in gone:
        (site / name).unlink()
    (finding,) = found(checked(env))
    assert (finding.code, finding.severity, finding.subject) == ("CU215", severity, "humble")
    assert f"{len(gone)} of 5 files of humble 1.0 were removed: {gone[0]}" in finding.message
    assert "--force-reinstall --no-deps file://" in (finding.fix or "")
    shutil.rmtree(site / "humble")
    assert "all 5 files of humble 1.0 were removed" in found(checked(env))[0].message


def test_files_that_a_conda_package_brought_and_that_are_gone(env: Path) -> None:
    (gone,) = [path for path in env.rglob("libcudnn.so.9*") if "conda-meta" not in str(path)][:1]
    gone.unlink()
    told = checked(env)
    (finding,) = [item for item in told.report.findings if item.code == "CU215"]
    assert (finding.severity, finding.subject) == ("error", "libcudnn")
    assert str(gone.relative_to(env)) in finding.message
    assert "libcudnn-" in (finding.fix or "")
    assert "CU213" in {item.code for check in told.checks for item in check.findings}
    assert "CU213" not in {item.code for item in told.report.findings}  # one cause, one finding
    assert any(line.startswith("so CU213: ") for line in finding.evidence)


def test_what_a_record_makes_up_is_not_looked_for(env: Path) -> None:
    path = next((env / "conda-meta").glob("nccl-*.json"))
    whole = json.loads(path.read_text())
    for listed in (["/etc/absent", "../../absent", "a\x1b[2J/b", 7, None], "no list", {"a": 1}):
        path.write_text(json.dumps(whole | {"files": listed}))
        assert codes(checked(env)) == []


@pytest.mark.parametrize(
    ("torch", "numpy", "bad"),
    [("2.0.1+cu118", "2.1.0", True), ("1.13.1", "2.0.0", True), ("2.2.2", "1.26.4", False), ("2.3.0", "2.1.0", False)],
)
def test_numpy_2_beside_a_torch_for_numpy_1(tmp_path: Path, torch: str, numpy: str, bad: bool) -> None:
    files = {"torch/version.py": f"__version__ = '{torch}'\ncuda = None\n"}
    wheels = (wheel_file(tmp_path, "torch", torch.partition("+")[0], files), wheel_file(tmp_path, "numpy", numpy))
    env = venv(tmp_path / "env", *wheels)
    findings = [item for item in found(checked(env)) if item.code == "CU216"]
    assert [item.severity for item in findings] == ["error"] * bad
    assert all("'numpy<2'" in (item.fix or "") for item in findings)


def test_findings_come_by_weight_and_one_cause_is_one_finding() -> None:
    def one(code: str, subject: str, severity: Severity = "error", *evidence: str) -> Finding:
        return Finding(code=code, severity=severity, subject=subject, message=f"{code} of {subject}", evidence=evidence)

    files = one("CU215", "nvidia-cudnn-cu12", "error", "nvidia/cudnn/lib/libcudnn.so.9")
    many = one("CU211", "libcublas.so.12, libcudart.so.12")
    told = [
        *(
            one("CU230", "libcudnn.so.9"),
            one("CU230", "libcublas.so.*[0-9]"),
            one("CU230", "libnvrtc.so.12", "warning"),
        ),
        *(
            one("CU230", "libfoo.so.1"),
            one("CU252", "7.0"),
            one("CU290", "torch on 7.0"),
            one("CU213", "libcudnn.so.9"),
        ),
        *(one("CU212", "nvcc", "warning", "/t/bin/nvcc"), one("CU412", "/t", "warning"), files, many),
    ]
    ordered = report("x", fold_effects(told), (), CODE_ORDER).findings
    assert [(item.code, item.subject) for item in ordered] == [
        ("CU215", "nvidia-cudnn-cu12"),
        ("CU290", "torch on 7.0"),
        ("CU211", "libcublas.so.12, libcudart.so.12"),
        ("CU230", "libfoo.so.1"),
        ("CU252", "7.0"),
        ("CU212", "nvcc"),
    ]
    assert ordered[0].evidence[1:] == ("so CU230: CU230 of libcudnn.so.9", "so CU213: CU213 of libcudnn.so.9")
    alone = [one("CU213", "libcudnn.so.9", "warning"), one("CU230", "libcudnn.so.9")]
    assert fold_effects(alone) == alone  # a warning explains no error
    shuffled = report("x", fold_effects(reversed(told)), (), CODE_ORDER).findings
    assert [item.code for item in shuffled] == [item.code for item in ordered]


def test_a_distribution_that_stands_twice(tmp_path: Path) -> None:
    env = venv(tmp_path / "env", wheel_file(tmp_path, "torch", "2.9.1"), wheel_file(tmp_path, "humble", "1.0"))
    assert codes(checked(env)) == []
    site = Path(find_prefix(env).site_packages[0])
    for name, number in (("torch", "2.8.0"), ("humble", "0.9")):
        put(site, {f"{name}-{number}.dist-info/METADATA": f"Name: {name}\n"})
    assert set(codes(checked(env))) == {("CU206", "error", "torch"), ("CU206", "warning", "humble")}


def test_a_torch_outside_goes_first(env: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    site = home / ".local/lib/python3.12/site-packages"
    put(site, {"torch/version.py": "__version__ = '2.3.0+cpu'\ncuda = None\n"})
    (finding,) = found(checked(env, environ=QUIET | {"HOME": str(home)}))
    assert (finding.code, finding.severity, finding.subject) == ("CU208", "error", "torch")
    assert f"torch 2.3.0+cpu of {site} (user site) instead of the environment's 2.7.1" in finding.message
    assert finding.fix == f"conda env config vars set -p {env} PYTHONNOUSERSITE=1"
    assert codes(checked(env, environ=QUIET | {"HOME": str(home), "PYTHONNOUSERSITE": "1"})) == []
    (finding,) = found(checked(env, environ=QUIET | {"PYTHONPATH": f"relative:{site}"}))
    assert (finding.code, finding.fix) == ("CU208", "unset PYTHONPATH")


def test_what_else_goes_first_is_graded(env: Path, tmp_path: Path) -> None:
    for name, severity in (("requests", "warning"), ("numpy", "error")):
        site = tmp_path / name / ".local/lib/python3.12/site-packages"
        put(site, {f"{name}-1.0.dist-info/METADATA": f"Name: {name}\n"})
        told = checked(env, environ=QUIET | {"HOME": str(tmp_path / name)})
        assert codes(told) == [("CU208", severity, "user site")]


def test_a_venv_reads_its_base_only_when_told(tmp_path: Path) -> None:
    root = tmp_path / "base"
    env = venv(tmp_path / "env")
    python = find_prefix(env).python
    put(root / f"lib/python{python}/site-packages", {"torch/version.py": "__version__ = '2.3.0'\ncuda = '12.1'\n"})
    (root / "bin").mkdir()
    for shared, expected in (("false", []), ("true", [("CU208", "info", "torch")])):
        (env / "pyvenv.cfg").write_text(f"home = {root}/bin\ninclude-system-site-packages = {shared}\n")
        assert codes(checked(env)) == expected


def test_a_python_without_the_gil_has_its_packages_in_a_folder_of_its_own(tmp_path: Path) -> None:
    prefix, home = tmp_path / "env", tmp_path / "home"
    for site in (prefix / "lib/python3.13t/site-packages", home / ".local/lib/python3.13t/site-packages"):
        (site / "torch-2.7.1.dist-info").mkdir(parents=True)
        (site / "torch-2.7.1.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.7.1\n")
    (prefix / "bin").mkdir()
    (prefix / "bin/python3.13t").touch()
    (prefix / "bin/python3").symlink_to("python3.13t")
    found = find_prefix(prefix)
    assert (found.kind, found.python) == ("python", "3.13")
    assert [wheel.name for wheel in found.wheels] == ["torch"]
    (outside,) = outside_sites(found, {"HOME": str(home)})
    assert (outside.via, outside.path) == ("user site", str(home / ".local/lib/python3.13t/site-packages"))


def test_the_cpu_twin_of_conda(tmp_path: Path) -> None:
    twin = [item for item in standard() if item.name != "pytorch"]
    twin.append(package("pytorch", "2.7.1", "cpu_mkl_py312_0", files=torch_files("2.7.1", None)))
    env, _ = installed(tmp_path, twin)
    assert [code for code, _, _ in codes(checked(env))] == ["CU103"]


def test_the_cpu_build_of_conda_alone_is_replaced_by_conda(tmp_path: Path) -> None:
    alone = [standard()[0], package("pytorch", "2.7.1", "cpu_mkl_py312_0", files=torch_files("2.7.1", None))]
    env, _ = installed(tmp_path, alone)
    (finding,) = [item for item in checked(env).report.findings if item.severity != "info"]
    assert finding.code == "CU209"
    assert (finding.fix or "").endswith("-c conda-forge 'pytorch=2.7.1=cuda*'")


@pytest.mark.parametrize(
    ("beside", "gpus", "expected"),
    [
        ((), ("8.9",), [("CU209", "warning", "torch")]),
        (("nvidia-cudnn-cu12",), (), [("CU209", "error", "torch")]),
        ((), (), []),
    ],
)
def test_a_cpu_torch_from_pip(
    tmp_path: Path, beside: tuple[str, ...], gpus: tuple[str, ...], expected: list[tuple[str, str, str]]
) -> None:
    told = {"torch/version.py": "__version__ = '2.9.1+cpu'\ncuda: Optional[str] = None\n"}
    wheels = [wheel_file(tmp_path, "torch", "2.9.1+cpu", told), *(wheel_file(tmp_path, name, "9.1") for name in beside)]
    env = venv(tmp_path / "env", *wheels)
    options = RTX if gpus else HostOptions(hosts=("no-gpu",), environ=QUIET)
    assert codes(check_prefix(env, options, base())) == expected


def test_a_lock_at_hand_that_is_another_environments_is_not_compared(env: Path, tmp_path: Path) -> None:
    lock = env.parent / "conda-lock.yml"
    own = check_prefix(env, RTX, base(), lock=lock, named=False)
    assert own.checks[0].says == "9 conda packages; against the lock"
    other, _ = installed(tmp_path / "other", [package("lonely", "1.0")])
    told = check_prefix(other, RTX, base(), lock=lock, named=False)
    assert "0 of its 9 packages are installed as locked" in told.checks[0].says
    assert codes(told) == []
    named = check_prefix(other, RTX, base(), lock=lock)
    assert [code for code, _, _ in codes(named)].count("CU201") == 9


def test_a_venv_is_not_made_from_conda_packages(env: Path, tmp_path: Path) -> None:
    other = venv(tmp_path / "venv")
    told = check_prefix(other, RTX, base(), lock=env.parent / "conda-lock.yml")
    assert codes(told) == [("CU201", "error", "conda")]
    unnamed = check_prefix(other, RTX, base(), lock=env.parent / "conda-lock.yml", named=False)
    assert codes(unnamed) == []
    assert "no evidence that this venv environment was made from it" in unnamed.checks[0].says


def test_an_environment_of_another_platform_is_an_error_with_a_way_out(env: Path) -> None:
    """conda makes it of an explicit file without a word."""
    options = HostOptions(gpus=RTX.gpus, driver=RTX.driver, glibc="2.35", platform="linux-aarch64", environ=QUIET)
    told = check_prefix(env, options, base(), lock=env.parent / "conda-lock.yml")
    (finding,) = [item for item in told.report.findings if item.code == "CU106"]
    assert "has packages for linux-64" in finding.message
    both = "cuenv lock --platform linux-64 --platform linux-aarch64"
    assert finding.fix == f"{both} && cuenv install {env.parent}/conda-lock.yml --prefix {env} --replace"
    (alone,) = [item for item in check_prefix(env, options, base()).report.findings if item.code == "CU106"]
    assert alone.fix == f"{both} && cuenv install --prefix {env}.new"


# hostile prefixes


def test_damaged_records_are_findings_and_the_rest_is_checked(env: Path) -> None:
    meta, site = env / "conda-meta", env / SITE
    (meta / "dangling-1-0.json").symlink_to("/nowhere/at/all")
    os.mkfifo(meta / "pipe-1-0.json")
    (meta / "folder-1-0.json").mkdir()
    (meta / "bomb-1-0.json").write_text("[" * 200_000)
    (meta / "number-1-0.json").write_text("3")
    (meta / "cut-1-0.json").write_bytes((meta / "history").read_bytes()[:10] + b'{"name": "cut')
    (site / "cut-1.0.dist-info").mkdir()
    (site / "~orch").mkdir()
    told = checked(env)
    assert {(severity, subject) for code, severity, subject in codes(told) if code == "CU207"} == {
        *(("error", f"{name}-1-0.json") for name in ("dangling", "pipe", "folder", "bomb", "number", "cut")),
        ("warning", "cut-1.0.dist-info"),
        ("warning", "~orch"),
    }
    assert status(told)["runtime"] == "ok"
    fixes = {item.subject: item.fix or "" for item in found(told)}
    assert fixes["bomb-1-0.json"].startswith(f"mv {meta}/bomb-1-0.json {meta}/bomb-1-0.json.bad && ")
    assert fixes["bomb-1-0.json"].endswith(" --override-channels -c conda-forge bomb=1=0")


def test_pipes_and_links_among_the_distributions_do_not_block(env: Path) -> None:
    site = env / SITE
    folder = site / "evil-1.0.dist-info"
    folder.mkdir()
    for name in ("INSTALLER", "direct_url.json", "RECORD"):
        os.mkfifo(folder / name)
    (folder / "METADATA").write_text("Name: evil\n")
    nvidia = site / "nvidia_evil-1.0.dist-info"
    nvidia.mkdir()
    os.mkfifo(nvidia / "RECORD")
    (nvidia / "METADATA").write_text("Name: nvidia-evil\n")
    (site / "loop").symlink_to("loop")
    (site / "torch" / "lib").mkdir()
    os.mkfifo(site / "torch" / "lib" / "libcudart.so.12")
    put(site, {"nvidia/cut/lib/libcudnn.so.9": b"\x7fELF", "nvidia/text/lib/libnccl.so.2": "INPUT(-lnccl)\n"})
    assert {subject for _, _, subject in codes(checked(env))} == set()


def test_names_that_are_commands_or_escapes_never_become_one(env: Path) -> None:
    record = json.loads(next((env / "conda-meta").glob("cuda-version-*.json")).read_text())
    for number, name in enumerate(("--all", "x\x1b[31m", "a\nok fine", "; rm -rf ~")):
        hostile = record | {"name": name, "url": "--prefix=/", "files": [], "paths_data": {"paths": [3, {"_path": 4}]}}
        put(env, {f"conda-meta/h{number}-1-0.json": json.dumps(hostile)})
    findings = [item for item in found(checked(env, lock=True)) if item.code == "CU203"]
    assert len(findings) == 4
    assert {item.fix for item in findings} == {f"cuenv install {env.parent}/conda-lock.yml --prefix {env} --replace"}


@collect("what", ["missing", "file", "empty", "escape"])
def test_what_is_no_environment_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / ("\x1b[31mred" if what == "escape" else what)
    if what == "file":
        path.write_text("x")
    elif what != "missing":
        path.mkdir()
    with pytest.raises(InputError) as caught:
        find_prefix(path)
    assert "\x1b" not in caught.value.message


def test_a_record_that_permissions_forbid_is_made_readable_and_a_broken_one_set_aside() -> None:
    path = "/env/conda-meta/zlib-1.3.1-h1.json"
    records = (DamagedRecord(path, "cannot be read", forbidden=True), DamagedRecord(path, "not valid JSON"))
    prefix = Prefix(path="/env", kind="conda", python=None, site_packages=(), damaged=records)
    forbidden, broken = prefix_findings(prefix, (), base(), {})
    assert (forbidden.code, forbidden.fix) == ("CU207", f"chmod a+r {path}")
    assert (broken.fix or "").startswith(f"mv {path} {path}.bad && ")
