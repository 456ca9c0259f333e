// What stands in front of every emulated kernel: types, threads, and pointers whose accesses are checked and counted.
// No standard header: kernels must compile fast. Functions of the runtime start with twbe_.
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
#define TWB_DEVICE static inline __attribute__((always_inline, unused))
#define TWB_REF inline __attribute__((always_inline))
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __forceinline__ inline
#undef __restrict__
#define __restrict__

struct twb_f16 { uint16_t bits; };
struct twb_bf16 { uint16_t bits; };
struct twb_e4m3 { uint8_t bits; };
struct twb_e5m2 { uint8_t bits; };
template <class T, int N> struct alignas(sizeof(T) * N <= 16 && !((sizeof(T) * N) & (sizeof(T) * N - 1)) ? sizeof(T) * N : alignof(T)) twb_vec {
    T v[N];
    T &operator[](int i) { return v[i]; }
    const T &operator[](int i) const { return v[i]; }
};
struct alignas(64) twb_tensor_map { uint64_t words[16]; };

// ---- threads: what a fiber knows about itself
struct twb_block_info { uint32_t x, y, z, threads_x, threads_y, threads_z, blocks_x, blocks_y, blocks_z, rank, ranks, shared_bytes; };
struct twb_thread_info {
    uint32_t x, y, z, flat, lane, warp;
    int line;
    int64_t work;  // instructions since they were last written down, in a text that counts them
    char *memory;  // of the block's shared memory, at address 0 (the first TWBE_FIRST bytes are nobody's)
    twb_block_info *block;
};
enum { TWBE_FIRST = 1024 };
extern twb_thread_info *twb_me;
extern int twb_watch;  // 1: count, 2: look for faults, 4: write down who waits for what, 16: record requests on shared memory
TWB_DEVICE void twb_at(int line) { twb_me->line = line; }
extern "C" { void twbe_line(); void twbe_step(int loop, int64_t value); }
TWB_DEVICE void twb_from(int line) { if (twb_me->line != line) { twbe_line(); twb_me->line = line; } }
TWB_DEVICE void twb_work(int n) { twb_me->work += n; }

// ---- memory
struct twb_buffer { char *base, *end; uint8_t *written; uint8_t readonly; };
enum { TWBE_LOAD, TWBE_STORE, TWBE_ATOMIC, TWBE_ASYNC };
extern "C" {
// One access. Returns the address to use, which is another place for an access that must not happen (it reads zeros).
void *twbe_global(void *p, twb_buffer *b, uint32_t bytes, int kind);
void *twbe_shared(uint32_t at, uint32_t low, uint32_t high, uint32_t rank, uint32_t bytes, int kind);
}
template <class T> struct twb_plain { typedef T type; };
template <class T> struct twb_plain<const T> { typedef T type; };

// What p[i] is: reads and writes go through the pointer.
template <class P> struct twb_ref {
    typedef typename P::value T;
    P at;
    TWB_REF operator T() const { return at.get(); }
    TWB_REF T operator=(T v) const { at.set(v); return v; }
    TWB_REF T operator=(const twb_ref &o) const { T v = o.at.get(); at.set(v); return v; }
    template <class Q> TWB_REF T operator=(const twb_ref<Q> &o) const { T v = (T)o.at.get(); at.set(v); return v; }
    template <class V> TWB_REF T operator+=(V v) const { T r = (T)(at.get() + v); at.set(r); return r; }
    template <class V> TWB_REF T operator-=(V v) const { T r = (T)(at.get() - v); at.set(r); return r; }
    template <class V> TWB_REF T operator*=(V v) const { T r = (T)(at.get() * v); at.set(r); return r; }
    template <class V> TWB_REF T operator|=(V v) const { T r = (T)(at.get() | v); at.set(r); return r; }
    template <class V> TWB_REF T operator&=(V v) const { T r = (T)(at.get() & v); at.set(r); return r; }
    template <class V> TWB_REF T operator^=(V v) const { T r = (T)(at.get() ^ v); at.set(r); return r; }
    TWB_REF P operator&() const { return at; }
};
#define TWB_POINTER(NAME) \
    typedef typename twb_plain<T>::type value; \
    TWB_REF NAME operator+(int64_t n) const { return moved(n); } \
    TWB_REF NAME operator-(int64_t n) const { return moved(-n); } \
    TWB_REF NAME &operator+=(int64_t n) { *this = moved(n); return *this; } \
    TWB_REF NAME &operator-=(int64_t n) { *this = moved(-n); return *this; } \
    TWB_REF twb_ref<NAME> operator[](int64_t n) const { return twb_ref<NAME>{moved(n)}; } \
    TWB_REF twb_ref<NAME> operator*() const { return twb_ref<NAME>{*this}; } \
    TWB_REF value get() const { value v; __builtin_memcpy(&v, place(sizeof(T), TWBE_LOAD), sizeof(T)); return v; } \
    TWB_REF void set(value v) const { __builtin_memcpy(place(sizeof(T), TWBE_STORE), &v, sizeof(T)); }

template <class T> struct twb_global {
    T *p;
    twb_buffer *b;
    TWB_POINTER(twb_global)
    TWB_REF twb_global moved(int64_t n) const { return twb_global{p + n, b}; }
    TWB_REF void *place(uint32_t bytes, int kind) const {
        char *c = (char *)p;
        bool plain = b && c >= b->base && c + bytes <= b->end && !twb_watch && !(kind && b->readonly) && !((uint64_t)c & (bytes - 1));
        return plain ? (void *)c : twbe_global(c, b, bytes, kind);
    }
    TWB_REF operator twb_global<const T>() const { return twb_global<const T>{p, b}; }
    explicit operator bool() const { return p != nullptr; }
    TWB_REF int64_t operator-(const twb_global &o) const { return p - o.p; }
    TWB_REF bool operator==(const twb_global &o) const { return p == o.p; }
    TWB_REF bool operator!=(const twb_global &o) const { return p != o.p; }
};

// `at` is a byte address in the shared memory of block `rank` of the cluster (OWN: this thread's); the tile is [low, high).
enum : uint32_t { TWBE_OWN = ~0u };
template <class T> struct twb_shared {
    uint32_t at, low, high, rank;
    TWB_POINTER(twb_shared)
    TWB_REF twb_shared moved(int64_t n) const { return twb_shared{at + (uint32_t)(n * (int64_t)sizeof(T)), low, high, rank}; }
    TWB_REF void *place(uint32_t bytes, int kind) const {
        bool plain = at >= low && at + bytes <= high && rank == TWBE_OWN && !twb_watch && !(at & (bytes - 1));
        return plain ? (void *)(twb_me->memory + at) : twbe_shared(at, low, high, rank, bytes, kind);
    }
    TWB_REF operator twb_shared<const T>() const { return twb_shared<const T>{at, low, high, rank}; }
    TWB_REF int64_t operator-(const twb_shared &o) const { return ((int64_t)at - (int64_t)o.at) / (int64_t)sizeof(T); }
};
#define TWB_SHARED_MEMORY(name) twb_shared<uint8_t> name = {TWBE_FIRST, TWBE_FIRST, TWBE_FIRST + twb_me->block->shared_bytes, TWBE_OWN}

// ---- kernels are called with an array of pointers to their arguments, as the driver does it
template <int... I> struct twbe_list {};
template <int N, int... I> struct twbe_count : twbe_count<N - 1, N - 1, I...> {};
template <int... I> struct twbe_count<0, I...> { typedef twbe_list<I...> type; };
template <class... P, int... I> static inline void twbe_spread(void (*f)(P...), void **args, twbe_list<I...>) { f(*(typename twb_plain<P>::type *)args[I]...); }
template <class... P> static inline void twbe_call(void (*f)(P...), void **args) { twbe_spread(f, args, typename twbe_count<sizeof...(P)>::type()); }
template <class U, class T> TWB_DEVICE twb_global<U> twbe_cast(twb_global<T> p) { return twb_global<U>{(U *)p.p, p.b}; }
template <class T> TWB_DEVICE T *twbe_plain(T *p) { return p; }
template <class T> TWB_DEVICE T *twbe_plain(twb_global<T> p) { return p.p; }
template <class T> TWB_DEVICE T *twbe_plain(twb_shared<T> p) { return (T *)(twb_me->memory + p.at); }
template <class U, class T> TWB_DEVICE U *twbe_cast(T *p) { return (U *)p; }
template <class U, class T> TWB_DEVICE twb_shared<U> twbe_cast(twb_shared<T> p) { return twb_shared<U>{p.at, p.low, p.high, p.rank}; }

// ---- the runtime's functions
extern "C" {
void twbe_sync();
void twbe_bar(uint32_t id, uint32_t threads, int waits);
void twbe_sync_warp(uint32_t mask);
void twbe_cluster_arrive(int shows);
void twbe_cluster_wait();
uint64_t twbe_shuffle(int mode, uint64_t value, int arg, int width, uint32_t mask);
uint64_t twbe_vote(int mode, uint64_t value, uint32_t mask);
void twbe_matrix(uint32_t at, uint32_t low, uint32_t high, uint32_t *r, int n, int trans, int store);
void twbe_mma(void *d, const void *a, const void *b, int m, int k, int to, int at, int bt);
void twbe_cp_async(uint32_t at, void *to, void *from, uint32_t bytes, uint32_t valid);
void twbe_cp_async_commit();
void twbe_cp_async_wait(uint32_t newest);
void twbe_cp_async_wait_all();
void twbe_cp_async_arrive(uint32_t bar);
void twbe_mbarrier_init(uint32_t at, uint32_t n);
void twbe_mbarrier_invalidate(uint32_t at);
void twbe_mbarrier_arrive(uint32_t at, uint32_t rank, uint32_t n);
void twbe_mbarrier_expect(uint32_t at, uint32_t rank, uint32_t bytes);
int twbe_mbarrier_try(uint32_t at, uint32_t parity, int waits);
void twbe_proxy_fence();
void twbe_tma_load(uint32_t at, uint32_t high, const twb_tensor_map *map, uint32_t bar, const int *c, int rank, uint32_t ranks);
void twbe_tma_store(const twb_tensor_map *map, uint32_t at, uint32_t high, const int *c, int rank, int mode);
void twbe_bulk(uint32_t at, uint32_t high, void *global, twb_buffer *b, uint32_t bytes, uint32_t bar, int mode);
void twbe_push(uint32_t at, uint32_t high, uint32_t from, uint32_t from_high, uint32_t bytes, uint32_t bar, uint32_t rank);
void twbe_bulk_commit();
void twbe_bulk_wait(uint32_t newest);
void twbe_wgmma(void *d, const uint32_t *a, uint64_t da, uint64_t db, int n, int k, int to, int at, int bt, int scale_d, int negate_a, int negate_b, int trans_a, int trans_b);
void twbe_wgmma_fence();
void twbe_wgmma_commit();
void twbe_wgmma_wait(uint32_t newest);
void twbe_seen(const void *at, uint64_t value);
void twbe_special();
void twbe_registers(uint32_t n);
void twbe_fail(int number);
int twbe_print(const char *text, ...);
}
template <class T> TWB_DEVICE void twbe_look(const T *at, T value) { uint64_t w = 0; __builtin_memcpy(&w, &value, sizeof(T)); twbe_seen(at, w); }
#define twb_print twbe_print
