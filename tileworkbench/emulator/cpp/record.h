// What threads start, arrive at and wait for, written down when it is asked for, in each thread's own order; and what lies in between, summed up.
// A thread's entries are cut into segments: each ends with something that orders it, or starts something that runs beside it (`tell`); what it does
// otherwise is added up by segment and line (`add`). Names and meanings: emulator/log.py.
namespace {
enum Told {
    WORK, SHARED, LOADED, STORED, MULTIPLY, COPY,  // sums
    PRODUCT, PRODUCT_COMMIT, PRODUCT_WAIT, LOAD, STORE, STORE_COMMIT, STORE_WAIT, COPY_COMMIT, COPY_WAIT, COPY_ARRIVE,
    ARRIVE, WAIT, BAR, CLUSTER_ARRIVE, CLUSTER_WAIT, STEP, END
};
inline bool records() { return twb_watch & 4; }

Entry &sum_at(Thread *t, uint32_t segment, Told kind, int line, int64_t a) {
    uint64_t key = (uint64_t)t->id << 46 | (uint64_t)(segment & 0xffffff) << 22 | (uint64_t)(line & 0x3fff) << 8 | (uint64_t)kind << 4 | (a & 15);
    auto found = run.told_at.emplace(key, run.told.size());
    if (found.second) run.told.push_back({(int64_t)run.told.size(), t->id, segment, kind, line, a, 0, 0, 0, 0, 0});
    return run.told[found.first->second];
}
void add(Thread *t, uint32_t segment, Told kind, int line, int64_t n, int64_t m = 0, int64_t a = 0) {
    Entry &e = sum_at(t, segment, kind, line, a);
    e.n += n; e.m += m;
}
// One lane speaks for the instructions of its warp.
void add_work(Thread *t) {
    if (t->lane == 0 && (t->work || t->specials)) add(t, t->segment, WORK, t->line, t->work, t->specials);
    t->work = t->specials = 0;
}
// Bytes of the copies of a warp's threads, by the group that they are in.
void add_copy(Thread *t, uint32_t at, uint32_t bytes) {
    Entry &e = sum_at(t->mates->lane[0], t->copy_groups, COPY, t->line, 0);
    e.m = e.n ? std::min<int64_t>(e.m, at) : at;
    e.n += bytes;
}
// Returns the entry's number, counting from 1.
size_t tell(Thread *t, Told kind, int64_t a = 0, int64_t b = 0, int64_t n = 0, int64_t m = 0, int64_t p = 0, int64_t q = 0) {
    if (!records()) return 0;
    add_work(t);
    run.told.push_back({(int64_t)run.told.size(), t->id, t->segment++, kind, t->line, a, b, n, m, p, q});
    return run.told.size();
}
void told_phase(size_t entry, uint64_t phase) { if (entry) run.told[entry - 1].b = (int64_t)phase; }
}  // namespace

extern "C" {
void twbe_line() { if (records()) add_work(me()); else me()->work = 0; }
void twbe_step(int loop, int64_t value) { tell(me(), STEP, loop, value); }
}
