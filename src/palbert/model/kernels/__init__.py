"""Triton kernels for CUDA; imported only where Triton is there and a tensor is on a GPU."""
