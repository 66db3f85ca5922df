#!/usr/bin/env bash
# Installs what the tests need and runs all of them; prints the counts last. Words after the command
# go to the runner: `tests/run.sh --test e2e`. Uses cargo-nextest where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v cargo > /dev/null || {
  echo "missing: cargo. Install Rust 1.95 or newer from https://rustup.rs and run this again." >&2
  exit 1
}
bash tests/setup.sh

folder=${CARGO_TARGET_DIR:-target}
mkdir -p "$folder"
log=$(mktemp "$folder/tests.XXXXXX")
trap 'rm -f "$log"' EXIT

status=0
if cargo nextest --version > /dev/null 2>&1; then
  cargo nextest run --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=1
else
  cargo test --locked --no-fail-fast --lib --bins --tests "$@" 2>&1 | tee "$log" || status=1
fi
if [ $# = 0 ]; then
  cargo test --locked --doc 2>&1 | tee -a "$log" || status=1
fi

# Both runners' own counts, added up.
awk '
  { gsub(/\033\[[0-9;]*m/, "") }
  /Summary \[/ { for (i = 2; i <= NF; i++) count($(i - 1), $i) }
  /^test result:/ { for (i = 2; i <= NF; i++) count($(i - 1), $i) }
  function count(number, word) {
    gsub(/[,;(]/, "", word)
    gsub(/[^0-9]/, "", number)
    if (word == "passed" || word == "failed" || word == "ignored" || word == "skipped") sum[word] += number
    if (word == "timed") sum["failed"] += number
  }
  END { printf "tests: %d passed, %d failed, %d left out\n", sum["passed"], sum["failed"], sum["ignored"] + sum["skipped"] }
' "$log"
exit "$status"
