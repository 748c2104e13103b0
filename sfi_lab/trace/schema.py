"""The trace's layout on disk: file names, tables and columns, one place for writer, reader and docs.

    TRACE/meta.json                    who ran what: settings, model, versions, prompt length, what was recorded
    TRACE/tokens/part-00000.parquet    one row a position: the prompt's and the generated tokens
    TRACE/steps/part-00000.parquet     one row a forward of the model: route, reason, keys read, times
    TRACE/support/part-….parquet       one row a step, layer and KV head: what was attended to, heaviest first
    TRACE/selection/part-….parquet     one row a refresh, layer and KV head: what the selector kept, best first
    TRACE/qk/part-….safetensors        queries, keys and values ("+qk"), per layer

A part is written whole under another name and then renamed; `steps` comes last of a flush, so that what the steps
name is there. Steps count the model's forwards: step 0 is the prompt, and row t is the forward that produced token t.
"""

from __future__ import annotations

import polars as pl

from sfi_lab.selector import STAGES

FORMAT = "sfi_lab.trace"
SCHEMA_VERSION = 1

TOKENS = {
    "position": pl.Int32,  # index in the cache, also of the last generated token, which was never fed
    "token_id": pl.Int32,
    "text": pl.String,  # the token's own text, leading space kept; "�" for part of a character
    "sentence": pl.Int32,
    "role": pl.String,  # "prompt" | "generated"
    "special": pl.Boolean,  # a control token (end of text, chat marks)
    "piece": pl.Binary,  # the token's own bytes, which may be a part of a character; null in traces without them
}

STEPS = {
    "step": pl.Int32,
    "token_id": pl.Int32,  # the token this step produced
    "text": pl.String,
    "sentence": pl.Int32,  # of the token produced
    "position": pl.Int32,  # of the token fed (the query): the newest cached position
    "query_sentence": pl.Int32,  # of the token fed
    "route": pl.String,  # "prefill" | "slow" | "fast"
    "reason": pl.String,  # "prompt" | "first" | "sentence" | "t_max" | "period" | "random" | "drift" | "nothing_to_select"; "" if fast
    "refreshed": pl.Boolean,  # the selector ran
    "keys_read": pl.Float64,  # mean over the layers with full attention and their KV heads
    "keys_scored": pl.Float64,  # keys looked at only to choose, the same mean (retrieval methods); null in traces without it
    "bytes_kept": pl.Int64,  # keys and values held by the layers with full attention; null in traces without it
    "positions_remade": pl.Int32,  # fed again before the step's own, for K/V under dense attention (rectify); null in traces without it
    "keys_available": pl.Int32,  # cached positions, the query's own included
    "recent_start": pl.Int32,  # first position of the recent window of a fast step (reads [recent_start, position])
    "drift": pl.Float32,  # 1 - cosine of this step's queries to the last refresh's, mean over layers and heads; null if not tracked
    "logprob": pl.Float32,  # log-probability of the produced token in the model's own distribution
    "ms_total": pl.Float32,
    "ms_model": pl.Float32,  # the forward without the parts named below
    "ms_attention": pl.Float32,
    **{f"ms_{stage}": pl.Float32 for stage in STAGES},
    "ms_pack": pl.Float32,
    "ms_sample": pl.Float32,
    "ms_record": pl.Float32,  # what the recording of this step cost
    "kl": pl.Float32,  # audit: KL(dense ‖ run) of the next-token distributions, nats
    "top1_agrees": pl.Boolean,  # audit: both have the same most likely token
    "missed_mass": pl.Float32,  # audit: dense attention on positions that this step did not read, mean
}

SUPPORT = {
    "step": pl.Int32,
    "layer": pl.Int16,
    "kv_head": pl.Int16,
    "keys_read": pl.Int32,
    "positions": pl.List(pl.Int32),  # heaviest first, at most meta["top"]
    "weights": pl.List(pl.Float32),  # mean over the group's query heads
    "rest": pl.Float32,  # mass on the positions read but not listed
    "true_positions": pl.List(pl.Int32),  # audit: the same under dense attention of the same query, else null
    "true_weights": pl.List(pl.Float32),
    "true_rest": pl.Float32,
    "missed": pl.Float32,  # audit: dense attention on positions that were not read
}

SELECTION = {
    "step": pl.Int32,  # of the refresh
    "layer": pl.Int16,
    "kv_head": pl.Int16,
    "lam": pl.Float32,  # null where a method other than SFI chose, as is evidence
    "first_candidate": pl.Int32,  # J is [first_candidate, first_candidate + candidates)
    "candidates": pl.Int32,
    "positions": pl.List(pl.Int32),  # best first, so that a smaller K is a prefix
    "evidence": pl.Float32,  # share of the evidence f on the selected positions
}

# came later: traces without these columns stay readable, with nulls
OPTIONAL = frozenset({"piece", "keys_scored", "bytes_kept", "positions_remade"})

TABLES = {"tokens": TOKENS, "steps": STEPS, "support": SUPPORT, "selection": SELECTION}

# qk parts, in the model's dtype: "q.{layer}" [decode steps, H_q, D], "k.{layer}" [positions, H_kv, D], "v.{layer}"
# [positions, H_kv, D_v], and once: "w.{layer}" [W - 1, H_q, D], the prompt's last queries, which share the first refresh;
# "scale.{layer}" float64 [2], the scaling and the soft-cap (nan: none); "sinks.{layer}" [H_q], sink logits where a model has them.
