#!/bin/sh
# packages.sh: install what the clusters of the tests are made of, where this is root on Debian and something lacks.
# It fails where it cannot; the tests then skip, and say what is missing. No service is started.
PACKAGES="openssh-server openssh-client slurm-wlm munge libpmix-dev iproute2 procps"
set -eu

lacking=
for package in $PACKAGES; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        lacking="$lacking $package"
done
[ "$lacking" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "not root: cannot install$lacking" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "not Debian: cannot install$lacking" >&2; exit 1; }

# Packages ask this policy before they start a service.
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
echo "Installing$lacking ..." >&2
install() { timeout 600 apt-get install --yes --quiet --quiet --no-install-recommends $lacking >&2; }
install || { timeout 300 apt-get update --quiet --quiet >&2 && install; }
