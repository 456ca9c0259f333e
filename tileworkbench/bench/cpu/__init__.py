"""`python -m tileworkbench.bench cpu`: this package beside NumPy and PyTorch on the same problems, alternating in one run.

`problems.py` says what is compared, `contestants.py` how each contestant does it, `worker.py` is the process of one contestant, `match.py` lets them
take turns and counts, `table.py` prints.
"""
