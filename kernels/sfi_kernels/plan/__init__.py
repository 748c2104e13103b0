"""Operation: the work list of one decode step (see `layout.py`)."""
