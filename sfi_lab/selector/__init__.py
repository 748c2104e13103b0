"""The selector: evidence, prior, fusion, soft-NMS, cross-head exclusivity and Top-K (paper.md §2, eqs 6-24)."""

from sfi_lab.selector.select import Selection, select

__all__ = ["Selection", "select"]
