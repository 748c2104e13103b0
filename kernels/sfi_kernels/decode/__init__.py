"""Shared by the dense and the sparse operation: one Triton attention kernel and its launch."""
