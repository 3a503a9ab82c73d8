#!/usr/bin/env bash
# Prints the newest working interpreter of 3.11-3.14: on PATH or in a version manager's folder. Status 1 if none works.
# With an argument it only checks that one.
#
# An interpreter is checked by running it: a version manager's shim may be on PATH and fail, and Debian has venv,
# ensurepip and the headers in separate packages.
set -u
home=${HOME:-/nonexistent}

works() {
  "$1" -I -c '
import ensurepip, os, sys, sysconfig, venv
sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 14) and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))))
' >/dev/null 2>&1
}

if [ $# -gt 0 ]; then
  path=$(command -v -- "$1") && works "$path" && echo "$path"
  exit
fi

for minor in 14 13 12 11; do
  IFS=: read -ra folders <<<"$PATH"
  for candidate in "${folders[@]/%//python3.$minor}" \
      "${PYENV_ROOT:-$home/.pyenv}"/versions/3."$minor".*/bin/python3."$minor" \
      "$home"/.local/share/uv/python/cpython-3."$minor".*/bin/python3."$minor" \
      "$home"/.local/share/mise/installs/python/3."$minor".*/bin/python3."$minor" \
      "$home"/.asdf/installs/python/3."$minor".*/bin/python3."$minor"; do
    if [ -x "$candidate" ] && works "$candidate"; then
      echo "$candidate"
      exit 0
    fi
  done
done
exit 1
