"""Ours and the peers, turn by turn in one run: only ratios from one run mean anything.

    python -m benchmarks cpu [--peers torch,numpy] [--only NAME …]
                             [--threads N] [--out FILE]
    python -m benchmarks calls [--peers …]    what tiny calls cost, against the project's marks
    python -m benchmarks cold                 fresh processes, empty and warm cache, CPU time
    python -m benchmarks growth [--steps N]   resident memory over many training steps

Peers are optional: one that is not installed is said so and left out. Numbers of a run go to
`benchmarks/results/` when `--out` names a file there.
"""
