"""`cuenv fleet gather --ssh`: a real ssh client, real ClusterShell, and nodes that behave as nodes do."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import cuenv
import ssh_nodes
from cases import quick
from commands import inside
from cuenv.core.errors import ExitCode
from cuenv.fleet.io import cluster
from cuenv.host.facts import HostFacts
from cuenv.host.host_json import dump
from ssh_nodes import SshNodes

pytestmark = [pytest.mark.io, pytest.mark.skipif(ssh_nodes.missing(), reason="no ssh client")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNodes]:
    with ssh_nodes.reachable(tmp_path_factory.mktemp("ssh")) as found:
        yield found


@pytest.fixture
def nodes(server: SshNodes) -> SshNodes:
    """Nodes on which nothing is installed yet."""
    shutil.rmtree(server.folder / "nodes", ignore_errors=True)
    return server


def record(gpu: str = "A100", driver: str = "535.129.03") -> str:
    return dump(cuenv.make_host(gpu, driver=driver, glibc="2.31"), compact=True).strip()


def with_cuenv(nodes: SshNodes, *names: str, gpu: str = "A100", driver: str = "535.129.03") -> None:
    for name in names:
        nodes.has(name, "cuenv", f"cat <<'EOF'\n{record(gpu, driver)}\nEOF")


def gathered(folder: Path, name: str = "fleet.ndjson") -> dict[str, HostFacts]:
    return {host.name: host for host in cuenv.read_hosts(str(folder / name))}


def words(nodes: SshNodes, names: str, *more: str) -> tuple[str, ...]:
    return ("fleet", "gather", "--ssh", names, "--ssh-options", nodes.options, "-o", "fleet.ndjson", *more)


def test_every_node_of_a_set_is_asked_and_has_its_name(tmp_path: Path, nodes: SshNodes) -> None:
    with_cuenv(nodes, "gpu08", "gpu09", "gpu10")
    done = inside(*words(nodes, "gpu[08-10]"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.OK, ""), done.stderr
    assert done.stderr == "wrote   fleet.ndjson: 3 hosts\n"
    lines = (tmp_path / "fleet.ndjson").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["gpu08", "gpu09", "gpu10"]
    assert [json.loads(line)["driver"]["version"] for line in lines] == ["535.129.03"] * 3


def test_a_node_runs_the_real_cuenv(tmp_path: Path, nodes: SshNodes) -> None:
    nodes.has("gpu1", "opt/cuenv", f'exec {sys.executable} -m cuenv "$@"')
    program = str(nodes.folder / "nodes/gpu1/opt/cuenv")
    done = inside(*words(nodes, "gpu1", "--program", program), folder=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    (host,) = gathered(tmp_path).values()
    here = cuenv.inspect_host()
    assert (host.name, host.libc, host.platform) == ("gpu1", here.libc, here.platform)
    assert any(item.source != "gpu1" for item in host.evidence)


SMI = """\
case "$1" in
--query-gpu=*) echo 'index, name, driver_version, compute_cap, memory.total [MiB]'
  echo '0, NVIDIA A100-SXM4-40GB, 535.129.03, 8.0, 40960 MiB'
  echo '1, NVIDIA A100-SXM4-40GB, 535.129.03, 8.0, 40960 MiB';;
*) echo '| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |'
esac"""


def test_a_node_without_cuenv_tells_by_nvidia_smi(tmp_path: Path, nodes: SshNodes) -> None:
    nodes.has("gpu1", "nvidia-smi", SMI)
    nodes.has("gpu1", "getconf", "echo glibc 2.31")
    done = inside(*words(nodes, "gpu1"), folder=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    (host,) = gathered(tmp_path).values()
    assert [(gpu.name, str(gpu.capability), gpu.memory_mib) for gpu in host.gpus] == [
        ("NVIDIA A100-SXM4-40GB", "8.0", 40960)
    ] * 2
    assert host.driver
    assert (host.driver.version, str(host.driver.cuda), str(host.libc and host.libc.version)) == (
        "535.129.03",
        "12.2",
        "2.31",
    )


def test_a_cuenv_that_prints_on_many_lines_and_a_login_that_prints_before_it_are_read(
    tmp_path: Path, nodes: SshNodes
) -> None:
    text = dump(cuenv.make_host("V100", driver="470.129.06", glibc="2.28"))
    nodes.has("old1", "cuenv", f'[ "$3" = --compact ] && exit 2\necho "{{ Welcome }}"\ncat <<\'EOF\'\n{text}\nEOF')
    done = inside(*words(nodes, "old1"), folder=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    assert [gpu.name for gpu in gathered(tmp_path)["old1"].gpus] == ["V100"]


def test_what_failed_is_named_by_its_set_with_the_command_that_asks_only_those(tmp_path: Path, nodes: SshNodes) -> None:
    with_cuenv(nodes, "gpu1", "gpu2")
    nodes.has("gpu7", "answer", "echo '<html>no</html>'")
    nodes.has("gpu10", "answer", "exit 0")
    nodes.has("gpu11", "answer", "echo 'Bad thing: /bin/sh: not here' >&2; exit 7")
    done = inside(*words(nodes, "gpu[1-2,7,10-11],closed[1-3]"), folder=tmp_path)
    assert done.returncode == ExitCode.NEGATIVE, done.stderr
    assert sorted(gathered(tmp_path)) == ["gpu1", "gpu2"]
    told = done.stderr.splitlines()
    assert told[0] == "warning: 3 nodes: closed[1-3]: ssh: Connection refused"
    assert "warning: 1 node: gpu10: the answer is empty" in told
    assert "warning: 1 node: gpu11: ssh: not here" in told
    garbage = "warning: 1 node: gpu7: the answer contains no host record; it begins with '<html>no</html>'"
    assert garbage in told
    assert f"hint: cuenv fleet gather --ssh 'closed[1-3]' --ssh-options '{nodes.options}' -o fleet.ndjson" in told


@pytest.mark.slow
def test_a_node_that_never_answers_is_left(tmp_path: Path, nodes: SshNodes) -> None:
    for name in ("gpu4", "gpu5", "gpu6"):
        nodes.has(name, "answer", "sleep 60")
    began = time.monotonic()
    done = inside(*words(nodes, "gpu[4-6]", "--timeout", "1.5"), folder=tmp_path)
    assert time.monotonic() - began < 20
    assert done.returncode == ExitCode.INPUT
    assert "error: no host could be read: gpu[4-6]: no answer in 1.5 s" in done.stderr
    assert "--timeout 1.5" in done.stderr


@pytest.mark.parametrize("script", quick(["head -c 1000000000 /dev/zero", "yes words >&2", "yes 'a line'"], first=2))
def test_a_node_that_writes_without_end_is_stopped(
    tmp_path: Path, nodes: SshNodes, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(cluster, "LIMIT", 50_000)
    nodes.has("gpu8", "answer", script)
    done = inside(*words(nodes, "gpu8"), folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "gpu8: wrote more than 48 KiB" in done.stderr


@pytest.mark.slow
def test_nodes_in_the_file_are_not_asked_again(tmp_path: Path, nodes: SshNodes) -> None:
    with_cuenv(nodes, "gpu1")
    assert inside(*words(nodes, "gpu[1-2]", "--program", "gone"), folder=tmp_path).returncode == ExitCode.OK
    (tmp_path / "fleet.ndjson").unlink()
    assert inside(*words(nodes, "gpu1"), folder=tmp_path).returncode == ExitCode.OK
    with_cuenv(nodes, "gpu1", "gpu2", driver="550.54.15")
    before = len(nodes.asked)
    done = inside(*words(nodes, "gpu[1-2]"), folder=tmp_path)
    assert nodes.asked[-1:] == ["gpu2"]
    assert len(nodes.asked) == before + 1
    assert "1 of the nodes are in fleet.ndjson already" in done.stderr
    drivers = {name: host.driver and host.driver.version for name, host in gathered(tmp_path).items()}
    assert drivers == {"gpu1": "535.129.03", "gpu2": "550.54.15"}
    inside(*words(nodes, "gpu1", "--again"), folder=tmp_path)
    found = gathered(tmp_path)["gpu1"].driver
    assert found
    assert found.version == "550.54.15"


def test_no_node_answers(tmp_path: Path, nodes: SshNodes) -> None:
    done = inside(*words(nodes, "closed[1-2]"), folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "error: no host could be read: closed[1-2]: ssh: Connection refused" in done.stderr
    assert not (tmp_path / "fleet.ndjson").exists()


def test_the_document_says_what_failed(tmp_path: Path, nodes: SshNodes) -> None:
    with_cuenv(nodes, "gpu1")
    done = inside(*words(nodes, "gpu1,closed1", "--json"), folder=tmp_path)
    data = json.loads(done.stdout)
    assert (data["hosts"], data["asked"], data["kept"]) == (1, 2, 0)
    assert [(item["nodes"], item["count"], item["reason"]) for item in data["failed"]] == [
        ("closed1", 1, "ssh: Connection refused")
    ]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("gpu[1-", "is not a set of nodes"),
        ("gpu[1-99999999999]", "more than 50000 nodes"),
        ("-oProxyCommand=x", "is not a node name"),
        ("@nosuchgroup", "no"),
        ("", "means 0 nodes"),
        (",", "is not a set of nodes"),
    ],
)
def test_a_set_that_means_nothing_is_refused(tmp_path: Path, names: str, says: str) -> None:
    done = inside("fleet", "gather", f"--ssh={names}", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert says in done.stderr
