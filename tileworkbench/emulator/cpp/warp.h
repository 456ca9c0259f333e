// What the lanes of a warp do together: it happens when the last lane of the mask has come.
namespace {
void collective(const WarpOp *op, uint32_t mask, void *data) {
    Thread *t = me();
    Warp *w = t->mates;
    mask &= w->present;
    if (!(mask >> t->lane & 1)) { found("divergent", t->line, -1, format("%s comes to a %s whose mask %08x leaves it out", who(t).c_str(), op->name, mask)); return; }
    t->op = op; t->mask = mask; t->data = data;
    for (int l = 0; l < 32; ++l) {
        Thread *o = w->lane[l];
        if (!(mask >> l & 1) || o == t || (o->state == WAITS && o->waits == AT_WARP && o->op == op && o->mask == mask)) continue;
        suspend(AT_WARP, 0, mask);
        return;
    }
    for (int l = 0; l < 32; ++l) {
        Thread *o = w->lane[l];
        if (mask >> l & 1 && o != t && o->wait_line != t->line && o->wait_line > 0 && t->line > 0)
            found("divergent", t->line, o->wait_line, format("lanes of one warp come to one %s from two places", op->name));
    }
    op->run(w, mask);
    for (int l = 0; l < 32; ++l) if (mask >> l & 1 && w->lane[l] != t) wake(w->lane[l]);
    if (mask == w->present && (twb_watch & 1)) flush(w);
}
template <class T> T *given(Warp *w, int lane) { return (T *)w->lane[lane]->data; }
int first_lane(uint32_t mask) { return __builtin_ctz(mask); }
int line_of(Warp *w, uint32_t mask) { return w->lane[first_lane(mask)]->line; }

void run_sync(Warp *w, uint32_t mask) {
    count(line_of(w, mask), BARRIERS);
    if (!checks()) return;
    Clock all;
    for (int l = 0; l < 32; ++l) if (mask >> l & 1) publish(w->lane[l], all);
    for (int l = 0; l < 32; ++l) if (mask >> l & 1) join(w->lane[l]->clock, all);
}
const WarpOp SYNC = {"warp barrier", run_sync};

struct Shuffle { uint64_t in, out; int mode, arg, width; };  // modes: 0 from lane, 1 up, 2 down, 3 xor
void run_shuffle(Warp *w, uint32_t mask) {
    count(line_of(w, mask), SHUFFLES);
    for (int l = 0; l < 32; ++l) {
        if (!(mask >> l & 1)) continue;
        Shuffle *s = given<Shuffle>(w, l);
        int low = l & ~(s->width - 1), from = s->mode == 0 ? low | (s->arg & (s->width - 1)) : s->mode == 1 ? l - s->arg : s->mode == 2 ? l + s->arg : l ^ s->arg;
        if (from < low || from >= low + s->width) from = s->mode == 3 && from < low ? from : l;
        if (!(mask >> from & 1)) {
            found("divergent", w->lane[l]->line, -1, format("%s asks for the value of lane %d, which takes no part", who(w->lane[l]).c_str(), from));
            from = l;
        }
        s->out = given<Shuffle>(w, from)->in;
    }
}
const WarpOp SHUFFLE = {"shuffle", run_shuffle};

struct Vote { uint64_t value, out; int mode; };  // modes: 0 ballot, 1 any, 2 all, 3 match; reductions: 4 add, 5 min, 6 max, 7 and, 8 or, 9 xor; +16: signed
void run_vote(Warp *w, uint32_t mask) {
    int mode = given<Vote>(w, first_lane(mask))->mode, op = mode & 15;
    count(line_of(w, mask), VOTES);
    uint64_t ballot = 0; bool is_first = true; int64_t sum = 0;
    for (int l = 0; l < 32; ++l) {
        if (!(mask >> l & 1)) continue;
        uint64_t v = given<Vote>(w, l)->value;
        if (v) ballot |= 1ull << l;
        int64_t x = mode & 16 ? (int64_t)(int32_t)v : (int64_t)(uint32_t)v;
        sum = is_first ? x : op == 4 ? sum + x : op == 5 ? std::min(sum, x) : op == 6 ? std::max(sum, x) : op == 7 ? sum & x : op == 8 ? sum | x : sum ^ x;
        is_first = false;
    }
    for (int l = 0; l < 32; ++l) {
        if (!(mask >> l & 1)) continue;
        Vote *v = given<Vote>(w, l);
        if (op == 3) { v->out = 0; for (int o = 0; o < 32; ++o) if (mask >> o & 1 && given<Vote>(w, o)->value == v->value) v->out |= 1ull << o; }
        else v->out = op == 0 ? ballot : op == 1 ? ballot != 0 : op == 2 ? ballot == mask : (uint64_t)(uint32_t)sum;
    }
}
const WarpOp VOTE = {"vote", run_vote};

struct Matrix { uint32_t at, low, high, *r; int count, trans; bool store; };
void run_matrix(Warp *w, uint32_t mask) {
    Matrix *first = given<Matrix>(w, first_lane(mask));
    int line = line_of(w, mask);
    count(line, first->store ? MATRIX_STORES : MATRIX_LOADS);
    if (mask != ~0u) { found("divergent", line, -1, "a matrix load or store needs all 32 lanes"); return; }
    uint64_t asked[32]; uint8_t lanes[32];
    for (int l = 0; l < 8 * first->count; ++l) { asked[l] = given<Matrix>(w, l)->at; lanes[l] = (uint8_t)l; }
    record_shared(line, first->store ? TWBE_STMATRIX : TWBE_LDMATRIX, 16, first->low, first->high, asked, lanes, 8 * first->count);
    uint16_t tile[8][8];
    for (int m = 0; m < first->count; ++m) {
        uint64_t rows[8];
        for (int i = 0; i < 8; ++i) {
            Thread *t = w->lane[8 * m + i];
            Matrix *g = given<Matrix>(w, 8 * m + i);
            rows[i] = g->at;
            if (g->at % 16) found("misaligned", line, -1, format("%s gives a matrix row at shared address %u, which is not a multiple of 16", who(t).c_str(), g->at - TWBE_FIRST));
            if (g->at < g->low || g->at + 16 > g->high || g->high > TWBE_FIRST + t->home->shared_bytes) {
                found("out of bounds", line, -1, format("%s gives a matrix row at byte %lld of a shared tile of %u bytes", who(t).c_str(), (long long)g->at - g->low, g->high - g->low));
                memset(tile[i], 0, 16); rows[i] = TWBE_FIRST;
                continue;
            }
            if (checks() && !touch_plain(t, t->home, g->at, 16, g->store)) found("uninitialised", line, -1, format("%s loads a matrix row at byte %u of shared memory where nothing was written", who(t).c_str(), g->at - TWBE_FIRST));
            if (!g->store) memcpy(tile[i], t->home->memory + g->at, 16);
        }
        int fronts = most_words(rows, 8, 16);
        if (records()) add(w->lane[first_lane(mask)], w->lane[first_lane(mask)]->segment, SHARED, line, fronts);
        count(line, first->store ? SHARED_STORE_WAVEFRONTS : SHARED_LOAD_WAVEFRONTS, fronts);
        count(line, first->store ? SHARED_STORE_IDEAL : SHARED_LOAD_IDEAL);
        count(line, first->store ? SHARED_STORE_BYTES : SHARED_LOAD_BYTES, 128);
        for (int l = 0; l < 32; ++l) {
            uint32_t *r = given<Matrix>(w, l)->r + m;
            for (int e = 0; e < 2; ++e) {
                int row = first->trans ? (l % 4) * 2 + e : l / 4, col = first->trans ? l / 4 : (l % 4) * 2 + e;
                if (first->store) tile[row][col] = (uint16_t)(*r >> (16 * e));
                else *r = e ? (*r & 0xffffu) | (uint32_t)tile[row][col] << 16 : (*r & 0xffff0000u) | tile[row][col];
            }
        }
        if (first->store) for (int i = 0; i < 8; ++i) {
            Matrix *g = given<Matrix>(w, 8 * m + i);
            if (g->at >= g->low && g->at + 16 <= g->high && g->high <= TWBE_FIRST + w->home->shared_bytes) memcpy(w->home->memory + g->at, tile[i], 16);
        }
    }
}
const WarpOp MATRIX = {"matrix load or store", run_matrix};

float element(int type, const void *p) {
    switch (type) {
        case TWBE_F16: { uint16_t h; memcpy(&h, p, 2); return twbe_f16(h); }
        case TWBE_BF16: { uint16_t h; memcpy(&h, p, 2); return twbe_bf16(h); }
        case TWBE_TF32: { uint32_t u; memcpy(&u, p, 4); return twbe_float(u & 0xffffe000u); }
        case TWBE_E4M3: return twbe_e4m3(*(const uint8_t *)p);
        case TWBE_E5M2: return twbe_e5m2(*(const uint8_t *)p);
        case TWBE_S8: return (float)*(const int8_t *)p;
        default: return (float)*(const uint8_t *)p;
    }
}
int size_of(int type) { return type == TWBE_F16 || type == TWBE_BF16 ? 2 : type == TWBE_F32 || type == TWBE_TF32 || type == TWBE_S32 ? 4 : type == TWBE_F64 ? 8 : 1; }

// d = a * b + d for an m x 8 tile. Lane (g, t) = (l / 4, l % 4) holds rows g, g + 8 and, of each 16 bytes of k, bytes 4t..4t+3.
struct Mma { void *d; const void *a, *b; int m, k, to, at, bt; };
void run_mma(Warp *w, uint32_t mask) {
    Mma *f = given<Mma>(w, first_lane(mask));
    int line = line_of(w, mask), m = f->m, k = f->k;
    count(line, MMA); count(line, MMA_FLOPS, 2ull * m * 8 * k);
    if (records()) add(w->lane[first_lane(mask)], w->lane[first_lane(mask)]->segment, MULTIPLY, line, 2 * m * 8 * k, 0, f->at);
    if (mask != ~0u) { found("divergent", line, -1, "a matrix product needs all 32 lanes"); return; }
    if (f->to == TWBE_F64) {
        double a[8][4], b[4][8];
        for (int l = 0; l < 32; ++l) { a[l / 4][l % 4] = *(const double *)given<Mma>(w, l)->a; b[l % 4][l / 4] = *(const double *)given<Mma>(w, l)->b; }
        for (int l = 0; l < 32; ++l) for (int e = 0; e < 2; ++e) {
            double &d = ((double *)given<Mma>(w, l)->d)[e];
            for (int i = 0; i < 4; ++i) d = __builtin_fma(a[l / 4][i], b[i][(l % 4) * 2 + e], d);
        }
        return;
    }
    static float a[16][32], b[8][32];
    int es = size_of(f->at), per = 4 / es, halves = m / 8, depth = k * es / 16;
    for (int l = 0; l < 32; ++l) {
        Mma *o = given<Mma>(w, l);
        int g = l / 4, t = l % 4;
        for (int q = 0; q < depth; ++q) for (int e = 0; e < per; ++e) {
            int at = q * 16 / es + t * per + e;
            for (int h = 0; h < halves; ++h) a[g + 8 * h][at] = element(f->at, (const char *)o->a + 4 * (q * halves + h) + e * es);
            b[g][at] = element(f->bt, (const char *)o->b + 4 * q + e * es);
        }
    }
    for (int l = 0; l < 32; ++l) for (int h = 0; h < halves; ++h) for (int e = 0; e < 2; ++e) {
        void *d = given<Mma>(w, l)->d;
        const float *x = a[l / 4 + 8 * h], *y = b[(l % 4) * 2 + e];
        if (f->to == TWBE_S32) {
            int32_t sum = ((int32_t *)d)[2 * h + e];
            for (int i = 0; i < k; ++i) sum = (int32_t)((uint32_t)sum + (uint32_t)((int)x[i] * (int)y[i]));
            ((int32_t *)d)[2 * h + e] = sum;
        } else if (f->to == TWBE_F16) {
            uint16_t *at = (uint16_t *)d + 2 * h + e;
            float sum = twbe_f16(*at);
            for (int i = 0; i < k; ++i) sum += x[i] * y[i];
            *at = (uint16_t)twbe_down<5, 10, false>(sum);
        } else {
            float sum = ((float *)d)[2 * h + e];
            for (int i = 0; i < k; ++i) sum += x[i] * y[i];
            ((float *)d)[2 * h + e] = sum;
        }
    }
}
const WarpOp MMA_OP = {"matrix product", run_mma};
}  // namespace

extern "C" {
void twbe_sync_warp(uint32_t mask) { collective(&SYNC, mask, nullptr); }
uint64_t twbe_shuffle(int mode, uint64_t value, int arg, int width, uint32_t mask) { Shuffle s = {value, value, mode, arg, width}; collective(&SHUFFLE, mask, &s); return s.out; }
uint64_t twbe_vote(int mode, uint64_t value, uint32_t mask) { Vote v = {value, 0, mode}; collective(&VOTE, mask, &v); return v.out; }
void twbe_matrix(uint32_t at, uint32_t low, uint32_t high, uint32_t *r, int n, int trans, int store) { Matrix m = {at, low, high, r, n, trans, store != 0}; collective(&MATRIX, ~0u, &m); }
void twbe_mma(void *d, const void *a, const void *b, int m, int k, int to, int at, int bt) { Mma x = {d, a, b, m, k, to, at, bt}; collective(&MMA_OP, ~0u, &x); }
}
