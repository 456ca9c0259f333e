"""Measurements that a reader can repeat: `python -m tileworkbench.bench NAME`."""
