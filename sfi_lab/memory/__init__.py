"""What a sequence remembers: the full K/V cache at absolute positions, and the packed memory that fast steps read."""

from sfi_lab.memory.full import FullCache
from sfi_lab.memory.packed import PackedMemory, recent_start

__all__ = ["FullCache", "PackedMemory", "recent_start"]
