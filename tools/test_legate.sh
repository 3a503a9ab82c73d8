#!/usr/bin/env bash
# Runs tests/legate, and the examples of the docstrings of penstock.legate, on the processors of this machine, in an
# environment of its own (build/legate, nearly 2 GB to download once). Its wheels want Python 3.12; without one this
# says so, and is not a failure.
set -eu
cd "$(dirname "$0")/.."
folder=build/legate

python=""
for candidate in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python3.12; do
  if "$candidate" -I -c 'import ensurepip, venv' >/dev/null 2>&1; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "Legate's tests: skipped, there is no Python 3.12 with venv and ensurepip"
  exit 0
fi
if ! ls python/penstock/_core.abi3.so >/dev/null 2>&1; then
  echo "Legate's tests: skipped, the module was built for this machine's older Python only (3.12 and later share one)"
  exit 0
fi

if [ "$(cat $folder/requirements 2>/dev/null)" != "$(sha256sum tools/requirements/legate.txt)" ]; then
  echo "Installing Python packages: tools/requirements/legate.txt"
  rm -rf $folder
  "$python" -m venv $folder/venv
  tools/install.sh $folder/venv/bin/python -r tools/requirements/legate.txt
  sha256sum tools/requirements/legate.txt >$folder/requirements
fi

# The wheels link the driver: where there is none, one that knows of no device takes its place.
libraries=""
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  mkdir -p $folder/no-driver
  cc -shared -fPIC -O1 -Wl,-soname,libcuda.so.1 -o $folder/no-driver/libcuda.so.1 tests/legate/no_driver.c
  libraries=$PWD/$folder/no-driver
fi

export LEGATE_AUTO_CONFIG=0 LEGATE_CONFIG="${LEGATE_CONFIG:---cpus 2 --gpus 0 --sysmem 1000 --utility 1}"
export PYTHONPATH=$PWD/python LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The settings of python/tests (--noconftest) need packages that this environment does not have.
exec $folder/venv/bin/python -m pytest -q -p no:cacheprovider -W ignore::pytest.PytestConfigWarning --noconftest \
  -k legate tests/legate python/tests/test_docstrings.py "$@"
