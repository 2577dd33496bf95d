/* Writes a recording of N tensors of M MB through plumb_recorder_*: hash, write, sync, name.
 *   write_recording FILE N M          prints seconds */
#include <plumb.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    plumb_error err = { 0 };
    plumb_recorder *recorder = NULL;
    struct timespec t0, t1;
    if (argc != 4) return 2;
    const int n = atoi(argv[2]);
    const int64_t elements = (int64_t)atoi(argv[3]) << 18;
    float *data = malloc((size_t)elements * sizeof(float));
    if (data == NULL) return 1;
    for (int64_t i = 0; i < elements; i++)
        data[i] = (float)((unsigned)i * 2654435761u);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    if (plumb_recorder_open(argv[1], NULL, &recorder, &err) != PLUMB_OK) goto failed;
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        data[0] = (float)i;
        if (plumb_recorder_write(recorder, name, PLUMB_FLOAT, 1, &elements, NULL, data, &err) !=
            PLUMB_OK)
            goto failed;
    }
    if (plumb_recorder_close(recorder, &err) != PLUMB_OK) goto failed;
    clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("%.6f\n", (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec));
    free(data);
    return 0;
failed:
    fprintf(stderr, "%s\n", err.message);
    return 1;
}
