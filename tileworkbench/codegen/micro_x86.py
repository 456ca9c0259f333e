"""The micro-kernel of a tile product as assembly for x86: what gcc makes of `microgemm`'s vectors, without the 60 ms that it takes to find it.

    zero the results; four steps of k a turn: load a row of b, broadcast one value a row of a, multiply and add; add c unless `clear`; store

Results, rows of b and the broadcast value have registers of their own. Rows of a are reached in groups of five from one pointer: 0, 1, 2, 4 times the
stride is an address, 3 times is a register. What the loop does not need stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GROUP = 5
UNROLL = 4  # steps of k in one turn of the loop: a neighbour on the core takes issue slots, which the loop's end would need
LINE = 64  # bytes of a cache line
LONG = 256  # steps after which c, asked for at the start, may have left the first cache again
NEAR_END = 64  # steps before the end, when a long kernel asks for all lines of c


@dataclass(frozen=True, slots=True)
class X86Kernel:
    """c[rows][vectors] (=|+=) a @ b in vectors of `vector_bytes` with float elements of `size` bytes. `packed`: rows of b follow each other.

    `uneven`: k may be no multiple of UNROLL. `columns`: a is transposed.

    >>> print(X86Kernel("f", "float", 4, 64, 6, 4, packed=True, uneven=False, columns=False).text().partition("(int64_t")[0])
    static __attribute__((noinline, unused)) void f
    """

    name: str
    element: str
    size: int
    vector_bytes: int
    rows: int
    vectors: int
    packed: bool
    uneven: bool
    columns: bool

    def text(self) -> str:
        """The function as C text; its parameters are those of the kernels in `microgemm`."""
        apart = "" if self.packed else "int64_t ldb, "
        one = self.element
        head = f"int64_t k, const {one} *a, int64_t lda, const {one} *b, {apart}{one} *c, int64_t ldc, int64_t last, int clear"
        pointers = self._pointers()
        inputs = ['[lda] "r"(lda)', *([] if self.columns else ['[lda3] "r"(lda * 3)']), *([] if self.packed else ['[ldb] "r"(ldb)'])]
        inputs += ['[c] "m"(c)', '[ldc] "m"(ldc)', '[last] "m"(c_last)', '[clear] "m"(clear)', '[rest] "m"(rest)']
        changed = ['[turns] "+r"(turns)', '[b] "+r"(b)', *(f'[{p}] "+r"({p})' for p in pointers), '[at] "=&r"(at)', '[more] "+m"(more)']
        spoilt = [f'"{name}"' for name in ("memory", "cc", *(f"xmm{i}" for i in range(self.rows * self.vectors + self.vectors + 1)))]
        out = [
            f"static __attribute__((noinline, unused)) void {self.name}({head}) {{",
            *(f"    __builtin_prefetch(c + {i} * ldc, 1);" for i in range(self.rows - 1)),
            "    __builtin_prefetch(c + last * ldc, 1);",
            f"    lda *= {self.size}, ldc *= {self.size}{'' if self.packed else f', ldb *= {self.size}'}; /* bytes */",
            f"    const char *{', *'.join(f'{p} = (const char *)a + {row}' for p, row in pointers.items())};",
            "    char *const c_last = (char *)c + last * ldc, *at;",
            f"    int64_t turns = (k < {LONG} ? k : k - {NEAR_END}) / {UNROLL}, more = k / {UNROLL} - turns, rest = k % {UNROLL};",
            "    __asm__ volatile(",
            *(f'        "{line}\\n"' for line in self._lines()),
            f"        : {', '.join(changed)}",
            f"        : {', '.join(inputs)}",
            f"        : {', '.join(spoilt)});",
            "}",
        ]
        return "\n".join(out)

    def _pointers(self) -> dict[str, str]:
        """The pointers into a that walk along k, and the row (the column of a transposed a) of each."""
        if self.columns:
            near = {"a0": "0"}
            last = f"last * {self.size}"
        else:
            near = {f"a{i}": f"{i} * lda" for i in range(0, max(self.rows - 1, 1), GROUP)}
            last = "last * lda"
        return {**near, "a_last": last} if self.rows > 1 else near

    @property
    def _kind(self) -> str:
        return "s" if self.size == 4 else "d"

    def _vector(self, number: int) -> str:
        return f"%%{'zmm' if self.vector_bytes == 64 else 'ymm'}{number}"

    def _cell(self, i: int, j: int) -> str:
        return self._vector(i * self.vectors + j)

    def _lines(self) -> Iterator[str]:
        clear = "vpxord" if self.vector_bytes == 64 else "vxorps"
        for i in range(self.rows):
            yield "; ".join(f"{clear} {', '.join([self._cell(i, j)] * 3)}" for j in range(self.vectors))
        yield from ("test %[turns], %[turns]", "jz 2f", ".p2align 5", "1:")
        for u in range(UNROLL):
            yield from self._step(u)
        yield from self._advance(UNROLL)
        yield from ("dec %[turns]", "jnz 1b", "2:", "mov %[more], %[turns]", "test %[turns], %[turns]", "jz 3f", "movq $0, %[more]")
        for at in self._each_row():
            yield "; ".join([at, *(f"prefetcht0 {byte}(%[at])" for byte in range(0, self.vectors * self.vector_bytes, LINE))])
        yield from ("jmp 1b", "3:")
        if self.uneven:
            yield from ("mov %[rest], %[turns]", "test %[turns], %[turns]", "jz 5f", "4:")
            yield from self._step(0)
            yield from self._advance(1)
            yield from ("dec %[turns]", "jnz 4b", "5:")
        yield from ("cmpl $0, %[clear]", "jnz 6f")
        yield from self._on_c("vaddp{kind} {place}, {cell}, {cell}")
        yield "6:"
        yield from self._on_c("vmovup{kind} {cell}, {place}")
        yield "vzeroupper"

    def _on_c(self, instruction: str) -> Iterator[str]:
        """One instruction for each vector of c, row by row."""
        for i, at in enumerate(self._each_row()):
            places = [(f"{j * self.vector_bytes}(%[at])", self._cell(i, j)) for j in range(self.vectors)]
            yield "; ".join([at, *(instruction.format(kind=self._kind, place=place, cell=cell) for place, cell in places)])

    def _each_row(self) -> Iterator[str]:
        """The instruction that brings `at` to each row of c in turn."""
        for i in range(self.rows):
            is_last = i == self.rows - 1
            yield "mov %[last], %[at]" if is_last else "mov %[c], %[at]" if i == 0 else "add %[ldc], %[at]"

    def _step(self, u: int) -> Iterator[str]:
        """Step `u` of a turn."""
        first = self.rows * self.vectors
        value = self._vector(first + self.vectors)
        at = u * self.vectors * self.vector_bytes if self.packed else 0
        yield "; ".join(f"vmovup{self._kind} {at + j * self.vector_bytes}(%[b]), {self._vector(first + j)}" for j in range(self.vectors))
        for i in range(self.rows):
            terms = (f"vfmadd231p{self._kind} {self._vector(first + j)}, {value}, {self._cell(i, j)}" for j in range(self.vectors))
            yield "; ".join([f"vbroadcasts{self._kind} {self._at(i, u)}, {value}", *terms])
        if not self.packed:
            yield "add %[ldb], %[b]"
        if self.columns:
            yield from (f"add %[lda], %[{p}]" for p in self._pointers())

    def _at(self, i: int, u: int) -> str:
        """The address of row i's value in step u."""
        is_last = i > 0 and i == self.rows - 1
        if self.columns:
            return "(%[a_last])" if is_last else f"{i * self.size}(%[a0])"
        if is_last:
            return f"{u * self.size}(%[a_last])"
        far = ("", ", %[lda]", ", %[lda], 2", ", %[lda3]", ", %[lda], 4")[i % GROUP]
        return f"{u * self.size}(%[a{i - i % GROUP}]{far})"

    def _advance(self, steps: int) -> Iterator[str]:
        """Walk the pointers `steps` steps on."""
        if self.packed:
            yield f"add ${steps * self.vectors * self.vector_bytes}, %[b]"
        if not self.columns:
            yield from (f"add ${steps * self.size}, %[{p}]" for p in self._pointers())
