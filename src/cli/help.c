/* plumb COMMAND --help: options by group, wrapped to 80 columns, then examples. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

enum { WIDTH = 80, TEXT_AT = 29 };

/* An option belongs to the group whose list has its name; tests/cli/help checks that none is left
 * over. */
typedef struct group {
    const char *title, *names;
} group;

/* clang-format off */
static const group groups[] = {
    { "Inputs", " input inputs seed range fill dim function from to filter"
                " prompt-ids chunk state feed " },
    { "Backends", " backend reference reference-model reference-amp amp eval no-eval fp64 backward loss-output"
                  " grad-seed timeout memory-limit sandbox threads jobs inject explain fresh-cache shard deaths worker debug-dir repro-level"
                  " no-data repeat profile-nodes plugin trust " },
    { "What to compare", " accuracy strict-accuracy no-accuracy profile precision-profile same tol rtol atol metric map weights strict-pairs keep-views limits"
                         " baseline write-baseline reuse skip-determinism skip-gold skip-search bisect advise advise-metric name op"
                         " module runs check fail-code fail-regex check-str signature query max-queries max-time"
                         " checkpoints resume strip-weights keep-other merge diff steps force sample cache logits skip-analysis self-test " },
    { "Output", " output save save-as format json limit sort by detail export-map advise-out no-session pack nodes external"
                " max-elements stats-only max-size port host no-open insecure-host source files dry-run good stable-output zip explain-inputs save-step " },
    { "General", " quiet verbose help " },
};
/* clang-format on */
enum { N_GROUPS = sizeof(groups) / sizeof(groups[0]) };

static bool belongs(const group *g, const char *name) {
    char word[64];
    (void)snprintf(word, sizeof word, " %s ", name);
    return strstr(g->names, word) != NULL;
}

/* Prints words from column TEXT_AT on; `at` is the current column. */
static void print_wrapped(const char *text, size_t at) {
    if (at >= TEXT_AT) {
        printf("\n");
        at = 0;
    }
    printf("%*s", (int)(TEXT_AT - at), "");
    at = TEXT_AT;
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        size_t columns = 0;
        for (size_t i = 0; i < n; i++)
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (at > TEXT_AT && at + 1 + columns > WIDTH) {
            printf("\n%*s", TEXT_AT, "");
            at = TEXT_AT;
        }
        at += (size_t)printf("%s%.*s", at > TEXT_AT ? " " : "", (int)n, text) - n + columns;
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

static void print_option(const pl_option *o) {
    size_t at = o->letter != 0 ? (size_t)printf("  -%c, ", o->letter) : (size_t)printf("      ");
    at += (size_t)printf("--%s", o->name);
    if (o->value != NULL) {
        printf(" %s", o->value);
        at++;
        for (const char *c = o->value; *c != '\0'; c++)
            at += ((unsigned char)*c & 0xc0) != 0x80;
    }
    print_wrapped(o->help, at);
}

static void print_group(const char *title, const group *g, const pl_option *options) {
    bool begun = false;
    for (const pl_option *o = options; o->name != NULL; o++) {
        bool mine = g != NULL && belongs(g, o->name);
        for (size_t i = 0; g == NULL && i < N_GROUPS; i++)
            mine = mine || belongs(&groups[i], o->name);
        if (mine == (g == NULL)) continue;
        if (!begun) printf("\n%s:\n", title);
        begun = true;
        print_option(o);
    }
}

void pl_args_help(const pl_command *command) {
    printf("plumb %s %s\n\n%c%s.\n", command->name, command->usage,
           toupper((unsigned char)command->summary[0]), command->summary + 1);
    if (command->details != NULL) printf("\n%s\n", command->details);
    for (size_t i = 0; i + 1 < N_GROUPS; i++)
        print_group(groups[i].title, &groups[i], command->options);
    print_group("Other", NULL, command->options);
    printf("\nGeneral:\n");
    for (const pl_option *o = command->options; o->name != NULL; o++)
        if (belongs(&groups[N_GROUPS - 1], o->name)) print_option(o);
    for (const pl_option *o = pl_args_common; o->name != NULL; o++)
        if (!pl_args_has(command, o->name)) print_option(o);
    if (command->examples != NULL) printf("\nExamples:\n%s", command->examples);
}
