"""Errors keep what they say, wherever they are raised and however parameters are called."""

import pickle

from drfh.errors import InputError, UnknownNameError


def test_an_error_of_another_process_says_the_same() -> None:
    errors = (
        InputError("weight", "must be > 0", 0, place="team.yaml, line 4"),
        UnknownNameError("mechanism", "drf", ["drfh"]),
        InputError("output", "must be new (see {force})", names={"force": "force"}),
    )
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert (copy.field, copy.rule, copy.value, copy.place) == (
            error.field, error.rule, error.value, error.place,
        )  # fmt: skip
        assert str(copy) == str(error)


def test_options_are_named_as_on_the_command_line() -> None:
    error = InputError("until", "must be longer (see {cut})", 1, names={"cut": "Workload.until"})
    assert str(error) == "until must be longer (see Workload.until), got 1"
    error.renamed({"until": "--until", "cut": "--cut"})
    assert str(error) == "--until must be longer (see --cut), got 1"


def test_a_field_of_a_file_keeps_its_name() -> None:
    error = InputError("users", "must be a list", place="team.yaml, line 4")
    assert str(error.renamed({"users": "--users"})) == "team.yaml, line 4: users must be a list"


def test_a_name_in_another_case_is_the_nearest() -> None:
    assert UnknownNameError("mechanism", "DRFH", ["drf", "drfh", "hdrf"]).nearest == "drfh"
