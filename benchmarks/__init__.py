"""Ours and the peers, turn by turn in one run: only ratios from one run mean anything.

    python -m benchmarks cpu [--peers torch,numpy,jax,tinygrad] [--only REGEX] [--threads N]
                             [--clock cpu] [--patience SECONDS] [--out FILE]
    python -m benchmarks calls [--peers …]    what tiny calls cost, against the project's marks
    python -m benchmarks cold                 fresh processes, empty and warm cache, CPU time
    python -m benchmarks growth [--steps N]   resident memory over many training steps
    python -m benchmarks scaling              cost of an element as n doubles

In the order of the work: `frameworks` (who takes part), `workloads` (what is computed), `worker`
and `contest` (processes and turns), `limits` (what the machine can do), `table` and `picture`.

A peer that is named must be installed; without --peers those that are not are said so and left out.
A whole run is kept in `benchmarks/results/`, a part (--only) where --out says.
"""
