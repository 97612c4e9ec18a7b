"""A reader of the checkpoints that MindSpore's own programs wrote, as an outside truth."""

from __future__ import annotations

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_SCHEMA = {
    "Checkpoint": ("repeated Value value",),
    "Value": ("required string tag", "required TensorProto tensor"),
    "TensorProto": ("repeated int64 dims", "required string tensor_type", "required bytes tensor_content"),
}


def checkpoint_message():
    """Return protobuf's own class of a checkpoint."""
    file = FileDescriptorProto(name="checkpoint.proto", syntax="proto2")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, declaration in enumerate(fields, start=1):
            label, kind, field_name = declaration.split()
            field = message.field.add(name=field_name, number=number)
            field.label = FieldDescriptorProto.Label.Value(f"LABEL_{label.upper()}")
            nested = kind in _SCHEMA
            field.type = FieldDescriptorProto.Type.Value("TYPE_MESSAGE" if nested else f"TYPE_{kind.upper()}")
            if nested:
                field.type_name = f".{kind}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("Checkpoint"))


def read_checkpoint(path):
    """Return the arrays of a checkpoint by name."""
    message = checkpoint_message().FromString(path.read_bytes())
    kinds = {value.tag: np.dtype(value.tensor.tensor_type.lower()) for value in message.value}
    return {
        value.tag: np.frombuffer(value.tensor.tensor_content, kinds[value.tag]).reshape(tuple(value.tensor.dims))
        for value in message.value
    }
