#!/usr/bin/env bash
# Compares the wire contract with the one on main: nothing a client relies on may break. On main itself, with the commit
# before. Says so and passes where there is nothing to compare with yet.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=.venv/bin/buf
base=main
if [ "$(git rev-parse --verify --quiet HEAD)" = "$(git rev-parse --verify --quiet main || true)" ]; then base=HEAD~1; fi
if ! git rev-parse --verify --quiet "$base" >/dev/null || ! git cat-file -e "$base:buf.yaml" 2>/dev/null; then
  echo "no earlier contract to compare with"
  exit 0
fi
"$buf" breaking --against ".git#ref=$(git rev-parse "$base")"
echo "the wire contract breaks nothing since $base"
