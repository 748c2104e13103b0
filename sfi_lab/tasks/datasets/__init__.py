"""Published data sets as tasks: LongBench V1 and V2, GPQA-Diamond, MMLU, each from a local copy or from the hub."""
