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


@pytest.mark.parametrize("name", [*PRINTED, "str_", "datetime64"])
def test_floats_are_told_from_other_numbers(name: str) -> None:
    numpys = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    floats = name in ("float16", "bfloat16", "float32", "float64")
    assert mstype_of.is_floating(numpys) == floats
    assert mstype_of.is_inexact(numpys) == (floats or name.startswith("complex"))
    assert mstype_of.is_narrow(numpys) == (name in ("float16", "bfloat16"))
    assert mstype_of.wide_dtype(numpys) == (np.dtype(np.float32) if mstype_of.is_narrow(numpys) else numpys)


@pytest.mark.parametrize("name", PRINTED)
def test_a_dtype_is_made_again_of_its_text_and_of_its_character(name: str) -> None:
    numpys = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    assert np.dtype(mstype_of.dtype_text(numpys)) == numpys
    assert mstype_of.dtype_of_character(numpys.char) == numpys
    assert mstype_of.type_of(numpys) is getattr(mstype, name)
    if mstype_of.is_floating(numpys):
        # Bit by bit: the least exponent that is not that of the subnormal numbers.
        least = {"float16": 2.0**-14, "float64": 2.0**-1022}.get(name, 2.0**-126)
        assert mstype_of.smallest_normal(numpys) == least


def test_a_type_that_mindspore_has_no_name_for_is_made_of_numpys() -> None:
    assert str(mstype_of.type_of("S3")) == "Bytes24"
    assert repr(mstype_of.type_of(np.dtype("M8[s]"))) == "mpiparallel.datetime64[s]"


def test_a_kind_holds_itself_and_its_members() -> None:
    assert mstype.number in mstype.number
    assert mstype.int_ not in mstype.number
    assert [*mstype.uint] == [mstype.uint8, mstype.uint16, mstype.uint32, mstype.uint64]
    assert mstype.bool_ not in mstype.number


@pytest.mark.parametrize(
    ("given", "printed"), [(tuple, "Tuple"), (list, "List"), (type(None), "None"), (str, "String"), (np.uint8, "UInt8")]
)
def test_other_types_of_python_have_mindspores_names_too(given: type, printed: str) -> None:
    assert str(mstype.pytype_to_dtype(given)) == printed


@pytest.mark.parametrize("given", [5, "float32", dict, object])
def test_what_is_no_type_of_numbers_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"pytype_to_dtype: .* is neither a Python type of numbers nor one of"):
        mstype.pytype_to_dtype(given)
