/* A locale with decimal commas, compiled for the test that wants one: machines have few installed.
 */
#ifndef PL_COMMA_LOCALE_H
#define PL_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/process.h"

/* Back with setlocale(LC_ALL, "C"). False when there is no such locale and none can be made.
 * (setlocale, because glibc's newlocale leaks the LOCPATH it was given.) */
static inline bool use_comma_locale(void) {
    char *dir = NULL, shown[8];
    pl_process_result result;
    if (pl_dir_temporary(&dir, NULL) != PL_OK) return false;
    char *path = pl_path_join(dir, "de_DE.UTF-8");
    const char *const compile[] = { "localedef", "-i", "de_DE", "-f", "UTF-8", path, NULL };
    const pl_process_options options = { .timeout_seconds = 60 };
    if (pl_process_run(compile, &options, &result, NULL) == PL_OK)
        pl_process_result_release(&result);
    setenv("LOCPATH", dir, 1);
    const bool chosen = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    pl_free(path);
    (void)pl_dir_remove(dir, NULL);
    pl_free(dir);
    snprintf(shown, sizeof shown, "%.1f", 1.5);
    if (chosen && strcmp(shown, "1,5") == 0) return true;
    setlocale(LC_ALL, "C");
    return false;
}

#endif
