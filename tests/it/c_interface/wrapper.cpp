// The C++ wrapper, once with exceptions and once without.

#include <shardwright.hpp>

#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

using namespace shardwright;

#define HOLDS(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, sw_last_error());              \
            return 1;                                                                                                 \
        }                                                                                                             \
    } while (0)

static_assert(!std::is_copy_constructible<Acquisition>::value, "an acquisition has one owner");
static_assert(!std::is_copy_constructible<Frame>::value, "a frame has one owner");
static_assert(std::is_nothrow_move_constructible<Frame>::value, "frames go into containers");

static Config tiny() {
    Config config;
    config.fields.dtype = SW_U8;
    config.fields.ring_bytes = 4 * 4096;
    config.dim("t", SW_DIM_TIME, 0, 1, 4).dim("y", SW_DIM_SPACE, 16).dim("x", SW_DIM_SPACE, 16);
    return config;
}

static uint64_t free_buffers(const Acquisition &acquisition) {
    sw_stats stats;
    return acquisition.try_stats(stats) == SW_OK ? stats.ring_free : 99;
}

static int frames_go_back(const char *path) {
    Acquisition acquisition;
    HOLDS(acquisition.try_create(path, tiny()) == SW_OK);
    HOLDS(acquisition.try_create(path, tiny()) == SW_ERROR_LOCKED && acquisition);
    {
        Frame kept, dropped;
        HOLDS(acquisition.try_acquire(kept) == SW_OK && acquisition.try_acquire(dropped, 0) == SW_OK);
        HOLDS(free_buffers(acquisition) == 2);
        Frame moved = std::move(kept);
        HOLDS(!kept && moved && moved.bytes() == 256);
        std::memset(moved.data(), 1, moved.bytes());
        HOLDS(moved.try_commit(0) == SW_OK && !moved);
        HOLDS(moved.try_commit(1) == SW_ERROR_NULL);
        HOLDS(moved.try_discard() == SW_OK);
        dropped = Frame();
    }
    sw_appended appended;
    static const unsigned char pixels[3 * 256] = {2};
    HOLDS(acquisition.try_append(pixels, sizeof pixels, appended) == SW_OK && appended.frames == 3);
    sw_summary summary;
    HOLDS(acquisition.try_finish(summary) == SW_OK && summary.frames_written == 4);
    HOLDS(free_buffers(acquisition) == 4);
    Acquisition moved = std::move(acquisition);
    HOLDS(!acquisition && moved);
    return 0;
}

// With a ring of four buffers, each loan that got lost would be missed.
static int errors_keep_the_loan_or_give_it_back(const char *path) {
    Acquisition acquisition, other;
    HOLDS(acquisition.try_create(path, tiny()) == SW_OK);
    sw_record wrong = {sizeof wrong, 0, 1, 0, 0, nullptr};
    Frame frame;
    HOLDS(acquisition.try_acquire(frame) == SW_OK);
    for (int time = 0; time < 10000; time++) {
        HOLDS(frame.try_commit(0, &wrong) == SW_ERROR_NULL && frame);
    }
    HOLDS(free_buffers(acquisition) == 3);
    HOLDS(frame.try_commit(0) == SW_OK && !frame);
    for (int time = 0; time < 10000; time++) {
        HOLDS(acquisition.try_acquire(frame) == SW_OK);
        HOLDS(frame.try_commit(0) == SW_ERROR_FRAME_NUMBER && !frame);
    }
    sw_summary summary;
    HOLDS(acquisition.try_finish(summary) == SW_OK && summary.frames_written == 1 && summary.frames_missing == 0);
    return 0;
}

static int fields_beside_a_document_are_refused() {
    Config config;
    config.fields.document = "{\"dims\": [{\"name\": \"t\"}, {\"name\": \"y\", \"size\": 4}, {\"name\": \"x\", \"size\": 4}]}";
    HOLDS(sw_config_json(config.get(), nullptr, 0, nullptr) == SW_OK);
    config.fields.sync = 0;
    HOLDS(sw_config_json(config.get(), nullptr, 0, nullptr) == SW_ERROR_CONFIG && std::strstr(sw_last_error(), "sync"));
    config.fields.sync = 1;
    config.fields.dtype = SW_F32;
    HOLDS(sw_config_json(config.get(), nullptr, 0, nullptr) == SW_ERROR_CONFIG && std::strstr(sw_last_error(), "dtype"));
    return 0;
}

static int an_unfinished_run_is_aborted(const char *path) {
    {
        Acquisition acquisition;
        HOLDS(acquisition.try_create(path, tiny()) == SW_OK);
    }
    // Nothing was acquired, so nothing is left.
    std::FILE *file = std::fopen(path, "r");
    HOLDS(!file);
    return 0;
}

#if SW_HAS_EXCEPTIONS
static int errors_are_thrown(const char *path) {
    try {
        Config config;
        Acquisition acquisition(path, config);
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_CONFIG && std::strstr(error.what(), "dims"));
    }
    Dataset dataset(path);
    Acquisition left = dataset.acquisition("left", tiny());
    left.set_attribute("a", "[1, 2]");
    left.acquire().commit();
    left.acquire().commit(SW_NEXT, Record().device_timestamp(5).host_timestamp(6));
    try {
        left.acquire().commit(0);
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_FRAME_NUMBER);
    }
    const unsigned char pixels[256] = {1};
    HOLDS(left.append(pixels, sizeof pixels).frames == 1);
    HOLDS(left.finish().frames_written == 3 && left.stats().frames_accepted == 3);
    return 0;
}
#else
static int errors_are_thrown(const char *) { return 0; }
#endif

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *more = argv[4];
    return frames_go_back(argv[1]) || an_unfinished_run_is_aborted(argv[2]) || errors_are_thrown(argv[3]) ||
           errors_keep_the_loan_or_give_it_back(more) || fields_beside_a_document_are_refused();
}
