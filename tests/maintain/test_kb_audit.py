"""The tables against a channel: what lies is caught, what is new is learned, and what was learned is used at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from channel_builder import PLATFORM, edit, pkg, serve, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.core.findings import Report
from cuenv.core.versions import arch_list, version
from cuenv.host.facts import HostFacts, glibc
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load, save
from cuenv.knowledge.rows import TorchBuild
from cuenv.knowledge.tables import dump, merge
from cuenv.maintain.audit import discontinued_findings, label_findings, torch_findings
from cuenv.maintain.learn import learn, new_rows, texts_of
from cuenv.maintain.maintain import Question, audit, learn_rows
from cuenv.resolver.compose import compose
from cuenv.resolver.decision import decide
from cuenv.resolver.rules import Context
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.observed import ChannelBuild, Record, newest_day, seen_builds
from given import base, options
from thorough import examples

KNOWN = {
    "version": "2.12.0",
    "build": "cuda129_mkl_py312_h0_300",
    "depends": (
        "python >=3.12,<3.13.0a0",
        "libcudnn >=9.10.2.21,<10.0a0",
        "nccl >=2.28.9.1,<3.0a0",
        "__glibc >=2.17,<3.0.a0",
    ),
}
"""A record that says what the row of 2.12.0 says."""


def record(**changes: Any) -> Record:
    return Record(name="pytorch", **{**KNOWN, **changes})


def findings(*records: Record, knowledge: Knowledge | None = None) -> list[tuple[str, str, str]]:
    seen, strange = seen_builds(records, "conda-forge", PLATFORM)
    assert strange == ()
    found = torch_findings(seen, "conda-forge", PLATFORM, knowledge or base())
    return [(item.code, item.severity, item.message) for item in found if item.code != "CU602"]


def row(release: str, cuda: str | None = "12.9", knowledge: Knowledge | None = None) -> TorchBuild:
    wanted = version(cuda) if cuda else None
    return next(
        item
        for item in (knowledge or base()).torch
        if (str(item.version), item.cuda, item.stack, item.platform) == (release, wanted, "conda-forge", PLATFORM)
    )


def lying(**cells: Any) -> Knowledge:
    """The tables with other cells in the row of 2.12.0 with CUDA 12.9."""
    text = next(
        line for line in dump(base(), "torch").splitlines() if '"2.12.0", "cuda": "12.9"' in line and PLATFORM in line
    )
    cells = {**json.loads(text.removesuffix(",")), **cells}
    return merge(base(), {"torch": {"schema": "cuenv/kb/torch/1", "rows": [cells]}})


def test_a_record_that_says_what_the_row_says_is_fine() -> None:
    assert findings(record()) == []


@collect(
    ("cells", "says"),
    [
        (
            {"cudnn": "libcudnn >=9.11,<10"},
            "cudnn: the row says libcudnn >=9.11,<10, but the records require libcudnn >=",
        ),
        ({"cudnn": "libcudnn >=9.4,<10"}, "cudnn: the row says libcudnn >=9.4,<10"),
        ({"cudnn": "libcudnn >=9.10.2.21,<11"}, "cudnn: the row says"),
        ({"cudnn": "cudnn >=9.10.2.21,<10"}, "cudnn: the row says cudnn >="),
        ({"nccl": "nccl >=2.30,<3"}, "nccl: the row says nccl >=2.30,<3, but the records require nccl >=2.28.9.1,<3"),
        ({"glibc": "2.34"}, "glibc: the row says 2.34, but the records need 2.17"),
        ({"glibc": "2.5"}, "glibc: the row says 2.5, but the records need 2.17"),
        ({"build": "cuda128*"}, "build: cuda128* does not match cuda129_mkl_py312_h0_300"),
    ],
)
def test_a_lying_row_is_caught(cells: dict[str, Any], says: str) -> None:
    found = findings(record(), knowledge=lying(**cells))
    assert [(code, severity) for code, severity, _ in found] == [("CU603", "error")]
    assert says in found[0][2]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"cudnn": "libcudnn >=9,<10"}, ("CU603", "cudnn: the row says libcudnn >=9,<10")),
        ({"pythons": ["3.13"]}, ("CU601", "pythons: the row does not list Python 3.12")),
    ],
)
def test_a_row_that_knows_too_little_is_a_warning(cells: dict[str, Any], says: tuple[str, str]) -> None:
    ((code, severity, message),) = findings(record(), knowledge=lying(**cells))
    assert (code, severity) == (says[0], "warning")
    assert says[1] in message


def test_a_build_that_no_row_knows_is_a_warning() -> None:
    ((code, severity, message),) = findings(record(version="2.99.0"))
    assert (code, severity) == ("CU601", "warning")
    assert "pytorch 2.99.0 cuda129* of conda-forge for linux-64, for Python 3.12" in message


def test_what_is_not_in_the_channel_is_information() -> None:
    seen, _ = seen_builds([record()], "conda-forge", PLATFORM)
    found = [item for item in torch_findings(seen, "conda-forge", PLATFORM, base()) if item.code == "CU602"]
    assert {item.severity for item in found} == {"info"}
    gone = next(item for item in found if "builds of the tables are not in this channel:" in item.message)
    assert (
        len(gone.evidence) == sum((item.stack, item.platform) == ("conda-forge", PLATFORM) for item in base().torch) - 1
    )
    assert "pytorch 2.12.0 cuda129* for Python 3.10, 3.11, 3.13, 3.14" in [
        text for item in found for text in item.evidence
    ]


def test_the_loosest_of_several_builds_is_what_a_row_says() -> None:
    stricter = record(build="cuda129_mkl_py312_h1_301", depends=(*KNOWN["depends"][:1], "libcudnn >=9.12,<10.0a0"))
    assert findings(record(), stricter) == []
    assert [code for code, _, _ in findings(stricter)] == ["CU603"]


@collect(
    ("build", "depends", "python"),
    [
        ("cuda129_py312h1_0", (), "3.12"),
        ("cuda129_h1_0", ("python_abi 3.14.* *_cp314",), "3.14"),
        ("cuda129_py3", ("python >=3.9,<3.10.0a0",), "3.9"),
    ],
)
def test_the_python_of_a_record(build: str, depends: tuple[str, ...], python: str) -> None:
    (seen,), _ = seen_builds([record(build=build, depends=depends)], "conda-forge", PLATFORM)
    assert seen.pythons == (python,)


@collect("build", ["py312_0", "cuda129_0", "xpu_py312_0"])
def test_a_record_that_says_too_little_is_set_aside(build: str) -> None:
    odd = record(build=build, depends=())
    assert seen_builds([odd, record(version="nonsense")], "conda-forge", PLATFORM) == (
        (),
        (odd, record(version="nonsense")),
    )


def test_a_package_that_ended_and_goes_on_is_caught() -> None:
    later = Record(name="cudatoolkit-dev", version="12.1.0", build="0")
    (found,) = discontinued_findings(
        base().endings, [later, Record(name="cudatoolkit-dev", version="11.7.0", build="0")]
    )
    assert (found.code, found.severity) == ("CU604", "error")
    assert "ended with 11.7.0, but the channel has 12.1.0" in found.message


def test_a_label_that_does_not_fit_is_caught() -> None:
    fit = next(item for item in base().labels if item.label == "12.4.0")
    pin = Record(name="pytorch-cuda", version="12.4", build="h_6", depends=("libcublas >=12.4.2.65,<12.4.5.8", "x *"))
    inside, outside = (Record(name="libcublas", version=number, build="0") for number in ("12.4.2.65", "12.4.5.8"))
    assert list(label_findings(fit, [pin], [inside, outside])) == []
    (found,) = label_findings(fit, [pin], [outside])
    assert (found.code, found.severity) == ("CU605", "error")
    assert "requires libcublas >=12.4.2.65,<12.4.5.8, but the label has 12.4.5.8" in found.message
    assert (
        list(label_findings(fit, [replace(pin, build="h_7"), replace(pin, depends=("libcublas >=x",))], [outside]))
        == []
    )


words = st.text(st.sampled_from("cudapy_0123456789.*<>=!,-| \x1b"), max_size=30)


@examples(50)
@given(
    st.lists(st.builds(Record, name=st.just("pytorch"), version=words, build=words, depends=st.tuples(words, words)))
)
def test_no_record_of_a_stranger_makes_it_fail(records: list[Record]) -> None:
    seen, strange = seen_builds(records, "conda-forge", PLATFORM)
    list(torch_findings(seen, "conda-forge", PLATFORM, base()))
    list(discontinued_findings(base().endings, records))
    assert len({item.build for item in records}) <= sum(len(item.builds) for item in seen) + len(strange)


def learned(*records: Record, knowledge: Knowledge | None = None, nvcc: tuple[str, ...] = ()) -> Knowledge:
    seen, _ = seen_builds(records, "conda-forge", PLATFORM)
    return learn(
        seen,
        knowledge or base(),
        nvccs=map(version, nvcc),
        stack="conda-forge",
        platform=PLATFORM,
        day="2026-12-24",
    )


def test_cpu_builds_of_the_pytorch_channel_are_learned_and_composed_without_a_cuda_channel() -> None:
    arm = "linux-aarch64"
    seen, _ = seen_builds([record(build="py3.12_cpu_0")], "pytorch", arm)
    found = learn(seen, base(), nvccs=(), stack="pytorch", platform=arm, day="2026-12-24")
    request = Request(stack="pytorch", cpu=True)
    host = HostFacts(label="arm", platform=arm, libc=glibc("2.35"))
    made = compose(decide(Context(facts=host, request=request, knowledge=found)), "x")
    assert made.channels == ("pytorch", "conda-forge")


def unseen(pytorch: str) -> Knowledge:
    """The tables as they would be had nobody seen a release in a channel."""
    rows = tuple(item.replaced(seen=None) if item.version == version(pytorch) else item for item in base().torch)
    return replace(base(), torch=rows)


def test_a_row_learns_when_its_build_was_last_seen() -> None:
    knowledge = unseen("2.12.0")
    seen, _ = seen_builds([record()], "conda-forge", PLATFORM)
    told = [item.message for item in torch_findings(seen, "conda-forge", PLATFORM, knowledge)]
    assert [text for text in told if text.startswith("1 builds of this channel are known to the cuenv tables only")]
    assert row("2.12.0", knowledge=learned(record(day="2026-06-14"), knowledge=knowledge)).seen == "2026-06-14"
    found = learned(record(), knowledge=knowledge)
    assert row("2.12.0", knowledge=found).seen == "2026-12-24"  # the record tells no day: that of the reading
    assert row("2.12.0", knowledge=found).note == row("2.12.0").note
    assert learned(record(), knowledge=found) is found
    assert row("2.99.0", knowledge=learned(record(version="2.99.0", day="2027-01-02"))).seen == "2027-01-02"
    assert row("2.99.0", knowledge=learned(record(version="2.99.0", day="2027-01-02"))).since == "2027-01-02"


def test_nothing_new_is_nothing_learned() -> None:
    assert learned(record()) is base()


def test_a_new_release_is_a_row_with_facts_and_an_inference() -> None:
    found = learned(record(version="2.99.0"))
    fresh = row("2.99.0", knowledge=found)
    model = row("2.13.0")
    assert (fresh.pythons, str(fresh.cudnn), str(fresh.glibc)) == (("3.12",), "libcudnn >=9.10.2.21,<10", "2.17")
    assert fresh.low
    assert "device code inferred from pytorch 2.13.0 cuda129*" in fresh.note
    assert fresh.code is not None
    assert model.code is not None
    assert arch_list(fresh.code) == arch_list(model.code)
    assert fresh.sources[:2] == ("learned_conda_forge_linux_64", "learned_rule")
    assert found.sources["learned_conda_forge_linux_64"].read_on == "2026-12-24"
    assert found.edition == "2026-12-24"
    assert findings(record(version="2.99.0"), knowledge=found) == []


def test_a_cpu_build_holds_no_device_code_and_infers_nothing() -> None:
    fresh = row("2.99.0", None, learned(record(version="2.99.0", build="cpu_mkl_py312_h0_100")))
    assert (fresh.build, fresh.low, fresh.code) == ("cpu*", False, row("2.12.0", None).code)


def test_a_new_cuda_release_gets_a_row_of_its_own() -> None:
    found = learned(record(version="2.99.0", build="cuda137_py312_h0_300"), nvcc=("13.7",))
    fresh, cuda = row("2.99.0", "13.7", found), found.cuda(version("13.7"))
    assert fresh.code is None
    assert "device code unknown" in fresh.note
    assert cuda is not None
    assert cuda.conda_nvcc
    assert cuda.low
    assert cuda.targets == base().cudas[-1].targets


def test_a_lying_row_is_fixed_and_its_inference_kept() -> None:
    wrong = lying(cudnn="libcudnn >=9.4,<10", pythons=["3.13"])
    mended = row("2.12.0", knowledge=learned(record(), knowledge=wrong))
    assert str(mended.cudnn) == "libcudnn >=9.10.2.21,<10"
    assert mended.pythons == ("3.12", "3.13")
    assert mended.code == row("2.12.0").code
    assert findings(record(), knowledge=learned(record(), knowledge=wrong)) == []


def build(name: str, release: str, text: str, *depends: str) -> Record:
    return Record(name=name, version=release, build=text, depends=depends)


def libraries(*records: Record, knowledge: Knowledge | None = None, platform: str = PLATFORM) -> Knowledge:
    return learn(
        (),
        knowledge or base(),
        nvccs=(),
        stack="conda-forge",
        platform=platform,
        day="2026-12-24",
        records=records,
    )


@collect(
    ("builds", "glob"),
    [
        (("cuda129_py312_0", "cpu_py312_0"), "cuda*"),
        (("h0_0_cuda", "h1_0_cpu"), "*_cuda"),
        (("py312cuda126h0_0_cuda", "py312h0_0_cpu"), "*_cuda"),
        (("py312_cu126", "py312_cpu"), "*_cu*"),
        (("gpuh0_0", "cpuh0_0"), "gpu*"),
        (("cuda126_h0_0", "h0_0"), "cuda*"),
    ],
)
def test_a_package_with_cpu_and_cuda_builds_is_learned_from_its_records(builds: tuple[str, ...], glob: str) -> None:
    found = libraries(*(build("newlib", "1.0", text) for text in builds))
    variant = found.cuda_variant("newlib", "conda-forge")
    assert variant
    assert (variant.guard, variant.any_cuda, variant.essential, variant.low) == (glob, glob, True, True)
    assert libraries(*(build("newlib", "1.0", text) for text in builds), knowledge=found) is found


@collect(
    "records",
    [
        (build("newlib", "1.0", "cuda129_0"), build("newlib", "0.9", "h0_0")),  # CUDA from 1.0 on
        (build("newlib", "1.0", "nocuda_0"), build("newlib", "1.0", "default_0")),
        (build("newlib", "1.0", "cpu_0"),),
        (build("newlib", "1.0", "cuda129_0"),),
        (build("newlib-cpu", "1.0", "cuda129_0"), build("newlib-cpu", "1.0", "cpu_0")),
        (build("cuda-nvcc", "12.9", "cuda_0"), build("cuda-nvcc", "12.9", "cpu_0")),
        (build("libarrow", "1.0", "x_cuda"), build("libarrow", "1.0", "x_cpu")),  # a row knows it
    ],
)
def test_what_has_no_two_kinds_of_builds_is_not_such_a_package(records: tuple[Record, ...]) -> None:
    assert libraries(*records) is base()


def test_a_package_that_changed_how_it_names_its_cuda_builds_is_reported_by_the_newest() -> None:
    found = libraries(
        build("newlib", "1.0", "gpuh0_0"), build("newlib", "1.1", "cuda_129h0_0"), build("newlib", "1.1", "cpuh0_0")
    )
    variant = found.cuda_variant("newlib", "conda-forge")
    assert variant
    assert variant.any_cuda == "cuda*"


def torch(low: str, below: str) -> tuple[str, str]:
    return f"pytorch >={low},<{below}.0a0", "pytorch * cuda*"


def test_the_torch_that_the_builds_of_a_library_ask_for_is_learned() -> None:
    found = libraries(
        build("newlib", "1.0", "cuda129_py312_0", *torch("2.9.1", "2.10")),
        build("newlib", "1.0", "cuda129_py312_1", *torch("2.10.0", "2.11")),
        build("newlib", "1.0", "cuda_130py312_1", *torch("2.10.0", "2.11")),
        build("newlib", "1.0", "cpu_py312_1", *torch("2.12.0", "2.13")),
        build("newlib", "0.9", "cuda126_py312_0", *torch("2.4.0", "2.5")),
        build("newlib", "0.9", "cuda126_py312_0", *torch("2.7.0", "2.8")),
        build("noarch-lib", "0.9", "pyh0_0", "pytorch >=2.0"),
    )
    rows = [
        (str(row.releases[0]), str(row.torch), [str(item) for item in row.cuda], row.platforms)
        for row in found.extension("newlib")
    ]
    assert rows == [
        ("0.9", ">=2.7.0,<2.8", ["12.6"], (PLATFORM,)),
        ("1.0", ">=2.9.1,<2.11", ["12.9"], (PLATFORM,)),
        ("1.0", ">=2.10.0,<2.11", ["13.0"], (PLATFORM,)),
    ]
    assert found.extension("noarch-lib") == ()


def test_what_is_learned_for_another_platform_is_a_row_of_its_own() -> None:
    one = build("newlib", "1.0", "cuda129_py312_0", *torch("2.9.1", "2.10"))
    first = libraries(one)
    assert libraries(one, knowledge=first) is first
    both = libraries(one, knowledge=first, platform="linux-aarch64")
    assert [item.platforms for item in both.extension("newlib")] == [("linux-64",), ("linux-aarch64",)]
    assert libraries(one, knowledge=both) is both


def test_what_is_learned_of_a_library_guards_it_and_chooses_its_torch() -> None:
    found = libraries(
        build("newlib", "1.0", "cuda129_py312_0", *torch("2.10.0", "2.11")),
        build("newlib", "1.0", "cpu_py312_0", *torch("2.10.0", "2.11")),
    )
    decision = decide(
        Context(facts=options("H100", driver="580.95.05"), request=Request(packages=("newlib",)), knowledge=found)
    )
    made = compose(decision, "x")
    pins = {pin.name: pin for pin in made.pins}
    assert pins["pytorch"].version == "2.10.0"
    assert pins["newlib"].yaml_text() == "conda-forge::newlib=*=cuda*"


@examples(50)
@given(
    st.lists(
        st.builds(Record, name=st.sampled_from(["a", "b"]), version=words, build=words, depends=st.tuples(words, words))
    )
)
def test_no_record_of_a_stranger_makes_learning_fail(records: list[Record]) -> None:
    found = libraries(*records)
    assert libraries(*records, knowledge=found) is found


def test_what_is_learned_twice_is_one_row(tmp_path: Path) -> None:
    once = learned(record(version="2.99.0"))
    assert learned(record(version="2.99.0"), knowledge=once) is once
    overlay = new_rows(base(), once)
    assert (len(overlay.torch), len(overlay.sources), overlay.gpus) == (1, 2, ())
    save(tmp_path / "a" / "b", {name: dump(overlay, name) for name in texts_of(overlay)})
    assert dump(load(tmp_path / "a" / "b"), "torch") == dump(once, "torch")


def test_the_day_is_the_newest_records() -> None:
    assert newest_day([record(day="2026-01-02"), record(day="2026-03-01"), record()]) == "2026-03-01"
    assert newest_day([record()]) == ""


@pytest.fixture
def channel(tmp_path: Path) -> Sources:
    """A channel with one known build, and one that is newer than cuenv; python and the layers are there as well."""
    depends = KNOWN["depends"]
    stamp = {"pytorch-2.99.0-cuda129_mkl_py312_h0_300.tar.bz2": 1_798_000_000_000}
    sources = write(
        tmp_path,
        {
            "conda-forge": [
                *(
                    pkg("pytorch", release, "cuda129_mkl_py312_h0_300", depends=(*depends, "cuda-version >=12.9,<13"))
                    for release in ("2.12.0", "2.99.0")
                ),
                *(pkg("python", "3.12.9"), pkg("cuda-version", "12.9"), pkg("cuda-version", "12.8")),
                *(pkg("libcudnn", "9.10.2.21"), pkg("nccl", "2.28.9.1")),
            ]
        },
    )

    def stamped(data: dict[str, Any]) -> None:
        for name, found in data["packages"].items():
            found["timestamp"] = stamp.get(name, 1_700_000_000_000)

    edit(tmp_path / "conda-forge" / PLATFORM, stamped)
    return sources


def question(sources: Sources, **more: Any) -> Question:
    return Question(**{"channel": "conda-forge", "platform": PLATFORM, **more}, sources=sources)


def severities(found: Report) -> set[tuple[str, str]]:
    return {(item.code, item.severity) for item in found.findings}


def test_audit_of_a_test_channel(channel: Sources) -> None:
    assert severities(audit(question(channel), base())) == {("CU601", "warning"), ("CU602", "info")}
    found = audit(question(channel), lying(nccl="nccl >=2.20,<3"))
    assert ("CU603", "error") in severities(found)


def test_learn_looks_at_the_packages_that_are_named_and_at_all_when_asked(tmp_path: Path) -> None:
    builds = [pkg("newlib", "1.0", text, depends=("pytorch >=2.9,<2.10",)) for text in ("cuda129_0", "cpu_0")]
    sources = write(
        tmp_path, {"conda-forge": [*builds, pkg("deepspeed", "9.0", "cuda129_0", depends=("pytorch >=2.9,<2.10",))]}
    )

    def names(packages: tuple[str, ...] | None, there: Sources = sources) -> tuple[list[str], list[str]]:
        asked = Question(channel="conda-forge", platform=PLATFORM, sources=there, packages=packages)
        fresh = learn_rows(asked, base(), base(), "2026-12-24").fresh
        return [row.package for row in fresh.twins], [row.package for row in fresh.extensions]

    assert names(()) == ([], ["deepspeed"])
    assert names(("newlib",)) == (["newlib"], ["deepspeed", "newlib"])
    assert names(None) == (["newlib"], ["deepspeed", "newlib"])
    with serve(tmp_path) as server:
        online = Mirror(origin="https://conda.anaconda.org/conda-forge", target=f"{server.url}/conda-forge")
        assert names(None, Sources(mirrors=(online,), cache=str(tmp_path / "c"))) == names(None)


def test_learn_takes_the_day_of_the_records(channel: Sources) -> None:
    assert learn_rows(question(channel), base(), base()).day == "2026-12-23"
    assert learn_rows(question(channel), base(), base(), "2027-01-01").day == "2027-01-01"


@pytest.mark.parametrize(
    ("asked", "read_on", "says"),
    [
        ({"channel": "bioconda"}, "", "the cuenv tables cover conda-forge and pytorch"),
        ({"platform": "win-64"}, "", "is not supported"),
        ({}, "tomorrow", "--read-on: expected a day YYYY-MM-DD"),
        ({"packages": ("../x",)}, "", "--package '../x' is not a valid name of a package"),
        ({"packages": ("",)}, "", "--package '' is not a valid name of a package"),
        ({"packages": ("x\x1b[31m",)}, "", "is not a valid name of a package"),
    ],
)
def test_what_cannot_be_asked(channel: Sources, asked: dict[str, Any], read_on: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        learn_rows(question(channel, **asked), base(), base(), read_on)


def test_a_release_newer_than_cuenv_is_usable_at_once(channel: Sources, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={channel.mirrors[0].target}")
    told = run("kb", "audit", *mirror, folder=tmp_path)
    assert (told.returncode, "the cuenv tables do not list pytorch 2.99.0 cuda129*" in told.stdout) == (0, True)
    done = run("kb", "learn", *mirror, "--save", "tables", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["sources.json", "torch.json"]
    proven = run(
        *("resolve", *HOST, "--no-dev", "--knowledge", "tables", "--prove", *mirror, "--json"), folder=tmp_path
    )
    assert proven.returncode == 0, proven.stderr
    assert json.loads(proven.stdout)["chosen"]["pytorch"] == "2.99.0"
    assert run("kb", "audit", *mirror, "--knowledge", "tables", "-q", folder=tmp_path).returncode == 0
    again = run("kb", "learn", *mirror, "--save", "tables", folder=tmp_path)
    assert "learned nothing" in again.stderr


def test_settings_count_for_the_subcommands(channel: Sources, tmp_path: Path) -> None:
    mirror = f"conda-forge={channel.mirrors[0].target}"
    for name in ("audit", "learn"):
        offline = run("kb", name, folder=tmp_path, CUENV_OFFLINE="1")
        assert offline.returncode == 3
        assert "offline" in offline.stderr
        assert run("kb", name, folder=tmp_path, CUENV_OFFLINE="1", CUENV_MIRROR=mirror).returncode == 0


def test_a_lying_row_is_exit_code_1(channel: Sources, tmp_path: Path) -> None:
    wrong = new_rows(base(), lying(glibc="2.34"))
    save(tmp_path / "lies", {"torch": dump(wrong, "torch")})
    mirror = ("--mirror", f"conda-forge={channel.mirrors[0].target}")
    done = run("kb", "audit", *mirror, "--knowledge", "lies", "--json", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["schema"], answer["ok"]) == (1, "cuenv/report/1", False)
    assert [item["code"] for item in answer["findings"] if item["severity"] == "error"] == ["CU603"]


def test_the_rows_are_printed_one_to_a_line(channel: Sources, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={channel.mirrors[0].target}")
    lines = run("kb", "learn", *mirror, folder=tmp_path).stdout.splitlines()
    assert [line for line in lines if not line.startswith("{")] == ["sources.json", "torch.json"]
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    assert rows[-1]["version"] == "2.99.0"
    plain = json.loads(run("kb", "learn", *mirror, "--json", folder=tmp_path).stdout)
    assert (plain["schema"], plain["tables"]["torch"]["rows"]) == ("cuenv/learned/1", rows[-1:])


def test_topics_and_help_stay(tmp_path: Path) -> None:
    assert "capability 7.5" in run("kb", "gpu", "T4", folder=tmp_path).stdout
    for name in ("audit", "learn"):
        done = run("kb", name, "--help", folder=tmp_path)
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: cuenv kb {name}")
    assert run("kb", "audit", "--bogus", folder=tmp_path).returncode == 2
    assert run("kb", "learn", "--read-on", "tomorrow", folder=tmp_path).returncode == 2  # no channel is asked


@pytest.mark.records
@pytest.mark.parametrize(
    ("channel_name", "platform"), [("conda-forge", PLATFORM), ("conda-forge", "linux-aarch64"), ("pytorch", PLATFORM)]
)
def test_no_row_that_ships_lies(records: Path, channel_name: str, platform: str) -> None:
    sources = Sources(mirrors=(Mirror(origin="https://conda.anaconda.org", target=str(records)),))
    found = audit(Question(channel=channel_name, platform=platform, sources=sources), base())
    assert [item.message for item in found.findings if item.code != "CU602"] == []


@pytest.mark.records
def test_a_row_that_was_forgotten_is_learned_again(records: Path) -> None:
    sources = Sources(mirrors=(Mirror(origin="https://conda.anaconda.org", target=str(records)),))
    mine = row("2.12.0")
    forgetful = replace(base(), torch=tuple(item for item in base().torch if item is not mine))
    fresh = learn_rows(question(sources), forgetful, forgetful).fresh.torch
    assert [(str(item.version), str(item.cudnn), str(item.nccl), item.glibc) for item in fresh] == [
        ("2.12.0", str(mine.cudnn), str(mine.nccl), mine.glibc)
    ]
    assert fresh[0].code == mine.code


def test_a_seen_build_names_itself() -> None:
    (seen,), _ = seen_builds([record()], "conda-forge", PLATFORM)
    assert isinstance(seen, ChannelBuild)
    assert str(seen) == "pytorch 2.12.0 cuda129* of conda-forge for linux-64"
