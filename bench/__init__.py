"""Benchmarks: model-free workloads, each against a floor measured in the same run. `python -m bench [w4 w7 …]`.

Every figure comes from a fresh process; variants are interleaved and the best of several rounds counts. Nothing
here is a test: machines are noisy. Written up in docs/reference/benchmarks.md.
"""
