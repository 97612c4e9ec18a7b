"""Types of elements: MindSpore's words for them, and NumPy's dtypes at the same time."""

from __future__ import annotations

import copy
import pickle
import re
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import dtype as mstype_of
from mpiparallel.common import dtype as mstype
from mpiparallel.errors import ConfigurationError

# As MindSpore 2.10 prints them.
PRINTED = {
    "bool_": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
    "float64": "Float64",
    "complex64": "Complex64",
    "complex128": "Complex128",
}
KINDS = {
    "int_": "Int",
    "uint": "UInt",
    "float_": "Float",
    "number": "Number",
    "tensor_type": "Tensor",
    "string": "String",
    "type_none": "None",
}
ALIASES = {"half": "float16", "single": "float32", "double": "float64", "long": "int64", "short": "int16"}


@pytest.mark.parametrize("name", PRINTED)
def test_a_type_prints_as_mindspores_and_is_numpys(name: str) -> None:
    one, numpys = getattr(mstype, name), np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    assert str(one) == PRINTED[name]
    assert repr(one) == f"mpiparallel.{PRINTED[name].lower()}"
    assert np.zeros(2, one).dtype == numpys
    assert one == numpys == one
    assert one == name.rstrip("_")
    assert hash(one) == hash(numpys)
    assert (one.itemsize, one.kind, one.name) == (numpys.itemsize, numpys.kind, numpys.name)
    assert np.issubdtype(one, numpys.type)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert ms.Tensor(np.zeros(2), one).dtype is one


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_prints_as_mindspores_and_is_no_type_of_an_element(name: str) -> None:
    kind = getattr(mstype, name)
    assert (str(kind), repr(kind)) == (KINDS[name], f"mpiparallel.{KINDS[name].lower()}")
    with pytest.raises(ConfigurationError, match=f"{KINDS[name]} is no type of an element") as caught:
        np.zeros(2, kind)
    # The members that it has, else what is wrong with it.
    assert all(repr(one) in str(caught.value) for one in kind)
    assert list(kind) or re.search(r"; (it is what|texts are no)", str(caught.value))
    with pytest.raises(ConfigurationError, match=f"{KINDS[name]} is no type of an element"):
        ms.Tensor([1.0], kind)


def test_types_differ_from_each_other_and_from_what_is_no_type() -> None:
    kinds: list[Any] = [mstype.float64, mstype.int32, None, "no type", 5, mstype.bfloat16, float]
    assert [mstype.float32 == one for one in kinds] == [False] * len(kinds)
    # NumPy takes None for float64.
    assert mstype.float64 != None  # noqa: E711
    assert mstype.float32 in mstype.number
    assert mstype.float32 in mstype.float_
    assert mstype.float32 not in mstype.int_


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # What copy and pickle ask for first: it is not NumPy's, and a type that is not made yet has no dtype to ask.
        ("__array__", "Type has no attribute '__array__'"),
        ("__deepcopy__", "Type has no attribute '__deepcopy__'"),
        ("no_such", "object has no attribute 'no_such'"),
    ],
)
def test_a_type_lacks_what_its_dtype_lacks_and_all_that_begins_with_two_underscores(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(mstype.float32, name)
    unmade = mstype.Type.__new__(mstype.Type)
    with pytest.raises(AttributeError, match="Type has no attribute 'dtype'"):
        unmade.itemsize  # noqa: B018


@pytest.mark.parametrize("name", ALIASES)
def test_a_type_has_several_names(name: str) -> None:
    assert getattr(mstype, name) is getattr(mstype, ALIASES[name])


def test_types_are_found_for_those_of_python_and_numpy_and_back() -> None:
    # As MindSpore 2.10 answers.
    assert [str(mstype.pytype_to_dtype(one)) for one in (float, int, bool, np.float32, str, mstype.int8)] == [
        "Float64",
        "Int64",
        "Bool",
        "Float32",
        "String",
        "Int8",
    ]
    assert mstype.dtype_to_pytype(mstype.float32) is float
    assert mstype.dtype_to_nptype(mstype.bool_) is np.bool_
    assert mstype.get_py_obj_dtype(ms.Tensor([1])) is mstype.int64
    assert mstype.get_py_obj_dtype(2.5) is mstype.float64
    with pytest.raises(ConfigurationError, match="neither a Python type of numbers nor one of NumPy's"):
        mstype.pytype_to_dtype(dict)


def test_tensors_and_parameters_print_their_type_as_mindspores_do() -> None:
    assert repr(ms.Tensor([1.0])) == "Tensor(shape=[1], dtype=Float32, value=\n[1.])"
    assert repr(ms.Parameter([1.0], "w")) == "Parameter (name=w, shape=(1,), dtype=Float32, requires_grad=True)"


@pytest.mark.parametrize(
    ("together", "common"),
    [
        (("bfloat16", "bfloat16"), "bfloat16"),
        (("bfloat16", "int64", "bool"), "bfloat16"),
        (("bfloat16", "float16"), "float32"),
        (("bfloat16", "float16", "float64"), "float64"),
        (("float16", "bfloat16", "float32", "int8"), "float32"),
        (("bfloat16", "complex64"), "complex64"),
        (("float16", "int64"), "float64"),
    ],
)
def test_types_make_the_least_that_holds_their_floats(together: tuple[str, ...], common: str) -> None:
    for order in permutations(together):
        assert mstype_of.common_dtype(*map(np.dtype, order)) == np.dtype(common)
