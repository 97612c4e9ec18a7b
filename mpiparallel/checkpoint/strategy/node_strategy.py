"""The protobuf messages of MindSpore's strategy and group files.

The classes are made from the schema below when the first one is needed. So no generated file ties mpiparallel to one
release of protobuf, and a rank that needs no such file does not load protobuf. The classes live in a pool of their own,
so that MindSpore can be imported in the same process.
Source: ``node_strategy.proto`` of MindSpore, package ``mindspore.straspb``, proto2, repeated numbers not packed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_PACKAGE = "mindspore.straspb"
# Message: its fields, numbered from 1 in this order.
_SCHEMA = {
    "ParallelStrategy": ("repeated uint32 dim",),
    "ParallelStrategys": ("required uint32 stage", "repeated ParallelStrategy parallel_strategy"),
    "ParallelStrategyItem": ("required string node_name", "required ParallelStrategys parallel_strategys"),
    "DevMatrix": ("repeated uint32 dim",),
    "TensorMap": ("repeated int32 dim",),
    "ParamSplitShape": ("repeated int64 dim",),
    "IndicesOffset": ("repeated int64 dim",),
    "ParallelLayouts": (
        "repeated DevMatrix dev_matrix",
        "repeated TensorMap tensor_map",
        "repeated ParamSplitShape param_split_shape",
        "repeated IndicesOffset indices_offset",
        "required int32 field",
        "required int32 opt_weight_shard_step",
        "required int32 opt_weight_shard_size",
    ),
    "ParallelLayoutItem": ("required string param_name", "required ParallelLayouts parallel_layouts"),
    "ParallelGroupRanks": ("repeated uint32 dim",),
    "ParallelGroupItem": ("required string group_name", "required ParallelGroupRanks parallel_group_ranks"),
    "ParallelGroupMap": (
        "repeated ParallelGroupItem parallel_group_item",
        "required ParallelGroupRanks ckpt_restore_rank_list",
    ),
    "ParallelStrategyMap": (
        "required uint32 current_stage",
        "repeated ParallelStrategyItem parallel_strategy_item",
        "repeated ParallelLayoutItem parallel_layout_item",
    ),
}


_CLASSES = ("ParallelStrategyMap", "ParallelGroupMap")


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _classes()[name]


@cache
def _classes() -> dict[str, Any]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="node_strategy.proto", package=_PACKAGE, syntax="proto2")
    for message_name, fields in _SCHEMA.items():
        message = file.message_type.add(name=message_name)
        for number, declaration in enumerate(fields, start=1):
            label, kind, name = declaration.split()
            field = message.field.add(name=name, number=number)
            field.label = FieldDescriptorProto.Label.Value(f"LABEL_{label.upper()}")
            if kind in _SCHEMA:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _CLASSES}
