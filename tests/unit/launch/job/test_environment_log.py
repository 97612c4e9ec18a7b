"""What a rank writes down of its environment."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mpiparallel.launch.job.environment_log import LEFT_OUT, told, write_environment

SECRET = (
    *("HF_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PGPASSWORD", "MYSQL_PWD", "SSHPASS"),
    *("WANDB_API_KEY", "wandb_api_key", "GOOGLE_APPLICATION_CREDENTIALS", "SLURM_JWT_AUTH", "SESSION_COOKIE"),
    *("SSH_PASSPHRASE", "PRIVATE_PEM"),
)
SHOWN = ("PWD", "OLDPWD", "PATH", "HOME", "RANK_ID", "OMPI_MCA_osc", "PRTE_MCA_oob_tcp_keepalive_time")


@pytest.mark.parametrize("name", SECRET)
def test_the_value_of_a_secret_is_left_out_and_its_name_stays(name: str) -> None:
    assert told({name: "s3cr3t"}) == [f"{name}={LEFT_OUT}"]


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_no_secret_is_told(name: str) -> None:
    assert told({name: "60"}) == [f"{name}=60"]


def test_who_a_url_logs_in_as_is_left_out() -> None:
    assert told({"PIP_INDEX_URL": "https://me:mine@host/simple"}) == [f"PIP_INDEX_URL=https://{LEFT_OUT}@host/simple"]


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_only_its_user_may_read_it_from_the_first_moment(mask: int, tmp_path: Path) -> None:
    path = tmp_path / "env0.log"
    before = os.umask(mask)
    try:
        write_environment(path, {"NAME": "caf\udce9"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"NAME=caf\xe9\n"
    with pytest.raises(FileExistsError):
        write_environment(path, {})
