/* Finding and opening ONNX Runtime. */
#include "backends/ort/ort_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/library.h"

#define PINNED "ort-1.27.0/libonnxruntime.so.1" /* what tools/setup fetches into .cache */
#define PINNED_IN_PACKAGE "ort-1.27.0/package/bin/napi-v6/linux/x64/libonnxruntime.so.1"

typedef void (*slot_fn)(void);

typedef struct api_base {
    const slot_fn *(*get_api)(uint32_t);
    const char *(*version)(void);
} api_base;

static pl_status read_table(pl_ort_api *api, const char *lib, pl_err *err) {
    void *symbol = dlsym(api->library, "OrtGetApiBase");
    const api_base *(*get_base)(void);
    unsigned minor = 0;
    if (symbol == NULL) {
        return pl_fail(err, PL_E_BACKEND, "'%s' is not ONNX Runtime: it has no OrtGetApiBase", lib);
    }
    memcpy(&get_base, &symbol, sizeof(get_base));
    const api_base *base = get_base();
    snprintf(api->version, sizeof(api->version), "%s", base->version());
    if (sscanf(api->version, "1.%u", &minor) != 1 || minor < PL_ORT_MIN) {
        return pl_fail(err, PL_E_BACKEND, "'%s' is ONNX Runtime %s, expected 1.%d or later", lib,
                       api->version, PL_ORT_MIN);
    }
    /* Asking for a newer version than the library has fails; newer libraries keep the slots we
     * know. */
    const slot_fn *table = base->get_api(minor > PL_ORT_MAX ? PL_ORT_MAX : minor);
    if (table == NULL) {
        return pl_fail(err, PL_E_BACKEND, "'%s' (ONNX Runtime %s) has no API table", lib,
                       api->version);
    }
    api->minor = (int)minor;
#define X(slot, since, name, result, args)                                                         \
    if (api->minor >= since) memcpy(&api->name, &table[slot], sizeof(api->name));
    PL_ORT_SLOTS(X)
#undef X
    return PL_OK;
}

static pl_status open_one(const char *lib, pl_ort_api *api, pl_err *err) {
    api->library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (api->library == NULL) {
        return pl_fail(err, PL_E_NOT_FOUND, "cannot open ONNX Runtime: %s", dlerror());
    }
    snprintf(api->path, sizeof(api->path), "%s", lib);
    const pl_status st = read_table(api, lib, err);
    if (st != PL_OK) pl_ort_api_close(api);
    return st;
}

/* DIR/.cache/PINNED and DIR/../.cache/PINNED, where DIR holds the running program. */
static bool find_pinned(char *out, size_t n_out) {
    char dir[400];
    const ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    if (n <= 0) return false;
    dir[n] = '\0';
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(dir, '/');
        if (slash == NULL) return false;
        *slash = '\0';
        snprintf(out, n_out, "%s/.cache/" PINNED, dir);
        if (pl_path_exists(out)) return true;
        snprintf(out, n_out, "%s/.cache/" PINNED_IN_PACKAGE, dir);
        if (pl_path_exists(out)) return true;
    }
    return false;
}

pl_status pl_ort_api_open(const char *lib, pl_ort_api *api, pl_err *err) {
    static const char *const names[] = { "libonnxruntime.so.1", "libonnxruntime.so" };
    char pinned[512];
    *api = (pl_ort_api){ 0 };
    PL_TRY(pl_libraries_check(err));
    /* Otherwise 1.29 and later write files and send telemetry. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    if (lib == NULL) lib = getenv("PLUMB_ORT_LIB");
    if (lib != NULL && lib[0] != '\0') return open_one(lib, api, err);
    if (find_pinned(pinned, sizeof(pinned))) return open_one(pinned, api, err);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (open_one(names[i], api, NULL) == PL_OK) return PL_OK;
    }
    return pl_fail(err, PL_E_NOT_FOUND,
                   "ONNX Runtime not found: no PLUMB_ORT_LIB, no .cache/" PINNED
                   ", no libonnxruntime.so in the library path; install it (in a clone of plumb: "
                   "tools/setup test), then set PLUMB_ORT_LIB or use ort:lib=FILE");
}

void pl_ort_api_close(pl_ort_api *api) {
    if (api->library != NULL) dlclose(api->library);
    api->library = NULL;
}

static const char *code_name(int code) {
    static const char *const names[] = {
        "ok",           "failed",          "invalid argument", "no such file",
        "no model",     "engine error",    "exception",        "invalid protobuf",
        "model loaded", "not implemented", "invalid graph",    "provider failed"
    };
    return code >= 0 && code < (int)(sizeof(names) / sizeof(names[0])) ? names[code] : "error";
}

pl_status pl_ort_check(const pl_ort_api *api, pl_ort_status status, const char *doing,
                       pl_err *err) {
    if (status == NULL) return PL_OK;
    const char *text = api->GetErrorMessage(status);
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    const pl_status st = pl_fail(err, PL_E_BACKEND, "ort %s: %s: %s: %.*s", api->version, doing,
                                 code_name(api->GetErrorCode(status)), (int)n, text);
    api->ReleaseStatus(status);
    return st;
}
