/* A CUDA driver for tests: two GPUs that run nothing and remember what they were asked. Only what `runtime.libcuda` names is here. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) int
enum { OK = 0, INVALID = 1, NOT_FOUND = 500, BAD_CONTEXT = 201, NOT_READY = 600 };

typedef struct { int id; char pad[4]; unsigned value[16]; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; uint64_t stream; const Attribute *attrs; unsigned count; } Config;

/* what tests read and set */
static int launches, encoded, loaded, next_answer, sync_answer, devices = 1, capturing, synced, event_stream, profiling, profiled, held, early;
static Config last;
static Attribute attrs[4];
static uint64_t function, function_shared[8];
static unsigned char arguments[4096];
static unsigned sizes[64], size_count;
static uint64_t current, set_count;
static unsigned status;

API fake_expect(const unsigned *given, unsigned count) { memcpy(sizes, given, count * 4); size_count = count; return OK; }
API fake_set(const char *name, int value) {
  struct { const char *name; int *at; } known[] = {{"answer", &next_answer}, {"sync", &sync_answer}, {"devices", &devices}, {"capturing", &capturing},
    {"status", (int *)&status}, {"launches", &launches}, {"encoded", &encoded}, {"loaded", &loaded}, {"synced", &synced}, {"profiled", &profiled}, {"held", &held}, {"early", &early}};
  for (unsigned i = 0; i < sizeof known / sizeof *known; ++i) if (!strcmp(known[i].name, name)) { *known[i].at = value; return OK; }
  if (!strcmp(name, "context")) { current = (uint64_t)value; return OK; }
  return NOT_FOUND;
}
API fake_get(const char *name) {
  if (!strcmp(name, "launches")) return launches;
  if (!strcmp(name, "profiled")) return profiled;
  if (!strcmp(name, "held")) return held;
  if (!strcmp(name, "encoded")) return encoded;
  if (!strcmp(name, "loaded")) return loaded;
  if (!strcmp(name, "synced")) return synced;
  if (!strcmp(name, "event_stream")) return event_stream;
  if (!strcmp(name, "context")) return (int)current;
  if (!strcmp(name, "shared")) return (int)last.shared;
  if (!strcmp(name, "stream")) return (int)last.stream;
  if (!strcmp(name, "count")) return (int)last.count;
  if (!strcmp(name, "function")) return (int)function;
  if (!strcmp(name, "dynamic")) return (int)function_shared[function & 7];
  return -1;
}
API fake_shape(unsigned *six) { memcpy(six, last.grid, 12); memcpy(six + 3, last.block, 12); return OK; }
API fake_attribute(unsigned i, unsigned *four) { four[0] = (unsigned)attrs[i].id; memcpy(four + 1, attrs[i].value, 12); return OK; }
API fake_arguments(unsigned char *out) { memcpy(out, arguments, sizeof arguments); return OK; }

API cuInit(unsigned flags) { (void)flags; return OK; }
API cuDriverGetVersion(int *v) { *v = 13000; return OK; }
API cuDeviceGetCount(int *n) { *n = devices; return OK; }
API cuDeviceGet(int *d, int i) { *d = i; return OK; }
API cuDeviceGetName(char *name, int size, int d) { snprintf(name, size, "NVIDIA H200"); (void)d; return OK; }
API cuDeviceGetAttribute(int *v, int a, int d) {
  (void)d;
  *v = a == 1 ? 1024 : a == 5 ? 2147483647 : a == 6 || a == 7 ? 65535 : a == 16 ? 132 : a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : a == 12 ? 65536 : 0;
  return OK;
}
API cuGetErrorString(int code, const char **s) { *s = code == 700 ? "an illegal memory access was encountered" : "invalid argument"; return OK; }
API cuGetErrorName(int code, const char **s) { *s = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE"; return OK; }
API cuDevicePrimaryCtxRetain(uint64_t *c, int d) { *c = 1000u + (unsigned)d; return OK; }
API cuCtxGetCurrent(uint64_t *c) { *c = current; return OK; }
API cuCtxSetCurrent(uint64_t c) { current = c; ++set_count; return OK; }
API cuCtxGetDevice(int *d) { if (!current) return BAD_CONTEXT; *d = (int)current - 1000; return OK; }
API cuModuleLoadData(uint64_t *m, const void *image) { if (memcmp(image, "\177ELF", 4) && memcmp(image, ".version", 8)) return INVALID; ++loaded; *m = 77; return current ? OK : BAD_CONTEXT; }
API cuModuleGetFunction(uint64_t *f, uint64_t m, const char *name) { static uint64_t next = 8; (void)m; (void)name; *f = next++; return OK; }
API cuModuleGetGlobal_v2(uint64_t *p, size_t *size, uint64_t m, const char *name) { (void)m; (void)name; *p = (uint64_t)&status; *size = 4; return OK; }
API cuFuncSetAttribute(uint64_t f, int a, int v) { if (a == 8) function_shared[f & 7] = (uint64_t)v; return OK; }
API cuStreamSynchronize(uint64_t s) { (void)s; ++synced; return sync_answer; }
API cuStreamIsCapturing(uint64_t s, int *v) { (void)s; *v = capturing; return OK; }
API cuProfilerStart(void) { profiling = 1; return OK; }
API cuProfilerStop(void) { profiling = 0; return OK; }
API cuEventCreate(uint64_t *e, unsigned flags) { (void)flags; *e = 90; return OK; }
API cuEventRecord(uint64_t e, uint64_t s) { (void)e; event_stream = (int)s; return OK; }
API cuEventSynchronize(uint64_t e) { (void)e; return OK; }
API cuEventQuery(uint64_t e) { (void)e; return early > 0 ? (--early, OK) : NOT_READY; }
API cuEventDestroy_v2(uint64_t e) { (void)e; return OK; }
API cuEventElapsedTime(float *ms, uint64_t a, uint64_t b) { (void)a; (void)b; *ms = 0.25f; return OK; }
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { memcpy(to, (const void *)from, n); return OK; }
API cuMemAlloc_v2(uint64_t *p, size_t n) { *p = (uint64_t)aligned_alloc(256, (n + 255) & ~(size_t)255); return OK; }
API cuMemsetD32_v2(uint64_t p, unsigned v, size_t n) { for (size_t i = 0; i < n; ++i) ((unsigned *)p)[i] = v; return OK; }
API cuTensorMapEncodeTiled(void *map, int type, unsigned rank, uint64_t address, const uint64_t *dims, const uint64_t *strides, const unsigned *box,
                           const unsigned *every, int interleave, int swizzle, int promotion, int fill) {
  uint64_t *out = map;
  (void)interleave; (void)every;
  if ((uint64_t)map % 64) return INVALID;
  memset(map, 0, 128);
  out[0] = address; out[1] = rank; out[2] = (uint64_t)type; out[3] = (uint64_t)swizzle; out[4] = (uint64_t)promotion; out[5] = (uint64_t)fill;
  for (unsigned i = 0; i < rank && i < 3; ++i) { out[6 + i] = dims[i]; out[12 + i] = box[i]; }
  for (unsigned i = 0; i + 1 < rank && i < 3; ++i) out[9 + i] = strides[i];
  ++encoded;
  return OK;
}
API cuLaunchKernel(uint64_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, uint64_t stream,
                   void **params, void **extra) {
  (void)f; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)extra;
  if (!current) return BAD_CONTEXT;
  held += *(uint64_t *)params[0] / 1000;
  event_stream = (int)stream;
  return OK;
}
API cuLaunchKernelEx(const Config *config, uint64_t f, void **params, void **extra) {
  unsigned char *out = arguments;
  (void)extra;
  if (!current) return BAD_CONTEXT;
  ++launches;
  profiled += profiling;
  last = *config;
  function = f;
  memcpy(attrs, config->attrs, config->count * sizeof *attrs);
  for (unsigned i = 0; i < size_count; ++i) { memcpy(out, params[i], sizes[i]); out += sizes[i]; }
  int answer = next_answer;
  next_answer = 0;
  return answer;
}
