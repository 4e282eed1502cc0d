"""The embedded solver: the real py-rattler on small channels that lie in a folder."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from channel_builder import PLATFORM, VIRTUAL, edit, pkg, request, write
from cuenv.core.errors import ChannelError, InputError, OutsideError
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io import channels
from cuenv.solve.io.choosing import choose
from cuenv.solve.io.solver import matches, pins_without_record, solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import LockedPackage, Solution, Solved, Unsatisfiable

FORGE = "https://conda.anaconda.org/conda-forge"


def solved(answer: Solution | Unsatisfiable) -> Solution:
    assert isinstance(answer, Solution), answer
    return answer


def refused(answer: Solution | Unsatisfiable) -> Unsatisfiable:
    assert isinstance(answer, Unsatisfiable), answer
    return answer


def names(answer: Solution | Unsatisfiable) -> list[str]:
    return [f"{package.name}={package.version}" for package in solved(answer).packages]


def test_takes_the_newest_with_its_dependencies_by_name(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", "1.0"), pkg("a", "2.0", depends=("z >=1",)), pkg("z")]})
    answer = solved(solve(request("a"), sources))
    assert names(answer) == ["a=2.0", "z=1.0"]
    assert answer.platform == PLATFORM
    assert answer.virtual_packages == VIRTUAL
    assert answer.solver.startswith("py-rattler 0.28.")


def test_a_folder_as_mirror_keeps_canonical_urls_and_channel_pins(tmp_path: Path) -> None:
    label = "nvidia/label/cuda-11.8.0"
    sources = write(tmp_path, {"conda-forge": [pkg("a"), pkg("b")], label: [pkg("b", "0.5")]})
    pins = (Pin(name="a", channel="conda-forge"), Pin(name="b", channel=label))
    answer = solved(solve(request(*pins, channels=(label, "conda-forge")), sources))
    assert [package.url for package in answer.packages] == [
        f"{FORGE}/linux-64/a-1.0-0.tar.bz2",
        f"https://conda.anaconda.org/{label}/linux-64/b-0.5-0.tar.bz2",
    ]
    assert [package.channel_name for package in answer.packages] == ["conda-forge", label]


def test_one_mirror_for_the_whole_host(tmp_path: Path) -> None:
    write(tmp_path, {"conda-forge": [pkg("a")], "nvidia/label/cuda-11.8.0": [pkg("b")]})
    sources = Sources(mirrors=(Mirror(origin="https://conda.anaconda.org", target=str(tmp_path)),))
    channels = ("nvidia/label/cuda-11.8.0", "conda-forge")
    assert names(solve(request("a", "b", channels=channels), sources)) == ["a=1.0", "b=1.0"]


def test_keeps_what_the_record_says(tmp_path: Path) -> None:
    package = pkg("a", build="cuda129_0", depends=("z 1.0 0",), constrains=("y <2",))
    sources = write(tmp_path, {"conda-forge": [package, pkg("z")]})
    found = solved(solve(request("a"), sources)).package("a")
    assert found is not None
    assert (found.build, found.depends, found.constrains) == ("cuda129_0", ("z 1.0 0",), ("y <2",))
    archive = tmp_path / "conda-forge" / "linux-64" / "a-1.0-cuda129_0.tar.bz2"
    assert found.size == archive.stat().st_size
    assert len(found.sha256 or "") == 64
    assert len(found.md5 or "") == 32


def test_md5_alone_is_a_hash(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]}, hashes=["md5"])
    found = solved(solve(request("a"), sources)).packages[0]
    assert found.sha256 is None
    assert found.md5 is not None


def test_a_record_without_hash_is_refused(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]}, hashes=[])
    with pytest.raises(ChannelError, match=r"conda-forge, linux-64: a 1\.0 has neither sha256 nor md5"):
        solve(request("a"), sources)


def test_priority_is_strict(tmp_path: Path) -> None:
    sources = write(tmp_path, {"one": [pkg("a", "1.0")], "two": [pkg("a", "2.0")]})
    assert names(solve(request("a", channels=("one", "two")), sources)) == ["a=1.0"]
    assert names(solve(request("a", channels=("two", "one")), sources)) == ["a=2.0"]


def test_virtual_packages_decide(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", "1.0"), pkg("a", "2.0", depends=("__cuda >=12.9",))]})
    assert names(solve(request("a"), sources)) == ["a=1.0"]
    newer = (*VIRTUAL[1:], VirtualPackage("__cuda", "12.9"))
    assert names(solve(request("a", virtual=newer), sources)) == ["a=2.0"]
    none = VIRTUAL[1:]
    answer = refused(solve(request(Pin(name="a", version="2.0"), virtual=none), sources))
    assert answer.missing == ()
    assert "__cuda >=12.9" in answer.text


def test_a_bad_virtual_package_is_bad_input(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    with pytest.raises(InputError, match="__cuda=12;6=0"):
        solve(request("a", virtual=(VirtualPackage("__cuda", "12;6"),)), sources)


def test_existing_packages_are_preferred(tmp_path: Path) -> None:
    before = write(tmp_path, {"conda-forge": [pkg("a", "1.0", depends=("z",)), pkg("z", "1.0")]})
    first = solved(solve(request("a"), before))
    newer = [pkg("a", "1.0", depends=("z",)), pkg("a", "2.0", depends=("z",)), pkg("z", "1.0"), pkg("z", "2.0")]
    after = write(tmp_path, {"conda-forge": newer})
    assert names(solve(request("a"), after)) == ["a=2.0", "z=2.0"]
    assert solved(solve(request("a", prefer=first.packages), after)) == first
    raised = request(Pin(name="a", version="2.0"), prefer=first.packages)
    assert names(solve(raised, after)) == ["a=2.0", "z=1.0"]


def test_a_preferred_package_that_is_gone_is_dropped(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", "2.0")]})
    gone = LockedPackage(
        name="a", version="1.0", build="0", subdir=PLATFORM, channel=FORGE, url=f"{FORGE}/x", md5="0" * 32, sha256=None
    )
    strange = replace(gone, name="no name", build="'] or *")
    assert names(solve(request("a", prefer=(gone, strange)), sources)) == ["a=2.0"]


def test_what_is_missing_is_named_as_the_file_has_it(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", "1.0", "cpu_0"), pkg("b")]})
    cuda = Pin(name="a", version="1.0", build="cuda*", channel="conda-forge")
    nowhere = Pin(name="nowhere", version=">=2,<3")
    answer = refused(solve(request(cuda, "b", nowhere), sources))
    assert answer.missing == ("conda-forge::a=1.0=cuda*", "nowhere>=2,<3")
    assert answer.text.startswith("Cannot solve the request because of:")


def test_a_conflict_misses_nothing(tmp_path: Path) -> None:
    packages = [pkg("a", depends=("z <2",)), pkg("b", depends=("z >=2",)), pkg("z", "1.0"), pkg("z", "2.0")]
    answer = refused(solve(request("a", "b"), write(tmp_path, {"conda-forge": packages})))
    assert answer.missing == ()
    assert "z >=2" in answer.text


def test_control_characters_of_a_channel_do_not_reach_the_text(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", depends=("z\x1b[31m >1",))]})
    answer = refused(solve(request("a"), sources))
    assert "\x1b" not in answer.text
    assert "\\x1b[31m" in answer.text


@collect("build", ["\x1b[31m0", "0\n0", "0 0"])
def test_a_hostile_build_string_is_refused(tmp_path: Path, build: str) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})

    def change(data: dict[str, Any]) -> None:
        data["packages"]["a-1.0-0.tar.bz2"]["build"] = build

    edit(tmp_path / "conda-forge" / "linux-64", change)
    with pytest.raises(ChannelError) as caught:
        solve(request("a"), sources)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("base", ["https://mirror.example.com/cf/linux-64/", "../elsewhere/"])
def test_a_mirror_that_names_itself_does_not_get_into_the_lock(tmp_path: Path, base: str) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    edit(tmp_path / "conda-forge" / "linux-64", lambda data: data["info"].update(base_url=base))
    answer = solved(solve(request("a"), sources))
    assert answer.packages[0].url == f"{FORGE}/linux-64/a-1.0-0.tar.bz2"
    assert solved(solve(request("a", prefer=answer.packages), sources)) == answer


def test_a_panic_of_the_solver_is_the_outside(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    edit(tmp_path / "conda-forge" / "linux-64", lambda data: data["info"].update(base_url="x:"))
    with pytest.raises(OutsideError, match=r"the solver failed: .*anic"):
        solve(request("a"), sources)
    assert "panicked" in capfd.readouterr().err, "if rattler no longer panics here, this test has lost its way"


def test_a_record_for_another_platform_is_refused(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})

    def change(data: dict[str, Any]) -> None:
        data["packages"]["a-1.0-0.tar.bz2"]["subdir"] = "win-64"

    edit(tmp_path / "conda-forge" / "linux-64", change)
    with pytest.raises(ChannelError, match="win-64, not for linux-64"):
        solve(request("a"), sources)


def test_a_pin_that_is_none_is_bad_input(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    with pytest.raises(InputError, match=r"a=1' or 2=3.* is not a package requirement"):
        solve(request(Pin(name="a", version="1' or 2", build="3")), sources)


@collect(
    ("content", "words"),
    [
        (b"", "is not valid repodata"),
        (b'{"packages": {"a-1.0-0.tar.bz2": {"name": "a"', "is not valid repodata"),
        (b"<html>please log in</html>", "is not valid repodata"),
        (b"[1, 2]", "is not valid repodata"),
        (b'{"packages": 3}', "is not valid repodata"),
        (b"\xff\xfe\x00", "is not valid repodata"),
        (b'{"packages": {"a-1.0-0.tar.bz2": 3}}', "holds an invalid record"),
        (b'{"packages": {"a-1.0-0.tar.bz2": {"name": "a", "version": "!", "build": "0"}}}', "invalid record"),
    ],
)
def test_a_broken_repodata_names_channel_subdir_and_file(tmp_path: Path, content: bytes, words: str) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    path = tmp_path / "conda-forge" / "linux-64" / "repodata.json"
    path.write_bytes(content)
    with pytest.raises(ChannelError, match=words) as caught:
        solve(request("a"), sources)
    assert caught.value.message.startswith(f"channel conda-forge, linux-64: {path} ")
    assert caught.value.hint


def test_without_noarch_a_folder_is_a_channel_without_the_platform_it_is_none(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    (tmp_path / "conda-forge" / "noarch" / "repodata.json").unlink()
    assert names(solve(request("a"), sources)) == ["a=1.0"]
    path = tmp_path / "conda-forge" / "linux-64" / "repodata.json"
    path.unlink()
    with pytest.raises(ChannelError, match=f"channel conda-forge, linux-64: {path} is missing"):
        solve(request("a"), sources)


@pytest.mark.parametrize("subdir", ["linux-64", "noarch"])
def test_compressed_repodata_alone_is_named(tmp_path: Path, subdir: str) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})
    path = tmp_path / "conda-forge" / subdir / "repodata.json"
    path.rename(path.with_name("repodata.json.zst"))
    with pytest.raises(ChannelError, match="; only ") as caught:
        solve(request("a"), sources)
    assert caught.value.hint == f"zstd -d {path}.zst"


def test_a_directory_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "conda-forge" / "linux-64" / "repodata.json").mkdir(parents=True)
    sources = Sources(mirrors=(Mirror(origin=FORGE, target=str(tmp_path / "conda-forge")),))
    with pytest.raises(ChannelError, match=r"cannot read .*: not a file"):
        solve(request("a"), sources)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a", "1.0")]})
    assert names(solve(request("a"), sources)) == ["a=1.0"]
    write(tmp_path, {"conda-forge": [pkg("a", "1.0"), pkg("a", "2.0")]})
    assert names(solve(request("a"), sources)) == ["a=2.0"]


def test_absent_asks_without_solving(tmp_path: Path) -> None:
    packages = [pkg("a", "1.5", "cuda126_0", depends=("never",)), pkg("n", subdir="noarch", noarch="generic")]
    sources = write(tmp_path, {"conda-forge": packages, "nvidia": [pkg("m")]})
    pins = (
        Pin(name="a", version="1.5", build="cuda*"),
        Pin(name="a", version="1.5", build="cpu*"),
        Pin(name="a", version="<1.5"),
        Pin(name="n"),
        Pin(name="n", channel="nvidia"),
        Pin(name="m", channel="nvidia"),
        Pin(name="__cuda", version="99"),
    )
    assert pins_without_record(pins, ("conda-forge",), PLATFORM, sources) == (pins[1], pins[2], pins[4])


def test_inside_a_running_loop_as_in_a_notebook(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": [pkg("a")]})

    async def cell() -> Solution | Unsatisfiable:
        return solve(request("a"), sources)

    assert names(asyncio.run(cell())) == ["a=1.0"]


def test_a_signal_ends_what_rattler_is_asked_even_where_asyncio_loses_the_wake_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    call_soon = asyncio.BaseEventLoop.call_soon
    cancelled = threading.Event()

    def hit(loop: asyncio.BaseEventLoop, *args: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0)  # here Python handles it
        return call_soon(loop, *args, **more)

    async def asked() -> None:
        answer = asyncio.get_running_loop().create_future()

        def come() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(asyncio.BaseEventLoop, "call_soon", hit)
                answer.set_result(None)  # wakes who awaits it

        asyncio.get_running_loop().call_soon(come)
        try:
            await answer
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    try:
        with pytest.raises(KeyboardInterrupt):
            channels.run(asked())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert cancelled.wait(60)


def test_progress_is_told(tmp_path: Path) -> None:
    sources = write(tmp_path, {"one": [pkg("a")], "two": []})
    told: list[str] = []
    solve(request("a", channels=("one", "two")), sources, progress=told.append)
    assert told == ["reading one", "reading two", "solving for linux-64"]


LOCKED = LockedPackage(
    name="pytorch",
    version="2.12.0",
    build="cuda129_mkl_py312_habc_300",
    subdir=PLATFORM,
    channel=FORGE,
    url=f"{FORGE}/linux-64/pytorch-2.12.0-cuda129_mkl_py312_habc_300.conda",
    md5="0" * 32,
    sha256=None,
)


@collect(
    ("spec", "answer"),
    [
        ("pytorch", True),
        ("pytorch 2.12.*", True),
        ("pytorch >=2.13", False),
        ("pytorch 2.12.0 cuda129_mkl_*_300", True),
        ("pytorch[version='==2.12.0',build='cpu*']", False),
        ("conda-forge::pytorch", True),
        ("pytorch::pytorch", False),
        ("libtorch", False),
        ("pytorch[build_number=300]", True),
        ("pytorch >>>>1", False),
        ("", False),
    ],
)
def test_matches_as_rattler_does(spec: str, answer: bool) -> None:
    assert matches(spec, LOCKED) is answer


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_matches_never_raises(spec: str, name: str, version: str) -> None:
    assert matches(spec, replace(LOCKED, name=name, version=version)) in {True, False}


def test_a_package_of_the_platform_counts_before_one_of_noarch_with_its_file_name(tmp_path: Path) -> None:
    """The channel nvidia has cuda-compiler-12.6.0-0.tar.bz2 twice: in linux-64, and for Windows in noarch."""
    both = [pkg("both", depends=("there",)), pkg("both", subdir="noarch", noarch="generic", depends=("__win",))]
    sources = write(tmp_path, {"conda-forge": [*both, pkg("there")]})
    found = choose(request(), [((Pin(name="both"),), ())], sources)
    assert isinstance(found, Solved), found
    assert [item.name for item in found.solution.packages] == ["both", "there"]
