"""Locks with a pip part, end to end: the files, the commands, what is refused, what is never written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quick_yaml
from channel_builder import Server, pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import InputError
from cuenv.core.findings import Report
from cuenv.host.select import HostOptions
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME, read_environment, read_lock, spec_digest
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.lockfile.setups import with_build_needs
from cuenv.solve import environment_yml
from cuenv.solve.environment_yml import render
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import PipLocked, Solution
from cuenv.solve.pip_lines import read_lines
from given import base, shipped_base
from pip_index import index, pip_of_this_python, source, stock, variables, wheel

REQUIREMENTS = "requirements-linux-64.lock.txt"
FILES = ("conda-linux-64.lock", "conda-linux-64.lock.yml", LOCK_NAME, REQUIREMENTS)
SECRET = "hunter2secret"
PYTHON = "python >=3.12,<3.13.0a0"


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    packages = [
        pkg("python", "3.12.7", "h1_0_cpython"),
        pkg("python", "3.11.9", "h1_0_cpython"),
        pkg("pip", "25.0", "pyh_0", subdir="noarch", noarch="python", depends=("python >=3.9",)),
        pkg("numpy", "1.26.4", "py312h_0", depends=(PYTHON,)),
        pkg("tzdata", "2025b", "h_0", subdir="noarch", noarch="generic"),
        pkg("pytorch", "2.5.1", "cuda126_py312_0", depends=(PYTHON, "numpy", "__cuda")),
    ]
    return write(tmp_path_factory.mktemp("channel"), {"conda-forge": packages})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with index(stock(tmp_path_factory.mktemp("index"))) as running:
        yield running


def environment(folder: Path, *pip: str, conda: tuple[str, ...] = ("pip",)) -> Path:
    lines = ["name: train", "channels: [conda-forge]", "dependencies:", "- python=3.12"]
    lines += ["- conda-forge::pytorch=2.5.1=cuda126*", *(f"- {item}" for item in conda)]
    lines += ["- pip:", *(f"  - {json.dumps(item)}" for item in pip)] if pip else []
    path = folder / "environment.yml"
    path.write_text("\n".join(lines) + "\n")
    return path


def locked(folder: Path, sources: Sources, server: Server, *, allow: tuple[str, ...] = (), **more: str) -> Locked:
    user = variables(folder / "home", server.url, **more)
    host = HostOptions(hosts=("rtx4090-535",), environ=user)
    return lock(LockRequest(path=folder / "environment.yml", host=host, sources=sources, allow=allow), base())


def typed(folder: Path, channel: Sources, url: str, *more: str) -> subprocess.CompletedProcess[str]:
    """``cuenv lock`` as somebody types it, with an index in the variables."""
    mirror = f"conda-forge={channel.mirrors[0].target}"
    return run(
        *("lock", *HOST, "--mirror", mirror, *more),
        folder=folder,
        UV_DEFAULT_INDEX=f"{url}/simple",
        NO_PROXY="*",
        UV_HTTP_RETRIES="0",
    )


def codes(report: Report) -> set[tuple[str, str]]:
    return {(item.code, item.severity) for item in report.findings if item.code.startswith("CU5")}


def content(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}


def test_all_files_hold_the_pip_part(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "accelerate", "deepspeed")
    answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert codes(answer.report) == {("CU504", "warning"), ("CU511", "warning")}
    (solution,) = answer.lock.solutions
    assert [item.name for item in solution.pip] == ["accelerate", "deepspeed", "psutil"]
    files = content(tmp_path)
    assert {path.name for path in answer.written} >= set(FILES)
    lines = [line for line in files[REQUIREMENTS].splitlines() if not line.startswith("#")]
    assert lines == [f"{item.name}=={item.version} --hash=sha256:{item.sha256}" for item in solution.pip]
    exact = quick_yaml.load(files["conda-linux-64.lock.yml"])
    assert exact["dependencies"][-1] == {"pip": lines}
    for name in FILES[:2]:
        assert "# The pip part adds 3: accelerate 1.0, deepspeed 0.14.4, psutil 6.0" in files[name]
    entries = [item for item in quick_yaml.load(files[LOCK_NAME])["package"] if item["manager"] == "pip"]
    assert [(item["name"], item["hash"]["sha256"], item["url"]) for item in entries] == [
        (item.name, item.sha256, item.url) for item in solution.pip
    ]
    assert read_lock(tmp_path / LOCK_NAME).solutions[0].pip == solution.pip


def test_the_commands_install_it(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    explicit, *others = [line for line in locked(tmp_path, channel, server).commands if "cuenv install" not in line]
    install = f"python -m pip install --require-hashes --no-deps -r {tmp_path / REQUIREMENTS}"
    assert explicit.endswith(f"&& conda run -n train {install}")
    assert all("requirements" not in line for line in others)


@pytest.mark.slow
def test_pip_installs_what_was_locked(tmp_path: Path, channel: Sources, server: Server) -> None:
    pip_of_this_python()
    environment(tmp_path, "psutil")
    locked(tmp_path, channel, server)
    words = ["-m", "pip", "--isolated", "install", "--require-hashes", "--no-deps", "--no-compile"]
    words += ["--target", str(tmp_path / "into")]
    words += ["--index-url", f"{server.url}/simple", "-r", str(tmp_path / REQUIREMENTS)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "into" / "psutil-6.0.dist-info").is_dir()
    (tmp_path / REQUIREMENTS).write_text(re.sub("sha256:.", "sha256:0", (tmp_path / REQUIREMENTS).read_text()))
    text = (tmp_path / REQUIREMENTS).read_text()
    (tmp_path / REQUIREMENTS).write_text(text.replace(text[-9:-1], "00000000"))
    done = subprocess.run(
        [sys.executable, *words, "--upgrade"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "HASHES" in done.stderr


def test_conda_lock_reads_it(tmp_path: Path, channel: Sources, server: Server) -> None:
    lockfile = pytest.importorskip("conda_lock.lockfile")
    environment(tmp_path, "accelerate", "deepspeed")
    locked(tmp_path, channel, server)
    theirs = lockfile.parse_conda_lock_file(tmp_path / LOCK_NAME)
    by_pip = {item.name: item.version for item in theirs.package if item.manager == "pip"}
    assert by_pip == {"accelerate": "1.0", "deepspeed": "0.14.4", "psutil": "6.0"}
    lines = pytest.importorskip("conda_lock.conda_lock").render_lockfile_for_platform(
        lockfile=theirs, include_dev_dependencies=False, extras=set(), kind="explicit", platform="linux-64"
    )
    rendered = [line for line in lines if line.startswith("# pip ")]
    locked_by_pip = read_lock(tmp_path / LOCK_NAME).solutions[0].pip
    assert sorted(rendered) == [f"# pip {item.name} @ {item.url}#sha256={item.sha256}" for item in locked_by_pip]


def test_a_second_run_is_byte_identical_and_keeps_versions(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "accelerate", "psutil<6")
    locked(tmp_path, channel, server)
    first = content(tmp_path)
    locked(tmp_path, channel, server)
    assert content(tmp_path) == first
    environment(tmp_path, "accelerate", "psutil")
    again = locked(tmp_path, channel, server)
    assert again.lock
    assert {item.name: item.version for item in again.lock.solutions[0].pip}["psutil"] == "5.9"


def test_another_torch_is_refused_with_both_parents(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "vllm==0.11.1")
    answer = locked(tmp_path, channel, server)
    assert answer.lock is None
    assert content(tmp_path) == {}
    (finding,) = [item for item in answer.report.findings if item.code == "CU510"]
    assert "vllm" in finding.message
    assert "requires torch==2.9.0" in finding.message
    assert "conda's pytorch is 2.5.1 from conda-forge" in finding.message
    assert finding.fix == "write vllm==0.7.0 in the pip part"


def test_two_contradictions_are_mended_by_the_lines_that_end_both(tmp_path: Path, channel: Sources) -> None:
    folder = tmp_path / "files"
    for number in ("1.0", "2.0", "3.0"):
        wheel(folder, "shared", number)
    wheel(folder, "old-user", "1.0", "shared<2")
    wheel(folder, "new-user", "1.0", "shared")
    wheel(folder, "new-user", "2.0", "shared>=2")
    environment(tmp_path, "shared==3.0", "old-user==1.0", "new-user==2.0")
    with index(folder) as running:
        answer = locked(tmp_path, channel, running)
        (finding,) = [item for item in answer.report.findings if item.code == "CU510"]
        (edit,) = finding.edits
        assert "; and once that is loosened: Because " in finding.message
        assert sorted(edit.entries) == ["new-user==1.0", "shared==1.0"]
        environment(tmp_path, "old-user==1.0", *edit.entries)
        assert locked(tmp_path, channel, running).lock


def test_another_numpy_is_refused(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "numpy>=2")
    answer = locked(tmp_path, channel, server)
    (finding,) = [item for item in answer.report.findings if item.code == "CU510"]
    assert "numpy>=2" in finding.message
    assert "conda's numpy is 1.26.4" in finding.message


UNLOCKED = "requirements-linux-64.unlocked.txt"


def unlocked_lines(folder: Path) -> list[str]:
    return [line for line in (folder / UNLOCKED).read_text().splitlines() if not line.startswith("#")]


def test_what_no_hash_can_pin_is_set_aside(tmp_path: Path, channel: Sources, server: Server) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "setup.py").write_text("from torch.utils.cpp_extension import CUDAExtension\n")
    repository = "a @ git+https://example.org/a.git@5b838a8"
    environment(tmp_path, "psutil", "ops/", repository, "-r gone.txt")
    answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert codes(answer.report) == {("CU521", "warning"), ("CU518", "warning")}
    (solution,) = answer.lock.solutions
    assert [item.name for item in solution.pip] == ["psutil"]
    assert [item.text for item in solution.aside] == ["ops/", repository, "-r gone.txt"]
    assert [item.build for item in solution.aside] == [True, False, False]
    assert unlocked_lines(tmp_path) == ["torch==2.5.1.*", "ops/", repository, "-r gone.txt"]
    said = {item.subject: item.message for item in answer.report.findings if item.code == "CU521"}
    assert "it is a folder with a CUDA extension" in said["ops"]
    assert "it names a commit, and pip cannot check a repository by a hash" in said["a"]
    assert "the list does not exist" in said["-r gone.txt"]
    assert read_lock(tmp_path / LOCK_NAME).solutions[0].aside == solution.aside
    files = content(tmp_path)
    assert f"# Not locked: ops/, {repository}, -r gone.txt\n" in files["conda-linux-64.lock"]
    whole = quick_yaml.load(files["conda-linux-64.lock.yml"])["dependencies"][-1]
    assert [line.partition("==")[0] for line in whole["pip"]] == ["psutil"]  # hashes, so nothing without one


def test_check_names_what_was_set_aside(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil", "-e .")
    assert locked(tmp_path, channel, server).lock
    host = HostOptions(hosts=("rtx4090-535",), environ={})
    found = check(tmp_path / LOCK_NAME, host, base()).report
    assert [(item.code, item.severity) for item in found.findings if item.severity != "info"] == [("CU521", "warning")]
    command = f"cd {tmp_path} && python -m pip install -r {UNLOCKED}"
    assert [item.fix for item in found.findings if item.code == "CU521"] == [
        f"install afterwards, in the environment: {command}"
    ]
    (tmp_path / UNLOCKED).write_text((tmp_path / UNLOCKED).read_text().replace("-e .", "-e ./other"))
    found = check(tmp_path / LOCK_NAME, host, base()).report
    assert [(item.code, item.subject) for item in found.errors] == [("CU108", UNLOCKED)]
    (tmp_path / UNLOCKED).unlink()
    (one,) = [item for item in check(tmp_path / LOCK_NAME, host, base()).report.findings if item.severity != "info"]
    assert (one.code, one.fix) == ("CU521", "cuenv lock")
    assert one.message.endswith(f"; {UNLOCKED}, which names it for pip, is missing")
    environment(tmp_path, "psutil")
    assert locked(tmp_path, channel, server).lock
    assert not (tmp_path / UNLOCKED).exists()


def test_an_edit_of_what_is_set_aside_is_seen(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "-e .")
    assert locked(tmp_path, channel, server).lock
    path = tmp_path / LOCK_NAME
    path.write_text(path.read_text().replace("-e .", "-e ./other"))
    found = check(path, HostOptions(hosts=("rtx4090-535",), environ={}), base()).report
    assert "CU108" in [item.code for item in found.errors]
    path.write_text(re.sub(r"(cuenv_unlocked_linux-64\"?: ).*", r"\1'[1]'", path.read_text()))
    with pytest.raises(InputError, match="cuenv_unlocked_linux-64"):
        read_lock(path)


def test_a_package_that_needs_torch_to_build_is_set_aside(tmp_path: Path, channel: Sources) -> None:
    files = source(tmp_path / "files", "ops", "1.0", first="import torch").parent
    wheel(files, "trainer", "1.0", "ops")
    wheel(files, "psutil", "6.0")
    environment(tmp_path, "trainer", "psutil")
    with index(files) as own:
        answer = locked(tmp_path, channel, own)
    assert answer.lock, answer.report
    (solution,) = answer.lock.solutions
    assert [item.name for item in solution.pip] == ["psutil", "trainer"]
    (aside,) = solution.aside
    assert re.fullmatch(r"ops @ \S+/ops-1\.0\.tar\.gz#sha256=[0-9a-f]{64}", aside.text)
    assert aside.build
    (finding,) = [item for item in answer.report.findings if item.code == "CU521"]
    assert "its setup.py imports torch" in finding.message
    command = f"python -m pip install --no-build-isolation -r {tmp_path / UNLOCKED}"
    assert answer.unlocked_commands == {"linux-64": command}


def test_what_cannot_be_built_is_tried_once_in_the_locks_of_one_repair(tmp_path: Path, channel: Sources) -> None:
    files = source(tmp_path / "files", "ops", "1.0", first="import torch").parent
    wheel(files, "trainer", "1.0", "ops")
    environment(tmp_path, "trainer")
    told: list[str] = []
    with index(files) as own:
        host = HostOptions(hosts=("rtx4090-535",), environ=variables(tmp_path / "home", own.url))
        request = LockRequest(path=tmp_path / "environment.yml", host=host, sources=channel, anew=True)
        made = [lock(request, base(), progress=told.append).lock for _ in range(2)]
    assert all(made)
    assert [len(item.solutions[0].aside) for item in made if item] == [1, 1]
    assert [text.split(":")[0] for text in told if "aside" in text] == ["setting ops 1.0 aside"]
    assert sum(text.startswith("resolving 1 requirement") for text in told) == 3


def test_what_needs_torch_to_build_is_tried_with_one_python(tmp_path: Path, channel: Sources) -> None:
    files = source(tmp_path / "files", "ops", "1.0", first="import torch").parent
    told: list[str] = []
    with index(files) as own:
        host = HostOptions(hosts=("rtx4090-535",), environ=variables(tmp_path / "home", own.url))
        request = LockRequest(path=tmp_path / "environment.yml", host=host, sources=channel, anew=True)
        for python in ("3.12", "3.11"):
            text = f"channels: [conda-forge]\ndependencies: [python={python}, pip, {{pip: [ops]}}]\n"
            request.path.write_text(text, encoding="utf-8")
            assert lock(request, base(), progress=told.append).lock
    assert sum("aside" in text for text in told) == 1


def test_strict_refuses_what_is_set_aside(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil", "-e .")
    done = typed(tmp_path, channel, server.url, "--strict")
    assert done.returncode == 1
    assert "refused because of --strict" in done.stderr
    assert content(tmp_path) == {}
    done = typed(tmp_path, channel, server.url)
    assert done.returncode == 0
    assert f"then install in the environment what is not locked: python -m pip install -r {UNLOCKED}" in done.stderr


@pytest.mark.parametrize("requirement", ["a==", "a b"])
def test_what_pip_refuses_is_refused(tmp_path: Path, channel: Sources, server: Server, requirement: str) -> None:
    environment(tmp_path, "psutil", requirement)
    answer = locked(tmp_path, channel, server)
    assert answer.lock is None
    (finding,) = [item for item in answer.report.errors if item.code == "CU514"]
    assert requirement in finding.message
    assert finding.fix


def test_an_index_of_the_file_is_used(tmp_path: Path, channel: Sources, server: Server) -> None:
    files = wheel(tmp_path / "files", "only-here", "1.0").parent
    with index(files, login=f"me:{SECRET}") as other:
        url = other.url.replace("://", f"://me:{SECRET}@")
        environment(tmp_path, f"--extra-index-url {url}/simple", "psutil", "only-here", "-e .")
        answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert [item.name for item in answer.lock.solutions[0].pip] == ["only-here", "psutil"]
    products = "".join(content(tmp_path).values()) + (tmp_path / UNLOCKED).read_text() + str(answer.report)
    assert SECRET not in products
    assert unlocked_lines(tmp_path)[0] == f"--extra-index-url {other.url}/simple"


def test_lists_of_requirements_are_read(tmp_path: Path, channel: Sources, server: Server) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("# what it needs\npsutil \\\n  >=5\n-c bounds.txt\n-r ../rich.txt\n")
    (tmp_path / "more" / "bounds.txt").write_text("psutil<6\n")
    (tmp_path / "rich.txt").write_text("rich\n-r more/base.txt\n")
    environment(tmp_path, "-r more/base.txt")
    answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert {item.name: item.version for item in answer.lock.solutions[0].pip} == {"psutil": "5.9", "rich": "13.0"}
    assert answer.lock.solutions[0].aside == ()  # a list that names itself says nothing new
    host = HostOptions(hosts=("rtx4090-535",), environ={})
    assert check(tmp_path / LOCK_NAME, host, base()).report.errors == ()
    (tmp_path / "rich.txt").write_text("rich\nnumpy\n")
    changed = [item.code for item in check(tmp_path / LOCK_NAME, host, base()).report.findings]
    assert "CU107" in changed


def test_a_list_outside_of_the_project_is_not_read(tmp_path: Path, channel: Sources, server: Server) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    inside = tmp_path / "project"
    inside.mkdir()
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    environment(inside, "psutil", "-r ../secret.txt", "-r link.txt")
    answer = locked(inside, channel, server)
    assert answer.lock, answer.report
    assert SECRET not in "".join(content(inside).values()) + str(answer.report)
    (finding,) = [item for item in answer.report.findings if item.code == "CU521"]
    assert "the list is outside the folder of the environment file" in finding.message
    (tmp_path / ".git").mkdir()
    (tmp_path / "secret.txt").write_text("rich\n")
    again = locked(inside, channel, server)
    assert again.lock
    assert [item.name for item in again.lock.solutions[0].pip] == ["psutil", "rich"]


def test_a_requirement_is_shown_without_its_password(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, f"a @ git+https://me:{SECRET}@example.org/a.git")
    answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert SECRET not in str(answer.report) + (tmp_path / UNLOCKED).read_text() + "".join(content(tmp_path).values())


def test_a_url_with_its_hash_is_locked(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil==5.9")
    first = locked(tmp_path, channel, server)
    assert first.lock
    (plain,) = first.lock.solutions[0].pip
    environment(tmp_path, f"psutil @ {plain.url}#sha256={plain.sha256}")
    locked(tmp_path, channel, server)
    assert f"psutil @ {plain.url} --hash=sha256:{plain.sha256}\n" in content(tmp_path)[REQUIREMENTS]


def test_constraints_stay_where_an_environment_is_written_again(tmp_path: Path) -> None:
    """``-c FILE`` of the file, and of a list that it names in a folder of its own."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more/list.txt").write_text("-c bounds.txt\naccelerate\n")
    (tmp_path / "more/bounds.txt").write_text("psutil<6\n")
    (tmp_path / "own.txt").write_text("einops<1\n")
    spec, _ = read_environment(environment(tmp_path, "-c own.txt", "-r more/list.txt"))
    assert spec.pip == ("accelerate",)
    (tmp_path / "environment.yml").write_text(render(spec))
    again, _ = read_environment(tmp_path / "environment.yml")
    assert (again.pip, again.constraints) == (spec.pip, spec.constraints) == (("accelerate",), ("einops<1", "psutil<6"))


def test_pip_itself_is_added_as_conda_does(tmp_path: Path, channel: Sources, server: Server) -> None:
    """The file stays as it is, so that its lock is fresh."""
    environment(tmp_path, "psutil", conda=())
    answer = locked(tmp_path, channel, server)
    assert answer.lock
    assert answer.lock.solutions[0].package("pip")
    assert answer.lock.metadata["cuenv_environment"] == spec_digest(answer.spec)
    assert answer.spec.pin("pip") is None


def test_a_package_without_a_good_hash_is_set_aside(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    with index(server.folder, hashes="md5") as other:
        answer = locked(tmp_path, channel, other)
    assert answer.lock, answer.report
    assert answer.lock.solutions[0].pip == ()
    assert unlocked_lines(tmp_path) == ["torch==2.5.1.*", "psutil==6.0"]
    (finding,) = [item for item in answer.report.findings if item.code == "CU521"]
    assert "the index has no sha256 for it" in finding.message


def test_the_pip_part_may_be_left_out(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "nobody-has-this", "-e .")
    answer = locked(tmp_path, channel, server, allow=("CU501",))
    assert answer.lock
    assert codes(answer.report) == {("CU501", "warning")}
    assert not (tmp_path / REQUIREMENTS).exists()
    assert unlocked_lines(tmp_path) == ["torch==2.5.1.*", "nobody-has-this", "-e ."]


def test_no_code_but_one_locks_without_the_pip_part(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "vllm==0.11.1")
    assert locked(tmp_path, channel, server, allow=("CU510",)).lock is None
    said = typed(tmp_path, channel, server.url).stderr
    assert "--allow CU501 locks without the pip part anyway" in said
    assert "--allow CU510" not in said


def test_the_requirements_of_an_earlier_lock_go(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    locked(tmp_path, channel, server)
    environment(tmp_path)
    locked(tmp_path, channel, server)
    assert set(content(tmp_path)) == {*FILES} - {REQUIREMENTS}
    (tmp_path / REQUIREMENTS).write_text("mine\n")
    locked(tmp_path, channel, server)
    assert (tmp_path / REQUIREMENTS).read_text() == "mine\n"


def test_no_password_of_a_requirement_is_written(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil==5.9")
    first = locked(tmp_path, channel, server)
    assert first.lock
    (plain,) = first.lock.solutions[0].pip
    url = plain.url.replace("://", f"://me:{SECRET}@")
    environment(tmp_path, f"psutil @ {url}#sha256={plain.sha256}")
    for allow in ((), ("CU501",)):
        answer = locked(tmp_path, channel, server, allow=allow)
        assert answer.lock
        assert SECRET not in str(answer.report) + "".join(content(tmp_path).values())


def test_files_of_this_machine_are_said(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    answer = locked(tmp_path, channel, server, UV_NO_INDEX="1", UV_FIND_LINKS=str(server.folder))
    assert answer.lock, answer.report
    assert codes(answer.report) == {("CU516", "info")}, answer.lock.solutions[0].pip


def test_check_knows_the_pip_part(tmp_path: Path, channel: Sources, server: Server) -> None:
    path = environment(tmp_path, "accelerate")
    locked(tmp_path, channel, server)
    host = HostOptions(hosts=("rtx4090-535",), environ={})
    found = check(tmp_path / LOCK_NAME, host, base()).report
    assert found.errors == ()
    assert found.looked_at[0] == "5 packages and 2 for pip" or found.looked_at[0].endswith("and 2 for pip")
    whole = (tmp_path / LOCK_NAME).read_text()
    (tmp_path / LOCK_NAME).write_text(whole.replace("psutil-6.0-py3", "psutil-6.6-py3"))
    assert [item.code for item in check(tmp_path / LOCK_NAME, host, base()).report.errors] == ["CU108"]
    (tmp_path / LOCK_NAME).write_text(whole)
    environment(tmp_path, "accelerate", "psutil>=99", "numpy")
    errors = check(tmp_path / LOCK_NAME, host, base()).report.errors
    assert [(item.code, item.subject) for item in errors] == [("CU107", "psutil>=99")]
    assert path.exists()


def test_check_sees_a_second_torch_and_a_second_cuda(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    locked(tmp_path, channel, server)
    path = tmp_path / LOCK_NAME
    text = path.read_text().replace('name: "psutil"', 'name: "torch"')
    path.write_text(text)
    found = check(path, HostOptions(hosts=("rtx4090-535",), environ={}), base()).report
    codes = [(item.code, item.subject) for item in found.errors]
    assert ("CU512", "torch") in codes
    assert ("CU108", "packages") in codes  # nobody but an editor writes that


def test_no_password_is_in_any_product(tmp_path: Path, channel: Sources, server: Server) -> None:
    for requirement, code in (("psutil", 0), ("nobody-has-this", 1), ("psutil>=99", 1)):
        environment(tmp_path, requirement)
        with index(server.folder, login=f"me:{SECRET}") as closed:
            done = typed(tmp_path, channel, closed.url.replace("://", f"://me:{SECRET}@"), "--json", "-v")
        assert done.returncode == code, done.stderr
        assert SECRET not in done.stdout + done.stderr
    made = content(tmp_path)
    assert set(made) == set(FILES)
    assert SECRET not in "".join(made.values())
    assert "me:hunter" not in "".join(made.values())
    assert "@127.0.0.1" not in "".join(made.values())


def test_an_index_that_is_down_is_input_3(tmp_path: Path, channel: Sources) -> None:
    environment(tmp_path, "psutil")
    done = typed(tmp_path, channel, "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert "--allow CU501" in done.stderr
    assert content(tmp_path) == {}


def test_it_is_said_that_a_setup_ran(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "deepspeed")
    done = typed(tmp_path, channel, server.url)
    assert done.returncode == 0, done.stderr
    assert "CU511 pip: deepspeed 0.14.4 exists only as a source distribution: its setup code ran" in done.stderr
    assert "packages and 2 for pip for linux-64" in done.stderr


def test_the_environment_file_of_the_lock_can_be_read_back(tmp_path: Path, channel: Sources, server: Server) -> None:
    environment(tmp_path, "psutil")
    answer = locked(tmp_path, channel, server)
    assert answer.lock
    spec, _ = environment_yml.parse((tmp_path / "conda-linux-64.lock.yml").read_text(), "x")
    (found,) = answer.lock.solutions[0].pip
    assert spec.pip == (f"psutil==6.0 --hash=sha256:{found.sha256}",)


def test_values_are_plain() -> None:
    made = PipLocked(name="a", version="1", url="https://x.example/a-1.tar.gz", sha256=None)
    assert made.from_source
    assert Solution(platform="linux-64", packages=(), virtual_packages=(), solver="").pip == ()


def test_a_torch_wheel_of_a_users_index_is_locked_and_judged_by_its_own_cuda(tmp_path: Path, channel: Sources) -> None:
    files = tmp_path / "files"
    tag = "cp312-cp312-manylinux_2_17_x86_64"
    wheel(files, "torch", "2.4.1+cu118", tag=tag)
    wheel(files, "torch", "2.4.1", tag=tag)

    def answer(requirement: str, server: Server, **more: str) -> Locked:
        folder = tmp_path / ("named" if "--" in requirement else requirement.replace("=", ""))
        folder.mkdir(exist_ok=True)
        head = "name: train\nchannels: [conda-forge]\ndependencies: [python=3.12, pip, {pip: ["
        (folder / "environment.yml").write_text(f"{head}'{requirement}']}}]\n")
        user = variables(folder / "home", server.url, **more)
        host = HostOptions(gpus=("A100",), driver="470.129.06", glibc="2.31", environ=user)
        return lock(LockRequest(path=folder / "environment.yml", host=host, sources=channel), base())

    with index(files) as server:
        extra = {"UV_EXTRA_INDEX_URL": f"{server.url}/simple"}
        good = answer("torch==2.4.1+cu118", server, **extra)
        assert good.lock, good.report
        assert good.lock.metadata["cuenv_minimum_driver"] == "450.80.02"
        assert good.lock.solutions[0].pip[0].version == "2.4.1+cu118"
        by_url = f"torch @ {good.lock.solutions[0].pip[0].url} --hash=sha256:{good.lock.solutions[0].pip[0].sha256}"
        for name in (REQUIREMENTS, "conda-linux-64.lock.yml"):  # pip finds it there, whatever its indexes
            assert by_url in content(tmp_path / "torch2.4.1+cu118")[name]
        plain = answer("torch==2.4.1", server)  # an index in the place of PyPI has what PyPI has
        assert [item.code for item in plain.report.errors] == ["CU401"]
        line = f"--extra-index-url {server.url}/simple"
        named = answer(f"{line}', 'torch==2.4.1+cu118", server, UV_DEFAULT_INDEX=server.url + "/none")
        assert named.lock, named.report
        assert f"\n{line}\ntorch @ " in content(tmp_path / "named")[REQUIREMENTS]
        assert f'"{line}"\n' in content(tmp_path / "named")["conda-linux-64.lock.yml"]
        again = check(tmp_path / "named" / LOCK_NAME, HostOptions(gpus=("A100",), environ={}), base())
        assert [item.code for item in again.report.errors] == []
        gone = answer("torch==2.4.0+cu118", server, **extra)
        (error,) = gone.report.errors
        assert (error.code, error.fix) == (
            "CU510",
            "add to the pip part: --extra-index-url https://download.pytorch.org/whl/cu118",
        )


def test_what_is_built_against_torch_is_named_with_what_it_needs(tmp_path: Path, channel: Sources) -> None:
    files = source(tmp_path / "files", "flash_attn", "2.5.6").parent
    repository = "git+https://example.org/team/flash-attention.git@5b838a8"
    environment(tmp_path, "flash-attn", repository)
    with index(files) as own:
        host = HostOptions(hosts=("rtx4090-535",), environ=variables(tmp_path / "home", own.url))
        answer = lock(LockRequest(path=tmp_path / "environment.yml", host=host, sources=channel), shipped_base())
    assert answer.lock, answer.report
    assert answer.lock.solutions[0].pip == ()
    assert [item.build for item in answer.lock.solutions[0].aside] == [True, True]
    (finding,) = [item for item in answer.report.findings if item.code == "CU518"]
    assert "flash-attention, flash-attn are built against torch 2.5.1 of CUDA 12.6" in finding.message
    for need in ("nvcc 12.x", "GCC 6 to 13", "TORCH_CUDA_ARCH_LIST=8.9", "the environment has no nvcc"):
        assert need in finding.message
    assert "cuda-nvcc=12.6" in str(finding.fix)
    assert "gxx_linux-64=13.*" in str(finding.fix)


def test_a_build_against_torch_is_seen_in_a_source_distribution_that_uv_does_not_build(
    tmp_path: Path, channel: Sources
) -> None:
    """Metadata 2.2 and later tells what a package requires, so that no build fails while it is locked."""
    files = tmp_path / "files"
    source(files, "kernels", "1.0", build=["setuptools", "Torch>=2"], static=True)
    source(files, "scans", "1.0", setup="import os\nfrom torch.utils import cpp_extension\n", static=True)
    source(files, "careful", "1.0", setup="try:\n    import torch\nexcept ImportError:\n    pass\n", static=True)
    environment(tmp_path, "kernels", "scans", "careful")
    with index(files) as own:
        answer = locked(tmp_path, channel, own)
    assert answer.lock, answer.report
    (made,) = answer.lock.solutions
    assert [item.name for item in made.pip] == ["careful"]
    assert {item.text.partition(" ")[0]: item.why.partition(",")[0] for item in made.aside} == {
        "kernels": "its build requires torch",
        "scans": "its setup.py imports torch",
    }
    assert all(item.build for item in made.aside)


def test_a_wheel_that_a_url_names_is_taken_for_no_other_project() -> None:
    url = f"apex @ https://x.example/apex-0.1-py3-none-any.whl#sha256={'0' * 64}"
    lines = with_build_needs(read_lines((url, "apex")), None, shipped_base())
    assert lines.requirements == (url,)
    assert [item.text for item in lines.aside] == ["git+https://github.com/NVIDIA/apex"]


def test_the_apex_of_nvidia_is_built_from_its_repository(tmp_path: Path, channel: Sources) -> None:
    """The Python package index has another project of that name."""
    files = source(tmp_path / "files", "apex", "0.1").parent
    environment(tmp_path, "apex==0.1")
    with index(files) as own:
        host = HostOptions(hosts=("rtx4090-535",), environ=variables(tmp_path / "home", own.url))
        request = LockRequest(path=tmp_path / "environment.yml", host=host, sources=channel)
        answer = lock(request, shipped_base())
        assert answer.lock, answer.report
        assert [item.text for item in answer.lock.solutions[0].aside] == ["git+https://github.com/NVIDIA/apex"]
        environment(tmp_path, f"--extra-index-url {own.url}", "apex==0.1")  # an index of the user's own may have it
        mine = lock(request, shipped_base())
    assert mine.lock, mine.report
    assert [item.name for item in mine.lock.solutions[0].pip] == ["apex"]


@pytest.mark.parametrize("bound", ["", " >=22"])
def test_pip_may_replace_what_the_file_does_not_ask_conda_for(tmp_path: Path, bound: str) -> None:
    """As ``conda env create`` does, unless a conda package needs the other release."""
    packages = [
        pkg("python", "3.12.7", "h1_0_cpython"),
        pkg("python", "3.11.9", "h1_0_cpython"),
        pkg("pip", "25.0", "pyh_0", subdir="noarch", noarch="python", depends=("python",)),
        pkg("packaging", "26.3", "pyh_0", subdir="noarch", noarch="python", depends=("python",)),
        pkg("tool", "1.0", "pyh_0", subdir="noarch", noarch="python", depends=("python", f"packaging{bound}")),
    ]
    sources = write(tmp_path / "channel", {"conda-forge": packages})
    files = wheel(tmp_path / "files", "packaging", "21.3").parent
    head = "channels: [conda-forge]\ndependencies: [python, pip, tool, "
    (tmp_path / "environment.yml").write_text(head + "{pip: ['packaging==21.3']}]\n")
    with index(files) as own:
        told: list[str] = []
        host = HostOptions(hosts=("rtx4090-535",), environ=variables(tmp_path / "home", own.url))
        request = LockRequest(path=tmp_path / "environment.yml", host=host, sources=sources)
        answer = lock(request, base(), progress=told.append)
        if bound:
            (error,) = answer.report.errors
            assert (error.code, error.fix) == ("CU510", "add to dependencies: packaging=21.3")
            return
        assert answer.lock, answer.report
        assert sum(text.startswith("resolving") for text in told) == 1, "each such line cost a resolution"
        assert [item.version for item in answer.lock.solutions[0].pip] == ["21.3"]
        (finding,) = [item for item in answer.report.findings if item.code == "CU519"]
        assert finding.message == (
            "pip installs packaging 21.3 over conda's 26.3 from conda-forge: the pip part asks for packaging==21.3"
        )
        (tmp_path / "environment.yml").write_text(head + "packaging>=22, {pip: ['packaging==21.3']}]\n")
        assert [item.code for item in locked(tmp_path, sources, own).report.errors] == ["CU510"]


def test_a_line_of_pip_freeze_in_an_environment_of_conda_is_locked_by_its_name(
    tmp_path: Path, channel: Sources, server: Server
) -> None:
    environment(tmp_path, "psutil @ file:///opt/conda/conda-bld/psutil_1612298023621/work")
    answer = locked(tmp_path, channel, server)
    assert answer.lock, answer.report
    assert [item.name for item in answer.lock.solutions[0].pip] == ["psutil"]
    (said,) = [item for item in answer.report.findings if item.code == "CU522"]
    assert "pip: psutil is taken by its name, in a release that fits: it names the folder in which conda built it" in (
        said.message
    )
    assert "python -m pip list --format=freeze" in (said.fix or "")
    assert not list(tmp_path.glob("*.unlocked.txt"))


def test_several_lines_that_are_set_aside_for_one_reason_are_one_sentence_on_each_of_them(
    tmp_path: Path, channel: Sources, server: Server
) -> None:
    one, two = (f"git+https://example.org/{name}.git@5b838a8" for name in "ab")
    environment(tmp_path, "psutil", one, two)
    (said,) = [item for item in locked(tmp_path, channel, server).report.findings if item.code == "CU521"]
    assert said.message.endswith(
        f"{one}, {two} are not locked but set aside: each names a commit, and pip cannot check a repository by a hash"
    )
