/* A controller without POSIX files: shards go to a storage of its own, here a fixed block of memory that stands for a
   flash or a remote store. It asks what the run will need before it starts, and refuses what does not fit.

   tools/install-c --embedded --prefix DIR; cc embedded.c -I DIR/include DIR/lib/libshardwright.a -lpthread -lm -ldl
   ./a.out [OUTPUT]        with a folder, what was stored is written there afterwards, so that a reader can open it */

#include <pthread.h>
#include <shardwright.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FRAMES = 256, SIDE = 64, FILES = 96, KEY_BYTES = 64 };
static const uint64_t memory_budget = 16 << 20;

/* The store: files lie one behind the other, each as long as it was created. */
struct file {
    char key[KEY_BYTES];
    uint8_t *start;
    uint64_t bytes, reserved;
    int published;
};
struct store {
    pthread_mutex_t lock;
    struct file files[FILES];
    uint8_t bytes[24 << 20];
    uint64_t used;
};
static struct store the_store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct file *find(struct store *store, const char *key) {
    for (int at = 0; at < FILES; at++)
        if (!strcmp(store->files[at].key, key)) return &store->files[at];
    return NULL;
}

/* A new file of that length, or the one that is there if it is long enough for it. */
static int take(struct store *store, const char *key, uint64_t bytes, struct file **result) {
    struct file *file = find(store, key);
    if (!file) file = find(store, "");
    if (!file || strlen(key) >= KEY_BYTES) return ENFILE;
    if (!file->start || file->reserved < bytes) {
        uint64_t room = (bytes + 4095) / 4096 * 4096;
        if (sizeof store->bytes - store->used < room) return ENOSPC;
        file->start = store->bytes + store->used;
        file->reserved = room;
        store->used += room;
    }
    strcpy(file->key, key);
    file->bytes = bytes;
    *result = file;
    return 0;
}

static int32_t create(void *context, const char *key, uint64_t bytes, void **blob) {
    struct store *store = context;
    struct file *file;
    pthread_mutex_lock(&store->lock);
    int code = take(store, key, bytes, &file);
    pthread_mutex_unlock(&store->lock);
    if (code) return code;
    memset(file->start, 0, bytes);
    *blob = file;
    return 0;
}

static int32_t put(void *context, const char *key, const void *data, size_t bytes) {
    struct store *store = context;
    struct file *file;
    pthread_mutex_lock(&store->lock);
    int code = take(store, key, bytes, &file);
    if (!code) {
        memcpy(file->start, data, bytes);
        file->published = 1;
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

static int32_t erase(void *context, const char *key) {
    struct store *store = context;
    pthread_mutex_lock(&store->lock);
    struct file *file = find(store, key);
    /* Its room stays with the entry, for the next file. */
    if (file) file->key[0] = 0, file->published = 0;
    pthread_mutex_unlock(&store->lock);
    return 0;
}

/* Several threads at once, but never the same range: no lock is needed. */
static int32_t write_at(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context;
    struct file *file = blob;
    if (offset > file->bytes || bytes > file->bytes - offset) return EINVAL;
    memcpy(file->start + offset, data, bytes);
    return 0;
}

static int32_t publish(void *context, void *blob) {
    (void)context;
    ((struct file *)blob)->published = 1;
    return 0;
}

static int32_t finish(void *context, void *blob, uint64_t bytes) {
    (void)context;
    ((struct file *)blob)->bytes = bytes;
    return 0;
}

/* Writes the store's files below a folder: what a host would do when it fetches them. */
static int save(const struct store *store, const char *folder) {
    mkdir(folder, 0777);
    for (int at = 0; at < FILES; at++) {
        const struct file *file = &store->files[at];
        if (!file->published) continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, file->key);
        for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
            *slash = 0;
            mkdir(path, 0777);
            *slash = '/';
        }
        FILE *out = fopen(path, "wb");
        if (!out) return 1;
        size_t written = fwrite(file->start, 1, file->bytes, out);
        if (fclose(out) || written != file->bytes) return 1;
    }
    return 0;
}

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    const sw_storage storage = {.size = sizeof storage,
                                .context = &the_store,
                                .create = create,
                                .put = put,
                                .remove = erase,
                                .write_at = write_at,
                                .publish = publish,
                                .finish = finish};
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .size = FRAMES, .chunk = 8, .shard = 32},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    sw_config_init(&config, sizeof config);
    config.dims = dims;
    config.dim_count = 3;
    config.workers = 1;
    config.ring_bytes = 512 << 10;
    config.checkpoint_every_ms = 0;

    sw_memory memory = {.size = sizeof memory};
    if (sw_memory_needed(&config, &memory)) return failed("memory");
    printf("at most %llu bytes, of which %llu for frames; %llu threads\n", (unsigned long long)memory.total_bytes,
           (unsigned long long)memory.ring_bytes, (unsigned long long)memory.threads);
    if (memory.total_bytes > memory_budget) return fprintf(stderr, "more than there is\n"), 1;

    sw_acquisition *acquisition;
    if (sw_create_in(&storage, &config, &acquisition)) return failed("create");
    for (uint64_t number = 0; number < FRAMES; number++) {
        sw_frame frame;
        if (sw_acquire(acquisition, SW_FOREVER, &frame)) return failed("acquire");
        uint16_t *pixels = frame.data;
        for (int at = 0; at < SIDE * SIDE; at++) pixels[at] = (uint16_t)(number * 17 + (uint64_t)at);
        if (sw_commit(acquisition, &frame, number, NULL)) return failed("commit");
    }
    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(acquisition, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(acquisition)) return failed("free");
    printf("%llu frames written, %llu missing\n", (unsigned long long)summary.frames_written,
           (unsigned long long)summary.frames_missing);
    return argc > 1 ? save(&the_store, argv[1]) : 0;
}
