#!/bin/bash
# slurm_cluster.sh: a SLURM cluster of several nodes on one Linux machine. As root, on Debian 12 or later, no systemd.
#   up n0 n1 ...        start the head n0 (slurmctld) and the nodes n1 ... (slurmd); takes down what was up
#   hold n0 n1 ...      the same, until stdin ends
#   run [-h nX] CMD...  run CMD (srun, sbatch, sinfo, ...) inside host nX (default n0); signals are handed on
#   crash nX            power off: slurmd, steps and ranks die at once
#   start nX            power on again
#   cut nX | heal nX    unplug and replug its network; its processes go on
#   down                take all down
#   probe               say why there can be no cluster here, if so
# Logs: $CLUSTER_DIR/nX/*.log. `srun --mpi=pmix` loads the libpmix.so without a version, which only libpmix-dev has.
D=${CLUSTER_DIR:-/tmp/slurm_cluster} P=${CLUSTER_PREFIX:-slmc} NET=${CLUSTER_NET:-10.78.0}
CPUS=${CLUSTER_CPUS:-4} MEM=${CLUSTER_MEM:-4000} # what a node claims; it may be more than the machine has
NEEDED="munged slurmctld slurmd srun sbatch sinfo"
export SLURM_CONF=$D/slurm.conf

prepare() {
    local nodes
    shift
    nodes=$(IFS=,; echo "$*")
    mkdir -p "$D/state" /run/munge
    dd if=/dev/urandom of="$D/munge.key" bs=1 count=1024 status=none
    chmod 400 "$D/munge.key"
    # slurmstepd reads cgroup.conf beside slurm.conf; no plugin that uses cgroups is on.
    echo "CgroupPlugin=cgroup/v1" >"$D/cgroup.conf"
    cat >"$SLURM_CONF" <<C
ClusterName=lab
SlurmctldHost=n0($NET.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# a requeued job is held back for cred_expire+1 seconds (default 120)
AuthInfo=cred_expire=5
CredType=cred/munge
SlurmctldPidFile=$D/slurmctld.pid
SlurmctldLogFile=$D/n0/slurmctld.log
StateSaveLocation=$D/state
SlurmdPidFile=$D/%n/slurmd.pid
SlurmdLogFile=$D/%n/slurmd.log
SlurmdSpoolDir=$D/%n/spool
# no cgroups, no affinity: works in any container
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
JobRequeue=1
# quick reactions for tests (seconds)
SlurmdTimeout=10
SlurmctldTimeout=10
KillWait=5
UnkillableStepTimeout=20
SchedulerParameters=sched_interval=5,bf_interval=5
TmpFS=$D/tmp
NodeName=$nodes CPUs=$CPUS RealMemory=$MEM State=UNKNOWN
PartitionName=debug Nodes=$nodes Default=YES MaxTime=INFINITE State=UP
C
}

daemons() {
    mkdir -p "$D/$1/spool"
    cat <<C
mount -t tmpfs run /run/munge
munged --force -F --num-threads 2 --key-file $D/munge.key --seed-file $D/$1/munge.seed \\
    --pid-file /run/munge/munged.pid --log-file $D/$1/munged.log &
for i in \$(seq 50); do [ -S /run/munge/munge.socket.2 ] && break; sleep .1; done
export SLURM_CONF=$SLURM_CONF
if [ $1 = n0 ]; then slurmctld -D -f $SLURM_CONF & else slurmd -D -N $1 -f $SLURM_CONF & fi
C
}

is_up() { # the head answers; a node is idle in its eyes
    local states
    states=$(run sinfo -h -N -n "$1" -o %T 2>/dev/null) || return 1
    [ "$1" = n0 ] || [ "$states" = idle ]
}

. "$(dirname "$0")/hosts.sh"
main "$@"
