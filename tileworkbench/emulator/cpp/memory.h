// Accesses: bounds, what was written, races between threads, and the log from which requests of whole warps are counted.
namespace {
uint32_t site_number(uintptr_t address) {
    auto known = run.site_of.find(address);
    if (known != run.site_of.end()) return known->second;
    uint32_t n = (uint32_t)run.site_of.size();
    run.site_of[address] = n;
    return n;
}

void note(Thread *t, uint64_t at, uint32_t bytes, int kind, uintptr_t from, uint32_t low = 0, uint32_t high = 0) {
    if (!(twb_watch & 1)) return;
    while (t->log.size() >= 2048) suspend(AT_LOG, 0, 0);  // the rest of the warp may be far behind
    t->log.push_back({at, site_number(from), t->segment, t->line, (uint16_t)bytes, (uint8_t)kind, low, high});
}

struct Request { int line, kind, bytes, lanes = 0; uint32_t low, high, segment; Thread *first; uint64_t at[32]; };

int count_global(const Request &r) {
    uint64_t sectors[128]; int n = 0;
    for (int i = 0; i < r.lanes; ++i)
        for (uint64_t s = r.at[i] / 32; s <= (r.at[i] + r.bytes - 1) / 32; ++s) sectors[n++] = s;
    std::sort(sectors, sectors + n);
    n = (int)(std::unique(sectors, sectors + n) - sectors);
    bool store = r.kind == TWBE_STORE || r.kind == TWBE_ATOMIC;
    for (int i = 0; i < n; ++i) sector_seen(r.line, sectors[i], store);
    count(r.line, store ? GLOBAL_STORES : GLOBAL_LOADS);
    count(r.line, store ? GLOBAL_STORE_SECTORS : GLOBAL_LOAD_SECTORS, n);
    count(r.line, store ? GLOBAL_STORE_BYTES : GLOBAL_LOAD_BYTES, (uint64_t)r.lanes * r.bytes);
    return n;
}

// Wavefronts of one phase: the most words that one bank must give. Threads that want one word share it.
int most_words(const uint64_t *at, int lanes, int bytes) {
    uint64_t words[128]; int n = 0;
    for (int i = 0; i < lanes; ++i) for (int w = 0; w < std::max(bytes / 4, 1); ++w) words[n++] = at[i] / 4 + w;
    std::sort(words, words + n);
    n = (int)(std::unique(words, words + n) - words);
    int hits[32] = {}, most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, ++hits[words[i] % 32]);
    return most;
}

int count_shared(int line, bool store, int bytes, const uint64_t *at, const uint8_t *lane, int lanes) {
    int group = bytes <= 4 ? 32 : 128 / bytes, total = 0, ideal = 0;
    for (int phase = 0; phase < 32; phase += group) {
        uint64_t here[32]; int n = 0;
        for (int i = 0; i < lanes; ++i) if (lane[i] >= phase && lane[i] < phase + group) here[n++] = at[i];
        if (n) { total += most_words(here, n, bytes); ++ideal; }
    }
    count(line, store ? SHARED_STORES : SHARED_LOADS);
    count(line, store ? SHARED_STORE_WAVEFRONTS : SHARED_LOAD_WAVEFRONTS, total);
    count(line, store ? SHARED_STORE_IDEAL : SHARED_LOAD_IDEAL, ideal);
    count(line, store ? SHARED_STORE_BYTES : SHARED_LOAD_BYTES, (uint64_t)lanes * bytes);
    return total;
}

// Remember a request as it was made; addresses count from the start of the block's shared memory.
void record_shared(int line, int kind, int bytes, uint32_t low, uint32_t high, const uint64_t *at, const uint8_t *lane, int lanes) {
    if (!(twb_watch & 16)) return;
    SharedRequest key;
    key.fill(~0u);
    key[0] = (uint32_t)line; key[1] = (uint32_t)kind; key[2] = (uint32_t)bytes; key[3] = low - TWBE_FIRST; key[4] = high - TWBE_FIRST;
    for (int i = 0; i < lanes; ++i) key[5 + lane[i]] = (uint32_t)at[i] - TWBE_FIRST;
    auto known = run.requests.find(key);
    if (known != run.requests.end()) ++known->second;
    else if (run.requests.size() < MOST_REQUESTS) run.requests[key] = 1;
    else ++run.requests_left_out;
}

// The n-th access that lanes made from one place in the program is one request of the warp.
void flush(Warp *w) {
    std::unordered_map<uint64_t, size_t> group;
    std::vector<Request> requests; std::vector<std::vector<uint8_t>> lanes;
    std::unordered_map<uint32_t, uint32_t> times;
    for (int l = 0; l < 32; ++l) {
        if (!w->lane[l] || w->lane[l]->log.empty()) continue;
        times.clear();
        for (const Record &r : w->lane[l]->log) {
            uint64_t key = (uint64_t)r.site << 32 | times[r.site]++;
            auto at = group.emplace(key, requests.size());
            if (at.second) {
                Request q; q.line = r.line; q.kind = r.kind; q.bytes = r.bytes; q.low = r.low; q.high = r.high; q.segment = r.segment; q.first = w->lane[l];
                requests.push_back(q); lanes.emplace_back();
            }
            Request &q = requests[at.first->second];
            q.at[q.lanes++] = r.at;
            lanes[at.first->second].push_back((uint8_t)l);
        }
        w->lane[l]->log.clear();
    }
    for (size_t i = 0; i < requests.size(); ++i) {
        Request &q = requests[i];
        int kind = q.kind & 7;
        if (kind == TWBE_ATOMIC) count(q.line, ATOMICS);
        if (kind == TWBE_ASYNC && !(q.kind & 8)) { count(q.line, ASYNC_COPIES); count(q.line, ASYNC_BYTES, (uint64_t)q.lanes * q.bytes); }
        bool is_shared = q.kind & 8;
        if (is_shared) record_shared(q.line, kind, q.bytes, q.low, q.high, q.at, lanes[i].data(), q.lanes);
        else if (kind == TWBE_ASYNC) q.kind = TWBE_LOAD;
        int moved = is_shared ? count_shared(q.line, kind != TWBE_LOAD, q.bytes, q.at, lanes[i].data(), q.lanes) : count_global(q);
        if (records() && kind != TWBE_ASYNC) add(q.first, q.segment, is_shared ? SHARED : kind == TWBE_LOAD ? LOADED : STORED, q.line, is_shared ? moved : 32 * moved);
    }
}

const char *kind_name(int kind) { return kind == TWBE_LOAD || kind == TWBE_ASYNC ? "reads" : kind == TWBE_STORE ? "writes" : "updates"; }

void *nowhere() { memset(scratch, 0, 64); return scratch; }

// Whether what `other` did at its time `when` is known to have ended. What runs beside its thread is not ordered with what that thread does next.
bool knows(const Actor &a, uint16_t other, uint32_t when) {
    return other == 0xffff || (other == a.id && !a.async) || (other < a.clock.size() && a.clock[other] >= when);
}

// Shared memory, byte by byte: was it written, and is every earlier conflicting access known to have ended? False: read before it was written.
bool touch_shared(const Actor &a, Block *b, uint32_t at, uint32_t bytes, bool is_write, int swizzle) {
    if (b->cells.empty()) return true;
    bool fresh = true, raced = false;
    for (uint32_t i = at - TWBE_FIRST; i < at - TWBE_FIRST + bytes; ++i) {
        Cell &c = b->cells[i];
        if (!is_write && !c.init) fresh = false;
        int before = -2; unsigned other = 0; const char *did = "wrote";
        if (!knows(a, c.writer, c.wrote)) { before = c.wrote_line; other = c.writer; }
        for (int k = 0; is_write && before == -2 && k < 2; ++k) if (!knows(a, c.reader[k], c.read[k])) { before = c.read_line[k]; other = c.reader[k]; did = "read"; }
        if (before != -2 && !raced) {
            raced = true;
            std::string them = other == run.threads ? "an asynchronous copy" : format("thread %u", other % (uint32_t)b->threads.size());
            found("race", a.line, before, format("%s %s%s shared memory at byte %u that %s %s, with nothing between that orders the two", who(a.thread).c_str(),
                  is_write ? "writes" : "reads", a.async ? " (asynchronously)" : "", i, them.c_str(), did));
        }
        if (a.async && !is_write && c.stamp >= 0 && c.writer < run.threads) {
            const Thread &w = run.cluster[c.writer / b->threads.size()]->threads[c.writer % b->threads.size()];
            if (w.fences == c.stamp) found("proxy fence", a.line, c.wrote_line, format("%s reads shared memory at byte %u asynchronously; %s wrote it and made no proxy fence since", who(a.thread).c_str(), i, who(&w).c_str()));
        }
        if (!is_write && swizzle >= 0 && c.swizzle >= 0 && c.swizzle != swizzle)
            found("descriptor", a.line, c.wrote_line, format("%s reads a tile with swizzle %d that a tensor map wrote with swizzle %d (0 none, 1 32B, 2 64B, 3 128B)", who(a.thread).c_str(), swizzle, c.swizzle));
        if (is_write) {
            c.writer = (uint16_t)a.id; c.wrote = a.when; c.wrote_line = (int16_t)a.line; c.init = true; c.reader[0] = c.reader[1] = 0xffff;
            c.stamp = a.async ? -1 : a.thread->fences; c.swizzle = (int8_t)swizzle;
        } else {
            int k = knows(a, c.reader[0], c.read[0]) ? 0 : 1;  // one that has ended need not be remembered
            c.reader[k] = (uint16_t)a.id; c.read[k] = a.when; c.read_line[k] = (int16_t)a.line;
        }
    }
    return fresh;
}
bool touch_plain(Thread *t, Block *b, uint32_t at, uint32_t bytes, bool is_write) {
    return touch_shared(Actor{t->id, t->clock[t->id], t->clock, t, t->line, false}, b, at, bytes, is_write, -1);
}
}  // namespace

extern "C" __attribute__((noinline)) void *twbe_global(void *p, twb_buffer *b, uint32_t bytes, int kind) {
    Thread *t = me();
    char *c = (char *)p;
    if (!b || c < b->base || c + bytes > b->end) {
        found("out of bounds", t->line, -1, b ? format("%s %s %u bytes at byte %lld of an array of %lld bytes", who(t).c_str(), kind_name(kind), bytes,
              (long long)(c - b->base), (long long)(b->end - b->base)) : format("%s %s through a null pointer", who(t).c_str(), kind_name(kind)));
        return nowhere();
    }
    bool writes = kind == TWBE_STORE || kind == TWBE_ATOMIC;
    if (writes && b->readonly) { found("read only", t->line, -1, format("%s writes an array that may not be written", who(t).c_str())); return nowhere(); }
    if (bytes > 1 && !(bytes & (bytes - 1)) && (uintptr_t)c % bytes)
        found("misaligned", t->line, -1, format("%s %s %u bytes at address %llu, which is not a multiple of %u", who(t).c_str(), kind_name(kind), bytes, (unsigned long long)(c - b->base), bytes));
    note(t, global_number(c, b), bytes, kind, (uintptr_t)__builtin_return_address(0));
    if (b->written && checks()) {
        uint8_t *w = b->written + (c - b->base);
        if (kind != TWBE_STORE && memchr(w, 0, bytes))
            found("uninitialised", t->line, -1, format("%s reads %u bytes at byte %lld of an array where nothing was written", who(t).c_str(), bytes, (long long)(c - b->base)));
        if (writes) memset(w, 1, bytes);
    }
    return c;
}

extern "C" __attribute__((noinline)) void *twbe_shared(uint32_t at, uint32_t low, uint32_t high, uint32_t rank, uint32_t bytes, int kind) {
    Thread *t = me();
    Block *b = t->home;
    if (rank != TWBE_OWN) {
        if (rank >= run.cluster.size()) { found("out of bounds", t->line, -1, format("%s asks for block %u of a cluster of %zu", who(t).c_str(), rank, run.cluster.size())); return nowhere(); }
        b = run.cluster[rank];
        if (!b->alive) found("cluster", t->line, -1, format("%s %s shared memory of block %u of its cluster, which has ended", who(t).c_str(), kind_name(kind), rank));
        if (checks()) reaches(b, t->id, t->clock[t->id], t, t->line, "touches memory of");
    }
    if (at < low || at + bytes > high || at + bytes > TWBE_FIRST + b->shared_bytes || at < TWBE_FIRST) {
        found("out of bounds", t->line, -1, format("%s %s %u bytes at byte %lld of a shared tile of %u bytes (shared memory has %u)", who(t).c_str(), kind_name(kind), bytes,
              (long long)at - low, high - low, b->shared_bytes));
        return nowhere();
    }
    if (bytes > 1 && !(bytes & (bytes - 1)) && at % bytes)
        found("misaligned", t->line, -1, format("%s %s %u bytes at shared address %u, which is not a multiple of %u", who(t).c_str(), kind_name(kind), bytes, at - TWBE_FIRST, bytes));
    note(t, at, bytes, kind | 8, (uintptr_t)__builtin_return_address(0), low, high);
    if (checks() && kind <= TWBE_STORE) {
        if (!touch_plain(t, b, at, bytes, kind == TWBE_STORE))
            found("uninitialised", t->line, -1, format("%s reads %u bytes at byte %u of shared memory where nothing was written", who(t).c_str(), bytes, at - TWBE_FIRST));
    }
    if (checks() && kind == TWBE_ATOMIC && !b->cells.empty()) for (uint32_t i = 0; i < bytes; ++i) b->cells[at - TWBE_FIRST + i].init = true;
    return b->memory + at;
}
