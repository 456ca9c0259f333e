"""Meanings of the words of the language, one module per group. Importing this package binds them."""

from . import allreduce, atomic, cluster, convert, effects, gpu, hints, hopper, math, reduce, thread, tile, views
