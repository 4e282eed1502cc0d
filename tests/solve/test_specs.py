"""Requirements as people write them, against two readers that are not ours: rattler's and conda's."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rattler import MatchSpec, PackageRecord
from rattler.package import BuildString

from cases import collect
from cuenv.solve.environment_spec import Pin
from cuenv.solve.match_spec import EXTRAS, parse_spec, split_name
from thorough import examples

NAME = "pytorch"
VERSIONS = (
    "1.2",
    "1.2.0",
    "1.20",
    "1.2.3",
    "1.2.3.4",
    "1.3",
    "2",
    "2.0a0",
    "2.3.1",
    "2.7.1",
    "3.10",
    "3.1",
    "9.10",
    "1!1.2",
    "v1.2",
)
BUILDS = ("0", "h123_0", "cuda129_py312_0", "cuda126_py312_1", "cpu_0", "py3.10_cuda11.8_0", "a+b")

# text as written -> channel, version, build of the pin
ACCEPTED = {
    "pytorch": ("", "", ""),
    "  pytorch ": ("", "", ""),
    "PyTorch": ("", "", ""),
    "pytorch=1.2": ("", "1.2", ""),
    "pytorch =1.2": ("", "1.2", ""),
    "pytorch = 1.2": ("", "1.2", ""),
    "pytorch==1.2": ("", "==1.2", ""),
    "pytorch == 1.2": ("", "==1.2", ""),
    "pytorch 1.2": ("", "==1.2", ""),
    "pytorch 1.2.*": ("", "1.2.*", ""),
    "pytorch=1.2.*": ("", "1.2.*", ""),
    "pytorch=1.2*": ("", "1.2.*", ""),
    "pytorch==1.2.*": ("", "1.2.*", ""),
    "pytorch>=1.2,<2": ("", ">=1.2,<2", ""),
    "pytorch >=1.2,<2": ("", ">=1.2,<2", ""),
    "pytorch >= 1.2, < 2": ("", ">=1.2,<2", ""),
    "pytorch >=1.2 , <2": ("", ">=1.2,<2", ""),
    "pytorch>=1.2.*": ("", ">=1.2", ""),
    "pytorch<1.3.*": ("", "<1.3", ""),
    "pytorch!=1.2": ("", "!=1.2", ""),
    "pytorch !=1.2.*": ("", "!=1.2.*", ""),
    "pytorch~=1.2.0": ("", "~=1.2.0", ""),
    "pytorch 1.2|1.3": ("", "==1.2|==1.3", ""),
    "pytorch=1.2|1.3": ("", "1.2.*|==1.3", ""),
    "pytorch 1.2.*|>=2": ("", "1.2.*|>=2", ""),
    "pytorch=1.2,!=1.2.3": ("", "1.2.*,!=1.2.3", ""),
    "pytorch *,>=1.2,<2": ("", ">=1.2,<2", ""),
    "pytorch=2.7.1=cuda129*": ("", "2.7.1", "cuda129*"),
    "pytorch==2.7.1=cuda129*": ("", "2.7.1", "cuda129*"),
    "pytorch =2.7.1 cuda129*": ("", "2.7.1", "cuda129*"),
    "pytorch 2.7.1 cuda129*": ("", "2.7.1", "cuda129*"),
    "pytorch 2.7.* cuda129*": ("", "2.7.*", "cuda129*"),
    "pytorch=2.7.*=cuda129*": ("", "2.7.*", "cuda129*"),
    "pytorch=2.3.1=py3.10_cuda11.8*": ("", "2.3.1", "py3.10_cuda11.8*"),
    "pytorch=*=cuda129*": ("", "", "cuda129*"),
    "pytorch * cuda*_0": ("", "", "cuda*_0"),
    "pytorch=*": ("", "", ""),
    "pytorch 1.2 *": ("", "==1.2", ""),
    "pytorch=1.2=*": ("", "==1.2", ""),
    "pytorch>=1.2,<3 cuda*": ("", ">=1.2,<3", "cuda*"),
    "pytorch>=1.2,<3=cuda*": ("", ">=1.2,<3", "cuda*"),
    "pytorch[version='2.7.*',build='cuda129*']": ("", "2.7.*", "cuda129*"),
    'pytorch[version=">=1.2,<2"]': ("", ">=1.2,<2", ""),
    "pytorch[version='>=1.2, <2']": ("", ">=1.2,<2", ""),
    "pytorch[version=1.2]": ("", "==1.2", ""),
    "pytorch[version='=1.2']": ("", "1.2", ""),
    "pytorch[build=cuda129*, version=2.7.*]": ("", "2.7.*", "cuda129*"),
    "pytorch=1.2[build='h*']": ("", "1.2.*", "h*"),
    "pytorch 1.2[build='h*']": ("", "1.2", "h*"),
    "pytorch[]": ("", "", ""),
    "pytorch=1!1.2": ("", "1!1.2", ""),
    "pytorch=1.2 # as agreed": ("", "1.2", ""),
    "conda-forge::pytorch=1.2": ("conda-forge", "1.2", ""),
    "nvidia/label/cuda-11.8.0::pytorch=1.2": ("nvidia/label/cuda-11.8.0", "1.2", ""),
    "https://conda.anaconda.org/conda-forge::pytorch": ("conda-forge", "", ""),
    "https://conda.example.org/team/::pytorch": ("https://conda.example.org/team", "", ""),
    "pytorch[channel=conda-forge]": ("conda-forge", "", ""),
    "ch::pytorch[version='2.7.*',build='cuda129*']": ("ch", "2.7.*", "cuda129*"),
    "*::pytorch": ("", "", ""),
}

REFUSED = {
    "": "empty",
    "   ": "empty",
    "# only a comment": "empty",
    "=1.2": "expected a package name",
    "==1.2": "expected a package name",
    "*": "expected a package name",
    "^py.*$": "expected a package name",
    ".hidden": "expected a package name",
    "py*": "a pattern cannot be locked",
    "python(optional)": "unexpected '('",
    "python,3": "unexpected ','",
    "python\n": "control character",
    "python\x1b[31m": "control character",
    "python\x00=3": "control character",
    "a" * 2000: "2000 characters",
    "python[": "brackets do not match",
    "python]": "brackets do not match",
    "python[[version=3]]": "brackets do not match",
    "python[version=3][build=h]": "appear twice",
    "python[version]": "key='value'",
    "python[version='3]": "key='value'",
    "python[version='']": "the version in brackets is empty",
    "python[version=3,version=4]": "the version in brackets appears twice",
    "python=3[version=4]": "the version appears twice",
    "a::python[channel=b]": "the channel appears twice",
    "python=3=h[build=b]": "the build appears twice",
    "python[md5=0123]": "not 'md5'",
    "python[build_number=0]": "not 'build_number'",
    "python[subdir=linux-64]": "not 'subdir'",
    "conda-forge/osx-64::python": "write conda-forge::name",
    "conda-forge/win-64::python": "write conda-forge::name",
    "conda-forge:python": "two colons",
    "conda-forge::ns:python": "unexpected ':'",
    "::python": "not a channel",
    "https://::python": "not a channel",
    "a b::python": "not a channel",
    "https://conda.anaconda.org/conda-forge/linux-64/x-1-0.conda": "direct URLs",
    "https://conda.anaconda.org/conda-forge/linux-64/x-1-0.tar.bz2#" + "0" * 32: "direct URLs",
    "./x-1-0.conda": "direct URLs",
    "/opt/x-1-0.tar.bz2": "direct URLs",
    "file:///opt/x-1-0.conda": "direct URLs",
    "requests @ https://example.org/r.whl": "under '- pip:'",
    "git+https://example.org/r.git": "under '- pip:'",
    "-e .": "under '- pip:'",
    "numpy>=1;python_version<'3'": "under '- pip:'",
    "python ===3": "'===3'",
    "python >=": "no version",
    "python >=1,": "is empty",
    "python |1": "is empty",
    "python 1..2": "no version",
    "python 1.": "no version",
    "python 1/2": "no version",
    "python 1-2_3": "no version",
    "python " + "9" * 30: "no version",
    "python >3.10.*": "read differently",
    "python ~=3.10.*": "read differently",
    "python==3.10.*=h*": "read differently",
    "python 3.10.**": "cannot read",
    "python *|=>3": "cannot read",
    "python 3 h**": "not a build string",
    "python[build=' h']": "not a build string",
    "python 3.*.1": "cannot read",
    "python (>=3,<4)|5": "cannot read",
    "python >=1 <2": "joined by commas",
    "python 1 2 3": "joined by commas",
    "python 3 ^h.*$": "not a build string",
    "python=3=h*|c*": "cannot read",
}


@cache
def record(name: str, version: str, build: str) -> PackageRecord:
    return PackageRecord(name, version, BuildString(build), 0, "linux-64")


def answers(spec: MatchSpec) -> list[bool]:
    return [spec.matches(record(NAME, version, build)) for version in VERSIONS for build in BUILDS]


def without_channel(pin: Pin) -> Pin:
    return Pin(name=pin.name, version=pin.version, build=pin.build)


@collect(("text", "expected"), ACCEPTED.items())
def test_a_spelling_has_one_meaning(text: str, expected: tuple[str, str, str]) -> None:
    channel, version, build = expected
    pin = parse_spec(text)
    assert pin == Pin(name=NAME, version=version, build=build, channel=channel)
    assert parse_spec(pin.yaml_text()) == pin


@collect("text", ACCEPTED)
def test_rattler_reads_the_same(text: str) -> None:
    pin = parse_spec(text)
    lenient = MatchSpec(text)
    assert lenient.name.normalized == NAME
    if pin.channel and "://" not in pin.channel:
        assert lenient.channel is not None
        assert lenient.channel.name == pin.channel == MatchSpec(pin.match_spec(), strict=True).channel.name  # type: ignore[union-attr]
    bare = MatchSpec(text.rpartition("::")[2].replace("channel=conda-forge", ""))
    wanted = answers(bare)
    plain = without_channel(pin)
    assert answers(MatchSpec(plain.match_spec(), strict=True)) == wanted
    assert answers(MatchSpec(plain.yaml_text())) == wanted
    assert any(wanted)


@collect(("text", "part"), REFUSED.items())
def test_other_forms_are_refused_with_the_reason(text: str, part: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_spec(text)
    message = str(caught.value)
    assert part in message
    assert message.isprintable()
    assert len(message) < 400


def test_the_name_of_a_requirement_is_split_off() -> None:
    assert split_name("pytorch 2.5.1   cuda*") == ("pytorch", "2.5.1 cuda*")
    assert split_name(" imath<3.2.0a0") == ("imath", "<3.2.0a0")
    assert split_name("Python") == ("python", "")
    assert split_name("__glibc >=2.17,<3.0.a0") == ("__glibc", ">=2.17,<3.0.a0")


def test_a_range_and_a_build_stand_in_brackets() -> None:
    pin = Pin(name="libcudnn", version=">=9,<9.11", build="cuda*", channel="conda-forge")
    assert pin.yaml_text() == "conda-forge::libcudnn[version='>=9,<9.11',build='cuda*']"
    assert Pin(name="pytorch", version="==2.7.1", build="cuda*").yaml_text() == "pytorch=2.7.1=cuda*"
    assert Pin(name="python", version="3.10.*|3.12.*").yaml_text() == "python 3.10.*|3.12.*"


# Laws

releases = st.from_regex(
    r"([0-9]{1,2}!)?[0-9]{1,3}([.][0-9]{1,3}){0,3}((a|rc|\.dev|\.post)[0-9])?(\+[a-z][0-9])?", fullmatch=True
)
conditions = st.one_of(
    releases.map("{}.*".format),
    releases.map("=={}".format),
    st.tuples(st.sampled_from([">=", "<=", ">", "<", "!="]), releases).map("".join),
    releases.map("!={}.*".format),
)
several = st.lists(conditions, min_size=2, max_size=3, unique=True)
builds = st.from_regex(r"[a-z0-9*][a-z0-9_.+*]{0,11}", fullmatch=True).filter(
    lambda text: "**" not in text and text != "*"
)


@st.composite
def pins(draw: st.DrawFn) -> Pin:
    build = draw(st.just("") | builds)
    single = conditions.filter(lambda text: not (build and text.startswith("=="))) | releases
    version = draw(st.just("") | single | several.map(",".join) | several.map("|".join))
    channel = draw(st.sampled_from(["", "conda-forge", "nvidia/label/cuda-12.4.1", "https://conda.example.org/x"]))
    name = draw(st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,9}", fullmatch=True).filter(lambda text: ".conda" not in text))
    return Pin(name=name, version=version, build=build, channel=channel)


@given(pins())
def test_what_is_written_is_read_again(pin: Pin) -> None:
    assert parse_spec(pin.yaml_text()) == pin


@given(pins())
def test_the_solver_takes_what_the_file_says(pin: Pin) -> None:
    plain = Pin(name=NAME, version=pin.version, build=pin.build)
    assert answers(MatchSpec(plain.match_spec(), strict=True)) == answers(MatchSpec(plain.yaml_text()))
    MatchSpec(pin.match_spec(), strict=True)


FRAGMENTS = ["1.2", "1.2.*", "1.20", "3", "2.0a0", "*", "=", "==", ">=", "<", "!=", "~=", ",", "|", " ", "  "]
FRAGMENTS += [
    "cuda*",
    "h123_0",
    "0",
    ".",
    "!",
    "_",
    "-",
    "+b",
    "[version='",
    "[build='",
    "']",
    "',version='",
    "#",
    "[]",
]
letters = st.text(alphabet="ab12.*=<>!~,|[]' :/_-+#", max_size=12)


@examples(100)
@given((st.lists(st.sampled_from(FRAGMENTS), max_size=7).map("".join) | letters).map(NAME.__add__))
def test_what_is_accepted_means_the_same_to_rattler(text: str) -> None:
    try:
        pin = parse_spec(text)
    except ValueError:
        return
    assume(len(text) > len(NAME) and not EXTRAS.search(text.rstrip()))  # conda takes pip's extras, rattler does not
    strict = MatchSpec(pin.match_spec(), strict=True)
    assert parse_spec(pin.yaml_text()) == pin
    if not pin.channel and "::" not in text and pin.name == NAME:
        assert answers(strict) == answers(MatchSpec(text)) == answers(MatchSpec(pin.yaml_text()))


@given(st.text())
def test_any_text_is_a_pin_or_a_clean_refusal(text: str) -> None:
    message = ""
    try:
        parse_spec(text)
    except ValueError as error:
        message = str(error)
    assert message.isprintable()


# The second reader: conda's own, which conda-lock carries

Reader = Callable[[str], list[bool]]


@pytest.fixture(scope="module")
def conda() -> Reader:
    with warnings.catch_warnings():
        # conda-lock's copy of conda announces the end of its own helpers while it is imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        models = import_module("conda_lock._vendor.conda.models.match_spec")
        base = import_module("conda_lock._vendor.conda.models.records")
    keys = [(version, build) for version in VERSIONS for build in BUILDS]
    records = [base.PackageRecord(name=NAME, version=version, build=build, build_number=0) for version, build in keys]
    return lambda text: [models.MatchSpec(text).match(item) for item in records]


@pytest.mark.slow
@collect("text", [text for text in ACCEPTED if "::" not in text and text.strip() == text])
def test_conda_reads_what_is_written_as_rattler_does(text: str, conda: Reader) -> None:
    plain = without_channel(parse_spec(text))
    assert conda(plain.yaml_text()) == answers(MatchSpec(plain.match_spec(), strict=True))


# Everything that real packages ask for


@pytest.mark.slow
@pytest.mark.records
def test_requirements_of_real_records(records: Path) -> None:
    texts: set[str] = set()
    have: dict[str, set[tuple[str, str]]] = {}
    for path in [*records.glob("**/linux-64/repodata.json"), *records.glob("**/noarch/repodata.json")]:
        data = json.loads(path.read_text())
        for item in [*data["packages"].values(), *data["packages.conda"].values()]:
            have.setdefault(item["name"], set()).add((item["version"], item["build"]))
            texts.update([*item["depends"], *item.get("constrains", [])])
    assert len(texts) > 10_000
    refused = []
    compared = 0
    for text in sorted(texts):
        try:
            pin = parse_spec(text)
        except ValueError:
            refused.append(text)
            continue
        assert parse_spec(pin.yaml_text()) == pin
        specs = MatchSpec(text), MatchSpec(pin.match_spec(), strict=True), MatchSpec(pin.yaml_text())
        for version, build in sorted(have.get(pin.name, ()))[:24]:
            item = record(pin.name, version, build)
            assert len({spec.matches(item) for spec in specs}) == 1, (text, version, build)
            compared += 1
    # One published record has a blank inside a version.
    assert refused == ["x264 >=1 !164.3095,<1!165"]
    assert compared > 100_000


@collect("folder", ["linux-64", "linux-aarch64", "noarch"])
def test_the_folder_that_conda_prints_behind_a_channel_is_taken(folder: str) -> None:
    assert parse_spec(f"conda-forge/{folder}::python==3.11.4=h1_0").yaml_text() == "conda-forge::python=3.11.4=h1_0"
