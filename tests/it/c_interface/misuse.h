/* What the programs of wrong calls have in common. Each wrong call must return its error code, set nothing, and leave a
   process in which right calls still work. */

#ifndef MISUSE_H
#define MISUSE_H

#include <string.h>

#include "checks.h"

static int calls, failures;
static int provoked[64];

/* Words of the language that the library is written in. */
static int is_foreign(const char *text) {
    static const char *const words[] = {"{", "}", "::", "None", "Some(", "Ok(", "Err(", "usize", "u64", "&str",
                                        "unwrap", "expected u", "expected i", "expected f", "d struct ", "d enum ",
                                        "variant", "a sequence", "EOF", "os error", " u8", " u16",
                                        " i64", " f32"};
    for (size_t at = 0; at < sizeof words / sizeof *words; at++)
        if (strstr(text, words[at])) return 1;
    return 0;
}

#define WRONG(expected, call)                                                                                         \
    do {                                                                                                              \
        sw_status got = (call);                                                                                       \
        calls++;                                                                                                      \
        if (got != (expected)) {                                                                                      \
            failures++;                                                                                               \
            fprintf(stderr, "line %d: %s: got %d (%s; %s), expected " #expected "\n", __LINE__, #call, (int)got,      \
                    sw_status_text(got), sw_last_error());                                                            \
        } else if (!*sw_last_error() || strchr(sw_last_error(), '\n')) {                                              \
            failures++;                                                                                               \
            fprintf(stderr, "line %d: %s: no text of one line: %s\n", __LINE__, #call, sw_last_error());              \
        } else if (is_foreign(sw_last_error())) {                                                                     \
            failures++;                                                                                               \
            fprintf(stderr, "line %d: %s: not plain English: %s\n", __LINE__, #call, sw_last_error());                \
        }                                                                                                             \
        provoked[got]++;                                                                                              \
    } while (0)

static char folder[512];

static const char *path(const char *name) {
    static char text[1024];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static sw_dim dims[3] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 4},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 16},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 16},
};
enum { FRAME_BYTES = 16 * 16 };

static sw_config good(void) {
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = 8 * 4096;
    config.workers = 1;
    config.sync = 0;
    return config;
}

/* Pointers that are not null and not good; none may be followed. */
static void *const odd = (void *)1;

/* Statuses that were to be provoked, and whether what their texts say is plain English. */
static void check_provoked(const sw_status *expected, size_t count) {
    for (size_t at = 0; at < count; at++) HOLDS(provoked[expected[at]] && !is_foreign(sw_status_text(expected[at])));
}

#endif
