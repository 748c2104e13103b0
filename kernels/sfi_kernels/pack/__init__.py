"""Operation: sink and selected K/V of a layer, gathered from the pages into one contiguous buffer."""
