#!/usr/bin/env bash
# say_device_code.sh BUILD...: prints, at the end of a build, which parts have no device code, and the remedy.
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
