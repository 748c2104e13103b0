"""Operation: new K/V rows into their pages, and the norms of the keys beside them."""
