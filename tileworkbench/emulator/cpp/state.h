// The runtime's own view: threads as fibers, warps, blocks, findings and counters. One grid at a time.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#include <sys/mman.h>

namespace {
enum State { READY, WAITS, DONE };
enum WaitKind { NOTHING, AT_BARRIER, AT_WARP, AT_MBARRIER, AT_POLL, AT_SPIN, AT_CLUSTER, AT_LOG };
struct Thread; struct Warp; struct Block;

typedef std::vector<uint32_t> Clock;  // entry g: how much of thread g's past is known

struct Record { uint64_t at; uint32_t site, segment; int line; uint16_t bytes; uint8_t kind; uint32_t low, high; };  // kind: TWBE_* + 8 for shared; of a tile [low, high)
struct Entry { int64_t order, thread, segment, kind, line, a, b, n, m, p, q; };           // something written down: record.h
struct WarpOp { const char *name; void (*run)(Warp *, uint32_t mask); };
struct Copy { void *to, *from; uint32_t at, bytes, valid; int line; };          // one cp.async, not yet done
struct Product;                                                                    // one wgmma, not yet done
struct Tma;                                                                        // one bulk copy, not yet done

struct Thread : twb_thread_info {
    uint32_t id = 0;  // in the cluster
    Block *home = nullptr; Warp *mates = nullptr;
    State state = READY; WaitKind waits = NOTHING;
    uint32_t object = 0, detail = 0;   // which barrier; count or parity
    const WarpOp *op = nullptr; uint32_t mask = 0; void *data = nullptr;
    bool answer = false, polled = false; int wait_line = 0;
    const void *seen_at = nullptr; uint64_t seen = 0;   // what it read last with a memory order
    void *sp = nullptr;
    std::vector<Record> log;
    std::vector<std::vector<Copy>> copies = {{}};     // cp.async groups, the last one open
    std::vector<std::vector<Tma *>> bulk = {{}};      // bulk stores
    std::vector<std::vector<Product *>> products = {{}};
    uint64_t warpgroup_steps = 0; bool fenced = false;
    int32_t fences = 0;            // proxy fences so far
    uint64_t cluster_phase = 0;
    uint32_t segment = 0, copy_groups = 0, product_groups = 0, store_groups = 0; int64_t specials = 0;  // for what is written down
    Clock clock;
};
struct Warp { Block *home; uint32_t index, present = 0, registers = 0; int line = 0; Thread *lane[32] = {}; };
struct Barrier { std::vector<Thread *> waiting; uint32_t arrived = 0, expected = 0; Clock clock; int line = 0; };
struct MBarrier { uint32_t count, pending; int64_t tx = 0; uint64_t phase = 0; Clock clock, done; int line; uint32_t maker, made; };  // made: the time at which thread `maker` initialised it
struct Cell { uint32_t wrote = 0, read[2] = {0, 0}; uint16_t writer = 0xffff, reader[2] = {0xffff, 0xffff}; int16_t wrote_line = -1, read_line[2] = {-1, -1}; int32_t stamp = -1; int8_t swizzle = -1; bool init = false; };  // stamp: proxy fences of the writer before its write
struct Reached { uint32_t when; int line; const Thread *thread; const char *what; };
struct Block : twb_block_info {
    std::vector<Thread> threads; std::vector<Warp> warps;
    Barrier barriers[16];
    std::map<uint32_t, MBarrier> mbarriers;
    std::vector<char> store; char *memory = nullptr;
    std::vector<Cell> cells;   // one a byte of shared memory, when faults are looked for
    uint32_t alive = 0;
    std::map<uint32_t, Reached> reached; Clock ends;  // by other blocks of the cluster: by which thread last; what threads knew that have ended
};

enum Count {
    GLOBAL_LOADS, GLOBAL_STORES, GLOBAL_LOAD_SECTORS, GLOBAL_STORE_SECTORS, GLOBAL_LOAD_BYTES, GLOBAL_STORE_BYTES,
    SHARED_LOADS, SHARED_STORES, SHARED_LOAD_WAVEFRONTS, SHARED_STORE_WAVEFRONTS, SHARED_LOAD_IDEAL, SHARED_STORE_IDEAL, SHARED_LOAD_BYTES, SHARED_STORE_BYTES,
    SHUFFLES, VOTES, BARRIERS, BARRIER_WAITS, ATOMICS, ASYNC_COPIES, MATRIX_LOADS, MATRIX_STORES, MMA, MMA_FLOPS, WGMMA, WGMMA_FLOPS,
    TMA_LOADS, TMA_STORES, TMA_LOAD_BYTES, TMA_STORE_BYTES, ASYNC_BYTES, LOADED_SECTORS, STORED_SECTORS, SPECIALS, COUNTS
};
struct Line { uint64_t n[COUNTS]; };
struct Finding { std::string kind, text; int line, other; uint64_t times; };

// One request of a warp on shared memory: line, kind (TWBE_*, or 4 and 5 for ldmatrix and stmatrix), bytes of a thread, the tile, each lane's address.
enum { TWBE_LDMATRIX = 4, TWBE_STMATRIX = 5, MOST_REQUESTS = 1 << 16 };
typedef std::array<uint32_t, 37> SharedRequest;

// ---- the run
struct Run {
    std::map<SharedRequest, uint64_t> requests;        // how often each was made, when they are recorded
    uint64_t requests_left_out = 0;                    // of kinds beyond MOST_REQUESTS
    std::vector<Line> lines;
    std::vector<Finding> findings;
    std::string printed;
    std::deque<Thread *> ready;
    std::vector<Block *> cluster;
    std::vector<Tma *> waiting_tma;
    Barrier cluster_barrier; uint64_t cluster_phase = 0; Clock cluster_done;
    uint32_t threads = 0, async_when = 0;              // threads of the cluster; its asynchronous copies act as one more thread
    std::unordered_map<uintptr_t, uint32_t> site_of;   // return address -> small number
    std::unordered_set<uint64_t> loaded, stored;       // sectors of global memory that were touched at all
    void (*entry)(void **) = nullptr; void **args = nullptr;
    void *main_sp = nullptr;
    bool stop = false; int idle_polls = 0;
    int failed = 0; int failed_line = 0;
    uint32_t finding_limit = 200;
    std::vector<Entry> told; std::unordered_map<uint64_t, size_t> told_at;
} run;
char scratch[4096];

inline Thread *me() { return static_cast<Thread *>(twb_me); }
inline void count(int line, Count what, uint64_t n = 1) {
    if (!(twb_watch & 1)) return;
    if ((size_t)line >= run.lines.size()) line = 0;
    run.lines[line].n[what] += n;
}
std::string format(const char *text, ...) {
    char buffer[600]; va_list more; va_start(more, text); vsnprintf(buffer, sizeof buffer, text, more); va_end(more);
    return buffer;
}
void found(const char *kind, int line, int other, const std::string &text) {
    for (auto &f : run.findings) if (f.line == line && f.other == other && f.kind == kind) { ++f.times; return; }
    if (run.findings.size() < run.finding_limit) run.findings.push_back({kind, text, line, other, 1});
}
// Bytes of an array as a number: arrays of a GPU begin at multiples of 256 bytes, whatever they do here.
uint64_t global_number(const char *p, const twb_buffer *b) { return (uint64_t)(p - b->base) + ((uint64_t)(uintptr_t)b << 40); }
void sector_seen(int line, uint64_t sector, bool store) {
    if ((store ? run.stored : run.loaded).insert(sector).second) count(line, store ? STORED_SECTORS : LOADED_SECTORS);
}
std::string block_name(const Block *b) {
    std::string name = format("block (%u, %u, %u)", b->x, b->y, b->z);
    return b->ranks > 1 ? name + format(", rank %u of its cluster,", b->rank) : name;
}
std::string who(const Thread *t) {
    const Block *b = t->home;
    return format("thread (%u, %u, %u) of block (%u, %u, %u)", t->x, t->y, t->z, b->x, b->y, b->z);
}
inline void join(Clock &to, const Clock &from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}
inline bool checks() { return twb_watch & 2; }
inline void publish(Thread *t, Clock &into) { if (checks()) { join(into, t->clock); ++t->clock[t->id]; } }
void suspend(WaitKind kind, uint32_t object, uint32_t detail);
void wake(Thread *t);
void flush(Warp *w);
void finish_thread(Thread *t);
void open_cluster_barrier();
bool run_one_tma();
// Another block touches `b`: it must not have ended by then, however the two are scheduled.
void reaches(Block *b, uint32_t id, uint32_t when, const Thread *t, int line, const char *what) {
    if (checks() && b != t->home) b->reached[id] = {when, line, t, what};
}
void check_end(Block *b) {
    for (auto &r : b->reached)
        if (r.first >= b->ends.size() || b->ends[r.first] < r.second.when)
            found("cluster", r.second.line, -1, format("%s %s block %u of its cluster, which may have ended by then", who(r.second.thread).c_str(), r.second.what, b->rank));
}
struct Actor { uint32_t id, when; const Clock &clock; const Thread *thread; int line; bool async; };
bool touch_shared(const Actor &a, Block *b, uint32_t at, uint32_t bytes, bool is_write, int swizzle);
}  // namespace
