// shardwright for C++17: handles that free themselves, frames that go back if they are not committed.
//
// Each call has two forms. `try_...` returns the status of the C call and never throws. The plain form throws
// shardwright::Error; it is there where exceptions are (not with -fno-exceptions). Everything else is as shardwright.h
// says.
#ifndef SHARDWRIGHT_HPP
#define SHARDWRIGHT_HPP

#include "shardwright.h"

#include <string>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#define SW_HAS_EXCEPTIONS 1
#else
#define SW_HAS_EXCEPTIONS 0
#endif

namespace shardwright {

#if SW_HAS_EXCEPTIONS
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

// The configuration with its defaults, and the dimensions that it points to. Everything else is set in `fields`.
class Config {
public:
    sw_config fields;

    Config() noexcept { sw_config_init(&fields, sizeof fields); }

    // Adds a dimension, slowest first. The texts must live as long as the configuration. 0: as sw_dim says.
    Config &dim(const char *name, sw_dim_kind kind, uint64_t size, uint64_t chunk = 0, uint64_t shard = 0,
                double scale = 0.0, const char *unit = nullptr) {
        sw_dim dim = {};
        dim.name = name;
        dim.kind = kind;
        dim.size = size;
        dim.chunk = chunk;
        dim.shard = shard;
        dim.scale = scale;
        dim.unit = unit;
        dims_.push_back(dim);
        return *this;
    }

    // What the C calls take; good until the configuration changes.
    const sw_config *get() const noexcept {
        whole_ = fields;
        if (!dims_.empty()) {
            whole_.dims = dims_.data();
            whole_.dim_count = dims_.size();
        }
        return &whole_;
    }

private:
    std::vector<sw_dim> dims_;
    mutable sw_config whole_;
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
    // Adds the value of the next record field.
    Record &value(double number) { return add(SW_VALUE_FLOAT, [&](sw_number &n) { n.f = number; }); }
    Record &value(int64_t number) { return add(SW_VALUE_INT, [&](sw_number &n) { n.i = number; }); }
    Record &value(uint64_t number) { return add(SW_VALUE_UINT, [&](sw_number &n) { n.u = number; }); }

    const sw_record *get() const noexcept {
        fields_.values = values_.data();
        fields_.value_count = static_cast<uint32_t>(values_.size());
        return &fields_;
    }

private:
    template <typename Set> Record &add(sw_value_kind kind, Set set) {
        sw_value value = {};
        value.kind = kind;
        set(value.number);
        values_.push_back(value);
        return *this;
    }

    mutable sw_record fields_ = {sizeof(sw_record), 0, 0, 0, 0, nullptr};
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
    ~Frame() { try_discard(); }

    explicit operator bool() const noexcept { return acquisition_ != nullptr; }
    void *data() const noexcept { return frame_.data; }
    size_t bytes() const noexcept { return frame_.bytes; }
    uint32_t index() const noexcept { return frame_.index; }

    // After an error of wrong arguments, SW_ERROR_NULL to SW_ERROR_FORKED, the frame is still this object's, to be
    // committed otherwise or discarded; else not any more.
    sw_status try_commit(uint64_t number = SW_NEXT, const sw_record *record = nullptr) noexcept {
        sw_status status = sw_commit(acquisition_, &frame_, number, record);
        if (status < SW_ERROR_NULL || status > SW_ERROR_FORKED) acquisition_ = nullptr;
        return status;
    }
    sw_status try_discard() noexcept {
        if (!acquisition_) return SW_OK;
        return sw_discard(std::exchange(acquisition_, nullptr), &frame_);
    }
#if SW_HAS_EXCEPTIONS
    void commit(uint64_t number = SW_NEXT, const sw_record *record = nullptr) { check(try_commit(number, record)); }
    void commit(uint64_t number, const Record &record) { commit(number, record.get()); }
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

// An acquisition. Its destructor aborts a run that was not finished, and waits for that: finish to keep everything.
class Acquisition {
public:
    Acquisition() noexcept = default;
    Acquisition(Acquisition &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Acquisition &operator=(Acquisition &&other) noexcept {
        Acquisition moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    ~Acquisition() {
        if (!handle_) return;
        sw_abort(handle_, SW_FOREVER);
        sw_free(handle_);
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    sw_acquisition *get() const noexcept { return handle_; }

    sw_status try_create(const char *path, const Config &config) noexcept {
        Acquisition fresh;
        sw_status status = sw_create(path, config.get(), &fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    sw_status try_create_in(const sw_storage &storage, const Config &config) noexcept {
        Acquisition fresh;
        sw_status status = sw_create_in(&storage, config.get(), &fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    sw_status try_acquire(Frame &frame, int64_t timeout_ms = SW_AS_CONFIGURED) noexcept {
        Frame fresh;
        sw_status status = sw_acquire(handle_, timeout_ms, &fresh.frame_);
        if (status != SW_OK) return status;
        fresh.acquisition_ = handle_;
        frame = std::move(fresh);
        return SW_OK;
    }
    sw_status try_append(const void *pixels, size_t bytes, sw_appended &appended, const sw_record *record = nullptr,
                         int64_t timeout_ms = SW_AS_CONFIGURED) noexcept {
        return sw_append(handle_, pixels, bytes, 0, record, timeout_ms, &appended);
    }
    sw_status try_finish(sw_summary &summary, int64_t timeout_ms = SW_FOREVER) noexcept {
        summary.size = sizeof summary;
        return sw_finish(handle_, timeout_ms, &summary);
    }
    sw_status try_stats(sw_stats &stats) const noexcept {
        stats.size = sizeof stats;
        return sw_get_stats(handle_, &stats);
    }

#if SW_HAS_EXCEPTIONS
    Acquisition(const char *path, const Config &config) { check(try_create(path, config)); }
    Frame acquire(int64_t timeout_ms = SW_AS_CONFIGURED) {
        Frame frame;
        check(try_acquire(frame, timeout_ms));
        return frame;
    }
    sw_appended append(const void *pixels, size_t bytes, const sw_record *record = nullptr,
                       int64_t timeout_ms = SW_AS_CONFIGURED) {
        sw_appended appended = {};
        check(try_append(pixels, bytes, appended, record, timeout_ms));
        return appended;
    }
    void set_attribute(const char *key, const std::string &json) { check(sw_set_attribute(handle_, key, json.c_str())); }
    sw_stats stats() const {
        sw_stats stats = {};
        check(try_stats(stats));
        return stats;
    }
    sw_summary finish(int64_t timeout_ms = SW_FOREVER) {
        sw_summary summary = {};
        check(try_finish(summary, timeout_ms));
        return summary;
    }
#endif

private:
    friend class Dataset;
    sw_acquisition *handle_ = nullptr;
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
        if (handle_) sw_dataset_free(handle_);
    }

    sw_dataset *get() const noexcept { return handle_; }

    sw_status try_create(const char *path, bool overwrite = false) noexcept {
        Dataset fresh;
        sw_status status = sw_dataset_create(path, overwrite ? 1 : 0, &fresh.handle_);
        if (status == SW_OK) *this = std::move(fresh);
        return status;
    }
    sw_status try_acquisition(const char *name, const Config &config, Acquisition &acquisition) noexcept {
        Acquisition fresh;
        sw_status status = sw_dataset_acquisition(handle_, name, config.get(), &fresh.handle_);
        if (status == SW_OK) acquisition = std::move(fresh);
        return status;
    }

#if SW_HAS_EXCEPTIONS
    explicit Dataset(const char *path, bool overwrite = false) { check(try_create(path, overwrite)); }
    Acquisition acquisition(const char *name, const Config &config) {
        Acquisition acquisition;
        check(try_acquisition(name, config, acquisition));
        return acquisition;
    }
#endif

private:
    sw_dataset *handle_ = nullptr;
};

} // namespace shardwright

#endif // SHARDWRIGHT_HPP
