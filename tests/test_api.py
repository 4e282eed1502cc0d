"""The public API does what the command line does, and takes what people hand it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cuenv
from cases import collect
from cuenv.core.errors import UsageError
from cuenv.demo.io.sample import write_sample
from cuenv.host.facts import HostFacts
from cuenv.host.request import pool as merge
from cuenv.solve.io.sources import Sources


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(mirrors=write_sample(tmp_path / "channels", "linux-64"), cache=str(tmp_path / "cache"))


def test_the_whole_line_in_python(tmp_path: Path, sources: Sources) -> None:
    host = cuenv.read_host("rtx4090-535")
    answer = cuenv.resolve(host, cuenv.make_request(name="team"), prove=sources)
    assert answer.fits
    assert answer.spec is not None
    path = tmp_path / "environment.yml"
    path.write_text(cuenv.render(answer.spec), encoding="utf-8")
    for _ in range(2):  # the submodules that a first call loads must not take the place of the functions
        locked = cuenv.lock(str(path), "rtx4090-535", sources=sources)
        assert locked.lock is not None
        checked = cuenv.check(tmp_path / "conda-lock.yml", host="rtx4090-535")
        assert not checked.report.errors
    assert not cuenv.check(str(tmp_path / "conda-lock.yml"), gpus="RTX 5090", driver="575.57.08").report.errors
    old = cuenv.check(tmp_path / "conda-lock.yml", gpus=["A800"], driver="470.129.06")
    assert [item.code for item in old.report.errors] == ["CU401"]


def test_why_and_why_not_answer_about_a_decision() -> None:
    decision = cuenv.resolve(cuenv.make_host("V100", "RTX 5090", driver="575.57.08", glibc="2.31")).decision
    assert "9.11" in cuenv.why(decision, "cudnn").verdicts[0][0].because
    assert "580.65.06" in cuenv.why_not(decision, "cuda=13.0").says


def test_a_pool_is_that_of_the_station() -> None:
    hosts = [cuenv.read_host("pool-v100"), cuenv.read_host("pool-rtx5090")]
    assert cuenv.pool(*hosts) == merge(hosts)


def test_this_machine_can_be_asked() -> None:
    assert isinstance(cuenv.inspect_host(), HostFacts)


def test_every_public_name_is_there() -> None:
    for name in cuenv.__all__:
        assert getattr(cuenv, name)


def test_what_the_pages_call_is_public(request: pytest.FixtureRequest) -> None:
    """A function that a page shows as ``cuenv.resolve(`` is offered by the package."""
    root = request.config.rootpath
    pages = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"\bcuenv\.([a-z_]+)\(", page.read_text(encoding="utf-8"))}
    assert {"resolve", "choices", "diagnose"} <= shown <= set(cuenv.__all__)


def test_a_plan_of_many_hosts_is_that_of_the_command() -> None:
    hosts = [replace(cuenv.read_host(name), name=name) for name in ("a800-470", "rtx4090-535", "pool-rtx5090")]
    found = cuenv.plan(hosts)
    assert len(found.environments) == 2
    assert [kind.names for item in found.environments for kind in item.kinds]
    assert len(cuenv.plan(iter(hosts[1:]), cuenv.make_request(), at_most=1, glibc="2.28").environments) == 1
    with pytest.raises(UsageError, match="told of twice"):
        cuenv.plan([hosts[0], replace(hosts[1], name=hosts[0].name)])
    with pytest.raises(TypeError):
        cuenv.plan(["a800-470"])  # type: ignore[list-item]


def test_the_choices_of_many_hosts_are_those_of_each() -> None:
    hosts = [cuenv.read_host(name) for name in ("a800-470", "no-gpu", "rtx4090-535")]
    hosts.append(replace(hosts[1], driver=hosts[0].driver))  # a driver without a GPU decides nothing
    requested, tables = cuenv.make_request(pytorch="2.5"), cuenv.load_knowledge()
    chosen = [cuenv.resolve(host, requested, tables=tables).decision.chosen for host in hosts]
    expected = [str(one.candidate if one else None) for one in chosen]
    assert list(map(str, cuenv.choices(hosts, requested, tables=tables))) == expected
    assert "None" in expected
    assert [str(one) for one in cuenv.choices(iter(hosts[2:3]))] == [
        str(cuenv.resolve(hosts[2]).decision.fitting[0].candidate)
    ]


def test_one_text_is_not_taken_for_its_letters() -> None:
    assert cuenv.make_request(packages="numpy", pip="einops").packages == ("numpy",)
    assert cuenv.wishes is cuenv.make_request  # the name in version 0.1
    assert cuenv.channels("conda-forge=/srv/conda-forge").mirrors[0].target == "/srv/conda-forge"


@collect(
    "wrong",
    [{"prefer": "oldest"}, {"stack": "defaults"}, {"cpu": True, "cuda": "12"}, {"pytorch": "two"}],
)
def test_a_wish_that_cannot_be_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        cuenv.make_request(**wrong)  # type: ignore[arg-type]  # that it is wrong is the point


def test_a_host_needs_a_gpu_that_exists() -> None:
    with pytest.raises(UsageError):
        cuenv.make_host()
    with pytest.raises(UsageError, match="4090"):
        cuenv.make_host("RTX 4099")


HOST = cuenv.read_host("rtx4090-535")
anyhow: Any = cuenv  # as from a notebook, where nobody checks types


@collect(
    ("call", "said"),
    [
        (
            lambda: anyhow.make_request(pytorch=2.5),
            "make_request: pytorch takes a text such as '2.5', got the number 2.5",
        ),
        (lambda: anyhow.make_request(cuda=12), "make_request: cuda .* the number 12"),
        (lambda: anyhow.make_request(python=(3, 12)), "make_request: python .* a tuple"),
        (lambda: anyhow.make_request(packages=5), "make_request: packages .* the number 5"),
        (lambda: anyhow.make_request(pip=["einops", None]), "make_request: pip .* None among them"),
        (lambda: anyhow.make_request({"pytorch": "2.5"}), "make_request: name .* a dict"),
        (lambda: anyhow.make_host(["A100", "H100"]), "make_host: gpus .* a list"),
        (lambda: anyhow.make_host(8.9), "make_host: gpus .* the number 8.9"),
        (lambda: anyhow.make_host("A100", driver=535), "make_host: driver .* the number 535"),
        (lambda: anyhow.make_host("A100", glibc=2.31), "make_host: glibc .* the number 2.31"),
        (lambda: anyhow.read_host(None), "read_host takes a text such as 'rtx4090-535'.* got None"),
        (lambda: anyhow.resolve(HOST, {"pytorch": "2.5"}), "resolve: asked takes what make_request.. gives, got a"),
        (lambda: anyhow.pool(["rtx4090-535"]), "pool: each host takes what read_host.. .*, got a list"),
        (lambda: anyhow.resolve("rtx4090-535"), "resolve: host takes what read_host.*, got 'rtx4090-535'"),
        (
            lambda: anyhow.resolve(HOST, {"pytorch": "2.5"}),
            "resolve: asked takes what make_request.. gives, got a dict",
        ),
        (lambda: anyhow.resolve(HOST, prove=True), "resolve: prove takes what channels.. gives, got True"),
        (lambda: anyhow.render(anyhow.resolve(HOST)), "render takes what resolve.* gives, got a Resolution"),
        (lambda: anyhow.why(anyhow.resolve(HOST), "pytorch"), "why: decision .* got a Resolution"),
        (lambda: anyhow.why(anyhow.resolve(HOST).decision, 3), "why: subject .* the number 3"),
        (lambda: anyhow.diagnose(Path("train.log")), "diagnose: log .* a PosixPath"),
        (lambda: anyhow.diagnose("x", "rtx4090-535"), "diagnose: host .* 'rtx4090-535'"),
        (lambda: anyhow.check("conda-lock.yml", gpus=8.9), "check: gpus .* the number 8.9"),
        (lambda: anyhow.lock("environment.yml", allow=104), "lock: allow .* the number 104"),
        (lambda: anyhow.scan(3), "scan: paths .* the number 3"),
        (lambda: anyhow.channels({"conda-forge": "/srv"}), "channels: mirrors .* a dict"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


@collect(
    ("call", "said"),
    [
        (lambda: cuenv.make_host("RTX 4099"), "gpus 'RTX 4099'"),
        (lambda: cuenv.make_host("A100", driver="five"), "driver: "),
        (lambda: cuenv.make_host("A100", glibc="x"), "glibc: "),
        (lambda: cuenv.make_host("A100", platform="win-64"), "platform 'win-64'"),
        (lambda: cuenv.scan(".", gpus="RTX 4099"), "gpus 'RTX 4099'"),
        (lambda: cuenv.channels("nonsense"), "mirrors"),
    ],
)
def test_an_error_speaks_of_the_argument(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert said in caught.value.message
    assert "--" not in caught.value.message


def test_where_nothing_fits_it_is_said() -> None:
    answer = cuenv.resolve(cuenv.make_host("8.9", driver="390.1"))
    assert not answer.fits
    with pytest.raises(UsageError, match="nothing fits") as caught:
        cuenv.render(answer.spec)
    assert "answer.fits" in caught.value.message
    code = caught.value.hint or ""
    lines: list[str] = []
    exec(code, {"answer": answer, "print": lambda *texts, sep: lines.extend(texts)})
    assert any("390.1" in line for line in lines)


def test_dir_shows_what_is_offered() -> None:
    shown = dir(cuenv)
    assert set(cuenv.__all__) <= set(shown)
    assert {"errors", "runtime"} <= set(shown)
    assert not {"annotations", "TYPE_CHECKING"} & set(shown)
    assert all(getattr(cuenv, name) is not None for name in shown)
    assert cuenv.runtime.check_same_device


def test_a_host_is_read_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"schema": "cuenv/host/1", "platform": "linux-64", "gpus": []}')
    assert cuenv.read_host(tmp_path / "host.json").platform == "linux-64"


def test_an_environment_is_checked_and_its_binaries_are_scanned(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    checked = cuenv.check_prefix(tmp_path, "rtx4090-535")
    assert {check.name for check in checked.checks} >= {"packages", "linkage", "host"}
    assert checked.prefix.kind == "venv"
    scanned = cuenv.scan(tmp_path, gpus="V100", driver="535.129.03")
    assert not scanned.files
