// wgmma: a warp computes its 16 rows of the product when it waits for them, from shared memory as it is then.
namespace {
struct Product {
    int n, k, to, at, bt, scale_d, negate_a, negate_b, trans_a, trans_b, line; bool from_registers;
    uint64_t da, db; uint32_t a[32][4]; void *d[32]; Clock clock;
};
struct Wgmma { void *d; const uint32_t *a; uint64_t da, db; int n, k, to, at, bt, scale_d, negate_a, negate_b, trans_a, trans_b; };

// Address of element (mn, k) of an operand.
uint32_t operand_at(uint64_t d, bool mn_major, int mn, int k, int es) {
    uint32_t start = (uint32_t)(d & 0x3fff) << 4, lbo = (uint32_t)(d >> 16 & 0x3fff) << 4, sbo = (uint32_t)(d >> 32 & 0x3fff) << 4;
    int code = (int)(d >> 62), mode = code ? 4 - code : 0, span = 16 << mode;
    if (mn_major) {
        if (!mode) return start + mn / 8 * sbo + k / 8 * lbo + k % 8 * 16 + mn % 8 * es;
        return swizzled(start + mn * es / span * lbo + k / 8 * sbo + k % 8 * span + mn * es % span, mode);
    }
    if (!mode) return start + mn / 8 * sbo + mn % 8 * 16 + k * es / 16 * lbo + k * es % 16;
    return swizzled(start + mn / 8 * sbo + mn % 8 * span + k * es, mode);
}

bool read_operand(const Product &p, Thread *t, uint64_t d, bool mn_major, int first, int rows, int type, float *to, bool negate) {
    int es = size_of(type), code = (int)(d >> 62), mode = code ? 4 - code : 0;
    Block *b = t->home;
    uint32_t start = (uint32_t)(d & 0x3fff) << 4, span = 16u << mode;
    if (mode && start / span % 8) {
        found("descriptor", p.line, -1, format("a matrix starts at shared address %u: rows of 8 x %u bytes must start at a multiple of %u", start, span, 8 * span));
        return false;
    }
    for (int r = 0; r < rows; ++r) for (int k = 0; k < p.k; ++k) {
        uint32_t at = operand_at(d, mn_major, first + r, k, es);
        if (at < TWBE_FIRST || at + es > TWBE_FIRST + b->shared_bytes) {
            found("descriptor", p.line, -1, format("a matrix descriptor reaches byte %lld of %u bytes of shared memory", (long long)at - TWBE_FIRST, b->shared_bytes));
            return false;
        }
        if (checks() && !touch_shared(Actor{t->id, t->clock[t->id], p.clock, t, p.line, true}, b, at, es, false, mode))
            found("uninitialised", p.line, -1, format("wgmma reads byte %u of shared memory where nothing was written", at - TWBE_FIRST));
        float x = element(type, b->memory + at);
        to[r * p.k + k] = negate ? -x : x;
    }
    return true;
}

float power_of(float x) { uint32_t u; memcpy(&u, &x, 4); u &= 0x7f800000; memcpy(&x, &u, 4); return x; }

// One row of sums of float8 products. Products and the sum so far are aligned to the largest of them; 13 bits behind its first one are kept of each, and
// of their sum; the rest is cut off. Source: DeepSeek-AI, "Insights into DeepSeek-V3", ISCA 2025, section 3.1 (FP22 sums); which exponent a product of
// two fractions counts with is not published: here the sum of theirs.
void add_short(const float *a, const float *bt, const float *powers, int n, int k, float *sum, bool is_odd) {
    float top[256], scale[256]; int32_t total[256];
    for (int j = 0; j < n; ++j) top[j] = power_of(sum[j]);
    for (int i = 0; i < k; ++i) { float x = power_of(a[i]); for (int j = 0; j < n; ++j) top[j] = std::max(top[j], x * powers[i * n + j]); }
    for (int i = 0; i < k; ++i) is_odd |= a[i] - a[i] != 0;
    for (int j = 0; j < n; ++j) is_odd |= sum[j] - sum[j] != 0;
    if (is_odd) {  // infinities and NaN
        for (int i = 0; i < k; ++i) for (int j = 0; j < n; ++j) sum[j] += a[i] * bt[i * n + j];
        return;
    }
    for (int j = 0; j < n; ++j) { scale[j] = top[j] > 0 ? 8192.0f / top[j] : 0.0f; total[j] = (int32_t)(sum[j] * scale[j]); }
    for (int i = 0; i < k; ++i) for (int j = 0; j < n; ++j) total[j] += (int32_t)(a[i] * bt[i * n + j] * scale[j]);
    for (int j = 0; j < n; ++j) {
        float x = top[j] > 0 ? (float)total[j] * (top[j] / 8192.0f) : 0.0f; uint32_t u;
        memcpy(&u, &x, 4); u &= ~0x3ffu; memcpy(&sum[j], &u, 4);
    }
}

void multiply(const Product &p, Warp *w) {
    static float a[16 * 32], b[256 * 32], bt[32 * 256], powers[32 * 256];
    Thread *t = w->lane[0];
    int es = size_of(p.at), quarter = (int)(w->index % 4);
    if (p.from_registers) {
        for (int l = 0; l < 32; ++l) for (int i = 0; i < 4; ++i) for (int e = 0; e < 4 / es; ++e) {
            int row = l / 4 + 8 * (i & 1), k = (i >> 1) * 16 / es + l % 4 * (4 / es) + e;
            float x = element(p.at, (const char *)&p.a[l][i] + e * es);
            a[row * p.k + k] = p.negate_a ? -x : x;
        }
    } else if (!read_operand(p, t, p.da, p.trans_a, 16 * quarter, 16, p.at, a, p.negate_a)) return;
    if (!read_operand(p, t, p.db, p.trans_b, 0, p.n, p.bt, b, p.negate_b)) return;
    for (int n = 0; n < p.n; ++n) for (int k = 0; k < p.k; ++k) bt[k * p.n + n] = b[n * p.k + k];
    bool is_short = p.k == 32 && p.to != TWBE_S32;
    bool is_odd = false;
    if (is_short) for (int i = 0; i < p.k * p.n; ++i) powers[i] = power_of(bt[i]), is_odd |= bt[i] - bt[i] != 0;
    for (int row = 0; row < 16; ++row) {
        float sum[256] = {};
        if (is_short) {
            if (p.scale_d) for (int n = 0; n < p.n; ++n) {
                int l = row % 8 * 4 + n % 8 / 2, i = n / 8 * 4 + row / 8 * 2 + n % 2;
                sum[n] = p.to == TWBE_F32 ? ((float *)p.d[l])[i] : twbe_f16(((uint16_t *)p.d[l])[i]);
            }
            add_short(a + row * p.k, bt, powers, p.n, p.k, sum, is_odd);
        } else for (int k = 0; k < p.k; ++k) { float x = a[row * p.k + k]; for (int n = 0; n < p.n; ++n) sum[n] += x * bt[k * p.n + n]; }
        for (int n = 0; n < p.n; ++n) {
            int l = row % 8 * 4 + n % 8 / 2, i = n / 8 * 4 + row / 8 * 2 + n % 2;
            bool more = p.scale_d && !is_short;
            if (p.to == TWBE_F32) { float &d = ((float *)p.d[l])[i]; d = (more ? d : 0.0f) + sum[n]; }
            else if (p.to == TWBE_S32) { int32_t &d = ((int32_t *)p.d[l])[i]; d = (int32_t)((p.scale_d ? (uint32_t)d : 0u) + (uint32_t)(int32_t)sum[n]); }
            else { uint16_t &d = ((uint16_t *)p.d[l])[i]; d = (uint16_t)twbe_down<5, 10, false>((more ? twbe_f16(d) : 0.0f) + sum[n]); }
        }
    }
}

void run_wgmma(Warp *w, uint32_t mask) {
    Thread *first = w->lane[first_lane(mask)];
    const Wgmma *g = (const Wgmma *)first->data;
    if (mask != ~0u) { found("divergent", first->line, -1, "wgmma needs all 32 lanes of all 4 warps"); return; }
    if (!first->fenced) found("wgmma", first->line, -1, "there is no wgmma fence before the first wgmma");
    Product *p = new Product{g->n, g->k, g->to, g->at, g->bt, g->scale_d, g->negate_a, g->negate_b, g->trans_a, g->trans_b, first->line, g->a != nullptr, g->da, g->db, {}, {}, {}};
    for (int l = 0; l < 32; ++l) {
        const Wgmma *o = given<Wgmma>(w, l);
        if (o->da != g->da || o->db != g->db || o->scale_d != g->scale_d) found("divergent", first->line, -1, "lanes of one warp give wgmma different descriptors");
        p->d[l] = o->d;
        if (o->a) memcpy(p->a[l], o->a, 16);
        ++w->lane[l]->warpgroup_steps;
    }
    if (checks()) { p->clock = first->clock; ++first->clock[first->id]; }
    if (w->index % 4 == 0) { count(p->line, WGMMA); count(p->line, WGMMA_FLOPS, 2ull * 64 * p->n * p->k); }
    first->products.back().push_back(p);
    tell(first, PRODUCT, p->at, p->from_registers, 2 * 16 * p->n * p->k);
}
const WarpOp WGMMA_OP = {"wgmma", run_wgmma};

void products_until(Thread *t, size_t newest) {
    while (t->products.size() > newest + 1) {
        for (Product *p : t->products.front()) { multiply(*p, t->mates); delete p; }
        t->products.erase(t->products.begin());
    }
}
void run_wgmma_wait(Warp *w, uint32_t mask) {
    Thread *first = w->lane[first_lane(mask)];
    count(first->line, BARRIER_WAITS);
    tell(first, PRODUCT_WAIT, (int64_t)first->product_groups - *(uint32_t *)first->data);
    products_until(first, *(uint32_t *)first->data);
    if (!checks()) return;
    for (int l = 0; l < 32; ++l) {  // what the warp's products have read, which the first lane's past stands for, has ended for each of them
        if (!(mask >> l & 1) || w->lane[l] == first) continue;
        Clock &known = w->lane[l]->clock;
        known[first->id] = std::max(known[first->id], first->clock[first->id]);
    }
    ++first->clock[first->id];
}
const WarpOp WGMMA_WAIT = {"wgmma wait", run_wgmma_wait};

// All four warps of a warp group must have issued the same wgmmas.
void check_warpgroups(Block *b) {
    for (size_t g = 0; g + 4 <= ((b->warps.size() + 3) & ~3ull); g += 4)
        for (size_t i = g; i < g + 4; ++i) {
            uint64_t own = i < b->warps.size() ? b->warps[i].lane[0]->warpgroup_steps : 0, lead = b->warps[g].lane[0]->warpgroup_steps;
            if (own != lead) { found("divergent", b->warps[g].lane[0]->line, -1, format("warp %zu issued %llu wgmmas, warp %zu of its warp group %llu", i, (unsigned long long)own, g, (unsigned long long)lead)); break; }
        }
}
// What the threads of a block are given in the end must fit into what they were launched with, or the last one waits forever.
void check_registers(Block *b) {
    uint32_t threads = (uint32_t)b->warps.size() * 32, launched = std::min(65536 / threads / 8 * 8, 256u), sum = 0; int line = 0;
    for (Warp &w : b->warps) { sum += 32 * (w.registers ? w.registers : launched); if (w.registers > launched) line = w.line; }
    if (sum > launched * threads)
        found("registers", line, -1, format("the warps of a block of %u threads ask for %u registers in all; they are launched with %u", threads, sum, launched * threads));
}
}  // namespace

extern "C" {
void twbe_registers(uint32_t n) { collective(&SYNC, ~0u, nullptr); Thread *t = me(); t->mates->registers = n; t->mates->line = t->line; }
void twbe_wgmma(void *d, const uint32_t *a, uint64_t da, uint64_t db, int n, int k, int to, int at, int bt, int scale_d, int negate_a, int negate_b, int trans_a, int trans_b) {
    Wgmma g = {d, a, da, db, n, k, to, at, bt, scale_d, negate_a, negate_b, trans_a, trans_b};
    collective(&WGMMA_OP, ~0u, &g);
}
void twbe_wgmma_fence() { me()->fenced = true; }
void twbe_wgmma_commit() { if (me()->lane == 0) { me()->products.emplace_back(); tell(me(), PRODUCT_COMMIT, me()->product_groups++); } }
void twbe_wgmma_wait(uint32_t newest) { collective(&WGMMA_WAIT, ~0u, &newest); }
}
