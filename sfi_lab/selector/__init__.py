"""The selector: evidence, prior, fusion, soft-NMS, cross-head exclusivity and Top-K (paper.md §2, eqs 6-24)."""

from sfi_lab.selector.batch import rank_many
from sfi_lab.selector.select import STAGES, Selection, choose, evidence_of, prior_of, select

__all__ = ["STAGES", "Selection", "choose", "evidence_of", "prior_of", "rank_many", "select"]
