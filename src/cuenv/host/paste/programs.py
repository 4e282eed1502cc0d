"""Read what programs print about their host: reports of torch and DeepSpeed, nvcc's banner, messages about GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.core.regex import regex
from cuenv.host.paste.reader import DRIVER_VERSION, PastedFact, evidence_text, numbered_lines, pattern_reader

_GPU = r"(?P<value>(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID) [\w -]{2,40}?)"

_LISTED = regex(r"\[(?:pip3?|conda)\] ([A-Za-z][\w.-]{1,60})(?:==| +\(?)([0-9][\w.+!-]*)(?: +(\S+))?")
_NUMBERED = regex(
    r"\bGPU ([0-9]{1,2}): (\S.{2,60}?) *(?=$|GPU [0-9]{1,2}: |MIG [1-9]|Nvidia driver version|cuDNN version)"
)


def _packages_and_gpus(text: str) -> Iterator[PastedFact]:
    inside = False
    for number, line in numbered_lines(text):
        if "GPU models and configuration" in line:
            inside = True
        elif inside and not line.lstrip().startswith(("GPU ", "MIG ")):
            inside = False
        for gpu in _NUMBERED.finditer(line) if inside else ():
            yield PastedFact("gpu.name", gpu[2], number, evidence_text(line), gpu[1])
        package = _LISTED.search(line)
        if package:
            yield PastedFact(
                "package", f"{package[2]} {package[3] or ''}".strip(), number, evidence_text(line), package[1]
            )


COLLECT_ENV = pattern_reader(
    "torch.utils.collect_env",
    (
        *(
            "Collecting environment information",
            "PyTorch version",
            "Nvidia driver version",
            "GPU models and configuration",
        ),
        *("CUDA used to build PyTorch", "[pip3] torch", "[conda] pytorch"),
    ),
    130,
    (
        ("driver.version", regex(rf"Nvidia driver version *: *({DRIVER_VERSION})\b")),
        ("libc", regex(r"Libc version *: *glibc-([0-9]\.[0-9]{1,2})\b")),
        ("machine", regex(r"Python platform *: Linux-.*-(x86_64|aarch64)-")),
        ("machine", regex(r"\bOS *: .*\((x86_64|aarch64)\)")),
        ("system", regex(r"\bOS *: .{0,20}(Windows|[Mm]ac ?OS)")),
        ("system", regex(r"Python platform *: (Windows|macOS)")),
        ("wsl", regex(r"Python platform *: Linux-.*(WSL2)")),
        ("torch", regex(r"PyTorch version *: *([0-9]\S{2,40})")),
        ("torch.cuda", regex(r"CUDA used to build PyTorch *: *([0-9]{1,2}\.[0-9]{1,2}|None)\b")),
        ("torch.hip", regex(r"ROCM used to build PyTorch *: *([0-9][0-9.]*)")),
        ("nvcc", regex(r"CUDA runtime version *: *([0-9]{1,2}\.[0-9]{1,2})\b")),
        ("gcc", regex(r"GCC version *: *\(.*\) ([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)\b")),
        ("python", regex(r"Python version *: *(3\.[0-9]{1,2})\b")),
    ),
    _packages_and_gpus,
)
"""What ``python -m torch.utils.collect_env`` prints, in the dialects of torch and of vLLM."""

DEEPSPEED = pattern_reader(
    "ds_report",
    ("DeepSpeed general environment info", "torch cuda version ...", "nvcc version ...", "shared memory (/dev/shm)"),
    16,
    (
        ("report", regex(r"(torch cuda version \.{3,})")),
        ("torch", regex(r"torch version \.{3,} ([0-9]\S{2,40})")),
        ("torch.cuda", regex(r"torch cuda version \.{3,} ([0-9]{1,2}\.[0-9]{1,2}|None)\b")),
        ("torch.hip", regex(r"torch hip version \.{3,} ([0-9]\S*)")),
        ("nvcc", regex(r"nvcc version \.{3,} ([0-9]{1,2}\.[0-9]{1,2})\b")),
        ("package", regex(r"(?P<about>deepspeed) info \.{3,} (?P<value>[0-9]+\.[0-9]+\.[0-9]+)")),
        ("python", regex(r"torch install path .*/python(3\.[0-9]{1,2})/")),
        ("shm", regex(r"shared memory \(/dev/shm\) size \.{2,} ([0-9.]+ [MGTK]i?B)")),
    ),
)
"""What ``ds_report`` of DeepSpeed prints: torch, its CUDA, nvcc and ``/dev/shm``, and neither driver nor GPU."""

NVCC = pattern_reader(
    "nvcc --version",
    ("Cuda compilation tools, release", "bounds defined for CUDA version"),
    0,
    (
        (
            "nvcc",
            regex(r"(?:Cuda compilation tools, release|bounds defined for CUDA version) ([0-9]{1,2}\.[0-9]{1,2})\b"),
        ),
    ),
    of_host=False,
)

GPUSTAT = pattern_reader(
    "gpustat",
    ("°C, ", "'C, "),
    0,
    (
        ("gpu.name", regex(r"^\[(?P<about>[0-9]{1,2})\] (?P<value>\S.{2,50}?) +\| *[0-9]{1,3}[°']C, ")),
        (
            "driver.version",
            regex(rf"^\S{{1,64}} +\w{{3}} \w{{3}} +[0-9]{{1,2}} [0-9:]{{8}} [0-9]{{4}} +({DRIVER_VERSION})$"),
        ),
    ),
)
"""What gpustat prints: host, time and driver, then a line for each GPU; of a long log the latter alone is found."""

GPUS = pattern_reader(
    "a message about the GPU",
    ("with CUDA capability sm_", "which is of c", "compute capability: ", "compute capability ", "cuda:0 "),
    0,
    (
        ("gpu.name", regex(rf"(?:^|\s){_GPU} with CUDA capability sm_[0-9]+ is not compatible")),
        (
            "gpu.name",
            regex(r"Found GPU(?P<about>[0-9]{1,2}) (?P<value>\S.{2,50}?) which is of (?:cuda|compute) capability"),
        ),
        ("gpu.name", regex(rf"\bname: {_GPU}, pci bus id: \S+, compute capability: [0-9]")),
        ("gpu.name", regex(rf"\bDevice (?P<about>[0-9]{{1,2}}): {_GPU}, compute capability [0-9]")),
        ("gpu.name", regex(rf"\bcuda:(?P<about>[0-9]{{1,2}}) {_GPU}(?: :|$)")),
    ),
)

PROGRAM = pattern_reader(
    "the program",
    (
        "ytorch version: ",
        "orch version: ",
        *("orch 1.", "orch 2.", "orch: 1.", "orch: 2."),
        "site-packages/",
        "dist-packages/",
        "include/python3",
        "linux-x86_64",
        "linux-aarch64",
        'File "/',
        ", in <module>",
        ":\\",
    ),
    0,
    (
        ("torch", regex(r"\b(?:[Pp]y)?[Tt]orch [Vv]ersion: ([12]\.[0-9]{1,2}\.[0-9](?:\+cu[0-9]{2,3})?)\b")),
        ("torch", regex(r"^\W{0,4}(?:[Pp]y)?[Tt]orch:? ([12]\.[0-9]{1,2}\.[0-9](?:\+cu[0-9]{2,3})?)\W?$")),
        ("python", regex(r"/python(3\.[0-9]{1,2})(?:/(?:site|dist)-packages/|/?(?:\s|$))")),
        ("path", regex(r'\bFile "(/[^"\n]{3,240})", line [0-9]')),
        ("main", regex(r'\bFile "(/[^"\n]{3,240}|[\w./-]{1,200}\.py)", line [0-9]+, in <module>')),
        ("conda", regex(r"/((?:mini|ana)conda[0-9]?|(?:mamba|mini)forge[0-9]?|micromamba|opt/conda|envs/[\w.-]+)/")),
        ("system", regex(r"(/usr/(?:local/)?(?:lib|include)/python3|/\.?venv/(?:lib|bin)/)")),
        ("root", regex(r"(?:^|[\s\"'=(])/(root)/")),
        ("drive", regex(r"(?:^|[\s\"'(=])([A-Z]):\\{1,2}[A-Za-z]")),
        ("machine", regex(r"\b(?:temp|lib|bdist)\.linux-(x86_64|aarch64)\b")),
    ),
    of_host=False,
)

FRAMEWORKS = pattern_reader(
    "the framework",
    (
        "torch",
        "jaxlib",
        "jax/_src/",
        "Unsupported .version",
        "JAX was built",
        "tensorflow",
        "ggml",
        "llama",
        "vllm",
        "docker",
        *(": *** [", ".cu.o.cmake:", "> Running in ", "Dockerfile:", "] RUN ", "The command '/bin/"),
        "CuPy Configuration",
        "'cupy'",
        "ecting cupy",
        "/cupy/",
        "'cupy/",
        "ai.onnxruntime",
        "onnxruntime",
        ".rs:",
        "DriverError(",
        "error == cudaSuccess",
        "deviceQuery",
        "bandwidthTest",
        "tegra",
        "etson",
        "JetPack",
        "MIG",
        "ittor",
        "paddle",
        "cudadrv",
        "mxnet",
        "xgboost",
        "ightgbm",
        "ightGBM",
        "atboost",
        "NCCL_SOCKET_IFNAME",
    ),
    0,
    (
        ("framework", regex(r"\b(torch)[./]|\b[Pp]y(?P<value>[Tt]orch)\b")),
        ("framework", regex(r"\b(jax)(?:lib\b|/_src/)|\b(?P<value>JAX) was built")),
        ("ptx", regex(r"Unsupported \.version [0-9]\.[0-9]; current version is '([0-9]\.[0-9])'")),
        ("framework", regex(r"\b(tensorflow)[./]")),
        ("framework", regex(r"\b(ggml)[-_.]")),
        ("framework", regex(r"\b(llama[._-]cpp(?:[_-]python)?)\b")),
        ("framework", regex(r"\b(ollama)\b")),
        ("framework", regex(r"\b(vllm)[./]|\b(?P<value>Vllm)Worker")),
        ("framework", regex(r"\b(docker)\b")),
        ("step", regex(r"^\W{0,8}(Running in) [0-9a-f]{6}|^The (?P<value>command) '/bin/\w{1,4} -c ")),
        ("make", regex(r"\bmake(?:\[[0-9]{1,2}\])?: (\*\*\*) \[|\.cu\.(?P<value>o\.cmake):[0-9]")),
        ("step", regex(r"\[ ?[0-9]{1,3}/[0-9]{1,3}\] (RUN) |^(?P<value>Dockerfile):[0-9]")),
        ("framework", regex(r"'package_name': '(cupy)\b|\b(?P<value>CuPy) Configuration")),
        ("framework", regex(r"(?:\bCollecting |/pip-[\w-]{2,40}/|')(cupy)(?:$|/)")),
        ("framework", regex(r"\b(onnxruntime)(?:::|:Default|_pybind|\.capi)")),
        ("framework", regex(r"\b(ai\.onnxruntime)\b|\b(?P<value>onnxruntime-java)")),
        ("framework", regex(r"\bpanicked at \S+\.(rs):|^Error: (?P<value>DriverError)\(")),
        ("framework", regex(r"Check failed: error == (cudaSuccess)\b")),
        ("framework", regex(r"\b(deviceQuery|bandwidthTest)(?: Starting\b|, CUDA Driver)")),
        ("framework", regex(r"-(tegra)\b|\b(?P<value>[Jj]etson|JetPack)\b")),
        ("framework", regex(r"\b(MIG)[ -](?:GPU-)?[0-9a-f]{1,8}[gc.-]")),
        ("framework", regex(r"\b([Jj]ittor|mxnet|xgboost|[Ll]ight(?:gbm|GBM)|[Cc]atboost)\b")),
        ("framework", regex(r"\b(paddle)[./]|\b(?P<value>numba)[./]cuda[./]cudadrv\b")),
        ("interface", regex(r"\bNCCL_SOCKET_IFNAME(?: set (?:by environment )?to |=)[\"']?([\w^,.-]{1,60})")),
    ),
    of_host=False,
)

KERNEL = pattern_reader(
    "the driver's messages",
    ("kernel reported version is", "libcuda reported version is", "NVRM version"),
    0,
    (
        ("driver.version", regex(rf"libcuda reported version is: ({DRIVER_VERSION})")),
        ("driver.module", regex(rf"kernel reported version is: ({DRIVER_VERSION})")),
        ("driver.module", regex(rf"NVRM version: NVIDIA UNIX .*Kernel Module(?: for \S+)? +({DRIVER_VERSION})\b")),
    ),
)


LIBC = pattern_reader(
    "ldd --version",
    ("ldd (", "GNU C Library", "GNU libc", "glibc "),
    1,
    (
        ("libc", regex(r"^ldd \(.*\) ([0-9]\.[0-9]{1,2})$")),
        ("libc", regex(r"\bGNU C Library \(.*\) (?:stable|development) release version ([0-9]\.[0-9]{1,2})\b")),
        ("libc", regex(r"^glibc ([0-9]\.[0-9]{1,2})$")),
        ("machine", regex(r"^(x86_64|aarch64)$")),
        ("machine", regex(r"^Linux \S+ [0-9]\S+ .* (x86_64|aarch64)(?: GNU/Linux)?$")),
        ("kernel", regex(r"^Linux \S+ ([0-9]\.[0-9]+\S+) .*(?:x86_64|aarch64)")),
    ),
)

_RANK = regex(r"^\s*(?:\[[Rr]ank ?[0-9]+\]:?|[0-9]+:)\s*")  # what launchers put before the lines of a rank


def _below(text: str) -> Iterator[PastedFact]:
    """What NCCL says in the line below its mark."""
    waiting = False
    for number, line in numbered_lines(text):
        _, mark, rest = line.partition("Last error:")
        said = _RANK.sub("", rest if mark else line if waiting else "").strip()
        waiting = bool(mark) and not said
        if said:
            yield PastedFact("nccl", said, number, evidence_text(line))


def _cmake(text: str) -> Iterator[PastedFact]:
    """What CMake says below the head of an error: the lines that are indented further than the head."""
    begun, words = 0, ""
    deep = -1
    for number, raw in numbered_lines(text):
        line = _STEP.sub("", raw)
        ends = len(line) - len(line.lstrip()) <= deep and "set to NOTFOUND" not in words
        if deep >= 0 and line.strip() and (ends or number - begun > _CMAKE_REACH):
            deep = -1
        if deep < 0 and words:
            yield PastedFact("cmake", evidence_text(words), begun, evidence_text(words))
            words = ""
        if head := _CMAKE.search(line):
            begun, deep, words = number, len(line) - len(line.lstrip()), head["rest"].strip()
            words = "set to NOTFOUND:" if "set to NOTFOUND" in words else words
        elif deep >= 0 and not line.startswith("Please set them"):
            words = f"{words} {line.strip()}".strip()
    if words:
        yield PastedFact("cmake", evidence_text(words), begun, evidence_text(words))


def _panic(text: str) -> Iterator[PastedFact]:
    """What a program written in Rust says in its panic, or in the line below."""
    waiting = False
    for number, raw in numbered_lines(text):
        line = _STEP.sub("", raw).strip()
        found = _PANIC.search(line)
        said = (found[1] or "") if found else line if waiting else ""
        waiting = bool(found) and not said
        if said:
            yield PastedFact("panic", evidence_text(said), number, evidence_text(raw))


def _cross(text: str) -> Iterator[PastedFact]:
    """What pixi and rattler-build say beside the cross of an error, and in the lines of its tree."""
    begun, words = 0, ""
    for number, line in (*numbered_lines(text), (0, "")):
        if found := _CROSS.search(line):
            begun, words = number, found[1]
        elif begun and (not _TWIG.match(line) or number - begun > _CMAKE_REACH):
            yield PastedFact("cross", evidence_text(words), begun, evidence_text(words))
            begun = 0
        elif begun:
            words = f"{words} {_TWIG.sub('', line).strip()}"


_CROSS = regex(r"\bError: {1,8}\xd7 ([^\n]{4,300})")
_TWIG = regex(r"^ {1,8}(?:[│├╰][─▶]{0,4} ?|(?=\S))")
_PANIC = regex(r"panicked at (?:'([^\n]{1,300})', \S+|\S+:)$")
_STEP = regex(r"^(?:#[0-9]{1,4} )?[0-9]{1,5}\.[0-9]{1,4} ")
"""What docker build puts before the lines of a step."""
_CMAKE_REACH = 9
_CMAKE = regex(r"CMake Error(?: (?:at|in) [^\s()]{1,200}(?: \([\w ]{1,60}\))?)?:(?P<rest>[^\n]{0,400})$")


def _because(text: str) -> Iterator[PastedFact]:
    """Why uv finds no solution: what it says before each of its conclusions, of lists of versions the ends alone."""
    begun, words = 0, ""
    for number, line in (*numbered_lines(text), (0, "")):
        found, said = _BECAUSE.search(line), line.strip(" │|")
        if found and not begun:
            begun, words = number, found[1]
        elif begun and (not said or number - begun > _TREE_REACH):
            told = _VERSIONS.sub(r"\1 \2 ... \3", words)
            parts = _CONCLUDED.findall(told) or [told]
            yield PastedFact("tree", ". ".join(parts)[:_TREE], begun, evidence_text(words))
            begun = 0
        elif begun:
            words = f"{words} {said}"


_TREE = 400
_TREE_REACH = 200
_BECAUSE = regex(r"(?:╰─▶|`->|├─▶|^) ?(Because [^\n]{10,})")
_VERSIONS = regex(r"(are available:) (\S+)(?: \S+[<>=]\S+)+ (\S+[<>=]\S+)(?= and )")
_CONCLUDED = regex(r"(?:And b|B)ecause .*?(?=, we can conclude|\.?$)")
CROSS = pattern_reader("pixi", ("Error:   \xd7 ",), 9, (), _cross, of_host=False)
"""What pixi says in the lines of an error."""
PANIC = pattern_reader("Rust", ("panicked at ",), 1, (), _panic, of_host=False)
"""What a program written in Rust says in its panic."""
UV_TREE = pattern_reader("uv", ("Because ",), _TREE_REACH, (), _because, of_host=False)
"""What uv says when no versions fit together."""
CMAKE = pattern_reader(
    "CMake", ("CMake Error at ", "CMake Error in ", "CMake Error: "), _CMAKE_REACH, (), _cmake, of_host=False
)
"""What CMake says in the lines below the head of its error."""

_PACKAGE = r"[`'\"]?(?P<value>[A-Za-z][\w.-]{1,60}?)(?:(?:==|\[|@| @)\S{0,80})?[`'\"]?"
_SOURCES = r"(?P<value>git\+https?://[^\s'\"`@]{5,160}(?:@[^\s'\"`]{1,60})?)"
MESSAGES = pattern_reader(
    "messages",
    (
        *("torchvision", "torchaudio"),
        *(
            "Failed building",
            "Failed to build",
            "Could not build wheels",
            "Building wheel for",
            "Building editable for",
            "was requested, but nvcc",
            "akmod",
            "RPM Fusion",
            ".fc4",
            "Found CUDAToolkit: /usr/",
            "Obtaining file:///",
            "Collecting ",
            "Processing ",
            "Downloading https://download.pytorch.org/",
            "Failed to download",
            "Failed to fetch wheel: ",
        ),
        *("PyTorch (", "(you have ", "PyTorch has CUDA Version", "Last error:", "Unable to find image", "docker run "),
        *("torchrun ", "deepspeed ", "python ", "accelerate launch "),
        *("uv pip", "uv sync", "uv run", "uv add", "uv lock", "/.pixi/", "pixi run", "pixi install", "pixi add"),
        *("PyPI packages for environment", "/rattler/cache/", "likely indicates that", "Resolved "),
        *(
            "pypoetry",
            "poetry/installation/",
            "poetry run",
            "poetry add",
            "poetry install",
            "conda env ",
            "mamba env ",
            "unsafe-best-match",
        ),
        *("which is incompatible.", "Depends: libc6 ", "torch==", " CPython 3.", "Using CPython", "Using Python"),
        *("The user requested torch", "apt-get -f install", "--fix-broken install"),
        *("is not installable", "apt install ", "apt-get install ", " cuda : Depends: ", "(from versions: "),
        *("is not installable because", "are not installable because", "with the existing python", "=pypi_0"),
        *("__cuda ", "You're on Linux", "The build backend returned an error", ".cache/uv/"),
        *(
            "'/nix/store/",
            "pip-build-env-",
            "get_requires_for_build_",
            "Error: Package: ",
            "Requires-Python",
            "not a git repository",
        ),
        *(
            "conda install ",
            "mamba install ",
            "dnf ",
            "yum ",
            "--allowerasing",
            "Depends: nvidia-",
            "/dkms/nvidia",
            "-microsoft-standard",
            "but none of the providers",
            "no kernel module package ",
            "Depends: libnvidia-",
        ),
    ),
    2,
    (
        ("failed", regex(rf"\b{_PACKAGE} was requested, but nvcc was not found")),
        ("failed", regex(rf"Failed building (?:wheel|editable) for {_PACKAGE}\s*$")),
        ("failed", regex(rf"Failed to (?:build|download and build) {_PACKAGE}\s*$")),
        ("failed", regex(rf"Failed to fetch wheel: {_PACKAGE}\s*$")),
        ("failed", regex(rf"Could not build wheels for {_PACKAGE}(?:,| |$)")),
        ("failed", regex(rf"Failed to build '{_SOURCES}")),
        ("building", regex(rf"Building (?:wheel|editable) for {_PACKAGE} \(")),
        ("sources", regex(r"\bObtaining file://(/[\w./+-]{2,200})")),
        ("fetched", regex(r"(/pip-build-env-[\w./+-]{1,40}/overlay/lib/python3[\w./-]{1,40}/torch/)")),
        ("failed", regex(rf"Failed to download and build: `[\w.-]{{1,60}} @ {_SOURCES}")),
        ("collecting", regex(rf"\bCollecting {_SOURCES}")),
        (
            "collecting",
            regex(
                r"^\W{0,12}(?:[0-9.]{1,12} +)?Processing "
                r"(?P<value>(?:\.{1,2}|~)?/[\w./+-]{1,160}?)(?<!\.whl)(?<!\.gz)(?<!\.zip)/?(?: \(from |\s*$)"
            ),
        ),
        ("collecting", regex(r"\bCollecting (?P<value>[A-Za-z][\w.-]{1,60}(?:==[0-9][\w.]{0,20})?)(?![\w.-]*\+)")),
        ("isolated", regex(r"(pip-build-env-|/builds-v[0-9]+/|get_requires_for_build_)")),
        ("uninstallable", regex(r"Depends: ([a-z][\w.+-]{1,60})(?: \([^)\n]{1,60}\))? but it is not installable")),
        ("apt-cuda", regex(r"\bapt(?:-get)? [^\n]*install [^\n]*(?<=\s)(cuda-|libcudnn|libnccl)")),
        ("indexed", regex(r"(?:\(from versions: [^)\n]*\+|%2B)(cu[0-9]{2,3})\b")),
        ("indexed", regex(r"\buv (?:pip|add)\b[^\n]{0,200}download\.pytorch\.org/whl/(\w{2,20})")),
        ("lacks", regex(r"^\s*Requires: ([A-Za-z][\w.-]{1,60})")),
        ("lacks", regex(r"requires \(?([A-Za-z][\w.-]{1,60})[^,\n]{0,80}, but none of the providers")),
        ("prebuilt", regex(r"\bno kernel module package (kmod-nvidia[\w.-]{0,80}) for kernel version")),
        ("companion", regex(r"\b(torchvision)\b")),
        ("companion", regex(r"\b(torchaudio)\b")),
        ("torch.cuda", regex(r"^\W{0,8}PyTorch \(([0-9]{1,2}\.[0-9]{1,2})\)")),
        ("torch.cuda", regex(r"PyTorch has CUDA Version=([0-9]{1,2}\.[0-9]{1,2})\b")),
        ("torch", regex(r"\(you have ([12]\.[0-9]{1,2}\.[0-9][\w.+]{0,20})\)")),
        ("built", regex(r"PyTorch ([12]\.[0-9]{1,2}\.[0-9][\w.+]{0,20}) with CUDA [0-9]+ \(you have")),
        ("driver.cuda", regex(r"^\W*__cuda ([0-9]{1,2}\.[0-9]{1,2})\s*$")),
        ("image", regex(r"Unable to find image '([\w./:@-]{2,120})' locally")),
        ("image", regex(r"\bdocker run .*\s([a-z][\w.-]*(?:/[\w.-]+){0,4}:[A-Za-z0-9_][\w.-]*)(?:\s|$)")),
        ("manager", regex(r"(?:^|[\s$`'\"(])(uv) (?:pip|sync|run|add|lock)\b")),
        ("manager", regex(r"/(uv)/(?:builds|archive|wheels|sdists|git)-v[0-9]")),
        ("manager", regex(r"\b(Resolved) [0-9]{1,5} packages? in [0-9.]{1,6}m?s\b")),
        ("manager", regex(r"\b(?:builder for|derivation) '/(nix)/store/")),
        ("manager", regex(r"(?:/\.|\b)(pixi)(?:/envs/| (?:run|install|add)\b)")),
        ("manager", regex(r"Failed to update (PyPI packages for environment)|/(?P<value>rattler)/cache/")),
        ("manager", regex(r"[─-][▶>] The build backend (returned) an error")),
        ("failed", regex(r"likely indicates that `(?P<value>[A-Za-z][\w.-]{1,60})@[^`\n]{1,40}` depends\b")),
        ("manager", regex(r"\bpy(poetry)/|\b(?P<value>poetry)(?:/installation/| (?:run|add|install)\b)")),
        (
            "file",
            regex(r"\b(?:conda|mamba) env (?:create|update)\b[^\n]{0,120}?(?:-f|--file)[ =]([\w./-]{1,80}\.ya?ml)\b"),
        ),
        (
            "hint",
            regex(
                r"(unsafe-best-match)|You're on Linux \(`(?P<value>manylinux)_[0-9_]+_(\w+)`.*`manylinux_[0-9_]+_\3`"
            ),
        ),
        ("hint", regex(r"\buv (?:pip|add)\b.*(--extra-index-url)\b")),
        ("hint", regex(r"\bapt(?:-get)? (?:--)?(fix-broken)|\bapt(?:-get)? (?P<value>-f) install")),
        ("requested", regex(r"The user requested torch[~=]=([12]\.[0-9]{1,2}\.[0-9][\w.+]{0,20})")),
        ("torch", regex(r"but you have torch ([12]\.[0-9]{1,2}\.[0-9](?:\+\w{2,8})?) which is incompatible")),
        (
            "wanted",
            regex(r" requires ([A-Za-z][\w.-]{0,60}(?:[<>=!~]=?[\w.*,<>=!~]{1,60}))(?:;[^\n]{1,120})?, but you have "),
        ),
        (
            "added",
            regex(
                r"\buv add ((?:[a-z][\w.-]*(?:[=<>~!]=?[\w.*]{1,20})? )*torch[\w.-]*(?:==[\w.*]{1,20})?"
                r"(?: [a-z][\w.-]*(?:==[\w.*]{1,20})?)*) --(?:index-url|default-index)[ =]"
            ),
        ),
        (
            "lone",
            regex(r"\buv add .*--(?:index-url|default-index)[ =]https://download\.pytorch\.org/whl/(cu[0-9]{2,3})\b"),
        ),
        ("unusable", regex(r"\btorch==([12]\.[0-9]{1,2}\.[0-9](?:\+\w{2,8})?) (?:has no wheels|is unusable)")),
        ("python", regex(r"\bYou(?:'re using| require) CPython (3\.[0-9]{1,2})\b")),
        ("python", regex(r"\bUsing (?:C?Python|Python interpreter)[ :]{1,3}(3\.[0-9]{1,2})\.[0-9]{1,2}\b")),
        ("toolkit", regex(r"\bapt(?:-get)? install (?:[\w=.-]+ )*(cuda(?:-[0-9]{1,2}-[0-9])?)(?=\s|$)")),
        ("toolkit", regex(r"^\W*cuda : Depends: (cuda-[0-9]{1,2}-[0-9])\b[^\n]{0,40} not going to be installed")),
        ("listed", regex(r"=(pypi)_0\s*$")),
        ("versions", regex(r"\(from versions: (none)\)")),
        (
            "oldest",
            regex(r"requirement torch[=<>~!][^\n]{1,60}\(from versions: ([0-9][\w.]{0,20}?)(?:\+\w{2,20})?[,)]"),
        ),
        ("akmods", regex(r"\b(akmods?|RPM Fusion)\b|kernel\W{1,4}\S{1,40}\.(?P<value>fc[0-9]{2})\b")),
        (
            "system-toolkit",
            regex(r"Found CUDAToolkit: /usr/[^\n]{1,120}\(found (?:suitable )?version \"([0-9]{1,2}\.[0-9]{1,2})\b"),
        ),
        ("ignored", regex(r"Ignored the following versions that require a different python version: (.{5,4000})")),
        ("archive", regex(r"fatal: (not a git repository)")),
        ("held", regex(r"incompatible with the existing (python) installation")),
        ("tree", regex(r"[├└]─ (\S[^\n]{2,80} (?:is|are) not installable because [^\n]{5,100})(?<!it requires)")),
        (
            "asked",
            regex(
                r"\b(?:conda|mamba) install((?: +(?!--?(?:dry-run|force|file|n |p ))[\w.=<>~!*:/,'\"\[\]-]+)+) *`?\s*$"
            ),
        ),
        (
            "transaction",
            regex(r"\b((?:dnf|yum) (?:-y )?(?:module )?(?:install|upgrade|update|reinstall)(?: [\w.:*+@-]+)*)"),
        ),
        ("hint", regex(r"try to add '?--(allowerasing)\b")),
        ("wsl-kernel", regex(r"\b([0-9][0-9.]{2,20})-microsoft-standard")),
        ("module", regex(r"/dkms/nvidia[\w-]{0,20}/([0-9]{3})\.[0-9]")),
        ("driver-package", regex(r"\b(nvidia-driver-[0-9]{3}(?:-server)?(?:-open)?)\b")),
        ("newer", regex(r"Depends: libc6 \(>= ([0-9.]{3,5})\) but ")),
        ("clashing", regex(r"\b(torchvision|torchaudio) [0-9]\S* (?:depends on|requires) torch==")),
        (
            "script",
            regex(r"\b(?:python3?|torchrun|deepspeed|accelerate launch)(?: [^\n]{0,400}?)? ([\w./-]{1,120}\.py)\b"),
        ),
    ),
    _below,
    of_host=False,
)
"""What messages name: the package that is built, both CUDA releases of a mismatch, the image, the script."""
