"""Prediction without running: what a kernel computes, which bytes it moves, and which roof of the machine bounds it."""
