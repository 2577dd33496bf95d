/* plumb_backends: which backends and kernels work here, and why others do not. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/confine.h"
#include "backends/guard/cgroup.h"
#include "backends/guard/sandbox.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/ranks/ranks.h"
#include "flows/api.h"
#include "flows/api/options.h"
#include "kernels/cpu.h"
#include "kernels/provider.h"

typedef struct row {
    const char *name, *summary, *sandbox;
    char version[64], cpu[PL_CPU_TEXT];
    bool available;
    char reason[PL_ERR_MESSAGE_MAX];
    char device[256]; /* "" = the CPU */
} row;

static bool needs_file(const plumb_backend *b) {
    for (size_t i = 0; i < b->n_options; i++) {
        if (b->options[i].key[0] == '\0') return true;
    }
    return false;
}

/* Opens it behind the guard: a library that crashes while loading is simply not available. */
static void probe_spec(const char *spec, row *out) {
    pl_err err = PL_ERR_INIT;
    pl_backend *opened = NULL;
    const pl_backend_options options = { .guarded = true, .timeout_seconds = 20 };
    if (pl_backend_open(spec, &options, &opened, &err) == PL_OK) {
        out->available = true;
        snprintf(out->version, sizeof(out->version), "%s", pl_backend_version(opened));
        pl_cpu_features_text(pl_backend_cpu(opened), out->cpu, sizeof(out->cpu));
        snprintf(out->device, sizeof(out->device), "%s", pl_backend_device(opened));
    } else {
        snprintf(out->reason, sizeof(out->reason), "%s", err.message);
    }
    pl_backend_close(opened);
}

/* Without `programs`, a backend that starts one is not opened. */
static bool is_opened(const plumb_backend *b, bool programs) {
    return programs || (b->flags & PLUMB_UNCONFINED) == 0;
}

static void probe(const plumb_backend *b, bool programs, row *out) {
    *out = (row){ .name = b->name,
                  .summary = b->summary,
                  .sandbox = pl_confine_state(b, PLUMB_SANDBOX_ON) };
    if (needs_file(b)) {
        out->available = true;
        snprintf(out->reason, sizeof(out->reason), "needs %s: %s:%s", b->options[0].help, b->name,
                 b->options[0].values);
        return;
    }
    if (!is_opened(b, programs)) {
        out->available = true;
        snprintf(out->reason, sizeof(out->reason), "not tried: it starts a program");
        return;
    }
    probe_spec(b->name, out);
}

/* As the eager backend would use them. */
static void probe_kernels(const pl_provider *by, row *out) {
    char spec[40];
    *out = (row){ .name = by->name, .summary = by->serves, .sandbox = "not needed" };
    snprintf(spec, sizeof(spec), "eager:kernels=%s", by->name);
    probe_spec(spec, out);
}

/* One choice of a device, "providers=WebGPU". */
static void probe_device(const plumb_backend *b, const char *options, row *out) {
    char spec[120];
    *out = (row){ .name = options, .summary = "", .sandbox = "" };
    snprintf(spec, sizeof(spec), "%s:%s", b->name, options);
    probe_spec(spec, out);
}

static void put_devices_json(const plumb_backend *b, bool programs, pl_json *j) {
    const bool any = b->devices != NULL && is_opened(b, programs);
    pl_json_key(j, "devices");
    pl_json_array_begin(j);
    for (size_t i = 0; any && b->devices[i] != NULL; i++) {
        row r;
        probe_device(b, b->devices[i], &r);
        pl_json_object_begin(j);
        pl_json_put_string(j, "options", r.name);
        pl_json_put_bool(j, "available", r.available);
        pl_json_put_string(j, "device", r.device);
        pl_json_put_string(j, "reason", r.reason);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_devices_text(const plumb_backend *b, pl_buf *out) {
    for (size_t i = 0; b->devices != NULL && b->devices[i] != NULL; i++) {
        row r;
        probe_device(b, b->devices[i], &r);
        pl_buf_printf(out, "%20s%s on this machine: %s%s\n", "", r.name,
                      r.available ? "" : "not available: ", r.available ? r.device : r.reason);
    }
}

static void put_json(const row *r, const plumb_backend *b, bool programs, pl_json *j) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", r->name);
    pl_json_put_string(j, "version", r->version);
    pl_json_put_bool(j, "available", r->available);
    pl_json_put_string(j, "reason", r->reason);
    pl_json_put_string(j, "cpu", r->cpu);
    pl_json_put_string(j, "sandbox", r->sandbox);
    put_devices_json(b, programs, j);
    pl_json_object_end(j);
}

static bool has_kernels(const plumb_backend *b) {
    for (size_t i = 0; i < b->n_options; i++) {
        if (strcmp(b->options[i].key, "kernels") == 0) return true;
    }
    return false;
}

static void put_kernels_text(pl_buf *out) {
    for (size_t i = 0; pl_provider_rows[i] != NULL; i++) {
        row r;
        probe_kernels(pl_provider_rows[i], &r);
        pl_buf_printf(out, "%20s  kernels=%s: %s%s%s\n", "", r.name, r.summary,
                      r.available ? "" : "; not available: ", r.reason);
    }
}

static void put_text(const row *r, const plumb_backend *b, pl_buf *out) {
    pl_buf_printf(out, "%-8s %-10s %s\n", r->name, r->available ? r->version : "not available",
                  r->summary);
    if (r->reason[0] != '\0') pl_buf_printf(out, "%20s%s\n", "", r->reason);
    for (size_t i = 0; i < b->n_options; i++) {
        const plumb_option_def *o = &b->options[i];
        if (o->key[0] == '\0') continue;
        pl_buf_printf(out, "%20s%s%s%s: %s\n", "", o->key, o->values == NULL ? "" : "=",
                      o->values == NULL ? "" : o->values, o->help);
    }
    if (r->available) put_devices_text(b, out);
}

static void put_sandbox(pl_buf *out) {
    char why[120];
    const bool on = pl_sandbox_available(why, sizeof(why));
    pl_buf_printf(out, "sandbox  %s\n",
                  on ? "Landlock and seccomp confine jit, ort and plugins; cmd only when required"
                     : why);
    if (!on) return;
    char *group = pl_cgroup_find_own();
    pl_buf_printf(out, "%20s%s\n", "",
                  group != NULL
                      ? "a cgroup limits memory and processes"
                      : "no cgroup: none was delegated to this user with memory and pids");
    pl_free(group);
}

/* CPU features that change results. A backend on another CPU (an emulator) reports its own in the
 * JSON. */
static void put_cpu(pl_buf *out) {
    char words[PL_CPU_TEXT];
    pl_buf_printf(out, "cpu      %s\n%20s%s; plumb's own kernels: %s\n", pl_cpu_name(), "",
                  pl_cpu_features_text(pl_cpu_features(), words, sizeof(words)),
                  pl_isa_name(pl_cpu_isa()));
    if ((pl_cpu_features() >> PL_CPU_X86_64 & 1) != 0 &&
        (pl_cpu_features() >> PL_CPU_VNNI & 1) == 0)
        pl_buf_printf(out, "%20sno vnni: runtimes may clip u8 x s8 products at 16 bits\n", "");
}

/* Modules for `mpirun plumb corpus` and `compare`. */
static void put_mpi(pl_buf *out) {
    const char *name = NULL;
    bool is_there = false;
    pl_buf_puts(out, "mpi      ");
    for (size_t i = 0; pl_ranks_module_at(i, &name, &is_there); i++)
        pl_buf_printf(out, "%s%s: %s", i > 0 ? "; " : "", name,
                      is_there ? "built" : "not available: plumb was built without it");
    pl_buf_putc(out, '\n');
}

struct plumb_backend_list {
    row *rows;
    size_t n_rows;
};

plumb_status plumb_backend_list_new(plumb_backend_list **out, plumb_error *err) {
    size_t n = 0;
    PL_REQUIRE(out);
    *out = NULL;
    while (pl_backend_rows[n] != NULL)
        n++;
    plumb_backend_list *list = pl_calloc(1, sizeof(*list));
    row *rows = pl_calloc(n, sizeof(*rows));
    if (list == NULL || rows == NULL) {
        pl_free(list);
        pl_free(rows);
        return pl_fail_memory(err, n * sizeof(*rows));
    }
    for (size_t i = 0; i < n; i++)
        probe(pl_backend_rows[i], true, &rows[i]);
    *list = (plumb_backend_list){ rows, n };
    *out = list;
    return PLUMB_OK;
}

void plumb_backend_list_free(plumb_backend_list *list) {
    if (list != NULL) pl_free(list->rows);
    pl_free(list);
}

size_t plumb_backend_list_count(const plumb_backend_list *list) {
    return list == NULL ? 0 : list->n_rows;
}

int plumb_backend_list_get(const plumb_backend_list *list, size_t i, plumb_backend_info *out) {
    if (i >= plumb_backend_list_count(list)) return pl_struct_fill(out, NULL, 0);
    const row *r = &list->rows[i];
    const plumb_backend_info x = { .size = sizeof(x),
                                   .name = r->name,
                                   .summary = r->summary,
                                   .available = r->available,
                                   .version = r->version,
                                   .reason = r->reason,
                                   .cpu = r->cpu,
                                   .sandbox = r->sandbox };
    return pl_struct_fill(out, &x, sizeof(x));
}

void pl_backends_put_json(bool programs, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_array_begin(&j);
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        row r;
        probe(pl_backend_rows[i], programs, &r);
        put_json(&r, pl_backend_rows[i], programs, &j);
    }
    pl_json_array_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_all_text(pl_buf *out) {
    bool told = false;
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        row r;
        probe(pl_backend_rows[i], true, &r);
        put_text(&r, pl_backend_rows[i], out);
        if (!told && has_kernels(pl_backend_rows[i])) { /* the same for all backends with kernels */
            put_kernels_text(out);
            told = true;
        }
    }
    put_cpu(out);
    put_sandbox(out);
    put_mpi(out);
}

plumb_status plumb_backends(plumb_format format, char **text, plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    if (format == PLUMB_JSON) {
        pl_backends_put_json(true, &out);
    } else {
        put_all_text(&out);
    }
    return pl_api_text_take(&out, text, err);
}
