#include "flows/provenance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu.h"

void pl_provenance_cpu(char *out, size_t n_out) {
    char line[512];
    snprintf(out, n_out, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (f == NULL) return;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, n_out, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(f);
}

void pl_provenance_put_machine(pl_json *j, uint64_t features) {
    char words[PL_CPU_TEXT], cpu[256], stamp[64], system[200];
    struct utsname name = { 0 };
    struct tm utc;
    const time_t now = time(NULL);
    pl_provenance_cpu(cpu, sizeof(cpu));
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
    uname(&name);
    snprintf(system, sizeof(system), "%.60s %.60s %.60s", name.sysname, name.release, name.machine);
    pl_json_put_string(j, "plumb", PLUMB_VERSION);
    pl_json_put_string(j, "cpu", cpu);
    pl_json_put_string(j, "cpu_features", pl_cpu_features_text(features, words, sizeof(words)));
    pl_json_put_int(j, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    pl_json_put_string(j, "system", system);
    pl_json_put_string(j, "time", stamp);
}

typedef struct feature_row {
    const char *word, *means;
    double most; /* relative difference that it can make in one operation */
    bool codes;  /* of products of codes only */
    bool x86;    /* says nothing about another kind of CPU */
} feature_row;

static const char NO_VNNI[] = "without it, x86 clips u8 x s8 products at 16 bits";

static const feature_row feature_rows[] = {
    { "vnni", NO_VNNI, (double)INFINITY, true, true },
    { "fma", "with it, a product and its sum are rounded once", 1e-5, false, false },
    { "bf16", "with it, runtimes may multiply in bfloat16", 0.02, false, false },
    { "amx-bf16", "with it, runtimes may multiply in bfloat16", 0.02, false, true },
    { "fp16", "with it, runtimes may compute in float16", 0.002, false, false },
    { "avx512", "it changes the order of sums", 1e-5, false, true },
    { "sme", "it changes the order of sums", 1e-5, false, false },
    { "i8mm", "it changes the instructions for integer products", 0, true, false },
};

static bool explains(const feature_row *row, const pl_cpu_difference *of) {
    return row->codes ? of->codes && row->most > 0 : of->relative <= row->most;
}

/* One more reason; returns the length of all of them. */
static size_t add_reason(char *out, size_t n_out, size_t n, const char *what, const char *means) {
    if (n >= n_out) return n;
    const int k = snprintf(out + n, n_out - n, "%s%s (%s)",
                           n == 0 ? "the CPUs differ, which can explain the difference: " : "; ",
                           what, means);
    return n + (k > 0 ? (size_t)k : 0);
}

/* x86-64 against ARM64: the products that x86 may clip, and other kernels altogether. */
static size_t compare_kinds(const char *a, const char *b, const pl_cpu_difference *of, char *out,
                            size_t n_out) {
    const bool x86_is_a = pl_cpu_text_has(a, "x86-64");
    size_t n = 0;
    if (of->codes && !pl_cpu_text_has(x86_is_a ? a : b, "vnni"))
        n = add_reason(out, n_out, n, x86_is_a ? "no vnni on A's CPU" : "no vnni on B's CPU",
                       NO_VNNI);
    if (of->relative <= 1e-5)
        n = add_reason(out, n_out, n, "x86-64 and arm64",
                       "runtimes have other kernels there, with other orders of sums");
    return n;
}

const char *pl_provenance_compare_cpus(const char *a, const char *b, const pl_cpu_difference *of,
                                       char *out, size_t n_out) {
    if (n_out > 0) out[0] = '\0';
    if (*a == '\0' || *b == '\0' || strcmp(a, b) == 0) return out;
    const bool same_kind = pl_cpu_text_has(a, "x86-64") == pl_cpu_text_has(b, "x86-64");
    size_t n = same_kind ? 0 : compare_kinds(a, b, of, out, n_out);
    for (size_t i = 0; i < sizeof(feature_rows) / sizeof(feature_rows[0]); i++) {
        const feature_row *row = &feature_rows[i];
        const bool in_a = pl_cpu_text_has(a, row->word);
        char what[64];
        if (in_a == pl_cpu_text_has(b, row->word) || !explains(row, of)) continue;
        if (row->x86 && !same_kind) continue;
        snprintf(what, sizeof(what), "%s only on %s's CPU", row->word, in_a ? "A" : "B");
        n = add_reason(out, n_out, n, what, row->means);
    }
    if (n == 0)
        n = (size_t)snprintf(out, n_out,
                             "the CPUs differ (A has %s; B has %s), which does not explain a "
                             "difference of %.2g of the value's size",
                             a, b, of->relative);
    if (n < n_out) snprintf(out + n, n_out - n, "\n");
    return out;
}
