#!/usr/bin/env bash
# setup.sh SET...: makes ready what a make target needs (sets: core, test, demo, docs, bench, cuda, wheels).
# VENV=FOLDER stands for another environment than .venv; the project is not installed into it.
#
# System packages first (the list is printed before anything is installed), then .venv, then pinned Python packages.
# Each step is skipped when it has been done, so a second run takes a fraction of a second and no network.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
stamps=$venv/.penstock

# --- the interpreter, unless .venv already holds the one that is wanted -------------------------------------------------
python=""
if [ -n "${PYTHON:-}" ]; then
  python=$(tools/find_python.sh "$PYTHON") || { echo "PYTHON=$PYTHON does not work: it must be 3.11-3.14 with venv, ensurepip and Python.h"; exit 1; }
  if [ "$(cat $stamps/interpreter 2>/dev/null)" != "$python" ] && [ -e $venv ]; then
    echo "Replacing $venv: it was made by another interpreter than $python"
    rm -rf $venv
  fi
fi
if [ -e $venv ] && ! { [ -x $venv/bin/pip ] && $venv/bin/python -c '' 2>/dev/null; }; then
  echo "Replacing $venv: it is half made, or its interpreter is gone"
  rm -rf $venv
fi
missing=()
if [ ! -e $venv ] && [ -z "$python" ]; then
  python=$(tools/find_python.sh) || missing+=(python3-dev python3-venv)
fi

# --- what the system lacks ------------------------------------------------------------------------------------------------
has_header() { echo "#include <$1>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }
has_clang_flags() { echo 'int main() {}' | clang++ "$@" -x c++ - -o /dev/null >/dev/null 2>&1; }
while read -r set package kind what; do
  case " $* " in *" $set "*) ;; *) continue ;; esac
  stamp=$stamps/system-$package   # seen once is enough: probing every time would cost a second per build
  [ -e "$stamp" ] && continue
  case $kind in
    command) command -v "$what" >/dev/null ;;
    header) has_header "$what" ;;
    clang) has_clang_flags $what ;;
  esac && found+=("$package") || missing+=("$package")
done < <(grep -v '^#' tools/packages.txt)

if [ ${#missing[@]} -gt 0 ]; then
  echo "Debian packages that are missing: ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    echo "This is not a Debian: install what corresponds to them (and Python 3.11-3.14 with its headers), then run this again."
    exit 1
  fi
  if [ "$(id -u)" = 0 ]; then as_root=(env)
  elif sudo -n true 2>/dev/null; then as_root=(sudo -n env)
  else
    echo "Install them, then run this again:  sudo apt-get install --no-install-recommends ${missing[*]}"
    exit 1
  fi
  echo "Installing them"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=600 --no-install-recommends "${missing[@]}" >/dev/null
  if [ ! -e $venv ] && [ -z "$python" ]; then
    python=$(tools/find_python.sh) || { echo "No Python 3.11-3.14 with venv, ensurepip and Python.h was found"; exit 1; }
  fi
fi

# --- .venv ----------------------------------------------------------------------------------------------------------------
if [ ! -e $venv ]; then
  echo "Creating $venv with $python"
  "$python" -m venv $venv
  # The build folder remembers the interpreter that it was configured with.
  [ $venv = .venv ] && rm -f build/release/CMakeCache.txt build/release/build.ninja
fi
mkdir -p $stamps
[ -n "$python" ] && echo "$python" >$stamps/interpreter
for package in "${found[@]:-}" "${missing[@]:-}"; do [ -n "$package" ] && touch "$stamps/system-$package"; done

install() { tools/install.sh $venv/bin/python "$@"; }
# changed NAME FILE...: whether the files differ from those that `finished NAME` last saw.
changed() { [ "$(cat "$stamps/$1" 2>/dev/null)" != "$(sha256sum "${@:2}")" ]; }
finished() { sha256sum "${@:2}" >"$stamps/$1"; }

for set in "$@"; do
  requirements=tools/requirements/$set.txt
  [ -e $requirements ] || continue   # of the system only
  # An nvcc that the machine has is taken as it is.
  [ "$set" = cuda ] && tools/find_nvcc.sh "$PWD/$venv" >/dev/null && continue
  # The lists include one another: a change to any asks for them again.
  if changed "$set" tools/requirements/*.txt; then
    echo "Installing Python packages: $requirements"
    install -r "$requirements"
    finished "$set" tools/requirements/*.txt
  fi
done

# Peers, of the benchmark and of the interoperability tests, do not exist for every interpreter: each is optional.
if [[ " $* " == *" bench "* || " $* " == *" test "* ]] && changed peers tools/requirements/peers.txt; then
  grep -v '^#' tools/requirements/peers.txt | while read -r peer; do
    install "$peer" || echo "Left out: $peer (not available for this interpreter)"
  done
  finished peers tools/requirements/peers.txt
fi

# Packages for comparisons of the benchmark only.
if [[ " $* " == *" bench "* ]] && changed bench_peers tools/requirements/bench_peers.txt; then
  grep -v '^#' tools/requirements/bench_peers.txt | while read -r peer; do
    install "$peer" || echo "Left out: $peer (not available for this interpreter)"
  done
  finished bench_peers tools/requirements/bench_peers.txt
fi

# Registers python/ and the console script in .venv. CMake puts the compiled module into python/penstock itself.
if [ $venv = .venv ] && changed project pyproject.toml; then
  install --no-build-isolation --no-deps --editable . \
    --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3
  finished project pyproject.toml
fi
