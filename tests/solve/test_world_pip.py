"""The pip part with the real uv, on an index of this machine: what comes out, what is refused, what is never told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

import cuenv
from cases import collect
from channel_builder import Server, self_signed
from cuenv.core.errors import ChannelError, InputError
from cuenv.core.record import replace
from cuenv.solve.environment_spec import normalise
from cuenv.solve.io.pip import index_variables, pypi_names, resolve, shown_indexes
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import PipConflict, PipRequest, Provided, Unbuilt, unbuilt
from pip_index import index, source, stock, variables, wheel

TORCH = Provided(name="torch", version="2.5.1", conda="pytorch", shown="2.5.1 from conda-forge")
NUMPY = Provided(name="numpy", version="1.26.4", conda="numpy", shown="1.26.4 from conda-forge")
SECRET = "hunter2secret"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with index(stock(tmp_path_factory.mktemp("index"))) as running:
        yield running


@pytest.fixture
def user(server: Server, tmp_path: Path) -> dict[str, str]:
    return variables(tmp_path / "home", server.url)


def ask(*requirements: str, **more: object) -> PipRequest:
    request = PipRequest(
        requirements=requirements, python="3.12.7", platform="linux-64", glibc="2.35", provided=(NUMPY, TORCH)
    )
    return replace(request, **more)  # type: ignore[arg-type]  # fields of the request by name


def locked(answer: tuple[PipLocked, ...] | PipConflict | Unbuilt) -> dict[str, str]:
    assert isinstance(answer, tuple), answer
    return {item.name: item.version for item in answer}


def refused(answer: tuple[PipLocked, ...] | PipConflict | Unbuilt) -> PipConflict:
    assert isinstance(answer, PipConflict)
    return answer


# what comes out


def test_nothing_that_conda_provides_comes_again(user: dict[str, str]) -> None:
    assert locked(resolve(ask("accelerate"), user)) == {"accelerate": "1.0", "psutil": "6.0"}


def test_without_conda_everything_comes_from_links_too(user: dict[str, str], tmp_path: Path) -> None:
    wheel(tmp_path / "links", "triton", "3.0")
    wheel(tmp_path / "links", "nvidia-cublas-cu12", "12.4")
    found = resolve(ask("accelerate", provided=(NUMPY,)), user | {"UV_FIND_LINKS": str(tmp_path / "links")})
    assert set(locked(found)) == {"accelerate", "psutil", "torch", "triton", "nvidia-cublas-cu12"}


def test_every_package_has_its_url_and_hash(user: dict[str, str], server: Server) -> None:
    answer = resolve(ask("psutil"), user)
    assert isinstance(answer, tuple)
    (found,) = answer
    assert found.url == f"{server.url}/psutil-6.0-py3-none-any.whl"
    assert found.sha256
    assert len(found.sha256) == 64
    assert not found.from_source


def test_the_usual_index_is_asked_once_for_all_that_it_says(
    user: dict[str, str], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy may not say how long its answers count: each resolution asked for all of them again."""
    monkeypatch.setattr("cuenv.solve.io.pip._usual_index", lambda: f"{server.url}/simple")
    user.pop("UV_DEFAULT_INDEX")
    asked = []
    for _ in range(2):
        before = len(server.asked)
        assert locked(resolve(ask("accelerate"), user)) == {"accelerate": "1.0", "psutil": "6.0"}
        asked.append([path for path, _ in server.asked[before:]])
    assert any(".whl" in path for path in asked[0])
    assert not asked[1]


def test_an_extra_and_a_marker(user: dict[str, str]) -> None:
    asked = ask("accelerate[pretty]", "psutil<6; sys_platform == 'linux'", "rich==1; python_version < '3.9'")
    assert locked(resolve(asked, user)) == {"accelerate": "1.0", "psutil": "5.9", "rich": "13.0"}


@pytest.mark.parametrize(
    ("platform", "glibc", "python", "file"),
    [
        ("linux-64", "2.35", "3.12.7", "native-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"),
        ("linux-64", "2.27", "3.12.7", "native-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"),
        ("linux-64", "2.28", "3.11.2", "native-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
        ("linux-aarch64", "2.39", "3.12.1", "native-1.0-cp312-cp312-manylinux_2_28_aarch64.whl"),
    ],
)
def test_the_wheel_is_that_of_the_target(
    user: dict[str, str], platform: str, glibc: str, python: str, file: str
) -> None:
    answer = resolve(ask("native", platform=platform, glibc=glibc, python=python), user)
    assert isinstance(answer, tuple)
    assert [item.url.rpartition("/")[2] for item in answer] == [file]


def test_a_platform_without_a_wheel_is_a_no(user: dict[str, str]) -> None:
    assert "native" in refused(resolve(ask("native", platform="linux-aarch64", glibc="2.17"), user)).text


def test_a_source_comes_with_what_its_setup_says(user: dict[str, str]) -> None:
    answer = resolve(ask("deepspeed"), user)
    assert locked(answer) == {"deepspeed": "0.14.4", "psutil": "6.0"}
    assert isinstance(answer, tuple)
    assert [item.name for item in answer if item.from_source] == ["deepspeed"]


def test_packages_of_an_older_lock_stay(user: dict[str, str], server: Server) -> None:
    old = PipLocked(name="psutil", version="5.9", url=f"{server.url}/psutil-5.9-py3-none-any.whl", sha256="0" * 64)
    assert locked(resolve(ask("accelerate", prefer=(old,)), user))["psutil"] == "5.9"
    assert locked(resolve(ask("accelerate", "psutil>=6", prefer=(old,)), user))["psutil"] == "6.0"


def test_a_stray_uv_toml_and_pyproject_change_nothing(
    user: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uv.toml").write_text('[pip]\nresolution = "lowest"\n')
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nconstraint-dependencies = ["psutil<6"]\n')
    monkeypatch.chdir(tmp_path)
    assert locked(resolve(ask("psutil"), user)) == {"psutil": "6.0"}


def test_a_url_with_a_hash(user: dict[str, str], server: Server) -> None:
    plain = resolve(ask("psutil==5.9"), user)
    assert isinstance(plain, tuple)
    answer = resolve(ask(f"psutil @ {plain[0].url}#sha256={plain[0].sha256}"), user)
    assert answer == (replace(plain[0], direct=True),)


def test_the_hash_of_a_url_is_the_one_that_somebody_wrote(user: dict[str, str], server: Server) -> None:
    other = f"psutil @ {server.url}/psutil-5.9-py3-none-any.whl#sha256={'0' * 64}"
    answer = resolve(ask(other), user)  # installing refuses it, as it should
    assert isinstance(answer, tuple)
    assert [item.sha256 for item in answer] == ["0" * 64]


# contradictions


def test_another_torch_names_both_parents_and_the_repair(user: dict[str, str]) -> None:
    answer = refused(resolve(ask("vllm==0.11.1"), user))
    assert (answer.demand, answer.provided, answer.requirement) == ("torch==2.9.0", TORCH, "vllm==0.11.1")
    assert answer.parent.startswith("vllm")
    assert answer.repair == ("vllm==0.7.0",)


def test_a_release_that_is_gone_moves_to_the_nearest_of_its_major(user: dict[str, str], tmp_path: Path) -> None:
    for release in ("14.2", "14.4", "17.1"):
        wheel(tmp_path / "links", "frames", release)
    found = refused(resolve(ask("psutil", "frames==14.3"), user | {"UV_FIND_LINKS": str(tmp_path / "links")}))
    assert found.repair == ("frames==14.4",)
    found = refused(resolve(ask("psutil", "frames==15.0"), user | {"UV_FIND_LINKS": str(tmp_path / "links")}))
    assert found.repair == ("frames==17.1",), "no release of that major is later"


def test_another_torch_deeper_down(user: dict[str, str]) -> None:
    answer = refused(resolve(ask("serving==1.0"), user))
    assert (answer.demand, answer.provided, answer.requirement) == ("torch==2.9.0", TORCH, "serving==1.0")
    assert answer.parent.startswith("vllm")
    assert answer.repair == ()


def test_every_release_demands_another(user: dict[str, str], tmp_path: Path) -> None:
    for release, torch in (("1.0", "2.6.0"), ("2.0", "2.9.0")):
        wheel(tmp_path / "links", "kernels", release, f"torch=={torch}")
    wheel(tmp_path / "links", "trainer", "1.0", "kernels>=1")
    answer = refused(resolve(ask("psutil", "trainer"), user | {"UV_FIND_LINKS": str(tmp_path / "links")}))
    assert (answer.demand, answer.provided, answer.requirement) == ("torch==2.6.0", TORCH, "trainer")
    assert answer.parent.startswith("kernels")


def test_the_file_itself_may_demand_another(user: dict[str, str]) -> None:
    answer = refused(resolve(ask("numpy>=2"), user))
    assert (answer.parent, answer.demand, answer.provided) == ("", "numpy>=2", NUMPY)


def test_requirements_that_contradict_each_other(user: dict[str, str]) -> None:
    answer = refused(resolve(ask("psutil>=6", "psutil<6"), user))
    assert answer.provided is None
    assert "psutil" in answer.text


def test_a_release_that_never_was(user: dict[str, str]) -> None:
    answer = refused(resolve(ask("psutil>=99"), user))
    assert answer.repair == ("psutil==6.0",)


# the outside


def test_an_index_that_is_down(tmp_path: Path) -> None:
    user = variables(tmp_path / "home", "http://127.0.0.1:9")
    with pytest.raises(ChannelError, match=r"cannot be reached.*http://127\.0\.0\.1:9/simple"):
        resolve(ask("psutil"), user)


def test_an_index_that_is_none(server: Server, tmp_path: Path) -> None:
    user = variables(tmp_path / "home", f"{server.url}/elsewhere")
    with pytest.raises(ChannelError, match="no Python package index has psutil"):
        resolve(ask("psutil"), user)


def test_a_package_that_no_index_has(user: dict[str, str], tmp_path: Path) -> None:
    """The index is there, since it has pip: the requirement is at fault, and no other release of it is tried."""
    for name in ("pip", "psutil"):
        wheel(tmp_path / "files", name, "6.0")
    with index(tmp_path / "files") as server:
        answer = refused(resolve(ask("psutill>=5"), variables(tmp_path / "home", server.url)))
    assert (answer.absent, answer.requirement, answer.repair) == ("psutill", "psutill>=5", ())
    assert answer.text == f"no searched Python package index has psutill: {server.url}/simple"


def test_offline_takes_what_the_cache_holds(user: dict[str, str]) -> None:
    with pytest.raises(ChannelError, match="--offline was given, but uv's cache does not have psutil"):
        resolve(ask("psutil"), user, offline=True)
    online = resolve(ask("psutil"), user)
    assert resolve(ask("psutil"), user, offline=True) == online


@pytest.mark.slow
def test_a_setup_that_fails(tmp_path: Path) -> None:
    source(tmp_path / "files", "broken", "1.0", first="raise RuntimeError('no nvcc here')")
    with index(tmp_path / "files") as server:
        user = variables(tmp_path / "home", server.url)
        answer = resolve(ask("broken"), user)
        assert isinstance(answer, Unbuilt)
        assert (answer.name, answer.version, answer.build) == ("broken", "1.0", False)
        assert answer.why == "its setup.py fails: RuntimeError: no nvcc here"
        words = "Failed to build `a==1`\nValueError: this is wrong\n    x>1\n     ^\nhint: none"
        assert (unbuilt(words, ask("a")) or answer).why == "its setup.py fails: ValueError: this is wrong"
        taken = resolve(replace(ask("broken"), unbuilt=(answer,)), user)
        assert locked(taken) == {"broken": "1.0"}


def test_a_setup_that_needs_torch(tmp_path: Path) -> None:
    source(tmp_path / "files", "ops", "1.0", first="import torch")
    with index(tmp_path / "files") as server:
        answer = resolve(ask("ops"), variables(tmp_path / "home", server.url))
    assert isinstance(answer, Unbuilt)
    assert answer.build
    assert "its setup.py imports torch" in answer.why


@pytest.mark.parametrize("builds", [False, True])
def test_no_torch_is_downloaded_to_read_requirements(tmp_path: Path, *, builds: bool) -> None:
    files = source(tmp_path / "files", "ops", "1.0", "psutil", build=("torch",)).parent
    for name in ("torch", "psutil"):
        wheel(files, name, "1.0")
    with index(files) as server:
        given = () if builds else (TORCH,)  # what conda has does not count for a build
        answer = resolve(ask("ops", builds=builds, provided=given), variables(tmp_path / "home", server.url))
        asked = [path for path, _ in server.asked]
    assert ("/torch-1.0-py3-none-any.whl" in asked) == builds
    if builds:
        assert locked(answer) == {"ops": "1.0", "psutil": "1.0"}
    else:
        assert isinstance(answer, Unbuilt)
        assert answer.build
        assert "--allow-builds" in answer.why


def test_an_index_without_hashes_and_one_with_md5(tmp_path: Path, server: Server) -> None:
    for kind in ("", "md5"):
        with index(server.folder, hashes=kind) as other:
            answer = resolve(ask("psutil"), variables(tmp_path / f"home{kind}", other.url))
        assert isinstance(answer, tuple)
        assert [bool(item.sha256) for item in answer] == [not kind]


# credentials and settings


def test_a_login_that_is_wanted(server: Server, tmp_path: Path) -> None:
    with index(server.folder, login=f"me:{SECRET}") as closed:
        user = variables(tmp_path / "home", closed.url)
        with pytest.raises(ChannelError, match="requires a login") as caught:
            resolve(ask("psutil"), user)
        assert caught.value.exit == 3
        wrong = {**user, "UV_DEFAULT_INDEX": closed.url.replace("://", "://me:otherpassword@") + "/simple"}
        with pytest.raises(ChannelError, match="requires a login") as caught:
            resolve(ask("psutil"), wrong)
        assert "otherpassword" not in f"{caught.value.message}{caught.value.hint}"


def test_the_ways_to_give_a_login(server: Server, tmp_path: Path) -> None:
    with index(server.folder, login=f"me:{SECRET}") as closed:
        plain = f"{closed.url}/simple"
        inside = plain.replace("://", f"://me:{SECRET}@")
        host = closed.url.partition("://")[2].partition(":")[0]
        netrc = tmp_path / "netrc"
        netrc.write_text(f"machine {host} login me password {SECRET}\n")
        netrc.chmod(0o600)
        conf = tmp_path / "pip.conf"
        conf.write_text(f"[global]\nindex-url = {inside}\n")
        settings = tmp_path / "uv.toml"
        settings.write_text(f'[[index]]\nname = "team"\nurl = "{plain}"\ndefault = true\n')
        named = {"UV_INDEX_TEAM_USERNAME": "me", "UV_INDEX_TEAM_PASSWORD": SECRET}
        ways = (
            {"UV_DEFAULT_INDEX": inside},
            {"UV_INDEX_URL": inside},
            {"PIP_INDEX_URL": inside},
            {"UV_DEFAULT_INDEX": plain, "NETRC": str(netrc)},
            {"UV_DEFAULT_INDEX": f"team={plain}", **named},
            {"UV_CONFIG_FILE": str(settings), **named},
            {"PIP_CONFIG_FILE": str(conf)},
        )
        for number, way in enumerate(ways):
            user = variables(tmp_path / f"home{number}", **way)
            answer = resolve(ask("psutil"), user)
            assert isinstance(answer, tuple)
            assert [item.url for item in answer] == [f"{closed.url}/psutil-6.0-py3-none-any.whl"], way


def test_no_argument_of_uv_holds_a_password(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    start = subprocess.Popen

    def spy(argv: list[str], **more: object) -> object:
        seen.extend(argv)
        return start(argv, **more)  # type: ignore[call-overload]  # passed on as it came

    monkeypatch.setattr(subprocess, "Popen", spy)
    inside = f"{server.url.replace('://', f'://me:{SECRET}@')}/simple"
    resolve(ask("psutil"), variables(tmp_path / "home", PIP_INDEX_URL=inside))
    assert "compile" in seen
    assert SECRET not in " ".join(seen)


def test_settings_of_uv_and_pip_are_not_mixed(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nextra-index-url = https://a.example/simple\n  https://b.example/simple\n")
    home = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(conf)}
    assert index_variables(home)["UV_EXTRA_INDEX_URL"] == "https://a.example/simple https://b.example/simple"
    assert index_variables({**home, "UV_DEFAULT_INDEX": "https://c.example/simple"}) == {
        "UV_DEFAULT_INDEX": "https://c.example/simple"
    }
    with_links = index_variables({**home, "PIP_FIND_LINKS": "wheels https://d.example/w"})
    assert with_links["UV_FIND_LINKS"] == f"{Path.cwd() / 'wheels'},https://d.example/w"


@pytest.mark.slow
def test_a_company_s_authority_is_trusted_whoever_names_it(server: Server, tmp_path: Path) -> None:
    pem, own = self_signed(tmp_path), str(tmp_path / "cert")
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\ncert = {own}\n")
    with index(server.folder, certificate=pem) as secure:
        url = f"{secure.url}/simple"
        user = variables(tmp_path / "stranger", UV_DEFAULT_INDEX=url)
        with pytest.raises(ChannelError, match="cannot be reached"):
            resolve(ask("psutil"), user)
        ways: tuple[dict[str, str], ...] = (
            {"UV_DEFAULT_INDEX": url, "SSL_CERT_FILE": own, "REQUESTS_CA_BUNDLE": "/nowhere"},
            {"UV_DEFAULT_INDEX": url, "PIP_CERT": own},
            {"UV_DEFAULT_INDEX": url, "REQUESTS_CA_BUNDLE": own, "CURL_CA_BUNDLE": "/nowhere"},
            {"UV_DEFAULT_INDEX": url, "CURL_CA_BUNDLE": own, "REQUESTS_CA_BUNDLE": ""},
            {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": str(conf), "REQUESTS_CA_BUNDLE": "/nowhere"},
        )
        for number, way in enumerate(ways):
            assert locked(resolve(ask("psutil"), variables(tmp_path / f"home{number}", **way))), way
        by_condarc = resolve(ask("psutil"), variables(tmp_path / "condarc", UV_DEFAULT_INDEX=url), certificates=own)
        assert locked(by_condarc)


def test_authorities_in_a_folder(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "UV_DEFAULT_INDEX": "https://c.example/simple"}
    found = index_variables({**home, "REQUESTS_CA_BUNDLE": str(tmp_path)})
    assert found == {"UV_DEFAULT_INDEX": "https://c.example/simple", "SSL_CERT_DIR": str(tmp_path)}
    assert "SSL_CERT_FILE" not in index_variables(home)


def test_the_best_release_of_all_indexes_counts_for_pip_users_alone(server: Server, tmp_path: Path) -> None:
    wheel(tmp_path / "files", "psutil", "5.1")
    with index(tmp_path / "files") as other:
        both = {"INDEX_URL": f"{server.url}/simple", "EXTRA_INDEX_URL": f"{other.url}/simple"}
        of_pip = variables(tmp_path / "home", **{f"PIP_{name}": url for name, url in both.items()})
        of_uv = variables(tmp_path / "home", **{f"UV_{name}": url for name, url in both.items()})
        assert locked(resolve(ask("psutil"), of_pip)) == {"psutil": "6.0"}
        assert locked(resolve(ask("psutil"), of_uv)) == {"psutil": "5.1"}
        assert locked(resolve(ask("psutil"), {**of_pip, "UV_INDEX_STRATEGY": "first-index"})) == {"psutil": "5.1"}


def test_a_settings_file_that_cannot_be_read(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text(f"index-url = https://me:{SECRET}@a.example/simple\n")
    with pytest.raises(InputError, match=r"pip\.conf cannot be read") as caught:
        index_variables({"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(conf)})
    assert SECRET not in caught.value.message
    settings = tmp_path / "uv.toml"
    settings.write_text("index = [")
    with pytest.raises(InputError, match=r"uv\.toml is not valid TOML"):
        index_variables({"HOME": str(tmp_path), "UV_CONFIG_FILE": str(settings)})


@collect(
    ("text", "words"),
    [
        ("index = 5", "index: expected a list, got 5"),
        ("[[index]]\nurl = 5", r"index\[0\]\.url: expected a string, got 5"),
        ("[[index]]\nname = 'a'", r"index\[0\]\.url: expected a string, got nothing"),
        ("extra-index-url = 'https://me:hunter2@x/simple'", "extra-index-url: expected a list, got"),
        ("[pip]\nfind-links = 3", r"pip\.find-links: expected a list, got 3"),
        ("pip = 'x'", "pip: expected a mapping, got 'x'"),
        ("no-index = 1", "no-index: expected true or false, got 1"),
        ("a = " + "[" * 5000, "is not valid TOML: it is nested too deeply"),
    ],
)
def test_a_uv_toml_of_wrong_types_is_bad_input(tmp_path: Path, text: str, words: str) -> None:
    settings = tmp_path / ".config" / "uv" / "uv.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        index_variables({"HOME": str(tmp_path)})
    assert caught.value.message.startswith(str(settings))
    assert caught.value.hint == "UV_NO_CONFIG=1 leaves it out"
    assert "hunter2" not in caught.value.message
    assert index_variables({"HOME": str(tmp_path), "UV_NO_CONFIG": "1", "PIP_CONFIG_FILE": "/dev/null"}) == {}
    with pytest.raises(InputError, match=words) as caught:
        index_variables({"HOME": "/nowhere", "UV_CONFIG_FILE": str(settings), "UV_NO_CONFIG": "1"})
    assert caught.value.hint == "unset UV_CONFIG_FILE"


def test_indexes_are_shown_without_credentials() -> None:
    shown = shown_indexes(
        {"UV_INDEX": f"team=https://me:{SECRET}@a.example/simple", "UV_INDEX_URL": f"https://b.example/s?key={SECRET}"}
    )
    assert shown == "https://a.example/simple, https://b.example/s"


def test_the_table_of_names_is_in_order_and_says_where_it_comes_from() -> None:
    names = pypi_names()
    assert list(names) == sorted(names)
    assert all(name == normalise(name) for name in names.values())
    assert names["pytorch"] == "torch"
    table = json.loads((Path(cuenv.__file__).parent / "data" / "pip" / "names.json").read_bytes())
    assert table.keys() == {"schema", "sources", "names"}
    assert all(table["sources"])


@pytest.mark.slow
def test_conda_packages_of_the_records_provide_what_pip_knows(records: Path) -> None:
    """No row stands for a package that does not exist, but for libraries on torch that the records leave out."""
    text = "".join(
        (records / place).read_text()
        for place in (
            "conda-forge/linux-64/repodata.json",
            "conda-forge/noarch/repodata.json",
            "pytorch/linux-64/repodata.json",
        )
    )
    absent = {name for name in pypi_names() if f'"{name}"' not in text}
    assert len(absent) < 12
    assert {"pytorch", "matplotlib-base", "pyarrow-core", "torchtriton"} & absent == set()


@pytest.mark.slow
def test_the_names_agree_with_the_mapping_that_conda_pypi_ships(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(tmp_path), "conda-pypi"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip("the Python package index cannot be reached")
    (file,) = tmp_path.glob("*.whl")
    with ZipFile(file) as archive:
        theirs = json.loads(archive.read("conda_pypi/grayskull_pypi_mapping.json"))
    known: dict[str, set[str]] = {}
    for row in theirs.values():
        known.setdefault(row["conda_name"], set()).add(normalise(row["pypi_name"]))
    ours = {name: pypi for name, pypi in pypi_names().items() if name in known}
    assert len(ours) > 20
    assert {name: pypi for name, pypi in ours.items() if pypi not in known[name]} == {}


@pytest.mark.slow
def test_a_real_package_of_the_configured_index(tmp_path: Path) -> None:
    user = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "uv")}
    assert "packaging" in locked(resolve(ask("packaging", provided=()), user))
