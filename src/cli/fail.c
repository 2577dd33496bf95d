/* Error messages of commands: one line on standard error, and a document with --json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

/* The library knows no options: which one helps against an error is said here. */
typedef struct hint_row {
    const char *command; /* NULL = any */
    const char *message; /* a part of it */
    const char *hint;
} hint_row;

static const char *find_hint(const char *command, const char *message) {
    static const hint_row rows[] = {
        { "report", "the page, session and graph alone need", "--max-size sets the limit" },
        { "view", " is in use", "--port 0 picks a free port" },
        { "view", "is not a loopback address", "--insecure-host allows it" },
        { NULL, "stopped by the sandbox", "--sandbox off" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool fits = rows[i].command == NULL || strcmp(rows[i].command, command) == 0;
        if (fits && strstr(message, rows[i].message) != NULL) return rows[i].hint;
    }
    return NULL;
}

/* The library calls an option by its name, option 'dim'; on the command line it is --dim. */
static void put_message(const pl_args *args, const char *message, FILE *to) {
    static const char mark[] = "option '";
    for (const char *at; (at = strstr(message, mark)) != NULL;) {
        const char *name = at + sizeof(mark) - 1;
        const size_t n = strcspn(name, "'");
        char option[64];
        const bool fits = name[n] == '\'' && n > 0 && n < sizeof(option);
        if (fits) snprintf(option, sizeof(option), "%.*s", (int)n, name);
        if (fits && pl_args_has(args->command, option)) {
            fprintf(to, "%.*s--%s", (int)(at - message), message, option);
            message = name + n + 1;
        } else {
            fprintf(to, "%.*s", (int)(name - message), message);
            message = name;
        }
    }
    fputs(message, to);
}

/* Length of the UTF-8 sequence at p; 0 = invalid. */
static size_t utf8_length(const unsigned char *p) {
    const size_t n = p[0] < 0x80                   ? 1
                     : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                     : (p[0] & 0xf0) == 0xe0       ? 3
                     : (p[0] & 0xf8) == 0xf0       ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return n;
}

/* File names need not be UTF-8: invalid bytes become question marks. */
static void put_json_string(const char *text, FILE *to) {
    const unsigned char *p = (const unsigned char *)text;
    putc('"', to);
    while (*p != '\0') {
        const size_t n = utf8_length(p);
        if (*p == '"' || *p == '\\') {
            fprintf(to, "\\%c", *p);
        } else if (*p < 0x20) {
            fprintf(to, "\\u%04x", *p);
        } else if (n == 0) {
            putc('?', to);
        } else {
            fwrite(p, 1, n, to);
        }
        p += n == 0 ? 1 : n;
    }
    putc('"', to);
}

void pl_cli_fail_json(const char *command, plumb_status status, const char *message) {
    printf("{\n  \"error\": {\n    \"command\": ");
    put_json_string(command, stdout);
    printf(",\n    \"status\": \"%s\",\n    \"exit_code\": %d,\n    \"message\": ",
           plumb_status_name(status), plumb_exit_code(status));
    put_json_string(message, stdout);
    printf("\n  }\n}\n");
    fflush(stdout); /* ignore write errors: the exit code reports the failure */
}

int pl_command_fail(const pl_args *args, const plumb_error *err) {
    const char *hint = find_hint(args->command->name, err->message);
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to != NULL) {
        put_message(args, err->message, to);
        if (hint != NULL) fprintf(to, " (%s)", hint);
        if (fclose(to) != 0) n = 0;
    }
    const char *said = to != NULL && n > 0 ? text : err->message;
    fprintf(stderr, "plumb %s: %s\n", args->command->name, said);
    if (args->wants_json && (args->printed == NULL || !*args->printed))
        pl_cli_fail_json(args->command->name, err->status, said);
    free(text);
    return plumb_exit_code(err->status);
}
