"""What a cubin says of its kernels: registers, stack, shared memory, threads, parameters; and the blocks that fit on a multiprocessor.

A cubin is an ELF file. NVIDIA's facts stand in sections `.nv.info` (of all kernels) and `.nv.info.NAME`, as records of (format, attribute, value);
the attributes are those that `cuobjdump -elf` names EIATTR_*. Only spills are taken from the compiler's report: the ELF file does not hold them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..base.errors import InternalError
from ..base.hardware import Machine
from ..model.occupancy import Occupancy, compiled_occupancy
from .gpu_arch import RESERVED_SHARED

# EIATTR_*: attribute numbers of .nv.info records
MAX_THREADS, FRAME_SIZE, MIN_STACK_SIZE, KPARAM_INFO, REGCOUNT, CLUSTER_DIMS = 0x05, 0x11, 0x12, 0x17, 0x2F, 0x3D
_SIZED = 4  # the record format whose value stands behind it
_HEADER, _SECTION, _SYMBOL = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_FUNCTION, _KERNEL = 2, 0x10  # the type of a symbol, and the mark of an entry in its `other` byte
_REPORT = re.compile(r"Function properties for (\w+)\n[^\n]*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel of a cubin. Bytes are a block's (`shared_bytes`, without dynamic ones) or a thread's (all others).

    `local_bytes` is the stack, which lies in device memory; `spill_stores` and `spill_loads` are the bytes that instructions move there for want of
    registers, each counted once however often it runs. `max_threads`: of `__launch_bounds__`, 0 where there are none. `params`: (offset, size) of
    each.
    """

    name: str
    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int
    params: tuple[tuple[int, int], ...]
    code_bytes: int
    spill_stores: int = 0
    spill_loads: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def spills(self) -> bool:
        return self.spill_stores + self.spill_loads > 0

    def data(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> KernelFacts:
        """The inverse of `data`; raises TypeError or KeyError for a damaged record."""
        params, cluster = tuple((int(o), int(s)) for o, s in data["params"]), tuple(data["cluster"])
        return KernelFacts(**{**data, "params": params, "cluster": cluster})

    def occupancy(self, machine: Machine, threads: int, dynamic_bytes: int = 0) -> Occupancy:
        """Blocks of `threads` threads that fit on a multiprocessor of `machine`, and what limits them."""
        return compiled_occupancy(self.name, machine, threads=threads, registers=self.registers, shared_bytes=self.shared_bytes + dynamic_bytes)

    def __str__(self) -> str:
        spilt = f", {self.spill_stores} bytes spilt" if self.spills else ""
        stack = f", {self.local_bytes} bytes of stack" if self.local_bytes else ""
        return f"{self.name}: {self.registers} registers{spilt}{stack}, {self.shared_bytes} bytes of static shared memory, {self.code_bytes} of code"


def read_cubin(cubin: bytes, log: str = "") -> tuple[KernelFacts, ...]:
    """The kernels of a cubin, by name; `log` is the compiler's report. Raises InternalError for bytes that are no cubin."""
    elf = _Elf(cubin)
    spills = {name: (int(stores), int(loads)) for name, _, stores, loads in _REPORT.findall(log)}
    registers: dict[int, int] = {}
    stack: dict[int, int] = {}
    for attribute, value in elf.records(".nv.info"):
        if attribute in (REGCOUNT, FRAME_SIZE, MIN_STACK_SIZE):
            symbol, number = struct.unpack("<II", value)
            found = registers if attribute == REGCOUNT else stack
            found[symbol] = max(found.get(symbol, 0), number)
    kernels = [(i, s) for i, s in enumerate(elf.symbols) if s.is_kernel]
    return tuple(
        sorted((_kernel(elf, s, registers.get(i, 0), stack.get(i, 0), spills.get(s.name, (0, 0))) for i, s in kernels), key=lambda k: k.name)
    )


def code_of(cubin: bytes) -> dict[str, bytes]:
    """The instructions of a cubin, by section: one for each kernel. Raises InternalError for bytes that are no cubin."""
    elf = _Elf(cubin)
    return {name: elf.data[h[4] : h[4] + h[5]] for name, h in elf.sections.items() if name.startswith(".text")}


def _kernel(elf: _Elf, symbol: _Symbol, registers: int, stack: int, spills: tuple[int, int]) -> KernelFacts:
    threads, cluster = 0, (1, 1, 1)
    params: dict[int, tuple[int, int]] = {}
    for attribute, value in elf.records(f".nv.info.{symbol.name}"):
        match attribute:
            case _ if attribute == MAX_THREADS:
                x, y, z = struct.unpack("<III", value)
                threads = x * y * z
            case _ if attribute == KPARAM_INFO:
                _, ordinal, offset, bits = struct.unpack("<IHHI", value)
                params[ordinal] = (offset, bits >> 18)
            case _ if attribute == CLUSTER_DIMS:
                cluster = struct.unpack("<III", value)
    shared = elf.size_of(f".nv.shared.{symbol.name}")
    if shared and elf.capability >= 90:  # the system's part comes first in the section from 9.0 on
        shared = max(0, shared - RESERVED_SHARED)
    ordered = tuple(params[i] for i in sorted(params))
    return KernelFacts(symbol.name, registers, stack, shared, threads, ordered, symbol.size, *spills, cluster=cluster)


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    is_kernel: bool
    size: int


class _Elf:
    """The parts of an ELF file that are asked for here."""

    def __init__(self, data: bytes) -> None:
        try:
            if data[:5] != b"\x7fELF\x02":
                raise InternalError("not a 64-bit ELF file")
            fields = _HEADER.unpack_from(data)
            start, flags, count, names = fields[6], fields[7], fields[12], fields[13]
            self.data = data
            headers = [_SECTION.unpack_from(data, start + _SECTION.size * i) for i in range(count)]
            self.sections = {self._text(headers[names][4] + h[0]): h for h in headers}
            # the number of the compute capability, which older tools wrote into the lowest byte and newer ones into the second
            self.capability = flags >> 8 & 0xFF if flags >> 24 else flags & 0xFF
            self.symbols = [_Symbol(*s) for s in self._symbols()]
        except (struct.error, IndexError, ValueError, KeyError) as error:
            raise InternalError(f"a damaged cubin: {error}") from None

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _symbols(self) -> Iterator[tuple[str, bool, int]]:
        table, names = self.sections[".symtab"], self.sections[".strtab"]
        for i in range(table[5] // _SYMBOL.size):
            name, info, other, _, _, size = _SYMBOL.unpack_from(self.data, table[4] + _SYMBOL.size * i)
            yield self._text(names[4] + name), info & 0xF == _FUNCTION and bool(other & _KERNEL), size

    def size_of(self, section: str) -> int:
        """The bytes of a section; 0 if there is none."""
        return int(self.sections[section][5]) if section in self.sections else 0

    def records(self, section: str) -> Iterator[tuple[int, bytes]]:
        """The sized records of a section of NVIDIA's facts."""
        if section not in self.sections:
            return
        at, end = self.sections[section][4], self.sections[section][4] + self.sections[section][5]
        while at + 4 <= end:
            form, attribute, value = struct.unpack_from("<BBH", self.data, at)
            at += 4
            if form == _SIZED:
                yield attribute, self.data[at : at + value]
                at += value
