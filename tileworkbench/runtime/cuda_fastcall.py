"""The short way of a repeated call of a CUDA kernel; see `fastcall`, whose checks it writes for CuPy's arrays and PyTorch's tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import packing
from .cuda_arrays import stream_text
from .expressions import HELPERS
from .fastcall import Slow, Writer, plain_name
from .signature import Signature, TensorSpec

NO_ALIGNMENTS: Mapping[str, int] = {}


def make(
    signature: Signature,
    kinds: tuple[str, ...],
    run: Callable[..., None],
    check: Callable[[int], None] | None,
    ordinal: int,
    slow: Slow,
    *,
    several: bool = False,
    alignments: Mapping[str, int] = NO_ALIGNMENTS,
    own: tuple[int, ...] = (),
) -> Callable[..., Any] | None:
    """A function of the call's positional arguments, or None when this signature or these arrays need the long way every time.

    `run(stream, pointers..., workspaces..., dims..., scalars...)` launches; `check(stream)` waits and raises failed assertions. `several`: this
    machine has more than one GPU, and CuPy allocates on the current one. `alignments`: what addresses of arrays have to be multiples of. `own`: bytes
    of the workspaces that passes made, behind the signature's.
    """
    libraries = {k for k in kinds if k != "scalar"}
    if len(libraries) != 1 or "slow" in libraries or any(not s.is_direct or s.is_stride for s in signature.sources):
        return None
    if any(s.dtype == "uint64" for s in signature.scalars):
        return None
    if any(t.strides is not None or t.dtype in packing.NAMES for t in signature.tensors):
        return None
    writer = _GpuWriter(signature, kinds, libraries.pop(), ordinal, check is not None, several, alignments, own)
    text = writer.function()
    names = {**HELPERS, **writer.names, "_run": run, "_slow": slow, "_check": check}
    exec(compile(text, f"<call of {signature.kernel}>", "exec"), names)
    function: Callable[..., Any] = names["call"]
    return function


class _GpuWriter(Writer):
    """Writes the function for arrays of one library on one device."""

    def __init__(
        self, signature: Signature, kinds: tuple[str, ...], library: str, ordinal: int, checks: bool, several: bool, alignments: Mapping[str, int],
        own: tuple[int, ...],
    ) -> None:  # fmt: skip
        super().__init__(signature, kinds)
        self.library, self.ordinal, self.checks, self.several, self.alignments = library, ordinal, checks, several, alignments
        self.own = own
        module = self.module = sys.modules[library]
        self.stream, self.names["_stream"] = stream_text(library, ordinal)
        self.names |= {"_array": module.Tensor if library == "torch" else module.ndarray}
        self.names["_new"] = module.empty

    def check_kind(self, spec: TensorSpec) -> None:
        i = self.index[spec.name]
        if self.library == "torch":
            self.names[f"_t{i}"] = getattr(self.module, plain_name(spec.dtype))
            tests = f"type(a{i}) is not _array or a{i}.dtype is not _t{i} or {self.elsewhere(f'a{i}')} or a{i}.is_neg()"
        else:
            self.names[f"_t{i}"] = spec.numpy_dtype()
            contiguous = "_c_contiguous" if hasattr(self.module.ndarray, "_c_contiguous") else "flags.c_contiguous"
            tests = f"type(a{i}) is not _array or a{i}.dtype is not _t{i} and a{i}.dtype != _t{i} or not a{i}.{contiguous}"
        self.add(f"if {tests}: return _slow(args, {{}})")
        self.add(f"s{i} = a{i}.shape")
        self.check_rank(spec)

    def elsewhere(self, tensor: str) -> str:
        """The test that a tensor lies on another device, the host included, whose number is -1."""
        return f"{tensor}.get_device() != {self.ordinal}" if self.several else f"not {tensor}.is_cuda"

    def pointer(self, spec: TensorSpec) -> None:
        i, mask = self.index[spec.name], max(int(spec.numpy_dtype().itemsize), self.alignments.get(spec.name, 1)) - 1
        if self.library == "torch":
            self.add(f"  if not a{i}.is_contiguous(): return _slow(args, {{}})")
            self.add(f"  p{i} = a{i}.data_ptr()")
        else:
            self.add(f"  p{i} = a{i}.data.ptr")
            if self.several:
                self.add(f"  if a{i}.data.device_id != {self.ordinal}: return _slow(args, {{}})")
        if mask:
            self.add(f"  if p{i} & {mask}: return _slow(args, {{}})")

    def output(self, spec: TensorSpec) -> None:
        i = self.index[spec.name]
        shape = f"({', '.join(self.text(d) for d in spec.shape)}{',' if spec.rank == 1 else ''})"
        dtype = getattr(self.module, plain_name(spec.dtype)) if self.library == "torch" else spec.numpy_dtype()
        self.names[f"_t{i}"] = dtype
        self.new(f"a{i}", f"p{i}", shape, f"_t{i}")

    def new(self, name: str, pointer: str, shape: str, dtype: str) -> None:
        """Allocate an array and take its address."""
        if self.library == "torch":
            self.add(f"{name} = _new({shape}, dtype={dtype}, device='cuda:{self.ordinal}')")
            self.add(f"{pointer} = {name}.data_ptr()")
        else:
            if self.several:  # CuPy allocates on the thread's device
                self.names["_device"] = self.module.cuda.runtime.getDevice
                self.add(f"if _device() != {self.ordinal}: return _slow(args, {{}})")
            self.add(f"{name} = _new({shape}, {dtype})")
            self.add(f"{pointer} = {name}.data.ptr")

    def call(self) -> None:
        slots = [f"p{self.index[t.name]}" for t in self.signature.tensors]
        counts = [" * ".join(["1", *(self.text(d) for d in buffer.shape)]) for buffer in self.signature.workspaces]
        sizes = [f"(({count}) * {b.type.bits} + 7) // 8" for count, b in zip(counts, self.signature.workspaces, strict=True)]
        for n, size in enumerate([*sizes, *map(str, self.own)]):
            self.names["_byte"] = self.module.uint8
            self.new(f"w{n}", f"q{n}", f"({size},)", "_byte")
            slots.append(f"q{n}")
        slots += [self.dims[name] for name in self.signature.dims]
        slots += [f"a{self.index[s.name]}" for s in self.signature.scalars]
        self.add(f"stream = {self.stream}")
        self.add(f"_run({', '.join(['stream', *slots])})")
        if self.checks:
            self.add("_check(stream)")
        outs = [f"a{self.index[t.name]}" for t in self.signature.outputs]
        if outs:
            self.add(f"return {', '.join(outs)}{',' if self.signature.returns_tuple else ''}")
