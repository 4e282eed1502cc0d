"""A solve that chooses sees no package that cannot be in any answer, and answers as it would with all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_builder import pkg, request, write
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io import choosing
from cuenv.solve.io.choosing import choose
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solved, Unsatisfiable

pytestmark = pytest.mark.io

MINORS = (8, 9, 10)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Three Pythons; packages for each by a range and by the ABI, for one alone, and for any."""
    abi = [f"python_abi 3.{minor}.* *_cp3{minor}" for minor in MINORS]
    forge = [
        *(pkg("python", f"3.{minor}.{patch}") for minor in MINORS for patch in (1, 12)),
        pkg("python", "2.7.18"),
        *(pkg("python_abi", f"3.{minor}", f"0_cp3{minor}", depends=(f"python 3.{minor}.*",)) for minor in MINORS),
        *(pkg("compiled", "1.0", f"py3{minor}_0", depends=(text,)) for minor, text in zip(MINORS, abi, strict=True)),
        pkg("either", "1.0", depends=("python 2.7.*|3.8.*|3.10.*",)),
        pkg("late-patch", "1.0", depends=("python >=3.8,<3.9.10",)),
        pkg("no-newer", "1.0", depends=("python <=3.9",)),
        pkg("old-one", "1.0", depends=("python 2.7.*",)),
        pkg("new-one", "1.0", depends=("python 3.10.*",)),
        pkg("noarch-one", "1.0", subdir="noarch", noarch="python", depends=("python >=3.8",)),
        pkg("data", "1.0"),
        pkg("data", "2.0"),
        pkg("nowhere", "1.0", depends=("python 3.14.*",)),
    ]
    return write(Path(tmp_path_factory.mktemp("channels")), {"conda-forge": forge})


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The releases and builds of each package that the solver was shown."""
    seen: dict[str, set[str]] = {}
    fetch = choosing._Choices.fetch_package_records

    async def watched(self: choosing._Choices, platform: object, name: object) -> list[object]:
        found = await fetch(self, platform, name)  # type: ignore[arg-type] # as rattler gives it
        for item in found:
            seen.setdefault(item.name.normalized, set()).add(f"{item.version} {item.build}")
        return list(found)

    monkeypatch.setattr(choosing._Choices, "fetch_package_records", watched)
    return seen


def names(found: Solved | Unsatisfiable) -> dict[str, str]:
    assert isinstance(found, Solved), found
    return {item.name: item.version for item in found.solution.packages}


def test_packages_for_another_python_and_other_releases_are_not_shown(
    sources: Sources, shown: dict[str, set[str]]
) -> None:
    must = request(Pin(name="python", version="3.9.*"), Pin(name="data", version="1.0"))
    found = names(choose(must, [((Pin(name="compiled"),), ()), ((Pin(name="new-one"),), ())], sources))
    assert found == {"python": "3.9.12", "python_abi": "3.9", "compiled": "1.0", "data": "1.0"}
    assert shown["compiled"] == {"1.0 py39_0"}
    assert shown["python_abi"] == {"3.9 0_cp39"}
    assert shown["data"] == {"1.0 0"}
    assert "new-one" not in shown


def test_what_must_be_there_leaves_a_python_that_no_pin_names(sources: Sources, shown: dict[str, set[str]]) -> None:
    found = names(choose(request("new-one"), [((Pin(name="compiled"),), ())], sources))
    assert found["python"] == "3.10.12"
    assert shown["compiled"] == {"1.0 py310_0"}


def test_each_alternative_that_names_a_python_keeps_its_packages(sources: Sources, shown: dict[str, set[str]]) -> None:
    pythons = tuple((Pin(name="python", version=f"3.{minor}.*"),) for minor in (9, 8))
    found = names(choose(request("compiled"), [pythons], sources))
    assert found["python"] == "3.9.12"
    assert shown["compiled"] == {"1.0 py38_0", "1.0 py39_0"}


@pytest.mark.parametrize(
    ("name", "python", "goes"),
    [
        ("either", "2.7.*", True),
        ("either", "3.8.*", True),
        ("either", "3.9.*", False),
        ("either", "3.10.*", True),
        ("late-patch", "3.9.1", True),
        ("late-patch", "3.9.12", False),
        ("late-patch", "3.10.*", False),
        ("no-newer", "3.8.*", True),
        ("noarch-one", "2.7.*", False),
        ("noarch-one", "3.10.*", True),
        ("data", "2.7.*", True),
    ],
)
def test_a_requirement_of_python_counts_as_the_solver_reads_it(
    name: str, python: str, goes: bool, sources: Sources
) -> None:
    found = choose(request(Pin(name="python", version=python), name), (), sources)
    assert isinstance(found, Solved) is goes


def test_two_that_no_python_joins_need_no_solve(
    sources: Sources, shown: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one package lacks by itself is for the solver to say."""
    assert isinstance(choose(request("old-one", "new-one"), (), sources), Unsatisfiable)
    assert not shown
    alone = choose(request("nowhere", "data"), (), sources)
    assert isinstance(alone, Unsatisfiable)
    assert "python 3.14.*, for which no candidates were found" in alone.text
