#!/bin/sh
# Install a headless Chromium of the system, for the tests that look at pages. Needs root on Debian.
set -eu
for browser in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v "$browser" >/dev/null && exit 0
done
command -v apt-get >/dev/null || { echo "not Debian: cannot install chromium-headless-shell" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "not root: cannot install chromium-headless-shell" >&2; exit 1; }
install() { timeout 600 apt-get install --yes --quiet --quiet --no-install-recommends chromium-headless-shell >&2; }
install || { timeout 300 apt-get update --quiet --quiet >&2 && install; }
