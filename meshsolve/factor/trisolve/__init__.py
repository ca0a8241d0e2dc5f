"""Sparse triangular solves of incomplete factors, in parallel by level sets or independent components (C++ only).

The factorizations beside this room use it from C++; see trisolve.hpp.
"""
