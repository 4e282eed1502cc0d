"""`cuenv fleet gather` from files: records, folders, pastes, Ansible's facts, and a fleet file that is continued."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cuenv
from cases import collect
from commands import inside
from cuenv.core.errors import ExitCode, InputError
from cuenv.core.record import replace
from cuenv.fleet.answers import NodeAnswer, group_by_reason, host_from_answer, name_key, node_command
from cuenv.host.host_json import dump
from cuenv.knowledge.base import Knowledge

pytestmark = pytest.mark.io


def record(name: str = "", gpu: str = "A100", driver: str = "535.129.03") -> str:
    facts = cuenv.make_host(gpu, driver=driver, glibc="2.31")
    return dump(replace(facts, name=name, label="this machine"), compact=True)


def names(text: str) -> list[str]:
    return [json.loads(line)["name"] for line in text.splitlines()]


def test_a_folder_of_records_is_a_fleet_and_a_record_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "hosts"
    folder.mkdir()
    (folder / "gpu10.json").write_text(record())
    (folder / "gpu9.json").write_text(record())
    (folder / "x.json").write_text(record("gpu1"))
    done = inside("fleet", "gather", "--from", "hosts", folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert names(done.stdout) == ["gpu1", "gpu9", "gpu10"]


def test_standard_input_of_many_lines_and_broken_ones_by_their_numbers(tmp_path: Path) -> None:
    text = record("gpu1") + "{broken\n" + record("gpu2") + '{"schema": "cuenv/host/1"}\n'
    done = inside("fleet", "gather", "--from", "-", "-o", "fleet.ndjson", folder=tmp_path, text=text)
    assert done.returncode == ExitCode.NEGATIVE, done.stderr
    assert names((tmp_path / "fleet.ndjson").read_text()) == ["gpu1", "gpu2"]
    assert "warning: standard input, line 2: " in done.stderr
    assert "warning: standard input, line 4: " in done.stderr
    assert "wrote   fleet.ndjson: 2 hosts" in done.stderr


def test_two_hosts_of_one_name_are_named_and_the_first_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(record("gpu1"))
    (tmp_path / "b.json").write_text(record("gpu1", "V100", "470.129.06"))
    (tmp_path / "c.json").write_text(record("gpu1"))
    words = [word for name in "abc" for word in ("--from", f"{name}.json")]
    done = inside("fleet", "gather", *words, folder=tmp_path)
    assert done.returncode == ExitCode.NEGATIVE
    assert names(done.stdout) == ["gpu1"]
    assert json.loads(done.stdout)["driver"]["version"] == "535.129.03"
    assert "warning: gpu1: b.json describes another host with this name; the one from a.json is kept" in done.stderr


def test_a_fleet_file_is_continued_and_another_file_is_not_replaced(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.ndjson"
    fleet.write_text("")
    (tmp_path / "new.json").write_text(record("gpu2"))
    inside("fleet", "gather", "--from", "new.json", "-o", "fleet.ndjson", folder=tmp_path)
    (tmp_path / "new.json").write_text(record("gpu1"))
    done = inside("fleet", "gather", "--from", "new.json", "-o", "fleet.ndjson", folder=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    assert names(fleet.read_text()) == ["gpu1", "gpu2"]
    mine = tmp_path / "thesis.txt"
    mine.write_text("Chapter 1\n")
    done = inside("fleet", "gather", "--from", "new.json", "-o", "thesis.txt", folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "-o thesis.txt: it is not a fleet file, so it is not replaced" in done.stderr
    assert mine.read_text() == "Chapter 1\n"


def test_ansible_facts_in_both_shapes_by_the_names_of_the_inventory(tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    told = json.loads(record("another-name"))
    (facts / "gpu1.example.org").write_text(json.dumps({"ansible_local": {"cuenv": told}, "ansible_kernel": "5.15"}))
    (facts / "gpu2").write_text(json.dumps({"ansible_facts": {"ansible_local": {"cuenv": told}}, "changed": False}))
    payload = json.dumps({"ansible_local": {"cuenv": told}})
    (facts / "s1_gpu3").write_text(json.dumps({"__payload__": payload}))
    (facts / "gpu4").write_text(json.dumps({"local": {"cuenv": told}}))  # without the prefix, as `inspect` reads it too
    (facts / "plain").write_text(json.dumps({"ansible_local": {}}))
    (facts / "failed").write_text(json.dumps({"ansible_local": {"cuenv": "error loading facts as JSON or ini"}}))
    (facts / "odd").write_text("[1")
    (facts / "list").write_text('[{"ansible_local": 3}]')
    done = inside("fleet", "gather", "--ansible", "facts", folder=tmp_path)
    assert done.returncode == ExitCode.NEGATIVE
    assert names(done.stdout) == ["gpu1.example.org", "gpu2", "gpu3", "gpu4"]
    assert done.stderr.splitlines() == [
        "warning: list, plain: the facts do not contain the cuenv fact (ansible_local.cuenv)",
        "warning: failed: the cuenv fact (ansible_local.cuenv) failed: 'error loading facts as JSON or ini'",
        "warning: odd: the file is not the JSON of Ansible's facts",
    ]


FACT = f"""\
#!/bin/sh
exec {sys.executable} -m cuenv inspect --json --compact
"""
ANSIBLE = shutil.which("ansible", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


@pytest.mark.slow
@pytest.mark.skipif(ANSIBLE is None, reason="no ansible: pip install ansible-core")
def test_what_a_real_ansible_caches_is_read(tmp_path: Path) -> None:
    """The fact of the documentation on two hosts of an inventory, which are both this machine."""
    (tmp_path / "facts.d").mkdir()
    fact = tmp_path / "facts.d" / "cuenv.fact"
    fact.write_text(FACT)
    fact.chmod(0o755)
    python = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (tmp_path / "hosts.ini").write_text(f"[gpus]\ngpu[01:02] {python}\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CACHE_PLUGIN": "jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": "facts",
    }
    arguments = f"gather_subset=!all,!min,local fact_path={tmp_path / 'facts.d'}"
    words = [str(ANSIBLE), "-i", "hosts.ini", "all", "-m", "setup", "-a", arguments]
    subprocess.run(words, cwd=tmp_path, env=environ, check=True, capture_output=True, timeout=120)
    done = inside("fleet", "gather", "--ansible", "facts", folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert names(done.stdout) == ["gpu01", "gpu02"]


@collect(
    ("words", "code", "says"),
    [
        ((), ExitCode.USAGE, "name the hosts with --slurm"),
        (("--nodes", "gpu1", "--from", "x"), ExitCode.USAGE, "--nodes chooses among the nodes of --slurm"),
        (("--from", "-", "--from", "-"), ExitCode.USAGE, "only once"),
        (("--from", "nowhere.json"), ExitCode.INPUT, "no such file"),
        (("--ansible", "nowhere"), ExitCode.INPUT, "not a folder with the facts of hosts"),
        (("--from", "empty.json"), ExitCode.INPUT, "empty"),
        (("--ssh", "gpu1", "--ssh-options", "-o 'x"), ExitCode.USAGE, "--ssh-options: No closing quotation"),
        (("--ssh", "gpu1", "--timeout", "0"), ExitCode.USAGE, "--timeout"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_gathered(tmp_path: Path, words: tuple[str, ...], code: ExitCode, says: str) -> None:
    (tmp_path / "empty.json").write_text("")
    done = inside("fleet", "gather", *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_without_clustershell_files_are_read_and_nodes_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)
    (tmp_path / "gpu1.json").write_text(record())
    assert inside("fleet", "gather", "--from", "gpu1.json", folder=tmp_path).returncode == ExitCode.OK
    done = inside("fleet", "gather", "--ssh", "gpu1", folder=tmp_path)
    assert done.returncode == ExitCode.OUTSIDE
    assert done.stderr.endswith(f"hint: {sys.executable} -m pip install ClusterShell\n")


@pytest.mark.slow
def test_who_stops_it_keeps_what_is_there(tmp_path: Path) -> None:
    """Ctrl-C while a node is asked: the answers of the others are in the file."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    script = f'case "$*" in *gpu1*) cat {tmp_path}/gpu1.json;; *) touch {tmp_path}/asked; sleep 60;; esac'
    (bin_ / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (bin_ / "ssh").chmod(0o755)
    (tmp_path / "gpu1.json").write_text(record())
    words = [sys.executable, "-m", "cuenv", "fleet", "gather", "--ssh", "gpu[1-2]", "-o", "fleet.ndjson"]
    environ = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 20
        while not (tmp_path / "asked").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)  # for the answer of the other node
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert names((tmp_path / "fleet.ndjson").read_text()) == ["gpu1"]


@collect(
    ("answer", "reason"),
    [
        (NodeAnswer(node="n1", late=30), "no answer in 30 s"),
        (NodeAnswer(node="n1", text="half an ans", late=0.5), "no answer in 0.5 s"),
        (NodeAnswer(node="n1", large=4 * 1024 * 1024), "wrote more than 4096 KiB"),
        (NodeAnswer(node="n1"), "the answer is empty"),
        (
            NodeAnswer(node="n1", code=255, said="ssh: Could not resolve hostname n1: Name or service not known"),
            "ssh: Name or service not known",
        ),
        (
            NodeAnswer(node="n1", code=255, said="u@n1: Permission denied (publickey)."),
            "ssh: Permission denied (publickey)",
        ),
        (NodeAnswer(node="n1", code=3), "ssh: exit status 3"),
        (NodeAnswer(node="n1", code=1, said="n1 is gone"), "ssh: the node is gone"),
        (
            NodeAnswer(node="n1", text="\x1b[31mred"),
            "the answer contains no host record; it begins with '\\x1b[31mred'",
        ),
        (
            NodeAnswer(node="n1", text="cuenv-fleet system\nDarwin 23.1 arm64\ncuenv-fleet end"),
            "neither linux-64 nor linux-aarch64: 'Darwin 23.1 arm64'",
        ),
        (NodeAnswer(node="n1", text='{"schema": "cuenv/host/1"}'), "the answer: 2 faults; platform: "),
        (NodeAnswer(node="n1", text="{" * 100_000), "the answer contains no host record"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_the_reason_why_there_is_no_record(answer: NodeAnswer, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        host_from_answer(answer, "ssh", knowledge())
    assert refused.value.message.replace("\n  ", "; ").startswith(reason)


def knowledge() -> Knowledge:
    return cuenv.load_knowledge()


PARTS = """\
Welcome to gpu1
cuenv-fleet system
Linux 4.18.0-553.el8_10.x86_64 x86_64
cuenv-fleet libc
{libc}
cuenv-fleet module
{module}
cuenv-fleet smi
{smi}
cuenv-fleet banner
{banner}
cuenv-fleet end
"""
QUERY = "index, name, driver_version, memory.total [MiB]\n0, Tesla V100-SXM2-32GB, 470.129.06, 32510 MiB"
KERNEL = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.129.06  Thu May 12 22:52:02 UTC 2022"


@collect(
    ("said", "gpus", "driver", "glibc"),
    [
        (("ldd (GNU libc) 2.28", KERNEL, QUERY), ["7.0"], "470.129.06", "2.28"),
        (("glibc 2.17", KERNEL, QUERY), ["7.0"], "470.129.06", "2.17"),
        (("ldd (Ubuntu GLIBC 2.35-0ubuntu3.4) 2.35", "cat: no", "sh: 1: nvidia-smi: not found"), [], None, "2.35"),
        (("", KERNEL, "NVIDIA-SMI has failed because it couldn't communicate"), [], "470.129.06", None),
        (("musl libc (x86_64)", "", ""), [], None, None),
    ],
)
def test_a_node_without_cuenv(
    said: tuple[str, str, str], gpus: list[str], driver: str | None, glibc: str | None
) -> None:
    libc, module, smi = said
    text = PARTS.format(libc=libc, module=module, smi=smi, banner=smi)
    host = host_from_answer(NodeAnswer(node="gpu1", text=text), "ssh", knowledge())
    assert (host.name, host.label, host.platform, host.kernel) == (
        "gpu1",
        "gpu1",
        "linux-64",
        "4.18.0-553.el8_10.x86_64",
    )
    assert [str(gpu.capability) for gpu in host.gpus] == gpus
    assert (host.driver and host.driver.version) == driver
    assert (host.libc and str(host.libc.version)) == glibc
    missing = {gap.fact for gap in host.gaps}
    assert ("gpus" in missing, "libc" in missing) == (not gpus, glibc is None)


def test_the_words_for_a_node_pass_every_shell() -> None:
    words = node_command("/opt/my tools/cuenv")
    assert not set("!\n%\\") & set(words)
    done = subprocess.run(
        ["sh", "-c", words], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cuenv-fleet system\nLinux ")
    assert done.stdout.endswith("cuenv-fleet end\n")


def test_names_stand_in_the_order_of_their_numbers() -> None:
    assert sorted(["gpu10", "gpu9", "a", "gpu9-2", "", "10", "9"], key=name_key) == [
        "",
        "9",
        "10",
        "a",
        "gpu9",
        "gpu9-2",
        "gpu10",
    ]


def test_nodes_of_one_reason_stand_together() -> None:
    from cuenv.fleet.answers import NotAnswered

    found = group_by_reason([NotAnswered("a", "x"), NotAnswered("b", "y"), NotAnswered("c", "y")])
    assert list(found.items()) == [("y", ["b", "c"]), ("x", ["a"])]
