// Objects whose end comes where it can't be waited for: in a callback of the run itself, and while other threads are in
// a call with its handle. None of the handles is lost, and no callback outlives what it owns.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <shardwright.hpp>
#include <string>
#include <thread>
#include <unistd.h>

namespace sw = shardwright;

#define HOLDS(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, sw_last_error());              \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (0)

static std::string folder;

static std::unique_ptr<sw::Acquisition> run(int round) {
    sw::Config config;
    config.fields.dtype = SW_U8;
    config.fields.ring_bytes = 8 * 4096;
    config.fields.workers = 1;
    config.fields.sync = 0;
    config.dim("t", SW_DIM_TIME, 0, 1, 2).dim("y", SW_DIM_SPACE, 16).dim("x", SW_DIM_SPACE, 16);
    std::unique_ptr<sw::Acquisition> acquisition(new sw::Acquisition);
    const std::string path = folder + "/" + std::to_string(round) + ".zarr";
    // More handles than there may be at once are made in all: one that is lost would be missed.
    HOLDS(acquisition->try_create(path.c_str(), config) == SW_OK);
    return acquisition;
}

static void append(sw_acquisition *handle, int frames) {
    static const unsigned char pixels[16 * 16] = {7};
    for (int at = 0; at < frames; at++) {
        if (sw_append(handle, pixels, sizeof pixels, 0, nullptr, SW_FOREVER, nullptr) != SW_OK) return;
    }
}

// What a callback owns, and whose end it must see.
struct Owned {
    std::atomic<int> *alive;
    explicit Owned(std::atomic<int> *alive) : alive(alive) { ++*alive; }
    Owned(const Owned &other) : alive(other.alive) { ++*alive; }
    Owned &operator=(const Owned &) = delete;
    ~Owned() { --*alive; }
};

// The thread that closes shards destroys the run that it belongs to, in its own callback.
static void in_its_own_callback(int rounds) {
    std::atomic<int> alive{0};
    for (int round = 0; round < rounds; round++) {
        auto destroyed = std::make_shared<std::atomic<bool>>(false);
        std::shared_ptr<sw::Acquisition> acquisition(run(round).release());
        sw_acquisition *handle = acquisition->get();
        auto last = std::make_shared<std::shared_ptr<sw::Acquisition>>(acquisition);
        Owned owned(&alive);
        HOLDS(acquisition->try_on_shard_closed([last, owned, destroyed](const char *) {
            last->reset();
            // It lives on while it runs.
            HOLDS(owned.alive->load() > 0);
            *destroyed = true;
        }) == SW_OK);
        acquisition.reset();
        last.reset();
        append(handle, 4);
        while (!*destroyed) std::this_thread::yield();
    }
    while (alive > 0) std::this_thread::yield();
}

// While other threads wait in calls with its handle.
static void with_threads_inside(int rounds) {
    for (int round = 0; round < rounds; round++) {
        std::unique_ptr<sw::Acquisition> acquisition = run(1000 + round);
        sw_acquisition *handle = acquisition->get();
        int32_t descriptor = -1;
        HOLDS(acquisition->try_event_open(SW_EVENT_ERROR, descriptor) == SW_OK);
        std::thread waits([=] {
            sw_events events;
            while (sw_event_wait(handle, descriptor, 60000, &events) == SW_OK && !(events & SW_EVENT_ENDED)) {
            }
        });
        std::thread looks([=] {
            sw_stats stats = {};
            stats.size = sizeof stats;
            while (sw_get_stats(handle, &stats) == SW_OK) {
            }
        });
        std::thread appends([=] { append(handle, 1000); });
        usleep(static_cast<useconds_t>(round % 10 * 100));
        acquisition.reset();
        waits.join();
        looks.join();
        appends.join();
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    alarm(300);
    in_its_own_callback(2 * SW_ACQUISITIONS_MAX);
    with_threads_inside(2 * SW_ACQUISITIONS_MAX);
    std::puts("none was lost");
    return 0;
}
