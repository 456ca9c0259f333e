"""From text to running code: compilers, cache, loading, arguments, launch, timing and `jit`."""
