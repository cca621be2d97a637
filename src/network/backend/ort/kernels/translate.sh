#!/usr/bin/env bash
# Translates Scorn's kernels for NVIDIA's GPUs to the text that the program contains; nvcc is installed from PyPI if
# there is none. The text is in the language of CUDA 11.0, for cards of compute capability 7.5 and later.
set -euo pipefail
cd "$(dirname "$0")"

tools=../../../../../target/nvcc
if ! command -v nvcc >/dev/null; then
    if [ ! -d "$tools" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet nvidia-cuda-{nvcc,crt,runtime,cccl}==13.0.* nvidia-nvvm==13.0.*
    fi
    PATH=$(echo "$PWD/$tools"/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
fi
made=$(mktemp)
trap 'rm -f "$made"' EXIT
nvcc --ptx --gpu-architecture=compute_75 -O3 -o "$made" kernels.cu
{
    echo "// Made by make kernels from kernels.cu with SHA-256 $(sha256sum kernels.cu | cut -d ' ' -f 1)"
    sed -e '/^\/\//d' -e 's/^\.version .*/.version 7.0/' "$made"
} > kernels.ptx
