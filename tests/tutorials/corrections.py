"""The faults of each listing, and how each is mended."""

from __future__ import annotations

from tests.tutorials.correction import Correction

RESNET = "parallel_training_example_ascend"
RECOVERY = "distributed_fault_recovery"
RESILIENCE = "resilience_training_and_inference"
HYBRID = "save_load_hybrid_parallel"
_LOCAL = "server_id is to be replaced, as the text says"
_AUTO = "the text says that only the mode changes"
_FEWER = "fewer images and epochs than a cluster would take"
_OTHER_SCRIPT = "the script for several hosts is the other one"
_SLICES = "no fault: here a checkpoint has each rank's slices unless whole weights are asked for"
_NO_DATA_PATH = "data_path is missing; the script of the text exports DATA_PATH"
_NO_IMPORTS = "its imports are missing"
_SHOWN = "the text shows losses, which nothing prints"
_COPY = "param_dict[param.name] = Parameter(param.asnumpy().copy(), name=param.name)"
_ONE_OBJECT = "the parameter is one object, which holds the values of the last rank in the end: a copy for each rank"

CORRECTIONS = [
    Correction(f"{RESNET}/rank_table_8pcs", "10.*.*.*", "127.0.0.1", _LOCAL),
    Correction(f"{RESNET}/rank_table_16pcs", "10.*.*.*", "127.0.0.1", _LOCAL),
    Correction(f"{RESNET}/rank_table_16pcs", "10.*.*.*", "127.0.0.2", _LOCAL),
    Correction(f"{RESNET}/create_dataset", "batch_size=32", "batch_size=4", _FEWER, "few"),
    Correction(f"{RESNET}/hybrid_net", "", "import numpy as np\nfrom mindspore import Parameter", _NO_IMPORTS),
    Correction(f"{RESNET}/hybrid_net", "128/2", "128//2", "a shape of half numbers"),
    Correction(f"{RESNET}/semi_auto_net", "", "import numpy as np\nfrom mindspore import Parameter", _NO_IMPORTS),
    Correction(f"{RESNET}/train", "", "import os\nfrom mindspore.communication import init", _NO_IMPORTS),
    Correction(
        f"{RESNET}/train",
        "# set device_id",
        "\ninit()",
        "init() stands only where the file is run, and pytest imports it",
    ),
    Correction(f"{RESNET}/train", "(data_path)", "(os.environ['DATA_PATH'])", _NO_DATA_PATH),
    Correction(f"{RESNET}/train", "epoch_size=10", "epoch_size=3", _FEWER, "few"),
    Correction(f"{RESNET}/train", "AUTO_PARALLEL", "DATA_PARALLEL", _AUTO, "data parallel"),
    Correction(f"{RESNET}/run_two_servers", "bash run.sh", "bash run_cluster.sh", _OTHER_SCRIPT),
    Correction(f"{RESNET}/run_two_servers", "bash run.sh", "bash run_cluster.sh", _OTHER_SCRIPT),
    Correction(f"{RESNET}/train_and_save", "(data_path)", "(os.environ['DATA_PATH'])", _NO_DATA_PATH),
    Correction(f"{RESNET}/train_and_save", "epoch_size=10", "epoch_size=3", _FEWER, "few"),
    Correction(f"{RESNET}/train_and_save", "AUTO_PARALLEL", "DATA_PARALLEL", _AUTO, "data parallel"),
    Correction(f"{RESNET}/load", "'...'", "'./ckpt_0/auto_parallel-3_6.ckpt'", "a place for the name of a file"),
    Correction(
        f"{RESNET}/load_semi_auto", "", "from mindspore import load_checkpoint, load_param_into_net", _NO_IMPORTS
    ),
    Correction(
        f"{RESNET}/load_semi_auto",
        "'...'",
        "'./checkpoints/rank_0/semi_auto_parallel-2_4.h5'",
        "a place for the name of a file",
    ),
    Correction(
        f"{RESNET}/load_distributed",
        "",
        "from mindspore import Model\nfrom mindspore.nn import Momentum, SoftmaxCrossEntropyWithLogits",
        _NO_IMPORTS,
    ),
    Correction(
        f"{RESNET}/load_distributed",
        "Momentum()",
        "Momentum(resnet.trainable_params(), 0.01, 0.9)",
        "arguments are left out",
    ),
    Correction(f"{RESNET}/integrated_save", "max=1", "max=1, integrated_save=True", _SLICES),
    Correction(
        f"{RESNET}/load_distributed", "Logits()", "Logits(sparse=True, reduction='mean')", "arguments are left out"
    ),
    Correction(
        f"{RESNET}/load_distributed", "# training the model", "look(model)", "to look at what was loaded", "look"
    ),
    Correction(
        f"{HYBRID}/import_checkpoints",
        "",
        "import os\nimport numpy as np\nfrom mindspore import Parameter, Tensor, build_searched_strategy\n"
        "from mindspore import load_checkpoint, load_param_into_net, merge_sliced_parameter, save_checkpoint\n"
        "from mindspore.nn import Momentum, TrainOneStepCell\nrank_size = 4",
        f"{_NO_IMPORTS}, and rank_size, which the text explains",
    ),
    Correction(f"{HYBRID}/import_checkpoints", "param_dict[param.name] = param", _COPY, _ONE_OBJECT),
    Correction(
        f"{HYBRID}/param_list",
        "",
        'param_dict["weight"] = merged_parameter',
        "the merged parameter is never put in the list that is saved",
    ),
    Correction(
        f"{HYBRID}/load",
        "",
        "from mindspore import Parameter, Tensor, load_checkpoint, load_param_into_net",
        _NO_IMPORTS,
    ),
    Correction(
        f"{HYBRID}/divide",
        "",
        "import numpy as np\nparameter_dict = param_dict",
        "param_dict is parameter_dict from here",
    ),
    Correction(f"{HYBRID}/slices_of_rank", "", "from mindspore.communication import get_rank", _NO_IMPORTS),
    Correction(f"{HYBRID}/load_into_net", "", "from mindspore.nn import Momentum", _NO_IMPORTS),
    Correction(f"{HYBRID}/load_into_net", "parallel_net", "net", "the network is called net"),
    Correction(
        f"{HYBRID}/run_integrate",
        '"Name of the checkpoint file to be integrated" '
        '"Path and name of the checkpoint file generated after integration"'
        ' "Path and name of the strategy file" "Number of nodes"',
        "CKP_1-4_32.ckpt ./CKP-Integrated_1-4_32.ckpt ./strategy_train.ckpt 4",
        "words stand for its arguments",
    ),
    Correction(
        f"{HYBRID}/integrate_checkpoint",
        "",
        "import sys\nfrom mindspore import load_param_into_net\nfrom mindspore.nn import Momentum, TrainOneStepCell",
        _NO_IMPORTS,
    ),
    Correction(f"{HYBRID}/integrate_checkpoint", "param_dict[param.name] = param", _COPY, _ONE_OBJECT),
    Correction(
        f"{HYBRID}/integrate_checkpoint",
        "param_dicts.append(param_dict)",
        None,
        "each rank's parameters were appended as often as it has parameters, so all were those of rank 0",
    ),
    Correction(
        f"{HYBRID}/stage_2",
        "",
        "import sys\nfrom mindspore.communication import get_rank\nfrom mindspore.nn import Momentum",
        _NO_IMPORTS,
    ),
    Correction(f"{HYBRID}/stage_2", "parameter_dict", "param_dict", "the dictionary is called param_dict"),
    Correction(f"{HYBRID}/stage_2", "parallel_net", "net", "the network is called net"),
    Correction(
        f"{HYBRID}/stage_2",
        "# load the modified",
        None,
        "in the loop, so moments.weight was loaded before it was divided",
    ),
    Correction(f"{HYBRID}/stage_2", "if __name__", None, "in the function, so it was never run"),
    Correction(f"{HYBRID}/stage_2", "...", "train(net, opt, input, label)", "a place for the reader's code"),
    Correction(f"{RECOVERY}/train_and_save", "[ckpoint_cb]", "[ckpoint_cb, LossMonitor()]", _SHOWN),
    Correction(f"{RECOVERY}/restore_group_info_list", "//", "#", "a comment of another language"),
    Correction(
        f"{RESILIENCE}/compile_for_inference",
        "opt = ",
        "from mindspore import Tensor\nimport numpy as np\nopt = ",
        _NO_IMPORTS,
    ),
    Correction(
        f"{RESILIENCE}/transform_by_rank",
        '"src_checkpoint{}.ckpt".format(rank_id)',
        '"src_checkpoint-2_8.ckpt"',
        "a wrong name: it is the one of the training's last checkpoint on every rank",
    ),
    Correction(f"{RESILIENCE}/infer", "(2, predict_data)", "(predict_data)", "predict takes no number of epochs"),
    Correction(f"{RESILIENCE}/train_pipeline", "", "from mindspore.nn import PipelineCell", _NO_IMPORTS),
    Correction(
        f"{RESILIENCE}/train_pipeline",
        'src_strategy{}.ckpt"',
        'src_strategy{}.ckpt".format(rank_id)',
        "the number of the rank is not put in",
    ),
]
