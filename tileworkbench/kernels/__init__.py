"""The kernel library: ordinary tile programs in TileLang's language, with schedules that suit a CPU.

Each module holds one algorithm, the record of its tunables, and the textbook's FLOP count.

>>> from tileworkbench.kernels import gemm
>>> gemm.Schedule(64, 64, 32)
Schedule(block_m=64, block_n=64, block_k=32, stages=2)
"""
