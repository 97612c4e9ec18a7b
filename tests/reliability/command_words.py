"""Command lines for every subcommand, and what becomes of one when words, files or variables of it are changed."""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LINES = tuple(
    line.split()
    for line in (
        "run --dry-run --mpi openmpi -n 4 train.py --lr 1",
        "run --dry-run --json --mpi openmpi --rank-table table.json train.py",
        "run --dry-run --mpi mpich -n 4 --hostfile hosts --log-dir logs train.py",
        "run --rank-table table.json --timeout 60 --tee-ranks 0,2-3 --log-dir new_logs train.py a b",
        "run -n 2 --on-failure restart:2 --watchdog 30 --preemption-signal USR2 --chaos kill@1:5 -m package.train",
        "run --worker_num=4 --local_worker_num=4 --log_dir=new_logs --master_port=8118 --join=True train.py",
        "run -n 8 --on-failure shrink --start-timeout 9 --tee --rank_table_file=table.json train.py",
        "demo --dir new_demo --ranks 4 --dp 2 --mp 2 --target_dp 1 --target_mp 2 --steps 3 --file_path pairs.txt",
        "demo --dtype float64 --lr 1e-4 --seed 3 --batch_size 8 --dp 1 --mp 1 --target_dp 1 --target_mp 1",
        "plan src.json dst.json --json",
        "plan src.ckpt dst.ckpt --shapes src.json --dtype float16 --moments 2 --ranks-per-host 4",
        "plan saved -n 4 --wave 16 --scratch 8 --bandwidth 25 --picture plan.svg",
        "plan saved/net-1_77 dst.json --relabel --picture plan.png",
        "ckpt ls saved --json",
        "ckpt show saved --only net.* --svg held.svg",
        "ckpt show state.npz",
        "ckpt show src.ckpt --only net.*",
        "ckpt show dst.json --json",
        "ckpt show group_info.pb",
        "ckpt verify saved/net-1_77.manifest.json --json",
        "ckpt diff saved/net-1_76 saved/net-1_77",
        "ckpt diff saved state.safetensors --json",
        "ckpt cat saved net.w --box 0:2,3:5",
        "ckpt cat state.h5 table -o table.npy",
        "ckpt transform saved new --ranks 3 --cut rows",
        "ckpt transform saved new --strategy src.json --replicate-missing --remove-redundancy",
        "ckpt merge saved whole.h5 --only net.*",
        "ckpt export saved whole.ckpt --format ckpt --json",
        "ckpt export state.ckpt whole.npz",
        "ckpt recover saved",
        "ckpt recover saved/net-1_76 --json",
        "ckpt prune saved --keep 1 --prefix net",
        "ckpt prune saved --leftovers --dry-run",
        "ranktable make --hostfile hosts --device-num [0,4) --sort -o made.json",
        "ranktable make --server-ip 10.0.0.1 --device_num=8 --visible_devices=7,6,5,4,3,2,1,0 --hccn hccn.conf",
        "ranktable make --slurm node[01-03,7] --tasks-per-node 2(x3),1 -o made.json",
        "ranktable merge table.json other.json --sort -o made.json",
        "ranktable show table.json --svg table.svg --json",
        "ranktable check table.json other.json --strict",
        "slurm make --nodes 2 --ntasks-per-node 8 --time 1-12:00:00 --requeue -o job.sh train.py --lr 1",
        "slurm make --job-name net --partition gpu --account me --gpus-per-node a100:4 --signal 60 --launcher pmix",
        "doctor --log-dir logs --checkpoint-dir saved -n 4 --json",
        "doctor --hostfile hosts --fix-hints",
        "postmortem logs --calls 2",
        "postmortem logs --json",
        "examples list --json",
        "examples show launchers/run.sh",
        "examples copy hostfiles new_hosts",
        "docs launching --json",
        "completion bash",
        "completion fish",
    )
)
# No file of the system: what is asked for is done, and some of it by root.
WORDS = (
    ("x" * 5000, "x/" * 2500, f"saved/{'x' * 300}", f"saved/{'x' * 250}.h5", f"{'x' * 251}.svg"),
    ("a\0b", "\0", "saved\0", "caf\udce9", "\x1b[31mred", "new\nline", "\u202e", "٣", "a b"),
    ("", "-", "--", "-n", "-o", "--json", "--help", "--only", "=", "*", "~", ":", "::", "0:0"),
    ("0", "-1", "1", "7", "9999999", "10000000", "1e309", "nan", "1" * 5000, "0x10", "1.5"),
    (".", "..", "./saved/", "folder", "pipe", "loop", "link", "linked_folder", "device", "socket", "closed"),
    ("absent", "absent/deep/file.h5", "hosts/file", "../outside/kept", "loop/file", "linked_folder/kept", "pipe/x"),
    ("hosts", "table.json", "src.json", "src.ckpt", "saved", "state.npz", "state.h5", "logs", "train.py"),
)
VARIABLES = (
    *("RANK_TABLE_FILE", "SLURM_JOB_NUM_NODES", "SLURM_TASKS_PER_NODE", "SLURM_JOB_NODELIST", "SLURM_JOB_ID"),
    *("MPIPARALLEL_ON_FAILURE", "MPIPARALLEL_PREEMPTION_SIGNAL", "MPIPARALLEL_WATCHDOG", "MPIPARALLEL_CHAOS"),
    *("TMPDIR", "COLUMNS", "HOME", "OPENBLAS_NUM_THREADS"),
)
_OUTPUTS = ("-o", "--output", "--svg", "--picture", "--dir", "--log-dir", "--log_dir")
_MOST_CHANGES = 3


@dataclass(frozen=True)
class Try:
    """A command line, the variables that are set beside it, and in words what was done to a file."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    damage: str

    def asked(self) -> list[Path]:
        """Return the paths that it may change, each with what is below, taken from the current folder."""
        named = [after for word, after in zip(self.words, self.words[1:], strict=False) if word in _OUTPUTS]
        named += [word.partition("=")[2] for word in self.words if word.startswith(_OUTPUTS)]
        named += [word[2:] for word in self.words if word.startswith("-o")]
        if self.words[:1] == ("demo",):
            named.append("mpiparallel_demo")
        if self.words[:1] == ("ckpt",) and {"transform", "merge", "export", "recover", "prune"} & set(self.words):
            named += self.words[1:]
        if self.words[:1] == ("examples",):
            named += [Path(word).name for word in self.words[1:]] + list(self.words[1:])
        if "recover" in self.words:
            named += [str(Path(word).parent) for word in self.words if "/" in word]
        return [Path(os.path.normpath(Path.cwd() / name)) for name in named if name and "\0" not in name]


def drawn(seed: int, folder: Path) -> Try:
    """Return a command line with one to three changes, and change files in ``folder`` that it may read."""
    chance = random.Random(seed)
    words = list(chance.choice(LINES))
    variables: dict[str, str] = {}
    damage = "none"
    for _ in range(chance.randint(1, _MOST_CHANGES)):
        kind = chance.choices(("word", "file", "variable"), (6, 3, 1))[0]
        if kind == "word":
            _change_word(chance, words)
        elif kind == "file":
            damage = _damage(chance, folder)
        else:
            # An empty TMPDIR is /tmp.
            variables[chance.choice(VARIABLES)] = _word(chance).replace("\0", "") or "absent"
    return Try(tuple(words), variables, damage)


def _word(chance: random.Random) -> str:
    return chance.choice(chance.choice(WORDS))


def _change_word(chance: random.Random, words: list[str]) -> None:
    place = chance.randrange(len(words))
    way = chance.choice(("replace", "replace", "replace", "insert", "drop", "double", "swap", "letters"))
    if way == "replace":
        option, is_given, _ = words[place].partition("=")
        words[place] = f"{option}={_word(chance)}" if is_given else _word(chance)
    elif way == "insert":
        words.insert(place, _word(chance))
    elif way == "drop" and len(words) > 1:
        del words[place]
    elif way == "double":
        words.insert(place, words[place])
    elif way == "swap":
        other = chance.randrange(len(words))
        words[place], words[other] = words[other], words[place]
    else:
        words[place] = "".join(chance.sample(words[place], len(words[place])))


def _damage(chance: random.Random, folder: Path) -> str:
    """Damage one file in ``folder``, or put something else in its place; return in words what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    path = chance.choice(files)
    way = chance.choice(("flip", "cut", "empty", "double", "words", "pipe", "folder", "link"))
    content = bytearray(path.read_bytes())
    if way == "flip" and content:
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    elif way == "cut":
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    elif way == "double":
        path.write_bytes(content * 2)
    elif way == "words":
        text = content.decode("latin-1")
        old = chance.choice(text.split() or [""])
        path.write_bytes(text.replace(old, _word(chance)[:500], 1).encode("utf-8", "surrogateescape"))
    else:
        path.unlink()
        if way == "pipe":
            os.mkfifo(path)
        elif way == "folder":
            path.mkdir()
        elif way == "link":
            path.symlink_to("/etc/hostname")
        else:
            path.touch()
    return f"{way} {path.relative_to(folder)}"


def furnish(folder: Path) -> None:
    """Put into ``folder`` what stands in the way: links, a pipe, a socket, a device where root may. Go there."""
    (folder / "folder").mkdir()
    (folder / "closed").mkdir(mode=0)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "link").symlink_to("../outside/kept")
    (folder / "linked_folder").symlink_to("../outside")
    # The path of a socket may have 108 bytes.
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    if not os.geteuid():
        os.mknod(folder / "device", 0o020666, os.makedev(1, 3))


def copied(source: Path, target: Path) -> None:
    """Copy the regular files of ``source``, and furnish ``target`` with the others. Go there."""
    shutil.copytree(source, target)
    furnish(target / "work")


def state_of(folder: Path) -> dict[Path, Sequence[object]]:
    """Return what tells that a file, folder or link below ``folder`` is another than before."""
    found: dict[Path, Sequence[object]] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[path] = (status.st_ino, status.st_mode, content)
    return found
