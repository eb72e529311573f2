// shardwright for C++17: handles that free themselves, frames that go back if they are not committed.
//
// Each call has two forms. `try_...` returns the status of the C call and never throws; std::bad_alloc apart, where a
// text or a list is asked for, or a string, a list or a function is given. The plain form throws shardwright::Error; it
// is there where exceptions are (not with -fno-exceptions). Everything else is as shardwright.h says. Objects have the
// same layout with and without exceptions.
//
// Several threads may make calls of one Acquisition or Dataset at once, as with a handle of C; but to create into it,
// to move it and to destroy it is for one thread, while no other uses it. A Config, a Record and a Frame are for one
// thread at a time. A Storage is called by several threads of the library at once.
#ifndef SHARDWRIGHT_HPP
#define SHARDWRIGHT_HPP

#if !(__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#error "shardwright.hpp needs C++17: compile with -std=c++17, or include shardwright.h, which is for C++11, too"
#endif

#include "shardwright.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#define SHARDWRIGHT_EXCEPTIONS 1
#else
#define SHARDWRIGHT_EXCEPTIONS 0
#endif

namespace shardwright {

#if SHARDWRIGHT_EXCEPTIONS
// A call that failed: the text is that of sw_last_error.
class Error : public std::runtime_error {
public:
    explicit Error(sw_status status) : std::runtime_error(sw_last_error()), status_(status) {}
    sw_status status() const noexcept { return status_; }

private:
    sw_status status_;
};

inline void check(sw_status status) {
    if (status != SW_OK) throw Error(status);
}
#endif

namespace detail {
// Asks a call how long its text is, and then for the text. It may have grown in between.
template <typename Call> sw_status text(Call call, std::string &out) {
    for (;;) {
        size_t needed = 0;
        sw_status status = call(nullptr, 0, &needed);
        if (status != SW_OK) return status;
        out.resize(needed);
        status = call(&out[0], out.size(), &needed);
        if (status != SW_ERROR_SIZE || needed <= out.size()) {
            out.resize(status == SW_OK ? needed - 1 : 0);
            return status;
        }
    }
}

// A string as C takes it. One with a zero byte, which would end it there, has another byte in its place that is as
// little a part of any name or JSON value: it is refused for that.
inline std::string for_c(std::string text) {
    for (char &byte : text) {
        if (byte == '\0') byte = '\x01';
    }
    return text;
}

// The functions that a run calls. Where they are must not change: the library knows it.
struct Tellers {
    using OfShards = std::function<void(const char *)>;
    using OfEvents = std::function<void(sw_events)>;
    std::vector<std::unique_ptr<OfShards>> of_shards;
    std::vector<std::unique_ptr<OfEvents>> of_events;
};

// Held while the functions of a run are looked at or added to, and never while the library is called, which may call
// them. One for all runs: an acquisition that has a lock of its own can't be moved.
inline std::mutex &tellers_lock() {
    static std::mutex &lock = *new std::mutex;
    return lock;
}

// Frees a run that has ended, as soon as no other thread is in a call with it.
inline void free_ended(sw_acquisition *handle, std::unique_ptr<Tellers> tellers) noexcept {
    sw_status status;
    while ((status = sw_free(handle)) == SW_ERROR_BUSY) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // A run that could not be ended may still call them.
    if (status == SW_ERROR_NOT_ENDED) (void)tellers.release();
}

// Ends a run that nobody has a handle of any more, and returns when it has ended, where that can be waited for.
inline void end(sw_acquisition *handle, std::unique_ptr<Tellers> tellers) noexcept {
    if (sw_abort(handle, SW_FOREVER) != SW_ERROR_BUSY) return free_ended(handle, std::move(tellers));
    // This is a callback in which that can't be waited for: see sw_close.
    Tellers *kept = tellers.release();
    auto elsewhere = [handle, kept]() noexcept {
        sw_abort(handle, SW_FOREVER);
        free_ended(handle, std::unique_ptr<Tellers>(kept));
    };
#if SHARDWRIGHT_EXCEPTIONS
    try {
        std::thread(elsewhere).detach();
    } catch (...) {
        // There is no thread: the run goes on, and may call what is kept.
    }
#else
    std::thread(elsewhere).detach();
#endif
}
} // namespace detail

// The configuration with its defaults, and the dimensions that it points to. Everything else is set in `fields`.
class Config {
public:
    sw_config fields;

    Config() noexcept { sw_config_init(&fields, sizeof fields); }

    // Adds a dimension, slowest first. The texts must live as long as the configuration. 0: as sw_dim says.
    Config &dim(const char *name, sw_dim_kind kind, uint64_t size, uint64_t chunk = 0, uint64_t shard = 0,
                double scale = 0.0, const char *unit = nullptr, double translation = 0.0) {
        sw_dim dim = {};
        dim.name = name;
        dim.kind = kind;
        dim.size = size;
        dim.chunk = chunk;
        dim.shard = shard;
        dim.scale = scale;
        dim.unit = unit;
        dim.translation = translation;
        dims_.push_back(dim);
        return *this;
    }

    // Frame buffers of the program's own; the list must live as long as the configuration. `release` is called when the
    // library is done with all of them; see sw_config.
    Config &own_buffers(void *const *buffers, size_t count, size_t bytes_each, void (*release)(void *) = nullptr,
                        void *context = nullptr) noexcept {
        fields.own_buffers = buffers;
        fields.own_buffer_count = count;
        fields.own_buffer_bytes = bytes_each;
        fields.own_buffers_release = release;
        fields.own_buffers_context = context;
        return *this;
    }

    // What the C calls take; good as long as this object lives and is not changed.
    sw_config whole() const noexcept {
        sw_config whole = fields;
        if (!dims_.empty()) {
            whole.dims = dims_.data();
            whole.dim_count = dims_.size();
        }
        return whole;
    }

    // What it will need, before anything is created.
    [[nodiscard]] sw_status try_memory_needed(sw_memory &memory) const noexcept {
        memory.size = sizeof memory;
        const sw_config config = whole();
        return sw_memory_needed(&config, &memory);
    }
    // The configuration as a JSON document.
    [[nodiscard]] sw_status try_json(std::string &text) const {
        const sw_config config = whole();
        return detail::text([&](char *out, size_t room, size_t *needed) {
            return sw_config_json(&config, out, room, needed);
        }, text);
    }
#if SHARDWRIGHT_EXCEPTIONS
    sw_memory memory_needed() const {
        sw_memory memory = {};
        check(try_memory_needed(memory));
        return memory;
    }
    std::string json() const {
        std::string text;
        check(try_json(text));
        return text;
    }
#endif

private:
    std::vector<sw_dim> dims_;
};

// A record whose values live with it.
class Record {
public:
    Record &device_timestamp(uint64_t ticks) noexcept {
        fields_.device_timestamp = ticks;
        fields_.has |= SW_HAS_DEVICE_TIMESTAMP;
        return *this;
    }
    Record &host_timestamp(int64_t ns_since_1970) noexcept {
        fields_.host_timestamp = ns_since_1970;
        fields_.has |= SW_HAS_HOST_TIMESTAMP;
        return *this;
    }
    // Adds the value of the next record field, a number of any type.
    template <typename Number> Record &value(Number number) {
        static_assert(std::is_arithmetic<Number>::value, "record fields are numbers");
        sw_value value = {};
        if (std::is_floating_point<Number>::value) {
            value.kind = SW_VALUE_FLOAT;
            value.number.f = static_cast<double>(number);
        } else if (std::is_signed<Number>::value) {
            value.kind = SW_VALUE_INT;
            value.number.i = static_cast<int64_t>(number);
        } else {
            value.kind = SW_VALUE_UINT;
            value.number.u = static_cast<uint64_t>(number);
        }
        values_.push_back(value);
        return *this;
    }
    // Forgets all that was set; the memory stays, for the next frame.
    Record &clear() noexcept {
        fields_ = empty();
        values_.clear();
        return *this;
    }

    // What the C calls take; good as long as this object lives and is not changed.
    sw_record whole() const noexcept {
        sw_record whole = fields_;
        whole.values = values_.data();
        whole.value_count = static_cast<uint32_t>(values_.size());
        return whole;
    }

private:
    static sw_record empty() noexcept {
        sw_record record = {};
        record.size = sizeof record;
        return record;
    }

    sw_record fields_ = empty();
    std::vector<sw_value> values_;
};

// A buffer on loan. It goes back unused if it is not committed.
class Frame {
public:
    Frame() noexcept = default;
    Frame(Frame &&other) noexcept { swap(other); }
    Frame &operator=(Frame &&other) noexcept {
        Frame moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~Frame() { (void)try_discard(); }

    explicit operator bool() const noexcept { return acquisition_ != nullptr; }
    void *data() const noexcept { return frame_.data; }
    size_t bytes() const noexcept { return frame_.bytes; }
    uint32_t index() const noexcept { return frame_.index; }

    // After SW_ERROR_RECORD and errors of wrong arguments, SW_ERROR_NULL to SW_ERROR_FORKED, the frame is still this
    // object's, to be committed otherwise or discarded; else not any more.
    [[nodiscard]] sw_status try_commit(uint64_t number = SW_NEXT, const sw_record *record = nullptr) noexcept {
        sw_status status = sw_commit(acquisition_, acquisition_ ? &frame_ : nullptr, number, record);
        const bool is_kept = status == SW_ERROR_RECORD || (status >= SW_ERROR_NULL && status <= SW_ERROR_FORKED);
        if (!is_kept) acquisition_ = nullptr;
        return status;
    }
    [[nodiscard]] sw_status try_commit(uint64_t number, const Record &record) noexcept {
        const sw_record whole = record.whole();
        return try_commit(number, &whole);
    }
    [[nodiscard]] sw_status try_commit(const Record &record) noexcept { return try_commit(SW_NEXT, record); }
    [[nodiscard]] sw_status try_discard() noexcept {
        if (!acquisition_) return SW_OK;
        return sw_discard(std::exchange(acquisition_, nullptr), &frame_);
    }
#if SHARDWRIGHT_EXCEPTIONS
    void commit(uint64_t number = SW_NEXT, const sw_record *record = nullptr) { check(try_commit(number, record)); }
    void commit(uint64_t number, const Record &record) { check(try_commit(number, record)); }
    void commit(const Record &record) { check(try_commit(record)); }
    void discard() { check(try_discard()); }
#endif

private:
    friend class Acquisition;
    void swap(Frame &other) noexcept {
        std::swap(acquisition_, other.acquisition_);
        std::swap(frame_, other.frame_);
    }

    sw_acquisition *acquisition_ = nullptr;
    sw_frame frame_ = {};
};

// A storage of the program's own. Each function returns 0, or an errno value; one that throws counts as EIO.
class Storage {
public:
    virtual ~Storage() = default;
    virtual int32_t create(const char *key, uint64_t bytes, void **blob) = 0;
    virtual int32_t put(const char *key, const void *data, size_t bytes) = 0;
    virtual int32_t write_at(void *blob, uint64_t offset, const void *data, size_t bytes) = 0;
    virtual int32_t finish(void *blob, uint64_t bytes) = 0;
    virtual int32_t remove(const char *) { return 0; }
    virtual int32_t publish(void *) { return 0; }
    virtual int32_t sync(void *) { return 0; }
    virtual int32_t punch(void *, uint64_t, uint64_t) { return 0; }
    virtual void release(void *) {}
    virtual size_t alignment() const { return 0; }
    // Whether there is something in it already: then no dataset is created there. One that throws counts as true.
    virtual bool is_used() { return false; }

    // What the C calls take. The object must stay until all that is written through it is freed.
    sw_storage table() noexcept {
        sw_storage table = {};
        table.size = sizeof table;
        table.context = this;
        table.create = [](void *self, const char *key, uint64_t bytes, void **blob) {
            return guarded([&] { return of(self).create(key, bytes, blob); });
        };
        table.put = [](void *self, const char *key, const void *data, size_t bytes) {
            return guarded([&] { return of(self).put(key, data, bytes); });
        };
        table.remove = [](void *self, const char *key) { return guarded([&] { return of(self).remove(key); }); };
        table.write_at = [](void *self, void *blob, uint64_t offset, const void *data, size_t bytes) {
            return guarded([&] { return of(self).write_at(blob, offset, data, bytes); });
        };
        table.publish = [](void *self, void *blob) { return guarded([&] { return of(self).publish(blob); }); };
        table.sync = [](void *self, void *blob) { return guarded([&] { return of(self).sync(blob); }); };
        table.finish = [](void *self, void *blob, uint64_t bytes) {
            return guarded([&] { return of(self).finish(blob, bytes); });
        };
        table.punch = [](void *self, void *blob, uint64_t offset, uint64_t bytes) {
            return guarded([&] { return of(self).punch(blob, offset, bytes); });
        };
        table.release = [](void *self, void *blob) {
            guarded([&] {
                of(self).release(blob);
                return 0;
            });
        };
        table.alignment = alignment();
        table.is_used = [](void *self) { return guarded([&] { return of(self).is_used() ? 1 : 0; }); };
        return table;
    }

private:
    static Storage &of(void *self) noexcept { return *static_cast<Storage *>(self); }
    template <typename Call> static int32_t guarded(Call call) noexcept {
#if SHARDWRIGHT_EXCEPTIONS
        try {
            return call();
        } catch (...) {
            return 5; // EIO
        }
#else
        return call();
#endif
    }
};

// An acquisition. Its destructor aborts a run that was not finished, and waits for that, and for other threads that are
// in a call with it: finish to keep everything. When it returns, nothing of the run uses its storage or its own buffers
// any more. It does so in callbacks of other runs, too. In a callback in which sw_abort is SW_ERROR_BUSY (of the run
// itself, of an image of the same dataset, of a run whose end one of this run's waits for, and in the log's function),
// it does not wait: a thread of its own then ends the run, until which the callbacks live, and until which a storage
// and own buffers must be kept. Don't destroy those there.
class Acquisition {
public:
    Acquisition() noexcept = default;
    Acquisition(Acquisition &&other) noexcept { swap(other); }
    Acquisition &operator=(Acquisition &&other) noexcept {
        Acquisition moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~Acquisition() {
        if (handle_) detail::end(handle_, std::move(tellers_));
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    sw_acquisition *get() const noexcept { return handle_; }

    [[nodiscard]] sw_status try_create(const char *path, const Config &config) noexcept {
        const sw_config whole = config.whole();
        return take([&](sw_acquisition **handle) { return sw_create(path, &whole, handle); });
    }
    [[nodiscard]] sw_status try_create_in(const sw_storage &storage, const Config &config) noexcept {
        const sw_config whole = config.whole();
        return take([&](sw_acquisition **handle) { return sw_create_in(&storage, &whole, handle); });
    }
    [[nodiscard]] sw_status try_create_in(Storage &storage, const Config &config) noexcept {
        return try_create_in(storage.table(), config);
    }

    [[nodiscard]] sw_status try_acquire(Frame &frame, int64_t timeout_ms = SW_AS_CONFIGURED) noexcept {
        return lend(frame, [&](sw_frame *fresh) { return sw_acquire(handle_, timeout_ms, fresh); });
    }
    // This buffer and no other, and its way back by its index alone: for drivers that know all of them.
    [[nodiscard]] sw_status try_acquire_buffer(uint32_t index, Frame &frame,
                                               int64_t timeout_ms = SW_AS_CONFIGURED) noexcept {
        return lend(frame, [&](sw_frame *fresh) { return sw_acquire_buffer(handle_, index, timeout_ms, fresh); });
    }
    [[nodiscard]] sw_status try_commit_buffer(uint32_t index, uint64_t number = SW_NEXT,
                                              const sw_record *record = nullptr) noexcept {
        return sw_commit_buffer(handle_, index, number, record);
    }
    [[nodiscard]] sw_status try_commit_buffer(uint32_t index, uint64_t number, const Record &record) noexcept {
        const sw_record whole = record.whole();
        return try_commit_buffer(index, number, &whole);
    }
    [[nodiscard]] sw_status try_commit_buffer(uint32_t index, const Record &record) noexcept {
        return try_commit_buffer(index, SW_NEXT, record);
    }
    [[nodiscard]] sw_status try_discard_buffer(uint32_t index) noexcept { return sw_discard_buffer(handle_, index); }
    // The addresses of all buffers, by index.
    [[nodiscard]] sw_status try_buffers(std::vector<void *> &addresses) const {
        size_t count = 0;
        sw_status status = sw_buffers(handle_, nullptr, 0, &count);
        if (status != SW_OK) return status;
        addresses.resize(count);
        return sw_buffers(handle_, addresses.data(), addresses.size(), &count);
    }

    // `row_stride`: from row to row in bytes; 0: rows follow each other.
    [[nodiscard]] sw_status try_append(const void *pixels, size_t bytes, sw_appended &appended,
                                       const sw_record *record = nullptr, int64_t timeout_ms = SW_AS_CONFIGURED,
                                       size_t row_stride = 0) noexcept {
        return sw_append(handle_, pixels, bytes, row_stride, record, timeout_ms, &appended);
    }
    [[nodiscard]] sw_status try_append(const void *pixels, size_t bytes, sw_appended &appended, const Record &record,
                                       int64_t timeout_ms = SW_AS_CONFIGURED, size_t row_stride = 0) noexcept {
        const sw_record whole = record.whole();
        return try_append(pixels, bytes, appended, &whole, timeout_ms, row_stride);
    }
    // Colours whose samples follow each other: a frame for each sample.
    [[nodiscard]] sw_status try_append_interleaved(const void *pixels, size_t bytes, uint32_t samples,
                                                   sw_appended &appended, const sw_record *record = nullptr,
                                                   int64_t timeout_ms = SW_AS_CONFIGURED,
                                                   size_t row_stride = 0) noexcept {
        return sw_append_interleaved(handle_, pixels, bytes, samples, row_stride, record, timeout_ms, &appended);
    }
    [[nodiscard]] sw_status try_append_interleaved(const void *pixels, size_t bytes, uint32_t samples,
                                                   sw_appended &appended, const Record &record,
                                                   int64_t timeout_ms = SW_AS_CONFIGURED,
                                                   size_t row_stride = 0) noexcept {
        const sw_record whole = record.whole();
        return try_append_interleaved(pixels, bytes, samples, appended, &whole, timeout_ms, row_stride);
    }
    // Frames of which the camera gives only a part.
    [[nodiscard]] sw_status try_append_roi(const void *pixels, size_t bytes, const sw_roi &roi, sw_appended &appended,
                                           const sw_record *record = nullptr, int64_t timeout_ms = SW_AS_CONFIGURED,
                                           size_t row_stride = 0) noexcept {
        return sw_append_roi(handle_, pixels, bytes, &roi, row_stride, record, timeout_ms, &appended);
    }
    [[nodiscard]] sw_status try_append_roi(const void *pixels, size_t bytes, const sw_roi &roi, sw_appended &appended,
                                           const Record &record, int64_t timeout_ms = SW_AS_CONFIGURED,
                                           size_t row_stride = 0) noexcept {
        const sw_record whole = record.whole();
        return try_append_roi(pixels, bytes, roi, appended, &whole, timeout_ms, row_stride);
    }
    [[nodiscard]] sw_status try_set_attribute(const char *key, const char *json) noexcept {
        return sw_set_attribute(handle_, key, json);
    }
    [[nodiscard]] sw_status try_set_attribute(const char *key, const std::string &json) {
        return sw_set_attribute(handle_, key, detail::for_c(json).c_str());
    }
    // Tells of each shard that is closed from now on; once for an acquisition. The function is called by a thread of
    // the library, and must not throw.
    [[nodiscard]] sw_status try_on_shard_closed(std::function<void(const char *)> tell) {
        if (!tell) return sw_on_shard_closed(handle_, nullptr, nullptr);
        std::unique_ptr<Teller> teller(new Teller(std::move(tell)));
        auto call = [](void *context, const char *key) { (*static_cast<Teller *>(context))(key); };
        Teller *told = teller.get();
        // Whatever becomes of the call: the function lives as long as the run.
        keep([&](detail::Tellers &kept) { kept.of_shards.push_back(std::move(teller)); });
        return sw_on_shard_closed(handle_, call, told);
    }

    [[nodiscard]] sw_status try_finish(sw_summary &summary, int64_t timeout_ms = SW_FOREVER) noexcept {
        summary.size = sizeof summary;
        return sw_finish(handle_, timeout_ms, &summary);
    }
    // Frames that wait in the ring are lost.
    [[nodiscard]] sw_status try_abort(int64_t timeout_ms = SW_FOREVER) noexcept {
        return sw_abort(handle_, timeout_ms);
    }
    [[nodiscard]] sw_status try_summary(sw_summary &summary) const noexcept {
        summary.size = sizeof summary;
        return sw_get_summary(handle_, &summary);
    }
    [[nodiscard]] sw_status try_summary_json(std::string &text) const {
        return detail::text([&](char *out, size_t room, size_t *needed) {
            return sw_summary_json(handle_, out, room, needed);
        }, text);
    }
    [[nodiscard]] sw_status try_stats(sw_stats &stats) const noexcept {
        stats.size = sizeof stats;
        return sw_get_stats(handle_, &stats);
    }
    // The first error of the run, if there was one, and the first frame that it is about.
    [[nodiscard]] sw_status try_first_error() const noexcept { return sw_first_error(handle_); }
    [[nodiscard]] sw_status try_first_error_frame(uint64_t &frame) const noexcept {
        return sw_first_error_frame(handle_, &frame);
    }
    // What SW_NEXT would be now.
    [[nodiscard]] sw_status try_next_number(uint64_t &number) const noexcept {
        return sw_next_number(handle_, &number);
    }
    // Takes no more frames; finish or abort it later.
    [[nodiscard]] sw_status try_close() noexcept { return sw_close(handle_); }
    // A descriptor for poll, epoll or an event loop. It is the library's; this object's end closes it.
    [[nodiscard]] sw_status try_event_open(sw_events events, int32_t &descriptor, uint64_t ring_mark = 0) noexcept {
        return sw_event_open(handle_, events, ring_mark, &descriptor);
    }
    [[nodiscard]] sw_status try_event_wait(int32_t descriptor, sw_events &events,
                                           int64_t timeout_ms = SW_FOREVER) noexcept {
        return sw_event_wait(handle_, descriptor, timeout_ms, &events);
    }
    [[nodiscard]] sw_status try_event_close(int32_t descriptor) noexcept { return sw_event_close(handle_, descriptor); }
    // Tells of each of `events` from now on. The function is called by any thread, by several at once, and must neither
    // wait nor throw.
    [[nodiscard]] sw_status try_on_event(sw_events events, std::function<void(sw_events)> tell,
                                         uint64_t ring_mark = 0) {
        if (!tell) return sw_on_event(handle_, events, ring_mark, nullptr, nullptr);
        std::unique_ptr<EventTeller> teller(new EventTeller(std::move(tell)));
        auto call = [](void *context, sw_events happened) { (*static_cast<EventTeller *>(context))(happened); };
        EventTeller *told = teller.get();
        // As above; the call may tell at once.
        keep([&](detail::Tellers &kept) { kept.of_events.push_back(std::move(teller)); });
        return sw_on_event(handle_, events, ring_mark, call, told);
    }
    [[nodiscard]] sw_status try_latency(sw_stage stage, sw_latency &latency) const noexcept {
        latency.size = sizeof latency;
        return sw_get_latency(handle_, stage, &latency);
    }
    [[nodiscard]] sw_status try_layout(sw_layout &layout) const noexcept {
        layout.size = sizeof layout;
        return sw_get_layout(handle_, &layout);
    }

#if SHARDWRIGHT_EXCEPTIONS
    Acquisition(const char *path, const Config &config) { check(try_create(path, config)); }
    Acquisition(Storage &storage, const Config &config) { check(try_create_in(storage, config)); }
    Acquisition(const sw_storage &storage, const Config &config) { check(try_create_in(storage, config)); }
    Frame acquire(int64_t timeout_ms = SW_AS_CONFIGURED) {
        Frame frame;
        check(try_acquire(frame, timeout_ms));
        return frame;
    }
    Frame acquire_buffer(uint32_t index, int64_t timeout_ms = SW_AS_CONFIGURED) {
        Frame frame;
        check(try_acquire_buffer(index, frame, timeout_ms));
        return frame;
    }
    void commit_buffer(uint32_t index, uint64_t number = SW_NEXT, const sw_record *record = nullptr) {
        check(try_commit_buffer(index, number, record));
    }
    void commit_buffer(uint32_t index, uint64_t number, const Record &record) {
        check(try_commit_buffer(index, number, record));
    }
    void commit_buffer(uint32_t index, const Record &record) { check(try_commit_buffer(index, record)); }
    void discard_buffer(uint32_t index) { check(try_discard_buffer(index)); }
    std::vector<void *> buffers() const {
        std::vector<void *> addresses;
        check(try_buffers(addresses));
        return addresses;
    }
    sw_appended append(const void *pixels, size_t bytes, const sw_record *record = nullptr,
                       int64_t timeout_ms = SW_AS_CONFIGURED, size_t row_stride = 0) {
        sw_appended appended = {};
        check(try_append(pixels, bytes, appended, record, timeout_ms, row_stride));
        return appended;
    }
    sw_appended append(const void *pixels, size_t bytes, const Record &record, int64_t timeout_ms = SW_AS_CONFIGURED,
                       size_t row_stride = 0) {
        const sw_record whole = record.whole();
        return append(pixels, bytes, &whole, timeout_ms, row_stride);
    }
    sw_appended append_interleaved(const void *pixels, size_t bytes, uint32_t samples,
                                   const sw_record *record = nullptr, int64_t timeout_ms = SW_AS_CONFIGURED,
                                   size_t row_stride = 0) {
        sw_appended appended = {};
        check(try_append_interleaved(pixels, bytes, samples, appended, record, timeout_ms, row_stride));
        return appended;
    }
    sw_appended append_interleaved(const void *pixels, size_t bytes, uint32_t samples, const Record &record,
                                   int64_t timeout_ms = SW_AS_CONFIGURED, size_t row_stride = 0) {
        const sw_record whole = record.whole();
        return append_interleaved(pixels, bytes, samples, &whole, timeout_ms, row_stride);
    }
    sw_appended append_roi(const void *pixels, size_t bytes, const sw_roi &roi, const sw_record *record = nullptr,
                           int64_t timeout_ms = SW_AS_CONFIGURED, size_t row_stride = 0) {
        sw_appended appended = {};
        check(try_append_roi(pixels, bytes, roi, appended, record, timeout_ms, row_stride));
        return appended;
    }
    sw_appended append_roi(const void *pixels, size_t bytes, const sw_roi &roi, const Record &record,
                           int64_t timeout_ms = SW_AS_CONFIGURED, size_t row_stride = 0) {
        const sw_record whole = record.whole();
        return append_roi(pixels, bytes, roi, &whole, timeout_ms, row_stride);
    }
    void set_attribute(const char *key, const std::string &json) { check(try_set_attribute(key, json)); }
    void on_shard_closed(std::function<void(const char *)> tell) { check(try_on_shard_closed(std::move(tell))); }
    void first_error() const { check(try_first_error()); }
    uint64_t first_error_frame() const {
        uint64_t frame = 0;
        check(try_first_error_frame(frame));
        return frame;
    }
    uint64_t next_number() const {
        uint64_t number = 0;
        check(try_next_number(number));
        return number;
    }
    void close() { check(try_close()); }
    int32_t event_open(sw_events events, uint64_t ring_mark = 0) {
        int32_t descriptor = -1;
        check(try_event_open(events, descriptor, ring_mark));
        return descriptor;
    }
    sw_events event_wait(int32_t descriptor, int64_t timeout_ms = SW_FOREVER) {
        sw_events events = 0;
        check(try_event_wait(descriptor, events, timeout_ms));
        return events;
    }
    void event_close(int32_t descriptor) { check(try_event_close(descriptor)); }
    void on_event(sw_events events, std::function<void(sw_events)> tell, uint64_t ring_mark = 0) {
        check(try_on_event(events, std::move(tell), ring_mark));
    }
    sw_stats stats() const {
        sw_stats stats = {};
        check(try_stats(stats));
        return stats;
    }
    sw_latency latency(sw_stage stage) const {
        sw_latency latency = {};
        check(try_latency(stage, latency));
        return latency;
    }
    sw_layout layout() const {
        sw_layout layout = {};
        check(try_layout(layout));
        return layout;
    }
    sw_summary finish(int64_t timeout_ms = SW_FOREVER) {
        sw_summary summary = {};
        check(try_finish(summary, timeout_ms));
        return summary;
    }
    void abort(int64_t timeout_ms = SW_FOREVER) { check(try_abort(timeout_ms)); }
    sw_summary summary() const {
        sw_summary summary = {};
        check(try_summary(summary));
        return summary;
    }
    std::string summary_json() const {
        std::string text;
        check(try_summary_json(text));
        return text;
    }
#endif

private:
    friend class Dataset;
    using Teller = detail::Tellers::OfShards;
    using EventTeller = detail::Tellers::OfEvents;

    void swap(Acquisition &other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(tellers_, other.tellers_);
    }
    template <typename Add> void keep(Add add) {
        std::lock_guard<std::mutex> alone(detail::tellers_lock());
        if (!tellers_) tellers_.reset(new detail::Tellers);
        add(*tellers_);
    }
    // Becomes the run that a call creates, if it does.
    template <typename Create> sw_status take(Create create) noexcept {
        Acquisition fresh;
        sw_status status = create(&fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    template <typename Lend> sw_status lend(Frame &frame, Lend lend) noexcept {
        Frame fresh;
        sw_status status = lend(&fresh.frame_);
        if (status != SW_OK) return status;
        fresh.acquisition_ = handle_;
        frame = std::move(fresh);
        return SW_OK;
    }

    sw_acquisition *handle_ = nullptr;
    std::unique_ptr<detail::Tellers> tellers_;
};

// Several images in one dataset.
class Dataset {
public:
    Dataset() noexcept = default;
    Dataset(Dataset &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Dataset &operator=(Dataset &&other) noexcept {
        Dataset moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    ~Dataset() {
        // Until no other thread is in a call with it.
        while (handle_ && sw_dataset_free(handle_) == SW_ERROR_BUSY)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    sw_dataset *get() const noexcept { return handle_; }

    [[nodiscard]] sw_status try_create(const char *path, bool overwrite = false) noexcept {
        Dataset fresh;
        sw_status status = sw_dataset_create(path, overwrite ? 1 : 0, &fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    [[nodiscard]] sw_status try_create_in(const sw_storage &storage) noexcept {
        Dataset fresh;
        sw_status status = sw_dataset_create_in(&storage, &fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    [[nodiscard]] sw_status try_create_in(Storage &storage) noexcept { return try_create_in(storage.table()); }
    // Makes it a plate, before its first image.
    [[nodiscard]] sw_status try_plate(const char *document) noexcept { return sw_dataset_plate(handle_, document); }
    [[nodiscard]] sw_status try_acquisition(const char *name, const Config &config, Acquisition &acquisition) noexcept {
        const sw_config whole = config.whole();
        return acquisition.take([&](sw_acquisition **handle) {
            return sw_dataset_acquisition(handle_, name, &whole, handle);
        });
    }
    // Many at once, as the images of a plate. `configs` has one for all of them, or one for each.
    [[nodiscard]] sw_status try_acquisitions(const std::vector<std::string> &names, const std::vector<Config> &configs,
                                             std::vector<Acquisition> &acquisitions) {
        std::vector<sw_config> whole;
        for (const Config &config : configs) whole.push_back(config.whole());
        // Where one list is shorter, null, which is refused with both numbers.
        const size_t count = whole.size() == 1 || whole.size() < names.size() ? names.size() : whole.size();
        std::vector<std::string> texts;
        for (const std::string &name : names) texts.push_back(detail::for_c(name));
        std::vector<const char *> named;
        std::vector<const sw_config *> pointers;
        for (size_t at = 0; at < count; at++) {
            named.push_back(at < texts.size() ? texts[at].c_str() : nullptr);
            pointers.push_back(whole.size() == 1 ? whole.data() : at < whole.size() ? &whole[at] : nullptr);
        }
        std::vector<sw_acquisition *> handles(count);
        std::vector<Acquisition> fresh(count);
        sw_status status = sw_dataset_acquisitions(handle_, named.data(), pointers.data(), count, handles.data());
        if (status != SW_OK) return status;
        for (size_t at = 0; at < count; at++) fresh[at].handle_ = handles[at];
        acquisitions = std::move(fresh);
        return SW_OK;
    }

#if SHARDWRIGHT_EXCEPTIONS
    explicit Dataset(const char *path, bool overwrite = false) { check(try_create(path, overwrite)); }
    explicit Dataset(Storage &storage) { check(try_create_in(storage)); }
    explicit Dataset(const sw_storage &storage) { check(try_create_in(storage)); }
    void plate(const char *document) { check(try_plate(document)); }
    Acquisition acquisition(const char *name, const Config &config) {
        Acquisition acquisition;
        check(try_acquisition(name, config, acquisition));
        return acquisition;
    }
    std::vector<Acquisition> acquisitions(const std::vector<std::string> &names, const std::vector<Config> &configs) {
        std::vector<Acquisition> acquisitions;
        check(try_acquisitions(names, configs, acquisitions));
        return acquisitions;
    }
#endif

private:
    sw_dataset *handle_ = nullptr;
};

// Ends many at once; the outcome of each is its summary.
[[nodiscard]] inline sw_status try_finish_all(const std::vector<Acquisition> &acquisitions,
                                              int64_t timeout_ms = SW_FOREVER) {
    std::vector<sw_acquisition *> handles;
    for (const Acquisition &acquisition : acquisitions) handles.push_back(acquisition.get());
    return sw_finish_all(handles.data(), handles.size(), timeout_ms);
}
#if SHARDWRIGHT_EXCEPTIONS
inline void finish_all(const std::vector<Acquisition> &acquisitions, int64_t timeout_ms = SW_FOREVER) {
    check(try_finish_all(acquisitions, timeout_ms));
}
#endif

// Whether the library that is loaded fits the header that the program was compiled with.
[[nodiscard]] inline sw_status try_check_version() noexcept {
    return sw_check_version(SW_VERSION_MAJOR, SW_VERSION_MINOR);
}
#if SHARDWRIGHT_EXCEPTIONS
inline void check_version() { check(try_check_version()); }
#endif

// Tells of log lines up to `level`, of the whole process, in place of what was told before; an empty function: nobody.
// It is called by any thread, and must not throw.
[[nodiscard]] inline sw_status try_set_log(sw_log_level level,
                                           std::function<void(sw_log_level, const char *, const char *)> tell) {
    using Tell = std::function<void(sw_log_level, const char *, const char *)>;
    // Never destroyed: runs that end after main still log.
    static std::mutex &setting = *new std::mutex;
    static std::unique_ptr<Tell> &told = *new std::unique_ptr<Tell>;
    static thread_local bool telling = false;
    // The library refuses; to wait for the other thread here would be to wait for one that waits for this.
    if (telling) return sw_set_log(level, nullptr, nullptr);
    std::unique_ptr<Tell> fresh(tell ? new Tell(std::move(tell)) : nullptr);
    auto call = [](void *context, sw_log_level of, const char *source, const char *text) {
        telling = true;
        (*static_cast<Tell *>(context))(of, source, text);
        telling = false;
    };
    std::lock_guard<std::mutex> alone(setting);
    sw_status status = sw_set_log(level, fresh ? +call : nullptr, fresh.get());
    // From here on the one before is not called any more.
    if (status == SW_OK) told = std::move(fresh);
    return status;
}
#if SHARDWRIGHT_EXCEPTIONS
inline void set_log(sw_log_level level, std::function<void(sw_log_level, const char *, const char *)> tell) {
    check(try_set_log(level, std::move(tell)));
}
#endif

} // namespace shardwright

#endif // SHARDWRIGHT_HPP
