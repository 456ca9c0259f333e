// One stack for each thread, and the switch between them.
namespace {
enum : size_t { STACK = 256 << 10 };
char *stacks = nullptr;
size_t stack_count = 0;

char *stack_top(uint32_t id) { return stacks + (size_t)(id + 1) * STACK; }
bool need_stacks(size_t wanted) {
    stacks = (char *)mmap(nullptr, wanted * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == (char *)MAP_FAILED) { stacks = nullptr; return false; }
    stack_count = wanted;
    for (size_t i = 0; i < wanted; ++i)  // a stack that overflows stops there; without room for guards there is none to run in
        if (mprotect(stacks + i * STACK, 4096, PROT_NONE)) return false;
    return true;
}
// A process has some 65,000 mappings; each guard costs two, and each kernel that was loaded has a runtime of its own: so none is kept after a run.
void give_back_stacks() {
    if (stacks) munmap(stacks, stack_count * STACK);
    stacks = nullptr;
}
}  // namespace

extern "C" void twbe_begin();
#if defined(__x86_64__) && !defined(TWBE_UCONTEXT)
extern "C" void twbe_switch(void **save, void *to);
__asm__(".text\n.globl twbe_switch\n.hidden twbe_switch\n.type twbe_switch,@function\ntwbe_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size twbe_switch,.-twbe_switch\n");
static void *first_frame(uint32_t id) {
    void **top = (void **)stack_top(id);
    memset(top - 8, 0, 64);
    top[-2] = (void *)twbe_begin;
    return top - 8;
}
#elif defined(__aarch64__) && !defined(TWBE_UCONTEXT)
extern "C" void twbe_switch(void **save, void *to);
__asm__(".text\n.globl twbe_switch\n.hidden twbe_switch\n.type twbe_switch,%function\ntwbe_switch:\n"
        "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n");
static void *first_frame(uint32_t id) {
    char *frame = stack_top(id) - 176;
    memset(frame, 0, 176);
    ((void **)frame)[11] = (void *)twbe_begin;
    return frame;
}
#else
#include <ucontext.h>
static void twbe_switch(void **save, void *to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)to);
}
static void *first_frame(uint32_t id) {
    ucontext_t *c = (ucontext_t *)(stack_top(id) - sizeof(ucontext_t) - 64);
    getcontext(c);
    c->uc_stack.ss_sp = stack_top(id) - STACK + 4096;
    c->uc_stack.ss_size = STACK - 8192;
    c->uc_link = nullptr;
    makecontext(c, twbe_begin, 0);
    return c;
}
#endif

namespace {
void to_main() { Thread *t = me(); twbe_switch(&t->sp, run.main_sp); }

void suspend(WaitKind kind, uint32_t object, uint32_t detail) {
    Thread *t = me();
    t->state = WAITS; t->waits = kind; t->object = object; t->detail = detail; t->wait_line = t->line;
    to_main();
}
void wake(Thread *t) {
    t->state = READY; t->waits = NOTHING;
    run.ready.push_back(t);
}
}  // namespace

extern "C" void twbe_begin() {
    run.entry(run.args);
    finish_thread(me());
    me()->state = DONE;
    --me()->home->alive;
    if (checks()) join(me()->home->ends, me()->clock);
    run.idle_polls = 0;
    if (run.cluster.size() > 1) {
        if (run.cluster_barrier.arrived && me()->cluster_phase == run.cluster_phase + 1) --run.cluster_barrier.arrived;
        open_cluster_barrier();
    }
    to_main();
    __builtin_trap();
}
