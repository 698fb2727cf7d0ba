#!/bin/sh
# Puts the pinned Deno at .toolchain/bin/deno, once. Uses the deno on PATH when it is of the pinned
# version; otherwise takes the binary from its npm package and compares the package with the SHA-512
# pinned here. The facts behind the pins stand in vendors/README.md.
set -eu

version=2.9.6
package_linux_x86_64="@deno/linux-x64-glibc"
integrity_linux_x86_64="3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vBQJtEgc116OAoQ=="

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin="$root/.toolchain/bin"
if [ -x "$bin/deno" ] && "$bin/deno" --version 2>/dev/null | head -n 1 | grep -q "^deno $version "; then
  exit 0
fi
mkdir -p "$bin"

on_path=$(command -v deno || true)
if [ -n "$on_path" ] && "$on_path" --version | head -n 1 | grep -q "^deno $version "; then
  ln -sf "$on_path" "$bin/deno"
  echo "toolchain: using deno $version from $on_path" >&2
  exit 0
fi

if [ "$(uname -s)-$(uname -m)" != "Linux-x86_64" ]; then
  echo "toolchain: install Deno $version and put it on PATH: no package is pinned for $(uname -s)-$(uname -m)" >&2
  exit 1
fi
if ! command -v npm >/dev/null 2>&1; then
  echo "toolchain: cannot set up Deno $version: neither deno $version nor npm is on PATH" >&2
  exit 1
fi

work=$(mktemp -d "$root/.toolchain/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "toolchain: fetching deno $version from npm" >&2
(cd "$work" && npm pack --loglevel=error "$package_linux_x86_64@$version" >/dev/null)
found=$(cat "$work"/*.tgz | node -e '
  const hash = require("crypto").createHash("sha512");
  process.stdin.on("data", (bytes) => hash.update(bytes)).on("end", () => console.log(hash.digest("base64")));')
if [ "$found" != "$integrity_linux_x86_64" ]; then
  echo "toolchain: refusing deno $version: its package has SHA-512 $found, pinned is $integrity_linux_x86_64" >&2
  exit 1
fi
tar -xzf "$work"/*.tgz -C "$work"
mv "$work/package/deno" "$bin/deno.new"
chmod 755 "$bin/deno.new"
mv "$bin/deno.new" "$bin/deno"
echo "toolchain: deno $version is ready" >&2
