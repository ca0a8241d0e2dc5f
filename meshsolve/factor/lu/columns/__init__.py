"""LU by columns: left-looking on the host, right-looking on the GPU."""
