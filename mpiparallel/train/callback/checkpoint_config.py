"""When checkpoints are saved, what is in them, and how many are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Final

from mpiparallel.checkpoint.shard_places import SHARD_FORMATS
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError

ON_ERROR: Final = ("raise", "warn")
_INFORMATION: Final = ("epoch_num", "step_num")


@dataclass(frozen=True)
class CheckpointConfig:
    """When ``ModelCheckpoint`` saves, and what; names and places are those of MindSpore's class.

    It saves at the end of a training too. By default, unlike in MindSpore, each rank writes its slices: a checkpoint of
    slices loads on any number of ranks too. Whole checkpoints are deleted, manifest first.

    Parameters
    ----------
    save_checkpoint_steps : int
        Every how many steps.
    save_checkpoint_seconds : int
        Every how many seconds, instead, where it is set.
    keep_checkpoint_max : int
        How many are kept, the newest always.
    keep_checkpoint_per_n_minutes : int
        Keep one checkpoint for each interval of this many minutes, and the newest, instead of ``keep_checkpoint_max``.
    integrated_save : bool
        Whether rank 0 gathers whole tensors and writes the only file, for programs of one device. It must have memory
        for all of them. Of what is each rank's own, such as moving averages of its own batches, there is rank 0's.
    async_save : bool or str
        Whether a step waits only until its slices are copied. A thread writes them, and the checkpoint is committed at
        the end of a later step.
    saved_network : Cell, optional
        A part of the network, of which alone the parameters are saved; no training can be resumed from it.
    append_info : sequence, optional
        "epoch_num", "step_num" and dicts by name of numbers and tensors, which each file then has besides, and of
        texts, which only the manifest has.
    enc_key, enc_mode
        Encryption is refused.
    exception_save : bool
        False.
    crc_check : bool
        Digests are always written, whatever it says.
    remove_redundancy : bool
        Whether a slice that several ranks hold is written by one of them, so that there is no replica to recover it
        from.
    format : {"h5", "ckpt", "safetensors"}
        Of the shards: "h5", whose every MiB has a digest, "ckpt" as MindSpore's files are; a training resumes from any.
    on_error : {"raise", "warn"}
        Where a save fails, for example because the disk is full: "warn" says so and trains on, "raise" raises
        CheckpointError on all ranks.
    save_ckpt_steps, keep_ckpt_max : int, optional
        ``save_checkpoint_steps`` and ``keep_checkpoint_max``, as one of the tutorials has them.

    Raises
    ------
    ConfigurationError
        For what cannot be.

    Examples
    --------
    >>> CheckpointConfig(save_checkpoint_steps=32, keep_checkpoint_max=2, async_save=True).async_save
    True
    >>> CheckpointConfig(format="npz")
    Traceback (most recent call last):
    ...
    mpiparallel.errors.ConfigurationError: CheckpointConfig: format 'npz' is not one of h5, ckpt, safetensors
    """

    save_checkpoint_steps: int = 1
    save_checkpoint_seconds: int = 0
    keep_checkpoint_max: int = 5
    keep_checkpoint_per_n_minutes: int = 0
    integrated_save: bool = False
    async_save: bool | str = False
    saved_network: Any = None
    append_info: Sequence[Any] | None = None
    enc_key: Any = None
    enc_mode: str = "AES-GCM"
    exception_save: bool = False
    crc_check: bool = False
    remove_redundancy: bool = False
    format: str = "h5"
    on_error: str = "raise"
    save_ckpt_steps: InitVar[int | None] = field(default=None, kw_only=True)
    keep_ckpt_max: InitVar[int | None] = field(default=None, kw_only=True)

    def __post_init__(self, save_ckpt_steps: int | None, keep_ckpt_max: int | None) -> None:
        for name, older in (("save_checkpoint_steps", save_ckpt_steps), ("keep_checkpoint_max", keep_ckpt_max)):
            if older is not None:
                object.__setattr__(self, name, older)
        self._check_numbers()
        self._check_choices()
        self._check_append_info()

    def _check_numbers(self) -> None:
        names = ("save_checkpoint_steps", "save_checkpoint_seconds", "keep_checkpoint_max")
        for name in (*names, "keep_checkpoint_per_n_minutes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise ConfigurationError(f"CheckpointConfig: {name} {value!r} must be a number of at least 0")

    def _check_choices(self) -> None:
        where = "CheckpointConfig"
        check_protection(where, self.enc_key, self.crc_check, enc_mode=self.enc_mode)
        if self.async_save not in (True, False, "thread"):
            raise ConfigurationError(f"{where}: async_save {self.async_save!r} must be True or False; a thread writes")
        if self.exception_save:
            raise ConfigurationError(
                f"{where}: exception_save=True cannot be, because ranks commit a checkpoint together, and one that has "
                "failed does not take part; save every few steps"
            )
        if self.format not in SHARD_FORMATS:
            raise ConfigurationError(f"{where}: format {self.format!r} is not one of {', '.join(SHARD_FORMATS)}")
        if self.on_error not in ON_ERROR:
            raise ConfigurationError(f"{where}: on_error {self.on_error!r} is not one of 'raise', 'warn'")

    def _check_append_info(self) -> None:
        for item in self.append_info or ():
            if item not in _INFORMATION if isinstance(item, str) else not isinstance(item, dict):
                raise ConfigurationError(
                    f"CheckpointConfig: append_info has {item!r}; give 'epoch_num', 'step_num' and dicts by name"
                )


def check_protection(where: str, key: Any, crc_check: bool = False, **modes: Any) -> None:
    """Raise ConfigurationError where a key is given: files are not encrypted here; say what has no effect besides."""
    no_effect(where, "crc_check", crc_check, "checksums are always written, and always looked at", default=False)
    for name, mode in modes.items():
        no_effect(where, name, mode, "files are not encrypted here", default="AES-GCM")
    if key is not None:
        raise ConfigurationError(
            f"{where}: files are not encrypted or decrypted here; leave the key out, and keep the folder on an "
            "encrypted disk"
        )
