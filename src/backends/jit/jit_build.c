/* Compiles C to functions: runs the system's compiler, caches the result under a hash of all its
 * inputs, and loads it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "base/door.h"
#include "base/hash.h"
#include "base/library.h"
#include "base/process.h"
#include "kernels/cpu.h"

enum { FLAGS_MAX = 24, SMALL_WORK = 1 << 14, MANY_LOOPS = 1000 };

/* No -ffast-math: only sums that the code marks may be reordered, nothing else. */
static const char *const flags_fixed[] = {
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fopenmp-simd",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-g0",
    "-w",
};

/* ---- the cache ---- */

/* The cache is in $XDG_CACHE_HOME, $HOME/.cache or /tmp: the first that can be created. Code is
 * loaded from it, so no other user may write to it. */
pl_status pl_jit_cache_open(pl_dir **out, pl_err *err) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char last[64];
    snprintf(last, sizeof(last), "plumb-jit-%ld", (long)getuid());
    char *const paths[] = {
        xdg != NULL && xdg[0] == '/' ? pl_path_join(xdg, "plumb/jit") : NULL,
        /* A HOME that does not exist, as for services, is not created. */
        home != NULL && home[0] == '/' && pl_path_is_dir(home)
            ? pl_path_join(home, ".cache/plumb/jit")
            : NULL,
        pl_path_join("/tmp", last),
    };
    pl_status st = pl_fail_memory(err, 1);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && st != PL_OK; i++)
        if (paths[i] != NULL) st = pl_dir_open_private(paths[i], out, err);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        pl_free(paths[i]);
    return st;
}

/* A cache file ends with the hash of its contents: loading a truncated one would crash, again in
 * every run. */
static pl_status write_entry(const pl_dir *dir, const char *name, const pl_file_map *made,
                             pl_err *err) {
    const pl_hash128 hash = pl_hash128_of(made->data, made->n_bytes);
    pl_file_writer *w = NULL;
    PL_TRY(pl_file_writer_open_in(dir, name, &w, err));
    pl_status st = pl_file_writer_append(w, made->data, made->n_bytes, err);
    if (st == PL_OK) st = pl_file_writer_append(w, &hash, sizeof(hash), err);
    if (st == PL_OK) return pl_file_writer_commit_take(w, err);
    pl_file_writer_abort_take(w);
    return st;
}

/* Complete, and owned by this user: others might be able to write to the folder. */
static bool entry_is_good(const pl_dir *dir, const char *name) {
    pl_file_map *map = NULL;
    pl_hash128 hash;
    if (!pl_dir_is_own(dir, name) || pl_dir_map(dir, name, &map, NULL) != PL_OK) return false;
    bool good = map->n_bytes > sizeof(hash);
    if (good) {
        const size_t n = map->n_bytes - sizeof(hash);
        memcpy(&hash, map->data + n, sizeof(hash));
        good = pl_hash128_equal(hash, pl_hash128_of(map->data, n));
    }
    pl_file_map_unref(map);
    return good;
}

/* PLUMB_CPU also limits the emitted code. Under valgrind, which has no AVX-512, the compiler
 * detects a different CPU than plumb. */
#if defined(__x86_64__)
static const char *machine_flag(void) {
    if (pl_cpu_isa() == PL_ISA_AVX2) return "-march=x86-64-v3";
    return pl_cpu_isa() == pl_cpu_isa_max() ? "-march=native" : "-march=x86-64";
}
#else /* compilers default to vectors and fused products; not all accept "native" */
static const char *machine_flag(void) {
    return NULL;
}
#endif

static size_t collect_flags(const jit_plan *plan, const char **out) {
    size_t n = 0, n_loops = 0;
    int64_t work = 0;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const jit_loop *loop = plan->steps[s].loop;
        int64_t elements = 1;
        for (int d = 0; loop != NULL && d < loop->rank; d++)
            elements *= loop->dims[d];
        if (loop != NULL) work += elements;
        n_loops += loop != NULL;
    }
    /* Little to gain, or very much to compile: compile fast. */
    out[n++] = work < SMALL_WORK || n_loops > MANY_LOOPS ? "-O1" : "-O3";
    if (pl_cpu_isa() == PL_ISA_AVX512) out[n++] = "-mprefer-vector-width=512";
    if (machine_flag() != NULL) out[n++] = machine_flag();
    for (size_t i = 0; i < sizeof(flags_fixed) / sizeof(flags_fixed[0]); i++)
        out[n++] = flags_fixed[i];
    return n;
}

/* The file that running "cc" would start: the first in PATH. */
static bool stat_compiler(struct stat *info) {
    const char *path = getenv("PATH");
    for (size_t n; path != NULL; path = path[n] == ':' ? path + n + 1 : NULL) {
        char file[4096];
        n = strcspn(path, ":");
        const int length =
            snprintf(file, sizeof(file), "%.*s%scc", (int)n, path, n == 0 ? "" : "/");
        if (length < 0 || (size_t)length >= sizeof(file)) continue;
        if (access(file, X_OK) == 0 && stat(file, info) == 0 && S_ISREG(info->st_mode)) return true;
    }
    return false;
}

pl_status jit_compiler_check(pl_err *err) {
    PL_TRY(pl_libraries_check(err));
    struct stat info;
    if (stat_compiler(&info)) return PL_OK;
    return pl_fail(err, PL_E_NOT_FOUND,
                   "jit requires a C compiler: no 'cc' in PATH; install gcc or clang");
}

/* Text, flags, compiler and CPU: whatever changes the machine code. */
static pl_status hash_all(jit_plan *plan, const char *const *flags, size_t n_flags, pl_err *err) {
    pl_hasher *h = pl_hasher_new();
    struct stat info;
    if (h == NULL) return pl_fail_memory(err, 1);
    pl_hasher_update(h, plan->text.data, plan->text.n_bytes);
    for (size_t i = 0; i < n_flags; i++)
        pl_hasher_update(h, flags[i], strlen(flags[i]) + 1);
    if (stat_compiler(&info)) {
        pl_hasher_update(h, &info.st_size, sizeof(info.st_size));
        pl_hasher_update(h, &info.st_mtim, sizeof(info.st_mtim));
    }
    pl_hasher_update(h, pl_cpu_name(), strlen(pl_cpu_name()));
    pl_hash128_hex(pl_hasher_digest(h), plan->hash);
    pl_hasher_free(h);
    return PL_OK;
}

/* ---- compiling ---- */

/* The first line of a compiler log with an error. */
static void first_error(const pl_buf *log, char *out, size_t n_out) {
    const char *text = pl_buf_str(log), *at = strstr(text, "error");
    if (at == NULL) at = text;
    while (at > text && at[-1] != '\n')
        at--;
    const size_t n = strcspn(at, "\n");
    snprintf(out, n_out, "%.*s", (int)(n < n_out ? n : n_out - 1), at);
}

static pl_status run_compiler(const char *dir, const char *const *argv, char **log, pl_err *err) {
    pl_process_result result = { 0 };
    const pl_process_options options = { .dir = dir };
    pl_status st = pl_process_run(argv, &options, &result, err);
    if (st == PL_OK && (result.signal != 0 || result.exit_code != 0)) {
        char line[300];
        first_error(&result.err, line, sizeof(line));
        if (result.signal != 0) snprintf(line, sizeof(line), "killed by signal %d", result.signal);
        if (line[0] == '\0') snprintf(line, sizeof(line), "exit code %d", result.exit_code);
        st = pl_fail(err, PL_E_BACKEND, "compile error: %s", line);
    }
    if (log != NULL) {
        pl_free(*log);
        *log = pl_strdup(pl_buf_str(&result.err));
    }
    pl_process_result_release(&result);
    return st;
}

/* Compiles in a temporary folder, then renames the result into the cache. */
static pl_status compile(jit_plan *plan, const char *const *flags, size_t n_flags,
                         const pl_dir *cache, const char *name, pl_err *err) {
    const char *argv[FLAGS_MAX + 8] = { "cc" };
    size_t n = 1;
    char *dir = NULL, *source = NULL, *made = NULL;
    pl_status st = PL_OK;
    struct stat info; /* look for the compiler first, to save a fork */
    if (getenv("PATH") != NULL && !stat_compiler(&info))
        return pl_fail_errno(err, ENOENT, "start", argv[0]);
    for (size_t i = 0; i < n_flags; i++)
        argv[n++] = flags[i];
    argv[n++] = "-o";
    argv[n++] = "model.so";
    argv[n++] = "model.c";
    argv[n++] = "-lm";
    PL_TRY_GOTO(done, st, pl_dir_temporary(&dir, err));
    source = pl_path_join(dir, "model.c");
    made = pl_path_join(dir, "model.so");
    if (source == NULL || made == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_file_write(source, plan->text.data, plan->text.n_bytes, err));
    PL_TRY_GOTO(done, st, run_compiler(dir, argv, &plan->log, err));
    pl_file_map *map = NULL;
    PL_TRY_GOTO(done, st, pl_file_map_open(made, &map, err));
    st = write_entry(cache, name, map, err);
    pl_file_map_unref(map);
done:
    if (dir != NULL) pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_free(source);
    pl_free(made);
    return st;
}

/* ---- loading ---- */

static pl_status load(jit_plan *plan, const char *path, pl_err *err) {
    plan->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plan->library == NULL) return pl_fail(err, PL_E_BACKEND, "cannot load: %s", dlerror());
    for (size_t s = 0; s < plan->n_steps; s++) {
        jit_loop *loop = plan->steps[s].loop;
        for (size_t i = 0; loop != NULL && i < loop->n_parts; i++) {
            char name[64];
            snprintf(name, sizeof(name), "k%zu_%zu", s, i);
            void *symbol = dlsym(plan->library, name);
            if (symbol == NULL) return pl_fail(err, PL_E_BACKEND, "'%s' lacks %s", path, name);
            if (loop->follows) {
                memcpy(&loop->parts[i].after, &symbol, sizeof(symbol));
            } else {
                memcpy(&loop->parts[i].fn, &symbol, sizeof(symbol));
            }
        }
    }
    return PL_OK;
}

static bool has_loops(const jit_plan *plan) {
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].loop != NULL) return true;
    return false;
}

pl_status jit_build(jit_program *p, jit_plan *plan, pl_err *err) {
    const char *flags[FLAGS_MAX];
    char *path = NULL, name[64];
    pl_dir *dir = NULL;
    pl_status st = PL_OK;
    if (!has_loops(plan)) return PL_OK;
    const size_t n_flags = collect_flags(plan, flags);
    PL_TRY(hash_all(plan, flags, n_flags, err));
    PL_TRY(pl_jit_cache_open(&dir, err));
    snprintf(name, sizeof(name), "%s.so", plan->hash);
    path = pl_path_join(pl_dir_path(dir), name);
    if (path == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    plan->from_cache = !p->options->fresh_cache && entry_is_good(dir, name);
    if (plan->from_cache && load(plan, path, NULL) == PL_OK) goto done;
    plan->from_cache = false;
    if (plan->library != NULL) dlclose(plan->library);
    plan->library = NULL;
    PL_TRY_GOTO(done, st, compile(plan, flags, n_flags, dir, name, err));
    st = load(plan, path, err);
done:
    pl_dir_close(dir);
    pl_free(path);
    return st;
}

/* ---- an injected compile error ---- */

pl_status jit_build_fails(const jit_program *p, const pl_node *node, pl_err *err) {
    static const char text[] = "#error planted fault: compile-error\n";
    static const char *const argv[] = { "cc", "-fsyntax-only", "model.c", NULL };
    char *dir = NULL, *path = NULL, name[600];
    pl_status st = PL_OK;
    (void)p;
    PL_TRY_GOTO(done, st, pl_dir_temporary(&dir, err));
    path = pl_path_join(dir, "model.c");
    if (path == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_file_write(path, text, sizeof(text) - 1, err));
    st = run_compiler(dir, argv, NULL, err);
    st = pl_err_wrap(err, st, "%s", pl_node_describe(node, name, sizeof(name)));
done:
    if (dir != NULL) pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_free(path);
    return st;
}
