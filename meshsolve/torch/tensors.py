"""Tensors as arrays of the place that computes, and arrays as tensors. The rest of :mod:`meshsolve.torch` never copies a tensor by itself.

A real CUDA tensor becomes an array on the GPU without a copy, on PyTorch's current stream. Tensors of the host become views. Others,
complex CUDA tensors too, are copied to the host.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError


def pytorch():
    try:
        import torch
    except ImportError as e:
        raise InvalidInputError("meshsolve.torch needs PyTorch: pip install torch") from e
    return torch


def require_known(dtype):
    torch = pytorch()
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise InvalidInputError(f"tensors must hold float32, float64, complex64 or complex128, got {dtype}")


class OnHost:
    """Tensors that are computed with on the host."""

    @staticmethod
    def array(tensor):
        """Return a view of a tensor on the host, else a copy; it must not be kept."""
        try:
            return tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
        except RuntimeError as e:                           # the older vmap of PyTorch, which ignores vmap methods
            raise InvalidInputError("a tensor has no values inside vectorize=True or is_grads_batched=True: use torch.func.jacrev or "
                                    f"vmap ({e})") from e

    @staticmethod
    def tensor(array, like):
        """Return a new array as a tensor of the device and dtype of ``like``."""
        return pytorch().from_numpy(np.ascontiguousarray(array)).to(device=like.device, dtype=like.dtype)

    @staticmethod
    def current(tensor):
        """Return the context in which the arrays of a tensor are used."""
        return contextlib.nullcontext()


class OnCuda:
    """Real CUDA tensors."""

    @staticmethod
    def array(tensor):
        return device.asarray(tensor.detach().contiguous())

    @staticmethod
    def tensor(array, like):
        return pytorch().from_dlpack(array).to(dtype=like.dtype)

    @staticmethod
    def current(tensor):
        return device.on_stream(pytorch().cuda.current_stream(tensor.device).cuda_stream, tensor.device.index)


def place_of(tensor):
    """Return :class:`OnCuda` for a real CUDA tensor, else :class:`OnHost`."""
    return OnCuda if tensor.is_cuda and not tensor.is_complex() else OnHost


_EAGER: dict[Any, Any] = {}                 # torch.compile traces this cache without a warning, unlike functools.cache


def eager(function):
    """Return a function excluded from torch.compile, which interrupts its graph."""
    if function not in _EAGER:
        _EAGER[function] = pytorch().compiler.disable(function)
    return _EAGER[function]
