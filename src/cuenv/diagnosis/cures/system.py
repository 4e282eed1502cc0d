"""Cures for the system around the environment: its packages, disks, downloads and registries."""

from __future__ import annotations

import re
from shlex import quote

from cuenv.core.regex import regex
from cuenv.diagnosis.cures.context import CureResult, LogContext, cure, in_docker_build
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider

_CUDA_REPOSITORY = regex(r"/compute/cuda/repos/([a-z]{1,10}[0-9]{1,4})/")
_KEYRING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
_TOOLKIT = "https://nvidia.github.io/libnvidia-container"
_TOOLKIT_KEY = f"curl -fsSL {_TOOLKIT}/gpgkey | sudo gpg --dearmor --yes -o {_KEYRING}"
_TOOLKIT_LIST = (
    f"{_TOOLKIT_KEY} && curl -fsSL {_TOOLKIT}/stable/deb/nvidia-container-toolkit.list | "
    f"sed 's#deb https://#deb [signed-by={_KEYRING}] https://#' | "
    "sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"
)
INSTALL_TOOLKIT = f"{_TOOLKIT_LIST} && sudo apt-get update && sudo apt-get install -y nvidia-container-toolkit"
"""Debian and Ubuntu do not have the toolkit in their own repositories."""


@cure
def apt_source_twice(context: LogContext) -> CureResult:
    """Suggest removing the files that older guides of the container toolkit wrote."""
    if "compute/cuda/repos" in context.line:
        return CureResult(command=f"sudo rm -f {_IMAGE_LISTS} && sudo apt-get update")
    return CureResult(command=f"{_OLD_LISTS} && sudo apt-get update" if "nvidia.github.io" in context.line else "")


_OLD_LISTS = "sudo rm -f " + " ".join(
    f"/etc/apt/sources.list.d/{name}.list"
    for name in ("libnvidia-container", "nvidia-docker", "nvidia-container-runtime")
)


@cure
def image_not_found(context: LogContext) -> CureResult:
    """Suggest a command that tries a GPU in a container, if the image of an old guide is gone."""
    asked = re.match(r"docker: Error response", context.line) and re.search(r"nvidia/cuda:[\w.]*-?base", context.line)
    return CureResult(command="docker run --rm --gpus all ubuntu nvidia-smi" if asked else "")


_IMAGE_LISTS = "/etc/apt/sources.list.d/cuda.list /etc/apt/sources.list.d/nvidia-ml.list"
"""What the images of CUDA before April 2022 have."""


@cure
def apt_no_release(context: LogContext) -> CureResult:
    """Suggest removing a dead address from apt's lists, if the file that names it is known."""
    found = re.search(r"The repository 'https?://([^'\s]+)", context.line)
    url, update = found[1] if found else "", "sudo apt-get update"
    if "nvidia.github.io" in url:
        remedy = "use the NVIDIA Container Toolkit repository that supports all system releases"
        return CureResult(remedy=remedy, command=f"{_OLD_LISTS}; {_TOOLKIT_LIST} && {update}")
    if found := re.search(r"ppa\.launchpad\w*\.net/([\w.+-]+)/([\w.+-]+)/", url):
        return CureResult(command=f"sudo add-apt-repository -y --remove ppa:{found[1]}/{found[2]} && {update}")
    if "compute/machine-learning/" in url:
        return CureResult(command=f"sudo rm -f {_IMAGE_LISTS} && {update}")
    if url.endswith("compute/cuda/repos//"):
        lists = "$(grep -rlF 'compute/cuda/repos//' /etc/apt/sources.list.d)"
        return CureResult(command=f"sudo sed -i '\\|compute/cuda/repos//|d' {lists} && {update}")
    return CureResult()


@cure
def apt_package(context: LogContext) -> CureResult:
    """Suggest the present name of a system package, or the NVIDIA repository that has it."""
    name = context.groups.get("name", "")
    if name.startswith(("nvidia-container", "nvidia-docker", "libnvidia-container")):
        remedy = "add the repository of the NVIDIA Container Toolkit first"
        return CureResult(remedy=remedy, command=f"{_TOOLKIT_LIST} && sudo apt-get update")
    if name == "nvidia-cuda-toolkit":
        remedy = (
            "allow the part of the system's repositories that has it: contrib and non-free in Debian, multiverse in "
        )
        return CureResult(remedy=f"{remedy}Ubuntu; or take the toolkit from NVIDIA's repository or a devel image")
    if re.fullmatch(r"cuda-toolkit-dev(?:el)?|cuda-(?:nvcc|dev|devel|tools)", name):
        remedy = (
            f"NVIDIA has no package {name}: add its repository and install cuda-toolkit-X-Y, of one release of CUDA"
        )
        return CureResult(remedy=remedy, command="")
    if "nvidia" in name or name.startswith(("cuda", "libcudnn", "libnccl", "libnvinfer", "tensorrt", "datacenter-gpu")):
        return CureResult(remedy="add the repository of NVIDIA first: the package cuda-keyring does it")
    renamed = provider(context, "renamed", name)
    if (
        not renamed and "has no installation candidate" in context.line
    ):  # the lists are there, and name no release of it
        return CureResult(remedy=f"{name} is not in the repositories of this system release: install its replacement")
    wanted = renamed or name
    return CureResult(command=f"sudo apt-get update && sudo apt-get install -y {wanted}" if wanted else "")


@cure
def apt_refused(context: LogContext) -> CureResult:
    """Suggest the fix for an error of apt itself: no root, an interrupted dpkg, or old package lists."""
    if re.search(r"Permission denied|are you root", context.line):
        return CureResult(remedy="run apt as root, with sudo before the command")
    if "dpkg was interrupted" in context.line:
        return CureResult(remedy="let dpkg finish what was interrupted", command="sudo dpkg --configure -a")
    if re.search(r"Failed to fetch|404 +Not Found|Hash Sum mismatch|some archives", context.line):
        return CureResult(remedy="fetch the lists of packages again", command="sudo apt-get update")
    return CureResult()


@cure
def apt_key(context: LogContext) -> CureResult:
    """Suggest the key of NVIDIA's repository that the line names."""
    if "nvidia.github.io" in context.line or "DDCAE044F796ECB0" in context.line:
        return CureResult(command=f"{_TOOLKIT_KEY} && sudo chmod 644 {_KEYRING}")
    if "A4B469963BF863CC" not in context.line and not _CUDA_REPOSITORY.search(context.line):
        return CureResult()
    if in_docker_build(context) and "apt-cuda" not in context.mentions:
        remedy = "take the old lists out of the image before the first apt-get update, or use a base image of today"
        return CureResult(remedy=remedy, command=f"rm -f {_IMAGE_LISTS}")
    found = _CUDA_REPOSITORY.search(context.line)
    system = found[1] if found else "$(. /etc/os-release; echo $ID$VERSION_ID | tr -d .)"
    package = f"https://developer.download.nvidia.com/compute/cuda/repos/{system}/x86_64/cuda-keyring_1.1-1_all.deb"
    return CureResult(command=f"curl -fsSLO {package} && sudo dpkg -i cuda-keyring_1.1-1_all.deb")


@cure
def rpm_key(context: LogContext) -> CureResult:
    """Suggest the key of the NVIDIA Container Toolkit; the key of CUDA's repository differs by system."""
    of_toolkit = re.search(r"nvidia-(?:container|docker)|libnvidia-container", context.line)
    return CureResult(command=f"sudo rpm --import {_TOOLKIT}/gpgkey" if of_toolkit else "")


@cure
def apt_dependencies(context: LogContext) -> CureResult:
    """Suggest what apt proposes, if an earlier installation was left incomplete."""
    if re.search(r"cuda-drivers|nvidia-(?:driver|dkms)", context.line) and (found := of_wsl(context)):
        return found
    if context.mentions.get("newer"):
        asked = context.mentions["newer"]
        says = f"the packages need glibc {asked}: their repository is for a newer release of the distribution"
        return CureResult(because=(says,), remedy="use the repository for this release instead, and run apt update")
    if context.mentions.get("hint") not in ("fix-broken", "-f") and "dpkg: dependency problems" not in context.line:
        if "toolkit" not in context.mentions:
            if "uninstallable" not in context.mentions:
                return _driver_package_cure(context)
            return _of_another_release(context)
        name = context.mentions["toolkit"].replace("cuda", "cuda-toolkit")
        remedy = f"install {name} instead of cuda, which would install another driver beside the existing one"
        return CureResult(remedy=remedy, command=f"sudo apt-get install -y {name}")
    remedy = (
        "let apt finish the interrupted installation; if it cannot, keep one "
        "source of the packages named below, and remove those of the other"
    )
    return CureResult(remedy=remedy, command="sudo apt-get --fix-broken install -y")


def of_wsl(context: LogContext) -> CureResult | None:
    """Suggest to remove a driver for Linux from WSL, whose kernel in the log says that it is Microsoft's."""
    if "wsl-kernel" not in context.mentions:
        return None
    says = f"the kernel {context.mentions['wsl-kernel']} is that of WSL 2, where the driver is the one of Windows"
    remedy = "remove the driver's packages from this Linux, and install cuda-toolkit there, which brings no driver"
    return CureResult(
        because=(says,),
        remedy=remedy,
        command="sudo apt-get purge -y '^cuda-drivers' '^nvidia-(driver|dkms|kernel)-' && sudo apt-get autoremove -y",
    )


def _of_another_release(context: LogContext) -> CureResult:
    """The repository of this release of the system, where a package needs one that only another release has."""
    says = f"{context.mentions['uninstallable']} is not in the repositories of this system"
    remedy = (
        "enable the part of the repository that has it (contrib and non-free in Debian, universe and multiverse in "
        "Ubuntu); if none has it, the packages are for another release of the system"
    )
    return CureResult(because=(says,), remedy=remedy)


def _driver_package_cure(context: LogContext) -> CureResult:
    """Suggest a new installation of Ubuntu's driver, if packages of two releases block each other."""
    name = context.mentions.get("driver-package")
    if not name:
        return CureResult()
    remedy = (
        "remove all driver packages, including those of other releases and "
        "repositories, and install only {name}; the display may need a restart"
    )
    purge = "sudo apt-get purge -y '^nvidia-.*' '^libnvidia-.*'"
    return CureResult(remedy=remedy, command=f"{purge} && sudo apt-get update && sudo apt-get install -y {name}")


@cure
def git_ownership(context: LogContext) -> CureResult:
    """Suggest to trust the repository that the line names."""
    folder = quote(context.groups["name"])
    fetch = f"git -C {folder} submodule update --init --recursive"
    return CureResult(command=f"git config --global --add safe.directory {folder} && {fetch}")


@cure
def cmake_words(context: LogContext) -> CureResult:
    """Quote the message of CMake below the first line of its error."""
    words = context.mentions.get("cmake")
    return CureResult(because=(f"it says: {words}",)) if words else CureResult()


@cure
def tree_words(context: LogContext) -> CureResult:
    """What pixi or rattler-build says in the lines below the cross."""
    words = context.mentions.get("cross")
    return CureResult(because=(f"it says: {words}",) if words else ())


@cure
def program(context: LogContext) -> CureResult:
    """The package of Debian and Ubuntu that has a program."""
    package = provider(context, "program", context.groups.get("name", "").rpartition("/")[2])
    return CureResult(command=f"sudo apt-get update && sudo apt-get install -y {package}") if package else CureResult()


@cure
def meson(context: LogContext) -> CureResult:
    """A newer Meson, or the package of the system that has the library or the program."""
    if re.search(r"Meson version is|requires? >= ?[0-9.]+ of meson", context.line):
        return CureResult(command=f"{PIP} install -U meson")
    name = re.search(r"(?:Dependency(?: lookup for)?|Program|library) [\"']?([\w.+-]{2,40})", context.line)
    kinds = ("cmake", "link", "program") if name else ()
    package = next(filter(None, (provider(context, kind, name[1]) for kind in kinds if name)), "")
    return CureResult(command=f"sudo apt-get install -y {package}") if package else CureResult()


@cure
def swig(context: LogContext) -> CureResult:
    """A newer SWIG, where the one that is there does not know an option."""
    if "Unrecognized option" not in context.line:
        return CureResult()
    return CureResult(remedy="install a newer SWIG, and build again", command=f"{PIP} install -U swig")


@cure
def dnf_dependencies(context: LogContext) -> CureResult:
    """Suggest an update of kernel packages, or the repository with what is missing."""
    if awaited := context.mentions.get("prebuilt"):
        says = f"the repository has no {awaited} yet, the prebuilt module for the newest kernel"
        remedy = "keep the present kernel until it has one, or take the stream whose module DKMS builds on the machine"
        return CureResult(because=(says,), remedy=remedy)
    if "kernel" in context.line:
        remedy = "update the kernel and its packages to the same release, and reboot; a mirror may be some hours behind"
        return CureResult(remedy=remedy, command="sudo dnf upgrade --refresh -y 'kernel*'")
    if context.mentions.get("hint") == "allowerasing" and "transaction" in context.mentions:
        remedy = "let dnf replace the conflicting packages: it lists them, and asks before it removes any"
        asking = re.sub(r" (?:-y|--assumeyes)\b", "", context.mentions["transaction"])
        return CureResult(remedy=remedy, command="" if in_docker_build(context) else f"sudo {asking} --allowerasing")
    release = re.search(r"\.(?:el|rhel)([0-9])", context.line)
    lacks = context.mentions.get("lacks", "")
    if release and (lacks in _EPEL_PACKAGES or re.search(r"nothing provides dkms\b|Package: \S*-dkms-", context.line)):
        return CureResult(command=f"sudo {'yum' if release[1] in '67' else 'dnf'} install -y epel-release")
    if lacks.startswith(("nvidia", "kmod-nvidia", "cuda")):
        says = f"the repository has no {lacks} of that release"
        remedy = "renew the lists (yum clean all), or install the release before; a repository may be some hours behind"
        return CureResult(because=(says,), remedy=remedy)
    return CureResult()


_EPEL_PACKAGES = frozenset({"dkms", "ocl-icd", "opencl-filesystem", "vulkan-filesystem", "libvdpau", "egl-wayland"})
"""What the packages of the driver need and Red Hat does not have."""


@cure
def pacman(context: LogContext) -> CureResult:
    """Explain files that no package owns: NVIDIA's installer wrote them, and an update does not remove them."""
    if "conflicting files" not in context.line:
        return CureResult()
    remedy = (
        "run pacman -Qo on the files named below; if no package "
        "owns them, NVIDIA's installer created them: sudo nvidia-installer --uninstall removes its driver"
    )
    return CureResult(remedy=remedy, command="")


@cure
def dnf_modular(context: LogContext) -> CureResult:
    """Suggest the module stream of NVIDIA's repository; RPM Fusion needs none."""
    if "rpmfusion" in context.line or "xorg-x11-drv-nvidia" in context.line:
        return CureResult(command="sudo dnf module disable -y nvidia-driver")
    if "cuda-" in context.line:
        stream = "sudo dnf module enable -y nvidia-driver:open-dkms"
        return CureResult(command=f"sudo dnf module reset -y nvidia-driver && {stream}")
    return CureResult()


@cure
def own_environment(context: LogContext) -> CureResult:
    """Suggest an environment of the user's own, of the kind that was refused."""
    if re.search(r"(?<!Environment)NotWritableError: ", context.line):
        remedy = "keep conda's packages in your own directory"
        return CureResult(remedy=remedy, command="export CONDA_PKGS_DIRS=~/.conda/pkgs")
    conda = re.search(r"EnvironmentNotWritable|NoWritable|target environment", context.line)
    return CureResult(
        command="conda create -y -n mine python pip && conda activate mine"
        if conda
        else "python3 -m venv ~/venv && . ~/venv/bin/activate"
    )


@cure
def registry(context: LogContext) -> CureResult:
    """Suggest a login at the registry that refused the request."""
    if not re.search(r"toomanyrequests|unauthorized", context.line):
        return CureResult()
    found = re.search(r"\b((?:nvcr|ghcr|quay)\.io|[\w.-]{1,60}\.azurecr\.io)\b", context.line)
    return CureResult(command=f"docker login {found[1]}" if found else "docker login")


@cure
def disk(context: LogContext) -> CureResult:
    """Suggest another folder for temporary files, or pruning docker's build cache."""
    if "slurmstepd" in context.line or "pyxis" in context.line:
        return CureResult(remedy="let enroot unpack on a large disk: set ENROOT_TEMP_PATH and ENROOT_CACHE_PATH")
    if in_docker_build(context):
        return CureResult(command="docker builder prune -f")
    if "boost::filesystem" in context.line:  # of NVIDIA's runfile, which reads no TMPDIR
        remedy = "free the disk that the line names: the installer needs twice its own size; --tmpdir moves its files"
        return CureResult(remedy=remedy, command="")
    if re.search(
        r"install packages due to|pip|tmp|/include/|error while writing generated|when writing output", context.line
    ):
        return CureResult(command="mkdir -p ~/tmp && export TMPDIR=~/tmp PIP_NO_CACHE_DIR=1")
    return CureResult()


@cure
def certificate(context: LogContext) -> CureResult:
    """Explain an expired or missing certificate: check the clock, or install ca-certificates."""
    if "Could not handshake" in context.line:  # so apt speaks
        remedy = (
            "put the certificate of the proxy into /usr/local/share/ca-certificates and run update-ca-certificates; an "
            "image without the package ca-certificates knows none at all, and takes https from no repository"
        )
        return CureResult(remedy=remedy, command="")
    if "Problem with the SSL CA cert" in context.line:  # so the curl of yum and dnf speaks
        remedy = "install the package ca-certificates again: curl cannot read the file of certificates"
        return CureResult(
            remedy=remedy, command="sudo yum reinstall -y ca-certificates" if "[Errno 14]" in context.line else ""
        )
    if "has expired" not in context.line:
        return CureResult()
    remedy = "check this machine's clock (date); if it is right, the server must renew its certificate"
    return CureResult(remedy=remedy, command="")


@cure
def hashes(context: LogContext) -> CureResult:
    """Suggest making a lock again whose hashes are of other files."""
    if not re.search(r"Pipfile\.lock|poetry\.lock|uv\.lock|pdm\.lock", context.line):
        return CureResult()
    remedy = "make the lock again from the index that the installation uses: its hashes are of another index's files"
    return CureResult(remedy=remedy, command="")


@cure
def download(context: LogContext) -> CureResult:
    """Suggest the setting of a tool for a slow network or an interrupted download."""
    if _NAME_RESOLUTION_FAILED.search(context.line):  # no patience finds a host that has no address
        return CureResult(command="")
    if re.search(r"\b404\b", context.line):
        remedy = "compare the address with the publisher's page: the server has no such file, and it may have moved"
        return CureResult(remedy=remedy, command="")
    return CureResult(command=next((command for words, command in _SETTINGS if re.search(words, context.line)), ""))


_NAME_RESOLUTION_FAILED = regex(
    r"Name or service not known|[Nn]ame resolution|Failed to resolve|getaddrinfo|Could not resolve|"
    r"Network is unreachable"
)
_SETTINGS = (
    (r"UV_HTTP_TIMEOUT", "export UV_HTTP_TIMEOUT=600"),
    (r"pip\._vendor|pythonhosted|/simple/|download\.pytorch\.org.*[Tt]imed out", "export PIP_DEFAULT_TIMEOUT=120"),
    (
        (
            r"/pkgs/|InvalidArchiveE|ChecksumMismatch|(?:CondaVerification|Safety)Error|libmamba|"
            r"did not match Content-|Found incorrect download|sum doesn't match"
        ),
        "conda clean --packages --tarballs -y",
    ),
    (r"CondaHTTPError.*(?:CONNECTION FAILED|000)", "conda config --set remote_read_timeout_secs 600"),
    (r"RPC failed", "git config --global http.postBuffer 524288000"),
)


@cure
def few_jobs(context: LogContext) -> CureResult:
    """Fewer jobs for make, which does not read MAX_JOBS."""
    of_python = {"building", "isolated"} & context.mentions.keys() or "torch" in context.frameworks
    return CureResult() if of_python or "make" not in context.mentions else CureResult(command="make -j2")


_BUILD = r"pip3? install|setup\.py|\b(?:make|cmake|ninja)\b|-m build"


@cure
def host_memory(context: LogContext) -> CureResult:
    """Suggest pip without its cache, which keeps a large wheel in memory."""
    if re.search(r"\b(?:Error|exit) code: -9", context.line):
        remedy = "run pip again without its cache, or give the machine or container more memory"
        return CureResult(remedy=remedy, command="export PIP_NO_CACHE_DIR=1")
    if in_docker_build(context) and re.search(r"exit code: 137", context.line) and re.search(_BUILD, context.line):
        return CureResult(remedy="build with fewer parallel jobs", command="export MAX_JOBS=2")
    of_pip = context.frame is not None and context.frame.package == "pip"
    fetched = context.mentions.get("building") and not {"script", "importing"} & context.mentions.keys()
    if not of_pip and not (fetched and context.line.strip() == "Killed"):
        return CureResult()
    remedy = "run pip without its cache, or give the machine or container more memory"
    return CureResult(
        remedy=remedy, command=f"{PIP} install --no-cache-dir {context.mentions.get('building') or 'torch'}"
    )
