"""The pip part as values: what conda provides, how a no is understood, what a lock may hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as by
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import InputError
from cuenv.core.urls import index_url
from cuenv.lockfile.formats import requirements_txt
from cuenv.lockfile.pip_findings import conflict_finding, pip_findings, unlocked
from cuenv.solve import uv_output
from cuenv.solve.environment_spec import normalise, requirement_name
from cuenv.solve.io.pip import pypi_names
from cuenv.solve.model import PipLocked, content_digest
from cuenv.solve.pip_part import PipConflict, PipRequest, Provided, conflict, loosened, provided
from given import package, solution

SHA = "ab" * 32
TORCH = Provided(name="torch", version="2.5.1", conda="pytorch", shown="2.5.1 from conda-forge")
REQUEST = PipRequest(requirements=("vllm==0.11.1",), python="3.12.7", platform="linux-64", provided=(TORCH,))


def pip(name: str, version: str = "1.0", sha256: str | None = SHA) -> PipLocked:
    url = f"https://pypi.example/{name}-{version}-py3-none-any.whl"
    return PipLocked(name=name, version=version, url=url, sha256=sha256)


# what conda provides


def test_a_package_of_conda_whose_name_no_index_can_have_is_not_provided() -> None:
    """uv took its name for an option, and the whole pip part was refused."""
    own = package("_ipython_minor_entry_point", "8.7.0", depends=("python >=3.8",))
    assert provided([own], {}) == ()


def test_python_packages_and_those_of_the_table_are_provided() -> None:
    found = provided(
        (
            package("python", "3.12.7"),
            package("pytorch", "2.5.1", depends=("python >=3.12",)),
            package("huggingface_hub", "0.30", depends=("python >=3.9",)),
            package("python-tzdata", "2025.2", depends=("python >=3.9",)),
            package("tzdata", "2025b"),
            package("ninja", "1.12.1"),
            package("libcublas", "12.9"),
            package("old", "9e", depends=("python_abi 3.12.*",)),
            package("odd", "x", depends=("python",)),
            package("variant", "2.1.0.post300", depends=("python",)),
        ),
        pypi_names(),
    )
    assert {item.name: item.version for item in found} == {
        "torch": "2.5.1",
        "huggingface-hub": "0.30",
        "tzdata": "2025.2",
        "ninja": "1.12.1",
        "old": "9",
        "variant": "2.1.0",
    }
    assert next(item for item in found if item.name == "torch").shown == "2.5.1 from conda-forge"


@collect(
    ("glibc", "target"),
    [
        (None, "2_17"),
        ("2.12", "2_17"),
        ("2.17", "2_17"),
        ("2.27", "2_17"),
        ("2.28", "2_28"),
        ("2.30", "2_28"),
        ("2.35", "2_35"),
        ("2.42", "2_40"),
        ("2.x", "2_17"),
    ],
)
def test_glibc_is_rounded_down(glibc: str | None, target: str) -> None:
    assert replace(REQUEST, glibc=glibc).target == f"x86_64-manylinux_{target}"
    assert replace(REQUEST, glibc=glibc, platform="linux-aarch64").target == f"aarch64-manylinux_{target}"


@by(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True))
def test_names_are_normalised_as_packaging_does(name: str) -> None:
    from packaging.utils import canonicalize_name

    assert normalise(name) == canonicalize_name(name) == requirement_name(f"{name}>=1") == normalise(normalise(name))


# a no


def test_a_demand_on_conda_is_found() -> None:
    text = """Because vllm>=0.11.1 depends on torch==2.9.0 and torch==2.5.1, we can conclude that vllm>=0.11.1 cannot
    be used. And because you require vllm==0.11.1, we can conclude that your requirements are unsatisfiable."""
    found = conflict(text, REQUEST)
    assert (found.parent, found.demand, found.provided) == ("vllm>=0.11.1", "torch==2.9.0", TORCH)
    assert found.requirement == "vllm==0.11.1"
    finding = conflict_finding(replace(found, repair=("vllm==0.7.0",)))
    assert "vllm>=0.11.1 requires torch==2.9.0, and conda's pytorch is 2.5.1 from conda-forge" in finding.message
    assert finding.fix == "write vllm==0.7.0 in the pip part"
    assert conflict_finding(found).fix == "pin pytorch to a release that meets torch==2.9.0, and resolve again"
    assert conflict_finding(found, free=True).fix == "add to dependencies: pytorch=2.9.0"
    either = conflict_finding(replace(found, repair=("vllm==0.7.0",)), free=True).fix
    assert either == "add to dependencies: pytorch=2.9.0, or write vllm==0.7.0 in the pip part"


def test_a_line_whose_package_has_no_wheel_for_the_platform_goes_unless_another_release_may_have_one() -> None:
    text = "Because metal>=0.8 has no wheels with a matching platform tag (e.g., `manylinux_2_35_x86_64`) and you "
    text += "require metal, we can conclude that your requirements are unsatisfiable."
    (edit,) = conflict_finding(conflict(text, replace(REQUEST, requirements=("psutil", "metal")))).edits
    assert (edit.how, edit.entries, edit.pip) == ("remove", ("metal",), True)
    assert conflict_finding(conflict(text, replace(REQUEST, requirements=("psutil", "metal>=0.8")))).edits == ()


def test_a_demand_that_conda_meets_is_not_blamed() -> None:
    text = "Because a==1 depends on torch>=2 and b<1, and you require b==2, we can conclude that it cannot be"
    assert conflict(text, REQUEST).provided is None


def test_a_demand_deeper_down_names_the_line() -> None:
    text = "Because vllm==1 depends on torch==2.9 and torch==2.5.1, vllm==1 cannot be used. And because serving==1 "
    text += "depends on vllm==1 and you require serving==1, we can conclude that your requirements are unsatisfiable."
    found = conflict(text, replace(REQUEST, requirements=("psutil", "serving==1")))
    assert found.requirement == "serving==1"
    assert "(through pip: serving==1)" in conflict_finding(found).message


def test_of_many_releases_the_nearest_demand_is_named() -> None:
    story = """Because vllm<=0.8.0 depends on torch==2.6.0 and all versions of vllm depend on torch==2.5.1, we conclude
    that vllm<=0.8.0 cannot be used. And because only the following versions of vllm are available:
        vllm<=0.8.0
        vllm>=0.11.1
    we can conclude that vllm<0.11.1 cannot be used. (1)

    Because vllm>=0.11.1 depends on torch>=2.9.0,<3 and torch==2.5.1, we can conclude that vllm>=0.11.1 cannot be used.
    And because all versions of big depend on vllm and you require big, we can conclude that it is unsatisfiable."""
    found = conflict(story, replace(REQUEST, requirements=("psutil", "big")))
    assert (found.parent, found.demand, found.requirement) == ("vllm<=0.8.0", "torch==2.6.0", "big")
    newer = replace(TORCH, version="2.10.1")
    assert conflict(story, replace(REQUEST, provided=(newer,))).demand == "torch==2.6.0"
    assert conflict(story.replace("torch>=2.9.0,<3", "torch==2.9.0"), replace(REQUEST, provided=(newer,))).demand == (
        "torch==2.9.0"
    )


def test_all_versions_may_demand_it() -> None:
    text = "Because all versions of nump depend on torch<1.20 and torch==2.5.1, and you require nump, it cannot be"
    found = conflict(text, replace(REQUEST, requirements=("nump",)))
    assert (found.parent, found.demand, found.requirement) == ("nump", "torch<1.20", "nump")


@by(st.text(max_size=300))
def test_any_words_are_understood_somehow(text: str) -> None:
    finding = conflict_finding(conflict(text, REQUEST))
    assert finding.code == "CU510"
    assert finding.message.isprintable() or "\n" in finding.message


@collect(
    ("requirement", "looser"),
    [
        ("vllm==0.11.1", "vllm"),
        ("a[x,b]>=1,<2", "a[b,x]"),
        ("a>=1; python_version > '3'", 'a ; python_version > "3"'),
        ("a", None),
        ("a @ https://x.example/a.whl", None),
        ("a b", None),
    ],
)
def test_a_requirement_without_its_versions(requirement: str, looser: str | None) -> None:
    assert loosened(requirement) == looser


@collect(
    ("requirement", "looser"),
    [
        ("av==14.3.0", "av<15,>=14.3.0"),
        ("a[x]==1.2; python_version > '3'", 'a[x]<2,>=1.2 ; python_version > "3"'),
        ("torch==2.5.1+cu121", "torch<3,>=2.5.1"),
        ("a==0.3.1", None),
        ("a==1.*", None),
        ("a>=1,<2", None),
        ("a", None),
    ],
)
def test_a_requirement_with_the_releases_up_to_the_next_major(requirement: str, looser: str | None) -> None:
    assert loosened(requirement, major=True) == looser


# laws


def test_laws_of_a_lock() -> None:
    conda = (package("pip"), package("pytorch", "2.5.1"), package("numpy", "1.26"), package("cuda-version", "12.6"))
    whole = replace(solution(*conda), pip=(pip("torch", "2.9"), pip("nvidia-cublas-cu12"), pip("x", sha256=None)))
    assert [(item.code, item.subject) for item in pip_findings(whole)] == [
        ("CU513", "x"),
        ("CU512", "torch"),  # which brings the cuBLAS
    ]
    assert list(pip_findings(replace(whole, pip=(pip("accelerate"), pip("nvidia-ml-py"))))) == []
    assert list(pip_findings(replace(whole, pip=(pip("nvidia-cudnn-frontend"),)))) == []
    parts = ("nvidia-cufft", "nvidia-nvjitlink", "nvidia-cuda-runtime", "nvidia-cusparselt-cu13", "nvidia-cublas")
    for name in parts:
        (second,) = pip_findings(replace(whole, pip=(pip(name),)))
        assert (second.code, second.subject, second.severity) == ("CU512", name, "error")
    (second,) = pip_findings(replace(whole, pip=tuple(map(pip, parts))))
    assert "pip would put 5 packages with CUDA libraries (nvidia-cufft 1.0, " in second.message
    beside = replace(whole, packages=(conda[0], conda[3]), pip=(pip("torch", "2.9"), pip("nvidia-cublas-cu12")))
    (second,) = pip_findings(beside)
    assert second.severity == "warning"  # conda has no torch: the libraries are those of pip's
    assert "beside conda's cuda-version 12.6: nvidia-cublas-cu12 1.0" in second.message
    assert [item.code for item in pip_findings(replace(whole, packages=conda[1:], pip=(pip("a"),)))] == ["CU515"]
    assert list(pip_findings(solution(*conda[1:]))) == []


def test_what_a_lock_does_not_hold() -> None:
    conda = (package("pip"), package("pytorch", "2.5.1", depends=("python",)))
    whole = replace(solution(*conda), pip=(pip("a", "1.5"),))
    asked = ("a>=1", "a>=2", "b", "torch>=2", "torch<2", "c; sys_platform == 'win32'", "A[x]", "-e .")
    assert list(unlocked(asked, whole, pypi_names())) == ["a>=2", "b", "torch<2", "-e ."]
    assert list(unlocked(("a",), solution(*conda), pypi_names())) == ["a"]
    assert list(unlocked((), solution(*conda), pypi_names())) == []


def test_the_digest_covers_the_pip_part() -> None:
    bare = solution(package("pip"))
    kinds = [(), (pip("a"),), (pip("a", "2"),), (pip("a", sha256="cd" * 32),), (pip("a"), pip("b"))]
    assert len({content_digest((replace(bare, pip=part),)) for part in kinds}) == len(kinds)


# formats


WINDOWS = [{"url": "https://pypi.example/a-1-cp312-cp312-win_amd64.whl", "hashes": {"sha256": SHA}}]


def document(*packages: dict[str, object]) -> dict[str, object]:
    return {"lock-version": "1.0", "created-by": "uv", "packages": list(packages)}


def test_a_pylock_is_read_and_written() -> None:
    source = replace(pip("b"), url="https://pypi.example/b-1.0.tar.gz")
    from cuenv.core.io import files as toml

    text = uv_output.render((pip("a"), source))
    assert uv_output.parse(toml.load_toml(text), REQUEST, "x") == (pip("a"), source)
    (bare,) = uv_output.parse(toml.load_toml(uv_output.render((replace(pip("a"), url=""),))), REQUEST, "x")
    assert (bare.name, bare.version, bare.url) == ("a", "1.0", "file:///a-1.0.tar.gz")  # uv reads no empty URL


@collect(
    ("taken", "others"),
    [
        ("a-1.0-cp312-cp312-linux_x86_64", ("a-1.0-7-py3-none-any",)),
        ("a-1.0-10-py3-none-any", ("a-1.0-9-py3-none-any", "a-1.0-1-py3-none-any", "a-1.0-py3-none-any")),
        ("a-1.0-1b-py3-none-any", ("a-1.0-1a-py3-none-any", "a-1.0-1-py3-none-any")),
    ],
)
def test_of_several_wheels_the_one_that_pip_takes_is_kept(taken: str, others: tuple[str, ...]) -> None:
    """By the order of tags, then by the number of the build: pip/_internal/index/package_finder.py."""
    for files in ((taken, *others), (*others, taken)):
        wheels = [{"url": f"https://pypi.example/{name}.whl", "hashes": {"sha256": SHA}} for name in files]
        (found,) = uv_output.parse(document({"name": "a", "version": "1.0", "wheels": wheels}), REQUEST, "x")
        assert found.url == f"https://pypi.example/{taken}.whl"


@collect("python", ["3.6.15", "3.7.12", "3.8.20"])
def test_a_wheel_of_an_old_python_is_taken_before_its_source(python: str) -> None:
    """Before 3.8 the ABI of a wheel ends with the m of pymalloc."""
    digits = "".join(python.split(".")[:2])
    name = f"a-1.0-cp{digits}-cp{digits}{'' if digits == '38' else 'm'}-manylinux1_x86_64.whl"
    hashes = {"sha256": SHA}
    files: dict[str, object] = {"wheels": [{"url": f"https://pypi.example/{name}", "hashes": hashes}]}
    files |= {"sdist": {"url": "https://pypi.example/a-1.0.tar.gz", "hashes": hashes}}
    (found,) = uv_output.parse(document({"name": "a", "version": "1.0", **files}), replace(REQUEST, python=python), "x")
    assert found.url.endswith(name)


@collect(
    ("package", "told"),
    [
        ({"name": "a", "version": 1, "wheels": []}, r"int.*packages\[0\]\.version"),
        ({"name": "a", "version": "1", "wheels": [{"url": "x"}]}, r"packages\[0\]\.wheels\[0\]"),
        ({"name": "a", "version": "1", "wheels": WINDOWS}, "no wheel and no source of a 1"),
        ({"name": "a", "version": "1", "sdist": {"path": "a-1.tar.gz", "hashes": {"sha256": SHA}}}, "no source of a 1"),
    ],
)
def test_a_fault_of_a_pylock_is_named(package: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        uv_output.parse(document(package), REQUEST, "x")


def test_urls_lose_credentials_but_not_their_letters() -> None:
    assert index_url("https://me:pw@x.example/packages/t/torch/a.whl?sig=1#sha256=2") == (
        "https://x.example/packages/t/torch/a.whl"
    )
    assert index_url("https://x.example/t/me-0123456789abcdef/simple") == "https://x.example/simple"
    assert index_url("psutil") == "psutil"


def test_requirement_lines() -> None:
    direct = replace(pip("a"), direct=True)
    assert requirements_txt.render((pip("b"), direct), head=("made\x1b by",)) == (
        f"# made  by\na @ {direct.url} --hash=sha256:{SHA}\nb==1.0 --hash=sha256:{SHA}\n"
    )


def test_wheels_for_another_python_alone_are_mended_by_that_python_or_another_release() -> None:
    text = "Because a==1.1 has no wheels with a matching Python ABI tag (e.g., `cp312`) and you require a==1.1, we ..."
    found = PipConflict(requirement="a==1.1", text=text, repair=("a==2.0",))
    assert conflict_finding(found).fix == "use a Python for which a==1.1 has wheels, or write a==2.0 in the pip part"
    assert conflict_finding(replace(found, repair=())).fix == "use a Python for which a==1.1 has wheels"
