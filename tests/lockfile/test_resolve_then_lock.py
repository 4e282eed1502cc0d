"""The two lines of every user: what ``cuenv resolve`` chooses is what ``cuenv lock`` takes, or it says so."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cases import collect
from channel_builder import pkg, serve, write
from commands import HOST
from commands import inside as run
from cuenv.demo.io.sample import Package, write_sample
from cuenv.host.io.record import SHIPPED
from cuenv.host.request import Request
from cuenv.lockfile.nearby import find_alternative
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.prove import NoSolution
from cuenv.resolver.resolve import resolve
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.environment_yml import parse
from cuenv.solve.io.local_records import LocalRecords, read_local_records
from cuenv.solve.io.sources import Mirror, Sources
from given import base, shipped

FORGE = "https://conda.anaconda.org/conda-forge"
HAS = "2.12.0"
"""The newest PyTorch of the sample channel for the host; the tables know newer ones."""


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("sample") / "t" / "folder"  # /t/ is no token of conda
    found = write_sample(folder, "linux-64") + write(folder, {"nvidia": []}).mirrors  # else it is asked on the network
    return tuple(word for item in found for word in ("--mirror", f"{item.origin}={item.target}"))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def torch_in(path: Path) -> str:
    spec: EnvironmentSpec = parse(path.read_text(encoding="utf-8"), path.name)[0]
    pin = spec.pin("pytorch")
    assert pin
    return pin.version


# resolve


def test_resolve_by_the_tables_says_so_in_one_line(tmp_path: Path) -> None:
    done = run("resolve", *HOST, folder=tmp_path)
    assert done.returncode == 0
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("tables ")]
    assert "not checked against the channels" in line
    assert "last seen there on 20" in line
    assert "cuenv lock --resolve" in line
    assert not (tmp_path / ".cache").exists()


def test_a_folder_that_is_typed_for_a_channel_must_be_there(tmp_path: Path) -> None:
    done = run("resolve", *HOST, "--mirror", f"conda-forge={tmp_path}/none", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{tmp_path}/none is not a folder, so it has no records of conda-forge" in done.stderr


def test_records_that_lie_here_prove_the_choice(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    done = run("resolve", *HOST, *mirrors, "-o", "environment.yml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert torch_in(tmp_path / "environment.yml") == HAS
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("proven ")]
    assert "on this machine" in line
    locked = run("lock", *mirrors, folder=tmp_path)  # no option: the head names the host
    assert locked.returncode == 0, locked.stderr
    assert f"the {''.join(line.split('machine: ')[1].split(';')[0])}" in f"the {locked.stderr.split('locked  ')[1]}"


@pytest.mark.slow
def test_the_cache_of_an_earlier_run_proves_the_choice_without_the_network(tmp_path: Path) -> None:
    write_sample(tmp_path / "served", "linux-64")
    home = tmp_path / "home"
    home.mkdir()
    with serve(tmp_path / "served") as server:
        mirror = ("--mirror", f"https://conda.anaconda.org={server.url}")
        assert run("resolve", *HOST, *mirror, "--prove", folder=home).returncode == 0
        asked = len(server.asked)
        done = run("resolve", *HOST, *mirror, "-o", "environment.yml", folder=home)
        assert len(server.asked) == asked
    assert torch_in(home / "environment.yml") == HAS
    assert "on this machine" in done.stderr
    again = run("resolve", *HOST, *mirror, folder=home)  # the server is gone
    assert "on this machine" in again.stderr


@pytest.mark.slow
def test_old_records_and_parts_of_a_channel_prove_nothing(tmp_path: Path) -> None:
    write_sample(tmp_path / "served", "linux-64")
    home = tmp_path / "home"
    home.mkdir()
    with serve(tmp_path / "served") as server:
        mirror = f"https://conda.anaconda.org={server.url}"
        run("resolve", *HOST, "--mirror", mirror, "--prove", folder=home)
        sources = Sources(
            mirrors=(Mirror(origin="https://conda.anaconda.org", target=server.url),), cache=str(home / ".cache/cuenv")
        )
    now = (home / ".cache/cuenv").stat().st_mtime
    assert read_local_records(sources, "linux-64", now=now)
    assert read_local_records(sources, "linux-64", now=now + 8 * 86400) is None
    assert read_local_records(sources, "linux-aarch64", now=now) is None
    assert read_local_records(replace(sources, mirrors=()), "linux-64", now=now) is None
    (noarch,) = [
        path for path in sources.repodata_folder().glob("*.info.json") if "/noarch/" in path.read_text(encoding="utf-8")
    ]
    noarch.with_name(noarch.name.replace(".info.json", ".json")).unlink()
    assert read_local_records(sources, "linux-64", now=now) is None


def test_records_at_hand_are_given_up_after_a_few_solves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def never(item: Candidate, *_: object) -> NoSolution:
        asked.append(item)
        return NoSolution("the solver cannot satisfy all requirements together")

    monkeypatch.setattr("cuenv.resolver.prove.solve_candidate", never)
    near = LocalRecords(sources=Sources(cache=str(tmp_path)), day="2026-11-22")
    answer = resolve(shipped("rtx4090-535"), Request(), base(), local_records=near)
    assert answer.fits
    assert not answer.records
    assert len(asked) == 8


def test_records_that_do_not_tell_leave_the_choice_to_the_tables(tmp_path: Path) -> None:
    write(tmp_path / "few", {"conda-forge": [pkg("leaf")]})
    mirror = f"conda-forge={tmp_path / 'few/conda-forge'}"
    done = run("resolve", *HOST, "--mirror", mirror, folder=tmp_path)
    assert done.returncode == 0
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("warning not proven ")]
    assert "the channels have no conda-forge::pytorch" in line
    told = json.loads(run("resolve", *HOST, "--mirror", mirror, "--json", folder=tmp_path).stdout)
    assert told["records"] is None
    assert told["lacking"] in line
    (tmp_path / "few/conda-forge/linux-64/repodata.json").write_text("{", encoding="utf-8")
    torn = run("resolve", *HOST, "--mirror", mirror, folder=tmp_path)
    assert torn.returncode == 0
    assert "tables  not checked against the channels" in torn.stderr


def test_why_and_why_not_answer_about_the_choice_of_resolve(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    why = run("why", "driver", *HOST, *mirrors, folder=tmp_path)
    assert f"pytorch {HAS} " in why.stdout.splitlines()[1]
    assert "proven  with the channel records" in why.stdout
    newer = run("why-not", "pytorch=2.13", *HOST, *mirrors, folder=tmp_path)
    assert "it fits the host, but the channels have no conda-forge::pytorch=2.13" in newer.stdout


@pytest.mark.slow
def test_a_command_that_finds_no_lock_is_told_how_to_go_on(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    """Each hint is pasted into the same folder, and works there."""
    variables = {"CUENV_MIRROR": ",".join(mirrors[1::2]), "CUDA_VISIBLE_DEVICES": ""}

    def pasted(*words: str) -> str:
        refused = run(*words, "--json", folder=tmp_path, **variables)
        assert refused.returncode == 3, refused.stderr
        hint: str = json.loads(refused.stdout)["error"]["hint"]
        for command in hint.replace(" --json", "").split(" && "):
            done = run(*shlex.split(command)[1:], folder=tmp_path, **variables)
            assert done.returncode == 0, (command, done.stderr)
        return hint

    assert pasted("check", *HOST) == shlex.join(["cuenv", "lock", "--resolve", *HOST])
    (tmp_path / "conda-lock.yml").unlink()
    assert pasted("check", "gone.lock") == "cuenv lock"
    (tmp_path / "conda-lock.yml").unlink()
    assert " && cuenv check conda-lock.yml --host" in pasted("check", "environment.yml", *HOST)
    assert pasted("install", "environment.yml", "--prefix", "env").startswith(
        "cuenv install conda-lock.yml --prefix env"
    )
    assert pasted("diff", "environment.yml", "conda-lock.yml").startswith("cuenv diff conda-lock.yml conda-lock.yml")
    login = run("install", "environment.yml", "-n", "x", "--mirror", "a=https://u:pw@h/a", folder=tmp_path, **variables)
    assert "pw@" not in login.stderr
    assert "hint: cuenv check conda-lock.yml" in login.stderr


def test_what_if_compares_two_choices_of_resolve(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    """What the channels lack fits by the tables before and after, so that it is neither new nor gone."""
    host = ("--gpu", "RTX 4090", "--glibc", "2.35", "--driver-now", "535.129.03", *mirrors)
    for more in ((), ("--prove",)):
        data = json.loads(run("what-if", *host, "--driver", "550.54.14", *more, "--json", folder=tmp_path).stdout)
        for decision in (data["before"]["decision"], data["after"]["decision"]):
            assert decision["chosen"]["pytorch"] == HAS
            assert decision["skipped"]
            assert bool(decision["records"]) is not bool(more)
        assert (data["appear"], data["vanish"]) == ([], [])
    later = json.loads(run("what-if", *host, "--driver", "580.65.06", "--json", folder=tmp_path).stdout)
    assert later["vanish"] == []  # though the records at hand may tell of one of both hosts alone
    assert {item["cuda"][:2] for item in later["appear"]} == {"13"}  # and none of CUDA 12 that was lacking before


@pytest.mark.slow
def test_the_requested_package_that_the_channels_cannot_add_is_named(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    asked = (*HOST, *mirrors, "--stack", "conda-forge", "--with", "ninja", "--with", "nosuchpkg")
    for prove in ((), ("--prove",)):
        done = run("resolve", *asked, *prove, folder=tmp_path)
        assert done.returncode == (1 if prove else 0), done.stderr
        (hint,) = [text for text in done.stderr.splitlines() if text.startswith("hint: ")]
        assert "without --with nosuchpkg: cuenv resolve " in hint  # and none that promises it of another driver
        again = shlex.split(hint.partition("nosuchpkg: cuenv ")[2])
        assert "ninja" in again
        assert run(*again, folder=tmp_path).returncode == 0


@pytest.mark.slow
def test_a_requested_package_that_no_channel_has_ends_the_search(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    asked = ("--with", "ninja", "--with", "pip=1.0")
    done = run("resolve", *HOST, *mirrors, "--stack", "conda-forge", "--prove", *asked, folder=tmp_path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "why     the channels have no pip=1.0" in lines
    assert sum(text.startswith("skipped ") for text in lines) == 1  # no other torch is tried


def test_a_file_that_is_not_there_is_chosen_for_the_host_that_was_named(tmp_path: Path) -> None:
    for words in (("--gpu", "RTX 4090", "--driver", "535.129.03"), HOST):
        hint = run("lock", *words, folder=tmp_path).stderr.splitlines()[-1]
        assert shlex.split(hint.removeprefix("hint: cuenv lock --resolve ")) == [*words]


CUDART = "cuda-cudart"
LABEL = "nvidia/label/cuda-11.8.0"


def two_channels(folder: Path, *more: Package) -> tuple[str, ...]:
    """Mirrors of channels where ``app`` for Python 3.11 needs a CUDA component of a second channel."""
    pythons = [("3.11", "py3.11_cuda11.8_0"), ("3.10", "py3.10_cuda11.8_0")]
    torch = [
        pkg("pytorch", "2.0.1", build, depends=(f"python {python}.*", "pytorch-cuda 11.8.*"))
        for python, build in pythons
    ]
    forge = [pkg("python", f"{python}.1") for python, _ in pythons]
    forge += [pkg("mkl", "2023.1"), pkg("numpy", "1.26.0"), pkg("cudatoolkit", "11.8.0"), *more]
    forge.append(pkg("app", "1.0", "py311_0", depends=("python 3.11.*", "cudatoolkit 11.8.*")))
    found = write(
        folder / "channels",
        {
            "pytorch": [*torch, pkg("pytorch-cuda", "11.8", depends=(f"{CUDART} 11.8.*",))],
            LABEL: [pkg(CUDART, "11.8.89")],
            "conda-forge": forge,
        },
    )
    return tuple(word for item in found.mirrors for word in ("--mirror", f"{item.origin}={item.target}"))


ASKED = ("--no-dev", "--stack", "pytorch", "--pytorch", "2.0.1", "--cuda", "11.8", "--with", "app")


def test_what_a_lock_would_refuse_is_not_called_proven(tmp_path: Path) -> None:
    """The solver closes it, and the lock contains CUDA components of two channels."""
    mirrors = two_channels(tmp_path, pkg("app", "0.9", "py310_0", depends=("python 3.10.*",)))
    done = run("resolve", *HOST, *ASKED, *mirrors, "--prove", "-o", "environment.yml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("skipped ")]
    assert "python 3.11: CUDA components come from 2 channels: 1 from conda-forge (cudatoolkit)" in line
    assert "python=3.10" in (tmp_path / "environment.yml").read_text(encoding="utf-8")
    assert run("lock", *mirrors, folder=tmp_path).returncode == 0


def test_where_every_lock_would_be_refused_nothing_is_proven(tmp_path: Path) -> None:
    mirrors = two_channels(tmp_path)
    done = run("resolve", *HOST, *ASKED, *mirrors, "--prove", "-o", "environment.yml", folder=tmp_path)
    assert done.returncode == 1
    assert "CUDA components come from 2 channels" in done.stderr
    assert not (tmp_path / "environment.yml").exists()
    assert run("lock", "--resolve", *HOST, *ASKED, *mirrors, folder=tmp_path).returncode == 1


def test_a_file_of_ours_that_needs_two_channels_is_repaired_to_one_that_locks(tmp_path: Path) -> None:
    mirrors = two_channels(tmp_path)
    entries = ("pytorch::pytorch=2.0.1=*cuda11.8*", "pytorch::pytorch-cuda=11.8", "python=3.11", "app")
    listed = "".join(f"  - {entry}\n" for entry in entries)
    channels = "".join(f"  - {name}\n" for name in ("pytorch", LABEL, "conda-forge"))
    text = f"# Written by cuenv 0.1.0.\nname: x\nchannels:\n{channels}dependencies:\n{listed}"
    (tmp_path / "mine.yml").write_text(text, encoding="utf-8")
    refused = run("lock", "mine.yml", *HOST, *mirrors, folder=tmp_path)
    assert refused.returncode == 1
    assert "error CU101 CUDA components come from 2 channels" in refused.stderr
    assert "fix: cuenv lock mine.yml --repair -o mine.new.yml" in refused.stderr
    done = run("lock", "mine.yml", *HOST, *mirrors, "--repair", "-o", "mine.new.yml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a package in the file needs CUDA components of a second channel" in done.stderr
    locked = run("lock", "mine.new.yml", *HOST, *mirrors, folder=tmp_path)
    assert locked.returncode == 0, locked.stderr
    assert "warning CU101 CUDA components come from 2 channels" in locked.stderr


# lock --resolve


def test_lock_resolve_is_both_lines_in_an_empty_folder(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    done = run("lock", "--resolve", *HOST, *mirrors, "--with", "ninja", "--name", "team", folder=one)
    assert done.returncode == 0, done.stderr
    assert "proven  on the channels" in done.stderr
    wishes = ("--prove", "--with", "ninja", "--name", "team", "-o", "environment.yml")
    assert run("resolve", *HOST, *mirrors, *wishes, folder=two).returncode == 0
    assert run("lock", *mirrors, folder=two).returncode == 0
    assert files(one) == files(two)
    assert run("lock", "--check", folder=one).returncode == 0


def test_lock_resolve_of_a_host_that_is_read_once(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    text = Path(SHIPPED, "rtx4090-535.json").read_text(encoding="utf-8")
    done = run("lock", "--resolve", "--host", "-", *mirrors, folder=tmp_path, text=text)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "conda-lock.yml").read_text(encoding="utf-8")
    assert '"cuenv_gpus": "8.9"' in text
    assert '"cuenv_driver": "535.129.03"' in text


@collect(
    ("words", "code", "says"),
    [
        (("--pytorch", "2.5"), 2, "--pytorch chooses an environment"),
        (("--no-dev",), 2, "--dev chooses an environment"),
        (("--name", "x"), 2, "--name chooses an environment"),
        (("--resolve", "--check"), 2, "--check starts from the existing file"),
        (("--resolve", "--repair"), 2, "--repair starts from"),
        (("--resolve", "-o", "x.yml"), 2, "hint: cuenv lock --resolve x.yml"),
        (("--resolve", "--update", "numpy"), 2, "--update starts from"),
        (("--resolve", "--with", "pip:"), 2, "an empty requirement"),
        ((*HOST, "--resolve", "--with", "pip:a @@ b"), 2, "pip:a @@ b: it is not a valid requirement"),
        ((*HOST, "--resolve", "--with", "pip:torch"), 2, "pip:torch: cuenv chooses the version of torch"),
        (("--resolve", "--gpu", "V100", "--driver", "390.1"), 1, "no candidate fits"),
        (("--resolve", *HOST, "--offline", "--mirror", "https://conda.anaconda.org=/nowhere"), 3, "/nowhere"),
    ],
)
def test_what_lock_resolve_refuses_writes_nothing(tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    done = run("lock", *words, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert files(tmp_path) == {}
    plain = run("lock", *words, "--json", folder=tmp_path)
    assert plain.returncode == code
    assert json.loads(plain.stdout)["schema"] in ("cuenv/decision/1", "cuenv/error/1")


def test_settings_of_the_request_count_with_resolve_alone(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    (tmp_path / "cuenv.toml").write_text('pytorch = "2.7"\n', encoding="utf-8")
    first = run("lock", "--resolve", *HOST, *mirrors, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert torch_in(tmp_path / "environment.yml") == "2.7.1"
    assert "--pytorch 2.7 by" in first.stderr
    then = run("lock", *mirrors, folder=tmp_path)
    assert then.returncode == 0, then.stderr
    assert "--pytorch" not in then.stderr


# a build that the channel lacks


def test_a_build_that_is_missing_is_answered_with_the_best_that_is_there(
    tmp_path: Path, mirrors: tuple[str, ...]
) -> None:
    assert (
        run("resolve", *HOST, "--with", "ninja>=1.1", "--no-dev", "-o", "my env.yml", folder=tmp_path).returncode == 0
    )
    done = run("lock", "my env.yml", *mirrors, folder=tmp_path)
    assert done.returncode == 1
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint")]
    assert f"the channels have pytorch {HAS} (cuda129*)" in hint
    words = shlex.split(hint[hint.index("cuenv lock") :])[1:]
    assert {"--no-dev", "ninja>=1.1", "--gpu", "--driver", mirrors[1]} <= set(words)
    taken = run(*words, folder=tmp_path)
    assert taken.returncode == 0, taken.stderr
    assert torch_in(tmp_path / "my env.new.yml") == HAS
    assert "ninja>=1.1" in (tmp_path / "my env.new.yml").read_text(encoding="utf-8")


def test_a_torch_that_is_there_is_kept_by_a_repair(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    file = "channels: [conda-forge]\ndependencies: [pytorch=2.7, libcudnn=1.0]\n"
    (tmp_path / "environment.yml").write_text(file, encoding="utf-8")
    done = run("lock", *HOST, *mirrors, "--allow", "CU501", "--allow-builds", folder=tmp_path)
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint")]
    words = shlex.split(hint[hint.index("cuenv lock") :])[1:]
    assert {"--repair", "CU501", "--allow-builds"} <= set(words)
    assert run(*words, folder=tmp_path).returncode == 0
    assert torch_in(tmp_path / "environment.new.yml") in ("2.7.*", "2.7.1")


@pytest.mark.slow
def test_where_nothing_near_closes_the_hint_keeps_what_can_be_kept(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    run("resolve", *HOST, "--with", "never-was", "-o", "environment.yml", folder=tmp_path)
    done = run("lock", *mirrors, folder=tmp_path)
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint")]
    words = shlex.split(hint[hint.index("cuenv lock") :])[1:]
    assert words[:4] == ["lock", "environment.yml", "--repair", "-o"]
    assert set(mirrors) <= set(words)
    assert run(*words, folder=tmp_path).returncode == 0


def test_a_file_without_torch_has_no_other_torch(tmp_path: Path) -> None:
    spec, _ = parse("channels: [conda-forge]\ndependencies: [numpy]\n", "x")
    assert find_alternative(spec, shipped("rtx4090-535"), base(), Sources(cache=str(tmp_path))) is None


def test_a_file_of_somebody_else_is_called_so_and_the_hint_repairs_it(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: theirs\nchannels: [conda-forge]\ndependencies: [python, pytorch, ninja]\n", encoding="utf-8")
    done = run("lock", "--resolve", *HOST, *mirrors, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "environment.yml was not written by cuenv" in done.stderr
    hint = next(line for line in done.stderr.splitlines() if line.startswith("hint: to restore it"))
    assert ": mv environment.yml.bak environment.yml && cuenv lock environment.yml --repair" in hint
    (tmp_path / "environment.yml.bak").rename(file)
    repaired = run(*shlex.split(hint[hint.index("cuenv lock") :])[1:], folder=tmp_path)
    assert repaired.returncode == 0, repaired.stderr
    run("lock", "--resolve", *HOST, *mirrors, folder=tmp_path)
    file.write_text(f"{file.read_text(encoding='utf-8')}# edited\n", encoding="utf-8")
    again = run("lock", "--resolve", *HOST, *mirrors, folder=tmp_path)
    assert "kept    " in again.stderr
    assert "was not written by cuenv" not in again.stderr


def test_the_hints_of_a_choice_that_locks_keep_its_command(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    old = ("--gpu", "8.9", "--driver", "390.1")
    for words in ((), ("x.yml",)):
        done = run("lock", "--resolve", *words, *old, *mirrors, folder=tmp_path)
        assert done.returncode == 1, done.stderr
        hint = next(line for line in done.stderr.splitlines() if line.startswith("hint"))
        assert shlex.join(["cuenv", "lock", "--resolve", *words, "--gpu"]) in hint
        assert "--prove" not in hint
        said = json.loads(run("lock", "--resolve", *words, *old, *mirrors, "--json", folder=tmp_path).stdout)["hints"]
        assert said[0]["command"] in hint
    wheels = run("lock", "--resolve", *old, "--format", "pylock", folder=tmp_path)
    assert "cuenv lock --resolve --format pylock --gpu" in wheels.stderr
    assert list(tmp_path.iterdir()) == []
