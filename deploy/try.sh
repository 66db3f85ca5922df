#!/usr/bin/env bash
# Builds Portcullis, puts it in front of a real MCP server, and calls a tool through it.
# Needs Rust, a C compiler and Node.js 20 or newer (for the server); installs them with apt-get when it may.
set -euo pipefail
cd "$(dirname "$0")/.."

SERVER='@modelcontextprotocol/server-everything@2026.8.31'

need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq "$2" >/dev/null
  else
    echo "missing: $1. Install it (Debian: apt-get install $2) and run this again." >&2
    exit 2
  fi
}
command -v cargo >/dev/null || { echo "missing: cargo. Install Rust 1.95 or newer from https://rustup.rs and run this again." >&2; exit 2; }
need cc gcc
need node nodejs
need npx npm

cargo build --release --quiet
BIN="${CARGO_TARGET_DIR:-target}/release/portcullis"
WORK=$(mktemp -d)
GATEWAY=
trap '[ -z "$GATEWAY" ] || kill "$GATEWAY" 2>/dev/null; wait "$GATEWAY" 2>/dev/null; rm -rf "$WORK"' EXIT
cat > "$WORK/portcullis.json" <<JSON
{
  "mcpServers": { "everything": { "command": "npx", "args": ["-y", "$SERVER"] } },
  "portcullis": { "listen": "127.0.0.1:0", "admin": { "listen": "127.0.0.1:0" } }
}
JSON
chmod 600 "$WORK/portcullis.json"

echo "starting the gateway in front of $SERVER"
"$BIN" serve -c "$WORK/portcullis.json" 2> "$WORK/log" &
GATEWAY=$!
for _ in $(seq 600); do
  ADDRESS=$(sed -n 's/.*"listening".*"shore":"clients".*"address":"\([^"]*\)".*/\1/p' "$WORK/log")
  [ -n "$ADDRESS" ] && break
  kill -0 "$GATEWAY" 2>/dev/null || { cat "$WORK/log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$ADDRESS" ] || { echo "the gateway named no address within a minute:" >&2; cat "$WORK/log" >&2; exit 1; }
URL="http://$ADDRESS/mcp"
echo "clients connect to $URL"

# The first start of the server downloads its package, which may take a while.
for _ in $(seq 120); do
  "$BIN" tools --url "$URL" | grep -q everything__echo && break
  sleep 1
done
"$BIN" tools --url "$URL"
echo
echo "calling everything__echo"
"$BIN" call --url "$URL" everything__echo --arg 'message=hello through the gateway'
