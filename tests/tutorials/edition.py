"""Where each listing of the tutorials stands in the edition that is known, and its lines; no word of its text.

``word`` is the number of words before it in its document, ``lines`` as :func:`tests.tutorials.listing.restored` takes
it, ``digest`` that of the original with its lines and indentation.
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A listing that has to be there."""

    name: str
    language: str
    word: int
    digest: str
    lines: str


DOCUMENTS: dict[str, tuple[Place, ...]] = {
    "parallel_training_example_ascend": (
        Place("rank_table_8pcs", "json", 315, "938a1a2c5eb0d79b", "1 2 2 2 1 2 2 4 4 4 4 4 4 4 4 2 1 1 2 1"),
        Place("init", "python", 643, "0e3fdb741e76e780", "2 4 4 4 .3 .1 .1"),
        Place(
            "create_dataset",
            "python",
            768,
            "35551081fa1eb5ec",
            "6 4 4 4 5 6 .3 .3 .5 .3 .5 .3 .3 .5 .4 .8 .3 .4 .4 .8 .3 .3 .4 .6 .6 .4 .4 .4 .3 .4 .4 .4 .3 .2",
        ),
        Place(
            "hybrid_net",
            "python",
            1199,
            "705604cab38e6f99",
            "4 4 6 4 2 .2 ..2 ..11 ..4 ..4 ..3 ..3 ..3 .3 ..4 ..4 ..3 ..2",
        ),
        Place(
            "semi_auto_net",
            "python",
            1338,
            "82317452cf3f2c92",
            "4 4 6 4 2 .2 ..2 ..5 ..4 ..3 ..4 ..5 ..3 .3 ..4 ..4 ..2",
        ),
        Place(
            "loss",
            "python",
            1549,
            "2d8a6a484eb79275",
            (
                "4 4 6 4 2 .3 ..2 ..3 ..3 ..3 ..4 ..4 ..3 ..3 ..3 ..3 ..3 ..3 ..3 ..3 ..3 .4 ..4 ..4 ..4 ..4 ..2 "
                "...6 ..3 ..5 ..4 ..4 ..2"
            ),
        ),
        Place("train", "python", 1922, "32f81398aee0e477", "5 4 4 4 4 3 2 4 2 .2 .3 .3 .3 .3 .4 .3 .8 .5 .4"),
        Place(
            "run_sh",
            "bash",
            2146,
            "addf6170a771ccbe",
            ("1 2 7 5 7 9 2 1 2 1 1 1 1 2 2 1 1 1 2 2 1 1 1 1 3 2 4 2 2 2 6 3 8 2 1 3 2 4 2 2 2 6 3 7 6 3 1 3 2 1 2"),
        ),
        Place(
            "rank_table_16pcs",
            "json",
            2673,
            "804d7408790c03fd",
            "1 2 2 2 1 2 2 4 4 4 4 4 4 4 4 2 1 1 2 2 4 4 4 4 4 4 4 4 2 1 1 2 1",
        ),
        Place(
            "run_cluster_sh", "bash", 2814, "246bd97fc1229591", "1 2 7 7 9 9 15 2 1 2 3 2 2 2 2 2 1 1 1 1 2 2 3 2 4 6 1"
        ),
        Place("run_two_servers", "bash", 2991, "8051a2501e53a2bc", "2 6 2 6"),
        Place("train_and_save", "python", 3185, "f2f2545291b92f43", "5 2 .2 .3 .3 .3 .3 .4 .3 .8 .3 .9 .5 .5"),
        Place("load", "python", 3268, "a34dec2b9f2351a7", "5 4 14 3 2"),
        Place("load_distributed", "python", 3442, "68cd061a2e4de6e1", "5 4 1 1 3 5 3 3 3 3 5 4 5 5 3 3 4 2"),
        Place("auto_parallel", "python", 3536, "4f4a76d9df773da0", "2"),
        Place("data_parallel", "python", 3539, "1fde68e053ea4f50", "2"),
        Place("save_semi_auto", "python", 3636, "1b8252d46125a596", "1 3 1 3 4"),
        Place("load_semi_auto", "python", 3658, "427980cb14485770", "3 14 3 2"),
        Place("integrated_save", "python", 3758, "6e91470a8d4c8fab", "3 3"),
        Place("sliced_save", "python", 3765, "6f44b26e1645864f", "3 4"),
    ),
    "distributed_fault_recovery": (
        Place("group_info_file", "bash", 434, "ce5c2371e5f62618", "2"),
        Place("train_and_save", "python", 458, "aa8a5ee7b10d64b6", "4 5 4 2 .3 .3 .4 .........1 .4 .3 .4"),
        Place("restore_group_info_list", "python", 679, "859b0aee4962de9e", "4 3 4"),
        Place("recover_train", "python", 715, "9bb21789a2dc1fdc", "2 4 2 .3 .3 .2 ..3 ..2 ..2 .4"),
        Place("run_save", "bash", 778, "4d7c76ec22a18d23", "3"),
        Place("run_recover", "bash", 789, "5ce3dd818787d4eb", "3"),
    ),
    "resilience_training_and_inference": (
        Place(
            "train_8p",
            "python",
            543,
            "2dfe54b0713f69e8",
            "4 8 4 1 3 3 3 1 4 .1 5 4 4 ........1 3 ........3 ........1 5 4",
        ),
        Place("run_train_8p", "bash", 635, "0d651c926ef153e3", "3"),
        Place("compile_4p", "python", 755, "a45486bb9f14bfd7", "4 4 4 1 3 3 3 1 4 .1 5 4 2"),
        Place("compile_for_inference", "python", 826, "0cb1802532be7db4", "4 4 4 1 3 3 3 1 4 .1 5 4 1"),
        Place("run_compile_4p", "bash", 886, "0554f43bf4ba2d43", "3"),
        Place("transform_dir", "python", 1080, "01cdb4276262cd20", "4 2 ......3"),
        Place("run_transform_dir", "bash", 1121, "484cf8ca1c468080", "6"),
        Place("transform_by_rank", "python", 1139, "2ffd36fbf5cc3260", "2 4 5 3 4 .5 4 .........1 3 ........2"),
        Place("run_transform_by_rank", "bash", 1190, "55b3bf31f933383a", "6"),
        Place("train_4p", "python", 1305, "bf49df26ab0e9aa8", "4 4 4 1 3 3 3 1 4 .1 5 4 3 2 2 4"),
        Place("infer", "python", 1375, "7e0797094a745b6d", "4 4 4 1 3 3 3 1 4 .1 5 4 3 1 2 2"),
        Place("run_train_4p", "bash", 1446, "51fbc6f9fe4c819b", "3"),
        Place(
            "train_pipeline",
            "python",
            1619,
            "7d2c96ef941ce725",
            "4 4 4 1 3 3 3 6 2 1 5 4 4 ........1 3 ........3 ........1 5 4",
        ),
        Place("run_train_pipeline", "bash", 1710, "6114c95062b5fdfc", "3"),
        Place("run_compile_after_pipeline", "bash", 1777, "0554f43bf4ba2d43", "3"),
        Place("merge_pipeline", "python", 1861, "63fb804302b8a5e1", "4 2 2 .......3"),
        Place("run_merge_pipeline", "bash", 1902, "fb4eabd314cb5efd", "6"),
        Place("run_train_after_pipeline", "bash", 1956, "51fbc6f9fe4c819b", "3"),
    ),
    "save_load_hybrid_parallel": (
        Place("import_checkpoints", "python", 618, "b8616294a4ab1fa6", "3 5 4 3 4 .11 .3 .2 .3 .5 ..3 .1"),
        Place("strategy", "python", 723, "241c4073bd997c71", "3"),
        Place("sliced_parameters", "python", 802, "af82419c56e150dc", "3 4 .3 .1"),
        Place("merge", "python", 848, "f9134700bdab96e4", "4"),
        Place("param_list", "python", 888, "fd3efe8bfee34de7", "3 5 .3 .3 .3 ..3 .1 ..3 .3 .1"),
        Place("save", "python", 937, "f0371768acec6899", "2"),
        Place("load", "python", 1082, "1e7419b6deebb91a", "3"),
        Place("divide", "python", 1210, "a1830328ccc7b0e3", "3 5 3 5"),
        Place("slices_of_rank", "python", 1287, "ffbef751d0626958", "3 3 3"),
        Place("set_data", "python", 1316, "f83e44266c6903b2", "2 2"),
        Place("load_into_net", "python", 1363, "683a333d5fdd4f14", "3 5 2 2"),
        Place("run_integrate", "bash", 1569, "89e815bf67828376", "30"),
        Place(
            "integrate_checkpoint",
            "python",
            1602,
            "a81c560a6ab2a3b6",
            (
                "4 2 4 5 4 7 2 .2 ..2 ..4 ..3 .3 ..4 ..2 5 .4 .3 .5 .4 .9 .3 .4 ..4 ..3 ..2 ..3 ..5 ...3 ...1 .3 "
                ".3 .5 ..7 ..3 ..4 ...3 ...1 ..8 ..4 ..3 .7 .3 .5 ..3 ..3 ..3 ...3 ..1 ...3 ..3 ..1 .10 .2 .1 4 "
                ".1 ..3 ..3 ..3 ..3 ..4 .1 ..5 ..1"
            ),
        ),
        Place(
            "stage_2",
            "python",
            2266,
            "62d7a35c15362559",
            (
                "4 2 4 4 4 5 4 5 4 3 2 1 2 .2 ..2 ..4 ..3 .3 ..4 ..2 4 .3 .5 ..7 ..3 ..6 ..5 ..6 ..3 ..3 ..6 ..2 "
                "..9 ..4 ..3 ..2 ..5 ..2 ..3 ..1 .4 ..4 ..5 ..4 ..3 ..3"
            ),
        ),
    ),
}
