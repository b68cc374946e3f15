"""The indexed brain's hot loops. Importing this package imports numba.

The plain twin of all of it is ``drfh.scheduler.plain``: every placement must be the same, in the
same order. One tuple of arrays, :class:`~drfh.kernels.online.state.Brain`, is the whole state.
"""
