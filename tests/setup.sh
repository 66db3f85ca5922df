#!/usr/bin/env bash
# Installs the peers that the interop tests talk to, in pinned versions: npm packages beside
# their package.json, Python packages under target/interop-venv. Safe to run again; says nothing
# when all is there. Needs Node 20 with npm, Python 3.11 with venv, git and a C compiler: as root
# on Debian it installs those that are missing, elsewhere it names them and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venvs=target/interop-venv

say() { printf 'setup: %s\n' "$*" >&2; }

# Prints what is missing, as Debian packages, one a line.
missing() {
  node_is_fit || echo nodejs
  command -v npm > /dev/null || echo npm
  python_name > /dev/null || printf 'python3\npython3-venv\n'
  command -v git > /dev/null || echo git
  command -v cc > /dev/null || command -v gcc > /dev/null || command -v clang > /dev/null || echo gcc
}

node_is_fit() {
  command -v node > /dev/null && node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)'
}

# The first Python that is new enough and can make a venv.
python_name() {
  local name
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    command -v "$name" > /dev/null || continue
    "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || continue
    echo "$name"
    return
  done
  return 1
}

tools() {
  local lacking
  lacking=$(missing)
  [ -z "$lacking" ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    say "installing" $lacking
    apt-get update -qq > /dev/null
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $lacking > /dev/null
    lacking=$(missing)
  fi
  [ -z "$lacking" ] && return
  say "please install" $lacking "(Node 20 or newer, Python 3.11 or newer with venv)"
  exit 1
}

# Runs the rest of the words in the folder unless that was done for this very file before.
once() {
  local mark=$1 file=$2 now
  shift 2
  now=$(cksum < "$file")
  [ "$(cat "$mark" 2> /dev/null || true)" = "$now" ] && return
  say "installing what $file names"
  "$@"
  echo "$now" > "$mark"
}

node_packages() {
  # Nothing here needs an install script: Node 22 ships inside its package.
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
}

python_packages() {
  rm -rf "$1"
  "$(python_name)" -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$2"
}

tools
for folder in tests/fixtures tests/interop; do
  once "$folder/node_modules/.complete" "$folder/package-lock.json" node_packages "$folder"
done
mkdir -p "$venvs"
for name in client servers; do
  requirements=tests/interop/requirements/$name.txt
  once "$venvs/$name/.complete" "$requirements" python_packages "$venvs/$name" "$requirements"
done
