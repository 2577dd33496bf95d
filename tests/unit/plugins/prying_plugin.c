/* A plugin that reaches for what is not its own: what=read|write|socket|fork|exec|thread|… happens
 * in run(), which fails with "got through" or with the system's reason. "thread" must work. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <plumb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const plumb_host *host;

static plumb_status open_prying(const plumb_host *h, const plumb_option *options, size_t n,
                                void **self, plumb_error *err) {
    host = h;
    if (n != 1) return h->fail(err, PLUMB_E_USAGE, "one option, what=, is required");
    *self = strdup(options[0].value);
    return PLUMB_OK;
}

static plumb_status compile(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                            plumb_error *err) {
    (void)source;
    (void)n_hooks;
    (void)err;
    *program = self;
    return PLUMB_OK;
}

static void *nothing(void *ctx) {
    return ctx;
}

static int try_open(int flags) {
    const char *path = getenv("PLUMB_TEST_SECRET");
    return open(path == NULL ? "" : path, flags | O_CLOEXEC, 0600);
}

/* Modes, owners and times of a file that cannot even be read; device nodes; terminals. */
static int try_metadata(const char *what) {
    const char *path = getenv("PLUMB_TEST_SECRET"), *tmp = getenv("TMPDIR");
    char node[300];
    char key = 'x';
    path = path == NULL ? "" : path;
    if (strcmp(what, "chmod") == 0) return chmod(path, 0600) < 0 ? errno : 0;
    if (strcmp(what, "chown") == 0) return chown(path, getuid(), getgid()) < 0 ? errno : 0;
    if (strcmp(what, "touch") == 0) return utimensat(AT_FDCWD, path, NULL, 0) < 0 ? errno : 0;
    if (strcmp(what, "xattr") == 0) return setxattr(path, "user.x", "y", 1, 0) < 0 ? errno : 0;
    if (strcmp(what, "terminal") == 0) return open("/dev/ptmx", O_RDWR | O_CLOEXEC) < 0 ? errno : 0;
    if (strcmp(what, "type") == 0) return ioctl(2, TIOCSTI, &key) < 0 ? errno : 0;
    if (strcmp(what, "node") != 0) return -1;
    snprintf(node, sizeof(node), "%s/zero", tmp == NULL ? "." : tmp);
    return mknod(node, S_IFCHR | 0600, makedev(1, 5)) < 0 ? errno : 0;
}

/* 0 when it worked. */
static int try_it(const char *what) {
    pthread_t thread;
    const int known = try_metadata(what);
    if (known >= 0) return known;
    if (strcmp(what, "read") == 0) return try_open(O_RDONLY) < 0 ? errno : 0;
    if (strcmp(what, "write") == 0) return try_open(O_WRONLY | O_CREAT) < 0 ? errno : 0;
    if (strcmp(what, "socket") == 0) return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
    if (strcmp(what, "exec") == 0) return execl("/bin/true", "true", (char *)NULL) < 0 ? errno : 0;
    if (strcmp(what, "fork") == 0) {
        for (int i = 0; i < 1000; i++) {
            const pid_t pid = fork();
            if (pid == 0) _exit(0);
            if (pid < 0) return errno;
            waitpid(pid, NULL, 0);
        }
        return 0;
    }
    const int error = pthread_create(&thread, NULL, nothing, NULL);
    if (error == 0) pthread_join(thread, NULL);
    return error;
}

static plumb_status run(void *program, const plumb_run_args *args, plumb_error *err) {
    const char *what = program;
    const int error = try_it(what);
    args->out[0] = host->ref(args->in[0]);
    if (strcmp(what, "thread") == 0 && error == 0) return PLUMB_OK;
    return host->fail(err, PLUMB_E_BACKEND, "%s: %s", what,
                      error == 0 ? "got through" : strerror(error));
}

static void release(void *program) {
    (void)program;
}

static const plumb_option_def options[] = { { "what", "TEXT", "what it reaches for" } };

static const plumb_backend row = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .name = "prying",
    .options = options,
    .n_options = 1,
    .open = open_prying,
    .close = free,
    .compile = compile,
    .run = run,
    .free = release,
};

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    (void)h;
    if (n_max > 0) backends[0] = &row;
    return 1;
}
