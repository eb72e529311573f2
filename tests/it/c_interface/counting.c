/* Counts what a program and the library take from the C library's heap and from the kernel after sw_create_in, which
   the linker brings here (--wrap). At the end it prints one line of JSON on stderr. */

#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <shardwright.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static atomic_llong heap, heap_before, heap_peak, mapped;
static atomic_int started;
static atomic_llong by_caller, by_workers, by_others;
static _Thread_local int is_caller;
static unsigned long long needed;

static void *taken(void *block) {
    if (!block) return NULL;
    long long bytes = (long long)malloc_usable_size(block), now = atomic_fetch_add(&heap, bytes) + bytes;
    long long peak = atomic_load(&heap_peak);
    while (now > peak && !atomic_compare_exchange_weak(&heap_peak, &peak, now)) {}
    if (atomic_load(&started)) {
        char name[16] = "";
        prctl(PR_GET_NAME, name, 0, 0, 0);
        atomic_llong *by = is_caller ? &by_caller : !strncmp(name, "sw-worker", 9) ? &by_workers : &by_others;
        atomic_fetch_add(by, 1);
    }
    return block;
}

static void given(void *block) {
    if (block) atomic_fetch_sub(&heap, (long long)malloc_usable_size(block));
}

void *malloc(size_t bytes) { return taken(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return taken(__libc_calloc(count, bytes)); }
void *realloc(void *old, size_t bytes) {
    given(old);
    return taken(__libc_realloc(old, bytes));
}
void *memalign(size_t align, size_t bytes) { return taken(__libc_memalign(align, bytes)); }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void **out, size_t align, size_t bytes) {
    *out = memalign(align, bytes);
    return *out ? 0 : 12;
}
void free(void *block) {
    given(block);
    __libc_free(block);
}

void *__real_mmap64(void *, size_t, int, int, int, off_t);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    void *map = __real_mmap64(at, bytes, protection, flags, file, offset);
    if (map != MAP_FAILED && (protection & PROT_WRITE)) atomic_fetch_add(&mapped, (long long)bytes);
    return map;
}

sw_status __real_sw_create_in(const sw_storage *, const sw_config *, sw_acquisition **);
sw_status __wrap_sw_create_in(const sw_storage *storage, const sw_config *config, sw_acquisition **acquisition) {
    sw_memory memory = {.size = sizeof memory};
    if (sw_memory_needed(config, &memory)) return SW_ERROR_OTHER;
    needed = memory.total_bytes;
    heap_before = atomic_load(&heap);
    atomic_store(&heap_peak, heap_before);
    atomic_store(&mapped, 0);
    sw_status status = __real_sw_create_in(storage, config, acquisition);
    is_caller = 1;
    atomic_store(&started, 1);
    return status;
}

sw_status __real_sw_finish(sw_acquisition *, int64_t, sw_summary *);
sw_status __wrap_sw_finish(sw_acquisition *acquisition, int64_t timeout_ms, sw_summary *summary) {
    /* What is counted is the run; its end may take memory, which still counts for the peak. */
    atomic_store(&started, 0);
    long long caller = by_caller, workers = by_workers, others = by_others;
    sw_status status = __real_sw_finish(acquisition, timeout_ms, summary);
    long long used = heap_peak - heap_before;
    fprintf(stderr,
            "{\"needed\": %llu, \"heap\": %lld, \"mapped\": %lld, \"by_caller\": %lld, \"by_workers\": %lld, "
            "\"by_others\": %lld}\n",
            needed, used, (long long)mapped, caller, workers, others);
    return status;
}
