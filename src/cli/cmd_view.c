/* plumb view [SESSION|MODEL]: the debugger in the browser. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_view;
extern char **environ;

/* Fails silently: the link is on stdout either way. The browser may outlive us: it gets a group of
 * its own, so that Ctrl-C is not for it, and none of the signals that are blocked here. */
static void open_browser(const char *link) {
    char name[] = "xdg-open";
    char *url = NULL;
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    if (asprintf(&url, "%s", link) < 0) return;
    char *const argv[] = { name, url, NULL };
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnp(&pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    free(url);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_viewer *viewer = NULL;
    long long port = 0;
    char self[4096];
    int got = 0;
    sigset_t end;
    if (!pl_args_int(args, "port", 0, 0, 65535, &port, &err)) return pl_command_fail(args, &err);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    const plumb_viewer_options options = { .port = (int)port,
                                           .source = pl_args_value(args, "source"),
                                           .program = n > 0 ? self : NULL,
                                           .host = pl_args_value(args, "host") };
    sigemptyset(&end); /* before the server's threads, which inherit it */
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &end, NULL);
    const char *path = args->n_positional > 0 ? args->positional[0] : NULL;
    if (plumb_viewer_open(path, &options, &viewer, &err) != PLUMB_OK)
        return pl_command_fail(args, &err);
    printf("%s\n", plumb_viewer_link(viewer));
    fflush(stdout);
    if (!pl_args_flag(args, "no-open")) open_browser(plumb_viewer_link(viewer));
    (void)sigwait(&end, &got);
    plumb_viewer_close(viewer);
    return 0;
}

static const pl_option options[] = {
    { 0, "port", "N", "port on 127.0.0.1 (default 0: a free one)" },
    { 0, "host", "ADDRESS",
      "listen there instead of on 127.0.0.1; the token is then all that guards it" },
    { 0, "no-open", NULL, "only print the link" },
    { 0, "source", "DIR", "show source files of the model's program from below DIR" },
    PL_OPTIONS_END,
};

const pl_command pl_command_view = {
    .name = "view",
    .usage = "[SESSION|MODEL] [options]",
    .summary = "the debugger in the browser",
    .details = "Serves the debugger on the loopback and prints its link; the link holds a token "
               "that every\n"
               "request must show. With a model a comparison is set up and started in the page.\n"
               "Ends with Ctrl-C.",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
