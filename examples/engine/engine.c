/* A small hand-written inference engine that records itself.
 *
 * It runs the network of digits.onnxtxt with the weights compiled in, as such engines do:
 * convolution, leaky ReLU, max pooling, a fully connected layer, softmax. After each layer it hands
 * the buffer to plumb under the name that the value has in the ONNX model; that is all it takes to
 * compare the two.
 *
 *   engine [--bug] RECORDING.safetensors
 *
 * --bug is a mistake of the kind that such engines have: the pooling starts its maximum at 0, which
 * is right after a ReLU and wrong after a leaky one. Only windows without a positive element are
 * wrong, so that the probabilities look plausible. README.md shows how it is found. */
#include <math.h>
#include <plumb.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 6, CHANNELS = 2, KERNEL = 3, POOLED = SIDE / 2, CLASSES = 3 };
enum { FEATURES = CHANNELS * POOLED * POOLED };

static const float conv_w[CHANNELS][KERNEL][KERNEL] = {
    { { 0.5f, -0.25f, 0.125f }, { 0.75f, -0.5f, 0.25f }, { -0.125f, 0.375f, -0.625f } },
    { { -0.375f, 0.625f, 0.25f }, { -0.125f, 0.5f, -0.75f }, { 0.875f, -0.25f, 0.125f } },
};
static const float conv_b[CHANNELS] = { 0.1f, -0.2f };
/* clang-format off */
static const float fc_w[CLASSES][FEATURES] = {
    { 0.2f, -0.1f, 0.4f, 0.3f, -0.5f, 0.1f, 0.6f, -0.2f, 0.1f, -0.3f, 0.2f, 0.5f, -0.4f, 0.1f, 0.3f, -0.1f, 0.2f, 0.4f },
    { -0.3f, 0.5f, 0.1f, -0.2f, 0.4f, -0.6f, 0.2f, 0.3f, -0.1f, 0.4f, -0.2f, 0.1f, 0.5f, -0.3f, 0.2f, 0.1f, -0.4f, 0.6f },
    { 0.1f, 0.3f, -0.2f, 0.5f, 0.2f, 0.4f, -0.1f, -0.5f, 0.3f, 0.2f, -0.6f, 0.1f, 0.4f, 0.2f, -0.3f, 0.5f, 0.1f, -0.2f },
};
/* clang-format on */
static const float fc_b[CLASSES] = { 0.05f, -0.05f, 0.0f };
/* What the camera saw. */
static const float photo[SIDE][SIDE] = {
    { 1.79f, 0.44f, 0.10f, -1.86f, -0.28f, -0.35f },
    { -0.08f, -0.63f, -0.04f, -0.48f, -1.31f, 0.88f },
    { 0.88f, 1.71f, 0.05f, -0.40f, -0.55f, -1.55f },
    { 0.98f, -1.10f, -1.19f, -0.21f, 1.49f, 0.24f },
    { -1.02f, -0.71f, 0.63f, -0.16f, -0.77f, -0.23f },
    { 0.75f, 1.98f, -1.24f, -0.63f, -0.80f, -2.42f },
};

typedef float image[SIDE][SIDE];
typedef float planes[CHANNELS][SIDE][SIDE];

static float pixel(const image in, int y, int x) {
    return y < 0 || y >= SIDE || x < 0 || x >= SIDE ? 0 : in[y][x];
}

static void convolve(const image in, planes out) {
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                float sum = conv_b[c];
                for (int i = 0; i < KERNEL; i++)
                    for (int j = 0; j < KERNEL; j++)
                        sum += conv_w[c][i][j] * pixel(in, y + i - 1, x + j - 1);
                out[c][y][x] = sum;
            }
}

static void leaky_relu(const planes in, planes out) {
    const float *from = &in[0][0][0];
    float *to = &out[0][0][0];
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        to[i] = from[i] < 0 ? 0.1f * from[i] : from[i];
}

static void max_pool(const planes in, float out[CHANNELS][POOLED][POOLED], int bug) {
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < POOLED; y++)
            for (int x = 0; x < POOLED; x++) {
                float best = bug ? 0 : -INFINITY;
                for (int i = 0; i < 4; i++) {
                    const float v = in[c][2 * y + i / 2][2 * x + i % 2];
                    best = v > best ? v : best;
                }
                out[c][y][x] = best;
            }
}

static void fully_connected(const float *in, float out[CLASSES]) {
    for (int k = 0; k < CLASSES; k++) {
        out[k] = fc_b[k];
        for (int i = 0; i < FEATURES; i++)
            out[k] += fc_w[k][i] * in[i];
    }
}

static void softmax(const float in[CLASSES], float out[CLASSES]) {
    float top = in[0], sum = 0;
    for (int k = 1; k < CLASSES; k++)
        top = in[k] > top ? in[k] : top;
    for (int k = 0; k < CLASSES; k++)
        sum += out[k] = expf(in[k] - top);
    for (int k = 0; k < CLASSES; k++)
        out[k] /= sum;
}

/* Runs the network; with a recorder every layer is written under its name in the model. */
static plumb_status infer(const image in, int bug, plumb_recorder *r, float out[CLASSES],
                          plumb_error *err) {
    const int64_t input[] = { 1, 1, SIDE, SIDE }, full[] = { 1, CHANNELS, SIDE, SIDE },
                  pooled[] = { 1, CHANNELS, POOLED, POOLED }, flat[] = { 1, FEATURES },
                  classes[] = { 1, CLASSES };
    planes conv, relu;
    float pool[CHANNELS][POOLED][POOLED], logits[CLASSES];
    convolve(in, conv);
    leaky_relu((const float(*)[SIDE][SIDE])conv, relu);
    max_pool((const float(*)[SIDE][SIDE])relu, pool, bug);
    fully_connected(&pool[0][0][0], logits);
    softmax(logits, out);
    const struct {
        const char *name;
        int rank;
        const int64_t *dims;
        const void *data;
    } values[] = { { "image", 4, input, in },           { "conv_out", 4, full, conv },
                   { "relu_out", 4, full, relu },       { "pool_out", 4, pooled, pool },
                   { "features", 2, flat, pool },       { "logits", 2, classes, logits },
                   { "probabilities", 2, classes, out } };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const plumb_status st = plumb_recorder_write(r, values[i].name, PLUMB_FLOAT, values[i].rank,
                                                     values[i].dims, NULL, values[i].data, err);
        if (st != PLUMB_OK) return st;
    }
    return PLUMB_OK;
}

int main(int argc, char **argv) {
    const int bug = argc > 1 && strcmp(argv[1], "--bug") == 0;
    plumb_error err = { PLUMB_OK, "" };
    plumb_recorder *recorder = NULL;
    float out[CLASSES];
    if (argc != 2 + bug) {
        fprintf(stderr, "usage: engine [--bug] RECORDING.safetensors\n");
        return 2;
    }
    plumb_recorder_options options;
    plumb_recorder_options_init(&options);
    options.engine = "examples/engine";
    options.engine_version = "1";
    plumb_status st = plumb_recorder_open(argv[1 + bug], &options, &recorder, &err);
    if (st == PLUMB_OK) st = infer(photo, bug, recorder, out, &err);
    if (st == PLUMB_OK) {
        st = plumb_recorder_close(recorder, &err);
    } else {
        plumb_recorder_abandon(recorder);
    }
    if (st != PLUMB_OK) {
        fprintf(stderr, "engine: %s\n", err.message);
        return plumb_exit_code(st);
    }
    printf("%.6f %.6f %.6f\n", (double)out[0], (double)out[1], (double)out[2]);
    return 0;
}
