#!/usr/bin/env bash
set -euo pipefail
# 😀 not ASCII: é {😀 1}
build() {
  echo "é ${1}"
}
function deploy {
  build
}
deploy "$@"
