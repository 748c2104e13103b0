"""Attention as the decoder needs it: dense with its logits, sparse over packed memory, and the registered function."""

from sfi_lab.attention.arguments import check_arguments
from sfi_lab.attention.decode import dense_decode, sparse_decode
from sfi_lab.attention.prefill import masked_attention
from sfi_lab.attention.router import AttentionRouter

__all__ = ["AttentionRouter", "check_arguments", "dense_decode", "masked_attention", "sparse_decode"]
