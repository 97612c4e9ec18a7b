# Hosts made of namespaces on one Linux machine, for ssh_cluster.sh and slurm_cluster.sh, which source this file.
#
# Every host has a network, UTS (hostname), pid, ipc and mount namespace of its own, a private /dev/shm and a private
# TMPDIR: as between machines with NFS, nothing but files is shared. The switch is a bridge in one more namespace, so
# no packet can reach the machine's real interfaces, and two clusters may use the same addresses. What is written
# outside $D: /run/netns/$P-*, /etc/netns/$P-*, and the empty folders that the daemons insist on.
#
# Who sources it sets D (folder), P (prefix of namespaces), NET (first three bytes of addresses), NEEDED (commands), and
# defines `prepare HOSTS...` (configuration for all), `daemons HOST` (shell lines that start its services) and
# `is_up HOST`.
set -euo pipefail
sw=$P-sw

hosts() { cat "$D/hosts.list" 2>/dev/null || true; }
init_of() { cat "$D/$1/init.pid"; } # its first process, as seen from outside

probe() { # says why no cluster can be had here, and fails; silent where one can
    local command
    [ "$(id -u)" = 0 ] || { echo "needs root, to make namespaces"; return 1; }
    for command in ip unshare nsenter pgrep $NEEDED; do
        command -v "$command" >/dev/null ||
            { echo "$command is not installed; make test-cluster installs it"; return 1; }
    done
    unshare --uts --ipc --mount --pid --fork --mount-proc mount -t tmpfs none /mnt 2>/dev/null ||
        { echo "namespaces are not permitted here; a container needs CAP_SYS_ADMIN"; return 1; }
    ip netns add "$P-probe-$$" 2>/dev/null || { echo "network namespaces are not permitted here"; return 1; }
    ip -n "$P-probe-$$" link add br0 type bridge 2>/dev/null ||
        { ip netns del "$P-probe-$$"; echo "the kernel has no bridges; a container needs CAP_NET_ADMIN"; return 1; }
    ip netns del "$P-probe-$$"
}

up() { # names of hosts
    local h i=0
    down
    mkdir -p "$D/tmp" "$D/home/.ssh"
    chmod 700 "$D" "$D/home/.ssh"
    ip netns add "$sw"
    ip -n "$sw" link add br0 type bridge
    ip -n "$sw" link set br0 up
    ip -n "$sw" link set lo up
    printf '%s\n' "$@" >"$D/hosts.list"
    echo "127.0.0.1 localhost" >"$D/etc_hosts"
    for h in "$@"; do
        i=$((i + 1))
        echo "$NET.$i $h" >>"$D/etc_hosts"
    done
    prepare "$@"
    i=0
    for h in "$@"; do
        i=$((i + 1))
        mkdir -p "$D/$h" "/etc/netns/$P-$h"
        # `ip netns exec` binds these over /etc: names of the hosts; a home of their own, so no ~/.bashrc is run by ssh.
        cp "$D/etc_hosts" "/etc/netns/$P-$h/hosts"
        sed "s|^root:.*|root:x:0:0:root:$D/home:/bin/bash|" /etc/passwd >"/etc/netns/$P-$h/passwd"
        ip netns add "$P-$h"
        ip link add "v$h" netns "$sw" type veth peer name eth0 netns "$P-$h" # both ends are born inside namespaces
        ip -n "$sw" link set "v$h" master br0 up
        ip -n "$P-$h" addr add "$NET.$i/24" dev eth0
        ip -n "$P-$h" link set eth0 up
        ip -n "$P-$h" link set lo up
        boot "$h"
    done
    for h in "$@"; do await "$h"; done
}

boot() {
    local h=$1
    rm -f "$D/$h/init.pid" "$D/$h/"*.up
    # Process 1 of the host is a bash that reaps orphans; the host lives as long as it does.
    {
        echo "hostname $h"
        echo "mount -t tmpfs -o size=1g shm /dev/shm; mount -t tmpfs -o size=1g tmp $D/tmp"
        echo "export HOME=$D/home TMPDIR=$D/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        echo "cd $D/home"
        daemons "$h"
        echo "trap 'exit 0' TERM; while :; do wait -n || sleep .2; done"
    } >"$D/$h/init.sh"
    # A shell has what it starts with & ignore SIGINT; services and their ranks would inherit that.
    setsid env --default-signal ip netns exec "$P-$h" \
        unshare --uts --ipc --mount --pid --fork --mount-proc --kill-child \
        bash "$D/$h/init.sh" </dev/null >"$D/$h/init.log" 2>&1 &
    echo $! >"$D/$h/outer.pid"
}

await() { # until the host has booted
    local h=$1
    for _ in $(seq 100); do
        # Its first process is the only child of the unshare outside.
        pgrep -P "$(cat "$D/$h/outer.pid")" >"$D/$h/init.pid" && is_up "$h" && return
        sleep .1
    done
    echo "host $h did not come up:"
    tail -n 20 "$D/$h/"*.log
    return 1
}

start() { boot "$1" && await "$1"; }
crash() { kill -9 "$(init_of "$1")"; } # the kernel then kills every process of the host at once
cut() { ip -n "$sw" link set "v$1" down; }
heal() { ip -n "$sw" link set "v$1" up; }

run() {
    local h=n0 inside code name
    if [ "${1:-}" = -h ]; then
        h=$2
        shift 2
    fi
    HOME="$D/home" TMPDIR="$D/tmp" nsenter -t "$(init_of "$h")" -m -u -i -n -p --wd="$PWD" -- \
        env --default-signal "$@" <&0 &
    inside=$!
    # nsenter does not hand signals on to the command that it has started inside.
    for name in INT TERM HUP QUIT USR1 USR2; do
        trap "kill -$name \$(pgrep -P $inside) 2>/dev/null || true" $name
    done
    while :; do
        code=0
        wait $inside || code=$?
        kill -0 $inside 2>/dev/null || break
    done
    trap - INT TERM HUP QUIT USR1 USR2
    return $code
}

hold() { # up, until stdin ends: however its starter ends, nothing is left
    trap 'cat "$D.log" 2>/dev/null || true; rm -f "$D.log"; down' EXIT
    up "$@" >"$D.log" 2>&1 </dev/null
    trap '' INT HUP TERM
    rm "$D.log"
    echo "up: $*"
    exec >/dev/null 2>&1 # nobody may read when the hosts are killed, and bash says so
    cat
}

down() {
    local h kind
    for h in $(hosts); do
        for kind in init outer; do
            if [ -s "$D/$h/$kind.pid" ]; then kill -9 "$(cat "$D/$h/$kind.pid")" 2>/dev/null || true; fi
        done
    done
    for h in $(hosts) sw; do
        ip netns del "$P-$h" 2>/dev/null || true
        rm -rf "/etc/netns/$P-$h"
    done
    rmdir /etc/netns 2>/dev/null || true
    rm -rf "$D"
}

main() {
    local command=${1:-}
    shift || true
    case $command in
        probe | up | hold | run | start | crash | cut | heal | down) "$command" "$@" ;;
        *)
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
            exit 2
            ;;
    esac
}
