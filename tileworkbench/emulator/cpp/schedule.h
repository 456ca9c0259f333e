// Threads run in order until they wait. When nobody can run, asynchronous copies that somebody waits for are done; then it is a fault.
namespace {
const char *wait_name(const Thread *t) {
    switch (t->waits) {
        case AT_BARRIER: return "barrier";
        case AT_WARP: return t->op->name;
        case AT_MBARRIER: case AT_POLL: return "mbarrier";
        case AT_CLUSTER: return "cluster barrier";
        case AT_SPIN: return "a value in memory that does not change";
        default: return "log";
    }
}

uint32_t threads_alive() {
    uint32_t left = 0;
    for (Block *b : run.cluster) left += b->alive;
    return left;
}

std::string describe_wait(const Thread *t) {
    if (t->waits == AT_BARRIER) {
        Barrier &b = t->home->barriers[t->object];
        return format("barrier %u (%u of %u threads came)", t->object, b.arrived, b.expected);
    }
    if (t->waits == AT_MBARRIER || t->waits == AT_POLL) {
        auto at = t->home->mbarriers.find(t->object);
        if (at == t->home->mbarriers.end()) return format("mbarrier at byte %u, which was never initialised", t->object - TWBE_FIRST);
        const MBarrier &m = at->second;
        return format("mbarrier at byte %u for parity %u (phase %llu has parity %u, %u of %u arrivals missing, %lld bytes missing)", t->object - TWBE_FIRST, t->detail,
                      (unsigned long long)m.phase, (unsigned)(m.phase & 1), m.pending, m.count, (long long)m.tx);
    }
    if (t->waits == AT_CLUSTER) return format("cluster barrier (%u of %u threads came)", run.cluster_barrier.arrived, threads_alive());
    return wait_name(t);
}

std::string lanes_name(uint32_t mask, uint32_t present) {
    if (mask == present) return "all lanes";
    int low = __builtin_ctz(mask), high = 31 - __builtin_clz(mask);
    if (low == high) return format("lane %d", low);
    bool in_a_row = __builtin_popcount(mask) == high - low + 1;
    return in_a_row ? format("lanes %d-%d", low, high) : format("lanes of mask %08x", mask);
}

// Nobody can go on: say what each warp waits for.
void stuck() {
    std::string text; const char *kind = "deadlock"; int line = 0, other = -1, told = 0;
    for (Block *b : run.cluster)
        for (Warp &w : b->warps) {
            std::vector<std::pair<std::string, uint32_t>> seen;  // what lanes do, and which ones
            bool collective = false;
            for (int l = 0; l < 32; ++l) {
                Thread *t = w.lane[l];
                if (!t) continue;
                bool is_done = t->state == DONE;
                std::string what = is_done ? "ended" : "wait at " + describe_wait(t) + (t->wait_line > 0 ? format(" @%d;", t->wait_line) : "");
                auto at = std::find_if(seen.begin(), seen.end(), [&](auto &s) { return s.first == what; });
                if (at == seen.end()) seen.push_back({what, 1u << l}); else at->second |= 1u << l;
                collective |= !is_done && (t->waits == AT_WARP || t->waits == AT_BARRIER);
                if (is_done) continue;
                if (line <= 0) line = t->wait_line; else if (t->wait_line != line && other < 0) other = t->wait_line;
            }
            if (seen.size() > 1 && collective) kind = "divergent";
            if ((seen.size() == 1 && seen[0].first == "ended") || told++ >= 16) continue;
            text += "\n  " + block_name(b) + format(" warp %u:", w.index);
            for (auto &s : seen) text += " " + lanes_name(s.second, w.present) + " " + s.first + (s.first.back() == ';' ? "" : ";");
        }
    bool ended = false, at_barrier = false;
    for (Block *b : run.cluster) for (Thread &t : b->threads) { ended |= t.state == DONE; at_barrier |= t.state == WAITS && t.waits == AT_BARRIER && t.object == 0; }
    if (ended && at_barrier) kind = "divergent";
    found(kind, line, other, std::string(strcmp(kind, "divergent") ? "no thread can go on:" : "threads that must come together did not:") + text);
    run.stop = true;
}

bool wake_kind(WaitKind kind) {
    bool any = false;
    for (Block *b : run.cluster) for (Thread &t : b->threads) if (t.state == WAITS && t.waits == kind) {
        if (kind == AT_POLL) t.answer = false;
        wake(&t); t.polled = kind == AT_POLL || kind == AT_SPIN; any = true;
    }
    return any;
}

void run_cluster() {
    while (!run.stop) {
        if (!run.ready.empty()) {
            Thread *t = run.ready.front(); run.ready.pop_front();
            t->state = READY; t->waits = NOTHING;
            if (!t->polled) run.idle_polls = 0;
            t->polled = false;
            twb_me = t;
            twbe_switch(&run.main_sp, t->sp);
            continue;
        }
        if (!threads_alive()) break;
        bool full = false;
        for (Block *b : run.cluster) for (Thread &t : b->threads) full |= t.state == WAITS && t.waits == AT_LOG;
        if (full) {
            for (Block *b : run.cluster) for (Warp &w : b->warps) flush(&w);
            wake_kind(AT_LOG);
            continue;
        }
        if (run_one_tma()) { run.idle_polls = 0; continue; }
        if (run.idle_polls++ < 10000) {  // a thread that looks again may go on by itself
            bool polls = wake_kind(AT_POLL), spins = wake_kind(AT_SPIN);
            if (polls || spins) continue;
        }
        stuck();
    }
    run.ready.clear();
}
}  // namespace

// ---- barriers of a block
namespace {
void open_barrier(Barrier &b) {
    std::vector<Thread *> waiting; waiting.swap(b.waiting);
    for (Thread *t : waiting) { if (checks()) join(t->clock, b.clock); wake(t); }
    Warp *last = nullptr;
    for (Thread *t : waiting) if (t->mates != last) { last = t->mates; flush(last); }
    b.arrived = 0; b.expected = 0; b.clock.clear();
}

void arrive(uint32_t id, uint32_t expected, bool waits) {
    Thread *t = me();
    if (id >= 16) { found("barrier", t->line, -1, format("%s uses barrier %u; a block has 16", who(t).c_str(), id)); return; }
    if (expected % 32 && expected != t->home->threads.size()) found("barrier", t->line, -1, format("barrier %u counts %u threads, which is not a multiple of 32", id, expected));
    Barrier &b = t->home->barriers[id];
    if (t->lane == 0) { count(t->line, BARRIERS); if (waits) count(t->line, BARRIER_WAITS); }
    if (b.expected && b.expected != expected) found("barrier", t->line, b.line, format("barrier %u is used with %u and with %u threads", id, b.expected, expected));
    if (b.arrived && b.line != t->line && id == 0 && b.line > 0 && t->line > 0)
        found("divergent", t->line, b.line, format("%s comes to __syncthreads here while other threads of the block wait in another one", who(t).c_str()));
    tell(t, BAR, id, expected, waits);
    if (!b.arrived) b.line = t->line;
    b.expected = expected; ++b.arrived;
    publish(t, b.clock);
    if (waits) b.waiting.push_back(t);
    bool last = b.arrived >= expected;
    if (last) open_barrier(b);
    if (waits) suspend(AT_BARRIER, id, expected);
}
}  // namespace

// A thread that saw the same value at the same place as before lets others run first: it may wait for one of them.
extern "C" void twbe_seen(const void *at, uint64_t value) {
    Thread *t = me();
    bool again = t->seen_at == at && t->seen == value;
    t->seen_at = at; t->seen = value;
    if (again) suspend(AT_SPIN, 0, 0);
}
extern "C" void twbe_sync() { arrive(0, (uint32_t)me()->home->threads.size(), true); }
extern "C" void twbe_bar(uint32_t id, uint32_t threads, int waits) { arrive(id, threads, waits); }

// A thread that has ended counts as one that arrived.
namespace {
void open_cluster_barrier() {
    uint32_t left = threads_alive();
    Barrier &b = run.cluster_barrier;
    if (b.arrived < left || !left) return;
    b.arrived = 0; ++run.cluster_phase; run.cluster_done.swap(b.clock); b.clock.clear();
    std::vector<Thread *> waiting; waiting.swap(b.waiting);
    for (Thread *t : waiting) { if (checks()) join(t->clock, run.cluster_done); wake(t); }
}
}  // namespace
extern "C" void twbe_cluster_arrive(int shows) {
    Thread *t = me();
    if (t->cluster_phase > run.cluster_phase) { found("cluster", t->line, -1, format("%s comes to the barrier of its cluster twice, and did not wait in between", who(t).c_str())); return; }
    t->cluster_phase = run.cluster_phase + 1;
    ++run.cluster_barrier.arrived;
    tell(t, CLUSTER_ARRIVE);
    if (shows) publish(t, run.cluster_barrier.clock);
    if (t->lane == 0) count(t->line, BARRIERS);
    open_cluster_barrier();
}
extern "C" void twbe_cluster_wait() {
    Thread *t = me();
    tell(t, CLUSTER_WAIT);
    if (t->lane == 0) count(t->line, BARRIER_WAITS);
    if (run.cluster_phase >= t->cluster_phase) { if (checks()) join(t->clock, run.cluster_done); return; }
    run.cluster_barrier.waiting.push_back(t);
    suspend(AT_CLUSTER, 0, 0);
}
