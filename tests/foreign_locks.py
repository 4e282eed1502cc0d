"""Locks of pixi, uv and pip: small ones, as their programs write them."""

from __future__ import annotations

import json

SHA = "0123456789abcdef" * 4
MD5 = SHA[:32]
FORGE = "https://conda.anaconda.org/conda-forge"
INDEX = "https://index.example/simple"
FILES = "https://index.example/packages"
LONG = f"{FILES}/torch-2.7.1-cp312-cp312-manylinux_2_28_x86_64.whl"


def conda_url(name: str, build: str = "0", subdir: str = "linux-64") -> str:
    """The URL of a package of conda-forge."""
    return f"{FORGE}/{subdir}/{name}-1.0-{build}.conda"


def pixi(environments: dict[str, dict[str, list[str]]], *, version: int = 6, platforms: object = None) -> str:
    """A pixi.lock: for each environment and platform the packages, those for pip as ``name==version``."""

    def row(text: str) -> dict[str, str]:
        return {"pypi": f"{FILES}/{text.replace('==', '-')}-py3-none-any.whl"} if "==" in text else {"conda": text}

    places: dict[str, dict[str, object]] = {}
    for by_platform in environments.values():
        for text in (item for listed in by_platform.values() for item in listed):
            where = next(iter(row(text).values()))
            entry: dict[str, object] = {**row(text), "sha256": SHA}
            if "==" in text:
                name, _, number = text.partition("==")
                entry |= {"name": name, "version": number, "requires_python": ">=3.9"}
            else:
                entry |= {"md5": MD5, "depends": ["python >=3.9"], "license": "MIT", "size": 10}
            places[where] = entry
    document = {
        "version": version,
        **({"platforms": platforms} if platforms else {}),
        "environments": {
            name: {
                "channels": [{"url": f"{FORGE}/"}],
                "packages": {platform: [row(text) for text in listed] for platform, listed in by_platform.items()},
            }
            for name, by_platform in environments.items()
        },
        "packages": [*places.values()],
    }
    text = json.dumps(document, indent=1)
    # pixi writes blocks; the flow style of JSON is YAML as well, below the keys of the top
    return "\n".join(
        f"{key}:\n  {json.dumps(value)}" if key != "version" else f"version: {value}"
        for key, value in json.loads(text).items()
    )


UV = f"""
version = 1
revision = 3
requires-python = ">=3.11, <3.13"
resolution-markers = ["python_full_version >= '3.12'", "python_full_version < '3.12'"]
conflicts = [[{{ package = "mine", extra = "cpu" }}, {{ package = "mine", extra = "cu126" }}]]

[[package]]
name = "mine"
version = "0.1.0"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "leaf", version = "1.0", source = {{ registry = "{INDEX}" }}, marker = "python_full_version < '3.12'" }},
    {{ name = "leaf", version = "2.0", source = {{ registry = "{INDEX}" }}, marker = "python_full_version >= '3.12'" }},
    {{ name = "onwindows", marker = "sys_platform == 'win32'" }},
]

[package.optional-dependencies]
cpu = [{{ name = "torch", version = "2.7.1+cpu", source = {{ registry = "https://index.example/cpu" }} }}]
cu126 = [{{ name = "torch", version = "2.7.1", source = {{ registry = "{INDEX}" }} }}]

[package.dev-dependencies]
dev = [{{ name = "tool", extra = ["more"] }}]
docs = [{{ name = "page" }}]

[[package]]
name = "leaf"
version = "1.0"
source = {{ registry = "{INDEX}" }}
wheels = [{{ url = "{FILES}/leaf-1.0-py3-none-any.whl", hash = "sha256:{SHA}", size = 3 }}]

[[package]]
name = "leaf"
version = "2.0"
source = {{ registry = "{INDEX}" }}
wheels = [{{ url = "{FILES}/leaf-2.0-py3-none-any.whl", hash = "sha256:{SHA}" }}]

[[package]]
name = "onwindows"
version = "1.0"
source = {{ registry = "{INDEX}" }}
wheels = [{{ url = "{FILES}/onwindows-1.0-py3-none-win_amd64.whl", hash = "sha256:{SHA}" }}]

[[package]]
name = "page"
version = "1.0"
source = {{ registry = "{INDEX}" }}
sdist = {{ url = "{FILES}/page-1.0.tar.gz", hash = "sha256:{SHA}" }}

[[package]]
name = "tool"
version = "1.0"
source = {{ registry = "{INDEX}" }}
wheels = [{{ url = "{FILES}/tool-1.0-py3-none-any.whl", hash = "sha256:{SHA}" }}]

[package.optional-dependencies]
more = [{{ name = "further" }}]

[[package]]
name = "further"
version = "1.0"
source = {{ git = "https://git.example/further?rev=abc#abc" }}

[[package]]
name = "torch"
version = "2.7.1"
source = {{ registry = "{INDEX}" }}
wheels = [
    {{ url = "{FILES}/torch-2.7.1-cp311-cp311-manylinux_2_28_x86_64.whl", hash = "sha256:{SHA}" }},
    {{ url = "{LONG}", hash = "sha256:{SHA}" }},
    {{ url = "{FILES}/torch-2.7.1-cp312-cp312-manylinux_2_28_aarch64.whl", hash = "sha256:{SHA}" }},
    {{ url = "{FILES}/torch-2.7.1-cp312-cp312-win_amd64.whl", hash = "sha256:{SHA}" }},
]

[[package]]
name = "torch"
version = "2.7.1+cpu"
source = {{ registry = "https://index.example/cpu" }}
wheels = [{{ url = "{FILES}/torch-2.7.1%2Bcpu-cp312-cp312-manylinux_2_28_x86_64.whl", hash = "sha256:{SHA}" }}]
"""

PYLOCK = f"""
lock-version = "1.0"
created-by = "hand"
requires-python = ">=3.11"
extras = ["gpu"]
dependency-groups = ["test"]
default-groups = []

[[packages]]
name = "torch"
version = "2.7.1"
marker = "'gpu' in extras and python_version < '3.13'"
wheels = [
    {{ url = "{LONG}", hashes = {{ sha256 = "{SHA}" }} }},
    {{ url = "{FILES}/torch-2.7.1-cp312-cp312-manylinux2014_x86_64.whl", hashes = {{ sha256 = "{SHA}" }} }},
]

[[packages]]
name = "leaf"
version = "1.0"
sdist = {{ url = "{FILES}/leaf-1.0.tar.gz", hashes = {{ sha256 = "{SHA}" }} }}

[[packages]]
name = "tester"
version = "1.0"
marker = "'test' in dependency_groups"
wheels = [{{ url = "{FILES}/tester-1.0-py3-none-any.whl", hashes = {{ sha256 = "{SHA}" }} }}]
"""

REQUIREMENTS = f"""
# This file is autogenerated by pip-compile with Python 3.11
--index-url https://user:secret@index.example/simple
torch==2.7.1 ; sys_platform == 'linux' \\
    --hash=sha256:{SHA} \\
    --hash=sha256:{SHA[::-1]}
    # via -r requirements.in
old==1.0 ; python_version < "3.11" --hash=sha256:{SHA}
direct @ {FILES}/direct-3.1-py3-none-any.whl#sha256={SHA}
-e .
"""
