"""Slurm's notation, and the output of its commands."""

from __future__ import annotations

import pytest

from drfh.errors import InputError
from drfh.wire.slurm.notation import (
    array_indices,
    count_array_tasks,
    expand_node_list,
    meets_constraint,
    parse_gres,
    parse_number,
    parse_tres,
)
from drfh.wire.slurm.scontrol import slurm_user

MI, GI = 2.0**20, 2.0**30


def test_node_lists_are_expanded() -> None:
    assert expand_node_list("a[1-2,5]b[01-02],c", "n") == (
        "a1b01", "a1b02", "a2b01", "a2b02", "a5b01", "a5b02", "c",
    )  # fmt: skip
    assert expand_node_list("n[098-101]", "n") == ("n098", "n099", "n100", "n101")
    for wrong in ("n[1-", "n[2-1]", "n[a]", "n[]", "n[1-9999999]", "n[1-2]]", 7):
        with pytest.raises(InputError):
            expand_node_list(wrong, "nodes")


def test_resources_and_numbers_are_read() -> None:
    assert parse_tres("cpu=1,mem=62.50G", "t") == {"cpu": 1, "memory": 62.5 * GI}
    assert parse_tres("mem=512", "t") == {"memory": 512 * MI}  # without a unit it is MiB
    assert parse_tres("gres/gpu:a100=2,gres/gpu:v100=1", "t") == {"gres/gpu": 3}
    assert parse_tres("license/matlab=3,fs/disk=9,energy=1,billing=4,node=2", "t") == {}
    assert parse_gres("gpu:a100:2(IDX:0,2-3),tmpdisk:7T", "g") == {
        "gres/gpu": 2,
        "gres/tmpdisk": 7 * 2**40,
    }
    assert parse_gres("(null)", "g") == parse_gres("", "g") == {}
    assert parse_number({"set": True, "infinite": True, "number": 0}, "n") is None
    assert parse_number(4294967294, "n") is None


def test_array_ranges_are_read() -> None:
    assert count_array_tasks("1-10:2%4", "a") == (5, False)
    assert array_indices("1-10:4,20%4", "a") == [1, 5, 9, 20]
    for wrong in ("1-", "3-1", "1-9:0", "1-999999999999999999", 7):
        with pytest.raises(InputError):
            count_array_tasks(wrong, "a")
        with pytest.raises(InputError):
            array_indices(wrong, "a")


def test_constraints_are_evaluated() -> None:
    for expression, features, holds in (
        ("a", {"a"}, True), ("a&b", {"a"}, False), ("a|b&c", {"a"}, True),
        ("(a|b)&c", {"a"}, False), ("[a|b]", {"b"}, True), ("a*2", {"a"}, True),
    ):  # fmt: skip
        assert meets_constraint(expression, features) is holds, expression
    for wrong in ("a&", "(a", "a)", "[a", "&", "a b"):
        with pytest.raises(InputError):
            meets_constraint(wrong, {"a"})


def test_slurm_user_must_have_a_number() -> None:
    assert slurm_user({}) == ("root", 0)
    with pytest.raises(InputError, match="SlurmUser must be as in"):
        slurm_user({"SlurmUser": "slurm"})
