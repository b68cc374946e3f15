from drfh.errors import InputError


def complaints(*k):
    raise InputError("bbf", "is not there yet")
