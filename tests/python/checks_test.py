import numpy as np
import pytest

from troupe.algorithms import _checks


@pytest.mark.parametrize("value", [0, 1, 0.5, True, np.float32(0.25), np.array(1.0)])
def test_a_number_may_have_any_numeric_type(value):
    assert _checks.number("gamma", value, low=0, high=1) == float(value)


@pytest.mark.parametrize("value", [None, "0.5", [0.5, 0.5], 1.5, -0.1, float("nan"), float("inf"), np.zeros(2), 1j, 10**400])
def test_other_values_and_numbers_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match=r"^gamma: .*expected a number in \[0, 1\]$"):
        _checks.number("gamma", value, low=0, high=1)


def test_infinity_is_accepted_only_with_infinite():
    assert _checks.number("rho_bar", float("inf"), above=0, infinite=True) == float("inf")
    with pytest.raises(ValueError, match=r"rho_bar: 0, expected a number > 0"):
        _checks.number("rho_bar", 0, above=0, infinite=True)


@pytest.mark.parametrize("value", [None, 2.0, "3", 0, -(2**70), [1], np.float64(2)])
def test_other_values_and_integers_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match=r"^k: .*expected an integer >= 1$"):
        _checks.integer("k", value, low=1)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**70])
def test_the_error_about_an_integer_above_64_bits_has_the_bound(value):
    with pytest.raises(ValueError, match=rf"^seed: {value}, expected an integer >= 0 and < 2\^63$"):
        _checks.integer("seed", value, low=0)
    with pytest.raises(ValueError, match=rf"^ignore_index: {value}, expected an integer < 2\^63$"):
        _checks.integer("ignore_index", value)
    with pytest.raises(ValueError, match=r"^k: .*, expected an integer in \[1, 8\]$"):
        _checks.integer("k", value, low=1, high=8)


def test_the_error_about_an_integer_below_64_bits_has_the_bound():
    assert _checks.integer("k", -(2**63)) == -(2**63)
    with pytest.raises(ValueError, match=r"^k: -9223372036854775809, expected an integer >= -2\^63$"):
        _checks.integer("k", -(2**63) - 1)


def test_integers_of_numpy_are_integers():
    assert _checks.integer("k", np.int32(7), low=1) == 7


def test_the_error_about_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"name: unknown 'clp', did you mean 'clip'\? \(known: clip, none\)"):
        _checks.choice("name", "clp", ["clip", "none"])
    with pytest.raises(ValueError, match=r"name: unknown 3 \(known: clip, none\)"):
        _checks.choice("name", 3, ["clip", "none"])


def test_a_parameter_of_another_variant_is_refused():
    _checks.no_others("clip", {"low": 1}, ["low", "high"])
    with pytest.raises(ValueError, match=r"hihg: clip has no such parameter, did you mean 'high'\?"):
        _checks.no_others("clip", {"hihg": 1}, ["low", "high"])
