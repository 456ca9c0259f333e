// What Python calls: run a grid, then read findings, counters and printed text.
extern "C" {
#define TWB_EXPORT __attribute__((visibility("default")))
struct twbe_launch { uint32_t grid[3], block[3], cluster[3], shared_bytes, watch, lines, findings; int32_t record; uint32_t alone; };  // record: the cluster that is written down, -1 none; alone: only it runs

TWB_EXPORT int twbe_run(void (*entry)(void **), void **args, const twbe_launch *how) {
    const uint32_t *g = how->grid, *t = how->block, *c = how->cluster;
    uint32_t threads = t[0] * t[1] * t[2], ranks = c[0] * c[1] * c[2];
    run = Run();
    run.lines.resize(how->lines); run.finding_limit = how->findings;
    run.entry = entry; run.args = args; run.threads = threads * ranks;
    twb_watch = (int)how->watch;
    if (!need_stacks((size_t)threads * ranks)) { give_back_stacks(); return 2; }
    std::vector<Block> blocks(ranks);
    int32_t number = 0;
    for (uint32_t cz = 0; cz < g[2] && !run.stop; cz += c[2]) for (uint32_t cy = 0; cy < g[1] && !run.stop; cy += c[1]) for (uint32_t cx = 0; cx < g[0] && !run.stop; cx += c[0]) {
        bool is_told = number++ == how->record;
        if (how->alone && !is_told) continue;
        twb_watch = (int)how->watch | (is_told ? 4 : 0);
        run.cluster.clear(); run.ready.clear(); run.cluster_barrier = Barrier(); run.cluster_phase = 0; run.async_when = 0;
        for (uint32_t r = 0; r < ranks; ++r) {
            Block &b = blocks[r];
            static_cast<twb_block_info &>(b) = {cx + r % c[0], cy + r / c[0] % c[1], cz + r / c[0] / c[1], t[0], t[1], t[2], g[0], g[1], g[2], r, ranks, how->shared_bytes};
            b.threads.clear(); b.threads.resize(threads); b.warps.assign((threads + 31) / 32, Warp()); b.mbarriers.clear(); b.alive = threads; b.reached.clear(); b.ends.clear();
            for (Barrier &x : b.barriers) x = Barrier();
            b.store.resize(how->shared_bytes + TWBE_FIRST + 64);
            b.memory = (char *)(((uintptr_t)b.store.data() + 63) & ~(uintptr_t)63);
            memset(b.memory + TWBE_FIRST, 0xff, how->shared_bytes);
            if (how->watch & 2) b.cells.assign(how->shared_bytes, Cell()); else b.cells.clear();
            for (uint32_t i = 0; i < threads; ++i) {
                Thread &x = b.threads[i]; Warp &w = b.warps[i / 32];
                x.x = i % t[0]; x.y = i / t[0] % t[1]; x.z = i / t[0] / t[1]; x.flat = i; x.lane = i % 32; x.warp = i / 32; x.line = 0;
                x.memory = b.memory; x.block = &b; x.home = &b; x.mates = &w; x.id = r * threads + i;
                w.home = &b; w.index = i / 32; w.present |= 1u << x.lane; w.lane[x.lane] = &x;
                if (how->watch & 2) { x.clock.assign(run.threads + 1, 0); x.clock[x.id] = 1; }
                x.sp = first_frame(x.id);
                run.ready.push_back(&x);
            }
            run.cluster.push_back(&b);
        }
        run_cluster();
        for (Block *b : run.cluster) { for (Warp &w : b->warps) flush(&w); if (!run.stop) { check_warpgroups(b); check_registers(b); check_end(b); } }
        for (Tma *x : run.waiting_tma) {
            if (!run.stop && checks()) found("never waited", x->line, -1, format("%s: nobody waited for this bulk load", who(x->thread).c_str()));
            delete x;
        }
        run.waiting_tma.clear();
    }
    give_back_stacks();
    return run.failed ? 1 : 0;
}
TWB_EXPORT int twbe_failed(int *line) { *line = run.failed_line; return run.failed; }
TWB_EXPORT const char *twbe_printed() { return run.printed.c_str(); }
TWB_EXPORT uint32_t twbe_findings() { return (uint32_t)run.findings.size(); }
TWB_EXPORT const char *twbe_finding(uint32_t i, int *line, int *other, uint64_t *times, const char **kind) {
    const Finding &f = run.findings[i];
    *line = f.line; *other = f.other; *times = f.times; *kind = f.kind.c_str();
    return f.text.c_str();
}
TWB_EXPORT uint32_t twbe_counters(uint64_t *to) {
    if (to) for (size_t i = 0; i < run.lines.size(); ++i) memcpy(to + i * COUNTS, run.lines[i].n, sizeof run.lines[i].n);
    return COUNTS;
}
TWB_EXPORT uint64_t twbe_told(const void **to) {
    *to = run.told.data();
    return run.told.size();
}
TWB_EXPORT uint32_t twbe_requests(uint32_t *to, uint64_t *times, uint64_t *left_out) {
    size_t n = 0;
    if (to) for (auto &r : run.requests) { memcpy(to + n * r.first.size(), r.first.data(), sizeof r.first); times[n++] = r.second; }
    *left_out = run.requests_left_out;
    return (uint32_t)run.requests.size();
}
void twbe_special() { count(me()->line, SPECIALS); ++me()->specials; }
void twbe_fail(int number) {
    run.failed = number ? number : -1; run.failed_line = me()->line; run.stop = true;
    me()->state = WAITS; to_main();
}
int twbe_print(const char *text, ...) {
    va_list more, again; va_start(more, text); va_copy(again, more);
    int n = vsnprintf(nullptr, 0, text, more); va_end(more);
    std::vector<char> buffer((size_t)(n < 0 ? 0 : n) + 1); vsnprintf(buffer.data(), buffer.size(), text, again); va_end(again);
    run.printed += buffer.data();
    return n;
}
uint32_t twbe_cluster_size() { return (uint32_t)run.cluster.size(); }
}
twb_thread_info *twb_me;
int twb_watch;
