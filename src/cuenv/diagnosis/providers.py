"""Which package provides what a log misses: a module of Python, a shared library, a header.

The names of modules and packages differ often enough that none is guessed: an unknown module may be one of the
program's own, and a package of that name on an index may be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cuenv.core.regex import regex
from cuenv.diagnosis.cures import again, package_in, pip_of
from cuenv.diagnosis.on_host import Joined, LogContext, torch_of

_ALIKE = frozenset(
    [
        "accelerate",
        "albumentations",
        "av",
        "bitsandbytes",
        "boto3",
        "cython",
        "datasets",
        "decord",
        "deepspeed",
        "diffusers",
        "easydict",
        "einops",
        "evaluate",
        "fairscale",
        "fire",
        "fsspec",
        "ftfy",
        "fvcore",
        "gdown",
        "gguf",
        "gradio",
        "gsplat",
        "h5py",
        "imageio",
        "iopath",
        "jax",
        "joblib",
        "kornia",
        "lightning",
        "lightgbm",
        "lightning_fabric",
        "llvmlite",
        "lmdb",
        "loguru",
        "lpips",
        "matplotlib",
        "mmengine",
        "moviepy",
        "natsort",
        "networkx",
        "ninja",
        "nltk",
        "numba",
        "numpy",
        "omegaconf",
        "onnx",
        "open3d",
        "openai",
        "optimum",
        "optuna",
        "packaging",
        "pandas",
        "peft",
        "plyfile",
        "polars",
        "psutil",
        "pyarrow",
        "pybind11",
        "pycocotools",
        "pydantic",
        "pytorch_lightning",
        "pytorch_metric_learning",
        "qwen_vl_utils",
        "ray",
        "regex",
        "requests",
        "rich",
        "sacrebleu",
        "safetensors",
        "scipy",
        "seaborn",
        "sentence_transformers",
        "sentencepiece",
        "setuptools",
        "shapely",
        "six",
        "sympy",
        "tabulate",
        "tensorboard",
        "tensorboardX",
        "tensorflow",
        "termcolor",
        "thop",
        "tiktoken",
        "timm",
        "tokenizers",
        "toml",
        "torchmetrics",
        "tqdm",
        "transformers",
        "trimesh",
        "triton",
        "trl",
        "tyro",
        "vector_quantize_pytorch",
        "viser",
        "vllm",
        "wandb",
        "wheel",
        "xformers",
        "xgboost",
        "yacs",
        "yapf",
        "tensorrt",
    ]
)
"""Modules whose package on PyPI has their name."""
_NAMES: Mapping[str, str] = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cupy": "cupy-cuda{major}x",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "hydra": "hydra-core",
    "IPython": "ipython",
    "magic": "python-magic",
    "OpenGL": "PyOpenGL",
    "PIL": "pillow",
    "pkg_resources": "'setuptools<81'",
    "pycuda": "pycuda",
    "pynvml": "nvidia-ml-py",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "causal_conv1d": "--no-build-isolation causal-conv1d",
    "mamba_ssm": "--no-build-isolation mamba-ssm",
    "clip": "git+https://github.com/openai/CLIP.git",
    "detectron2": "--no-build-isolation git+https://github.com/facebookresearch/detectron2.git",
    "MinkowskiEngine": "--no-build-isolation git+https://github.com/NVIDIA/MinkowskiEngine",
    "nvdiffrast": "--no-build-isolation git+https://github.com/NVlabs/nvdiffrast.git",
    "pytorch3d": "--no-build-isolation git+https://github.com/facebookresearch/pytorch3d.git@stable",
    "segment_anything": "git+https://github.com/facebookresearch/segment-anything.git",
    "tinycudann": "--no-build-isolation git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch",
    "torch_geometric": "torch-geometric",
    "transformer_engine": "--no-build-isolation 'transformer_engine[pytorch]'",
}
"""Modules whose package has another name, or that are built from their sources (the README of each)."""
_OF_PYG = frozenset({"torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv", "pyg_lib"})
_ASK_PYG = (
    "$(python -c \"import torch; v = torch.__version__.split('+')[0].split('.'); "
    "print(v[0] + '.' + v[1] + '.0+cu' + torch.version.cuda.replace('.', ''))\")"
)
_OLD_PYTHON = {
    "imp": "3.11",
    "asyncore": "3.11",
    "asynchat": "3.11",
    "smtpd": "3.11",
    "distutils": "3.11",
} | dict.fromkeys(("cgi", "crypt", "imghdr", "pipes", "telnetlib", "sndhdr", "lib2to3"), "3.12")
"""Modules of the standard library that are gone, and the last Python with them (What's New in Python 3.12, 3.13)."""
_LIBRARIES: Mapping[str, str] = {
    "GL": "libgl1",
    "GLU": "libglu1-mesa",
    "EGL": "libegl1",
    "GLEW": "libglew-dev",
    "OSMesa": "libosmesa6",
    "OpenCL": "ocl-icd-libopencl1",
    "SM": "libsm6",
    "ICE": "libice6",
    "X11": "libx11-6",
    "Xext": "libxext6",
    "Xrender": "libxrender1",
    "aio": "libaio-dev",
    "avcodec": "ffmpeg",
    "avformat": "ffmpeg",
    "avutil": "ffmpeg",
    "crypt": "libcrypt1",
    "curl": "libcurl4",
    "ffi": "libffi-dev",
    "glib-2.0": "libglib2.0-0",
    "gthread-2.0": "libglib2.0-0",
    "gomp": "libgomp1",
    "ibverbs": "libibverbs1",
    "jpeg": "libjpeg62-turbo",
    "mpi": "libopenmpi-dev",
    "mpi_cxx": "libopenmpi-dev",
    "ncurses": "libncurses6",
    "numa": "libnuma1",
    "openblas": "libopenblas0",
    "png16": "libpng16-16",
    "quadmath": "libquadmath0",
    "rdmacm": "librdmacm1",
    "sndfile": "libsndfile1",
    "sox": "libsox-dev",
    "tbb": "libtbb12",
    "tcmalloc": "google-perftools",
    "tinfo": "libtinfo6",
    "vulkan": "libvulkan1",
    "z": "zlib1g",
}
"""Shared libraries without *lib* and *.so*, and the package of Debian and Ubuntu with them (packages.debian.org)."""
_HEADERS: Mapping[str, str] = {
    "boost/": "libboost-all-dev",
    "Eigen/": "libeigen3-dev",
    "eigen3/": "libeigen3-dev",
    "EGL/": "libegl1-mesa-dev",
    "GL/glew.h": "libglew-dev",
    "GL/": "libgl1-mesa-dev",
    "GLFW/": "libglfw3-dev",
    "X11/": "libx11-dev",
    "curl/": "libcurl4-openssl-dev",
    "ffi.h": "libffi-dev",
    "glm/": "libglm-dev",
    "glog/": "libgoogle-glog-dev",
    "gflags/": "libgflags-dev",
    "google/dense_hash_map": "libsparsehash-dev",
    "sparsehash/": "libsparsehash-dev",
    "hdf5.h": "libhdf5-dev",
    "infiniband/": "libibverbs-dev",
    "jpeglib.h": "libjpeg-dev",
    "libaio.h": "libaio-dev",
    "mpi.h": "libopenmpi-dev",
    "numa.h": "libnuma-dev",
    "opencv2/": "libopencv-dev",
    "openssl/": "libssl-dev",
    "png.h": "libpng-dev",
    "rdma/": "librdmacm-dev",
    "sndfile.h": "libsndfile1-dev",
    "tbb/": "libtbb-dev",
    "vulkan/": "libvulkan-dev",
    "zlib.h": "zlib1g-dev",
    **dict.fromkeys(
        ("bits/", "features.h", "limits.h", "linux/", "math.h", "std", "sys/", "unistd.h"), "build-essential"
    ),
}
"""Beginnings of headers, and the package of Debian and Ubuntu that holds them (packages.debian.org)."""
_REPOSITORY = regex(r"/compute/cuda/repos/([a-z]{1,10}[0-9]{1,4})/")
_LIBRARY = regex(r"lib([\w+.-]+?)\.so\b")


def module(case: LogContext) -> Joined:
    """How the package of a module is installed, where that is known."""
    name = case.told.get("module", "")
    if name in _OLD_PYTHON:
        because = (f"{name} was in the standard library up to Python {_OLD_PYTHON[name]}",)
        remedy = f"an environment with Python {_OLD_PYTHON[name]}, or a release of the package that does without {name}"
        return Joined(because=because, remedy=remedy, command=f"conda create -n old-python python={_OLD_PYTHON[name]}")
    wanted = _wanted(case, name)
    if not wanted:
        return Joined()
    remedy = f"install it into the Python that runs: its package is {wanted.split()[-1].strip(chr(39))}"
    if name in _OF_PYG:
        remedy = f"install the wheel of {name} for this torch, from the index of PyG"
    return Joined(remedy=remedy, command=f"{pip_of(case)} install {wanted}")


def _wanted(case: LogContext, name: str) -> str:
    release, cuda = torch_of(case)
    if name in _OF_PYG:
        known = f"{release.major}.{release.minor}.0+cu{cuda.major}{cuda.minor}" if release and cuda else ""
        return f'{name.replace("_", "-")} -f "https://data.pyg.org/whl/torch-{known or _ASK_PYG}.html"'
    if name == "spconv":
        return "spconv-cu118" if cuda and cuda.major == 11 else "spconv-cu120"
    if name in ("mmcv", "mmdet"):
        return f"openmim && mim install {name}"
    found = _NAMES.get(name) or (name.replace("_", "-") if name in _ALIKE else "")
    return found.format(major=cuda.major if cuda else 12)


def library(case: LogContext) -> Joined:
    """The package of the system that holds a shared library."""
    name = case.told.get("file", "")
    name = name if name.startswith("lib") or not name else f"lib{name}.so"
    found = _LIBRARY.search(name)
    stem = found[1] if found else ""
    python = re.fullmatch(r"python(3\.[0-9]{1,2})m?", stem)
    if python:
        return Joined(command=f"sudo apt-get install libpython{python[1]}")
    package = _LIBRARIES.get(stem, "")
    if not package:
        return Joined(
            command=f"find / -name '{name.split('.so')[0]}.so*' -not -path '/proc/*' 2>/dev/null" if name else ""
        )
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the library from conda-forge"
    return Joined(remedy=remedy, command=f"sudo apt-get install {package}")


def link(case: LogContext) -> Joined:
    """The package of the system for linking with a library."""
    package = {
        "aio": "libaio-dev",
        "GL": "libgl-dev",
        "EGL": "libegl-dev",
        "GLEW": "libglew-dev",
        "ibverbs": "libibverbs-dev",
    }
    package |= {
        "numa": "libnuma-dev",
        "mpi": "libopenmpi-dev",
        "openblas": "libopenblas-dev",
        "rdmacm": "librdmacm-dev",
    }
    package |= {
        "ssl": "libssl-dev",
        "crypto": "libssl-dev",
        "z": "zlib1g-dev",
        "stdc++": "g++",
        "gomp": "gcc",
        "ffi": "libffi-dev",
    }
    found = package.get(case.told.get("name", ""), "")
    return Joined(command=f"sudo apt-get install {found}") if found else Joined()


def apt_key(case: LogContext) -> Joined:
    """The keyring of NVIDIA's repository for the system that the line names; other repositories have other keys."""
    found = _REPOSITORY.search(case.line)
    if not found:
        return Joined()
    package = f"https://developer.download.nvidia.com/compute/cuda/repos/{found[1]}/x86_64/cuda-keyring_1.1-1_all.deb"
    return Joined(command=f"curl -fsSLO {package} && sudo dpkg -i cuda-keyring_1.1-1_all.deb")


def symbol(case: LogContext) -> Joined:
    """The package whose file expects a symbol that is not there, built or installed again."""
    package = package_in(case.line)
    if not package:
        return Joined()
    pip = f"{pip_of(case)} install --no-cache-dir --force-reinstall --no-deps --no-build-isolation"
    return Joined(
        remedy=f"install {package} again, for what is installed beside it", command=f"{pip} {again(case, package)}"
    )


def header(case: LogContext) -> Joined:
    """The package of the system that holds a header."""
    name = case.told.get("header", "")
    package = next((held for begin, held in _HEADERS.items() if name.startswith(begin)), "")
    if not package:
        return Joined()
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the headers from conda-forge"
    return Joined(remedy=remedy, command=f"sudo apt-get install {package}")


def numba(case: LogContext) -> Joined:
    """The libNVVM that Numba looks for: in conda with the toolkit, by pip with numba-cuda."""
    _, cuda = torch_of(case)
    if cuda is None or cuda.major < 12:
        return Joined(command="conda install -c conda-forge cudatoolkit=11.8") if cuda else Joined()
    if case.prefix and case.prefix.kind == "conda":
        return Joined()
    return Joined(command=f"{pip_of(case)} install 'numba-cuda[cu{cuda.major}]'")


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "apt_key": apt_key,
    "header": header,
    "library": library,
    "link": link,
    "module": module,
    "numba": numba,
    "symbol": symbol,
}
"""The joins of this module by the names that rows give."""
