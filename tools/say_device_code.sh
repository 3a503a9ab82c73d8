#!/usr/bin/env bash
# say_device_code.sh BUILD...: says plainly, at the end of a build, where it has no device code, and what to do about it.
set -eu
for build in "$@"; do
  read -r how <"$build/device_code" 2>/dev/null || continue
  case $how in
    "left out (no nvcc)")
      echo "Device code is left out: there is no nvcc. device=\"cuda\" will say so; all else works."
      echo "CUDA=1 takes a pinned nvcc into .venv (250 MB) and builds with it." ;;
    "left out"*) echo "Device code is ${how}." ;;
  esac
done
