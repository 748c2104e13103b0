"""Benchmarks: each prints a ratio or a share of a bound, with the machine and the versions beside it."""
