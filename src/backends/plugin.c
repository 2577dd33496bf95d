/* plugin: a backend in a third-party shared library. Loaded only when a spec names it. */
#include <dlfcn.h>
#include <string.h>

#include "backends/backend_int.h"
#include "base/alloc.h"
#include "base/library.h"

typedef struct plugin {
    void *library;
    const plumb_backend *vtable;
    void *self;
} plugin;

typedef struct plugin_program {
    plugin *plugin;
    void *program;
} plugin_program;

enum { BACKENDS_MAX = 16 };

static void plugin_close(void *self) {
    plugin *p = self;
    if (p == NULL) return;
    if (p->vtable != NULL && p->self != NULL && p->vtable->close != NULL) p->vtable->close(p->self);
    /* The library stays loaded: threads that it started may still be in its code. */
    pl_free(p);
}

/* With several backends in one library, the option backend=NAME picks one. */
static pl_status pick(const plumb_backend *const *rows, size_t n, const char *wanted,
                      const char *file, const plumb_backend **out, pl_err *err) {
    for (size_t i = 0; i < n && i < BACKENDS_MAX; i++) {
        PL_TRY(pl_backend_check_vtable(rows[i], err));
        if (wanted == NULL || strcmp(rows[i]->name, wanted) == 0) {
            *out = rows[i];
            return PL_OK;
        }
    }
    if (wanted == NULL) return pl_fail(err, PL_E_BACKEND, "plugin '%s' has no backend", file);
    return pl_fail(err, PL_E_USAGE, "plugin '%s' has no backend '%s'", file, wanted);
}

static pl_status load(plugin *p, const char *file, const char *wanted, pl_err *err) {
    const plumb_backend *rows[BACKENDS_MAX] = { 0 };
    plumb_plugin_entry entry;
    PL_TRY(pl_libraries_check(err));
    /* Without a slash dlopen would search the loader's path. */
    char *path = strchr(file, '/') != NULL ? pl_strdup(file) : pl_path_join(".", file);
    if (path == NULL) return pl_fail_memory(err, strlen(file));
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pl_free(path);
    if (p->library == NULL) {
        return pl_fail(err, PL_E_NOT_FOUND, "cannot open plugin: %s", dlerror());
    }
    void *symbol = dlsym(p->library, "plumb_plugin_v1");
    if (symbol == NULL) {
        return pl_fail(err, PL_E_BACKEND, "'%s' is not a plugin: it has no plumb_plugin_v1", file);
    }
    memcpy(&entry, &symbol, sizeof(entry));
    const size_t n = entry(plumb_host_get(), rows, BACKENDS_MAX);
    return pick(rows, n, wanted, file, &p->vtable, err);
}

static pl_status open_inner(plugin *p, const plumb_option *options, size_t n, pl_err *err) {
    size_t n_own = 0;
    plumb_option *own = pl_calloc(n + 1, sizeof(*own));
    if (own == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++) {
        if (options[i].key[0] != '\0' && strcmp(options[i].key, "backend") != 0) {
            own[n_own++] = options[i];
        }
    }
    pl_status st = pl_spec_check(own, n_own, p->vtable->name, p->vtable->options,
                                 p->vtable->options == NULL ? 0 : p->vtable->n_options, err);
    if (st == PL_OK && p->vtable->open != NULL) {
        st = p->vtable->open(plumb_host_get(), own, n_own, &p->self, err);
    }
    pl_free(own);
    return st;
}

static plumb_status plugin_open(const plumb_host *host, const plumb_option *options, size_t n,
                                void **self, plumb_error *error) {
    (void)host;
    pl_err *err = error;
    plugin *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    pl_status st =
        load(p, pl_option_value(options, n, ""), pl_option_value(options, n, "backend"), err);
    if (st == PL_OK) st = open_inner(p, options, n, err);
    if (st == PL_OK) {
        *self = p;
    } else {
        plugin_close(p);
    }
    return st;
}

static const char *plugin_version(void *self) {
    const plugin *p = self;
    return p->vtable->version == NULL ? "" : p->vtable->version(p->self);
}

static int plugin_supports(void *self, const char *domain, const char *op, int opset) {
    const plugin *p = self;
    return p->vtable->supports == NULL ? -1 : p->vtable->supports(p->self, domain, op, opset);
}

static void plugin_free(void *program) {
    plugin_program *pp = program;
    if (pp == NULL) return;
    if (pp->program != NULL) pp->plugin->vtable->free(pp->program);
    pl_free(pp);
}

static plumb_status plugin_compile(void *self, const plumb_source *source, void **program,
                                   size_t *n_hooks, plumb_error *error) {
    plugin *p = self;
    plugin_program *pp = pl_calloc(1, sizeof(*pp));
    if (pp == NULL) return pl_fail_memory(error, sizeof(*pp));
    pp->plugin = p;
    const plumb_status st = p->vtable->compile(p->self, source, &pp->program, n_hooks, error);
    if (st == PLUMB_OK) {
        *program = pp;
    } else {
        plugin_free(pp);
    }
    return st;
}

static plumb_status plugin_run(void *program, const plumb_run_args *args, plumb_error *err) {
    const plugin_program *pp = program;
    return pp->plugin->vtable->run(pp->program, args, err);
}

static const char *const *plugin_record_modes(void *self) {
    static const char *const none[] = { NULL };
    const plugin *p = self;
    return p->vtable->record_modes == NULL ? none : p->vtable->record_modes(p->self);
}

static plumb_status plugin_synchronize(void *program, plumb_error *err) {
    const plugin_program *pp = program;
    if (pp->plugin->vtable->synchronize == NULL) return PLUMB_OK;
    return pp->plugin->vtable->synchronize(pp->program, err);
}

/* Whether the plugin was built with the slots added in 0.2.0. */
static bool has_places(const plumb_backend *v) {
    return v->n_bytes >= sizeof(plumb_backend);
}

static const char *plugin_device(void *self) {
    const plugin *p = self;
    if (!has_places(p->vtable) || p->vtable->device == NULL) return "";
    return p->vtable->device(p->self);
}

static plumb_status plugin_placement(void *program, const char **text, plumb_error *err) {
    const plugin_program *pp = program;
    const plumb_backend *v = pp->plugin->vtable;
    *text = "";
    if (!has_places(v) || v->placement == NULL) return PLUMB_OK;
    const plumb_status st = v->placement(pp->program, text, err);
    if (st == PLUMB_OK && *text == NULL) *text = "";
    return st;
}

static const plumb_option_def options[] = {
    { "", "FILE.so", "a shared library" },
    { "backend", "NAME", "backend of the plugin to use (default: the first)" },
    { "*", "TEXT", "options of the plugin" },
};

const plumb_backend pl_backend_plugin = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .flags = PLUMB_FOREIGN_CODE,
    .name = "plugin",
    .summary = "a shared library that exports plumb_plugin_v1",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = plugin_open,
    .close = plugin_close,
    .version = plugin_version,
    .supports = plugin_supports,
    .compile = plugin_compile,
    .run = plugin_run,
    .record_modes = plugin_record_modes,
    .synchronize = plugin_synchronize,
    .free = plugin_free,
    .device = plugin_device,
    .placement = plugin_placement,
};
