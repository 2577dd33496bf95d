#include "flows/provenance.h"

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

const char *pl_provenance_compare_cpus(const char *a, const char *b, char *out, size_t n_out) {
    static const struct {
        const char *word, *means;
    } rows[] = {
        { "vnni", "without it, x86 clips u8 x s8 products at 16 bits" },
        { "fma", "with it, a product and its sum are rounded once" },
        { "bf16", "with it, runtimes may multiply in bfloat16" },
        { "amx-bf16", "with it, runtimes may multiply in bfloat16" },
        { "fp16", "with it, runtimes may compute in float16" },
        { "avx512", "it changes the order of sums" },
        { "i8mm", "it changes the instructions for integer products" },
    };
    size_t n = 0;
    if (n_out > 0) out[0] = '\0';
    if (*a == '\0' || *b == '\0' || strcmp(a, b) == 0) return out;
    const bool same_kind = pl_cpu_text_has(a, "x86-64") == pl_cpu_text_has(b, "x86-64");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && n < n_out && same_kind; i++) {
        const bool in_a = pl_cpu_text_has(a, rows[i].word);
        if (in_a == pl_cpu_text_has(b, rows[i].word)) continue;
        const int k = snprintf(out + n, n_out - n, "%s%s only on %s's CPU (%s)",
                               n == 0 ? "the CPUs differ: " : "; ", rows[i].word, in_a ? "A" : "B",
                               rows[i].means);
        n += k > 0 ? (size_t)k : 0;
    }
    if (n == 0) n = (size_t)snprintf(out, n_out, "the CPUs differ: A has %s; B has %s", a, b);
    if (n < n_out) snprintf(out + n, n_out - n, "\n");
    return out;
}
