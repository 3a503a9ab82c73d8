#!/usr/bin/env bash
# find_nvcc.sh [VENV]: prints the nvcc that builds the CUDA kernels: the machine's, or else the one that setup.sh
# installed into the virtual environment (.venv). Without one it fails and prints nothing.
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
