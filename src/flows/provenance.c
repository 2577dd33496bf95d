#include "flows/provenance.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

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

void pl_provenance_put_machine(pl_json *j) {
    char cpu[256], stamp[64], system[200];
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
    pl_json_put_int(j, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    pl_json_put_string(j, "system", system);
    pl_json_put_string(j, "time", stamp);
}
