"""`python -m tileworkbench.bench gpu`: this package's kernels on a GPU beside PyTorch's libraries, alternating in one run.

`problems.py` says what is compared, `ours.py` and `torch_peer.py` how each side does it, `check.py` what a right answer is, `turns.py` how to time.
`worker.py` is the process that works on the GPU, `match.py` gives it one problem after the other and outlives it, `table.py` prints.
"""
