"""Hot loops of the indexed core; importing this imports numba.

The plain twin of all of it is ``drfh.scheduler.plain``: every placement must be the same, in the
same order. One tuple of arrays, :class:`~drfh.kernels.online.state.CoreArrays`, is the whole state.
"""
