#include "base/ranks/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/library.h"
#include "base/ranks/ranks_module.h"

enum { NAP_NS = 500000, MESSAGE_MAX = 1 << 30 };

struct pl_ranks {
    const pl_ranks_module *module;
    int rank, size;
};

/* ---- launchers ---- */

typedef struct known {
    const char *name, *rank, *size, *modules[2];
} known;
/* The first that fits: mpirun of Open MPI sets PMIX_RANK, too. */
static const known launchers[] = {
    { "mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", { "openmpi", NULL } },
    { "a PMI launcher", "PMI_RANK", "PMI_SIZE", { "mpich", "openmpi" } },
    { "a PMIx launcher", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", { "openmpi", "mpich" } },
};

static bool number(const char *name, int *out) {
    const char *text = getenv(name);
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9') return false;
    const long n = strtol(text, &end, 10);
    if (*end != '\0' || n > INT_MAX) return false;
    *out = (int)n;
    return true;
}

static const char *chosen(void) {
    const char *text = getenv("PLUMB_MPI");
    return text == NULL ? "" : text;
}

bool pl_launcher_find(pl_launcher *out) {
    *out = (pl_launcher){ .rank = 0 };
    if (strcmp(chosen(), "off") == 0) return false;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const known *k = &launchers[i];
        int rank = 0, size = 0;
        if (!number(k->rank, &rank)) continue;
        (void)number(k->size, &size);
        *out =
            (pl_launcher){ k->name, k->rank, rank, size, { k->modules[0], k->modules[1], NULL } };
        if (chosen()[0] != '\0') out->modules[0] = chosen(), out->modules[1] = NULL;
        return size != 1;
    }
    return false;
}

int pl_launcher_plain_tasks(void) {
    int step = 0, tasks = 0;
    pl_launcher launcher;
    if (strcmp(chosen(), "off") == 0 || pl_launcher_find(&launcher) || launcher.name != NULL)
        return 0;
    if (!number("SLURM_STEP_ID", &step) || !number("SLURM_STEP_NUM_TASKS", &tasks)) return 0;
    return tasks > 1 && getenv("SLURM_PROCID") != NULL ? tasks : 0;
}

/* ---- modules ---- */

static const char *const module_names[] = { "openmpi", "mpich" };
static const char *const debian[] = { "libopenmpi3", "libmpich12" };

static bool find_around(const char *file, const char *name, char *out, size_t n_out) {
    static const char *const places[] = { "", "../libexec/", "../../libexec/" };
    char *dir = pl_path_dirname(file);
    bool found = false;
    for (size_t i = 0; dir != NULL && !found && i < sizeof places / sizeof *places; i++) {
        snprintf(out, n_out, "%s/%splumb-%s.so", dir, places[i], name);
        found = access(out, R_OK) == 0;
    }
    pl_free(dir);
    return found;
}

static bool find_module(const char *name, char *out, size_t n_out) {
    char exe[PATH_MAX];
    Dl_info info;
    if (strchr(name, '/') != NULL) {
        snprintf(out, n_out, "%s", name);
        return access(out, R_OK) == 0;
    }
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    if (n > 0 && find_around(exe, name, out, n_out)) return true;
    return dladdr(&launchers, &info) != 0 && info.dli_fname != NULL &&
           find_around(info.dli_fname, name, out, n_out);
}

static const char *package_of(const char *name) {
    for (size_t i = 0; i < sizeof module_names / sizeof *module_names; i++)
        if (strcmp(module_names[i], name) == 0) return debian[i];
    return "";
}

/* NULL, and `why`, when it cannot be used. Stays open: MPI cannot be unloaded. */
static const pl_ranks_module *load(const char *name, char *why, size_t n_why) {
    char path[PATH_MAX + 64];
    const pl_ranks_module *(*entry)(void) = NULL;
    const pl_symbol symbols[] = { { PL_RANKS_MODULE_ENTRY, &entry } };
    if (!find_module(name, path, sizeof path)) {
        snprintf(why, n_why, "plumb-%.40s.so not found; plumb was built without it", name);
        if (strchr(name, '/') != NULL) snprintf(why, n_why, "%.200s not found", name);
        return NULL;
    }
    /* Global: Open MPI opens components that expect its symbols. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) {
        snprintf(why, n_why, "%.300s (on Debian: apt-get install %s)", dlerror(), package_of(name));
        return NULL;
    }
    const bool fits =
        pl_symbols_load(handle, symbols, 1) == NULL && entry()->version == PL_RANKS_MODULE_VERSION;
    if (!fits) snprintf(why, n_why, "%.200s is not a module of this plumb", path);
    return fits ? entry() : NULL;
}

bool pl_ranks_module_at(size_t i, const char **name, bool *is_there) {
    char path[PATH_MAX + 64];
    if (i >= sizeof module_names / sizeof *module_names) return false;
    *name = module_names[i];
    *is_there = find_module(*name, path, sizeof path);
    return true;
}

/* ---- joining ---- */

static pl_status check_size(const pl_launcher *l, const pl_ranks *r, pl_err *err) {
    if (l->size == 0 ? r->size > 1 : r->size == l->size) return PL_OK;
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "%s started %d ranks (%s), but the MPI of plumb-%s.so sees %d: it belongs to "
                   "another MPI; PLUMB_MPI=openmpi or mpich chooses the module, off uses none",
                   l->name, l->size, l->variable, r->module->name, r->size);
}

pl_status pl_ranks_join(const pl_launcher *launcher, pl_ranks **out, pl_err *err) {
    char why[PL_ERR_MESSAGE_MAX] = "", first[PL_ERR_MESSAGE_MAX] = "";
    pl_ranks *r = pl_calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) return pl_fail_memory(err, sizeof *r);
    for (size_t i = 0; r->module == NULL && launcher->modules[i] != NULL; i++) {
        r->module = load(launcher->modules[i], why, sizeof why);
        if (first[0] == '\0') snprintf(first, sizeof first, "%s", why);
    }
    pl_status st = PL_OK;
    if (r->module == NULL) {
        st =
            pl_fail(err, PL_E_UNSUPPORTED,
                    "%s started this as one of several ranks (%s), and no MPI module fits: %.300s; "
                    "PLUMB_MPI=off runs every rank alone",
                    launcher->name, launcher->variable, first);
    } else if (r->module->join(&r->rank, &r->size, why, sizeof why) != 0) {
        st = pl_fail(err, PL_E_IO, "MPI (plumb-%s.so) cannot start: %.300s", r->module->name, why);
    } else {
        st = check_size(launcher, r, err);
    }
    if (st == PL_OK) {
        *out = r;
    } else {
        pl_free(r);
    }
    return st;
}

int pl_ranks_rank(const pl_ranks *ranks) {
    return ranks->rank;
}

int pl_ranks_size(const pl_ranks *ranks) {
    return ranks->size;
}

void pl_ranks_leave(pl_ranks *ranks, bool whole) {
    if (ranks == NULL) return;
    if (whole) (void)ranks->module->leave();
    pl_free(ranks);
}

/* ---- messages ---- */

static int cancelled(void *ctx) {
    return pl_progress_poll(ctx, NULL) != PL_OK;
}

pl_status pl_ranks_send(pl_ranks *ranks, int to, const pl_buf *message, const pl_progress *progress,
                        pl_err *err) {
    if (!pl_buf_ok(message)) return pl_fail_memory(err, message->n_bytes);
    pl_progress copy = { NULL, NULL };
    if (progress != NULL) copy = *progress;
    if (message->n_bytes > MESSAGE_MAX)
        return pl_fail(err, PL_E_LIMIT, "a message of %zu bytes to rank %d", message->n_bytes, to);
    if (ranks->module->send(to, pl_buf_str(message), message->n_bytes, cancelled, &copy) == 0)
        return PL_OK;
    PL_TRY(pl_progress_poll(progress, err));
    return pl_fail(err, PL_E_IO, "MPI cannot send to rank %d", to);
}

pl_status pl_ranks_poll(pl_ranks *ranks, int *from, pl_buf *message, bool *got, pl_err *err) {
    size_t n = 0;
    *got = false;
    const int there = ranks->module->probe(from, &n);
    if (there == 0) return PL_OK;
    if (there < 0 || n > MESSAGE_MAX) return pl_fail(err, PL_E_IO, "MPI failed while waiting");
    pl_buf_reset(message);
    char *data = pl_malloc(n + 1);
    if (data == NULL) return pl_fail_memory(err, n);
    const int st = ranks->module->receive(*from, data, n);
    pl_buf_append(message, data, n);
    pl_free(data);
    if (st != 0) return pl_fail(err, PL_E_IO, "MPI cannot receive from rank %d", *from);
    if (!pl_buf_ok(message)) return pl_fail_memory(err, n);
    *got = true;
    return PL_OK;
}

pl_status pl_ranks_wait(pl_ranks *ranks, const pl_progress *progress, int *from, pl_buf *message,
                        pl_err *err) {
    const struct timespec nap = { 0, NAP_NS };
    for (;;) {
        bool got = false;
        PL_TRY(pl_ranks_poll(ranks, from, message, &got, err));
        if (got) return PL_OK;
        PL_TRY(pl_progress_poll(progress, err));
        nanosleep(&nap, NULL);
    }
}
