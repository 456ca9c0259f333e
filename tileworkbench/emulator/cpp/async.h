// What runs beside the threads: cp.async, mbarriers, bulk copies through tensor maps. All of it happens as late as the program allows.
namespace {
struct Map {  // what the 128 bytes of a tensor map hold here
    uint64_t base; twb_buffer *buffer;
    uint64_t dims[5], strides[4];  // strides in bytes, of dims 1..4
    uint16_t box[5];
    uint8_t element_bytes, rank, swizzle, fill, mark, type;
};
static_assert(sizeof(Map) <= 128, "a tensor map has 128 bytes");
enum { MARK = 0x54 };

struct Tma {
    Map map; int at[5]; uint32_t shared, high, bar, ranks, from_rank, bytes, source; int line, mode;  // mode: 0 load, 1 store, 2 add, 3 min, 4 max, 5 a thread's cp.async copies, 6 from shared memory at `source`
    char *global; twb_buffer *buffer;  // without a map: `bytes` bytes here
    Thread *thread; Clock clock; std::vector<Copy> copies; size_t told = 0;
};

// ---- cp.async
void copy_now(Thread *t, const Copy &c) {
    memset((char *)c.to + c.valid, 0, c.bytes - c.valid);
    memcpy(c.to, c.from, c.valid);
    if (checks()) touch_shared(Actor{t->id, t->clock[t->id], t->clock, t, c.line, false}, t->home, c.at, c.bytes, true, -1);
}
void copies_until(Thread *t, size_t newest) {
    while (t->copies.size() > newest + 1) {
        for (const Copy &c : t->copies.front()) copy_now(t, c);
        t->copies.erase(t->copies.begin());
    }
}

// ---- mbarriers
// A peer uses a barrier, or memory: it must be initialised by then, and the block must be there. What runs beside the threads has a time of its own.
void require_made(Block *b, const MBarrier &m, const Clock &clock, Thread *t, int line, bool copies) {
    if (!checks() || b == t->home) return;
    const char *what = copies ? "copies into" : "arrives in";
    if (m.maker >= clock.size() || clock[m.maker] < m.made)
        found("cluster", line, m.line, format("%s %s block %u of its cluster, where the mbarrier may not be initialised yet", who(t).c_str(), what, b->rank));
    reaches(b, copies ? run.threads : t->id, copies ? run.async_when : t->clock[t->id], t, line, what);
}
void require_alive(Block *b, Thread *t, int line) {
    if (!b->alive && b != t->home) found("cluster", line, -1, format("%s copies into block %u of its cluster, which has ended", who(t).c_str(), b->rank));
}
MBarrier *barrier_at(Block *b, uint32_t at, const char *what) {
    auto found_at = b->mbarriers.find(at);
    if (found_at != b->mbarriers.end()) return &found_at->second;
    found("mbarrier", me()->line, -1, format("%s %s at byte %lld, where no mbarrier was initialised", who(me()).c_str(), what, (long long)at - TWBE_FIRST));
    return nullptr;
}
void settle(Block *b, uint32_t at, MBarrier &m) {
    if (m.pending || m.tx) return;
    m.pending = m.count; ++m.phase;
    m.done = m.clock;
    for (Thread &t : b->threads) if (t.state == WAITS && (t.waits == AT_MBARRIER || t.waits == AT_POLL) && t.object == at) {
        t.answer = true;
        if (checks()) join(t.clock, m.done);  // what this phase says; later ones may end before the thread runs
        wake(&t);
    }
}
Block *block_of(uint32_t rank, uint32_t bar) {
    if (rank == TWBE_OWN) return me()->home;
    if (rank < run.cluster.size()) {
        if (!run.cluster[rank]->alive) found("cluster", me()->line, -1, format("%s arrives in block %u of its cluster, which has ended", who(me()).c_str(), rank));
        else if (auto at = run.cluster[rank]->mbarriers.find(bar); at != run.cluster[rank]->mbarriers.end()) require_made(run.cluster[rank], at->second, me()->clock, me(), me()->line, false);
        return run.cluster[rank];
    }
    found("out of bounds", me()->line, -1, format("%s asks for block %u of a cluster of %zu", who(me()).c_str(), rank, run.cluster.size()));
    return me()->home;
}
void arrive_at(uint32_t at, uint32_t rank, uint32_t n) {
    Block *b = block_of(rank, at);
    MBarrier *m = barrier_at(b, at, "arrives");
    if (!m) return;
    count(me()->line, BARRIERS);
    publish(me(), m->clock);
    tell(me(), ARRIVE, at, (int64_t)m->phase, n, 0, 1ll << b->rank);
    if (n > m->pending) { found("mbarrier", me()->line, m->line, format("%s arrives at an mbarrier of %u that needs no arrival in this phase", who(me()).c_str(), m->count)); return; }
    m->pending -= n;
    settle(b, at, *m);
}
bool passed(const MBarrier &m, uint32_t parity) { return (m.phase & 1) != parity; }

// ---- bulk copies
bool sound(const Tma &x) {
    const Map &m = x.map;
    const char *why = nullptr;
    uint64_t last = m.base + (m.dims[0] - 1) * m.element_bytes;
    for (int i = 1; i < m.rank; ++i) last += (m.dims[i] - 1) * m.strides[i - 1];
    uint32_t inner = m.box[0] * m.element_bytes, span = m.swizzle ? 16u << m.swizzle : ~0u;
    if (m.mark != MARK) why = "these 128 bytes are no tensor map";
    else if (!m.buffer || (char *)m.base < m.buffer->base || (char *)(last + m.element_bytes) > m.buffer->end) why = "the tensor map describes more than its array";
    else if (inner % 16) why = "the inner box is not a multiple of 16 bytes";
    else if (inner > span) why = "the inner box is wider than the swizzle";
    else if (x.shared % 128) why = "the shared address is not a multiple of 128";
    if (why) found("tensor map", x.line, -1, format("%s: %s", who(x.thread).c_str(), why));
    return !why;
}
uint32_t swizzled(uint32_t at, int mode) { return at ^ (mode == 3 ? at >> 3 & 0x70 : mode == 2 ? at >> 3 & 0x30 : mode == 1 ? at >> 3 & 0x10 : 0); }

void reduce(char *to, const char *from, int type, int mode) {
    auto pick = [mode](auto a, auto b) { return mode == 2 ? (decltype(a))(a + b) : mode == 3 ? std::min(a, b) : std::max(a, b); };
    if (type == TWBE_F32) { float a, b; memcpy(&a, to, 4); memcpy(&b, from, 4); a = pick(a, b); memcpy(to, &a, 4); }
    else if (type == TWBE_F16 || type == TWBE_BF16) {
        float a = pick(element(type, to), element(type, from));
        uint16_t h = (uint16_t)(type == TWBE_F16 ? twbe_down<5, 10, false>(a) : twbe_down<8, 7, false>(a));
        memcpy(to, &h, 2);
    } else { int32_t a, b; memcpy(&a, to, 4); memcpy(&b, from, 4); a = mode == 2 ? (int32_t)((uint32_t)a + (uint32_t)b) : pick(a, b); memcpy(to, &a, 4); }
}

void move_piece(const Tma &x, Block *b, uint32_t at, char *global, twb_buffer *buffer, uint32_t bytes, bool inside, int swizzle, int fill) {
    Thread *t = x.thread;
    bool load = x.mode == 0;
    if (at + bytes > TWBE_FIRST + b->shared_bytes || at < TWBE_FIRST || at + bytes > x.high) {
        found("out of bounds", x.line, -1, format("%s: a bulk copy %s byte %u of a shared tile that ends at %u", who(t).c_str(), load ? "writes" : "reads", at - TWBE_FIRST, x.high - TWBE_FIRST));
        return;
    }
    if (checks()) {
        Actor actor = {load ? run.threads : t->id, load ? run.async_when : t->clock[t->id], x.clock, t, x.line, true};
        if (!touch_shared(actor, b, at, bytes, load, load ? swizzle : -1) && inside)
            found("uninitialised", x.line, -1, format("%s: a bulk copy reads byte %u of shared memory where nothing was written", who(t).c_str(), at - TWBE_FIRST));
        if (inside && buffer->written) {
            uint8_t *w = buffer->written + (global - buffer->base);
            if (load && memchr(w, 0, bytes)) found("uninitialised", x.line, -1, format("%s: a bulk copy reads byte %lld of an array where nothing was written", who(t).c_str(), (long long)(global - buffer->base)));
            if (!load) memset(w, 1, bytes);
        }
    }
    if (inside && (twb_watch & 1)) sector_seen(x.line, global_number(global, buffer) / 32, !load);
    if (!inside) { if (load) memset(b->memory + at, fill ? 0xff : 0, bytes); return; }
    if (!load && buffer->readonly) { found("read only", x.line, -1, format("%s: a bulk store writes an array that may not be written", who(t).c_str())); return; }
    if (load) memcpy(b->memory + at, global, bytes);
    else if (x.mode == 1) memcpy(global, b->memory + at, bytes);
    else for (uint32_t i = 0; i < bytes; i += x.map.element_bytes) reduce(global + i, b->memory + at + i, x.map.type, x.mode);
}

// Copies of a thread that end in an arrival.
void perform_copies(Tma &x) {
    Block *b = x.thread->home;
    for (const Copy &c : x.copies) {
        memset((char *)c.to + c.valid, 0, c.bytes - c.valid);
        memcpy(c.to, c.from, c.valid);
        if (checks()) touch_shared(Actor{run.threads, run.async_when, x.clock, x.thread, c.line, false}, b, c.at, c.bytes, true, -1);
    }
    auto bar = b->mbarriers.find(x.bar);
    if (bar == b->mbarriers.end() || !bar->second.pending) { found("mbarrier", x.line, -1, format("%s: its copies arrive at byte %lld, where no arrival is due", who(x.thread).c_str(), (long long)x.bar - TWBE_FIRST)); return; }
    if (checks()) {
        join(bar->second.clock, x.clock);
        bar->second.clock[run.threads] = run.async_when;
    }
    told_phase(x.told, bar->second.phase);
    --bar->second.pending;
    settle(b, x.bar, bar->second);
}

// The bytes of a copy count at the barrier of the block that they came to.
void bytes_came(const Tma &x, Block *b) {
    auto bar = b->mbarriers.find(x.bar);
    if (bar == b->mbarriers.end()) { found("mbarrier", x.line, -1, format("%s: a bulk load ends at byte %lld, where no mbarrier was initialised", who(x.thread).c_str(), (long long)x.bar - TWBE_FIRST)); return; }
    require_made(b, bar->second, x.clock, x.thread, x.line, true);
    if (checks()) {
        join(bar->second.clock, x.clock);
        if (bar->second.clock.size() <= run.threads) bar->second.clock.resize(run.threads + 1);
        bar->second.clock[run.threads] = run.async_when;
    }
    told_phase(x.told, bar->second.phase);
    bar->second.tx -= x.bytes;
    settle(b, x.bar, bar->second);
}

// From this block's shared memory to another's.
void perform_push(Tma &x) {
    Thread *t = x.thread;
    Block *from = t->home, *to = run.cluster[__builtin_ctz(x.ranks)];
    require_alive(to, t, x.line);
    if (!from->alive && to != from) found("cluster", x.line, -1, format("%s copies out of its block, which has ended", who(t).c_str()));
    if (checks()) {
        Actor actor = {run.threads, run.async_when, x.clock, t, x.line, true};
        if (!touch_shared(actor, from, x.source, x.bytes, false, -1))
            found("uninitialised", x.line, -1, format("%s: a bulk copy reads byte %u of shared memory where nothing was written", who(t).c_str(), x.source - TWBE_FIRST));
        touch_shared(actor, to, x.shared, x.bytes, true, -1);
        if (to != from) from->reached[run.threads] = {run.async_when, x.line, t, "copies out of"};  // its own block has to stay, too
    }
    memmove(to->memory + x.shared, from->memory + x.source, x.bytes);
    bytes_came(x, to);
}

void perform(Tma &x) {
    const Map &m = x.map;
    if (checks() && (x.mode == 0 || x.mode >= 5)) ++run.async_when;
    if (x.mode == 5) { perform_copies(x); return; }
    if (x.mode == 6) { perform_push(x); return; }
    for (uint32_t rank = 0; rank < run.cluster.size(); ++rank) {
        if (!(x.ranks >> rank & 1)) continue;
        Block *b = run.cluster[rank];
        if (!x.mode) require_alive(b, x.thread, x.line);
        if (!m.rank) {
            bool inside = x.buffer && x.global >= x.buffer->base && x.global + x.bytes <= x.buffer->end;
            if (!inside) found("out of bounds", x.line, -1, format("%s: a bulk copy leaves its array", who(x.thread).c_str()));
            else for (uint32_t i = 0; i < x.bytes; i += 16) move_piece(x, b, x.shared + i, x.global + i, x.buffer, 16, true, -1, 0);
        } else {
            uint32_t rows = 1, inner = m.box[0];
            for (int i = 1; i < m.rank; ++i) rows *= m.box[i];
            for (uint32_t r = 0; r < rows; ++r) {
                bool inside = true; char *row = (char *)m.base; uint32_t rest = r;
                for (int i = 1; i < m.rank; ++i) {
                    int64_t c = (int64_t)x.at[i] + rest % m.box[i]; rest /= m.box[i];
                    inside = inside && c >= 0 && (uint64_t)c < m.dims[i];
                    row += c * (int64_t)m.strides[i - 1];
                }
                for (uint32_t e = 0; e < inner; ++e) {
                    int64_t c = (int64_t)x.at[0] + e;
                    bool in = inside && c >= 0 && (uint64_t)c < m.dims[0];
                    if (!in && x.mode) continue;
                    move_piece(x, b, swizzled(x.shared + (r * inner + e) * m.element_bytes, m.swizzle), row + c * m.element_bytes, m.buffer, m.element_bytes, in, m.swizzle, m.fill);
                }
            }
        }
        if (!x.mode) bytes_came(x, b);
    }
}

// The oldest load that somebody waits for. False: there is none.
bool run_one_tma() {
    for (size_t i = 0; i < run.waiting_tma.size(); ++i) {
        Tma *x = run.waiting_tma[i];
        bool wanted = false;
        for (uint32_t rank = 0; rank < run.cluster.size() && !wanted; ++rank) {
            if (!(x->ranks >> rank & 1)) continue;
            for (Thread &t : run.cluster[rank]->threads) wanted |= t.state == WAITS && (t.waits == AT_MBARRIER || t.waits == AT_POLL) && t.object == x->bar;
        }
        if (!wanted) continue;
        run.waiting_tma.erase(run.waiting_tma.begin() + i);
        twb_me = x->thread;
        perform(*x);
        delete x;
        return true;
    }
    return false;
}
void stores_until(Thread *t, size_t newest) {
    while (t->bulk.size() > newest + 1) {
        for (Tma *x : t->bulk.front()) { perform(*x); delete x; }
        t->bulk.erase(t->bulk.begin());
    }
}
void products_until(Thread *t, size_t newest);

void finish_thread(Thread *t) {
    tell(t, END);
    copies_until(t, 0);
    for (const Copy &c : t->copies[0]) copy_now(t, c);
    bool left = t->bulk.size() > 1 || !t->bulk[0].empty();
    if (left && checks()) found("never waited", t->bulk[0].empty() ? t->line : t->bulk[0][0]->line, -1, format("%s ends while its bulk stores may still read shared memory", who(t).c_str()));
    t->bulk.emplace_back();
    stores_until(t, 0);
    if ((t->products.size() > 1 || !t->products[0].empty()) && checks()) found("never waited", t->line, -1, format("%s ends and has not waited for its wgmma", who(t).c_str()));
}
Tma *new_tma(uint32_t at, uint32_t high, int mode) {
    Tma *x = new Tma();
    Thread *t = me();
    x->shared = at; x->high = high; x->thread = t; x->line = t->line; x->mode = mode; x->from_rank = t->home->rank; x->ranks = 1u << t->home->rank;
    if (checks()) { x->clock = t->clock; ++t->clock[t->id]; }
    return x;
}
}  // namespace

extern "C" {
void twbe_cp_async(uint32_t at, void *to, void *from, uint32_t bytes, uint32_t valid) {
    if (records()) add_copy(me(), at, valid);
    me()->copies.back().push_back({to, from, at, bytes, valid, me()->line});
}
void twbe_cp_async_commit() {
    me()->copies.emplace_back();
    tell(me(), COPY_COMMIT, me()->copy_groups++);
}
void twbe_cp_async_wait(uint32_t newest) {
    tell(me(), COPY_WAIT, (int64_t)me()->copy_groups - newest);
    copies_until(me(), newest);
}
void twbe_cp_async_wait_all() {
    twbe_cp_async_commit();
    tell(me(), COPY_WAIT, me()->copy_groups);
    copies_until(me(), 0);
}

void twbe_cp_async_arrive(uint32_t bar) {
    Tma *x = new_tma(0, 0, 5);
    for (auto &group : me()->copies) x->copies.insert(x->copies.end(), group.begin(), group.end());
    me()->copies.assign(1, {});
    x->bar = bar;
    x->told = tell(me(), COPY_ARRIVE, bar, -1, 0, me()->copy_groups++);
    count(x->line, BARRIERS);
    run.waiting_tma.push_back(x);
}
void twbe_mbarrier_init(uint32_t at, uint32_t n) {
    Thread *t = me();
    if (at % 8 || at < TWBE_FIRST || at + 8 > TWBE_FIRST + t->home->shared_bytes) { found("mbarrier", t->line, -1, format("%s puts an mbarrier at byte %lld", who(t).c_str(), (long long)at - TWBE_FIRST)); return; }
    MBarrier m = {}; m.count = m.pending = n; m.line = t->line;
    if (checks()) { m.maker = t->id; m.made = t->clock[t->id]; }
    t->home->mbarriers[at] = m;
    memset(t->home->memory + at, 0, 8);
}
void twbe_mbarrier_invalidate(uint32_t at) { me()->home->mbarriers.erase(at); }
void twbe_mbarrier_arrive(uint32_t at, uint32_t rank, uint32_t n) { arrive_at(at, rank, n); }
void twbe_mbarrier_expect(uint32_t at, uint32_t rank, uint32_t bytes) {
    Block *b = block_of(rank, at);
    if (MBarrier *m = barrier_at(b, at, "expects bytes")) { m->tx += bytes; if (m->tx >= 1 << 20) found("mbarrier", me()->line, m->line, "an mbarrier counts less than 1048576 bytes"); }
}
int twbe_mbarrier_try(uint32_t at, uint32_t parity, int waits) {
    Thread *t = me();
    count(t->line, BARRIER_WAITS);
    MBarrier *m = barrier_at(t->home, at, "waits");
    if (!m) return 1;
    int64_t phase = (int64_t)m->phase - passed(*m, parity & 1);  // the one that is waited for; -1: of before the first
    if (!passed(*m, parity & 1)) {
        if (!waits) return 0;
        t->answer = false;
        suspend(waits == 1 ? AT_POLL : AT_MBARRIER, at, parity & 1);
        m = barrier_at(t->home, at, "waits");
        if (!t->answer || !m) return 0;
        run.idle_polls = 0;
        tell(t, WAIT, at, phase);
        return 1;
    }
    run.idle_polls = 0;
    if (checks()) join(t->clock, m->done);
    tell(t, WAIT, at, phase);
    return 1;
}
void twbe_proxy_fence() { ++me()->fences; }

void twbe_tma_load(uint32_t at, uint32_t high, const twb_tensor_map *map, uint32_t bar, const int *c, int rank, uint32_t ranks) {
    Tma *x = new_tma(at, high, 0);
    memcpy(&x->map, map, sizeof(Map)); memcpy(x->at, c, sizeof(int) * rank);
    x->bar = bar;
    if (ranks) x->ranks = ranks;
    if (!sound(*x)) { delete x; return; }
    if (x->map.rank != rank) { found("tensor map", x->line, -1, format("a copy of %d dimensions uses a tensor map of %d", rank, x->map.rank)); delete x; return; }
    x->bytes = x->map.element_bytes;
    for (int i = 0; i < rank; ++i) x->bytes *= x->map.box[i];
    count(x->line, TMA_LOADS); count(x->line, TMA_LOAD_BYTES, x->bytes);
    x->told = tell(x->thread, LOAD, bar, -1, x->bytes, at, x->ranks, (int64_t)(uintptr_t)x->map.buffer);
    run.waiting_tma.push_back(x);
}
void twbe_tma_store(const twb_tensor_map *map, uint32_t at, uint32_t high, const int *c, int rank, int mode) {
    Tma *x = new_tma(at, high, mode);
    memcpy(&x->map, map, sizeof(Map)); memcpy(x->at, c, sizeof(int) * rank);
    if (!sound(*x)) { delete x; return; }
    if (x->map.rank != rank) { found("tensor map", x->line, -1, format("a copy of %d dimensions uses a tensor map of %d", rank, x->map.rank)); delete x; return; }
    for (int i = 0; i < rank; ++i) if (c[i] < 0) {  // an illegal instruction on an H200, where loads may begin anywhere (2026-11-30)
        found("tensor map", x->line, -1, format("%s: a tensor store begins at %d of dimension %d; only loads may begin before the tensor", who(me()).c_str(), c[i], i));
        delete x; return;
    }
    x->bytes = x->map.element_bytes;
    for (int i = 0; i < rank; ++i) x->bytes *= x->map.box[i];
    count(x->line, TMA_STORES); count(x->line, TMA_STORE_BYTES, x->bytes);
    tell(x->thread, STORE, x->thread->store_groups, 0, x->bytes, at);
    me()->bulk.back().push_back(x);
}
void twbe_bulk(uint32_t at, uint32_t high, void *global, twb_buffer *b, uint32_t bytes, uint32_t bar, int mode) {
    Tma *x = new_tma(at, high, mode);
    x->map.rank = 0; x->global = (char *)global; x->buffer = b; x->bytes = bytes; x->bar = bar; x->map.element_bytes = 16;
    if (bytes % 16 || at % 16 || (uintptr_t)global % 16) { found("misaligned", x->line, -1, format("%s: a bulk copy of %u bytes needs addresses and size that are multiples of 16", who(me()).c_str(), bytes)); delete x; return; }
    count(x->line, mode ? TMA_STORES : TMA_LOADS); count(x->line, mode ? TMA_STORE_BYTES : TMA_LOAD_BYTES, bytes);
    if (mode) tell(x->thread, STORE, x->thread->store_groups, 0, bytes, at);
    else x->told = tell(x->thread, LOAD, bar, -1, bytes, at, x->ranks, (int64_t)(uintptr_t)b);
    if (mode) me()->bulk.back().push_back(x); else run.waiting_tma.push_back(x);
}
void twbe_push(uint32_t at, uint32_t high, uint32_t from, uint32_t from_high, uint32_t bytes, uint32_t bar, uint32_t rank) {
    Tma *x = new_tma(at, high, 6);
    x->source = from; x->bytes = bytes; x->bar = bar; x->ranks = 1u << rank;
    const char *why = nullptr;
    if (bytes % 16 || at % 16 || from % 16) why = "needs addresses and size that are multiples of 16";
    else if (at + bytes > high || from + bytes > from_high || std::max(at, from) + bytes > TWBE_FIRST + me()->home->shared_bytes) why = "leaves its tile";
    else if (rank >= run.cluster.size()) why = "names a block that its cluster does not have";
    if (why) { found(bytes % 16 || at % 16 || from % 16 ? "misaligned" : "out of bounds", x->line, -1, format("%s: a copy of %u bytes to block %u %s", who(me()).c_str(), bytes, rank, why)); delete x; return; }
    x->told = tell(x->thread, LOAD, bar, -1, bytes, at, x->ranks);
    run.waiting_tma.push_back(x);
}
void twbe_bulk_commit() {
    me()->bulk.emplace_back();
    tell(me(), STORE_COMMIT, me()->store_groups++);
}
void twbe_bulk_wait(uint32_t newest) {
    tell(me(), STORE_WAIT, (int64_t)me()->store_groups - newest);
    stores_until(me(), newest);
}
}
