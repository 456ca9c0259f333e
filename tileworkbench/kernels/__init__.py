"""The kernel library: ordinary tile programs in TileLang's language, with schedules that suit a CPU and others that suit a GPU.

Each module holds one algorithm, the record of its tunables, and the textbook's FLOP count. On a GPU `spaces` declares what a product or attention may
choose from, `searching` searches it, and `tuned` holds what was found; `default_schedule` asks there first.

>>> from tileworkbench.kernels import gemm
>>> print(gemm.default_schedule(4096, 4096, 4096, "float16", target="cuda:sm_90a"))
128x256x64 s4 t256
"""
