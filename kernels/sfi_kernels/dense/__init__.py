"""Operation: full attention of one decode step over the paged cache, with the candidates' logits on request."""
