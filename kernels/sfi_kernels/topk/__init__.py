"""Operation: the K best candidates of every KV head, as ascending positions."""
