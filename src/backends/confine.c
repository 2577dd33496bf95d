/* The policy of the sandbox. backends/guard/sandbox.c enforces it. */
#include "backends/confine.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend_int.h"
#include "backends/guard/sandbox.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/door.h"

/* Takes `text`; NULL is out of memory. */
static pl_status add_take(pl_confinement *c, char *text, pl_err *err) {
    if (text == NULL || !PL_ARRAY_ROOM(c->args, c->n_args, &c->capacity)) {
        pl_free(text);
        return pl_fail_memory(err, c->n_args);
    }
    c->args[c->n_args++] = text;
    return PL_OK;
}

pl_status pl_confinement_add(pl_confinement *c, const char *flag, const char *path, pl_err *err) {
    PL_TRY(add_take(c, pl_strdup(flag), err));
    return add_take(c, pl_strdup(path), err);
}

/* The folder of a file. */
static pl_status add_folder_of(pl_confinement *c, const char *flag, const char *path, pl_err *err) {
    char *folder = pl_path_dirname(path);
    const pl_status st =
        folder == NULL ? pl_fail_memory(err, 1) : pl_confinement_add(c, flag, folder, err);
    pl_free(folder);
    return st;
}

/* A symbolic link is opened where it leads: a model of the Hugging Face cache lies in another
 * folder, and its external data beside it there. */
static pl_status add_link(pl_confinement *c, const char *path, pl_err *err) {
    char *real = pl_path_real(path);
    const pl_status st = real == NULL ? PL_OK : add_folder_of(c, "--read", real, err);
    pl_free(real);
    return st;
}

/* A library loads others beside it, so a file in a spec makes its folder readable. Options that
 * write (debug-dir, explain) make the folder of the new file writable. */
static pl_status add_spec(pl_confinement *c, const plumb_backend *row, const plumb_option *spec,
                          size_t n_spec, pl_err *err) {
    const bool writes = (row->flags & PLUMB_USES_CACHE) != 0;
    for (size_t i = 0; i < n_spec; i++) {
        const char *value = spec[i].value;
        const bool new_file = writes && (strcmp(spec[i].key, "debug-dir") == 0 ||
                                         strcmp(spec[i].key, "explain") == 0);
        if (value == NULL || (!new_file && !pl_path_exists(value))) continue;
        PL_TRY(add_folder_of(c, new_file ? "--write" : "--read", value, err));
    }
    return PL_OK;
}

/* Adds every folder of a list like PATH. */
static pl_status add_list(pl_confinement *c, const char *list, pl_err *err) {
    for (const char *at = list; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ":;");
        if (n > 0) {
            PL_TRY(add_take(c, pl_strdup("--read"), err));
            PL_TRY(add_take(c, pl_strndup(at, n), err));
        }
        at += n + (at[n] != '\0');
    }
    return PL_OK;
}

/* Vulkan drivers that the user chose (ort_device.c); those of the system lie in folders that every
 * confined process may read. */
static pl_status add_drivers(pl_confinement *c, pl_err *err) {
    static const char *const lists[] = { "VK_ICD_FILENAMES", "VK_DRIVER_FILES" };
    const char *folder = getenv("PLUMB_SWIFTSHADER");
    if (folder != NULL && folder[0] != '\0') PL_TRY(pl_confinement_add(c, "--read", folder, err));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const char *file = getenv(lists[i]);
        if (file != NULL && pl_path_exists(file)) PL_TRY(add_folder_of(c, "--read", file, err));
    }
    return PL_OK;
}

/* Search paths of the dynamic linker, ONNX Runtime and the compiler. */
static pl_status add_environment(pl_confinement *c, bool programs, pl_err *err) {
    const char *ort = getenv("PLUMB_ORT_LIB");
    if (ort != NULL && ort[0] != '\0') PL_TRY(add_folder_of(c, "--read", ort, err));
    PL_TRY(add_drivers(c, err));
    PL_TRY(add_list(c, getenv("LD_LIBRARY_PATH"), err));
    return programs ? add_list(c, getenv("PATH"), err) : PL_OK;
}

static pl_status add_cache(pl_confinement *c, pl_err *err) {
    pl_dir *dir = NULL;
    PL_TRY(pl_jit_cache_open(&dir, err));
    const pl_status st = pl_confinement_add(c, "--write", pl_dir_path(dir), err);
    pl_dir_close(dir);
    return st;
}

static bool is_wanted(const plumb_backend *row, int mode) {
    if (mode == PLUMB_SANDBOX_OFF) return false;
    return mode == PLUMB_SANDBOX_REQUIRE || (row->flags & PLUMB_UNCONFINED) == 0;
}

const char *pl_confine_state(const plumb_backend *row, int mode) {
    char why[120];
    if ((row->flags & PLUMB_IN_PROCESS) != 0) return "not needed";
    if (mode == PLUMB_SANDBOX_OFF) return "off";
    if (!is_wanted(row, mode)) return "none: it starts your own program";
    return pl_sandbox_available(why, sizeof(why)) ? "on" : "none: this kernel cannot";
}

pl_status pl_confine(const plumb_backend *row, const plumb_option *spec, size_t n_spec,
                     const pl_backend_options *options, pl_confinement *out, pl_err *err) {
    char why[120];
    if (!is_wanted(row, options->sandbox)) return PL_OK;
    if (!pl_sandbox_available(why, sizeof(why))) {
        if (options->sandbox != PLUMB_SANDBOX_REQUIRE) return PL_OK;
        return pl_fail(err, PL_E_UNSUPPORTED, "the sandbox is required, and %s", why);
    }
    out->required = options->sandbox == PLUMB_SANDBOX_REQUIRE;
    PL_TRY(add_take(out, pl_strdup("--confine"), err));
    const bool programs = (row->flags & (PLUMB_USES_CACHE | PLUMB_UNCONFINED)) != 0;
    if (programs) PL_TRY(add_take(out, pl_strdup("--programs"), err));
    PL_TRY(add_spec(out, row, spec, n_spec, err));
    PL_TRY(add_environment(out, programs, err));
    if ((row->flags & PLUMB_USES_CACHE) != 0) PL_TRY(add_cache(out, err));
    for (size_t i = 0; i < options->n_readable; i++) {
        const char *path = options->readable[i];
        if (path == NULL) continue;
        PL_TRY(pl_path_is_dir(path) ? pl_confinement_add(out, "--read", path, err)
                                    : add_folder_of(out, "--read", path, err));
        PL_TRY(add_link(out, path, err));
    }
    if (options->tmp_dir != NULL) PL_TRY(pl_confinement_add(out, "--read", options->tmp_dir, err));
    return PL_OK;
}

void pl_confinement_release(pl_confinement *c) {
    for (size_t i = 0; i < c->n_args; i++)
        pl_free(c->args[i]);
    pl_free(c->args);
    *c = (pl_confinement){ 0 };
}
