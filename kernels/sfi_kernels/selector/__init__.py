"""Operation: the adjusted score z_adj of every candidate, from logits and key norms (paper, equations 6-24)."""
