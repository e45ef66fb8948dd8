import gc
import weakref

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta
from troupe import _core
from troupe.algorithms._arrays import Call


def address_of(array) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()


def test_an_array_of_every_form_keeps_its_numbers(rng, form):
    expected = oracles.numbers(rng, 3, 5)
    argument = Call(x=oracles.given(expected, form)).floats("x")
    assert argument.dtype == "float32" and argument.shape == (3, 5)
    np.testing.assert_array_equal(np.asarray(argument.array), expected)


@pytest.mark.parametrize("form", [f for f in ("numpy", "torch", "torch_grad", "torch_offset") if f in oracles.FORMS])
def test_an_array_with_the_wanted_layout_is_not_copied(rng, form):
    array = oracles.given(oracles.numbers(rng, 3, 5), form)
    assert address_of(Call(x=array).floats("x").array) == address_of(array)


def test_strided_rows_are_not_copied_if_the_kernel_accepts_strides(torch):
    for wide in (np.zeros((4, 10), np.float32), torch.zeros(4, 10)):
        narrow = wide[::2, 3:7]
        assert address_of(Call(x=narrow).floats("x", layout="rows").array) == address_of(narrow)
        assert address_of(Call(x=narrow).floats("x", layout="any").array) == address_of(narrow)
        assert address_of(Call(x=narrow).floats("x").array) != address_of(narrow)
        turned = narrow.T
        assert address_of(Call(x=turned).floats("x", layout="rows").array) != address_of(narrow)
        assert address_of(Call(x=turned).floats("x", layout="any").array) == address_of(narrow)


@pytest.mark.parametrize("layout", ["contiguous", "rows", "any"])
def test_misaligned_memory_and_foreign_byte_order_are_copied(layout):
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    for array in (oracles.given(expected, "numpy_misaligned"), expected.astype(">f4")):
        argument = Call(x=array).floats("x", layout=layout)
        assert argument.array.flags.aligned and argument.array.dtype.isnative
        np.testing.assert_array_equal(argument.array, expected)


def test_records_with_odd_strides_are_copied():
    records = np.zeros(4, np.dtype([("flag", "u1"), ("x", "<f4")]))
    records["x"] = [1, 2, 3, 4]
    np.testing.assert_array_equal(Call(x=records["x"]).floats("x", layout="any").array, [1, 2, 3, 4])


def test_bfloat16_is_not_converted_if_the_kernel_reads_it(torch):
    x, y = torch.ones(2, dtype=torch.bfloat16), torch.ones(2)
    call = Call(x=x, y=y, z=None)
    assert call.float_dtype("x", "z") == "bfloat16" and call.float_dtype("x", "y") == "float32"
    assert call.floats("x", "bfloat16").array.data_ptr() == x.data_ptr()
    assert call.floats("x").dtype == "float32"


def test_flags_are_read_in_place_or_compared_with_zero(torch):
    for make in (np.array, torch.tensor):
        for values in ([True, False], [0.0, -2.5], [7, 0]):
            argument = Call(m=make(values)).flags("m")
            assert argument.dtype in ("bool", "uint8")
            np.testing.assert_array_equal(np.asarray(argument.array).astype(bool), np.array(values) != 0)
    mask = np.zeros(3, np.uint8)
    assert address_of(Call(m=mask).flags("m").array) == address_of(mask)


def test_fractions_are_refused_as_integers():
    assert Call(x=[3, 4]).integers("x").dtype == "int64"
    assert Call(x=[]).integers("x").shape == (0,)
    with pytest.raises(ValueError, match=r"x: dtype float64, expected integers"):
        Call(x=[3.5]).integers("x")


def test_torch_and_numpy_arrays_cannot_be_mixed(torch):
    with pytest.raises(ValueError, match=r"values: is a torch tensor on cpu, but rewards is a numpy array"):
        Call(rewards=np.zeros(2), mask=None, values=torch.zeros(2))
    assert isinstance(Call(x=torch.zeros(2), y=[1, 2]).floats("y").array, torch.Tensor)
    assert isinstance(Call(x=[1, 2]).floats("x").array, np.ndarray)


def test_unusable_arrays_are_refused_by_name(torch):
    for bad, message in [
        ("text", r"x: dtype str\d+, expected real numbers"),
        (np.array([1j]), r"x: dtype complex128, expected real numbers"),
        (np.array([object()]), r"x: dtype object, expected real numbers"),
        (torch.zeros(2, dtype=torch.complex64), r"x: dtype complex64, expected real numbers"),
        (torch.zeros(2, 2).to_sparse(), r"x: is a torch.sparse_coo tensor, expected a dense one"),
        (torch.zeros(2, device="meta"), r"x: is on meta; expected a tensor on the CPU"),
        ([[1, 2], [3]], r"x: is not an array of numbers"),
        (None, r"x: None, expected an array"),
    ]:
        with pytest.raises(ValueError, match=message):
            Call(x=bad).floats("x")


def test_arguments_are_broadcast_only_with_broadcast():
    call = Call(x=np.zeros((2, 3)), y=5.0, z=np.ones((2, 1)))
    x = call.floats("x")
    np.testing.assert_array_equal(call.floats("y", like=x, broadcast=True).array, np.full((2, 3), 5.0))
    np.testing.assert_array_equal(call.floats("z", like=x, broadcast=True).array, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"y: shape \(\), expected \(2, 3\), the shape of x"):
        call.floats("y", like=x)
    with pytest.raises(ValueError, match=r"z: shape \(2, 1\), expected \(3, 2\)"):
        call.floats("z", shape=(3, 2), broadcast=True)


def test_an_argument_keeps_its_memory():
    argument = Call(x=[float(i) for i in range(1000)]).floats("x")
    gc.collect()
    np.testing.assert_array_equal(argument.array, np.arange(1000))


def test_a_view_keeps_its_memory():
    memory = np.arange(1000, dtype=np.float32)
    alive = weakref.ref(memory)
    view = Call(x=memory).floats("x").view
    del memory
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_the_core_checks_its_arguments_too():
    """A mistake in the Python layer gives a ValueError and no crash."""
    good = np.zeros((2, 3), np.float32)

    def view(name="x", array=good, dtype=None, strides=(3, 1), shape=(2, 3), writable=True):
        return _core.View(name, array.ctypes.data, dtype or array.dtype.name, shape, strides, writable)

    results = np.zeros((2, 2, 3), np.float32)

    def run(**changes):
        arguments = {"values": view("values"), "old_values": None, "returns": view("returns"), "mask": None}
        arguments |= {"offsets": None, "kind": "l2", "clip": 0.0, "huber_delta": 1.0, "scale": 1.0}
        arguments |= {"aggregation": None, "norms": (None, None, None, 1.0, False)}
        arguments |= {"loss": view("loss", results[0]), "grad": view("grad", results[1])}
        _core.value_loss(*(arguments | changes).values())

    run()
    with pytest.raises(ValueError, match="values: dtype float64, expected float32"):
        run(values=view("values", dtype="float64"))
    with pytest.raises(ValueError, match="values: is not contiguous, expected a contiguous array"):
        run(values=view("values", strides=(4, 1)))
    with pytest.raises(ValueError, match="loss: is read-only"):
        run(loss=view("loss", results[0], writable=False))
    with pytest.raises(ValueError, match="check failed: "):
        run(values=view("values", shape=(2, 2), strides=(2, 1)))
    for bad in [
        {"shape": (2, -3)},
        {"shape": (2**40, 2**40)},
        {"shape": (2,)},
        {"dtype": "complex64"},
    ]:
        with pytest.raises(ValueError, match="^x: "):
            view(**bad)
    with pytest.raises(ValueError, match="x: has no memory"):
        _core.View("x", 0, "float32", (1,), (1,), False)


@pytest.mark.parametrize("library", ["numpy", "list", "torch"])
def test_integers_beyond_int64_are_refused_with_their_value(library):
    lengths = np.array([3, 2**63 + 5], np.uint64)
    if library == "torch":
        lengths = pytest.importorskip("torch").from_numpy(lengths)
    elif library == "list":
        lengths = lengths.tolist()[1:]
    with pytest.raises(ValueError, match="^lengths: holds 9223372036854775813, expected integers below 2\\^63$"):
        ta.workloads(lengths)


def test_tensors_without_memory_are_refused(torch):
    with pytest.raises(ValueError, match="^groups: .*expected 2 labels"):
        ta.filter_groups(np.zeros(2), torch.zeros(2, dtype=torch.int64, device="meta"))


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"^log_std: shape \(3,\), expected one that broadcasts with \(2,\)"):
        ta.gaussian_logprob(np.zeros(2), np.zeros(2), np.zeros(3))


def test_data_without_a_length_is_refused():
    with pytest.raises(ValueError, match="^data: 1.5, expected 1 rows"):
        ta.restore_order(1.5, [[0]])
    with pytest.raises(ValueError, match="^data: is a dict, expected a tensor, an array or a list"):
        ta.restore_order({}, [[]])


def test_weights_beyond_float64_are_refused():
    with pytest.raises(ValueError, match="^weight_pow: 1e\\+06, expected a power"):
        ta.resample_pf_ppo([2.0, 1.0], seed=1, weight_pow=1e6)
