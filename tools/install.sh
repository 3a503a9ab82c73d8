#!/usr/bin/env bash
# install.sh PYTHON ARGUMENTS...: `pip install ARGUMENTS` into the environment of PYTHON.
#
# uv installs them in a tenth of pip's time, because it unpacks in threads and compiles nothing. It does not read pip's
# settings, so pip is used if they name another index, and if uv fails.
set -eu
python=$1
shift
cd "$(dirname "$0")/.."
pip() { "$python" -m pip --disable-pip-version-check --quiet "$@"; }

uv=$(dirname "$python")/uv
if [ -z "${PIP_INDEX_URL:-}${PIP_NO_INDEX:-}" ] && ! pip config list | grep -qE '\.(index-url|no-index)='; then
  [ -x "$uv" ] || pip install -r tools/requirements/install.txt || true
  [ -x "$uv" ] && "$uv" pip install --quiet --python "$python" "$@" && exit
  echo "uv could not install this; pip tries it"
fi
pip install "$@"
