#!/bin/sh
# Makes the environment that lies in this folder, without network. Written by cuenv.
#   sh install.sh PREFIX [cuenv|micromamba|conda]
# Exit codes: 0 made, 1 the installer failed, 2 usage, 3 the bundle is not whole or PREFIX is in use, 4 a tool is missing.
set -eu

fail() {
    code=$1
    shift
    printf 'error: %s\n' "$*" >&2
    exit "$code"
}

case $# in
    1 | 2) ;;
    *) fail 2 'usage: sh install.sh PREFIX [cuenv|micromamba|conda]' ;;
esac
case $1 in
    '' | -*) fail 2 'usage: sh install.sh PREFIX [cuenv|micromamba|conda]' ;;
    /*) prefix=$1 ;;
    *) prefix=$(pwd)/$1 ;;
esac
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd -- "$here"

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-64 ;;
    Linux-aarch64) platform=linux-aarch64 ;;
    *) fail 3 "this bundle holds nothing for $(uname -s) on $(uname -m)" ;;
esac
command -v sha256sum >/dev/null 2>&1 || fail 4 'sha256sum is not here, so the bundle cannot be verified'
if ! told=$(LC_ALL=C sha256sum -c SHA256SUMS 2>&1); then
    printf '%s\n' "$told" | grep -v ': OK$' >&2 || :
    fail 3 'the bundle is not whole: copy it again'
fi
[ -f "explicit-$platform.txt" ] || fail 3 "this bundle holds nothing for $platform"

if [ -d "$prefix" ] && [ ! -L "$prefix" ]; then
    rmdir -- "$prefix" 2>/dev/null || fail 3 "$prefix is not empty: name another folder"
elif [ -e "$prefix" ] || [ -L "$prefix" ]; then
    fail 3 "$prefix is in use: name another folder"
fi

tool=${2:-}
program=
if [ -n "$tool" ]; then
    case $tool in cuenv | micromamba | conda) ;; *) fail 2 "$tool is none of cuenv, micromamba, conda" ;; esac
    program=$(command -v "$tool") || fail 4 "$tool is not on PATH"
else
    for tool in cuenv micromamba conda; do
        if program=$(command -v "$tool"); then break; fi
        program=
    done
    if [ -z "$program" ] && [ -x "${CONDA_EXE:-}" ]; then
        tool=conda program=$CONDA_EXE
    fi
fi
[ -n "$program" ] || fail 4 'neither cuenv nor micromamba nor conda is on PATH; micromamba is one file: bring it along'

case $tool:$prefix in
    conda:*' '*) fail 2 "conda makes no environment in a path with a space: $prefix; name another, or use micromamba" ;;
esac
if [ "$tool" = cuenv ]; then
    exec "$program" install "$here" --prefix "$prefix" --offline
fi

scratch=$(mktemp -d)
finished=
undo() {
    code=$?
    rm -rf -- "$scratch"
    [ -n "$finished" ] || rm -rf -- "$prefix"
    exit "$code"
}
trap undo EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# A file:// URL of this folder, wherever it lies.
case $here in
    *[!A-Za-z0-9_./+~-]*)
        encoded=$(printf '%s' "$here" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g; s/%2f/\//g') ;;
    *) encoded=$here ;;
esac
while IFS= read -r line; do
    case $line in
        channel/*) printf 'file://%s/%s\n' "$encoded" "$line" ;;
        *) printf '%s\n' "$line" ;;
    esac
done <"explicit-$platform.txt" >"$scratch/explicit.txt"

case $tool in
    micromamba) "$program" create --yes --quiet --no-rc --offline --prefix "$prefix" --file "$scratch/explicit.txt" || exit 1 ;;
    conda)
        "$program" create --yes --quiet --offline --no-default-packages --prefix "$prefix" \
            --file "$scratch/explicit.txt" || exit 1
        ;;
esac

if [ -f "requirements-$platform.txt" ]; then
    PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 "$prefix/bin/python" -I -m pip install --quiet \
        --no-index --no-deps --require-hashes --no-build-isolation \
        --find-links "wheels/$platform" -r "requirements-$platform.txt" || exit 1
fi
if [ -f state.json ]; then
    cp state.json "$prefix/conda-meta/state" # the variables that activation sets, as conda keeps them
fi
finished=yes
case $prefix in # quoted for a shell where it needs it
    *[!A-Za-z0-9_./+~@%:,-]*) said="'$(printf '%s' "$prefix" | sed "s/'/'\\\\''/g")'" ;;
    *) said=$prefix ;;
esac
printf 'made %s with %s\nuse it: %s activate %s\n' "$prefix" "$tool" "$tool" "$said"
