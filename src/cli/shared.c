/* Options that several commands share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/args.h"

/* A session was made on inputs that its folder does not give as a test folder does: a verdict on
 * generated ones would be taken for one on those. */
static bool is_no_session(const char *dir, plumb_error *err) {
    char path[4096];
    const int n = snprintf(path, sizeof(path), "%s/session.json", dir);
    if (n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) != 0) return true;
    return pl_args_fail(err, PLUMB_E_INVALID,
                        "'%s' is a session, not a model or a recording; pass %s/model.onnx and "
                        "the inputs that it was made with (without any they are generated)",
                        dir, dir);
}

/* A folder given as the model provides its inputs: one allocation, like pl_args_all. The folder may
 * be a stranger's, so a link in it is not followed. */
static bool take_folder(const pl_args *args, plumb_inputs *out, plumb_error *err) {
    const char *dir = args->n_positional > 0 ? args->positional[0] : "";
    const size_t n = strlen(dir) + sizeof("/test_data_set_0");
    if (out->n_files > 0 || out->n_sets > 0 || dir[0] == '\0') return true;
    if (!is_no_session(dir, err)) return false;
    char **sets = malloc(2 * sizeof(char *) + n);
    if (sets == NULL) return pl_args_no_memory(err);
    char *path = (char *)(sets + 2);
    snprintf(path, n, "%s/test_data_set_0", dir);
    const bool is_link = readlink(path, &(char){ 0 }, 1) >= 0;
    if (is_link)
        pl_args_fail(err, PLUMB_E_INVALID, "'%s' is a symbolic link, expected a folder", path);
    if (is_link || access(path, R_OK) != 0) {
        free(sets);
        return !is_link;
    }
    sets[0] = path;
    sets[1] = NULL;
    free((void *)(uintptr_t)out->sets);
    out->sets = (const char *const *)sets;
    out->n_sets = 1;
    return true;
}

bool pl_cli_inputs(const pl_args *args, plumb_inputs *out, plumb_error *err) {
    long long seed = 0;
    const char *fill = pl_args_value(args, "fill");
    plumb_inputs_init(out);
    out->files = pl_args_all(args, "input", &out->n_files);
    out->sets = pl_args_all(args, "inputs", &out->n_sets);
    out->dims = pl_args_all(args, "dim", &out->n_dims);
    out->ranges = pl_args_all(args, "range", &out->n_ranges);
    if (!take_folder(args, out, err)) return false;
    if (fill != NULL && strcmp(fill, "zeros") == 0) out->fill = PLUMB_FILL_ZEROS;
    if (fill != NULL && strcmp(fill, "ones") == 0) out->fill = PLUMB_FILL_ONES;
    if (fill != NULL && out->fill == PLUMB_FILL_RANDOM && strcmp(fill, "random") != 0) {
        return pl_args_fail(err, PLUMB_E_USAGE, "--fill is '%s', expected zeros, ones or random",
                            fill);
    }
    if (!pl_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err)) return false;
    out->seed = (uint64_t)seed;
    if (out->files == NULL || out->sets == NULL || out->dims == NULL || out->ranges == NULL) {
        return pl_args_no_memory(err);
    }
    return true;
}

bool pl_cli_threads(const pl_args *args, int *out, plumb_error *err) {
    long long threads = 0;
    if (!pl_args_int(args, "threads", 0, 0, 4096, &threads, err)) return false;
    *out = (int)threads;
    return true;
}

static bool read_sandbox(const pl_args *args, int *out, plumb_error *err) {
    static const char *const words[] = { "on", "off", "require" }; /* PLUMB_SANDBOX_* */
    const char *word = pl_args_value(args, "sandbox");
    if (word == NULL) return true;
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *out = i;
        return true;
    }
    return pl_args_fail(err, PLUMB_E_USAGE, "--sandbox is '%s', expected on, off or require", word);
}

bool pl_cli_check_tasks(plumb_error *err) {
    const int n = plumb_mpi_plain_tasks();
    if (n == 0) return true;
    return pl_args_fail(
        err, PLUMB_E_USAGE,
        "srun started %d tasks without MPI, and each would do all the work; use srun "
        "--mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or set PLUMB_MPI=off",
        n);
}

bool pl_cli_limits(const pl_args *args, double *timeout, uint64_t *memory_limit, int *sandbox,
                   plumb_error *err) {
    long long megabytes = 0;
    if (!read_sandbox(args, sandbox, err)) return false;
    if (!pl_args_double(args, "timeout", 0, timeout, err) ||
        !pl_args_int(args, "memory-limit", 0, 0, 1 << 30, &megabytes, err)) {
        return false;
    }
    *memory_limit = (uint64_t)megabytes << 20;
    return true;
}

static void free_array(const char *const *array) {
    free((void *)(uintptr_t)array);
}

void pl_cli_inputs_release(plumb_inputs *inputs) {
    free_array(inputs->files);
    free_array(inputs->sets);
    free_array(inputs->dims);
    free_array(inputs->ranges);
}

void pl_cli_default_output(const char *model, const char *suffix, char *out, size_t n_out) {
    const char *slash = strrchr(model, '/');
    const char *name = slash == NULL ? model : slash + 1;
    const char *dot = strrchr(name, '.');
    const int n_name = (int)(dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name));
    char stamp[32];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
    snprintf(out, n_out, "plumb-out/%.*s-%s-%03ld%s", n_name, name, stamp, now.tv_nsec / 1000000,
             suffix);
}

bool pl_cli_folder_new(const char *purpose, char *out, size_t n_out, plumb_error *err) {
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || tmp[0] == '\0') tmp = "/tmp";
    const int n = snprintf(out, n_out, "%s/plumb-%s-XXXXXX", tmp, purpose);
    if (n > 0 && (size_t)n < n_out && mkdtemp(out) != NULL) return true;
    out[0] = '\0';
    if (err == NULL) return false;
    return pl_args_fail(err, PLUMB_E_IO, "cannot create a temporary folder in '%.300s': %s", tmp,
                        strerror(errno));
}
