/* A GenICam camera through Aravis, without a copy: the stream fills the ring's own buffers, which were announced to it.

   cc genicam.c $(pkg-config --cflags --libs shardwright aravis-0.8) arv-fake-gv-camera-0.8 -i lo -s GV01 & ./a.out
   run.ome.zarr Aravis-GV01 1000

   It runs until that many frames are there. One that the network lost is not committed; its number is reported as
   missing. */

#include <arv.h>
#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 256, HEIGHT = 128, IN_FLIGHT = 16 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static int arv_failed(const char *what, GError *error) {
    fprintf(stderr, "%s: %s\n", what, error ? error->message : "no answer");
    return 1;
}

static sw_status create(const char *path, size_t payload, sw_acquisition **acquisition) {
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 4, .shard = 256},
        {.name = "y", .kind = SW_DIM_SPACE, .size = HEIGHT},
        {.name = "x", .kind = SW_DIM_SPACE, .size = WIDTH},
    };
    const sw_record_field fields[] = {{.name = "frame_id", .dtype = SW_U64}};
    sw_config config;
    sw_config_init(&config, sizeof config);
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = 128 * payload;
    /* The camera may send more than the picture behind it; the buffer holds it all. */
    config.buffer_bytes = payload;
    config.row_stride = WIDTH;
    config.record_fields = fields;
    config.record_field_count = 1;
    return sw_create(path, &config, acquisition);
}

/* From one frame's id to another's. GigE Vision counts from 1 to 65535 and then from 1 again; frames may come out of
   order. */
static int64_t steps(uint64_t from, uint64_t to) {
    int64_t steps = (int64_t)(to - from);
    if (steps < -32768) return steps + 65535;
    return steps > 32768 ? steps - 65535 : steps;
}

/* Lends one more buffer to the stream. */
static sw_status lend(sw_acquisition *acquisition, ArvStream *stream, ArvBuffer **announced) {
    sw_frame frame;
    sw_status status = sw_acquire(acquisition, 5000, &frame);
    if (status == SW_OK) arv_stream_push_buffer(stream, g_object_ref(announced[frame.index]));
    return status;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: %s OUTPUT CAMERA FRAMES\n", argv[0]), 2;
    const uint64_t frames = strtoull(argv[3], NULL, 10);
    GError *error = NULL;
    ArvCamera *camera = arv_camera_new(argv[2], &error);
    if (!camera) return arv_failed("open the camera", error);
    arv_camera_set_region(camera, 0, 0, WIDTH, HEIGHT, &error);
    if (!error) arv_camera_set_pixel_format(camera, ARV_PIXEL_FORMAT_MONO_8, &error);
    if (!error) arv_camera_set_exposure_time(camera, 10000, &error);
    if (!error) arv_camera_set_gain(camera, 0, &error);
    if (!error) arv_camera_set_frame_rate(camera, 100, &error);
    /* Loopback, on which the simulated camera is, knows no packet sockets. */
    if (!error && arv_camera_is_gv_device(camera))
        arv_camera_gv_set_stream_options(camera, ARV_GV_STREAM_OPTION_PACKET_SOCKET_DISABLED);
    const size_t payload = error ? 0 : arv_camera_get_payload(camera, &error);
    ArvStream *stream = error ? NULL : arv_camera_create_stream(camera, NULL, NULL, &error);
    if (!stream) return arv_failed("set the camera up", error);

    sw_acquisition *acquisition;
    if (create(argv[1], payload, &acquisition)) return failed("create");
    size_t count;
    if (sw_buffers(acquisition, NULL, 0, &count)) return failed("count the buffers");
    void **addresses = calloc(count, sizeof *addresses);
    ArvBuffer **announced = calloc(count, sizeof *announced);
    if (sw_buffers(acquisition, addresses, count, NULL)) return failed("list the buffers");
    for (size_t at = 0; at < count; at++)
        announced[at] = arv_buffer_new_full(payload, addresses[at], GSIZE_TO_POINTER(at), NULL);
    for (int at = 0; at < IN_FLIGHT; at++)
        if (lend(acquisition, stream, announced)) return failed("lend a buffer");

    arv_camera_start_acquisition(camera, &error);
    if (error) return arv_failed("start", error);
    uint64_t committed = 0, last_id = 0;
    int64_t number = 0;
    while (committed < frames) {
        ArvBuffer *buffer = arv_stream_timeout_pop_buffer(stream, 10 * 1000 * 1000);
        if (!buffer) return arv_failed("wait for a frame", NULL);
        if (arv_buffer_get_status(buffer) != ARV_BUFFER_STATUS_SUCCESS) {
            /* Lost on the way: the same buffer may go again. */
            arv_stream_push_buffer(stream, buffer);
            continue;
        }
        const uint64_t id = arv_buffer_get_frame_id(buffer);
        const int64_t next = committed ? number + steps(last_id, id) : 0;
        if (next < 0) {
            /* Older than the first one. */
            arv_stream_push_buffer(stream, buffer);
            continue;
        }
        number = next;
        last_id = id;
        const uint32_t index = (uint32_t)GPOINTER_TO_SIZE(arv_buffer_get_user_data(buffer));
        const sw_value value = {.kind = SW_VALUE_UINT, .number = {.u = id}};
        const sw_record record = {.size = sizeof record,
                                  .has = SW_HAS_DEVICE_TIMESTAMP | SW_HAS_HOST_TIMESTAMP,
                                  .device_timestamp = arv_buffer_get_timestamp(buffer),
                                  .host_timestamp = (int64_t)arv_buffer_get_system_timestamp(buffer),
                                  .values = &value,
                                  .value_count = 1};
        g_object_unref(buffer);
        if (sw_commit_buffer(acquisition, index, (uint64_t)number, &record)) return failed("commit");
        committed++;
        if (lend(acquisition, stream, announced)) return failed("lend a buffer");
    }
    arv_camera_stop_acquisition(camera, NULL);
    g_object_unref(stream);
    g_object_unref(camera);

    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(acquisition, SW_FOREVER, &summary)) return failed("finish");
    /* Only now: the stream might have filled a buffer until it was gone. */
    for (size_t at = 0; at < count; at++) g_object_unref(announced[at]);
    free(announced);
    free(addresses);
    if (sw_free(acquisition)) return failed("free");
    printf("%llu frames written, %llu missing\n", (unsigned long long)summary.frames_written,
           (unsigned long long)summary.frames_missing);
    return 0;
}
