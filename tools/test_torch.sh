#!/usr/bin/env bash
# Runs the tests of tensors, data sets and DTensors, and the examples of docstrings, against PyTorch on the processors
# of this machine. Its packages (about 3 GB to download once, most of them for GPUs) are kept in build/torch, in addition
# to those of .venv.
set -eu
cd "$(dirname "$0")/.."
folder=build/torch
python=.venv/bin/python

if [ "$(cat $folder/requirements 2>/dev/null)" != "$(sha256sum tools/requirements/torch.txt)" ]; then
  echo "Installing Python packages: tools/requirements/torch.txt"
  rm -rf $folder
  if ! tools/install.sh $python --target $folder/packages -r tools/requirements/torch.txt; then
    echo "PyTorch's tests: skipped, it cannot be installed for this interpreter"
    exit 0
  fi
  sha256sum tools/requirements/torch.txt >$folder/requirements
fi

export PYTHONPATH=$PWD/$folder/packages
exec $python -m pytest -q -p no:cacheprovider -k torch \
  python/tests/test_torch.py python/tests/test_tensor.py python/tests/test_stream.py python/tests/test_cluster.py \
  python/tests/test_docstrings.py "$@"
