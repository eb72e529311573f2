/* shardwright: camera frames in, finished Zarr shards out.

   Generated from src/ffi by tools/header; do not edit.

   Every function that can fail returns SW_OK or an error code; sw_last_error has the text. Results are written through
   pointers, and only on success, but for the room that SW_ERROR_SIZE says was missing. Any thread may make any call,
   several at once with the same handle, if nothing else is said. A pointer must not be null where nothing else is said,
   but for the `context` of a callback, which may be anything.

   A wrong argument is found out and returned as an error, which "Errors:" below does not repeat: SW_ERROR_NULL,
   SW_ERROR_MISALIGNED and SW_ERROR_HANDLE for pointers and handles, SW_ERROR_FORKED for a handle of the parent process
   after a fork, SW_ERROR_SIZE and SW_ERROR_VERSION for structs with a `size`, SW_ERROR_ARGUMENT for a number out of
   its range and for text that is not UTF-8. Any call may return SW_ERROR_PANIC. What the library can't see is whether a
   pointer that is neither null nor misaligned points to as much memory as its description says.

   For C99 or later, and C++11 or later. All text is UTF-8 and ends with a zero; paths are bytes. No call keeps a
   pointer that it was given, but for callbacks, their contexts, the functions of a storage and the buffers of
   `own_buffers`. No function unwinds, and callbacks must not either.

   The calls by phase of a run:

   anytime        sw_last_error, sw_status_text, sw_status_name, sw_version, sw_check_version, sw_set_log
   configure      sw_config_init, sw_config_json, sw_memory_needed
   create         sw_create, sw_create_in; several images: sw_dataset_create, sw_dataset_create_in,
                  sw_dataset_plate, sw_dataset_acquisition, sw_dataset_acquisitions, sw_dataset_free
   prepare        sw_get_layout, sw_buffers, sw_on_shard_closed, sw_on_event, sw_event_open
   each frame     sw_acquire, sw_acquire_buffer; sw_commit, sw_commit_buffer; sw_discard, sw_discard_buffer;
                  or sw_append, sw_append_interleaved, sw_append_roi for all of it
   meanwhile      sw_event_wait, sw_event_close, sw_get_stats, sw_get_latency, sw_next_number, sw_first_error,
                  sw_first_error_frame, sw_set_attribute
   end            sw_close; sw_finish, sw_finish_all or sw_abort; sw_get_summary, sw_summary_json; sw_free */

#ifndef SHARDWRIGHT_H
#define SHARDWRIGHT_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. That of the library is sw_version(). */
#define SW_VERSION "0.1.0"
#define SW_VERSION_MAJOR 0
#define SW_VERSION_MINOR 1
#define SW_VERSION_PATCH 0

// The version of the interface that a header describes; sw_config_init keeps it in the struct. It grows with every
// struct that gets a field and every call that is added.
#define SW_INTERFACE 1

// As a time limit: wait as long as it takes.
#define SW_FOREVER -1

// As a time limit of sw_acquire, sw_acquire_buffer and sw_append: as the configuration's `ring_full` says.
#define SW_AS_CONFIGURED -2

// Acquisitions that may exist at once in a process.
#define SW_ACQUISITIONS_MAX 2048

// The record has a device_timestamp.
#define SW_HAS_DEVICE_TIMESTAMP 1

// The record has a host_timestamp.
#define SW_HAS_HOST_TIMESTAMP 2

// As a frame number: one more than the largest number that was committed so far, or that sw_append let go. A frame
// for which sw_acquire found no buffer has no number, and the next one that is committed comes in its place. Only
// those that SW_RING_FULL_DROP_NEWEST let go after the last committed one was acquired are missing frames, at the end.
// To keep the place of each one empty, count frames, and commit them by their numbers.
#define SW_NEXT UINT64_MAX

// Dimensions that an array may have.
#define SW_DIMS_MAX 16

// A running or ended acquisition of one image. Its calls may come from any thread, and from several at once.
typedef struct sw_acquisition sw_acquisition;

// A dataset of several images that are acquired at the same time: two cameras, several positions. Its calls may come
// from any thread.
typedef struct sw_dataset sw_dataset;

// What a call returns: SW_OK, or why it did nothing. The numbers never change their meaning; new ones may be added.
typedef int32_t sw_status;

// The type of a pixel, or of a record field. Text has no place among records: sw_set_attribute takes it, for all
// frames.
typedef uint32_t sw_dtype;

// What a dimension means; OME-Zarr's axis type.
typedef uint32_t sw_dim_kind;

// One dimension of the array. Fields that are 0 have a default, but for `name`.
typedef struct sw_dim {
    // The name, unique in the array: "t", "c", "z", "y", "x". UTF-8 without control characters.
    const char *name;
    // What it means. 0: SW_DIM_OTHER.
    sw_dim_kind kind;
    // 0.
    uint32_t reserved;
    // Elements. 0 (the first dimension only): it is unbounded, and has as many as arrive. A first dimension of a given
    // size ends with its last frame, too, and the summary has a note of that; the attributes keep what was planned.
    uint64_t size;
    // Chunk length in elements. 0: such that a chunk is about 512 KiB.
    uint64_t chunk;
    // Shard length in elements, a multiple of `chunk`. 0: the whole frame in rows and columns; such that a shard is
    // about 512 MiB.
    uint64_t shard;
    // The distance between neighbours, in `unit`. 0: 1.
    double scale;
    // A unit as UDUNITS-2 spells it: "micrometer", "second". Null or empty: none. Of space and time, a note in the
    // summary tells of units that OME-Zarr does not list.
    const char *unit;
    // Where the centre of the first element is, in `unit`: for y and x the position of the stage.
    double translation;
    // 0.
    uint64_t reserved_too;
} sw_dim;

// What makes a chunk smaller.
typedef uint32_t sw_compressor;

// The compressor inside of a Blosc frame.
typedef uint32_t sw_blosc;

// What reorders a block before it is compressed.
typedef uint32_t sw_shuffle;

// Where a chunk's bytes go in its shard.
typedef uint32_t sw_placement;

// Where a shard's index stands.
typedef uint32_t sw_index_location;

// How bytes reach the file. Of no meaning with a storage of the caller's own.
typedef uint32_t sw_storage_kind;

// What sw_append does when no frame buffer became free within its time limit; and, with SW_AS_CONFIGURED, what the
// limit is.
typedef uint32_t sw_ring_full;

// A per-frame record field of the caller's own, stored as an array beside the image.
typedef struct sw_record_field {
    // The array's name: letters, digits, _ and -.
    const char *name;
    // Its element type.
    sw_dtype dtype;
    // 0.
    uint32_t reserved;
} sw_record_field;

// One channel, as viewers show it.
typedef struct sw_channel {
    // The name that viewers show. UTF-8.
    const char *label;
    // Red, green and blue as six hexadecimal digits. Null: white for the only channel, and for each of several a
    // colour that mixes well with the others'.
    const char *color;
    // The pixel value that viewers show as black.
    double window_low;
    // The pixel value that viewers show as full colour. Equal to `window_low`: a window that holds nearly all pixels
    // of the channel's first 8 frames, or, in a red, green and blue image of bytes, the whole range of the type.
    double window_high;
    // 0.
    uint64_t reserved[2];
} sw_channel;

// The on-disk format of a dataset.
typedef uint32_t sw_dialect;

// What is done to a chunk's id before its bits choose the shard of a precomputed volume.
typedef uint32_t sw_hash;

// What only SW_DIALECT_PRECOMPUTED has. In the numbers of bits, 0 means zero bits, and -1 leaves the choice to the
// library.
typedef struct sw_volume {
    // The scale's name, which is that of the folder with the shards. UTF-8. Null: the resolution, as 325_325_1000.
    const char *key;
    // What is done to ids.
    sw_hash hash;
    // Lowest bits of a chunk's id that are ignored when its minishard is chosen. Negative: chosen.
    int32_t preshift_bits;
    // Minishards per shard, as a power of two. Negative: chosen.
    int32_t minishard_bits;
    // Shards, as a power of two. Negative: as many as the volume needs.
    int32_t shard_bits;
    // 1: compress the indexes of minishards with gzip.
    uint32_t gzip_indexes;
    // 0.
    uint32_t reserved;
    // Where the first voxel stands, in voxels: x, y, z.
    int64_t voxel_offset[3];
    // Nanometers from voxel to voxel: x, y, z. All 0: from the dimensions' scales and units.
    double resolution[3];
} sw_volume;

// In which forms sw_finish writes down where the chunks lie, for readers that go by references: the sum of the chosen
// ones.
typedef uint32_t sw_manifest;

// How a camera's pixels lie in frame buffers. The packed ones are called as in GenICam's Pixel Format Naming
// Convention; Bayer patterns are packed in the same ways.
typedef uint32_t sw_pixel_format;

// How a frame is turned. Quarter turns are two of them: SW_ORIENTATION_TRANSPOSE and SW_ORIENTATION_FLIP_ROWS turn
// counterclockwise, SW_ORIENTATION_TRANSPOSE and SW_ORIENTATION_FLIP_COLUMNS clockwise.
typedef uint32_t sw_orientation;

// A version of OME-Zarr's metadata.
typedef uint32_t sw_ome;

// How four pixels, or eight of two planes, become one in the levels of a pyramid.
typedef uint32_t sw_pyramid;

// Dimensions that are as long in all levels, as a sum.
typedef uint32_t sw_keep;

// When planes are halved along z, too: the last dimension before y and x, if it is one of space.
typedef uint32_t sw_depth;

// How the shards of a run are divided among several writers.
typedef uint32_t sw_part_by;

// What arrives, how it is stored, and with which resources.
//
// sw_config_init sets every field to its default; only `dims` has none. The library copies everything that it keeps:
// all pointers need to be good only during the call. Flags are 0 or 1.
//
// What calls return for a wrong configuration: SW_ERROR_NULL, SW_ERROR_MISALIGNED, SW_ERROR_SIZE and SW_ERROR_VERSION
// for the struct and its pointers; SW_ERROR_ARGUMENT for a number that is none of a field's values, and for text that
// is not UTF-8; SW_ERROR_CONFIG for values that can't work, alone or together. The text names the field and says what
// is possible.
typedef struct sw_config {
    // sizeof(sw_config), as sw_config_init set it: a library that knows more or fewer fields goes by it.
    size_t size;
    // SW_INTERFACE, as sw_config_init set it.
    uint32_t version;
    // The type of a pixel. Default SW_U16.
    sw_dtype dtype;
    // A document with the whole configuration, in place of all fields below, which must be as sw_config_init left
    // them: JSON, or TOML where the library was built with it, with the fields of Rust's `Config`. sw_config_json
    // writes one. Default null.
    const char *document;
    // The dimensions in storage order, slowest first. The last two are the rows and columns of a frame.
    const struct sw_dim *dims;
    // How many, 2 to 16.
    size_t dim_count;
    // The names of the outer dimensions in the order in which they arrive, slowest first. Default null: as they are
    // stored.
    const char *const *acquisition_order;
    // How many names. Default 0.
    size_t acquisition_order_count;
    // The compressor. Default SW_COMPRESSOR_BLOSC.
    sw_compressor compressor;
    // Its level, where it has one. Default 1.
    int32_t level;
    // The compressor inside of Blosc frames. Default SW_BLOSC_LZ4.
    sw_blosc blosc_cname;
    // What Blosc does before it compresses. Default SW_SHUFFLE_BIT.
    sw_shuffle shuffle;
    // Bytes a Blosc block. Default 0: one that suits the cache.
    size_t block_bytes;
    // 1: append a CRC-32C to every chunk, so that readers notice flipped bits. Default 1.
    uint32_t checksum;
    // Where a chunk's bytes go in its shard. Default SW_PLACEMENT_AUTO.
    sw_placement placement;
    // Where a shard's index stands. Default SW_INDEX_END.
    sw_index_location index_location;
    // How bytes reach the file. Default SW_STORAGE_AUTO.
    sw_storage_kind storage;
    // The value of pixels that were never acquired. A double is exact for every integer up to 2^53; for others, see
    // `fill_pixel`. Default 0.
    double fill_value;
    // 1: leave out chunks that hold only the fill value. Default 1.
    uint32_t skip_empty_chunks;
    // What a full ring means to sw_append. Default SW_RING_FULL_BLOCK.
    sw_ring_full ring_full;
    // With SW_RING_FULL_BLOCK, how many milliseconds calls with SW_AS_CONFIGURED wait. Default SW_FOREVER.
    int64_t ring_full_timeout_ms;
    // Bytes for the frame buffers of the ring, of which each counts as whole pages of 4096 bytes. Default 1 GiB, which
    // sw_create takes 0.3 to 3 s to make, as fast as the system finds the memory. No more is taken than the array's
    // frames need, or 4194304 of them; more than the memory of the machine is refused. Images of a dataset whose
    // frames have the same size share one ring, as large as the first of them says, as long as it has room for what
    // each of them keeps: nothing where chunks are one frame deep, otherwise the frames of a layer and two more.
    // Others get further rings; more than the memory of the machine for all rings together is refused, too.
    size_t ring_bytes;
    // Bytes of one buffer, all that the camera writes into it. Default 0: exactly a frame, and the next two must be 0.
    size_t buffer_bytes;
    // Where in a buffer the first row's first pixel stands, in bytes. 0 where `buffer_bytes` is not set.
    size_t frame_offset;
    // Bytes from one row's start to the next in a buffer. Where `buffer_bytes` is set, this is, too.
    size_t row_stride;
    // Worker threads that encode. Default 0: one for each core that the process may use.
    size_t workers;
    // Cores to pin the workers to, in turn. Default null: not pinned.
    const size_t *affinity;
    // How many cores. Default 0.
    size_t affinity_count;
    // How often open shards, documents and records catch up with the run, in milliseconds: what is in its slot then
    // becomes durable, and readers see it. They wait for shards that are being closed: many small shards on a slow
    // device delay them, by seconds where it is far behind. 0: only when a shard is full, and at the end. Beyond
    // 1000, also when a shard is full. Default 1000.
    uint64_t checkpoint_every_ms;
    // Per-frame record fields beyond the frame number and the two timestamps. Default null.
    const struct sw_record_field *record_fields;
    // How many, at most 16. Default 0.
    size_t record_field_count;
    // The channels' names and display settings. Default null.
    const struct sw_channel *channels;
    // How many: 0, or as many as the channel dimension is long; without such a dimension, at most 1. Default 0.
    size_t channel_count;
    // The image's name, for viewers. UTF-8. Default null: none.
    const char *name;
    // 1: wait until shards and documents have reached the device before they are called done. Default 1.
    uint32_t sync;
    // 1: replace a dataset that is in the way; in a hierarchy of Zarr nodes, be it by `key` or by a path in one, only
    // an image of this writer or an empty group. Of no meaning within a dataset of several images, or in a storage of
    // the caller's own. Default 0.
    uint32_t overwrite;
    // The on-disk format. Default SW_DIALECT_ZARR3.
    sw_dialect dialect;
    // 1: a shard's index ends with its CRC-32C, where the dialect has one: SW_DIALECT_ZARR3. Default 1.
    uint32_t index_checksum;
    // What only SW_DIALECT_PRECOMPUTED has. Default null: chosen.
    const struct sw_volume *volume;
    // 1: where shards are mapped, a lost page of a map (another program cut the file off, the device went away) is an
    // error of the run instead of a SIGBUS that kills the process. For that, the process gets a handler for SIGBUS,
    // once, which stays, and passes on to the handler before it what is not about such a map. Linux only. Default 0.
    uint32_t guard_maps;
    // Manifests that finishing writes beside the dataset, into run.ome.manifest.zarr for run.ome.zarr:
    // SW_MANIFEST_FILES and others, added up. Of one image in a folder, and not of SW_DIALECT_PRECOMPUTED. Default 0:
    // none.
    sw_manifest manifest;
    // How many frame numbers a frame may leave out behind the newest; what is farther is refused, because a garbled
    // number would make all true ones come too late. Default 0: 16384, or four times the reorder_window of sw_layout
    // if that is more. At most 16777216, or the default where that is more.
    uint64_t leap_max;
    // Frame buffers of the caller's own as the ring, in place of `ring_bytes`: huge pages, memory that a device has
    // pinned or maps, shared memory. Also beside a `document`. Default null: the library makes the ring.
    //
    // Each starts on a page of 4096 bytes (below 2 KiB, on a multiple of 64), and is readable and writable from
    // sw_create until `own_buffers_release` is called, or sw_free returns: freed before, they take the process or its
    // data with them. Nobody but the library touches them meanwhile, except for filling those on loan. They are
    // written past the page cache where the device can reach them, else through it. Memory that another run of the
    // process has is refused.
    void *const *own_buffers;
    // How many; the ring is as long, or as the array has frames. Default 0.
    size_t own_buffer_count;
    // Bytes of each, at least `buffer_bytes`, or a frame's. Default 0.
    size_t own_buffer_bytes;
    // Called once, with `own_buffers_context`, by sw_free before it returns SW_OK; not if sw_create or sw_free fails.
    // The buffers are the program's again then, also for sw_create. In it, calls with the handle that is being freed
    // return SW_ERROR_HANDLE; sw_set_log, and sw_close, sw_finish, sw_finish_all, sw_abort and sw_free of all others
    // return SW_ERROR_BUSY: make them when sw_free has returned, or on another thread. Default null: nothing.
    void (*own_buffers_release)(void *context);
    // What that function gets. Default null.
    void *own_buffers_context;
    // How the camera's pixels lie in frame buffers, and in what sw_append is given. Without `buffer_bytes`, packed
    // pixels follow each other throughout a frame; with it, each row begins with a byte of its own. They and
    // SW_PIXELS_BIG_ENDIAN become SW_U16.
    //
    // With SW_PIXELS_RGB and SW_PIXELS_RGBA, a buffer holds a picture: a frame of each channel, which is the outer
    // dimension that changes fastest and has 3 or 4 elements. sw_commit takes the number of the first of them, a
    // multiple of 3 or 4, and all get its record; frames are counted everywhere, but buffers by `ring_frames` and in
    // sw_buffers. Default SW_PIXELS_PLAIN.
    sw_pixel_format pixel_format;
    // How many of the lowest bits of 16-bit pixels the camera leaves unused: 4 of 12 bits that it aligns to the left.
    // Pixels are shifted down by that many. Only of SW_U16, with SW_PIXELS_PLAIN or SW_PIXELS_BIG_ENDIAN. Default 0.
    uint32_t unused_low_bits;
    // How frames are turned and flipped on their way into the array, whose rows and columns `dims` has: the sum of
    // what is chosen, done in the order of the constants. Default 0: not at all.
    sw_orientation orientation;
    // The version of OME-Zarr's metadata; all images of a dataset have the same. Other than 0.5 only of
    // SW_DIALECT_ZARR3. Default SW_OME_0_5.
    sw_ome ome;
    // Levels that are written while frames come, each half as large as the one before in the last two dimensions, y
    // and x, with rings that take a third more memory in all. Refused where a dimension is called x, y or z and
    // another has its place. Of SW_DIALECT_ZARR3 alone. Default SW_PYRAMID_NONE.
    sw_pyramid pyramid;
    // The number of levels beside the image, where that is possible. Default 0: until y and x have 256 pixels at most.
    // This and the next two only with a `pyramid`.
    uint32_t pyramid_levels;
    // What is not halved: SW_KEEP_Y or SW_KEEP_X. Default 0.
    sw_keep pyramid_keep;
    // Whether z is halved, too. Default SW_DEPTH_NEVER.
    sw_depth pyramid_depth;
    // Of a plate with several acquisitions, the id of the image's, plus 1. Default 0: the only one, or none.
    uint64_t plate_acquisition;
    // Where the image stands in the hierarchy at sw_create's path: `raw/camera-1`. Default null: it is at the path.
    const char *key;
    // Of a label image, what its integers stand for, as JSON: {"colors": [{"value": 1, "rgba": [255, 0, 0, 128]}],
    // "properties": [{"value": 1, "properties": {"class": "nucleus"}}]}, each of both optional. UTF-8. Default null:
    // nothing is said. Such an image is named IMAGE/labels/NAME in sw_dataset_acquisition.
    const char *label;
    // In place of `fill_value`, one pixel of the type `dtype` with the value of pixels that were never acquired: exact
    // also where no double is. Only read by the call that gets the struct. Default null: `fill_value` says it.
    const void *fill_pixel;
    // 1: frames that are smaller than the image are taken as well, by sw_append_roi, and the record of each frame says
    // where in the image its pixels are: in the fields roi_y, roi_x, roi_height and roi_width. Not of packed pixels.
    // Default 0.
    uint32_t record_roi;
    // 1: the array is written alone, at the path or the `key`: without the group of an image, without records and
    // OME-Zarr's metadata, and with no attributes but those of sw_set_attribute. Nothing says which frames are
    // missing, and `shardwright recover` restores nothing. Of SW_DIALECT_ZARR3, by sw_create and sw_create_in. Default
    // 0.
    uint32_t bare;
    // Of a run that several processes write, made by `shardwright create`, how many parts it has. All else is that of
    // the whole run. Default 0: one process writes all of it.
    uint32_t parts;
    // Which of the `parts` this one writes, from 0 on. Default 0.
    uint32_t part;
    // How the run's shards are divided among them. Default SW_PART_BY_TIME.
    sw_part_by part_by;
} sw_config;

// What an acquisition will need, in bytes: upper bounds, of which everything is taken by sw_create except what is
// said. Set `size` to sizeof(sw_memory) before the call.
typedef struct sw_memory {
    // sizeof(sw_memory).
    size_t size;
    // The frame buffers, also those of levels, mapped and written once by sw_create. Without `own_buffers`.
    uint64_t ring_bytes;
    // Frame records: in the ring, and gathered for the disk.
    uint64_t record_bytes;
    // What workers encode with: a tile, its encoded form, the compressor's own memory.
    uint64_t worker_bytes;
    // Tables of the shards that may exist at once, some of which are made and freed as the run goes on: never more
    // than this.
    uint64_t shard_bytes;
    // Queues, layers, counters of latencies; documents, while they are written.
    uint64_t other_bytes;
    // All of the above.
    uint64_t total_bytes;
    // Threads that the library starts.
    uint64_t threads;
    // Addresses reserved for the threads' stacks, of which they touch a small part. Not in the total.
    uint64_t stack_bytes;
    // Bytes that the shards being filled, closed and prepared may reserve in the storage at once: their number, no
    // more than the array has, times the room for each of a shard's chunks at its worst and for the index. When a
    // shard is closed, what its chunks did not need is given back. Not in the total.
    uint64_t storage_bytes;
} sw_memory;

// A storage of the caller's own: a flat store of files by key ("zarr.json", "0/c/0/0/0"). Set `size` to
// sizeof(sw_storage) and all else to 0 before filling it.
//
// A shard is a blob: it is created with a length, written by several threads at once, in ranges that never overlap but
// for the index, which checkpoints write again; it is published, synced, truncated, and released. Documents and
// per-frame records are put as a whole. All functions get `context` first, are called from threads of the library,
// must not unwind or jump out, and return 0, or a positive errno value that becomes the acquisition's error, if
// nothing else is said. An error of `punch` ends no run, nor does the first one in making a shard that is prepared
// ahead of need: that is tried again. None of the functions may end a run that has this storage: sw_close, sw_finish,
// sw_abort and sw_free are SW_ERROR_BUSY in them. What is durable before its shard is closed: with an index of at most
// 31 chunks, or without a checksum; others can't be replaced safely by `write_at`. Functions that are not `write_at`
// are never called by a thread that encodes. None is called any more when sw_free, or sw_create_in with an error, has
// returned. What a run has left that was killed, or whose last documents could not be put, is recovered in a folder:
// that of the files under their keys.
typedef struct sw_storage {
    // sizeof(sw_storage).
    size_t size;
    // Given to every function.
    void *context;
    // Creates a file of `bytes` bytes that read as zeros, and sets `*blob` to what the other functions shall get. It
    // must not appear under its key before `publish`. Required.
    int32_t (*create)(void *context, const char *key, uint64_t bytes, void **blob);
    // Replaces a file as a whole: a reader sees the old bytes or the new ones. Required.
    int32_t (*put)(void *context, const char *key, const void *data, size_t bytes);
    // Removes a file, if it is there. Null: files stay, also shards that nothing came for. Created ahead of need are
    // those of the next 16 steps of the first dimension at most: as many as 64 MiB are, but one step at least.
    int32_t (*remove)(void *context, const char *key);
    // Writes into a blob, within its length. Required.
    int32_t (*write_at)(void *context, void *blob, uint64_t offset, const void *data, size_t bytes);
    // Makes the blob appear under its key. Null: `create` does.
    int32_t (*publish)(void *context, void *blob);
    // Returns when everything written so far has reached the device. Null: `write_at` does.
    int32_t (*sync)(void *context, void *blob);
    // Ends a shard: cuts it off at `bytes` bytes. Required, because readers look for the index at the end.
    int32_t (*finish)(void *context, void *blob, uint64_t bytes);
    // Says that the bytes of a range are of no use any more and may be given back. Null: they stay.
    int32_t (*punch)(void *context, void *blob, uint64_t offset, uint64_t bytes);
    // Frees the blob, of which nothing is asked any more. Null: nothing to free.
    void (*release)(void *context, void *blob);
    // Of how many bytes offsets, lengths and addresses of large writes should be multiples, 4096 at most. 0: of any.
    // From 16 on, large writes are done by threads of their own, several at once.
    size_t alignment;
    // Returns 1 if there is something in the storage already: then no dataset is created there, which is
    // SW_ERROR_EXISTS; else 0. Null: nobody asks, and the documents and shards of a dataset that is there are
    // replaced, even with `overwrite` 0.
    int32_t (*is_used)(void *context);
} sw_storage;

// A frame buffer on loan. The memory belongs to the library; the caller alone may write it until it commits or
// discards the frame, on any thread, by DMA or through a driver.
typedef struct sw_frame {
    // The first byte, on a page boundary; frames of less than 2 KiB are only on a cache line. The buffer holds what an
    // earlier frame left there.
    void *data;
    // Bytes that may be written: a frame's, or the configuration's `buffer_bytes`.
    size_t bytes;
    // Which of the ring's buffers this is: always the same memory during a run.
    uint32_t index;
    // Tells this loan of the buffer from others.
    uint32_t turn;
} sw_frame;

// What a record's value is.
typedef uint32_t sw_value_kind;

// A number of one of three types.
typedef union sw_number {
    // With SW_VALUE_INT.
    int64_t i;
    // With SW_VALUE_UINT.
    uint64_t u;
    // With SW_VALUE_FLOAT.
    double f;
} sw_number;

// The value of a record field. It is stored as the field's own type. A field of integers takes whole numbers within
// its type's range, of whatever kind they are: 3.0 is one. A floating-point field takes every number, rounded to the
// nearest that its type has, and infinities and NaN; only a finite number beyond the range of SW_F32 does not fit.
// What does not fit is refused with SW_ERROR_RECORD, and the frame stays on loan.
typedef struct sw_value {
    // Which member of `number` counts.
    sw_value_kind kind;
    // 0.
    uint32_t reserved;
    // The value.
    union sw_number number;
} sw_value;

// What the instrument says about one frame. Set `size` to sizeof(sw_record) and all else to 0 before filling it.
typedef struct sw_record {
    // sizeof(sw_record).
    size_t size;
    // Which of the timestamps are given: SW_HAS_DEVICE_TIMESTAMP, SW_HAS_HOST_TIMESTAMP, or both added.
    uint32_t has;
    // How many values; at most as many as the configuration has record fields. The fields beyond hold 0, or NaN.
    uint32_t value_count;
    // The device's own time stamp, in whatever unit the device counts.
    uint64_t device_timestamp;
    // The host's time of the frame in nanoseconds since 1970. Not given: the moment of the commit.
    int64_t host_timestamp;
    // The values of the configuration's record fields, in their order. Needed only during the call.
    const struct sw_value *values;
} sw_record;

// What an append did.
typedef struct sw_appended {
    // Frames taken. Fewer than given, if the ring became full on the way: repeat the call with the rest.
    uint64_t frames;
    // Frames let go, because the ring was full and SW_RING_FULL_DROP_NEWEST is configured.
    uint64_t dropped;
} sw_appended;

// A camera's region of interest: the rectangle of a frame that it gives, in pixels.
typedef struct sw_roi {
    // Its first row.
    size_t y;
    // Its first column.
    size_t x;
    // How many rows.
    size_t height;
    // How many columns.
    size_t width;
} sw_roi;

// What can happen in a run: the sum of SW_EVENT_... values.
typedef uint32_t sw_events;

// Hears of one or more events. It is called by whichever thread makes them happen: one of the program's own, during
// any call with the acquisition (sw_acquire, sw_commit, sw_discard, sw_append and sw_on_event above all), or one of
// the library's; and by several at once, in any order. So it must be safe for threads, and must not wait.
typedef void (*sw_event_fn)(void *context, sw_events events);

// A moment's view of an acquisition. Counters never go back, and no frame is written that was not accepted, nor
// durable that was not written. Set `size` to sizeof(sw_stats) before the call.
typedef struct sw_stats {
    // sizeof(sw_stats).
    size_t size;
    // Frames in the ring or beyond it.
    uint64_t frames_accepted;
    // Frames whose every chunk is in its shard, and those that are durable in a chunk which waits for more.
    uint64_t frames_written;
    // Frames that a loss of power does not take: their chunks are on the device, and an index there names them. 0
    // without the configuration's `sync`.
    uint64_t frames_durable;
    // Frame numbers that were settled without a frame.
    uint64_t frames_missing;
    // Times that a frame found the ring full and was let go.
    uint64_t frames_dropped;
    // Bytes of accepted frames.
    uint64_t bytes_in;
    // Encoded bytes of chunks in their shards.
    uint64_t bytes_out;
    // Frame buffers that wait for the camera: of a ring that images share, those that this one can get now.
    uint64_t ring_free;
    // All frame buffers: of a ring that images share, those that this one can have at once, which are fewer when more
    // images begin. Some are left for others, also for the next one that begins.
    uint64_t ring_frames;
    // Shards closed.
    uint64_t shards_closed;
} sw_stats;

// The stages of a frame's path that are timed.
typedef uint32_t sw_stage;

// How long one stage took until now, in nanoseconds. Set `size` to sizeof(sw_latency) before the call.
typedef struct sw_latency {
    // sizeof(sw_latency).
    size_t size;
    // How many items passed it.
    uint64_t count;
    // The sum of all times.
    uint64_t total_ns;
    // Half of the items were at most so slow.
    uint64_t p50_ns;
    // 99 % of them.
    uint64_t p99_ns;
    // 99.9 % of them.
    uint64_t p999_ns;
    // The slowest.
    uint64_t max_ns;
} sw_latency;

// The sizes with which an acquisition runs, the automatic ones filled in. Set `size` to sizeof(sw_layout) before the
// call.
typedef struct sw_layout {
    // sizeof(sw_layout).
    size_t size;
    // Bytes of one frame, or picture, without gaps between its rows, as sw_append takes it.
    size_t frame_bytes;
    // Bytes of one ring buffer that a camera may write.
    size_t buffer_bytes;
    // Frame buffers in the ring; where images share one, those that this one can have at once: as in sw_stats.
    uint64_t ring_frames;
    // How many numbers a frame may come behind the newest one; what comes later is refused, and counts as missing. A
    // driver that keeps nearly all buffers has missing numbers given up earlier, even of frames that come in order:
    // nothing else can free one for it. See sw_buffers for how many the library needs.
    uint64_t reorder_window;
    // Dimensions.
    uint64_t dim_count;
    // Chunk length in elements in each dimension.
    uint64_t chunk[SW_DIMS_MAX];
    // Shard length in elements in each dimension.
    uint64_t shard[SW_DIMS_MAX];
} sw_layout;

// What an acquisition did. Set `size` to sizeof(sw_summary) before the call.
typedef struct sw_summary {
    // sizeof(sw_summary).
    size_t size;
    // Frames that were taken into the ring.
    uint64_t frames_accepted;
    // Frames whose every chunk is in the dataset.
    uint64_t frames_written;
    // Frames that a loss of power does not take. 0 without the configuration's `sync`.
    uint64_t frames_durable;
    // Frames that the dataset lacks. sw_summary_json tells their numbers.
    uint64_t frames_missing;
    // Bytes of accepted frames.
    uint64_t bytes_in;
    // Encoded bytes of chunks.
    uint64_t bytes_out;
    // Chunks written.
    uint64_t chunks_written;
    // Chunks left out, because they hold only the fill value or no frame of theirs came.
    uint64_t chunks_empty;
    // Shards written.
    uint64_t shards;
    // From the first commit to the end, in nanoseconds.
    uint64_t elapsed_ns;
} sw_summary;

// How much a log line matters.
typedef uint32_t sw_log_level;

// Hears a log line: its level, the part of the library it comes from, its text without a line end and other control
// characters, of which each is a space. Both texts are the library's, never null, and good during the call. It is
// called from any thread, also from several at once, whatever that thread is doing for a run: no run can be ended in
// it.
//
// `source` is "shardwright::acquisition" (where a run begins and ends, and the program's own functions),
// "shardwright::engine" (the way of frames through the ring, checkpoints, first errors), "shardwright::shard" (the
// room in a shard's file) or "shardwright::storage" (archives). These names stay, and others may be added.
typedef void (*sw_log_fn)(void *context, sw_log_level level, const char *source, const char *text);

// Hears that a shard is closed: its key below the dataset, for example "0/c/0/0/0", good during the call. It is called
// from the one thread that closes shards, which does nothing else meanwhile.
typedef void (*sw_shard_fn)(void *context, const char *key);

// The call did what it says.
#define SW_OK 0

// A pointer is null that must not be.
#define SW_ERROR_NULL 1

// A pointer is not aligned as its type requires.
#define SW_ERROR_MISALIGNED 2

// A struct's `size` field is not that of any version, or a buffer of the caller's is too small.
#define SW_ERROR_SIZE 3

// The caller's struct has fields that this library does not know, and they are set; its `version` is 0 or newer than
// the library's; or, of sw_check_version, the program was compiled for another version.
#define SW_ERROR_VERSION 4

// An argument is outside its range, or text is not UTF-8.
#define SW_ERROR_ARGUMENT 5

// The handle is not one of this kind, or it was freed.
#define SW_ERROR_HANDLE 6

// The handle belongs to the process from which this one was forked.
#define SW_ERROR_FORKED 7

// The frame is not on loan: it was committed or discarded before, or never acquired.
#define SW_ERROR_FRAME 8

// Another thread is in a call that allows only one, or uses the handle that would be freed; or this is a callback in
// which the run's end can't be waited for.
#define SW_ERROR_BUSY 9

// The acquisition has ended; it takes no more frames.
#define SW_ERROR_ENDED 10

// The acquisition has not ended yet: finish or abort it first.
#define SW_ERROR_NOT_ENDED 11

// More handles than the library holds at once.
#define SW_ERROR_TOO_MANY 12

// This library was built without what the call needs, or does not read what a file holds.
#define SW_ERROR_UNSUPPORTED 13

// The time limit passed. The work goes on; repeat the call to wait longer.
#define SW_TIMEOUT 20

// No frame buffer became free within the time limit: the workers or the disk are slower than the camera.
#define SW_RING_FULL 21

// The run was aborted, perhaps by another thread during sw_finish: frames that waited in the ring are lost.
#define SW_ABORTED 22

// A configuration value that can't work. Nothing was written.
#define SW_ERROR_CONFIG 30

// The operating system, or the caller's own storage, refused something.
#define SW_ERROR_IO 31

// Pixels that are not a whole number of frames.
#define SW_ERROR_FRAME_SIZE 32

// A frame number that came before, comes too late, is too far ahead of the newest, or lies beyond the array.
#define SW_ERROR_FRAME_NUMBER 33

// A record field that was not configured, or a value that does not fit its field.
#define SW_ERROR_RECORD 34

// The output exists and overwriting is off.
#define SW_ERROR_EXISTS 35

// Another writer holds the dataset.
#define SW_ERROR_LOCKED 36

// A codec failed.
#define SW_ERROR_CODEC 37

// A file or document that does not hold what it should.
#define SW_ERROR_FORMAT 38

// The library ran into a bug of its own, and stopped it at its border. Please report the text.
#define SW_ERROR_PANIC 39

// There is no dataset at the path, or none of what was asked for.
#define SW_ERROR_NOT_FOUND 41

// An error without a number of its own yet.
#define SW_ERROR_OTHER 40

// 8 bits, unsigned.
#define SW_U8 0

// 8 bits, signed.
#define SW_I8 1

// 16 bits, unsigned.
#define SW_U16 2

// 16 bits, signed.
#define SW_I16 3

// 32 bits, unsigned.
#define SW_U32 4

// 32 bits, signed.
#define SW_I32 5

// 64 bits, unsigned.
#define SW_U64 6

// 64 bits, signed.
#define SW_I64 7

// IEEE 754, 32 bits.
#define SW_F32 8

// IEEE 754, 64 bits.
#define SW_F64 9

// Anything else: stage position, angle, well.
#define SW_DIM_OTHER 0

// Time.
#define SW_DIM_TIME 1

// Channel, wavelength, polarisation.
#define SW_DIM_CHANNEL 2

// A direction in space.
#define SW_DIM_SPACE 3

// Nothing: raw pixels.
#define SW_COMPRESSOR_NONE 0

// Blosc 1 frames, with `blosc_cname`, `level` 0 to 9, `shuffle` and `block_bytes`. Read by every Zarr library.
#define SW_COMPRESSOR_BLOSC 1

// Blosc 1 frames by a writer made for camera noise, with `block_bytes`; SW_COMPRESSOR_BLOSC with LZ4, level 1 and bit
// shuffle, which is the default, does the same.
#define SW_COMPRESSOR_BLOSC_NOISE 2

// A Zstandard frame, with `level` from -131072 (fastest) to 22 (smallest).
#define SW_COMPRESSOR_ZSTD 3

// A gzip stream, with `level` 0 to 9.
#define SW_COMPRESSOR_GZIP 4

// `numcodecs.lz4`; only zarr-python reads it.
#define SW_COMPRESSOR_LZ4 5

// `numcodecs.zlib`, with `level` 0 to 9; in Zarr v3 only zarr-python reads it.
#define SW_COMPRESSOR_ZLIB 6

// What lets the most frames through: becomes SW_COMPRESSOR_BLOSC at level 1 with bit shuffle and LZ4 or Zstandard (in
// a precomputed volume NONE or GZIP) when the run is created, by short trials of the cores and the storage. During the
// run, chunks are made with less effort, or stored, when the ring fills because of encoding. The notes of the end say
// what was chosen and changed.
#define SW_COMPRESSOR_AUTO 7

// LZ4.
#define SW_BLOSC_LZ4 0

// LZ4 HC.
#define SW_BLOSC_LZ4HC 1

// Zstandard.
#define SW_BLOSC_ZSTD 2

// Zlib.
#define SW_BLOSC_ZLIB 3

// BloscLZ. The one compressor that takes memory for each chunk.
#define SW_BLOSC_BLOSCLZ 4

// Nothing.
#define SW_SHUFFLE_NONE 0

// All first bytes, then all second bytes, and so on.
#define SW_SHUFFLE_BYTE 1

// All lowest bits, then all second bits, and so on. What camera frames want.
#define SW_SHUFFLE_BIT 2

// Fixed where chunks are not compressed or made in a map, else packed.
#define SW_PLACEMENT_AUTO 0

// Each chunk has a slot of its own, large enough for the worst case; what is unused is given back when the shard
// closes.
#define SW_PLACEMENT_FIXED 1

// Chunks follow each other without gaps.
#define SW_PLACEMENT_PACKED 2

// After the chunks.
#define SW_INDEX_END 0

// Before the chunks.
#define SW_INDEX_START 1

// Zarr v3 with the codec sharding_indexed 1.0. What to choose if nothing speaks against it.
#define SW_DIALECT_ZARR3 0

// The Zarr v3 draft of 2022 with the sharding storage transformer 1.0. No checksums.
#define SW_DIALECT_ZARR3_TRANSFORMER 1

// Zarr v2 with the key `shards` of the prototype in zarr-python's pull request 876. No checksums.
#define SW_DIALECT_ZARR2_SHARDED 2

// Neuroglancer's precomputed volume in shards: x, y, one more dimension, and perhaps channels. Not compressed, or with
// SW_COMPRESSOR_GZIP. No checksums.
#define SW_DIALECT_PRECOMPUTED 3

// Nothing: shards are boxes that fill up one after another.
#define SW_HASH_IDENTITY 0

// MurmurHash3_x86_128: all shards stay open until the end, and the number of frames must be known.
#define SW_HASH_MURMURHASH3_X86_128 1

// Buffered or direct: what a short trial finds faster in the dataset's folder; short runs, and those into a tmpfs, are
// buffered.
#define SW_STORAGE_AUTO 0

// Straight into a memory map of the preallocated shard. A device that goes away then kills the process, unless
// `guard_maps` is 1.
#define SW_STORAGE_MAPPED 1

// Positioned writes through the page cache; on a tmpfs also copies through a map, with the same danger, unless
// `guard_maps` is 1.
#define SW_STORAGE_BUFFERED 2

// Positioned writes past the page cache (O_DIRECT).
#define SW_STORAGE_DIRECT 3

// It returns SW_RING_FULL. The configured limit is `ring_full_timeout_ms`.
#define SW_RING_FULL_BLOCK 0

// It lets the newest frame go and counts its number as missing. The configured limit is 0. Each sw_acquire that
// returns SW_RING_FULL counts as a frame that was let go, too, whatever its limit: a program that asks again for the
// same frame takes SW_RING_FULL_ERROR.
#define SW_RING_FULL_DROP_NEWEST 1

// It returns SW_RING_FULL. The configured limit is 0.
#define SW_RING_FULL_ERROR 2

// Zarr v3 documents with the storage transformer chunk-manifest-json, each with a manifest.json beside it.
#define SW_MANIFEST_FILES 1

// The same documents with the manifests inside. Beside SW_MANIFEST_FILES, only where there are few chunks.
#define SW_MANIFEST_INLINED 2

// kerchunk.json: a reference file system, version 1.
#define SW_MANIFEST_KERCHUNK 4

// There are no levels.
#define SW_PYRAMID_NONE 0

// The mean, of integers rounded to the nearest, halves up.
#define SW_PYRAMID_MEAN 1

// The mean of the middle two, rounded in the same way.
#define SW_PYRAMID_MEDIAN 2

// The smallest.
#define SW_PYRAMID_MIN 3

// The largest.
#define SW_PYRAMID_MAX 4

// The first.
#define SW_PYRAMID_DECIMATE 5

// The most frequent, of several the smallest: for labels.
#define SW_PYRAMID_MODE 6

// The rows are not halved: the last dimension but one, y.
#define SW_KEEP_Y 1

// The columns are not halved: the last dimension, x.
#define SW_KEEP_X 2

// 0.5: axes, and a scale and a translation for each level.
#define SW_OME_0_5 0

// 0.6: the same as transformations between named coordinate systems; images that say where they are on the stage are
// put beside each other by a scene of their dataset, or of their well.
#define SW_OME_0_6 1

// Never.
#define SW_DEPTH_NEVER 0

// At every level as long as there are several planes; where z has no end while frames come, at every level, however
// few planes come.
#define SW_DEPTH_ALWAYS 1

// From the level on at which planes are no further apart than pixels are.
#define SW_DEPTH_AUTO 2

// Rows of shards along the first dimension are dealt out in turn.
#define SW_PART_BY_TIME 0

// Each has a band of columns, or of rows, of the frame.
#define SW_PART_BY_FRAME 1

// As in the array: numbers of the machine's byte order.
#define SW_PIXELS_PLAIN 0

// 16-bit numbers whose high byte comes first.
#define SW_PIXELS_BIG_ENDIAN 1

// 10 bits a pixel, lowest bit first: four pixels in five bytes.
#define SW_PIXELS_MONO10P 2

// 12 bits a pixel, lowest bit first: two pixels in three bytes.
#define SW_PIXELS_MONO12P 3

// 14 bits a pixel, lowest bit first: four pixels in seven bytes.
#define SW_PIXELS_MONO14P 4

// Two 10-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
#define SW_PIXELS_MONO10_PACKED 5

// Two 12-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
#define SW_PIXELS_MONO12_PACKED 6

// Three samples a pixel, which follow each other, each as in the array: RGB, BGR. A buffer holds a picture, which is a
// frame of each channel, under numbers that follow each other.
#define SW_PIXELS_RGB 7

// Four samples a pixel, as of SW_PIXELS_RGB: RGBA, BGRA.
#define SW_PIXELS_RGBA 8

// Rows become columns.
#define SW_ORIENTATION_TRANSPOSE 1

// The last row becomes the first, after that.
#define SW_ORIENTATION_FLIP_ROWS 2

// The last column becomes the first, after that.
#define SW_ORIENTATION_FLIP_COLUMNS 4

// Nothing: the field is 0, or NaN if it is a floating-point one.
#define SW_VALUE_NONE 0

// `i`.
#define SW_VALUE_INT 1

// `u`.
#define SW_VALUE_UINT 2

// `f`.
#define SW_VALUE_FLOAT 3

// A frame buffer became free after a call had found none, or no call will get one any more, because of the run's first
// error or because it takes no more frames: acquire until SW_RING_FULL, then wait.
#define SW_EVENT_BUFFER_FREE 1

// As many frame buffers are taken (on loan or committed, or what other images have of a ring that they share) as the
// mark says that was given. It comes again when not more than half as many were taken in between.
#define SW_EVENT_RING_HIGH 2

// The run has its first error: sw_first_error.
#define SW_EVENT_ERROR 4

// A checkpoint or a closed shard made frames durable: `frames_durable` of sw_stats.
#define SW_EVENT_DURABLE 8

// A shard is closed: `shards_closed` of sw_stats.
#define SW_EVENT_SHARD_CLOSED 16

// The run has ended, after sw_finish or sw_abort with a time limit; these don't wait any more now. Nothing more
// happens. Every descriptor tells of it, asked for or not.
#define SW_EVENT_ENDED 32

// Waiting for a free buffer, of frames that were committed: 0 where there was one at once. A copy into it does not
// count.
#define SW_STAGE_ACQUIRE 0

// A commit call.
#define SW_STAGE_COMMIT 1

// A layer between its last frame's commit and the first worker's look at it.
#define SW_STAGE_QUEUE 2

// Copying a tile together from its frames. The encoder for camera noise takes their rows from the ring itself.
#define SW_STAGE_GATHER 3

// A tile in the codec.
#define SW_STAGE_ENCODE 4

// Bringing an encoded tile into its slot.
#define SW_STAGE_STORE 5

// Writing a chunk, or several that waited together, on a thread that is no worker.
#define SW_STAGE_WRITE 6

// Creating a shard ahead of need. It counts also where no frame needs the shard, and it is removed in the end.
#define SW_STAGE_PREPARE_SHARD 7

// Closing a shard, or removing one that no frame needed.
#define SW_STAGE_CLOSE_SHARD 8

// Syncing an open shard and writing the index of what is in it.
#define SW_STAGE_CHECKPOINT 9

// Nothing is told.
#define SW_LOG_NONE 0

// Something failed.
#define SW_LOG_ERROR 1

// Something may become a problem.
#define SW_LOG_WARN 2

// The course of things.
#define SW_LOG_INFO 3

// Details.
#define SW_LOG_DEBUG 4

// More details.
#define SW_LOG_TRACE 5

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last error that a call on this thread returned, in English, without a line end; empty if there was
// none. A call that succeeds leaves it as it is.
//
// Never null, and of 1023 bytes at most: of a longer one, the middle is left out. It belongs to the library and stays
// as it is until the next call on this thread that fails.
const char *sw_last_error(void);

// What a status means in general, in English. Never null, and never freed. The text of a certain error is in
// sw_last_error.
const char *sw_status_text(sw_status status);

// The name of a status as this header has it, for example "SW_ERROR_IO"; of a number that is none, "SW_ERROR_OTHER".
// Never null, and never freed.
const char *sw_status_name(sw_status status);

// Whether the library that is loaded fits a program that was compiled with a header of this version: pass
// SW_VERSION_MAJOR and SW_VERSION_MINOR. Before version 1, the minor version must be the same; from then on, the major
// one, and the library's minor one may be newer.
//
// Errors: SW_ERROR_VERSION, with both versions in the text.
sw_status sw_check_version(uint32_t major, uint32_t minor);

// The library's version, for example "0.1.0". Never null, and never freed. A program may compare it with SW_VERSION,
// with which it was compiled.
const char *sw_version(void);

// Sets every field of `config` to its default, and its `size` to `size`, which is sizeof(sw_config).
//
// The size tells the library which fields the program was compiled with, so that both can grow at different times.
//
// Errors: only those of wrong arguments.
sw_status sw_config_init(struct sw_config *config, size_t size);

// Writes the configuration as a JSON document: what `document` takes, and what a settings page can show.
//
// `text` gets the document and an ending zero if its `capacity` bytes suffice, else nothing. `needed` (null: not
// wanted) gets how many bytes that are, also with SW_ERROR_SIZE. With `text` null and `capacity` 0, only `needed` is
// set.
//
// Errors: those of a wrong configuration struct, SW_ERROR_SIZE. Whether the values can work together is not looked at;
// for that, see sw_memory_needed.
sw_status sw_config_json(const struct sw_config *config, char *text, size_t capacity, size_t *needed);

// What a configuration will need, before anything is created. `memory` must have its `size` set.
//
// Errors: those of a wrong configuration, so that it also tells whether sw_create would accept it, but for what
// depends on where the image will be: `key`, `manifest`, `plate_acquisition`, `label`, whether `own_buffers` are
// another run's, and whether the system has the memory for `ring_bytes`, without which sw_create returns
// SW_ERROR_CONFIG.
sw_status sw_memory_needed(const struct sw_config *config, struct sw_memory *memory);

// Creates the dataset `path` (a folder, or one file if its name ends in `.ozx`) with one image and starts its
// acquisition. Folders on the way there are made. With `key` in the configuration, the path is that of a hierarchy of
// Zarr v3 groups, which may be another writer's: its documents stay as they are, groups that are not there yet are
// made, and an array in the way, Zarr v2, and consolidated metadata, by which readers would not see the image, are
// refused. `overwrite` replaces an image of this writer that is at the key, or an empty group: never an array, another
// writer's node, or a group that merely holds images.
//
// On return the dataset can be opened by readers, the ring's memory is there, and the first shard is reserved on the
// disk. If anything fails, nothing is left behind and `acquisition` is not set. Free the handle with sw_free.
//
// A process that ends without sw_finish leaves a dataset as a kill would: what the last checkpoint made durable is
// there, and `shardwright recover` restores the rest of what was stored.
//
// Errors: those of a wrong configuration; SW_ERROR_EXISTS for a dataset that is not to be replaced; SW_ERROR_FORMAT
// for a path at which something stands that is no dataset; SW_ERROR_LOCKED while a dataset there is being written, by
// this process or another; SW_ERROR_IO, SW_ERROR_TOO_MANY. It takes as long as the file system needs to reserve a
// shard, and the system to find the ring's memory: see `ring_bytes`.
sw_status sw_create(const char *path, const struct sw_config *config, struct sw_acquisition **acquisition);

// As sw_create, in a storage of the caller's own, whose struct is copied; its functions and its context must stay
// until the acquisition is freed.
//
// Errors: those of a wrong configuration; SW_ERROR_NULL for a function that is required; SW_ERROR_EXISTS if its
// `is_used` says that there is something in it; SW_ERROR_IO if one of its functions fails; SW_ERROR_TOO_MANY.
sw_status sw_create_in(const struct sw_storage *storage,
                       const struct sw_config *config,
                       struct sw_acquisition **acquisition);

// Borrows a free frame buffer, to be filled and then committed or discarded. Any number may be on loan at once, on any
// threads; for long, no more than sw_buffers says.
//
// It waits at most `timeout_ms` milliseconds; 0: not at all; SW_FOREVER; SW_AS_CONFIGURED.
//
// Errors: SW_RING_FULL when the time is up: nothing is broken, try again; a frame number that is never committed will
// be recorded as missing. After a frame that was left out so, commit by numbers: SW_NEXT does not know of it.
// SW_ERROR_ENDED. Otherwise the first error of the run, for example SW_ERROR_IO.
sw_status sw_acquire(struct sw_acquisition *acquisition, int64_t timeout_ms, struct sw_frame *frame);

// As sw_acquire, but this buffer and no other: for drivers that were told of all buffers up front and fill them in
// their own order. Buffers that become free before it are kept for other calls.
//
// Errors: as sw_acquire; SW_ERROR_FRAME if the buffer is on loan already; SW_ERROR_ARGUMENT if there is none of that
// index, and for an image of a dataset without `own_buffers`, which shares its buffers with others of its frame size.
sw_status sw_acquire_buffer(struct sw_acquisition *acquisition,
                            uint32_t index,
                            int64_t timeout_ms,
                            struct sw_frame *frame);

// Hands a filled frame to the workers under its number, counted from 0 in acquisition order; SW_NEXT: the next one.
//
// Numbers may come out of order and from several threads, as long as none is more than sw_layout's `reorder_window`
// behind the newest. `record` may be null. It never waits for the disk, and while chunks that fill or wait for the
// workers take less than half of the ring, it wakes nobody as a rule: workers look by themselves, each 1 to 10 ms.
//
// After SW_ERROR_RECORD, SW_ERROR_NULL, SW_ERROR_MISALIGNED, SW_ERROR_SIZE, SW_ERROR_VERSION, SW_ERROR_ARGUMENT,
// SW_ERROR_HANDLE and SW_ERROR_FORKED the frame is still on loan: commit it otherwise, or discard it. SW_ERROR_FRAME
// says that it was not this loan, of which nothing has changed. After SW_OK and all other errors the buffer is the
// library's again.
//
// Errors: SW_ERROR_FRAME if the frame is not on loan, because it was committed before; SW_ERROR_FRAME_NUMBER for a
// number that came before, comes too late or lies beyond the array; SW_ERROR_RECORD for a field that was not
// configured, and for a value that does not fit its field; SW_ERROR_ENDED. Otherwise the first error of the run.
sw_status sw_commit(struct sw_acquisition *acquisition,
                    const struct sw_frame *frame,
                    uint64_t number,
                    const struct sw_record *record);

// As sw_commit, by the buffer's index: for drivers that name a buffer and know nothing of a frame.
//
// Errors: as sw_commit; SW_ERROR_ARGUMENT if there is no buffer of that index.
sw_status sw_commit_buffer(struct sw_acquisition *acquisition,
                           uint32_t index,
                           uint64_t number,
                           const struct sw_record *record);

// Gives a frame's buffer back unused. Also after the acquisition has ended.
//
// Errors: SW_ERROR_FRAME if the frame is not on loan.
sw_status sw_discard(struct sw_acquisition *acquisition, const struct sw_frame *frame);

// As sw_discard, by the buffer's index.
//
// Errors: SW_ERROR_FRAME if the buffer is not on loan; SW_ERROR_ARGUMENT if there is none of that index.
sw_status sw_discard_buffer(struct sw_acquisition *acquisition, uint32_t index);

// The addresses of all frame buffers, by index: what GenTL's DSAnnounceBuffer, DCAM's dcambuf_attach or Spinnaker's
// SetUserBuffers want to know before the first frame. They stay the same until the acquisition is freed.
//
// Images of a dataset share buffers with those of the same frame size, unless they have `own_buffers`.
//
// A buffer may be filled only while it is on loan. Not all may be on loan for long: the frames of a chunk stay in the
// ring until its last one comes, so that the library needs at least one buffer less than those are: at most the chunk
// length of the first dimension times the frames of all faster ones. Where the driver holds more, numbers are given up
// for which it waits, and frames are refused as too late that come in their order.
//
// `addresses` gets all of them if its room for `capacity` of them suffices, else nothing; `count` (null: not wanted)
// gets how many there are, also with SW_ERROR_SIZE. With `addresses` null and `capacity` 0, only `count` is set.
//
// Errors: SW_ERROR_SIZE.
sw_status sw_buffers(struct sw_acquisition *acquisition, void **addresses, size_t capacity, size_t *count);

// Copies one or several whole frames, which follow each other without gaps, and commits them under the next numbers.
//
// `row_stride` is the distance of rows in `pixels` in bytes, for frames that are cut out of a larger picture; 0: rows
// follow each other. `record` (null: none) is that of every frame. The whole call waits at most `timeout_ms` for free
// buffers. `appended` may be null, if it is one frame and SW_RING_FULL_DROP_NEWEST is not configured.
//
// Errors: SW_ERROR_FRAME_SIZE; SW_ERROR_ARGUMENT for a wrong `row_stride`; as sw_acquire and sw_commit. If the ring
// becomes full after the first frame, or the call can't go on for another reason, it returns SW_OK, and `appended`
// says how many were taken; call again with the rest, to hear the reason.
sw_status sw_append(struct sw_acquisition *acquisition,
                    const void *pixels,
                    size_t bytes,
                    size_t row_stride,
                    const struct sw_record *record,
                    int64_t timeout_ms,
                    struct sw_appended *appended);

// Sets a user attribute of the image to a JSON value. It is in the dataset after the next checkpoint or closed shard,
// at the latest at the end. Set again, it has the new value.
//
// Errors: SW_ERROR_ARGUMENT if `json` is not a JSON value; SW_ERROR_CONFIG for an empty name, for "ome" and
// "shardwright", and in SW_DIALECT_ZARR2_SHARDED "_ARRAY_DIMENSIONS", which the writer sets itself, and for a value
// nested deeper than 64 levels or with a number beyond those of a `double`, such as 1e400; SW_ERROR_ENDED. Otherwise
// the first error of the run. Integers of any length stay as they are.
sw_status sw_set_attribute(struct sw_acquisition *acquisition, const char *key, const char *json);

// Takes one or several pictures apart whose pixels have 3 or 4 samples that follow each other, as RGB and RGBA have
// them, and commits a frame for each sample under the next numbers: red, green, blue, and red of the next picture.
//
// The outer dimension that changes fastest, which is the channel then, has `samples` elements. `row_stride` is the
// distance of rows in `pixels` in bytes; 0: rows follow each other. `record` (null: none) is that of every frame. The
// whole call waits at most `timeout_ms` for free buffers. `appended` counts frames; a picture is taken as a whole.
// Colours that lie plane by plane are frames already, which sw_append takes. Whoever commits frames on another thread
// meanwhile may get a number between those of a picture. After single frames, a picture is refused until they are as
// many as `samples`, or a multiple.
//
// With SW_PIXELS_RGB or SW_PIXELS_RGBA, for cameras that fill the buffers themselves, pictures are copied as they are.
//
// Errors: SW_ERROR_CONFIG where there is no such channel, where the next frame's is not the first, where pixels are
// packed, and for a ring that is too small for a picture; as sw_append.
sw_status sw_append_interleaved(struct sw_acquisition *acquisition,
                                const void *pixels,
                                size_t bytes,
                                uint32_t samples,
                                size_t row_stride,
                                const struct sw_record *record,
                                int64_t timeout_ms,
                                struct sw_appended *appended);

// Copies one or several frames of which the camera gives only the part `roi`, and commits them under the next numbers.
// The part stands in the frame where it says, before frames are turned; all around it is the fill value. The record of
// each frame says where in the image the part is, as do those of whole frames.
//
// Rows of `pixels` are as long as those of the part. `row_stride` is their distance in bytes; 0: rows follow each
// other. `record` (null: none) is that of every frame. The whole call waits at most `timeout_ms` for free buffers.
//
// Errors: SW_ERROR_FRAME_SIZE for what is no part of a frame, too; SW_ERROR_CONFIG where `record_roi` is not
// configured; as sw_append.
sw_status sw_append_roi(struct sw_acquisition *acquisition,
                        const void *pixels,
                        size_t bytes,
                        const struct sw_roi *roi,
                        size_t row_stride,
                        const struct sw_record *record,
                        int64_t timeout_ms,
                        struct sw_appended *appended);

// Creates the dataset `path` (see sw_create) for several images. `overwrite` 1: a dataset that is in the way is
// replaced; anything else never is, nor what is a part of a hierarchy of Zarr nodes (see `overwrite` of sw_config).
// Free the handle with sw_dataset_free.
//
// Errors: SW_ERROR_EXISTS for a dataset that is not to be replaced; SW_ERROR_FORMAT for a path at which something
// stands that is no dataset; SW_ERROR_LOCKED while a dataset there is being written; SW_ERROR_IO, SW_ERROR_TOO_MANY.
sw_status sw_dataset_create(const char *path, uint32_t overwrite, struct sw_dataset **dataset);

// As sw_dataset_create, in a storage of the caller's own, whose struct is copied; its functions and its context must
// stay until the dataset and all its acquisitions are freed.
//
// Errors: SW_ERROR_NULL for a function that is required; SW_ERROR_EXISTS if its `is_used` says that there is something
// in it; SW_ERROR_IO if one of its functions fails; SW_ERROR_TOO_MANY.
sw_status sw_dataset_create_in(const struct sw_storage *storage, struct sw_dataset **dataset);

// Makes the dataset a plate, before its first image: from then on, images are fields of wells and named
// ROW/COLUMN/FIELD, as B/3/0, in whatever order the wells are visited. `plate`: a JSON document, as
// {"name": "assay", "rows": ["A", "B"], "columns": ["1", "2", "3"]}; with several acquisitions also
// "acquisitions": [{"id": 1, "name": "before"}, {"id": 2}], of which sw_config.plate_acquisition says an image's. The
// plate lists the wells whose images have begun; a field to which nothing came is taken back when its run ends.
//
// Errors: SW_ERROR_CONFIG for a text that is no such document, for names that are there twice or are no letters and
// digits, after the first image, and for a second plate.
sw_status sw_dataset_plate(struct sw_dataset *dataset, const char *plate);

// Starts the acquisition of one image of the dataset: a group of its own, `name`, of letters, digits, _, - and dots;
// on a plate, its place there; for labels of an image that has begun, IMAGE/labels/NAME.
//
// Errors: as sw_create; SW_ERROR_EXISTS if there is an image of that name.
sw_status sw_dataset_acquisition(struct sw_dataset *dataset,
                                 const char *name,
                                 const struct sw_config *config,
                                 struct sw_acquisition **acquisition);

// Gives the handle back. Acquisitions of the dataset go on; the dataset is unlocked when the last of them is freed.
// One in which no image was finished or got a frame disappears; without a frame, also with sw_finish, one that it was
// to replace is back.
//
// Errors: SW_ERROR_BUSY if another thread is in a call with the handle, which stays good then.
sw_status sw_dataset_free(struct sw_dataset *dataset);

// Opens a descriptor that is readable while one of `events` has happened that was not fetched yet: for poll, epoll and
// every event loop that takes descriptors. Linux: an eventfd, which programs that this one starts don't get.
//
// It tells of edges. Call sw_event_wait, then look at everything that it told of until there is nothing to do, then
// wait again: nothing that happens in between is missed. At first it tells of what has happened before. Each thread or
// event loop that waits wants a descriptor of its own, because what one fetches is gone for all others. However often
// something happens in between, it is one system call for whoever makes it happen, and none in sw_commit as long as
// the ring is not empty and nothing goes wrong.
//
// `ring_mark`: from how many taken buffers on SW_EVENT_RING_HIGH comes; 0: three quarters of sw_stats' `ring_frames`.
// When these become fewer than the mark, because other images begin, it comes when all of them are taken. The
// descriptor is the library's: close it with sw_event_close, or leave that to sw_free, but never with close. It works
// on while the run ends and afterwards. After a fork, it is of no use to the child.
//
// Errors: SW_ERROR_ARGUMENT if `events` is 0 or has others; SW_ERROR_CONFIG for a mark beyond `ring_frames`;
// SW_ERROR_IO if the process has no descriptor left.
sw_status sw_event_open(struct sw_acquisition *acquisition, sw_events events, uint64_t ring_mark, int32_t *descriptor);

// Fetches what has happened since the last call, as soon as there is something. It waits at most `timeout_ms`
// milliseconds; 0: not at all; SW_FOREVER. It never waits beyond the end of the run: a call that would have to gets
// SW_EVENT_ENDED each time, whatever was asked for; with 0, it comes once, so that a loop which fetches all comes to
// its end. A thread in this or any other call must not be cancelled (pthread_cancel).
//
// Errors: SW_TIMEOUT when nothing has happened; SW_ERROR_ENDED if another thread has closed the descriptor meanwhile;
// SW_ERROR_ARGUMENT if the descriptor is not one of this acquisition.
sw_status sw_event_wait(struct sw_acquisition *acquisition, int32_t descriptor, int64_t timeout_ms, sw_events *events);

// Closes a descriptor of sw_event_open. Threads that are in sw_event_wait with it return: with SW_ERROR_ENDED, unless
// something has happened that they fetch. Take it out of poll and epoll first: as soon as it is closed, and the last
// of those threads has returned, the system may give its number to another file.
//
// Errors: SW_ERROR_ARGUMENT if it is not one of this acquisition.
sw_status sw_event_close(struct sw_acquisition *acquisition, int32_t descriptor);

// Has each of `events` told to `callback`, for programs that have an event loop of another kind: first what has
// happened before, then every edge. `ring_mark` is as for sw_event_open. The function and its context must stay until
// the acquisition is freed.
//
// Errors: SW_ERROR_ARGUMENT if `events` is 0 or has others; SW_ERROR_CONFIG for a mark beyond `ring_frames`.
sw_status sw_on_event(struct sw_acquisition *acquisition,
                      sw_events events,
                      uint64_t ring_mark,
                      sw_event_fn callback,
                      void *context);

// The first error of the run, if there was one: what sw_acquire and sw_commit tell from then on, as long as the run
// takes frames, and sw_finish. After sw_abort it is SW_ABORTED, if there was none before: also where no frame was
// lost, of which sw_finish makes no error. For a program that looks now and then how a run is; SW_OK while all is
// well.
//
// Errors: those of wrong arguments, and the run's own.
sw_status sw_first_error(struct sw_acquisition *acquisition);

// The number of the first frame that the run's first error is about.
//
// Errors: SW_ERROR_NOT_FOUND if there was no error, or one that is about no certain frame, as a document that could
// not be written; those of wrong arguments.
sw_status sw_first_error_frame(struct sw_acquisition *acquisition, uint64_t *frame);

// What SW_NEXT would be now. Other threads may take it meanwhile.
//
// Errors: only those of wrong arguments.
sw_status sw_next_number(struct sw_acquisition *acquisition, uint64_t *number);

// Counters of this moment, also while the run ends and after its end. It takes no lock and no memory.
//
// Errors: only those of wrong arguments.
sw_status sw_get_stats(struct sw_acquisition *acquisition, struct sw_stats *stats);

// How long a stage took until now. It takes some memory for the moment of the call. Images of one dataset share their
// threads: of these, it is what the stage took for all of them.
//
// Errors: SW_ERROR_ARGUMENT for a stage that there is not.
sw_status sw_get_latency(struct sw_acquisition *acquisition, sw_stage stage, struct sw_latency *latency);

// The sizes with which the acquisition runs.
//
// Errors: only those of wrong arguments.
sw_status sw_get_layout(struct sw_acquisition *acquisition, struct sw_layout *layout);

// Takes no more frames: whoever acquires or commits one from now on gets SW_ERROR_ENDED, and whoever waits for a
// buffer is woken. Frames that were committed go on to their shards. End the run with sw_finish or sw_abort all the
// same.
//
// Callbacks and a storage's functions can't end every run: sw_close, sw_finish, sw_finish_all, sw_abort and sw_free
// return SW_ERROR_BUSY in those of the run itself and of other images of its dataset, in those of another run whose
// end a callback of this one waits for, and, of whatever run, in the log's function and in `own_buffers_release`
// (where the handle that is being freed is SW_ERROR_HANDLE). Call them on another thread.
//
// Errors: SW_ERROR_BUSY.
sw_status sw_close(struct sw_acquisition *acquisition);

// Ends the acquisition: no more frames are taken; all committed frames are brought into their shards, these are
// closed, the documents completed. Numbers below the newest that never came count as missing, and so do those beyond
// it for which the array has a place all the same, as in a stack or among channels that were begun.
//
// If no frame was committed, an empty array stays. One that was to replace a dataset (`overwrite` of sw_config, or of
// sw_dataset_create) disappears, and what it was to replace is back; of several images, when all have ended without a
// frame and sw_dataset_free was called.
//
// It waits at most `timeout_ms` milliseconds, or SW_FOREVER. After SW_TIMEOUT the run goes on ending by itself; call
// again to wait longer. `summary` (null: not wanted) must have its `size` set. Frames that are still on loan can't be
// committed any more; their memory stays until sw_free, so that a driver may be stopped afterwards.
//
// Errors: SW_TIMEOUT; SW_ERROR_BUSY if another thread waits in this call, and in callbacks (see sw_close);
// SW_ERROR_ENDED if the outcome was told before, by this call or by sw_abort; SW_ERROR_IO if the system gives no
// thread that ends the run, after which it may be called again; otherwise the first error of the run, once, which is
// SW_ABORTED if it was aborted and lost frames by that: sw_get_summary then says what was saved all the same.
sw_status sw_finish(struct sw_acquisition *acquisition, int64_t timeout_ms, struct sw_summary *summary);

// Ends the acquisition at once: frames that wait in the ring are lost, everything that is in a shard stays readable.
// If no frame was committed, the dataset disappears, and one that it was to replace is back. A sw_finish that is under
// way ends sooner. If the run has ended, nothing happens.
//
// It waits at most `timeout_ms` milliseconds, or SW_FOREVER, for the chunks that are being encoded and for the shards
// to close.
//
// Errors: SW_TIMEOUT, and SW_ERROR_IO if the system gives no thread that ends the run, after both of which it may be
// called again; SW_ERROR_BUSY in callbacks (see sw_close).
sw_status sw_abort(struct sw_acquisition *acquisition, int64_t timeout_ms);

// What came of a run that has ended, also with an error. `summary` must have its `size` set.
//
// Errors: SW_ERROR_NOT_ENDED; the run's error where there is no summary, as after a panic of the library.
sw_status sw_get_summary(struct sw_acquisition *acquisition, struct sw_summary *summary);

// As sw_get_summary, everything as a JSON document: also the numbers of the missing frames, the array's shape, the
// latencies of each stage, the storage that was chosen and why.
//
// `text` gets the document and an ending zero if its `capacity` bytes suffice, else nothing. `needed` (null: not
// wanted) gets how many bytes that are, also with SW_ERROR_SIZE. With `text` null and `capacity` 0, only `needed` is
// set.
//
// Errors: as sw_get_summary; SW_ERROR_SIZE.
sw_status sw_summary_json(struct sw_acquisition *acquisition, char *text, size_t capacity, size_t *needed);

// Gives back the handle, the ring's memory and all else of an acquisition that has ended. It never waits for a disk.
//
// Errors: SW_ERROR_NOT_ENDED: finish or abort it first, so that nothing is lost unnoticed. SW_ERROR_BUSY if another
// thread is in a call with the handle, and in callbacks (see sw_close). After both, the handle is good as before, and
// `own_buffers_release` was not called.
sw_status sw_free(struct sw_acquisition *acquisition);

// As sw_dataset_acquisition for each of `count` images, with their documents brought to the device together.
// `names` and `configs` have `count` pointers, none of them null; several of `configs` may be the same. `acquisitions`
// gets `count` handles. Their shards are created when their first frames come; those of images without an end must all
// have room on the disk. With `count` 0, nothing happens, and the lists may be null.
//
// The more images, the fewer frames of the ring each of them may have: 32,768 divided by their number, but 128 at
// least and 4,096 at most.
//
// Errors: as sw_dataset_acquisition; SW_ERROR_CONFIG for a name that is there twice; SW_ERROR_ARGUMENT for a
// configuration with buffers of the caller's own; SW_ERROR_TOO_MANY. No image is left behind then, and no handle is
// set.
sw_status sw_dataset_acquisitions(struct sw_dataset *dataset,
                                  const char *const *names,
                                  const struct sw_config *const *configs,
                                  size_t count,
                                  struct sw_acquisition **acquisitions);

// Ends several acquisitions as sw_finish ends each, but with what has to reach the device brought there together.
// Their summaries are to be had by sw_get_summary. With `count` 0, nothing happens, and the list may be null.
//
// It waits at most `timeout_ms` milliseconds, or SW_FOREVER. After SW_TIMEOUT all go on ending by themselves; call
// again to wait longer.
//
// Errors: SW_ERROR_ARGUMENT for a handle that is there twice; SW_TIMEOUT; SW_ERROR_IO, SW_ERROR_BUSY and
// SW_ERROR_ENDED as sw_finish, before any run is ended: one whose outcome was told leaves all others running, so take
// it out of the list (sw_get_summary tells which have ended) and call again; otherwise the first error of the first of
// these runs that has one, when all have ended: sw_first_error tells that of each.
sw_status sw_finish_all(struct sw_acquisition *const *acquisitions, size_t count, int64_t timeout_ms);

// Has log lines up to `level` told to `callback`, in place of the function before; null: to nobody. It holds for the
// whole process. On return, the function before is not called any more. A child after a fork tells nobody until it
// calls this itself, and never waits for what a thread of its parent was doing.
//
// Errors: SW_ERROR_BUSY in a callback or a storage's function; SW_ERROR_ARGUMENT for a wrong level;
// SW_ERROR_UNSUPPORTED in a Rust program that has a subscriber for `tracing` of its own.
sw_status sw_set_log(sw_log_level level, sw_log_fn callback, void *context);

// Has the keys of shards, from the root of the dataset on, told to `callback` that are closed from now on: such a
// shard is complete, and with `sync` on the device. It can be set once for an acquisition. The function and its
// context must stay until the acquisition is freed.
//
// Errors: SW_ERROR_BUSY if one was set before, SW_ERROR_ENDED.
sw_status sw_on_shard_closed(struct sw_acquisition *acquisition, sw_shard_fn callback, void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SHARDWRIGHT_H */
