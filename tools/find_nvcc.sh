#!/usr/bin/env bash
# find_nvcc.sh [VENV]: prints the nvcc that builds the CUDA kernels: the machine's, or else the one that setup.sh took
# from the package index into the virtual environment (.venv). Fails, and prints nothing, where there is none.
set -eu
venv=${1:-$(dirname "$0")/../.venv}
for nvcc in "$(command -v nvcc || true)" "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc \
            "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
  if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then
    realpath -s "$nvcc"
    exit 0
  fi
done
exit 1
