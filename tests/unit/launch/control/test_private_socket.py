"""A socket that processes of one user on one host can call: its folder, what is left of it, and who else may come."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control import private_socket
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.private_socket import PrivateSocket, connect_privately, is_own
from mpiparallel.launch.control.rank_registry import RankRegistry

LIMIT = 60.0
ROOT = Path(__file__).parents[4]
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a second user as well")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that every user may write in, as /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def as_nobody(program: str, *words: object) -> subprocess.Popen[str]:
    """Run ``program`` as another user, who may not be able to read this Python: so that is read before."""
    begun = f"import os, socket, sys, time\nos.setgroups([])\nos.setgid({NOBODY})\nos.setuid({NOBODY})\n"
    argv = [sys.executable, "-I", "-c", begun + program, *map(str, words)]
    return subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE, text=True)


def test_both_ends_are_seen_to_be_of_this_user_and_nothing_is_left(temporary: Path) -> None:
    private = PrivateSocket()
    with connect_privately(str(private.folder), LIMIT) as client:
        heard, _ = private.listener.accept()
        with heard:
            assert is_own(heard)
            assert is_own(client)
    private.close()
    with pytest.raises(FileNotFoundError):
        connect_privately(str(private.folder), LIMIT)
    assert list(temporary.iterdir()) == []


def test_a_folder_that_somebody_has_removed_is_closed_all_the_same(temporary: Path) -> None:
    private = PrivateSocket()
    shutil.rmtree(private.folder)
    private.close()
    assert private.listener.fileno() < 0


def test_folder_for_temporary_files_with_a_long_name_serves_too(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("x" * 150) / "a,b:c d"
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with ControlServer(RankRegistry(1), spans_hosts=False) as server:
        told = ControlAddress.parse(str(server.address))
        connect_privately(told.hosts[0].removeprefix("@"), LIMIT).close()


def test_without_a_folder_the_launcher_is_called_over_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    with ControlServer(RankRegistry(1), spans_hosts=False) as server:
        assert server.address.hosts == ("127.0.0.1",)


@pytest.mark.parametrize("mode", [0o777, 0o710, 0o701])
def test_folder_that_others_may_enter_is_not_called(temporary: Path, mode: int) -> None:
    private = PrivateSocket()
    private.folder.chmod(mode)
    with pytest.raises(PermissionError, match="not closed to other users"):
        connect_privately(str(private.folder), LIMIT)
    private.close()


def test_link_to_a_private_folder_is_not_called(temporary: Path) -> None:
    private = PrivateSocket()
    link = temporary / "link"
    link.symlink_to(private.folder)
    with pytest.raises(OSError, match="link"):
        connect_privately(str(link), LIMIT)
    private.close()


HOLDING = """
import time
from mpiparallel.launch.control.private_socket import PrivateSocket
private = PrivateSocket()
print(private.folder, flush=True)
time.sleep(600)
"""


def test_what_a_killed_launcher_has_left_is_removed_by_the_next_and_that_of_a_living_one_stays(temporary: Path) -> None:
    words = [sys.executable, "-c", HOLDING]
    variables = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    holders = [subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout]
    try:
        holders[0].kill()
        holders[0].wait()
        assert folders[0].exists()
        private = PrivateSocket()
        assert [folder.exists() for folder in folders] == [False, True]
        connect_privately(str(folders[1]), LIMIT).close()
        private.close()
    finally:
        for holder in holders:
            holder.send_signal(signal.SIGKILL)
            holder.communicate()


ENTERING = """
done = []
folder = sys.argv[1]
for action in (
    lambda: os.listdir(folder),
    lambda: socket.socket(socket.AF_UNIX).connect(folder + "/line"),
    lambda: os.unlink(folder + "/line"),
    lambda: os.rmdir(folder),
    lambda: os.rename(folder, folder + ".mine"),
    lambda: os.chmod(folder, 0o777),
):
    try:
        done.append(action())
    except OSError:
        pass
print(len(done))
"""


@needs_root
def test_another_user_cannot_enter_call_replace_or_remove_it(temporary: Path) -> None:
    with ControlServer(RankRegistry(1), spans_hosts=False) as server:
        folder = server.address.hosts[0].removeprefix("@")
        assert as_nobody(ENTERING, folder).communicate(timeout=LIMIT)[0] == "0\n"
        connect_privately(folder, LIMIT).close()


OWNING = """
folder = sys.argv[1]
os.mkdir(folder, 0o777)
os.chmod(folder, int(sys.argv[2], 8))
listener = socket.socket(socket.AF_UNIX)
listener.bind(folder + "/line")
os.chmod(folder + "/line", 0o777)
listener.listen(0)
full = [socket.socket(socket.AF_UNIX) for _ in range(3)]
for one in full:
    one.setblocking(False)
    try:
        one.connect(folder + "/line")
    except OSError:
        pass
print("owned", flush=True)
time.sleep(600)
"""


@needs_root
@pytest.mark.parametrize("mode", ["700", "777"])
def test_folder_that_another_user_owns_first_is_refused_without_waiting(temporary: Path, mode: str) -> None:
    folder = temporary / "mpiparallel-line-taken"
    owner = as_nobody(OWNING, folder, mode)
    try:
        assert owner.stdout
        assert owner.stdout.readline() == "owned\n"
        begin = time.monotonic()
        with pytest.raises(PermissionError):
            connect_privately(str(folder), 10 * LIMIT)
        assert time.monotonic() < begin + LIMIT
        # The next launcher leaves what is another's alone.
        PrivateSocket().close()
        assert folder.exists()
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.parametrize("text", ["@zz:0:t", "@2f:x:t", ":1:t", "a:70000:t", "a:1:", "a"])
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="no address"):
        ControlAddress.parse(text)


def test_addresses_that_this_host_has_too_are_called_last() -> None:
    hosts = ("127.0.0.1", "@/tmp/folder", "192.0.2.7", "2001:db8::7")
    assert ControlAddress(hosts, 1, "t").nearest_first == ("@/tmp/folder", "192.0.2.7", "2001:db8::7", "127.0.0.1")


def test_a_launcher_of_another_user_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PrivateSocket()) as private:
        monkeypatch.setattr(private_socket, "is_own", lambda stream: False)
        with pytest.raises(PermissionError, match=r"^a process of another user listens there$"):
            connect_privately(str(private.folder), LIMIT)


def test_a_private_socket_that_cannot_be_made_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(private_socket, "_path_in", lambda number: "/nowhere/line")
    with pytest.raises(FileNotFoundError):
        PrivateSocket()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_others_always_take_is_tried_ten_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def taken(number: int, how: int) -> None:
        numbers.append(number)
        raise BlockingIOError

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", taken)
    with pytest.raises(FileNotFoundError, match=f"^new folders in {tmp_path} vanish$"):
        PrivateSocket()
    assert len(list(tmp_path.iterdir())) == len(numbers) == 10
    # Each was closed, so that the next could have its number.
    assert len(set(numbers)) < 10
