// A circular buffer as Micro-Manager's core has one: the camera adapter inserts images with their tags on its own
// thread, the application pops them, snaps the newest for display, and everything is saved on the way. The ring is the
// circular buffer: an inserted image is copied once, into the buffer from which the workers read.
//
//   c++ -std=c++17 circular_buffer.cpp $(pkg-config --cflags --libs shardwright) -lpthread && ./a.out run.ome.zarr

#include <shardwright.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned width = 256, height = 128, images = 300;

// What a camera adapter calls: InsertImage, as in MMDevice's MM::Core, with pixels in memory of the adapter's own.
class CircularBuffer {
public:
    explicit CircularBuffer(const char *path) : acquisition_(path, config()) {
        acquisition_.set_attribute("camera", "{\"adapter\": \"DemoCamera\"}");
    }

    // false: the buffer has overflowed, as Micro-Manager calls it; the adapter may wait and insert the image again.
    bool insert(const std::vector<uint16_t> &image, double elapsed_ms) {
        shardwright::Frame frame;
        sw_status status = acquisition_.try_acquire(frame, 0);
        if (status == SW_RING_FULL) return false;
        shardwright::check(status);
        std::memcpy(frame.data(), image.data(), image.size() * sizeof image[0]);
        {
            std::lock_guard<std::mutex> lock(newest_lock_);
            newest_.assign(image.begin(), image.end());
        }
        frame.commit(SW_NEXT, shardwright::Record().value(elapsed_ms));
        return true;
    }

    // What the live window shows.
    std::vector<uint16_t> newest() const {
        std::lock_guard<std::mutex> lock(newest_lock_);
        return newest_;
    }

    unsigned percent_free() const {
        sw_stats stats = acquisition_.stats();
        return static_cast<unsigned>(100 * stats.ring_free / stats.ring_frames);
    }

    sw_summary finish() { return acquisition_.finish(); }

private:
    static shardwright::Config config() {
        static const sw_record_field fields[] = {{"ElapsedTime-ms", SW_F64, 0}};
        shardwright::Config config;
        config.dim("t", SW_DIM_TIME, 0, 8, 64, 0.01, "second");
        config.dim("y", SW_DIM_SPACE, height, 0, 0, 0.65, "micrometer");
        config.dim("x", SW_DIM_SPACE, width, 0, 0, 0.65, "micrometer");
        config.fields.ring_bytes = 4 << 20;
        config.fields.record_fields = fields;
        config.fields.record_field_count = 1;
        return config;
    }

    shardwright::Acquisition acquisition_;
    mutable std::mutex newest_lock_;
    std::vector<uint16_t> newest_;
};

void sequence_thread(CircularBuffer &buffer, std::atomic<unsigned> &overflows, std::string &error) try {
    std::vector<uint16_t> image(width * height);
    for (unsigned number = 0; number < images; number++) {
        for (unsigned at = 0; at < image.size(); at++) image[at] = static_cast<uint16_t>(number * 31 + at % 977);
        while (!buffer.insert(image, 10.0 * number)) {
            overflows++;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
} catch (const shardwright::Error &e) {
    error = e.what();
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 2) return std::fprintf(stderr, "usage: %s OUTPUT\n", argv[0]), 2;
    CircularBuffer buffer(argv[1]);
    std::atomic<unsigned> overflows{0};
    std::string error;
    std::thread camera([&] { sequence_thread(buffer, overflows, error); });
    // Meanwhile the window looks at the newest image, as often as it likes.
    unsigned looks = 0;
    for (; looks < 20; looks++) {
        if (buffer.percent_free() > 100 || buffer.newest().size() > width * height) return 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    camera.join();
    if (!error.empty()) return std::fprintf(stderr, "camera: %s\n", error.c_str()), 1;
    sw_summary summary = buffer.finish();
    std::printf("%llu frames written, %llu missing\n", static_cast<unsigned long long>(summary.frames_written),
                static_cast<unsigned long long>(summary.frames_missing));
} catch (const shardwright::Error &e) {
    std::fprintf(stderr, "%s (status %d)\n", e.what(), static_cast<int>(e.status()));
    return 1;
}
