"""The sizes of the demo: what its command takes and hands on to the job on the ranks."""

from __future__ import annotations

import argparse

from mpiparallel.launch.command_line.argument_types import count, path_text


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take the data, the sizes of the network and the lengths of the training, under MindSpore's names.

    The learning rate is that of MindSpore's tutorial. Above 1.5e-4 this network trains so wildly that it magnifies the
    rounding of float32 beyond any limit, whatever runs it.
    """
    data = parser.add_argument_group("data")
    data.add_argument(
        "--file_path",
        type=path_text,
        metavar="FILE",
        help="English<TAB>French lines, or newstest2014-fren-ref.en.sgm with the .fr.sgm beside it "
        "(default: text of installed packages)",
    )
    _add_counts(
        data,
        batch_size=(32, "pairs of sentences in a batch of all ranks"),
        src_len=(10, "words of a source sentence"),
        tgt_len=(10, "words of a target sentence"),
        vocab_size=(2400, "words of each vocabulary"),
    )
    network = parser.add_argument_group("network")
    _add_counts(
        network,
        d_model=(128, "width of the network"),
        num_heads=(8, "heads of attention"),
        encoder_layers=(1, "layers of the encoder"),
        decoder_layers=(1, "layers of the decoder"),
    )
    network.add_argument(
        "--dtype", choices=["float32", "float64"], default="float32", help="of the weights (default: %(default)s)"
    )
    training = parser.add_argument_group("training")
    training.add_argument(
        "--steps", type=count, default=200, metavar="N", help="before the move (default: %(default)s)"
    )
    training.add_argument("--more_steps", type=count, default=120, metavar="N", help="after it (default: %(default)s)")
    training.add_argument("--lr", type=float, default=1e-4, metavar="RATE", help="learning rate (default: %(default)s)")
    training.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of the weights and the order of the data (default: %(default)s)",
    )


def size_words(arguments: argparse.Namespace) -> list[str]:
    """Return ``arguments`` as words for a parser that was made by `add_size_arguments`."""
    known = argparse.ArgumentParser()
    add_size_arguments(known)
    given = {name: getattr(arguments, name) for name in vars(known.parse_args([]))}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _add_counts(group: argparse._ArgumentGroup, **counts: tuple[int, str]) -> None:
    for name, (default, about) in counts.items():
        group.add_argument(
            f"--{name}", type=count, default=default, metavar="N", help=f"{about} (default: %(default)s)"
        )
