/* plumb view [SESSION|MODEL]: the debugger in the browser. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_view;
extern char **environ;

typedef struct ending {
    sem_t over;
    char folder[1000]; /* of the page; "" = none */
    char page[1024];
} ending;

/* A page that redirects to the link: on a command line everyone could read the token. Only this
 * user can read it; it is removed when the server ends. */
static bool write_redirect(const char *link, ending *e) {
    if (!pl_cli_folder_new("view", e->folder, sizeof e->folder, NULL)) return false;
    (void)snprintf(e->page, sizeof e->page, "%s/plumb.html", e->folder);
    const mode_t before = umask(077);
    FILE *page = fopen(e->page, "wx");
    (void)umask(before);
    if (page == NULL) return false;
    fputs("<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" "
          "content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=",
          page);
    for (const char *at = link; *at != '\0'; at++)
        fprintf(page, strchr("&<>\"'", *at) != NULL ? "&#%d;" : "%c", *at);
    fputs("\">plumb\n", page);
    return fclose(page) == 0;
}

static void remove_redirect(const ending *e) {
    if (e->folder[0] == '\0') return;
    (void)unlink(e->page);
    (void)rmdir(e->folder);
}

/* Fails silently: the link is on stdout anyway. The browser may outlive us, so it gets its own
 * process group (not hit by Ctrl-C) and an empty signal mask. */
static void open_browser(char *page) {
    char name[] = "xdg-open";
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    char *const argv[] = { name, page, NULL };
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
}

enum { CLOSE_SECONDS = 1 };

/* Waits for the signal that ends the server. Does not wait for what then hangs, such as a client or
 * a file system. */
static void *await_end(void *ctx) {
    ending *e = ctx;
    sigset_t end;
    int got = 0;
    sigemptyset(&end);
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGHUP);
    (void)sigwait(&end, &got);
    (void)sem_post(&e->over);
    sleep(CLOSE_SECONDS);
    remove_redirect(e);
    plumb_abandon();
    _exit(0);
    return NULL;
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_viewer *viewer = NULL;
    long long port = 0;
    char self[4096];
    static ending e; /* the waiting thread may outlive this function */
    sigset_t end;
    pthread_t waiter;
    if (!pl_args_int(args, "port", 0, 0, 65535, &port, &err)) return pl_command_fail(args, &err);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    plumb_viewer_options options;
    plumb_viewer_options_init(&options);
    options.port = (int)port;
    options.source = pl_args_value(args, "source");
    options.files = pl_args_value(args, "files");
    options.program = n > 0 ? self : NULL;
    options.host = pl_args_value(args, "host");
    options.insecure_host = pl_args_flag(args, "insecure-host");
    options.trust = pl_args_flag(args, "trust");
    sigemptyset(&end); /* before the server's threads, which inherit it */
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &end, NULL);
    if (sem_init(&e.over, 0, 0) != 0 || pthread_create(&waiter, NULL, await_end, &e) != 0) {
        (void)pl_args_fail(&err, PLUMB_E_MEMORY, "cannot create a thread");
        return pl_command_fail(args, &err);
    }
    const char *path = args->n_positional > 0 ? args->positional[0] : NULL;
    if (plumb_viewer_open(path, &options, &viewer, &err) != PLUMB_OK)
        return pl_command_fail(args, &err);
    printf("%s\n", plumb_viewer_link(viewer));
    fflush(stdout);
    if (!pl_args_flag(args, "no-open") && write_redirect(plumb_viewer_link(viewer), &e))
        open_browser(e.page);
    while (sem_wait(&e.over) != 0)
        ;
    plumb_viewer_close(viewer);
    remove_redirect(&e);
    return 0;
}

static const pl_option options[] = {
    { 0, "port", "N", "port on 127.0.0.1 (default 0: a free one)" },
    { 0, "host", "ADDRESS",
      "address to listen on (default 127.0.0.1); others than loopback require --insecure-host" },
    { 0, "insecure-host", NULL,
      "allow a --host that is not loopback (unencrypted, protected only by the token)" },
    { 0, "trust", NULL, "do not ask before the page compiles or runs what a session names" },
    { 0, "no-open", NULL, "print the link, do not open a browser" },
    { 0, "files", "DIR",
      "let the page choose files below DIR (default: the folder of SESSION or MODEL)" },
    { 0, "source", "DIR", "show source files of the model's program below DIR" },
    PL_OPTIONS_END,
};

const pl_command pl_command_view = {
    .name = "view",
    .usage = "[SESSION|MODEL] [options]",
    .summary = "open the debugger in the browser",
    .details =
        "Serves the debugger on the loopback interface and prints its link; every\nrequest "
        "must carry the token in the link. With a model, it shows the graph and\nits weights; "
        "a comparison is set up and started in the page. Stop it with\nCtrl-C.",
    .examples = "  plumb view session\n"
                "  plumb view model.onnx\n"
                "  plumb view session --no-open --port 8080\n",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
