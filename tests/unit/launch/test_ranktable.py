from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.cli import main

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "rank_tables"
COUNTS = (1, 2, 4, 8, 16)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def owned(text: str) -> dict[str, list[tuple[int, int]]]:
    """Read a written table as any reader of JSON would: server_id -> (device_id, rank_id) of each device."""
    found = json.loads(text)
    assert (found["version"], found["status"]) == ("1.0", "completed")
    assert found["server_count"] == str(len(found["server_list"]))
    return {
        server["server_id"]: [(int(device["device_id"]), int(device["rank_id"])) for device in server["device"]]
        for server in found["server_list"]
    }


def made(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[tuple[int, int]]]:
    assert main(["ranktable", "make", *words]) == 0
    return owned(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["openmpi_2x8", "mpich_2x8", "repeated_2x8", "slurm_2x8"])
def test_table_is_made_of_a_hostfile_in_any_dialect(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert made(capsys, "--hostfile", str(ROOT / "hostfiles" / name)) == {
        "node1": [(number, number) for number in range(8)],
        "node2": [(number, 8 + number) for number in range(8)],
    }


def test_as_json_it_tells_where_the_table_was_written_and_what_it_holds(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert main(["ranktable", "make", "--server-ip", "here", "--device-num", "2", "-o", "table.json", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"output": "table.json", "table": json.loads((folder / "table.json").read_text())}
    assert main(["ranktable", "merge", "table.json", "--json"]) == 0
    merged = json.loads(capsys.readouterr().out)
    assert (merged["output"], merged["table"]["server_list"]) == (None, told["table"]["server_list"])


def test_table_is_made_of_a_slurm_node_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {"node01": [(0, 0), (1, 1)], "node02": [(0, 2), (1, 3)], "node7": [(0, 4)]}
    assert made(capsys, "--slurm", "node[01-02,7]", "--tasks-per-node", "2(x2),1") == expected
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[01-02,7]")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "2(x2),1")
    assert made(capsys, "--slurm") == expected
    assert made(capsys, "--slurm", "a,b", "--device-num", "[4,6)") == {"a": [(4, 0), (5, 1)], "b": [(4, 2), (5, 3)]}


def test_table_is_made_of_a_range_as_hccl_tools_spells_it(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "hccn.conf").write_text("netmask_4=255.255.255.0\naddress_4=192.98.92.1\naddress_5=192.98.92.2\n")
    words = ("--server_ip", "10.0.0.9", "--hccn", "hccn.conf")
    assert made(capsys, *words, "--device_num", "[4,6)") == {"10.0.0.9": [(4, 0), (5, 1)]}
    assert made(capsys, *words, "--device_num", "[0,10)")["10.0.0.9"][9] == (9, 9)
    assert main(["ranktable", "make", *words, "--device_num", "[0,2)", "--visible_devices", "4,5,6,7"]) == 0
    devices = json.loads(capsys.readouterr().out)["server_list"][0]["device"]
    assert [(device["device_id"], device["device_ip"]) for device in devices] == [
        ("4", "192.98.92.1"),
        ("5", "192.98.92.2"),
    ]


def test_table_is_made_of_what_nvidia_smi_lists(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n  MIG 1g.10gb Device 0: (UUID: MIG-0)\nGPU 3: NVIDIA (UUID: G)\n"
    )
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n[ \"$1\" = -L ] && cat <<'END'\n{listing}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert made(capsys, "--nvidia-smi", "--server-ip", "here") == {"here": [(0, 0), (3, 1)]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), 'which devices does .* have\\? give --device-num "\\[0,8\\)", or --nvidia-smi'),
        (("--device-num", "[8,0)"), '--device-num "\\[8,0\\)" names no devices; write'),
        (("--device-num", "[0,8]"), '--device-num "\\[0,8\\]" names no devices; write'),
        (("--device-num", "[0,999999)"), "names no devices; write"),
        (("--device-num", "8", "--server-ip", "a b"), '--server-ip "a b" is no host name'),
        (("--device-num", "[0,4)", "--visible-devices", "1,2"), "has 2 devices, --device-num asks for number 3"),
        (("--device-num", "[0,2)", "--visible-devices", "1,1"), "list each device_id once"),
        (("--visible-devices", "1,1"), "goes with --device-num"),
        (("--tasks-per-node", "8"), "goes with --slurm"),
        (("--slurm",), "SLURM_JOB_NODELIST is not set"),
        (("--slurm", "a[1-3]", "--tasks-per-node", "2(x2)"), "is of 2 hosts, the node list of 3"),
        (("--slurm", "a[1-3]", "--tasks-per-node", "2(y2)"), '"2\\(y2\\)" is no count'),
        (("--slurm", "a[1-99999]", "--tasks-per-node", "8"), "more than 100000 devices up to host a12501"),
        (("--slurm", "a", "--nvidia-smi"), "--nvidia-smi is about this machine only"),
        (("--nvidia-smi",), "nvidia-smi cannot be started"),
        (("--hostfile", "absent"), "absent: cannot be read"),
        (("--device-num", "8", "-o", "absent/table.json"), "--output absent/table.json: No such file"),
        (("--device-num", "8", "--hccn", "absent"), "absent: cannot be read"),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_refused_with_the_mend(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["ranktable", "make", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(told, captured.err)


def single(name: str, *numbers: int) -> Path:
    path = Path(f"{name}.json")
    devices = (Device(number, f"{name}.{number}", rank) for rank, number in enumerate(numbers))
    path.write_text(RankTable((Server(name, tuple(devices)),)).to_json())
    return path


def test_tables_of_single_hosts_become_one(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    files = [str(single("10.0.1", 0, 1)), str(single("10.0.0", 2, 3))]
    for path in map(Path, files):
        path.write_text(path.read_text().replace('"server_id": "10.0', '"server_id": "n10.0'))
    assert main(["ranktable", "merge", *files]) == 0
    assert owned(capsys.readouterr().out) == {"n10.0.1": [(0, 0), (1, 1)], "n10.0.0": [(2, 2), (3, 3)]}
    assert main(["ranktable", "merge", *files, "--sort", "-o", "whole.json"]) == 0
    assert owned(Path("whole.json").read_text()) == {"n10.0.0": [(2, 0), (3, 1)], "n10.0.1": [(0, 2), (1, 3)]}
    assert "whole.json: 2 hosts, 4 ranks" in capsys.readouterr().err


def test_faults_of_all_files_that_are_merged_come_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.json").write_text('{"version": "2.0"}')
    Path("two.json").write_text("{")
    assert main(["ranktable", "merge", "one.json", "two.json", "absent.json"]) == 2
    told = capsys.readouterr().err
    for words in ("one.json:1: version", "two.json:1: column", "absent.json: cannot be read"):
        assert words in told
    table = str(SHIPPED / "rank_table_2pcs.json")
    assert main(["ranktable", "merge", table, table]) == 2
    assert f'server "127.0.0.1" is in {table} too' in capsys.readouterr().err


def test_check_tells_every_fault_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    text = (SHIPPED / "rank_table_16pcs.json").read_text().replace('"rank_id": "', '"rank_id": "x')
    Path("bad.json").write_text(text)
    good = str(SHIPPED / "rank_table_8pcs.json")
    assert main(["ranktable", "check", good, "bad.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{good}: OK: 1 host, 8 ranks", "bad.json: 16 problems"]
    assert len(lines) == 18
    assert lines[2].startswith('bad.json:8: server_list[0].device[0].rank_id: "x0" is not a whole number')
    assert main(["ranktable", "check", "--json", good, "bad.json"]) == 1
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [(verdict["ok"], verdict["fault_count"]) for verdict in told] == [(True, 0), (False, 16)]


def test_a_file_that_cannot_be_read_is_one_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranktable", "check", "absent.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "absent.json: 1 problem"
    assert lines[1].startswith("absent.json: cannot be read (No such file or directory)")
    assert len(lines) == 2


@pytest.mark.parametrize(("count", "more"), [(500, []), (501, ["and 2 more"])])
def test_check_shows_a_thousand_faults_and_counts_the_others(
    count: int, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    devices = tuple(Device(number, f"d{number}", number) for number in range(count))
    text = RankTable((Server("here", devices),)).to_json()
    # Each is a number that is none, and leaves a rank without a device.
    Path("bad.json").write_text(text.replace('"rank_id": "', '"rank_id": "x'))
    assert main(["ranktable", "check", "bad.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"bad.json: {2 * count:,} problems"
    assert lines[1001:] == more


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("echo; echo No devices were found; echo else", 'lists no GPU, but says "No devices were found"; give'),
        ("echo Failed to initialize NVML >&2", 'lists no GPU, but says "Failed to initialize NVML"; give'),
        ("true", 'lists no GPU, but says "nothing"; give --device-num'),
        ("echo 'MIG GPU 0: none'", 'lists no GPU, but says "MIG GPU 0: none"; give --device-num'),
    ],
)
def test_nvidia_smi_that_lists_no_gpu_is_quoted(
    said: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{said}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert main(["ranktable", "make", "--nvidia-smi"]) == 2
    assert f"--nvidia-smi: nvidia-smi -L {told}" in capsys.readouterr().err


def test_nvidia_smi_that_never_answers_is_given_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(words: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert main(["ranktable", "make", "--nvidia-smi"]) == 2
    told = "--nvidia-smi: nvidia-smi has not answered in 60 s; look after the driver, or give --device-num"
    assert told in capsys.readouterr().err


def test_an_address_of_a_device_that_is_none_is_told_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "hccn.conf").write_text("gateway_0=none\naddress_0 = 10.0.0.1\naddress_1=10.0.0.256\n")
    assert main(["ranktable", "make", "--hccn", "hccn.conf", "--device-num", "2"]) == 2
    told = 'hccn.conf:3: "10.0.0.256" is not an IP address; write that of the device'
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("count", COUNTS)
def test_shipped_table_is_complete_and_passes_the_strict_check(count: int) -> None:
    path = SHIPPED / f"rank_table_{count}pcs.json"
    assert main(["ranktable", "check", "--strict", str(path)]) == 0
    devices = [number for numbers in owned(path.read_text()).values() for number, _ in numbers]
    assert devices == [number % 8 for number in range(count)]


def test_strict_check_counts_what_hccl_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranktable", "make", "--slurm", "b,a", "--device-num", "3", "-o", "odd.json"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "warning: " in line]
    for words, line in zip(("has 3 devices", "lexicographic order", "is a placeholder"), told, strict=True):
        assert words in line
    assert main(["ranktable", "check", "odd.json"]) == 0
    assert capsys.readouterr().out.count("warning: odd.json: server_list[") == 2
    assert main(["ranktable", "check", "--strict", "odd.json"]) == 1
    told = capsys.readouterr().out
    for words in ("odd.json: 3 problems", "has 3 devices", "lexicographic order"):
        assert words in told
    # Six devices have no address yet; the servers have their names.
    assert "is a placeholder, and so for 5 more values; for HCCL write the addresses" in told


def test_picture_shows_every_rank_on_its_device(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(SHIPPED / "rank_table_16pcs.json")
    assert main(["ranktable", "show", table, "--svg", "table.svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{table}: 2 hosts, 16 ranks"
    shown = [line.strip("│ ").replace("┊", " ").split() for line in lines if line.startswith("│")]
    assert shown == [
        ["device", *map(str, range(8))],
        ["rank", *map(str, range(8))],
        ["device", *map(str, range(8))],
        ["rank", *map(str, range(8, 16))],
    ]
    root = ElementTree.parse("table.svg").getroot()
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles[0] == "2 hosts, 16 ranks"
    assert titles[1:] == [
        f"rank {rank}: device {rank % 8}, 192.{rank % 4 + 1}.27.{6 + rank // 4}" for rank in range(16)
    ]
    assert main(["ranktable", "show", table, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ranks"] == 16
    assert told["servers"][1]["devices"][7] == {"device_id": 7, "device_ip": "192.4.27.9", "rank_id": 15}


def test_many_hosts_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranktable", "make", "--slurm", "n[0001-1250]", "--device-num", "8", "-o", "big.json"]) == 0
    assert main(["ranktable", "show", "big.json", "--svg", "big.svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 41
    assert lines[0] == "big.json: 1,250 hosts, 10,000 ranks"
    assert lines[-1] == "  n1250  ranks 9992-9999 on devices 0-7"
    assert len(list(ElementTree.parse("big.svg").getroot().iter(f"{SVG}g"))) == 10_000


@pytest.mark.parametrize("hosts", [17, 39, 40, 41])
def test_each_host_is_shown_once_or_counted(hosts: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranktable", "make", "--slurm", f"n[01-{hosts}]", "--device-num", "8", "-o", "some.json"]) == 0
    assert main(["ranktable", "show", "some.json"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " on devices 0-7" in line]
    names = [f"n{number:02}" for number in range(1, hosts + 1)]
    assert shown == (names if hosts <= 40 else [*names[:37], *names[-2:]])


def test_help_of_every_subcommand_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for subcommand in ("make", "merge", "show", "check"):
        with pytest.raises(SystemExit) as ended:
            main(["ranktable", subcommand, "--help"])
        assert ended.value.code == 0
        assert f"mpiparallel ranktable {subcommand}" in capsys.readouterr().out


def test_written_table_may_be_read_by_others(folder: Path) -> None:
    previous = os.umask(0o022)
    try:
        assert main(["ranktable", "make", "--slurm", "a", "--device-num", "8", "-o", "table.json"]) == 0
    finally:
        os.umask(previous)
    assert stat.S_IMODE((folder / "table.json").stat().st_mode) == 0o644
