#!/usr/bin/env bash
# Generates proto/gen from proto/**/*.proto, with the protoc of grpcio-tools 1.71 in an environment of its own: its output
# runs without warnings on every grpcio >= 1.71 and protobuf >= 5.29, which newer generators' does not.
#   proto/generate.sh           write proto/gen
#   proto/generate.sh --check   fail where proto/gen differs from what would be written
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.cache/proto-venv
if [ ! -x "$tools/bin/python" ] || ! "$tools/bin/python" -c 'import grpc_tools' 2>/dev/null; then
  echo "setting up the protobuf generator in $tools" >&2
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check 'grpcio-tools==1.71.2' 'setuptools<81'
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
files=$(cd proto && find mn -name '*.proto' | LC_ALL=C sort)
# shellcheck disable=SC2086 # one word a file
(cd proto && "../$tools/bin/python" -m grpc_tools.protoc -I . --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" $files)
# A file without a service has nothing in its grpc module.
find "$out" -name '*_pb2_grpc.py' -exec sh -c 'grep -q "class .*Stub" "$1" || rm "$1"' _ {} \;
touch "$out/mn/py.typed"
if [ "${1:-}" = --check ]; then
  diff -r -x __pycache__ "$out" proto/gen && echo "generated code is up to date"
else
  rm -rf proto/gen && mkdir proto/gen && cp -r "$out"/. proto/gen/
fi
