"""How the kernels of a CUDA text are launched, as a value that goes into the cache's JSON: `codegen.cuda_source` with expressions as Python text.

In these texts the dims are d0, d1, ... in the order of the signature's, the scalars s0, s1, ..., and `sms` is the device's number of multiprocessors;
what the host program binds is h0, h1, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..base.errors import InternalError, UnsupportedError
from ..codegen.cuda_source import MAP_ALIGNMENT, SMS, CudaKernel, CudaSource, Number, Parameter, Pointer, TensorMap
from ..ir.expr import Buffer, Expr, Var
from ..ir.stmt import Kernel, ScalarParam, TensorParam
from .expressions import python_text
from .gpu_arch import capability
from .host_program import HostLine, host_lines
from .tensor_maps import BYTES as MAP_BYTES

# dtype of a scalar parameter -> (its code for `struct`, its bytes); a bfloat16 goes as its bits
FORMATS = {
    "bool": ("?", 1), "int8": ("b", 1), "uint8": ("B", 1), "int16": ("h", 2), "uint16": ("H", 2), "int32": ("i", 4), "uint32": ("I", 4),
    "int64": ("q", 8), "uint64": ("Q", 8), "float16": ("e", 2), "bfloat16": ("H", 2), "float32": ("f", 4), "tfloat32": ("f", 4), "float64": ("d", 8),
}  # fmt: skip
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class ParamPlan:
    """One parameter: "pointer" (`name`, and the `alignment` of its address in bytes), "number" (`texts[0]`, `dtype`) or "map" (`name`; `texts`: its
    dims and strides; `spec`: the rest).
    """

    kind: str
    name: str = ""
    dtype: str = ""
    texts: tuple[str, ...] = ()
    spec: TensorMap | None = None
    alignment: int = 1  # of the array's address, in bytes

    @property
    def bytes(self) -> int:
        return MAP_BYTES if self.kind == "map" else POINTER_BYTES if self.kind == "pointer" else FORMATS[self.dtype][1]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One launch; see `codegen.cuda_source.CudaKernel`."""

    name: str
    grid: tuple[str, ...]
    block: tuple[int, ...]
    params: tuple[ParamPlan, ...]
    shared_bytes: int
    cluster: tuple[int, ...]
    is_programmatic: bool
    is_cooperative: bool

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z


@dataclass(frozen=True, slots=True)
class Plan:
    """The kernels of a call; `status` names the variable that failed assertions are written to.

    `host` says what a call does if not every kernel once and in order; `workspaces` are the bytes of its memory beside the signature's, as texts.
    """

    kernels: tuple[KernelPlan, ...]
    status: str = ""
    host: tuple[HostLine, ...] = ()
    workspaces: tuple[tuple[str, str], ...] = ()  # (name, bytes)
    prints: bool = False  # whether a kernel prints, so that a call waits for what it has to say

    @property
    def lines(self) -> tuple[HostLine, ...]:
        """The host program, also where it is one launch after the other."""
        return self.host or tuple(HostLine(0, kernel=i) for i in range(len(self.kernels)))

    def alignments(self) -> dict[str, int]:
        """What addresses of arrays, by name, have to be multiples of; only those of which it is more than 1."""
        found: dict[str, int] = {}
        for param in (p for k in self.kernels for p in k.params if p.alignment > 1):
            found[param.name] = max(found.get(param.name, 1), param.alignment)
        return found

    def data(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        kernels = [asdict(replace(k, params=tuple(replace(p, spec=_bare(p.spec)) for p in k.params))) for k in self.kernels]
        return {
            "kernels": kernels,
            "status": self.status,
            "host": [asdict(line) for line in self.host],
            "workspaces": self.workspaces,
            "prints": self.prints,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Plan:
        """The inverse of `data`."""
        host = tuple(HostLine(**line) for line in data["host"])
        workspaces = tuple((str(name), str(text)) for name, text in data["workspaces"])
        return Plan(tuple(_kernel(k) for k in data["kernels"]), str(data["status"]), host, workspaces, bool(data["prints"]))


def parameters_of(kernel: Kernel) -> tuple[list[str], list[str], list[str]]:
    """Names of the tensors and workspaces, of the dims and of the scalars, in the order in which a launch takes them."""
    tensors = [p.buffer.name for p in kernel.params if isinstance(p, TensorParam)] + [b.name for b in kernel.workspaces]
    return tensors, [v.name for v in kernel.dims], [p.var.name for p in kernel.params if isinstance(p, ScalarParam)]


def plan_of(source: CudaSource, dims: Sequence[str], scalars: Sequence[str], arch: str) -> Plan:
    """The plan for a text whose signature has these dims and scalars. Raises UnsupportedError for a launch that the architecture cannot do."""
    names = {name: f"d{i}" for i, name in enumerate(dims)} | {name: f"s{i}" for i, name in enumerate(scalars)} | {SMS: "sms"}
    for kernel in source.kernels:
        needs_9 = kernel.cluster != (1, 1, 1) or kernel.is_programmatic or any(isinstance(p, TensorMap) for p in kernel.params)
        if needs_9 and capability(arch) < (9, 0):
            raise UnsupportedError(f"kernel {kernel.name} needs sm_90 (clusters, tensor maps or programmatic launch), and is compiled for {arch}")
    host = host_lines(source.host, names) if source.host else ()
    workspaces = tuple((b.name, _size(b, names)) for b in source.workspaces)
    return Plan(tuple(_plan(k, names) for k in source.kernels), source.status, host, workspaces, "twb_print(" in source.text)


def _size(buffer: Buffer, names: Mapping[str, str]) -> str:
    """The bytes of a workspace."""
    count = " * ".join(["1", *(python_text(d, names) for d in buffer.shape)])
    return f"max(1, ({count}) * {buffer.type.bits} + 7 >> 3)"


def _plan(kernel: CudaKernel, names: Mapping[str, str]) -> KernelPlan:
    def text(expr: Expr) -> str:
        if isinstance(expr, Var) and expr.name not in names:
            raise InternalError(f"kernel {kernel.name}: {expr.name} is no dim and no scalar of the signature")
        return python_text(expr, names)

    def param(given: Parameter) -> ParamPlan:
        match given:
            case Pointer(name=name, alignment=alignment):
                return ParamPlan("pointer", name, alignment=alignment)
            case Number(value=value, dtype=dtype):
                if dtype not in FORMATS:
                    raise UnsupportedError(
                        f"kernel {kernel.name}: a scalar of type {dtype} cannot be passed to a GPU", hint="declare it as T.float32"
                    )
                return ParamPlan("number", dtype=dtype, texts=(text(value),))
            case TensorMap(name=name, dtype=dtype, dims=dims, strides=strides):
                return ParamPlan("map", name, dtype, (*map(text, dims), *map(text, strides)), given, MAP_ALIGNMENT)

    grid = tuple(text(extent) for extent in kernel.grid)
    params = tuple(param(p) for p in kernel.params)
    return KernelPlan(kernel.name, grid, kernel.block, params, kernel.shared_bytes, kernel.cluster, kernel.is_programmatic, kernel.is_cooperative)


def _bare(spec: TensorMap | None) -> TensorMap | None:
    """A map without its expressions, which stand in the plan as text."""
    return replace(spec, dims=(), strides=()) if spec is not None else None


def _kernel(data: Mapping[str, Any]) -> KernelPlan:
    params = tuple(_param(p) for p in data["params"])
    known = {name: tuple(data[name]) for name in ("grid", "block", "cluster")}
    return KernelPlan(**{**data, **known, "params": params})


def _param(data: Mapping[str, Any]) -> ParamPlan:
    spec = data["spec"]
    made = TensorMap(**{**spec, "dims": (), "strides": (), "box": tuple(spec["box"])}) if spec is not None else None
    return ParamPlan(**{**data, "texts": tuple(data["texts"]), "spec": made})
