"""Sparse triangular solves of factors without fronts, in parallel by level sets or independent components.

On the CPU the factorizations use it from C++, see trisolve.hpp; on the GPU through cuda.py.
"""
