#!/usr/bin/env bash
# test_gpu.sh WHEEL [STEP [ARGS...]]: what only a GPU can show, on a machine that has one, without a network and a compiler.
#
# WHEEL is what `make wheel CUDA=1` made, here or elsewhere. STEP: smoke (are the bytes right?), clean (compute-sanitizer),
# bars (how fast?), nvcomp (the decoders alone, against nvCOMP), why (Nsight's reports), switches; without it all of them,
# in this order; several in quotes. Each ends within eight minutes. ARGS are those of `python -m bench.gpu`, such as
# --arrays, --small, or --seconds 75: so all of them end within ten minutes.
#
# Needs NumPy; PYTHON=python3 names the interpreter. RESULTS=folder: where results go, row by row (default: bench/results/gpu).
# ARCHIVE=results.tgz: after each step, the whole folder as results.tgz.aa, .ab and so on, of at most 15 MiB each
# (`cat results.tgz.* | tar xz`): for machines that return few files of limited size.
# PENSTOCK_COMMIT=abc1234: the commit that results are of, where this folder is a copy without its repository.
# WITH="more.whl ...": wheels that are used with it, such as nvCOMP's, and those of zarr-python and pytest with all that
# they need, where Python does not have them. Exit status 0: no row failed; 2: there is no GPU.
set -u
[ $# -gt 0 ] || { sed -n '2,14s/^# \?//p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd) || exit
wheel=$1
shift
steps="smoke clean bars nvcomp why switches"
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  steps=$1
  shift
fi
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
install() {
  if "$python" -c 'import pip' 2>/dev/null; then
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$site" "$@"
  else
    local each
    for each in "$@"; do
      "$python" -m zipfile -e "$each" "$site" || return # a wheel is a zip archive
    done
  fi
}
# At once: a second installation would not add to folders that packages share, such as `nvidia`.
# shellcheck disable=SC2086 # WITH is a list
if ! install "$wheel" ${WITH:-}; then
  [ -n "${WITH:-}" ] || exit 1
  echo "The wheels in WITH cannot all be installed: none of them is used, and rows that need them are left out."
  install "$wheel" || exit
fi
# Paths are relative to where the caller is, whose folder is not one of Python's (-P).
export PYTHONPATH=$site:$root${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1

results=${RESULTS:-$root/bench/results/gpu}
archive() {
  [ -n "${ARCHIVE:-}" ] && [ -d "$results" ] || return 0
  tar -C "$results" -cz . | split -b 15m - "$ARCHIVE."
}

status=0
for step in $steps; do
  # A step ends by itself before this limit; the limit is for what no program can foresee.
  timeout --kill-after=5 475 "$python" -P -m bench.gpu "$step" ${RESULTS:+--results "$RESULTS"} "$@"
  ended=$?
  archive
  [ $ended -eq 0 ] || status=$ended
  [ $ended -ne 2 ] || break
done
exit $status
