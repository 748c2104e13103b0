"""Operation: attention of one decode step in which every sequence has its own route."""
