"""The system around the environment: packages of the distribution, disks, downloads, registries."""

from __future__ import annotations

import re

from cuenv.core.regex import regex
from cuenv.diagnosis.cures.case import Joined, LogContext, in_image, join
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider

_REPOSITORY = regex(r"/compute/cuda/repos/([a-z]{1,10}[0-9]{1,4})/")
_RING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
_TOOLKIT = "https://nvidia.github.io/libnvidia-container"
_TOOLKIT_KEY = f"curl -fsSL {_TOOLKIT}/gpgkey | sudo gpg --dearmor --yes -o {_RING}"
_TOOLKIT_LIST = (
    f"{_TOOLKIT_KEY} && curl -fsSL {_TOOLKIT}/stable/deb/nvidia-container-toolkit.list | "
    f"sed 's#deb https://#deb [signed-by={_RING}] https://#' | "
    "sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"
)


@join
def apt_source_twice(case: LogContext) -> Joined:
    """The files that older guides of the container toolkit wrote; what others wrote is not known."""
    if "compute/cuda/repos" in case.line:
        return Joined(command=f"sudo rm -f {_IMAGE_LISTS} && sudo apt-get update")
    return Joined(command=f"{_OLD_LISTS} && sudo apt-get update" if "nvidia.github.io" in case.line else "")


_OLD_LISTS = "sudo rm -f " + " ".join(
    f"/etc/apt/sources.list.d/{name}.list"
    for name in ("libnvidia-container", "nvidia-docker", "nvidia-container-runtime")
)


@join
def image_not_found(case: LogContext) -> Joined:
    """What tries a GPU in a container, where the tag of the old guide is gone."""
    asked = re.match(r"docker: Error response", case.line) and re.search(r"nvidia/cuda:[\w.]*-?base", case.line)
    return Joined(command="docker run --rm --gpus all ubuntu nvidia-smi" if asked else "")


_IMAGE_LISTS = "/etc/apt/sources.list.d/cuda.list /etc/apt/sources.list.d/nvidia-ml.list"
"""What the images of CUDA before April 2022 have."""


@join
def apt_no_release(case: LogContext) -> Joined:
    """What takes an address out of apt's lists at which nothing is, where it is known which file names it."""
    found = re.search(r"The repository 'https?://([^'\s]+)", case.line)
    url, update = found[1] if found else "", "sudo apt-get update"
    if "nvidia.github.io" in url:
        remedy = "use the NVIDIA Container Toolkit repository that supports all system releases"
        return Joined(remedy=remedy, command=f"{_OLD_LISTS}; {_TOOLKIT_LIST} && {update}")
    if found := re.search(r"ppa\.launchpad\w*\.net/([\w.+-]+)/([\w.+-]+)/", url):
        return Joined(command=f"sudo add-apt-repository -y --remove ppa:{found[1]}/{found[2]} && {update}")
    if "compute/machine-learning/" in url:
        return Joined(command=f"sudo rm -f {_IMAGE_LISTS} && {update}")
    if url.endswith("compute/cuda/repos//"):
        lists = "$(grep -rlF 'compute/cuda/repos//' /etc/apt/sources.list.d)"
        return Joined(command=f"sudo sed -i '\\|compute/cuda/repos//|d' {lists} && {update}")
    return Joined()


@join
def apt_package(case: LogContext) -> Joined:
    """A package of the system under its name of today; what NVIDIA has is found in NVIDIA's repository alone."""
    name = case.told.get("name", "")
    if name.startswith(("nvidia-container", "nvidia-docker", "libnvidia-container")):
        remedy = "add the repository of the NVIDIA Container Toolkit first"
        return Joined(remedy=remedy, command=f"{_TOOLKIT_LIST} && sudo apt-get update")
    if name == "nvidia-cuda-toolkit":
        remedy = (
            "allow the part of the system's repositories that has it: contrib and non-free in Debian, multiverse in "
        )
        return Joined(remedy=f"{remedy}Ubuntu; or take the toolkit from NVIDIA's repository or a devel image")
    if re.fullmatch(r"cuda-toolkit-dev(?:el)?|cuda-(?:nvcc|dev|devel|tools)", name):
        remedy = (
            f"NVIDIA has no package {name}: add its repository and install cuda-toolkit-X-Y, of one release of CUDA"
        )
        return Joined(remedy=remedy, command="")
    if "nvidia" in name or name.startswith(("cuda", "libcudnn", "libnccl", "libnvinfer", "tensorrt", "datacenter-gpu")):
        return Joined(remedy="add the repository of NVIDIA first: the package cuda-keyring does it")
    renamed = provider(case, "renamed", name)
    if not renamed and "has no installation candidate" in case.line:  # the lists are there, and name no release of it
        return Joined(remedy=f"{name} is not in the repositories of this system release: install its replacement")
    wanted = renamed or name
    return Joined(command=f"sudo apt-get update && sudo apt-get install -y {wanted}" if wanted else "")


@join
def apt_refused(case: LogContext) -> Joined:
    """What apt itself could not do: without root it does nothing, and lists of packages that are old are fetched."""
    if re.search(r"Permission denied|are you root", case.line):
        return Joined(remedy="run apt as root, with sudo before the command")
    if re.search(r"[Cc]ould not get lock|is another process using it", case.line):
        return Joined(remedy="wait until the other apt or dpkg has ended (the line may name it), and try again")
    if re.search(r"Failed to fetch|404 +Not Found|Hash Sum mismatch|some archives", case.line):
        return Joined(remedy="fetch the lists of packages again", command="sudo apt-get update")
    return Joined()


@join
def apt_key(case: LogContext) -> Joined:
    """The key of NVIDIA's repository that the line names; other repositories have other keys."""
    if "nvidia.github.io" in case.line or "DDCAE044F796ECB0" in case.line:
        return Joined(command=f"{_TOOLKIT_KEY} && sudo chmod 644 {_RING}")
    if "A4B469963BF863CC" not in case.line and not _REPOSITORY.search(case.line):
        return Joined()
    found = _REPOSITORY.search(case.line)
    system = found[1] if found else "$(. /etc/os-release; echo $ID$VERSION_ID | tr -d .)"
    package = f"https://developer.download.nvidia.com/compute/cuda/repos/{system}/x86_64/cuda-keyring_1.1-1_all.deb"
    return Joined(command=f"curl -fsSLO {package} && sudo dpkg -i cuda-keyring_1.1-1_all.deb")


@join
def rpm_key(case: LogContext) -> Joined:
    """The key of the NVIDIA Container Toolkit; that of CUDA's repository differs from system to system."""
    of_toolkit = re.search(r"nvidia-(?:container|docker)|libnvidia-container", case.line)
    return Joined(command=f"sudo rpm --import {_TOOLKIT}/gpgkey" if of_toolkit else "")


@join
def apt_dependencies(case: LogContext) -> Joined:
    """What apt itself proposes, where an earlier installation was left half done."""
    if case.mentions.get("newer"):
        asked = case.mentions["newer"]
        says = f"the packages need glibc {asked}: their repository is for a newer release of the distribution"
        return Joined(because=(says,), remedy="use the repository for this release instead, and run apt update")
    if case.mentions.get("hint") not in ("fix-broken", "-f") and "dpkg: dependency problems" not in case.line:
        if "toolkit" not in case.mentions:
            return _driver_packages(case)
        name = case.mentions["toolkit"].replace("cuda", "cuda-toolkit")
        remedy = f"install {name} instead of cuda, which would install another driver beside the existing one"
        return Joined(remedy=remedy, command=f"sudo apt-get install -y {name}")
    remedy = (
        "let apt finish the interrupted installation; if it cannot, keep one "
        "source of the packages named below, and remove those of the other"
    )
    return Joined(remedy=remedy, command="sudo apt-get --fix-broken install -y")


def _driver_packages(case: LogContext) -> Joined:
    """The driver of Ubuntu anew, where packages of two of its releases hold each other."""
    name = case.mentions.get("driver-package")
    if not name:
        return Joined()
    remedy = (
        "remove all driver packages, including those of other releases and "
        "repositories, and install only {name}; the display may need a restart"
    )
    purge = "sudo apt-get purge -y '^nvidia-.*' '^libnvidia-.*'"
    return Joined(remedy=remedy, command=f"{purge} && sudo apt-get update && sudo apt-get install -y {name}")


@join
def cmake_words(case: LogContext) -> Joined:
    """What CMake says below the head of its error."""
    words = case.mentions.get("cmake")
    return Joined(because=(f"it says: {words}",)) if words else Joined()


@join
def dnf_dependencies(case: LogContext) -> Joined:
    """Packages of the kernel that are older than the kernel that is there; a repository that brings what lacks."""
    if "kernel" in case.line:
        remedy = "update the kernel and its packages to the same release, and reboot; a mirror may be some hours behind"
        return Joined(remedy=remedy, command="sudo dnf upgrade --refresh -y 'kernel*'")
    if case.mentions.get("hint") == "allowerasing" and "transaction" in case.mentions:
        remedy = "let dnf replace the conflicting packages: it lists them, and asks before it removes any"
        return Joined(remedy=remedy, command=f"sudo {case.mentions['transaction']} --allowerasing")
    release = re.search(r"\.(?:el|rhel)([0-9])", case.line)
    lacks = case.mentions.get("lacks", "")
    if release and (lacks in _OF_EPEL or re.search(r"nothing provides dkms\b|Package: \S*-dkms-", case.line)):
        return Joined(command=f"sudo {'yum' if release[1] in '67' else 'dnf'} install -y epel-release")
    if lacks.startswith(("nvidia", "kmod-nvidia", "cuda")):
        says = f"the repository has no {lacks} of that release"
        remedy = "renew the lists (yum clean all), or install the release before; a repository may be some hours behind"
        return Joined(because=(says,), remedy=remedy)
    return Joined()


_OF_EPEL = frozenset({"dkms", "ocl-icd", "opencl-filesystem", "vulkan-filesystem", "libvdpau", "egl-wayland"})
"""What the packages of the driver need and Red Hat does not have."""


@join
def pacman(case: LogContext) -> Joined:
    """Files that no package owns are those of the driver's own installer, which renewing does not remove."""
    if "conflicting files" not in case.line:
        return Joined()
    remedy = (
        "run pacman -Qo on the files named below; if no package "
        "owns them, NVIDIA's installer created them: sudo nvidia-installer --uninstall removes its driver"
    )
    return Joined(remedy=remedy, command="")


@join
def dnf_modular(case: LogContext) -> Joined:
    """The stream of NVIDIA's own repository; RPM Fusion brings the driver without one."""
    if "rpmfusion" in case.line or "xorg-x11-drv-nvidia" in case.line:
        return Joined(command="sudo dnf module disable -y nvidia-driver")
    if "cuda-" in case.line:
        stream = "sudo dnf module enable -y nvidia-driver:open-dkms"
        return Joined(command=f"sudo dnf module reset -y nvidia-driver && {stream}")
    return Joined()


@join
def own_environment(case: LogContext) -> Joined:
    """An environment of the user's own, of the kind that was refused."""
    if re.search(r"(?<!Environment)NotWritableError: ", case.line):
        remedy = "keep conda's packages in your own directory"
        return Joined(remedy=remedy, command="export CONDA_PKGS_DIRS=~/.conda/pkgs")
    conda = re.search(r"EnvironmentNotWritable|NoWritable|target environment", case.line)
    return Joined(
        command="conda create -y -n mine python pip && conda activate mine"
        if conda
        else "python3 -m venv ~/venv && . ~/venv/bin/activate"
    )


@join
def registry(case: LogContext) -> Joined:
    """The registry that wants an account."""
    if not re.search(r"toomanyrequests|unauthorized", case.line):
        return Joined()
    found = re.search(r"\b((?:nvcr|ghcr|quay)\.io|[\w.-]{1,60}\.azurecr\.io)\b", case.line)
    return Joined(command=f"docker login {found[1]}" if found else "docker login")


@join
def disk(case: LogContext) -> Joined:
    """The folder of temporary files elsewhere, where pip or a compiler fills it; docker's disk, where it builds."""
    if "slurmstepd" in case.line or "pyxis" in case.line:
        return Joined(remedy="let enroot unpack on a large disk: set ENROOT_TEMP_PATH and ENROOT_CACHE_PATH")
    if in_image(case):
        return Joined(command="docker builder prune -f")
    if re.search(
        r"install packages due to|pip|tmp|/include/|error while writing generated|when writing output", case.line
    ):
        return Joined(command="mkdir -p ~/tmp && export TMPDIR=~/tmp PIP_NO_CACHE_DIR=1")
    return Joined()


@join
def certificate(case: LogContext) -> Joined:
    """A certificate that has expired is not of this machine: only its clock may be."""
    if "Could not handshake" in case.line:  # so apt speaks
        remedy = (
            "put the certificate of the proxy into /usr/local/share/ca-certificates and run update-ca-certificates; an "
            "image without the package ca-certificates knows none at all, and takes https from no repository"
        )
        return Joined(remedy=remedy, command="")
    if "Problem with the SSL CA cert" in case.line:  # so the curl of yum and dnf speaks
        remedy = "install the package ca-certificates again: curl cannot read the file of certificates"
        return Joined(
            remedy=remedy, command="sudo yum reinstall -y ca-certificates" if "[Errno 14]" in case.line else ""
        )
    if "has expired" not in case.line:
        return Joined()
    remedy = "check this machine's clock (date); if it is right, the server must renew its certificate"
    return Joined(remedy=remedy, command="")


@join
def hashes(case: LogContext) -> Joined:
    """A lock whose hashes are of other files is made anew: no cache is at fault where the lock is named."""
    if not re.search(r"Pipfile\.lock|poetry\.lock|uv\.lock|pdm\.lock", case.line):
        return Joined()
    remedy = "make the lock again from the index that the installation uses: its hashes are of another index's files"
    return Joined(remedy=remedy, command="")


@join
def download(case: LogContext) -> Joined:
    """What the tool of the line offers against a slow network, or a download that was cut."""
    if _UNNAMED.search(case.line):  # no patience finds a host that has no address
        return Joined(command="")
    if re.search(r"\b404\b", case.line):
        remedy = "compare the address with the publisher's page: the server has no such file, and it may have moved"
        return Joined(remedy=remedy, command="")
    return Joined(command=next((command for words, command in _DOWNLOADS if re.search(words, case.line)), ""))


_UNNAMED = regex(
    r"Name or service not known|[Nn]ame resolution|Failed to resolve|getaddrinfo|Could not resolve|"
    r"Network is unreachable"
)
_DOWNLOADS = (
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


_BUILDS = r"pip3? install|setup\.py|\b(?:make|cmake|ninja)\b|-m build"


@join
def host_memory(case: LogContext) -> Joined:
    """A pip that ends while it fetches a large wheel keeps the wheel in memory for its cache."""
    if re.search(r"\b(?:Error|exit) code: -9", case.line):
        remedy = "run pip again without its cache, or give the machine or container more memory"
        return Joined(remedy=remedy, command="export PIP_NO_CACHE_DIR=1")
    if in_image(case) and re.search(r"exit code: 137", case.line) and re.search(_BUILDS, case.line):
        return Joined(
            remedy="build with fewer parallel jobs: ENV MAX_JOBS=2 before the step", command="export MAX_JOBS=2"
        )
    of_pip = case.raised is not None and case.raised.package == "pip"
    fetched = case.mentions.get("building") and not {"script", "importing"} & case.mentions.keys()
    if not of_pip and not (fetched and case.line.strip() == "Killed"):
        return Joined()
    remedy = "run pip without its cache, or give the machine or container more memory"
    return Joined(remedy=remedy, command=f"{PIP} install --no-cache-dir {case.mentions.get('building') or 'torch'}")
