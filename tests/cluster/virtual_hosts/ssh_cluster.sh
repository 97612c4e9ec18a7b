#!/bin/bash
# ssh_cluster.sh: hosts that reach each other by ssh, on one Linux machine. As root, on Debian.
#   up n0 n1 ...        start these hosts; takes down what was up
#   hold n0 n1 ...      the same, until stdin ends
#   run [-h nX] CMD...  run CMD inside host nX (default n0), with its exit code; signals are handed on
#   crash nX            power off: every process of the host dies at once
#   start nX            power on again
#   cut nX | heal nX    unplug and replug its network; its processes go on
#   down                take all down
#   probe               say why there can be no cluster here, if so
# `ssh nX` works inside the hosts as it is, so an MPI needs no options. Logs: $CLUSTER_DIR/nX/*.log
D=${CLUSTER_DIR:-/tmp/ssh_cluster} P=${CLUSTER_PREFIX:-sshc} NET=${CLUSTER_NET:-10.77.0}
NEEDED="/usr/sbin/sshd ssh ssh-keygen"
PORT=22

prepare() {
    local h
    mkdir -p /run/sshd # sshd's folder for privilege separation: without it, it refuses to start
    ssh-keygen -q -t ed25519 -N '' -f "$D/id"
    cp "$D/id.pub" "$D/authorized_keys"
    cat >"$D/home/.ssh/config" <<C
Host *
  Port $PORT
  User root
  IdentityFile $D/id
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
C
    for h in "$@"; do
        mkdir -p "$D/$h"
        ssh-keygen -q -t ed25519 -N '' -f "$D/$h/hostkey"
        cat >"$D/$h/sshd_config" <<C
Port $PORT
ListenAddress $(awk -v name="$h" '$2 == name { print $1 }' "$D/etc_hosts")
HostKey $D/$h/hostkey
PidFile $D/$h/sshd.up
AuthorizedKeysFile $D/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv TMPDIR=$D/tmp
MaxStartups 100
C
    done
}

daemons() { echo "/usr/sbin/sshd -D -e -f $D/$1/sshd_config 2>$D/$1/sshd.log &"; }
is_up() { [ -s "$D/$1/sshd.up" ]; }

. "$(dirname "$0")/hosts.sh"
main "$@"
