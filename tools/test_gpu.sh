#!/usr/bin/env bash
# test_gpu.sh WHEEL [ARGS...]: all that only a GPU can show, on a machine that has one: tests/gpu, then `python -m bench.gpu ARGS...`.
#
# WHEEL is what `make wheel CUDA=1` made, here or elsewhere. Needs NumPy, and pytest for the tests: PYTHON=python3 says
# whose; no network, no compiler, no .venv. Both parts run whatever the other says; exit status 0: neither failed.
set -u
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,5s/^# \?//p' "$0"; exit 2; }
wheel=$1
shift
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$site" "$wheel" || exit
export PYTHONPATH=$site PYTHONUNBUFFERED=1

status=0
if "$python" -c 'import pytest' 2>/dev/null; then
  "$python" -m pytest -rs -p no:cacheprovider tests/gpu || status=$?
else
  echo "Left out: tests/gpu, because $python has no pytest"
  status=1
fi
"$python" -m bench.gpu "$@" || status=$?
exit $status
