// The C++ wrapper, once with exceptions and once without.

#include <shardwright.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
        HOLDS(moved.try_commit(1) == SW_ERROR_NULL && std::strstr(sw_last_error(), "frame is null"));
        HOLDS(moved.try_discard() == SW_OK);
        dropped = Frame();
    }
    sw_appended appended;
    static const unsigned char pixels[3 * 256] = {2};
    HOLDS(acquisition.try_append(pixels, sizeof pixels, appended) == SW_OK && appended.frames == 3);
    HOLDS(acquisition.try_append_interleaved(pixels, sizeof pixels, 3, appended) == SW_ERROR_CONFIG);
    HOLDS(acquisition.try_append_roi(pixels, 4, sw_roi{0, 0, 2, 2}, appended) == SW_ERROR_CONFIG);
    HOLDS(std::strstr(sw_last_error(), "sw_config.record_roi = 0"));
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
    config.fields.document =
        "{\"dims\": [{\"name\": \"t\"}, {\"name\": \"y\", \"size\": 4}, {\"name\": \"x\", \"size\": 4}]}";
    std::string text;
    HOLDS(config.try_json(text) == SW_OK && text.find("\"uint16\"") != std::string::npos);
    config.fields.sync = 0;
    HOLDS(config.try_json(text) == SW_ERROR_CONFIG && std::strstr(sw_last_error(), "sync"));
    config.fields.sync = 1;
    config.fields.dtype = SW_F32;
    HOLDS(config.try_json(text) == SW_ERROR_CONFIG && std::strstr(sw_last_error(), "dtype"));
    return 0;
}

// A storage that keeps files as strings.
class Strings : public Storage {
public:
    std::map<std::string, std::string> files;

    int32_t create(const char *key, uint64_t bytes, void **blob) override {
        std::string &file = files[key];
        file.assign(bytes, '\0');
        *blob = &file;
        return 0;
    }
    int32_t put(const char *key, const void *data, size_t bytes) override {
        files[key].assign(static_cast<const char *>(data), bytes);
        return 0;
    }
    int32_t write_at(void *blob, uint64_t offset, const void *data, size_t bytes) override {
        static_cast<std::string *>(blob)->replace(offset, bytes, static_cast<const char *>(data), bytes);
        return 0;
    }
    int32_t finish(void *blob, uint64_t bytes) override {
        static_cast<std::string *>(blob)->resize(bytes);
        return 0;
    }
    int32_t remove(const char *key) override {
        files.erase(key);
        return 0;
    }
    bool is_used() override { return !files.empty(); }
};

static int a_storage_that_holds_something_is_not_written_over() {
    Strings strings;
    Acquisition acquisition;
    Config config = tiny();
    config.fields.overwrite = 1;
    HOLDS(acquisition.try_create_in(strings, config) == SW_OK);
    static const unsigned char pixels[256] = {1};
    sw_appended appended;
    HOLDS(acquisition.try_append(pixels, sizeof pixels, appended) == SW_OK);
    uint64_t next = 0;
    HOLDS(acquisition.try_next_number(next) == SW_OK && next == 1);
    HOLDS(acquisition.try_close() == SW_OK);
    HOLDS(acquisition.try_append(pixels, sizeof pixels, appended) == SW_ERROR_ENDED);
    sw_summary summary;
    HOLDS(acquisition.try_finish(summary) == SW_OK);
    const std::string before = strings.files["zarr.json"];
    Acquisition second;
    HOLDS(second.try_create_in(strings, config) == SW_ERROR_EXISTS && !std::strstr(sw_last_error(), "overwrit"));
    Dataset dataset;
    HOLDS(dataset.try_create_in(strings) == SW_ERROR_EXISTS && std::strstr(sw_last_error(), "already holds"));
    HOLDS(strings.files["zarr.json"] == before);
    return 0;
}

// Cut off at the zero, they would be other names and values.
static int strings_with_a_zero_byte_are_refused() {
    Strings strings;
    Dataset dataset;
    HOLDS(dataset.try_create_in(strings) == SW_OK);
    std::vector<Acquisition> images;
    HOLDS(dataset.try_acquisitions({"a", std::string("b\0c", 3)}, {tiny()}, images) == SW_ERROR_CONFIG);
    HOLDS(std::strstr(sw_last_error(), "name = ") && images.empty());
    HOLDS(dataset.try_acquisitions({"a", "b"}, {tiny()}, images) == SW_OK);
    HOLDS(images[0].try_set_attribute("gain", std::string("1\0", 2)) == SW_ERROR_ARGUMENT);
    HOLDS(std::strstr(sw_last_error(), "is not JSON"));
    HOLDS(images[0].try_set_attribute("gain", std::string("1")) == SW_OK);
#if SHARDWRIGHT_EXCEPTIONS
    try {
        images[0].set_attribute("gain", std::string("1\0", 2));
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_ARGUMENT);
    }
#endif
    return 0;
}

static int lists_of_other_lengths_are_refused() {
    Strings strings;
    Dataset dataset;
    HOLDS(!dataset && dataset.try_create_in(strings) == SW_OK && dataset);
    std::vector<Acquisition> images;
    const std::vector<std::string> names = {"a", "b", "c"};
    HOLDS(dataset.try_acquisitions(names, std::vector<Config>(2, tiny()), images) == SW_ERROR_NULL);
    HOLDS(std::strstr(sw_last_error(), "configs[2] is null, and each of the 3 images needs one"));
    HOLDS(dataset.try_acquisitions(names, {}, images) == SW_ERROR_NULL && std::strstr(sw_last_error(), "configs[0]"));
    HOLDS(dataset.try_acquisitions(names, std::vector<Config>(5, tiny()), images) == SW_ERROR_NULL);
    HOLDS(std::strstr(sw_last_error(), "names[3] is null, and each of the 5 images needs one"));
    HOLDS(images.empty() && dataset.try_acquisitions(names, {tiny()}, images) == SW_OK && images.size() == 3);
    std::vector<Acquisition> empty(2);
    HOLDS(try_finish_all(empty) == SW_ERROR_NULL && std::strstr(sw_last_error(), "acquisitions[0]: "));
    HOLDS(images[1].try_abort() == SW_OK && try_finish_all(images) == SW_ERROR_ENDED);
    HOLDS(std::strstr(sw_last_error(), "acquisitions[1]: the acquisition was finished or aborted before"));
    return 0;
}

static int every_call_has_a_wrapper() {
    Strings strings;
    std::vector<std::string> closed, lines;
    sw_events told = 0;
    const auto log = [&](sw_log_level, const char *, const char *text) { lines.push_back(text); };
    HOLDS(try_set_log(SW_LOG_INFO, log) == SW_OK);
    {
        Config config = tiny();
        config.fields.workers = 1;
        sw_memory memory;
        HOLDS(config.try_memory_needed(memory) == SW_OK && memory.ring_bytes >= 4 * 4096);
        Acquisition acquisition;
        HOLDS(acquisition.try_create_in(strings, config) == SW_OK);
        HOLDS(acquisition.try_on_shard_closed(nullptr) == SW_ERROR_NULL && std::strstr(sw_last_error(), "callback"));
        HOLDS(acquisition.try_on_event(SW_EVENT_ENDED, {}) == SW_ERROR_NULL);
        HOLDS(acquisition.try_on_shard_closed([&](const char *key) { closed.push_back(key); }) == SW_OK);
        HOLDS(acquisition.try_on_shard_closed([](const char *) {}) == SW_ERROR_BUSY);
        // The function goes along.
        Acquisition moved = std::move(acquisition);
        std::vector<void *> buffers;
        HOLDS(moved.try_buffers(buffers) == SW_OK && buffers.size() == 4);
        Frame frame;
        HOLDS(moved.try_acquire_buffer(2, frame) == SW_OK && frame.data() == buffers[2] && frame.index() == 2);
        std::memset(frame.data(), 3, frame.bytes());
        HOLDS(moved.try_commit_buffer(2, 0) == SW_OK);
        // Its loan is over: it goes nowhere twice.
        HOLDS(frame.try_discard() == SW_ERROR_FRAME);
        Record record;
        HOLDS(record.value(1.5).whole().value_count == 1 && record.clear().whole().value_count == 0);
        record.value(1).value(2u).value(3L).value(4.0f);
        HOLDS(record.whole().value_count == 4 && record.whole().values[3].kind == SW_VALUE_FLOAT);
        HOLDS(record.whole().values[0].kind == SW_VALUE_INT && record.whole().values[1].kind == SW_VALUE_UINT);
        Frame kept;
        HOLDS(moved.try_acquire(kept) == SW_OK && kept.try_commit(SW_NEXT, record) == SW_ERROR_RECORD && kept);
        HOLDS(kept.try_discard() == SW_OK && !kept);
        static unsigned char wide[16 * 100];
        for (unsigned at = 0; at < sizeof wide; at++) wide[at] = at % 100 < 16 ? 4 : 9;
        sw_appended appended;
        HOLDS(moved.try_append(wide, sizeof wide, appended, nullptr, SW_AS_CONFIGURED, 100) == SW_OK);
        HOLDS(moved.try_append(wide, sizeof wide, appended, record, SW_FOREVER, 100) == SW_ERROR_RECORD);
        sw_layout layout;
        HOLDS(moved.try_layout(layout) == SW_OK && layout.frame_bytes == 256);
        sw_latency latency;
        HOLDS(moved.try_latency(SW_STAGE_COMMIT, latency) == SW_OK && latency.count == 2);
        HOLDS(moved.try_set_attribute("a", "[1]") == SW_OK && moved.try_first_error() == SW_OK);
        uint64_t number;
        HOLDS(moved.try_first_error_frame(number) == SW_ERROR_NOT_FOUND && try_check_version() == SW_OK);
        HOLDS(moved.try_on_event(SW_EVENT_ENDED, [&](sw_events events) { told |= events; }) == SW_OK);
        std::atomic<int> ends{0};
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; thread++)
            threads.emplace_back([&] {
                for (int at = 0; at < 50; at++) (void)moved.try_on_event(SW_EVENT_ENDED, [&](sw_events) { ends++; });
            });
        for (std::thread &thread : threads) thread.join();
        int32_t descriptor;
        sw_events events = 0;
        HOLDS(moved.try_event_open(SW_EVENT_BUFFER_FREE, descriptor) == SW_OK);
        HOLDS(moved.try_event_wait(descriptor, events) == SW_OK && events == SW_EVENT_BUFFER_FREE);
        HOLDS(moved.try_event_wait(descriptor, events, 0) == SW_TIMEOUT);
        HOLDS(moved.try_event_close(descriptor) == SW_OK);
        HOLDS(sw_check_version(99, 0) == SW_ERROR_VERSION && std::strstr(sw_last_error(), "99.0"));
        sw_summary summary;
        HOLDS(moved.try_summary(summary) == SW_ERROR_NOT_ENDED);
        HOLDS(moved.try_finish(summary) == SW_OK && moved.try_summary(summary) == SW_OK);
        HOLDS(summary.frames_written == 2 && closed.size() == 1 && ends == 200);
        std::string text;
        HOLDS(moved.try_summary_json(text) == SW_OK && text.front() == '{' && text.back() == '}');
        HOLDS(moved.try_abort() == SW_OK);
    }
    HOLDS(told == SW_EVENT_ENDED);
    HOLDS(strings.files.count(closed[0]) == 1 && strings.files.count("zarr.json") == 1);
    HOLDS(try_set_log(SW_LOG_NONE, nullptr) == SW_OK);
    HOLDS(lines.size() == 2 && lines[1].find("ended") != std::string::npos);
    return 0;
}

// What support asks for, of threads that no frame waits for.
static int a_run_tells_its_course_in_detail(const char *path) {
    std::atomic<int> prepared{0}, closed{0}, unnamed{0};
    const auto log = [&](sw_log_level level, const char *source, const char *text) {
        // As the header has them.
        const std::string of = source;
        unnamed += of != "shardwright::acquisition" && of != "shardwright::engine" && of != "shardwright::shard" &&
                   of != "shardwright::storage";
        prepared += level == SW_LOG_TRACE && std::strstr(text, "are prepared") != nullptr;
        closed += level == SW_LOG_DEBUG && std::strstr(text, "closed") != nullptr;
    };
    HOLDS(try_set_log(SW_LOG_TRACE, log) == SW_OK);
    {
        Config config = tiny();
        config.fields.workers = 1;
        config.fields.overwrite = 1;
        Acquisition acquisition;
        HOLDS(acquisition.try_create(path, config) == SW_OK);
        static const unsigned char pixels[256] = {1};
        for (int at = 0; at < 40; at++) {
            sw_appended appended;
            HOLDS(acquisition.try_append(pixels, sizeof pixels, appended, nullptr, SW_FOREVER) == SW_OK);
        }
        sw_summary summary;
        HOLDS(acquisition.try_finish(summary) == SW_OK && summary.shards > 1);
    }
    HOLDS(try_set_log(SW_LOG_NONE, nullptr) == SW_OK);
    HOLDS(prepared > 0 && closed > 1 && unnamed == 0);
    return 0;
}

// However many frames an error costs, it is one line for whoever looks at what goes wrong.
static int a_run_fails_once() {
    class Full : public Strings {
    public:
        std::atomic<bool> is_full{false};
        int32_t write_at(void *blob, uint64_t offset, const void *data, size_t bytes) override {
            return is_full ? 28 /* ENOSPC */ : Strings::write_at(blob, offset, data, bytes);
        }
    };
    std::atomic<int> errors{0};
    HOLDS(try_set_log(SW_LOG_WARN, [&](sw_log_level level, const char *, const char *) {
              errors += level == SW_LOG_ERROR;
          }) == SW_OK);
    {
        Full full;
        Acquisition acquisition;
        HOLDS(acquisition.try_create_in(full, tiny()) == SW_OK);
        full.is_full = true;
        static const unsigned char pixels[256] = {1};
        sw_appended appended;
        sw_status status = SW_OK;
        for (int at = 0; at < 100 && status == SW_OK; at++)
            status = acquisition.try_append(pixels, sizeof pixels, appended, nullptr, SW_FOREVER);
        sw_summary summary;
        HOLDS(status == SW_ERROR_IO && acquisition.try_finish(summary) == SW_ERROR_IO);
    }
    HOLDS(try_set_log(SW_LOG_NONE, nullptr) == SW_OK);
    HOLDS(errors == 1);
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

#if SHARDWRIGHT_EXCEPTIONS
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
    left.acquire().commit(Record().device_timestamp(7));
    left.commit_buffer(left.acquire().index(), Record());
    try {
        left.acquire().commit(0);
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_FRAME_NUMBER);
    }
    const unsigned char pixels[256] = {1};
    HOLDS(left.append(pixels, sizeof pixels, Record().device_timestamp(8), SW_FOREVER).frames == 1);
    try {
        left.append_interleaved(pixels, sizeof pixels, 3, Record());
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_CONFIG);
    }
    try {
        left.append_roi(pixels, 4, sw_roi{0, 0, 2, 2}, Record());
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_CONFIG);
    }
    left.first_error();
    check_version();
    int32_t descriptor = left.event_open(SW_EVENT_BUFFER_FREE);
    HOLDS(left.event_wait(descriptor) == SW_EVENT_BUFFER_FREE);
    left.event_close(descriptor);
    left.on_event(SW_EVENT_ENDED, [](sw_events) {});
    try {
        left.first_error_frame();
        return 1;
    } catch (const Error &error) {
        HOLDS(error.status() == SW_ERROR_NOT_FOUND);
    }
    HOLDS(left.finish().frames_written == 5 && left.stats().frames_accepted == 5);
    return 0;
}
#else
static int errors_are_thrown(const char *) { return 0; }
#endif

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *more = argv[4];
    return frames_go_back(argv[1]) || an_unfinished_run_is_aborted(argv[2]) || errors_are_thrown(argv[3]) ||
           errors_keep_the_loan_or_give_it_back(more) || fields_beside_a_document_are_refused() ||
           a_storage_that_holds_something_is_not_written_over() || lists_of_other_lengths_are_refused() ||
           strings_with_a_zero_byte_are_refused() ||
           every_call_has_a_wrapper() || a_run_tells_its_course_in_detail(argv[1]) || a_run_fails_once();
}
