"""``cuenv report`` as it is typed: what it is about, its forms, hostile names, and inputs that are no report."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from cases import collect
from commands import inside as run
from cuenv.report.page import styles
from elf_files import cubins, elf, fatbin
from fleets import NODES, written
from foreign_locks import pixi
from prefixes import installed, lock_file, put, standard

HOST = ("--gpu", "V100", "--gpu", "RTX 5090", "--driver", "575.57.08", "--glibc", "2.35")
VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"'"


class Reading(HTMLParser):
    """Reads a page as strictly as it is meant: each element is closed where it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def page_of(path: Path) -> str:
    """The text of a report, which is whole HTML that asks nobody for anything."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>\n")
    read = Reading(text)
    assert not {"script", "iframe", "object", "embed", "link", "form", "base", "img", "foreignobject"} & set(read.tags)
    assert read.tags.count("main") == read.tags.count("h1") == 1
    for tag, name, value in read.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("style", "src", "srcset", "srcdoc", "action"), (tag, name)
        assert name != "href" or value.startswith("https://"), value
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert text.count("<figure") == text.count('<svg viewBox="') == text.count("the same as a table")
    assert f"<style>{styles()}</style>" in text
    assert "url(" not in styles()
    return text


def test_a_lock_has_its_findings_pictures_and_sources(tmp_path: Path) -> None:
    _, solution = installed(tmp_path / "env", standard())
    lock_file(tmp_path / "conda-lock.yml", solution)
    done = run("report", *HOST, "conda-lock.yml", "-o", "report.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrote   report.html" in done.stderr
    text = page_of(tmp_path / "report.html")
    checked = json.loads(run("check", "conda-lock.yml", *HOST, "--json", folder=tmp_path).stdout)
    for finding in checked["findings"]:
        assert f" {finding['code']}</b>" in text
    assert "a conda-lock.yml does not contain it" in text
    first = (tmp_path / "report.html").read_bytes()
    again = run("report", *HOST, "-o", "again.html", "conda-lock.yml", folder=tmp_path)
    assert again.returncode == 0
    assert (tmp_path / "again.html").read_bytes() == first
    told = json.loads(run("report", "conda-lock.yml", *HOST, "--json", folder=tmp_path).stdout)
    assert [picture["name"] for picture in told["pictures"]] == ["components", "driver", "builds"]
    mirror = ("--mirror", f"conda-forge={tmp_path / 'env/channels/conda-forge'}")
    sized = json.loads(run("report", "conda-lock.yml", *HOST, *mirror, "--json", folder=tmp_path).stdout)
    rows = {row[0]: row[3] for row in sized["pictures"][-1]["rows"]}
    assert rows == {item.name: f"{(item.size or 0) / 1e3:.0f} kB" for item in solution.packages}
    layers = {row[0]: row[2:] for row in told["pictures"][0]["rows"]}
    words = {"native": "native", "jit": "by JIT", "no": "not supported", "unknown": "unknown"}
    for layer in checked["layers"]:
        name = "PyTorch" if layer["layer"] == "torch" else layer["layer"]
        assert layers[name] == [words[layer["served"][device]] for device in ("7.0", "12.0")]


def test_an_environment_has_its_libraries_and_sizes(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, standard())
    assert env == tmp_path / "env"
    put(env, {"lib/libmine.so": elf(fatbin(cubins(70))), "lib/libboth.so": elf(fatbin(cubins(70, 120)))})
    done = run("report", "--prefix", "env", *HOST, "-o", "out/report.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = page_of(tmp_path / "out/report.html")
    assert "What was checked" in text
    told = json.loads(run("report", "--prefix", "env", *HOST, "--json", folder=tmp_path).stdout)
    pictures = {picture["name"]: picture for picture in told["pictures"]}
    libraries = {row[0]: row[2:] for row in pictures["libraries"]["rows"]}
    assert libraries["lib/libmine.so"] == ["native", "nothing"]
    assert libraries["lib/libboth.so"] == ["native", "native"]
    assert len(pictures["size"]["rows"]) > 3
    scanned = json.loads(run("scan", "env", *HOST, "--json", folder=tmp_path).stdout)
    assert {item["path"] for item in scanned["files"]} == {f"env/{name}" for name in libraries} | set()


def test_a_plan_has_its_hosts_and_prices(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(
        run("fleet", "plan", "-", "--json", folder=tmp_path, text=written(NODES)).stdout
    )
    done = run("report", "--fleet", "plan.json", "-o", "fleet.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = page_of(tmp_path / "fleet.html")
    assert "2 environments support every host" in text
    assert "gpu[01-12]" in text
    told = json.loads(run("report", "--fleet", "plan.json", "--json", folder=tmp_path).stdout)
    plan = json.loads((tmp_path / "plan.json").read_text())
    fleet, price = told["pictures"]
    assert [fleet["name"], price["name"]] == ["fleet", "price"]
    assert sum(int(row[2]) for row in fleet["rows"]) == plan["hosts"]
    assert [row[1] for row in price["rows"]] == ["yes" if item["possible"] else "no" for item in plan["prices"]]


def test_a_host_has_what_would_be_chosen_and_a_picture_alone(tmp_path: Path) -> None:
    done = run("report", *HOST, "--format", "svg", "--picture", "driver", "-o", "driver.svg", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "driver.svg").read_text()
    assert text.startswith("<!-- Written by cuenv report -->\n<svg xmlns=")
    assert "prefers-color-scheme:dark" in text
    told = run("report", *HOST, "--pytorch", "2.5", "--format", "md", folder=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "| component | package | V100 (7.0) | RTX 5090 (12.0) |" in told.stdout


def test_hostile_names_are_texts_and_nothing_else(tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "")
    packages = [f"https://conda.anaconda.org/conda-forge/linux-64/{part}-1-0.conda" for part in ("python", "x")]
    (tmp_path / "pixi.lock").write_text(pixi({"default": {"linux-64": packages}}))
    (tmp_path / "plan.json").write_text(
        run("fleet", "plan", "-", "--json", folder=tmp_path, text=written(NODES)).stdout
    )
    plan = json.loads((tmp_path / "plan.json").read_text())

    def poisoned(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: poisoned(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [poisoned(item, key) for item in value]
        kept = ("schema", "pytorch", "build", "cuda", "python", "driver", "version", "family", "platform", "prefer")
        open_ = isinstance(value, str) and key not in (*kept, "environment", "capability", "stack", "label")
        return f"{value}{HOSTILE}" if open_ and key not in ("code", "rule") else value

    request = plan.pop("request")
    data = poisoned(plan)
    assert isinstance(data, dict)
    data["request"] = request
    for kind in data["kinds"]:
        kind["environment"] = kind["environment"] and f"{kind['environment']}{HOSTILE}"
    (tmp_path / "bad.json").write_text(json.dumps(data))
    done = run("report", "--fleet", "bad.json", "-o", "bad.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "&lt;script&gt;" in page_of(tmp_path / "bad.html")
    (tmp_path / name).mkdir()
    _, solution = installed(tmp_path / "env", standard())
    lock_file(tmp_path / name / "conda-lock.yml", solution)
    done = run("report", tmp_path / name / "conda-lock.yml", *HOST, "-o", "lock.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "&lt;script&gt;" in page_of(tmp_path / "lock.html")
    told = run("report", tmp_path / name / "conda-lock.yml", *HOST, "--format", "md", folder=tmp_path)
    assert "<script" not in told.stdout.replace("\\<script", "")


@collect(
    ("words", "code", "said"),
    [
        (("missing.yml", "-o", "r.html"), 3, "missing.yml"),
        (("--fleet", "missing.json"), 3, "missing.json"),
        (("--fleet", "broken.json"), 3, "is not JSON"),
        (("--fleet", "other.json"), 3, "expected cuenv/fleet-plan/1"),
        (("--fleet", "half.json"), 3, "expected"),
        (("--prefix", "nothing"), 3, "nothing"),
        ((*HOST, "-o", "folder"), 2, "it is a folder"),
        ((*HOST, "--format", "svg", "--picture", "fleet"), 2, "this report has components, driver, builds"),
        ((*HOST, "--picture", "driver"), 2, "--format svg"),
        (("--format", "svg"), 2, "error: this report has no picture"),
        (("--fleet", "deep.json"), 3, "is not JSON: it is nested too deeply"),
        (("--fleet", "plan.json", "--prefix", "env"), 2, "a report shows only one of them"),
        (("--prefix", "folder", "--pytorch", "2.5"), 2, "request options"),
        ((*HOST, "-o", "file/below.html"), 4, "file"),
    ],
)
def test_an_input_that_is_not_a_report_is_refused_with_its_reason(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "other.json").write_text('{"schema": "cuenv/host/1"}')
    half = {"schema": "cuenv/fleet-plan/1", "kinds": [{}], "environments": [3], "proofs": [], "hosts": 10**400}
    (tmp_path / "half.json").write_text(json.dumps(half))
    done = run("report", *words, folder=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr


def test_what_is_not_a_report_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("mine")
    done = run("report", *HOST, "-o", "notes.html", folder=tmp_path)
    assert "kept    the old file as notes.html.bak" in done.stderr
    assert (tmp_path / "notes.html.bak").read_text() == "mine"
    done = run("report", *HOST, "-o", "notes.html", folder=tmp_path)
    assert "kept" not in done.stderr


UV = """version = 1
requires-python = ">=3.12"

[[package]]
name = "mine"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "torch" }, { name = "odd" }]

[[package]]
name = "torch"
version = "2.7.1"
source = { registry = "https://i.org/simple" }
wheels = [
    { url = "https://i.org/torch-2.7.1-cp312-cp312-manylinux_2_28_x86_64.whl", hash = "sha256:HASH", size = 821000000 },
]

[[package]]
name = "odd"
version = "1"
source = { registry = "https://i.org/simple" }
wheels = [{ url = "https://i.org/odd-1-py3-none-any.whl", hash = "sha256:HASH", size = -5 }]
""".replace("HASH", "0" * 64)


def test_a_lock_of_wheels_has_sizes_and_an_invalid_size_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(UV)
    for size in ("-5", "0", "true", "1" + "0" * 400):
        (tmp_path / "uv.lock").write_text(UV.replace("size = -5", f"size = {size}"))
        done = run("report", "uv.lock", *HOST, "--json", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)["pictures"][-1]
        assert told["name"] == "size"
        assert told["rows"] == [["torch", "2.7.1", "PyTorch", "821 MB", "100.0 %"]]
        assert "the size of 1 more is unknown" in told["description"]


def test_cuda_without_pytorch_has_its_driver(tmp_path: Path) -> None:
    name = "cuda-version-12.9-0"
    urls = [f"https://conda.anaconda.org/conda-forge/linux-64/{each}.conda" for each in (name, "python-3.12.1-0")]
    (tmp_path / "pixi.lock").write_text(pixi({"default": {"linux-64": urls}}))
    done = run("report", "pixi.lock", *HOST, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["lead"][0].startswith("The environment has CUDA 12.9 and no PyTorch")
    assert [row[0] for row in told["pictures"][0]["rows"]] == ["driver"]
