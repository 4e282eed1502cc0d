"""``cuenv scan``: files and folders on a real file system, as text and as JSON, and what cannot be read."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from commands import inside as run
from cuenv.binary.data import BinaryError
from cuenv.binary.io.binaries import FileData, files_below, open_binary, scan
from cuenv.core.errors import ExitCode
from elf_files import CUBIN, EXACT, LTO, PTX, Part, archive, container, cubin, cubins, elf, entry, fatbin

GPUS = ("--gpu", "8.6", "--gpu", "12.0", "--driver", "560.35.03", "--glibc", "2.35")
MIXED = elf(
    fatbin(
        *[container(entry(CUBIN, 80), entry(CUBIN, 90), entry(PTX, 90, isa=(8, 8)))] * 2,
        container(entry(CUBIN, 80), entry(CUBIN, 90), entry(CUBIN, 90, flags=EXACT)),
    ),
    fatbin(cubins(75), name="__nv_relfatbin"),
    Part(".rodata", cubins(70)),
)
OLD = elf(fatbin(cubins(50, 60)))
PLAIN = elf(Part(".text", b"\x90"))


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A small environment: libraries, a link, a second name, a loop, sources, a DLL."""
    home = tmp_path / "env"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "libmixed.so").write_bytes(MIXED)
    (home / "lib" / "libold.so").write_bytes(OLD)
    (home / "lib" / "libplain.so").write_bytes(PLAIN)
    (home / "lib" / "again").symlink_to(home / "lib" / "libold.so")
    os.link(home / "lib" / "libold.so", home / "lib" / "libolder.so")
    (home / "lib" / "loop").symlink_to(home)
    (home / "lib" / "dangling").symlink_to("nowhere")
    (home / "lib" / "module.py").write_text("pass\n")
    (home / "lib" / "text").write_text("text\n")
    (home / "lib" / "tool.dll").write_bytes(b"MZ\x90\x00" + bytes(100))
    return home


def as_json(*words: str | Path, folder: Path) -> tuple[int, dict[str, Any]]:
    done = run("scan", "--json", *words, folder=folder)
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer


def test_a_file_as_json(prefix: Path, tmp_path: Path) -> None:
    code, answer = as_json(prefix / "lib" / "libmixed.so", *GPUS, folder=tmp_path)
    assert code == ExitCode.NEGATIVE  # nothing for 12.0 with this driver
    (found,) = answer["files"]
    assert found["sass"] == ["8.0", "9.0", "9.0a"]
    assert found["ptx"] == [{"arch": "9.0", "isa": "8.8", "objects": 2}]
    assert (found["objects"], found["everywhere"], found["partial"]) == (3, ["8.0", "9.0"], {"9.0a": 1})
    assert found["possible"]["everywhere"] == ["7.5"]
    assert found["elsewhere"] is None
    ampere, blackwell = found["gpus"]
    assert (ampere["capability"], ampere["outcome"], ampere["native"]) == ("8.6", "native", 3)
    assert (blackwell["outcome"], blackwell["needs_cuda"]) == ("nothing", "12.9")
    assert [item["object"] for item in blackwell["beyond_driver"]] == [0, 1]
    assert [item["object"] for item in blackwell["nothing"]] == [2]
    assert MIXED[blackwell["nothing"][0]["offset"] :][:4] == b"\x50\xed\x55\xba"


def test_a_file_as_text(prefix: Path, tmp_path: Path) -> None:
    done = run("scan", "env/lib/libmixed.so", *GPUS, "-v", folder=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[1] == "env/lib/libmixed.so: 3 objects; 8.0 9.0 in all; 9.0a in 1; PTX 9.0 (ISA 8.8) in 2"
    assert "        possible (relocatable, a device linker may have used it): 1 object; 7.5 in it" in lines
    assert "        8.6: native (by 8.0)" in lines
    blackwell = next(line for line in lines if line.startswith("        12.0:"))
    assert "PTX too new for the driver in 2 of 3, from driver 575.51.03 on (CUDA 12.9); nothing in 1 of 3" in blackwell
    assert lines[-1] == "error: no code that runs on 12.0 in 1 of 1 file: env/lib/libmixed.so"


def test_with_a_newer_driver_the_same_file_is_supported_in_part(prefix: Path, tmp_path: Path) -> None:
    newer = [*GPUS[:4], "--driver", "580.65.06"]
    code, answer = as_json(prefix / "lib" / "libmixed.so", *newer, folder=tmp_path)
    assert code == ExitCode.OK
    served = answer["files"][0]["gpus"][1]
    assert (served["outcome"], served["jit"], len(served["nothing"])) == ("partly", 2, 1)


def test_a_folder_counts_each_file_once(prefix: Path, tmp_path: Path) -> None:
    code, answer = as_json(prefix, "--gpu", "6.1", folder=tmp_path)
    names = [Path(item["path"]).name for item in answer["files"]]
    assert names == ["libmixed.so", "libold.so"]
    assert answer["without_device_code"] == 1
    assert answer["other_files"] == 2  # module.py is not even opened
    assert [(Path(item["path"]).name, item["fault"]) for item in answer["skipped"]] == [("tool.dll", "unsupported")]
    assert code == ExitCode.NEGATIVE
    assert [item["gpus"][0]["outcome"] for item in answer["files"]] == ["nothing", "native"]


def test_a_folder_without_gpu_code_is_said_to_have_none(tmp_path: Path) -> None:
    assert "no GPU code was found in an empty folder" in run("scan", ".", "--gpu", "8.0", folder=tmp_path).stdout
    (tmp_path / "notes.txt").write_text("x")
    assert "no GPU code was found in 1 file of other kinds" in run("scan", ".", "--gpu", "8.0", folder=tmp_path).stdout


def test_deep_looks_into_other_sections(prefix: Path, tmp_path: Path) -> None:
    _, answer = as_json(prefix / "lib" / "libmixed.so", "--deep", "--gpu", "8.0", folder=tmp_path)
    (elsewhere,) = answer["files"][0]["elsewhere"]
    assert (elsewhere["section"], elsewhere["sass"]) == (".rodata", ["7.0"])
    text = run("scan", "env/lib/libmixed.so", "--deep", "--gpu", "8.0", folder=tmp_path).stdout
    assert "        in .rodata: 1 object; 7.0 in it" in text.splitlines()


def test_a_named_file_without_device_code_is_said(prefix: Path, tmp_path: Path) -> None:
    done = run("scan", "env/lib/libplain.so", "--gpu", "8.0", folder=tmp_path)
    assert done.returncode == ExitCode.OK
    assert "env/lib/libplain.so: no device code" in done.stdout


def test_an_executable_and_an_object_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(elf(fatbin(cubins(80)), kind=2))
    (tmp_path / "part.o").write_bytes(elf(fatbin(container(entry(LTO, 80)), name="__nv_relfatbin"), kind=1))
    _, answer = as_json("tool", "part.o", "--gpu", "8.0", folder=tmp_path)
    part, tool = answer["files"]
    assert (part["objects"], part["possible"]["lto"], part["gpus"]) == (0, ["8.0"], [])
    assert tool["gpus"][0]["outcome"] == "native"


REFUSED = {
    "a missing file": ("nowhere.so", "no such file"),
    "a text": ("text", "not an ELF file"),
    "a Windows DLL": ("tool.dll", "a Windows program or DLL"),
    "a truncated library": ("short.so", "truncated"),
    "a damaged fat binary": ("broken.so", "damaged"),
    "a pipe": ("pipe", "it is a pipe"),
    "a device": ("/dev/zero", "it is a device"),
    "a circle of links": ("circle", "circle"),
    "an empty file": ("empty", "not an ELF file"),
}


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("text\n")
    (tmp_path / "empty").touch()
    (tmp_path / "tool.dll").write_bytes(b"MZ\x90\x00" + bytes(100))
    (tmp_path / "short.so").write_bytes(MIXED[: len(MIXED) // 2])
    (tmp_path / "broken.so").write_bytes(elf(Part(".nv_fatbin", container(entry(CUBIN, 80), size=2**64 - 1))))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "good.so").write_bytes(OLD)
    return tmp_path


@pytest.mark.parametrize(("name", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_an_error_of_input(bad: Path, name: str, reason: str) -> None:
    done = run("scan", name, "--gpu", "8.0", folder=bad)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "")
    assert f"cannot read {name}: " in done.stderr
    assert reason in done.stderr


def test_an_error_is_json_when_that_was_asked_for(bad: Path) -> None:
    code, answer = as_json("text", "--gpu", "8.0", folder=bad)
    assert (code, answer["schema"], answer["error"]["code"]) == (ExitCode.INPUT, "cuenv/error/1", "binary")


def test_beside_what_cannot_be_read_the_rest_is_reported(bad: Path) -> None:
    code, answer = as_json("pipe", "good.so", "short.so", "--gpu", "6.0", folder=bad)
    assert code == ExitCode.INPUT
    assert [item["path"] for item in answer["files"]] == ["good.so"]
    assert {item["path"]: item["fault"] for item in answer["skipped"]} == {"pipe": "unreadable", "short.so": "damaged"}


def test_a_folder_with_everything_bad_is_scanned_to_its_end(bad: Path) -> None:
    code, answer = as_json(".", "--gpu", "6.0", folder=bad)
    assert code == ExitCode.NEGATIVE  # libraries are damaged
    assert [item["path"] for item in answer["files"]] == ["./good.so"]
    assert {item["path"] for item in answer["skipped"]} == {"./broken.so", "./short.so", "./tool.dll"}
    assert answer["other_files"] == 2


def test_what_is_forbidden_is_said(bad: Path) -> None:
    (bad / "good.so").chmod(0)
    if os.access(bad / "good.so", os.R_OK):
        pytest.skip("root may read everything")
    (bad / "closed").mkdir(mode=0)
    code, answer = as_json(".", "--gpu", "6.0", folder=bad)
    assert code == ExitCode.NEGATIVE
    assert {item["path"]: item["reason"] for item in answer["skipped"]}.items() >= {
        "./good.so": "permission denied",
        "./closed": "permission denied",
    }.items()
    assert run("scan", "closed", folder=bad).returncode == ExitCode.INPUT
    (bad / "closed").chmod(0o700)  # so that it can be removed


def test_a_name_of_any_bytes_reaches_no_terminal_raw(tmp_path: Path) -> None:
    name = os.fsdecode(b"lib\xff\x1b[31m.so")
    (tmp_path / name).write_bytes(OLD)
    done = run("scan", ".", "--gpu", "6.0", folder=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout
    _, answer = as_json(".", "--gpu", "6.0", folder=tmp_path)
    assert answer["files"][0]["path"] == "./lib\\udcff\x1b[31m.so"
    refused = run("scan", f"{name}x", folder=tmp_path)
    assert refused.returncode == ExitCode.INPUT
    assert "\x1b" not in refused.stderr


def test_without_gpu_options_it_is_this_machine(prefix: Path, tmp_path: Path) -> None:
    done = run("scan", prefix, folder=tmp_path)
    assert done.returncode in {ExitCode.OK, ExitCode.NEGATIVE}
    assert done.stdout.startswith("host    this machine")


def test_no_path_is_wrong_usage(tmp_path: Path) -> None:
    assert run("scan", folder=tmp_path).returncode == ExitCode.USAGE


def test_a_sparse_file_of_four_gigabytes(tmp_path: Path) -> None:
    """Its section is four gigabytes of nothing, and then it is beyond the end; neither takes time or memory."""
    path = tmp_path / "sparse.so"
    path.write_bytes(elf(fatbin(cubins(80))))
    os.truncate(path, 4 << 30)
    assert len(scan(path).objects) == 1
    whole = bytearray(elf(Part(".nv_fatbin", b"")))
    rows = len(whole) - 2 * 64
    whole[rows + 32 : rows + 40] = (4 << 30).to_bytes(8, "little")
    path.write_bytes(bytes(whole))
    with pytest.raises(BinaryError, match="ends at byte"):
        scan(path)
    os.truncate(path, 5 << 30)
    with pytest.raises(BinaryError, match="no container"):
        scan(path)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(OLD)
    first = scan(path)
    assert scan(path) is first
    path.write_bytes(MIXED)
    assert len(scan(path).objects) == 3


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    """A mapping would kill the process here."""
    path = tmp_path / "lib.so"
    path.write_bytes(MIXED)
    with pytest.raises(BinaryError, match="changed while"):
        _truncate_under(path)


def _truncate_under(path: Path) -> None:
    with open_binary(path) as data:
        os.truncate(path, 100)
        assert data[0:4] == b"\x7fELF"
        assert data[200:300] == b""


def test_a_file_that_is_replaced_while_it_is_read_stays_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(MIXED)
    with open_binary(path) as data:
        (tmp_path / "new").write_bytes(OLD)
        (tmp_path / "new").replace(path)
        assert data[0 : len(MIXED)] == MIXED
    assert path.read_bytes() == OLD


def test_a_file_that_is_rewritten_all_the_time_never_kills(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(MIXED)
    stop = threading.Event()

    def rewrite() -> None:
        while not stop.is_set():
            path.write_bytes(MIXED)
            os.truncate(path, 300)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        told = [_told(path) for _ in range(300)]
    finally:
        stop.set()
        writer.join()
    assert set(told) <= {"read", "damaged", "unreadable", "foreign"}


def _told(path: Path) -> str:
    try:
        return "read" if scan(path).objects else "foreign"
    except BinaryError as error:
        return error.fault


def test_slices_of_a_file_are_those_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(100)))
    with open_binary(path) as data:
        assert isinstance(data, FileData)
        assert len(data) == 100
        for wanted in (slice(0, 10), slice(90, 200), slice(200, 300), slice(5, 5), slice(9, 3), slice(None, None)):
            assert data[wanted] == bytes(range(100))[wanted]


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(BinaryError, match="a socket"):
            scan(tmp_path / "s")


def test_a_link_out_of_the_folder_is_a_file_of_it(tmp_path: Path) -> None:
    """Some installers make an environment of links into their cache."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "lib.so").write_bytes(OLD)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "lib.so").symlink_to(tmp_path / "cache" / "lib.so")
    (tmp_path / "env" / "out").symlink_to(tmp_path)
    assert [Path(str(path)).name for path in files_below(tmp_path / "env")] == ["lib.so"]


TEXT = b"""//
// Generated by NVIDIA NVVM Compiler
//

.version 8.4
.target sm_90a
.address_size 64
"""


@collect(
    ("name", "content", "said"),
    [
        ("k.cubin", cubin(90), "1 object; 9.0 in it"),
        ("k.cubin", cubin(90, suffix="a"), "1 object; 9.0a in it"),
        ("k.cubin", cubin(100, suffix="f"), "1 object; 10.0f in it"),
        ("k.cubin", cubin(90, suffix="a", abi=1), "1 object; 9.0a in it"),
        ("k.cubin", cubin(50, suffix="a", abi=1), "1 object; 5.0 in it"),  # cuBLAS sets the bit; there is no sm_50a
        ("k.fatbin", container(entry(CUBIN, 80), entry(PTX, 90, isa=(8, 4))), "1 object; 8.0 in it; PTX 9.0 (ISA 8.4)"),
        ("k.ptx", TEXT, "1 object; PTX 9.0a (ISA 8.4)"),
        ("libk.a", archive(a=OLD, odd=b"x", b=elf(fatbin(cubins(80)))), "2 objects; 5.0 in 1, 6.0 in 1, 8.0 in 1"),
        ("libk.a", archive(), "no device code"),
    ],
)
def test_what_the_cuda_compilers_write_by_itself_is_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = run("scan", name, *GPUS, folder=tmp_path)
    assert f"{name}: {said}" in done.stdout.splitlines()
    below = run("scan", ".", *GPUS, folder=tmp_path)
    assert (f"./{name}: {said}" in below.stdout.splitlines()) == (said != "no device code")


def test_deep_finds_cubins_and_ptx_outside_of_containers(tmp_path: Path) -> None:
    data = (
        b"x" * 37
        + cubin(80)
        + b"y" * 5
        + TEXT
        + b"\0.target sm_ \x7fELF\x02\x01\x01\x41"
        + cubin(90, suffix="a", abi=1)
    )
    (tmp_path / "libk.so").write_bytes(elf(Part(".rodata", data)))
    assert "libk.so: no device code" in run("scan", "libk.so", *GPUS, folder=tmp_path).stdout
    told = run("scan", "libk.so", "--deep", *GPUS, folder=tmp_path).stdout
    assert "in .rodata: 3 objects; 8.0 in 1, 9.0a in 1; PTX 9.0a (ISA 8.4) in 1" in told


@collect(
    "content",
    [
        cubin(90)[:100],
        cubin(5),
        archive(a=OLD)[:-9],
        archive(a=OLD).replace(b"`\n", b"xx"),
        b"!<thin>\n",
        container(entry(CUBIN, 80))[:40],
    ],
)
def test_a_damaged_one_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k.bin").write_bytes(content)
    done = run("scan", "k.bin", *GPUS, folder=tmp_path)
    assert (done.returncode, done.stderr.partition(":")[0]) == (3, "error")


@pytest.mark.slow  # test_fatbin.py refuses them quickly
def test_what_only_begins_like_a_container_is_counted(tmp_path: Path) -> None:
    hostile = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40) * 300_000
    (tmp_path / "libk.so").write_bytes(elf(Part(".rodata", hostile)))
    done = run("scan", "libk.so", "--deep", *GPUS, folder=tmp_path)
    assert "hostile: more than 262144 containers of device code" in done.stderr
    assert done.returncode == 3


def test_a_file_without_code_leads_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1\n")
    done = run("scan", "train.log", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr == "error: cannot read train.log: not an ELF file\nhint: cuenv scan .\n"
