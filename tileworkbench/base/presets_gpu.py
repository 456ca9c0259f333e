"""GPUs on paper. Peaks are dense (no sparsity) and those of the vendor; each also holds its rate per SM and clock, so that it can be checked.

Where a document states no number it is computed from units x rate x clock, and `source` says so. Latencies are measured ones from the literature,
taken over to chips of the same family where nobody published them; `source` says that too. Sustained rates are lower: an H200 that multiplies
large bfloat16 matrices is held at 1.28-1.40 GHz by its power limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from .gpu import Gpu, capability_limits
from .hardware import Level, Machine, Peak
from .quantity import Quantity

GUIDE = "CUDA C++ Programming Guide, arithmetic instructions, results per clock and SM"
DISSECTED = "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024, table of latencies"
LAUNCH = "assumed: 3 us between dependent launches in a full stream; one host call costs 4.3 us through CuPy (measured, H200, November 2026)"
INSTRUCTION = {"sm_75": "mma.sync", "sm_80": "mma.sync", "sm_86": "mma.sync", "sm_89": "mma.sync", "sm_90": "wgmma", "sm_100": "tcgen05.mma",
               "sm_120": "mma.sync"}  # fmt: skip
# (shared, L2, DRAM) in cycles, where it was measured, and which chips it is taken over to
LATENCIES = {"sm_80": (29.0, 261.5, 466.3, "A100 PCIe"), "sm_89": (30.1, 273.0, 541.5, "RTX 4090"), "sm_90": (29.0, 263.0, 478.8, "H100 PCIe")}
NEAREST_ARCH = {"sm_75": "sm_80", "sm_86": "sm_80", "sm_100": "sm_90", "sm_120": "sm_89"}


@dataclass(frozen=True, slots=True)
class Sustained:
    """What was measured of a GPU under load: the clock of products in MHz, GB/s of copies, nanoseconds of a tensor copy, MiB of L2 for all SMs."""

    clock: float
    copies: float
    source: str
    copy_ns: float
    shared_mib: float
    counted: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a data sheet says of one GPU. Clocks in MHz, rates in TFLOP/s, memory in GiB and GB/s, `l2_mib` in MiB; `l2_clock`: bytes a clock.

    `tensor` and `lanes` map a dtype to (FLOP per clock and SM, the stated TFLOP/s or None where it is computed).
    """

    name: str
    arch: str
    sms: int
    clock: int
    tensor_clock: int
    source: str
    memory: float
    dram: float
    l2_mib: float
    l2_clock: float
    l2_source: str
    tensor: dict[str, tuple[int, float | None]]
    lanes: dict[str, tuple[float, float | None]]
    notes: tuple[str, ...] = ()
    sustained: Sustained | None = None
    l2_size_source: str = ""

    def machine(self) -> Machine:
        """The machine value."""
        source = self.source
        matrix = {d: "mma.sync" if d == "float64" else INSTRUCTION[self.arch] for d in self.tensor}
        peaks = [self._peak(d, "tensor", rate, stated, matrix[d]) for d, (rate, stated) in self.tensor.items()]
        peaks += [self._peak(d, "fma", rate, stated, "FMA") for d, (rate, stated) in self.lanes.items()]
        sfu = 16 * self.clock / 1e3
        peaks.append(Peak("exp", *_both(sfu, self.sms, "Gop/s", f"16 x clock; {GUIDE}"), "MUFU", "sfu", Quantity(16, "results/clk", GUIDE)))
        held: dict[str, Quantity] = {}
        if self.sustained is not None:
            s = self.sustained
            held = {"sustained_clock": Quantity(s.clock, "MHz", s.source, True), "sustained_dram": Quantity(s.copies, "GB/s", s.source, True)}
            held |= {"copy_latency": Quantity(s.copy_ns, "ns", s.counted, True), "l2_shared": Quantity(s.shared_mib, "MiB", s.counted, True)}
        gpu = Gpu(
            self.arch, Quantity(self.sms, "SMs", source), Quantity(self.clock, "MHz", source), Quantity(self.tensor_clock, "MHz", source),
            Quantity(self.memory, "GiB", source), **capability_limits(self.arch), launch=Quantity(3, "us", LAUNCH), **self._latencies(),
            sector=Quantity(32, "B", "CUDA C++ Best Practices Guide, coalesced access: sectors of 32 bytes"), **held,
        )  # fmt: skip
        return Machine(
            self.name, self.sms, self._levels(gpu), tuple(peaks), 32, self.arch, notes=("on paper; no sparsity", *self.notes), gpu=gpu
        )  # fmt: skip

    def _peak(self, dtype: str, unit: str, rate: float, stated: float | None, instruction: str) -> Peak:
        clock = self.clock if unit == "fma" or dtype == "float64" else self.tensor_clock  # float64 products are stated at the boost clock
        computed = self.sms * rate * clock / 1e3
        how = f"{self.sms} SMs x {rate:g} x {clock} MHz"
        value, source = (computed, f"computed: {how}") if stated is None else (stated * 1e3, f"{self.source} ({how})")
        whole = Quantity(value, "GFLOP/s", source)
        one = Quantity(value / self.sms, "GFLOP/s", f"the whole GPU's / {self.sms}")
        per_clock = Quantity(rate, "FLOP/clk", f"twice the results; {GUIDE}" if unit == "fma" else "the stated peak / SMs / clock, to a power of two")
        return Peak(dtype, one, whole, instruction, unit, per_clock)

    def _latencies(self) -> dict[str, Quantity]:
        arch = self.arch if self.arch in LATENCIES else NEAREST_ARCH[self.arch]
        *cycles, chip = LATENCIES[arch]
        same = "" if arch == self.arch else f", assumed to be as long here, {arch} being the nearest that was measured"
        names = ("shared_latency", "l2_latency", "dram_latency")
        return {
            n: Quantity(round(float(c) / self.clock * 1e3, 1), "ns", f"{c} cycles on {chip}{same}; {DISSECTED}")
            for n, c in zip(names, cycles, strict=True)
        }

    def _levels(self, gpu: Gpu) -> tuple[Level, ...]:
        ghz = self.clock / 1e3
        shared = f"128 bytes a clock and SM: 32 banks of 4 bytes ({GUIDE.partition(',')[0]}, shared memory)"
        l2_one = f"64 bytes a clock and SM (NVIDIA A100 Tensor Core GPU Architecture, caches); {self.clock} MHz"
        l2 = Quantity(self.l2_clock * ghz, "GB/s", f"{self.l2_source}; {self.clock} MHz")
        l2_core = Quantity(min(64.0, self.l2_clock) * ghz, "GB/s", l2_one)
        registers = Quantity(256, "KiB", "65536 registers of 4 bytes, an SM")
        dram = Quantity(self.dram, "GB/s", self.source)
        dram_core = Quantity(min(64 * ghz, self.dram), "GB/s", f"what L2 feeds an SM; {l2_one}")
        return (
            Level("registers", registers, None, None),
            Level("shared", gpu.shared_per_sm, *_both(128 * ghz, self.sms, "GB/s", shared)),
            Level("L2", Quantity(self.l2_mib, "MiB", self.l2_size_source or self.source), l2_core, l2, True),
            Level("DRAM", None, dram_core, dram, True),
        )


def _both(one: float, count: int, unit: str, source: str) -> tuple[Quantity, Quantity]:
    return Quantity(one, unit, source), Quantity(one * count, unit, f"{source}, all {count} SMs")


A100_L2 = "5120 bytes a clock (NVIDIA A100 Tensor Core GPU Architecture, L2 cache)"
HOPPER_L2 = "48 bytes a clock and SM at least: what 128x256x64 tiles draw with 98-99 % of the tensor clocks busy (measured, H200, November 2026)"
ADA_L2 = "1708 bytes a clock, measured on an RTX 4090 (Luo et al. 2024)"
BUS_L2 = f"assumed: in proportion to the width of the memory bus, from {ADA_L2}"
ADA_BUS = 1708 / 384  # bytes a clock for each bit of the bus


def _ampere_to_hopper(h: float, f16: float, f8: float | None, f64: float | None) -> dict[str, tuple[int, float | None]]:
    """Matrix rates of a data-centre chip from 8.0 on: `h` FLOP per clock and SM of float16; stated TFLOP/s of float16, 8 bits, float64."""
    n = int(h)
    out: dict[str, tuple[int, float | None]] = {"float16>float32": (n, f16), "bfloat16>float32": (n, f16), "float16": (n, f16)}
    out["tfloat32>float32"] = (n // 2, f16 / 2)
    if f8 is not None and n >= 4096:
        out |= {"float8_e4m3fn>float32": (2 * n, f8), "float8_e5m2>float32": (2 * n, f8)}
    out["int8>int32"] = (2 * n, f8 if f8 is not None else 2 * f16)
    if f64 is not None:
        out["float64"] = (256 if n >= 4096 else 128, f64)
    return out


def _ada(rate: int, stated16: float, *, full: bool) -> dict[str, tuple[int, float | None]]:
    """Matrix rates from 8.9 on: `rate` FLOP per clock and SM of float16 summed in float32; a `full` chip sums in float32 as fast as in float16."""
    double = 1 if full else 2
    return {
        "float16>float32": (rate, stated16), "bfloat16>float32": (rate, stated16), "float16": (rate * double, stated16 * double),
        "tfloat32>float32": (rate // 2, stated16 / 2), "float8_e4m3fn>float32": (2 * rate, 2 * stated16),
        "float8_e5m2>float32": (2 * rate, 2 * stated16), "int8>int32": (2 * rate * double, 2 * stated16 * double),
    }  # fmt: skip


H200 = "NVIDIA H200 Tensor Core GPU data sheet (SXM), half of the peaks with sparsity"
H100 = "NVIDIA H100 Tensor Core GPU data sheet, half of the peaks with sparsity"
A100 = "NVIDIA A100 Tensor Core GPU Architecture white paper and data sheet"
ADA_PRO = "NVIDIA Ada GPU Architecture white paper and data sheet, half of the peaks with sparsity"
AMPERE_RTX = "NVIDIA Ampere GA102 GPU Architecture white paper, appendix"
ADA_RTX = "NVIDIA Ada GPU Architecture white paper, appendix"
BLACKWELL_RTX = "NVIDIA RTX Blackwell GPU Architecture white paper, appendix"
TURING = "NVIDIA Turing GPU Architecture white paper, appendix, and T4 data sheet"
B200 = "NVIDIA DGX B200 and HGX B200 data sheets, one of eight GPUs, half of the peaks with sparsity; SMs, clock and L2 as the driver reports them"
HOPPER_LANES: dict[str, tuple[float, float | None]] = {
    "float64": (128.0, 34), "float32": (256.0, 67), "float16": (512.0, None), "bfloat16": (512.0, None),
}  # fmt: skip

SHEETS = {
    "h200": Sheet(
        "NVIDIA H200", "sm_90", 132, 1980, 1830, H200, 141, 4800, 60, 48 * 132, HOPPER_L2, _ampere_to_hopper(4096, 989.4, 1978.9, 67), HOPPER_LANES,
        ("measured on one, November 2026: copies at 4.3 TB/s; matrix products are held at 1.28-1.40 GHz by the power limit, 660-700 TFLOP/s",),
        Sustained(
            1340, 4300, "measured, H200, November 2026: bfloat16 products on random data at 1.28-1.40 GHz; copies",
            550, 32, "measured, H200, December 2026: times of products with 1 to 4 stages; bytes at DRAM of 11 products, counted by ncu",
        ),
        "stated by the driver of one, December 2026",
    ),
    "h100-sxm": Sheet(
        "NVIDIA H100 SXM", "sm_90", 132, 1980, 1830, H100, 80, 3350, 50, 48 * 132, HOPPER_L2, _ampere_to_hopper(4096, 989.4, 1978.9, 67), HOPPER_LANES
    ),
    "h100-pcie": Sheet(
        "NVIDIA H100 PCIe", "sm_90", 114, 1755, 1620, H100, 80, 2000, 50, 48 * 114, HOPPER_L2, _ampere_to_hopper(4096, 756.5, 1513, 51),
        {"float64": (128.0, 26), "float32": (256.0, 51), "float16": (512.0, None), "bfloat16": (512.0, None)},
    ),
    "a100": Sheet(
        "NVIDIA A100 80GB SXM", "sm_80", 108, 1410, 1410, A100, 80, 2039, 40, 5120, A100_L2, _ampere_to_hopper(2048, 312, 624, 19.5),
        {"float64": (64.0, 9.7), "float32": (128.0, 19.5), "float16": (512.0, 78.0), "bfloat16": (256.0, 39.0)},
    ),
    "a100-40": Sheet(
        "NVIDIA A100 40GB SXM", "sm_80", 108, 1410, 1410, A100, 40, 1555, 40, 5120, A100_L2, _ampere_to_hopper(2048, 312, 624, 19.5),
        {"float64": (64.0, 9.7), "float32": (128.0, 19.5), "float16": (512.0, 78.0), "bfloat16": (256.0, 39.0)},
    ),
    "l4": Sheet(
        "NVIDIA L4", "sm_89", 58, 2040, 2040, ADA_PRO, 24, 300, 48, ADA_BUS * 192, BUS_L2, _ada(1024, 121, full=True),
        {"float64": (4.0, 0.47), "float32": (256.0, 30.3), "float16": (256.0, 30.3)},
    ),
    "l40s": Sheet(
        "NVIDIA L40S", "sm_89", 142, 2520, 2520, ADA_PRO, 48, 864, 96, 1708, ADA_L2, _ada(1024, 362.05, full=True),
        {"float64": (4.0, 1.43), "float32": (256.0, 91.6), "float16": (256.0, 91.6)},
    ),
    "rtx-3090": Sheet(
        "NVIDIA GeForce RTX 3090", "sm_86", 82, 1695, 1695, AMPERE_RTX, 24, 936, 6, 1708, BUS_L2,
        {"float16>float32": (512, 71.0), "bfloat16>float32": (512, 71.0), "float16": (1024, 142.0), "tfloat32>float32": (256, 35.6),
         "int8>int32": (2048, 284.0)},
        {"float64": (4.0, 0.556), "float32": (256.0, 35.6), "float16": (256.0, 35.6), "bfloat16": (256.0, 35.6)},
    ),
    "rtx-4090": Sheet(
        "NVIDIA GeForce RTX 4090", "sm_89", 128, 2520, 2520, ADA_RTX, 24, 1008, 72, 1708, ADA_L2, _ada(512, 165.2, full=False),
        {"float64": (4.0, 1.29), "float32": (256.0, 82.6), "float16": (256.0, 82.6), "bfloat16": (256.0, 82.6)},
    ),
    "rtx-5090": Sheet(
        "NVIDIA GeForce RTX 5090", "sm_120", 170, 2407, 2407, BLACKWELL_RTX, 32, 1792, 96, ADA_BUS * 512, BUS_L2, _ada(512, 209.5, full=False),
        {"float64": (4.0, 1.64), "float32": (256.0, 104.8), "float16": (256.0, 104.8), "bfloat16": (256.0, 104.8)},
    ),
    "t4": Sheet(
        "NVIDIA T4", "sm_75", 40, 1590, 1590, TURING, 16, 320, 4, ADA_BUS * 256, BUS_L2,
        {"float16>float32": (1024, 65.0), "float16": (1024, 65.0), "int8>int32": (2048, 130.0)},
        {"float64": (4.0, 0.254), "float32": (128.0, 8.1), "float16": (256.0, 16.2)},
    ),
    "b200": Sheet(
        "NVIDIA B200", "sm_100", 148, 1965, 1850, B200, 180, 8000, 126, 48 * 148, "assumed: 48 bytes a clock and SM, as an H200 draws",
        {"float16>float32": (8192, 2250.0), "bfloat16>float32": (8192, 2250.0), "float16": (8192, 2250.0), "tfloat32>float32": (4096, 1125.0),
         "float8_e4m3fn>float32": (16384, 4500.0), "float8_e5m2>float32": (16384, 4500.0), "int8>int32": (16384, 4500.0)},
        {"float64": (128.0, 37), "float32": (256.0, 75), "float16": (512.0, None), "bfloat16": (512.0, None)},
    ),
}  # fmt: skip
GPUS = {name: sheet.machine() for name, sheet in SHEETS.items()}
