"""Numbers that the paper prints (arXiv 2603.12038v1), to stand beside ours and be told apart from them."""

from __future__ import annotations

SOURCE = "arXiv 2603.12038v1"

# Table 1: kernel alone, KV 16K, batch 16, bf16, B200: share of keys kept -> speed-up over its dense kernel
KERNEL = {
    0.016: 10.67,
    0.063: 9.56,
    0.125: 7.15,
    0.25: 3.96,
    0.375: 2.75,
    0.5: 2.10,
    0.75: 1.43,
    0.984: 1.10,
    1.0: 1.00,
}

# Table 6: λ_clip -> LongBench-V1 average, Qwen3-30B-A3B
LAMBDA_CLIP = {0.005: 46.05, 0.02: 46.10, 0.05: 46.04, 0.15: 45.98, 0.25: 45.86, 0.40: 45.79}

# Table 7: (α_cross, α_soft) -> LongBench-V1 average, Qwen3-30B-A3B
EXCLUSIVITY = {
    0.0: 46.52,
    0.15: 46.55,
    0.25: 46.61,
    0.35: 46.70,
    0.50: 46.45,
    0.65: 46.51,
    0.80: 46.32,
    0.95: 46.64,
}  # α_soft 0
NMS = {0.5: 46.77, 1.0: 46.65}  # α_cross 0.35

# Table 4: LongBench-V2, Qwen3-4B: method -> (keys kept, score); the last three are not among this project's methods
LONGBENCH_V2 = {
    "dense": ("100%", 34.20),
    "sfi": ("15-20%", 34.80),
    "streaming": ("50%", 31.61),
    "tova": ("50%", 31.81),
    "snapkv": ("50%", 32.21),
    "knorm": ("50%", 25.65),
    "pyramidkv": ("50%", 32.60),
    "ThinK": ("50%", 31.21),
    "ChunkKV": ("50%", 32.01),
    "LagKV": ("50%", 29.82),
}

# end to end, speed-up over dense by (model, batch, context)
THROUGHPUT = {
    ("Qwen3-4B-Instruct-2507", 16, 8192): 1.91,
    ("Qwen3-4B-Instruct-2507", 16, 131072): 14.36,
    ("Qwen3-0.6B", 16, 32768): 5.25,
    ("Qwen3-30B-A3B", 32, 8192): 1.66,
    ("Qwen3-30B-A3B", 32, 131072): 11.98,
    ("Qwen3-235B-A22B", 128, 8192): 1.60,
    ("Qwen3-235B-A22B", 128, 131072): 13.49,
}
