// Objects whose end comes in a callback of the run itself, where it can't be waited for, in one of another run, where
// it is, and while other threads are in a call with its handle. None of the handles is lost, and no callback outlives
// what it owns.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <shardwright.hpp>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sw = shardwright;

#define HOLDS(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, sw_last_error());              \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (0)

static std::string folder;

static sw::Config tiny() {
    sw::Config config;
    config.fields.dtype = SW_U8;
    config.fields.ring_bytes = 8 * 4096;
    config.fields.workers = 1;
    config.fields.sync = 0;
    config.dim("t", SW_DIM_TIME, 0, 1, 2).dim("y", SW_DIM_SPACE, 16).dim("x", SW_DIM_SPACE, 16);
    return config;
}

static std::unique_ptr<sw::Acquisition> run(int round) {
    std::unique_ptr<sw::Acquisition> acquisition(new sw::Acquisition);
    const std::string path = folder + "/" + std::to_string(round) + ".zarr";
    HOLDS(acquisition->try_create(path.c_str(), tiny()) == SW_OK);
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

// A storage that ends the program if it is called after its end.
class Watched : public sw::Storage {
public:
    ~Watched() override { is_gone = true; }
    int32_t create(const char *, uint64_t, void **blob) override { return *blob = this, called(); }
    int32_t put(const char *, const void *, size_t) override { return called(); }
    int32_t write_at(void *, uint64_t, const void *, size_t) override { return called(); }
    int32_t finish(void *, uint64_t) override { return called(); }
    void release(void *) override { called(); }

private:
    std::atomic<bool> is_gone{false};
    int32_t called() {
        HOLDS(!is_gone);
        usleep(200);
        HOLDS(!is_gone);
        return 0;
    }
};

// Two cameras: when a shard of the one is closed, the other is given up, and its storage with it.
static void in_a_callback_of_another_run(int rounds) {
    for (int round = 0; round < rounds; round++) {
        // Where the memory of one that is gone can still be looked at.
        alignas(Watched) static unsigned char place[sizeof(Watched)];
        Watched *storage = new (place) Watched;
        auto other = std::make_shared<sw::Acquisition>();
        HOLDS(other->try_create_in(*storage, tiny()) == SW_OK);
        append(other->get(), 5);
        std::unique_ptr<sw::Acquisition> acquisition = run(2000 + round);
        std::atomic<bool> destroyed{false};
        HOLDS(acquisition->try_on_shard_closed([&](const char *) {
            if (!other) return;
            other.reset();
            storage->~Watched();
            destroyed = true;
        }) == SW_OK);
        append(acquisition->get(), 4);
        while (!destroyed) std::this_thread::yield();
        usleep(3000);
        sw_summary summary;
        HOLDS(acquisition->try_finish(summary) == SW_OK);
    }
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

// As many handles as there may be can be had: a handle that was lost would be missed.
static void all_are_free() {
    const std::vector<std::string> names = [] {
        std::vector<std::string> names;
        for (int at = 0; at < SW_ACQUISITIONS_MAX; at++) names.push_back("image-" + std::to_string(at));
        return names;
    }();
    sw::Dataset dataset;
    HOLDS(dataset.try_create((folder + "/all.zarr").c_str()) == SW_OK);
    std::vector<sw::Acquisition> all;
    HOLDS(dataset.try_acquisitions(names, {tiny()}, all) == SW_OK && all.size() == names.size());
    sw::Acquisition more;
    HOLDS(dataset.try_acquisition("more", tiny(), more) == SW_ERROR_TOO_MANY);
    HOLDS(sw::try_finish_all(all) == SW_OK);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    alarm(300);
    in_its_own_callback(200);
    in_a_callback_of_another_run(20);
    with_threads_inside(200);
    all_are_free();
    std::puts("none was lost");
    return 0;
}
