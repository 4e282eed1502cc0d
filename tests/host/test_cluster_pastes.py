"""What clusters tell of their nodes: Slurm, Kubernetes, dcgm-exporter, Ansible; and what each of them cannot tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import collect
from cuenv.core.errors import InputError
from cuenv.host.facts import HostFacts
from cuenv.host.paste.all_hosts import PastedHosts, read_pasted_hosts
from cuenv.host.paste.slurm import expand_nodes
from given import shipped_base


def told(text: str) -> PastedHosts:
    return read_pasted_hosts(text, shipped_base(), "the paste")


def by_name(text: str) -> dict[str, HostFacts]:
    return {host.name: host for host in told(text).hosts}


def kinds(host: HostFacts) -> list[tuple[str, str]]:
    return [(gpu.name, str(gpu.capability)) for gpu in host.gpus]


def lacks(host: HostFacts) -> set[str]:
    return {gap.fact for gap in host.gaps}


SCONTROL = """\
NodeName=n01 Arch=x86_64 CPUTot=64 AvailableFeatures=a100 Gres=gpu:nvidia_a100_80gb_pcie:2(S:0-1) NodeAddr=n01 \
OS=Linux 5.15.0-91-generic #101-Ubuntu SMP State=IDLE+DRAIN Reason=swap Gres=gpu:v100:8 [root@2026-01-01]
NodeName=n02 Arch=aarch64 Gres=gpu:gh200:1(S:0),nic:2 OS=Linux 6.8.0-1 State=MIXED
NodeName=n03 Arch=x86_64 Gres=gpu:4,shard:16 State=IDLE
NodeName=n04 Arch=x86_64 Gres=(null) State=IDLE
NodeName=n05 Arch=x86_64 Gres=gpu:nvidia_h100_80gb_hbm3_3g.40gb:2 State=IDLE
"""
SPREAD = """\
NodeName=n01 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUTot=64 CPULoad=0.10
   AvailableFeatures=a100
   Gres=gpu:a100:2
   NodeAddr=n01 NodeHostName=n01 Version=23.11.4
   OS=Linux 5.14.0-427.el9.x86_64 #1 SMP
   State=IDLE ThreadsPerCore=2
   Reason=Gres=gpu:v100:8

NodeName=n02 Arch=x86_64 CoresPerSocket=16
   Gres=(null)
"""


def test_scontrol_tells_gpus_by_type_and_neither_driver_nor_c_library() -> None:
    hosts = by_name(SCONTROL)
    assert kinds(hosts["n01"]) == [("nvidia a100 80gb pcie", "8.0")] * 2
    assert hosts["n01"].kernel == "5.15.0-91-generic"
    assert [item.text for item in hosts["n01"].evidence if item.fact == "state"] == ["n01: State=IDLE+DRAIN"]
    assert (hosts["n02"].platform, kinds(hosts["n02"])) == ("linux-aarch64", [("gh200", "9.0")])
    assert kinds(hosts["n03"]) == [("", "None")] * 4
    assert "gpus" in lacks(hosts["n03"])
    assert (hosts["n04"].gpus, "gpus" in lacks(hosts["n04"])) == ((), False)
    assert kinds(hosts["n05"]) == [("nvidia h100 80gb hbm3 MIG 3g.40gb", "9.0")] * 2
    assert all({"driver", "libc"} <= lacks(host) for host in hosts.values())


def test_scontrol_over_many_lines_is_the_same() -> None:
    hosts = by_name(SPREAD)
    assert (kinds(hosts["n01"]), hosts["n01"].kernel) == ([("a100", "8.0")] * 2, "5.14.0-427.el9.x86_64")
    assert hosts["n01"].evidence_for("gpus[0].name") is not None
    assert [item.source for item in hosts["n01"].evidence if item.fact == "gpus[0].name"] == ["the paste, line 4"]
    assert hosts["n02"].gpus == ()


def test_sinfo_with_and_without_its_head() -> None:
    rows = "gpu[01-02,07]|gpu:a100:4(S:0-1)|a100,x|idle\nv1|gpu:v100:1,gpu:rtx_5090:1|m|idle\nc1|(null)|(null)|idle\n"
    for text in (rows, f"NODELIST|GRES|AVAIL_FEATURES|STATE\n{rows}"):
        hosts = by_name(text)
        assert list(hosts) == ["gpu01", "gpu02", "gpu07", "v1", "c1"]
        assert kinds(hosts["v1"]) == [("v100", "7.0"), ("rtx 5090", "12.0")]


def test_slurm_names_the_driver_among_the_features_of_a_node() -> None:
    rows = "a|gpu:a100:1|a100,driver-535\nb|gpu:a100:1|nvidia_driver_550.54.15|idle\nc|gpu:a100:1|driver,x535\n"
    shown = "NodeName=d Arch=x86_64\n   AvailableFeatures=x,drv-470.57 ActiveFeatures=x\n   Gres=gpu:a100:1\n"
    node = {"name": "e", "gres": "gpu:a100:1", "active_features": ["fast", "driver-535"]}
    for text, drivers in (
        (rows, ["535", "550.54.15", None]),
        (shown, ["470.57"]),
        (json.dumps({"nodes": [node]}, indent=1), ["535"]),
    ):
        assert [host.driver and host.driver.version for host in by_name(text).values()] == drivers


def test_slurm_as_json_of_two_ages() -> None:
    node = {"name": "n1", "architecture": "x86_64", "gres": "gpu:h100:2", "state": ["IDLE", "DRAIN"]}
    sinfo = {"nodes": {"nodes": ["n[2-3]"]}, "gres": {"total": "gpu:a100:1", "used": "gpu:0"}}
    for data, names in (({"nodes": [node]}, ["n1"]), ({"sinfo": [sinfo]}, ["n2", "n3"])):
        hosts = by_name(json.dumps({**data, "meta": {}, "errors": []}, indent=1))
        assert list(hosts) == names
        assert all(host.capabilities for host in hosts.values())


@collect(
    ("nodes", "names"),
    [
        ("a", ("a",)),
        ("a[1-3]", ("a1", "a2", "a3")),
        ("r[1-2]n[01,03]-x,b", ("r1n01-x", "r1n03-x", "r2n01-x", "r2n03-x", "b")),
        ("a[1-99999999]", ("a1-99999999",)),
        ("a[", ("a[",)),
        ("", ()),
    ],
)
def test_lists_of_nodes(nodes: str, names: tuple[str, ...]) -> None:
    assert expand_nodes(nodes) == names


def node(name: str, labels: dict[str, str], capacity: dict[str, str] | None = None) -> dict[str, Any]:
    own = {f"nvidia.com/{key}": value for key, value in labels.items()}
    info = {"architecture": "amd64", "kernelVersion": "5.15.0", "osImage": "Ubuntu 22.04.4 LTS"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "status": {"nodeInfo": info, "capacity": capacity or {}},
    }


A100 = {"gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.count": "2", "gpu.compute.major": "8", "gpu.compute.minor": "0"}
DRIVER = {"cuda.driver.major": "580", "cuda.driver.minor": "142", "cuda.driver.rev": "", "gpu.family": "undefined"}


def test_labels_of_kubernetes() -> None:
    nodes = [
        node("whole", {**A100, **DRIVER}, {"nvidia.com/gpu": "2"}),
        node("mixed", {**A100, "cuda.driver-version.full": "550.90.07"}, {"nvidia.com/gpu": "4"}),
        node(
            "shared",
            {**A100, "gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED", "gpu.count": "1", "gpu.replicas": "4"},
            {"nvidia.com/gpu": "4"},
        ),
        node("sliced", {**A100, "gpu.product": "A100-SXM4-40GB-MIG-1g.5gb"}, {"nvidia.com/gpu": "2"}),
        node("bare", {}, {"nvidia.com/gpu": "1"}),
        node("login", {}),
    ]
    hosts = by_name(json.dumps({"kind": "List", "items": nodes}))
    driver = hosts["whole"].driver
    assert (driver and driver.version, kinds(hosts["whole"])) == ("580.142", [("NVIDIA-A100-SXM4-40GB", "8.0")] * 2)
    assert "gpus" not in lacks(hosts["whole"])
    assert kinds(hosts["mixed"])[2:] == [("", "None")]
    assert any("name only one of its models" in gap.reason for gap in hosts["mixed"].gaps)
    assert "gpus" not in lacks(hosts["shared"])
    assert [name for name, _ in kinds(hosts["sliced"])] == ["A100-SXM4-40GB"] * 2
    assert ("gpus" in lacks(hosts["bare"]), kinds(hosts["bare"])) == (True, [("", "None")])
    assert (hosts["login"].gpus, "gpus" in lacks(hosts["login"])) == ((), False)
    said = [gap.reason for gap in hosts["whole"].gaps if gap.fact == "libc"]
    assert said == ["a container has the C library of its image (the node's own system is Ubuntu 22.04.4 LTS)"]
    assert hosts["whole"].libc is None


def test_labels_as_text() -> None:
    described = (
        "Name:               n1\nLabels:             kubernetes.io/arch=arm64\n"
        "                    nvidia.com/gpu.count=1\n                    nvidia.com/gpu.product=NVIDIA-GH200-480GB\n"
        "                    nvidia.com/cuda.driver-version.full=570.86.10\n"
        "Name:               n2\nLabels:             nvidia.com/gpu.product=Tesla-T4\n"
    )
    hosts = by_name(described)
    assert (hosts["n1"].platform, kinds(hosts["n1"])) == ("linux-aarch64", [("NVIDIA-GH200-480GB", "9.0")])
    assert kinds(hosts["n2"]) == [("Tesla-T4", "7.5")]
    shown = "n3   Ready   <none>   9d   v1.29   nvidia.com/gpu.count=2,nvidia.com/gpu.product=NVIDIA-L4,x=y\n"
    assert kinds(by_name(shown)["n3"]) == [("NVIDIA-L4", "8.9")] * 2


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_metrics_of_dcgm_exporter(label: str) -> None:
    lines = [
        f'DCGM_FI_DEV_{metric}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA L40S",{label}="n1",'
        f'DCGM_FI_DRIVER_VERSION="550.54.15",pod="{pod}"}} 1'
        for metric in ("SM_CLOCK", "GPU_TEMP")
        for gpu in (0, 1)
        for pod in ("a", "b")
    ]
    host = by_name("# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n" + "\n".join(lines))["n1"]
    assert kinds(host) == [("NVIDIA L40S", "8.9")] * 2
    assert host.driver is not None
    assert host.driver.version == "550.54.15"
    assert {"libc", "platform"} <= lacks(host)


def test_series_of_prometheus() -> None:
    labels = {
        "__name__": "DCGM_FI_DEV_SM_CLOCK",
        "gpu": "0",
        "modelName": "Tesla T4",
        "hostname": "dcgm-exporter-x7k2p",
    }
    series = {**labels, "node": "n1", "DCGM_FI_DRIVER_VERSION": "535.161.08"}
    for data in ([series], {"resultType": "vector", "result": [{"metric": series, "value": [1, "2"]}]}):
        assert kinds(by_name(json.dumps({"status": "success", "data": data}))["n1"]) == [("Tesla T4", "7.5")]


OWN = {"schema": "cuenv/host/1", "platform": "linux-64", "gpus": [{"index": 0, "name": "L4"}]}


@collect("payload", ["", "{", "[" * 100_000, '{"a": 1}', "null", '{"__payload__": "x"}'])
def test_a_payload_of_ansible_that_tells_nothing_is_refused(payload: str) -> None:
    with pytest.raises(InputError):
        told(json.dumps({"__payload__": payload}))


def test_a_file_of_the_cache_of_ansible_is_called_by_its_host() -> None:
    text = json.dumps({"__payload__": json.dumps({"ansible_local": {"cuenv": OWN}})})
    (host,) = read_pasted_hosts(text, shipped_base(), "facts/s1_n7", "s1_n7").hosts
    assert host.label == "n7"


def test_facts_of_ansible() -> None:
    facts = {"ansible_architecture": "x86_64", "ansible_kernel": "5.15.0", "ansible_hostname": "n1"}
    for text in (
        json.dumps({"ansible_facts": {**facts, "ansible_local": {"cuenv": OWN}}, "changed": False}),
        json.dumps({**facts, "ansible_local": {"cuenv": OWN}}),
        json.dumps({"_meta": {"hostvars": {"n1": {"ansible_facts": {"local": {"cuenv": OWN}}}}}}),
        json.dumps({"__payload__": json.dumps({**facts, "ansible_local": {"cuenv": OWN}})}),
        "n1 | SUCCESS => " + json.dumps({"ansible_facts": {"ansible_local": {"cuenv": OWN}}}, indent=4),
        f"n1 | CHANGED | rc=0 >>\n{json.dumps(OWN)}\n",
    ):
        (host,) = told(text).hosts
        assert (host.name, [gpu.name for gpu in host.gpus]) == ("n1", ["L4"])
    (bare,) = told(json.dumps({"ansible_facts": facts})).hosts
    assert (bare.name, bare.kernel, bare.gpus) == ("n1", "5.15.0", ())
    assert {"driver", "gpus", "libc"} <= lacks(bare)


def test_what_two_lines_tell_of_one_node_is_refused_and_the_other_nodes_count() -> None:
    row = 'DCGM_FI_DEV_SM_CLOCK{{gpu="{}",modelName="Tesla T4",Hostname="{}",DCGM_FI_DRIVER_VERSION="{}"}} 1\n'
    found = told(
        row.format(0, "n1", "535.161.08") + row.format(1, "n1", "550.54.15") + row.format(0, "n2", "550.54.15")
    )
    assert [host.name for host in found.hosts] == ["n2"]
    (fault,) = found.broken
    assert fault.says.startswith(
        "n1: it contradicts itself about one host: two values of the driver: line 1 says 535.161.08"
    )
    assert "line 2 says 550.54.15" in fault.says


def test_a_contradiction_of_one_host_is_an_error_with_both_lines() -> None:
    with pytest.raises(InputError, match=r"line 1 says 535.161.08 and line 2 says 550.54.15"):
        told("Driver Version: 535.161.08\nDriver Version: 550.54.15\n")


def test_a_model_and_a_capability_that_cannot_be_one_gpu_are_refused() -> None:
    found = told(json.dumps(node("n1", {**A100, "gpu.compute.major": "9"})) + json.dumps(node("n2", A100)))
    assert [host.name for host in found.hosts] == ["n2"]
    assert "whose compute capability is 8.0, but the text says 9.0" in found.broken[0].says


def test_metrics_without_models_count_gpus_that_nobody_names() -> None:
    (host,) = told('DCGM_FI_DEV_FB_FREE{gpu="0",UUID="a"} 1\nDCGM_FI_DEV_FB_FREE{gpu="1",UUID="b"} 1\n').hosts
    assert kinds(host) == [("", "None")] * 2
    assert "gpus" in lacks(host)
