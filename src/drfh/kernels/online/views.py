"""Views of memory for compiled code: an address and a size.

Numba's own arrays count who refers to them, atomically and in each call, and every index may be
negative. In steps of a few hundred nanoseconds both take a fifth of the time. Here an index is
what it says: it must be within the array.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import (
    intrinsic,
    lower_builtin,
    make_attribute_wrapper,
    models,
    register_model,
    type_callable,
)

__all__ = ["bare", "seen", "view1", "view2"]

_INT = types.int64


class _View(types.Type):  # type: ignore[misc]
    """Numbers of one kind along one or two axes."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        super().__init__(f"drfh_view({dtype}, {ndim})")


class _Header(types.Type):  # type: ignore[misc]
    """The integers that lead to all arrays."""

    def __init__(self) -> None:
        super().__init__("drfh_header")


_HEADER = _Header()


@register_model(_View)
class _ViewModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [("at", types.CPointer(kind.dtype)), ("shape", types.UniTuple(_INT, kind.ndim))]
        super().__init__(manager, kind, members)


@register_model(_Header)
class _HeaderModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


make_attribute_wrapper(_View, "shape", "shape")


# What an index gives, and what can be set


@type_callable(operator.getitem)  # type: ignore[untyped-decorator]
def _type_get(context: Any) -> Any:
    def typer(view: Any, index: Any) -> Any:
        if isinstance(view, _Header) and isinstance(index, types.Integer):
            return _INT
        if not isinstance(view, _View):
            return None
        if isinstance(index, types.Integer):
            return view.dtype if view.ndim == 1 else _View(view.dtype, 1)
        if isinstance(index, types.BaseTuple) and len(index) == view.ndim == 2:
            return view.dtype
        return None

    return typer


@type_callable(operator.setitem)  # type: ignore[untyped-decorator]
def _type_set(context: Any) -> Any:
    def typer(view: Any, index: Any, value: Any) -> Any:
        if isinstance(view, _Header) and isinstance(index, types.Integer):
            return types.none
        if isinstance(view, _View):
            axes = len(index) if isinstance(index, types.BaseTuple) else 1
            return types.none if axes == view.ndim else None
        return None

    return typer


def _wide(context: Any, builder: Any, number: Any, kind: Any) -> Any:
    return context.cast(builder, number, kind, _INT)


def _place(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    """Return the address of what an index names."""
    view, index = kinds[:2]
    if isinstance(view, _Header):
        return builder.gep(arguments[0], [_wide(context, builder, arguments[1], index)])
    parts = cgutils.create_struct_proxy(view)(context, builder, arguments[0])
    if isinstance(index, types.BaseTuple):
        row, column = (
            _wide(context, builder, number, kind)
            for number, kind in zip(cgutils.unpack_tuple(builder, arguments[1]), index, strict=True)
        )
        columns = builder.extract_value(parts.shape, 1)
        offset = builder.add(builder.mul(row, columns, flags=["nsw"]), column, flags=["nsw"])
    else:
        offset = _wide(context, builder, arguments[1], index)
    return builder.gep(parts.at, [offset], inbounds=True)


@lower_builtin(operator.getitem, _Header, types.Integer)  # type: ignore[untyped-decorator]
@lower_builtin(operator.getitem, _View, types.Integer)  # type: ignore[untyped-decorator]
@lower_builtin(operator.getitem, _View, types.BaseTuple)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    view = signature.args[0]
    if isinstance(signature.return_type, _View):
        parts = cgutils.create_struct_proxy(view)(context, builder, arguments[0])
        row = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        columns = builder.extract_value(parts.shape, 1)
        offset = builder.mul(_wide(context, builder, arguments[1], signature.args[1]), columns)
        row.at = builder.gep(parts.at, [offset], inbounds=True)
        row.shape = context.make_tuple(builder, types.UniTuple(_INT, 1), [columns])
        return row._getvalue()
    place = _place(context, builder, signature.args, arguments)
    return context.unpack_value(builder, signature.return_type, place)


@lower_builtin(operator.setitem, _Header, types.Integer, types.Any)  # type: ignore[untyped-decorator]
@lower_builtin(operator.setitem, _View, types.Integer, types.Any)  # type: ignore[untyped-decorator]
@lower_builtin(operator.setitem, _View, types.BaseTuple, types.Any)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    view, _, kind = signature.args
    dtype = _INT if isinstance(view, _Header) else view.dtype
    value = context.cast(builder, arguments[2], kind, dtype)
    place = _place(context, builder, signature.args, arguments)
    context.pack_value(builder, dtype, value, place)
    return context.get_dummy_value()


@type_callable(len)  # type: ignore[untyped-decorator]
def _type_len(context: Any) -> Any:
    def typer(view: Any) -> Any:
        return _INT if isinstance(view, _View) else None

    return typer


@lower_builtin(len, _View)  # type: ignore[untyped-decorator]
def _len(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    parts = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
    return builder.extract_value(parts.shape, 0)


# From numba's arrays, and from the header


@intrinsic  # type: ignore[untyped-decorator]
def bare(context: Any, array: Any) -> Any:
    """Take the header as kernels hand it on; Python comes with an array."""
    if isinstance(array, _Header):
        return _HEADER(array), lambda target, builder, signature, arguments: arguments[0]

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.create_struct_proxy(array)(target, builder, arguments[0]).data

    return _HEADER(array), generate


def _from_header(dtype: Any, ndim: int) -> Any:
    kind = _View(dtype, ndim)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def entry(step: int) -> Any:
            where = builder.add(arguments[1], ir.Constant(ir.IntType(64), step))
            found = builder.load(builder.gep(arguments[0], [where]))
            # Only Python moves arrays, so the compiler may keep what it has read once.
            found.set_metadata("invariant.load", builder.module.add_metadata([]))
            return found

        view = cgutils.create_struct_proxy(kind)(target, builder)
        view.at = builder.inttoptr(entry(0), target.get_value_type(types.CPointer(dtype)))
        sizes = [entry(1 + axis) for axis in range(ndim)]
        view.shape = target.make_tuple(builder, types.UniTuple(_INT, ndim), sizes)
        return view._getvalue()

    return kind(_HEADER, _INT), generate


@intrinsic  # type: ignore[untyped-decorator]
def view1(context: Any, header: Any, at: Any, like: Any) -> Any:
    """Return an array of the header, of numbers like `like`."""
    signature, generate = _from_header(like, 1)
    return signature.return_type(_HEADER, _INT, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def view2(context: Any, header: Any, at: Any, like: Any) -> Any:
    """Return an array of the header with two axes."""
    signature, generate = _from_header(like, 2)
    return signature.return_type(_HEADER, _INT, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def seen(context: Any, array: Any) -> Any:
    """Take an array of one axis as kernels see it."""
    if isinstance(array, _View):
        return array(array), lambda target, builder, signature, arguments: arguments[0]
    kind = _View(array.dtype, 1)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = cgutils.create_struct_proxy(array)(target, builder, arguments[0])
        view = cgutils.create_struct_proxy(kind)(target, builder)
        view.at, view.shape = whole.data, whole.shape
        return view._getvalue()

    return kind(array), generate
