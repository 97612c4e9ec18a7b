"""What another user of a host tries against a job: to learn its token, to end it, to delay it, to change it.

As root, it becomes that user first.

``rogue.py attack FOLDER HOST PORTS``  carries out every attack on these ports of the launcher, one after the other
``rogue.py own FOLDER``                takes on this host, first, all names and ports that ``spy`` sees on the other
``rogue.py spy FOLDER``                writes down what any user of the launcher's host can see of it

In FOLDER, which all may write, the job counts its steps. An attack goes on until the job has made some more; it prints
a line of JSON: its name, whether it was carried out, whether the job went on meanwhile, and all that it has heard.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  # another user may not be able to read it later
import json
import os
import re
import selectors
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STEPS = 3
GIVE_UP_SECONDS = 60.0
RANKS = 8
NOBODY = 65534
_NAP = 0.01
_FAILED = {"time": 1.0, "exception": "words of a stranger", "traceback": "", "exit_code": 77}
_LISTENING = "0A"
_LAUNCHERS_USER = 0
_FOLDER_NAME = re.compile(r"mpiparallel-.*")
_OWNED_SOCKET = "line"

Over = Callable[[], bool]


def _line(word: str, **fields: object) -> bytes:
    return json.dumps({"word": word, **fields}).encode() + b"\n"


def _words_of_a_rank(rank: int) -> bytes:
    return _line("ready") + _line("failed", failure={**_FAILED, "rank": rank}) + _line("completed")


def _hello(rank: int, **fields: object) -> bytes:
    fields = {"rank": rank, "process": rank, "pid": os.getpid(), "host": "n1", "nonce": "0" * 32, **fields}
    return _line("hello", **fields)


class Launcher:
    """The launcher as another user sees it: an address, the ports at which it may listen, when (s) it began."""

    def __init__(self, host: str, ports: list[int], begin: float) -> None:
        self._host = host
        self._ports = ports
        self._begin = begin
        self.reached = 0

    @contextmanager
    def connections(self, count: int = 1) -> Iterator[list[socket.socket]]:
        """Connections to each of the ports."""
        opened: list[socket.socket] = []
        try:
            for port in self._ports * count:
                with suppress(OSError):
                    opened.append(socket.create_connection((self._host, port), 5))
            self.reached += len(opened)
            yield opened
        finally:
            for one in opened:
                one.close()

    def left_files(self) -> Iterator[Path]:
        """What its user has changed in the usual folders since the job began."""
        for root in {"/dev/shm", tempfile.gettempdir()}:
            for folder, _, names in os.walk(root):
                for path in (Path(folder, name) for name in names):
                    with suppress(OSError):
                        status = path.lstat()
                        is_its = status.st_uid == _LAUNCHERS_USER and status.st_mtime >= self._begin
                        if is_its and stat.S_ISREG(status.st_mode):
                            yield path

    def exchange(self, contents: list[bytes], is_over: Over) -> bytes:
        """Say each of the contents on a connection of its own, and return what comes until it is over."""
        heard = b""
        for content in contents:
            with self.connections() as opened:
                for one in opened:
                    heard += _said(one, content)
        while not is_over():
            time.sleep(_NAP)
        return heard


def _said(connection: socket.socket, content: bytes) -> bytes:
    heard = b""
    connection.settimeout(0.3)
    with suppress(OSError):
        connection.sendall(content)
        while piece := connection.recv(65536):
            heard += piece
    return heard


def garbage(launcher: Launcher, is_over: Over) -> bytes:
    """Bytes that are no message."""
    return launcher.exchange([b"GET / HTTP/1.1\r\n\r\n", os.urandom(3000), b"[" * 900 + b"\n", b"{}\n"], is_over)


def endless_line(launcher: Launcher, is_over: Over) -> bytes:
    """More bytes than anybody should keep."""
    return launcher.exchange([b'{"word": "' + b"x" * 8_000_000], is_over)


def numbers_without_end(launcher: Launcher, is_over: Over) -> bytes:
    """Numbers that do not fit anywhere."""
    return launcher.exchange([_hello(10**300), b'{"word":"hello","rank":' + b"9" * 900 + b"}\n"], is_over)


def old_hello(launcher: Launcher, is_over: Over) -> bytes:
    """A hello with a token, as ranks said it once, and the last words of a rank behind it."""
    return launcher.exchange([_hello(1, token="") + _words_of_a_rank(1), _hello(1, token=None)], is_over)


def hello_of_every_rank(launcher: Launcher, is_over: Over) -> bytes:
    """The hello of each rank with a proof that is none, and its last words."""
    proofs = ("0" * 64, "", "\ud800", 5)
    return launcher.exchange(
        [_hello(rank, proof=proofs[rank % 4]) + _words_of_a_rank(rank) for rank in range(RANKS)], is_over
    )


def answer_without_hello(launcher: Launcher, is_over: Over) -> bytes:
    """The end of a handshake without its beginning."""
    mark = b"0" * 64 + b" "
    return launcher.exchange([mark + _line("answer", pid=1, host="n1") + _words_of_a_rank(2)], is_over)


def words_of_the_launcher(launcher: Launcher, is_over: Over) -> bytes:
    """What the launcher says, said to it."""
    nonce = "1" * 32
    return launcher.exchange(
        [_line("challenge", nonce=nonce, proof="2" * 64) + _line("welcome") + _line("signal", number=9)], is_over
    )


def reflection(launcher: Launcher, is_over: Over) -> bytes:
    """All that the launcher says, said back to it."""
    heard = b""
    with launcher.connections() as opened:
        for one in opened:
            told = _said(one, _hello(3, proof="0" * 64))
            heard += told + _said(one, told)
    return heard + launcher.exchange([heard], is_over)


def half_a_handshake(launcher: Launcher, is_over: Over) -> bytes:
    """A hello without its end, held until it is over."""
    with launcher.connections() as opened:
        for one in opened:
            with suppress(OSError):
                one.sendall(_hello(0, proof="0" * 64)[:-20])
        return launcher.exchange([], is_over)


def silent_crowd(launcher: Launcher, is_over: Over) -> bytes:
    """Many connections that say nothing."""
    with launcher.connections(150):
        return launcher.exchange([], is_over)


def one_byte_at_a_time(launcher: Launcher, is_over: Over) -> bytes:
    """A hello that takes for ever."""
    with launcher.connections() as opened:
        content = _hello(0, proof="0" * 64) * 100
        while not is_over():
            for one in opened:
                with suppress(OSError):
                    one.send(content[:1])
            content = content[1:] or b" "
            time.sleep(_NAP)
    return b""


def flood(launcher: Launcher, is_over: Over) -> bytes:
    """Connections that come and go as fast as they can."""
    while not is_over():
        with launcher.connections(20):
            pass
    return b""


def cut_connections(launcher: Launcher, is_over: Over) -> bytes:
    """Connections that are reset in the middle of a word."""
    while not is_over():
        with launcher.connections(5) as opened:
            for one in opened:
                with suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.send(_hello(0, proof="0" * 64)[:50])
    return b""


def reading(launcher: Launcher, is_over: Over) -> bytes:
    """All that this user may read of the processes of the job, and of what they have left in the usual folders."""
    heard = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ", "maps", "stack", "mem", "wchan"):
            with suppress(OSError), (process / name).open("rb") as stream:
                heard.append(stream.read(65536))
    for path in launcher.left_files():
        with suppress(OSError), path.open("rb") as stream:
            heard.append(stream.read(65536))
    launcher.reached += 1
    while not is_over():
        time.sleep(_NAP)
    return b"".join(heard)


def folder_of_the_launcher(launcher: Launcher, is_over: Over) -> bytes:
    """Entering, calling, replacing and removing the folder where the launcher listens on its host."""
    heard = b""
    for folder in _seen_folders():
        launcher.reached += 1
        with suppress(OSError):
            heard += "".join(os.listdir(folder)).encode()  # noqa: PTH208
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{folder}/{_OWNED_SOCKET}")
            heard += _said(connection, _hello(0, proof="0" * 64))
        with suppress(OSError):
            (folder / _OWNED_SOCKET).unlink()
        with suppress(OSError):
            folder.rmdir()
        with suppress(OSError):
            folder.rename(f"{folder}.mine")
    while not is_over():
        time.sleep(_NAP)
    return heard


def _seen_folders() -> list[Path]:
    roots = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    return [path for root in roots for path in root.iterdir() if _FOLDER_NAME.fullmatch(path.name)]


ATTACKS = (
    garbage,
    endless_line,
    numbers_without_end,
    old_hello,
    hello_of_every_rank,
    answer_without_hello,
    words_of_the_launcher,
    reflection,
    half_a_handshake,
    silent_crowd,
    one_byte_at_a_time,
    flood,
    cut_connections,
    reading,
)
ON_THE_HEAD = (*ATTACKS, folder_of_the_launcher)


def attack(folder: Path, host: str, ports: str) -> None:
    """Carry out all attacks."""
    head = folder / "head"
    is_head = head.read_text() == os.uname().nodename
    for one in ON_THE_HEAD if is_head else ATTACKS:
        launcher = Launcher(host, [int(port) for port in ports.split(",")], head.stat().st_mtime)
        begin, first = time.monotonic(), _steps(folder)

        def is_over(begin: float = begin, first: int = first) -> bool:
            return _steps(folder) >= first + STEPS or time.monotonic() > begin + GIVE_UP_SECONDS

        heard = one(launcher, is_over)
        _tell(one.__name__, launcher.reached > 0, _steps(folder) >= first + STEPS, heard)


def _tell(name: str, was_done: bool, went_on: bool, heard: bytes) -> None:
    print(json.dumps({"attack": name, "done": was_done, "went_on": went_on, "heard": heard.hex()}), flush=True)


def _steps(folder: Path) -> int:
    with suppress(OSError):
        return (folder / "steps").stat().st_size
    return 0


def spy(folder: Path) -> None:
    """Write down what there is to see of the launcher, until the job is over."""
    (folder / "head").write_text(os.uname().nodename)
    partial = folder / "seen.partial"
    while not (folder / "over").exists():
        folders = [str(path) for path in _seen_folders()]
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
        names = [line.rpartition(" @")[2] for line in lines if " @mpiparallel" in line]
        partial.write_text(json.dumps({"folders": folders, "names": names, "ports": _listening_ports()}))
        partial.replace(folder / "seen")
        time.sleep(_NAP)


def _listening_ports() -> list[int]:
    """Return the ports at which processes of the user of the job listen."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for words in (line.split() for line in Path(table).read_text().splitlines()[1:]):
            if words[3] == _LISTENING and int(words[7]) == _LAUNCHERS_USER:
                found.add(int(words[1].rpartition(":")[2], 16))
    return sorted(found)


def own(folder: Path) -> None:
    """Own on this host what is seen on the launcher's; tell whoever calls to take signal 9, and keep what it says."""
    owned: dict[str, socket.socket] = {}
    selector = selectors.DefaultSelector()
    heard = b""
    kinds = {"folders": 0, "names": 0, "ports": 0}
    while not (folder / "over").exists():
        with suppress(OSError, ValueError):
            seen = json.loads((folder / "seen").read_text())
            for kind, names in seen.items():
                for name in names:
                    if f"{kind} {name}" not in owned:
                        with suppress(OSError):
                            owned[f"{kind} {name}"] = listener = _owned(kind, name)
                            selector.register(listener, selectors.EVENT_READ)
                            kinds[kind] += 1
        for key, _ in selector.select(_NAP):
            with suppress(OSError):
                connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                heard += b"called " + _said(connection, _line("welcome") + _line("signal", number=9))
    _tell(f"own {kinds}", any(kinds.values()), True, heard)


def _owned(kind: str, name: str | int) -> socket.socket:
    if kind == "ports":
        return socket.create_server(("0.0.0.0", int(name)))
    listener = socket.socket(socket.AF_UNIX)
    if kind == "folders":
        Path(str(name)).mkdir(mode=0o777)
        listener.bind(f"{name}/{_OWNED_SOCKET}")
        Path(f"{name}/{_OWNED_SOCKET}").chmod(0o777)
    else:
        listener.bind(f"\0{name}")
    listener.listen(100)
    return listener


def _become_nobody() -> None:
    # Here and not before Python starts, which another user may not be able to read.
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


if __name__ == "__main__":
    _become_nobody()
    {"attack": attack, "spy": spy, "own": own}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
