/* Landlock and seccomp by their system calls: libseccomp and liblandlock would be two more
 * libraries for sixty lines. Debian 12's headers are older than the kernels plumb meets, so the
 * newer constants are written here. */
#include "backends/guard/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* ---- files ---- */

enum {
    ABI_REFER = 2,
    ABI_TRUNCATE = 3,
    ABI_TCP = 4,
    ABI_SCOPES = 6,
};

#define READ                                                                                       \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ALL_OF_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)
/* A device node in the work folder would be the whole disk, for root. */
#define MAKE_DEVICE (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define ON_FILES                                                                                   \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     TRUNCATE)

typedef struct ruleset_attr {
    uint64_t files, tcp, scoped;
} ruleset_attr;

static int landlock_abi(void) {
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static ruleset_attr rights_of(int abi) {
    ruleset_attr attr = { .files = ALL_OF_ABI_1 };
    if (abi >= ABI_REFER) attr.files |= REFER;
    if (abi >= ABI_TRUNCATE) attr.files |= TRUNCATE;
    if (abi >= ABI_TCP) attr.tcp = 3;       /* bind and connect */
    if (abi >= ABI_SCOPES) attr.scoped = 3; /* abstract sockets and signals */
    return attr;
}

/* A path that does not exist needs no rule. */
static bool allow(int ruleset, const char *path, uint64_t rights) {
    struct stat info;
    const int fd = pl_fd_open(path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0) return errno == ENOENT || errno == EACCES || errno == ENOTDIR;
    if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rights &= ON_FILES;
    struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = fd };
    const bool ok =
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(fd);
    return ok;
}

/* No terminals, into which a program could type, no disks, no memory of other programs. */
static bool allow_devices(int ruleset) {
    static const char *const files[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                         "/dev/urandom" };
    static const char *const processors[] = { "nvidia", "dri",     "kfd", "accel", "dxg",
                                              "mali",   "davinci", "hl",  "apex",  "rknpu" };
    const uint64_t rights = READ | LANDLOCK_ACCESS_FS_WRITE_FILE;
    pl_dir_list list = { 0 };
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(files) / sizeof(files[0]); i++)
        ok = allow(ruleset, files[i], rights);
    if (!ok || pl_dir_list_read("/dev", &list, NULL) != PL_OK) return ok;
    for (size_t i = 0; ok && i < list.n_names; i++) {
        char path[280];
        (void)snprintf(path, sizeof(path), "/dev/%s", list.names[i]);
        for (size_t k = 0; ok && k < sizeof(processors) / sizeof(processors[0]); k++)
            if (strncmp(list.names[i], processors[k], strlen(processors[k])) == 0)
                ok = allow(ruleset, path, rights);
    }
    pl_dir_list_free(&list);
    return ok;
}

static bool allow_system(int ruleset) {
    static const char *const folders[] = { "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin",
                                           "/etc", "/opt", "/nix",   "/gnu",   "/sys", "/proc" };
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (!allow(ruleset, folders[i], READ)) return false;
    return allow_devices(ruleset);
}

bool pl_sandbox_files(const pl_sandbox *s) {
    const int abi = landlock_abi();
    if (abi < 1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    const ruleset_attr attr = rights_of(abi);
    const int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0) return false;
    bool ok = allow_system(ruleset);
    for (size_t i = 0; i < s->n_readable && ok; i++)
        ok = allow(ruleset, s->readable[i], READ);
    for (size_t i = 0; i < s->n_writable && ok; i++)
        ok = allow(ruleset, s->writable[i], attr.files & ~(uint64_t)MAKE_DEVICE);
    if (s->parent != NULL) ok = ok && allow(ruleset, s->parent, LANDLOCK_ACCESS_FS_REMOVE_DIR);
    if (s->groups != NULL) ok = ok && allow(ruleset, s->groups, LANDLOCK_ACCESS_FS_REMOVE_DIR);
    ok = ok && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    return ok;
}

/* ---- system calls ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0 /* no filter for this processor */
#endif

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define IF_EQUAL(k, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (then), (otherwise))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define REFUSE(error) ANSWER(SECCOMP_RET_ERRNO | (error))
#define CALL(name, action) IF_EQUAL((uint32_t)SYS_##name, 0, 1), ANSWER(action)

enum { MAX_FILTER = 256, FCHMODAT2 = 452 };

typedef struct filter {
    struct sock_filter code[MAX_FILTER];
    unsigned short n;
} filter;

static void append(filter *f, const struct sock_filter *code, size_t n) {
    memcpy(f->code + f->n, code, n * sizeof(code[0]));
    f->n = (unsigned short)(f->n + n);
}
#define APPEND(f, ...)                                                                             \
    do {                                                                                           \
        const struct sock_filter code_[] = { __VA_ARGS__ };                                        \
        append((f), code_, sizeof(code_) / sizeof(code_[0]));                                      \
    } while (0)

/* Local sockets get EACCES, since getpwuid tries one; any other socket ends the process. io_uring
 * could bypass this filter, so it is reported as missing. */
static void forbid_network(filter *f) {
    APPEND(f, IF_EQUAL(SYS_socket, 0, 4), LOAD(args[0]), IF_EQUAL(AF_UNIX, 0, 1), REFUSE(EACCES),
           ANSWER(SECCOMP_RET_TRAP));
    APPEND(f, CALL(io_uring_setup, SECCOMP_RET_ERRNO | ENOSYS));
}

/* Threads are allowed. clone3 is reported as missing, so that glibc falls back to clone, whose
 * flags a filter can read. */
static void forbid_programs(filter *f) {
    APPEND(f, CALL(execve, SECCOMP_RET_TRAP), CALL(execveat, SECCOMP_RET_TRAP),
           CALL(clone3, SECCOMP_RET_ERRNO | ENOSYS));
#if defined(SYS_fork)
    APPEND(f, CALL(fork, SECCOMP_RET_TRAP), CALL(vfork, SECCOMP_RET_TRAP));
#endif
    APPEND(f, IF_EQUAL(SYS_clone, 0, 4), LOAD(args[0]),
           BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1), ANSWER(SECCOMP_RET_ALLOW),
           ANSWER(SECCOMP_RET_TRAP));
}

/* Ways into other processes, the kernel and other name spaces. */
static void forbid_rest(filter *f) {
    APPEND(f, CALL(ptrace, SECCOMP_RET_ERRNO | EPERM),
           CALL(process_vm_readv, SECCOMP_RET_ERRNO | EPERM),
           CALL(process_vm_writev, SECCOMP_RET_ERRNO | EPERM), CALL(bpf, SECCOMP_RET_ERRNO | EPERM),
           CALL(keyctl, SECCOMP_RET_ERRNO | EPERM), CALL(add_key, SECCOMP_RET_ERRNO | EPERM),
           CALL(request_key, SECCOMP_RET_ERRNO | EPERM), CALL(mount, SECCOMP_RET_ERRNO | EPERM),
           CALL(umount2, SECCOMP_RET_ERRNO | EPERM), CALL(pivot_root, SECCOMP_RET_ERRNO | EPERM),
           CALL(setns, SECCOMP_RET_ERRNO | EPERM), CALL(unshare, SECCOMP_RET_ERRNO | EPERM),
           CALL(userfaultfd, SECCOMP_RET_ERRNO | EPERM),
           CALL(init_module, SECCOMP_RET_ERRNO | EPERM),
           CALL(finit_module, SECCOMP_RET_ERRNO | EPERM));
}

/* Landlock does not know owners, modes, times and attributes, and a descriptor for reading is
 * enough to change them. A compiler sets the mode of what it makes. */
static void forbid_metadata(filter *f) {
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM;
#if defined(SYS_chmod)
    APPEND(f, CALL(chmod, no), CALL(chown, no), CALL(lchown, no), CALL(utime, no), CALL(utimes, no),
           CALL(futimesat, no));
#endif
    APPEND(f, CALL(fchmod, no), CALL(fchmodat, no), IF_EQUAL(FCHMODAT2, 0, 1), ANSWER(no),
           CALL(fchown, no), CALL(fchownat, no), CALL(utimensat, no), CALL(setxattr, no),
           CALL(lsetxattr, no), CALL(fsetxattr, no), CALL(removexattr, no), CALL(lremovexattr, no),
           CALL(fremovexattr, no));
}

/* What only an administrator may do, and typing into a terminal. */
static void forbid_administration(filter *f) {
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM;
    APPEND(f, CALL(open_by_handle_at, no), CALL(perf_event_open, no), CALL(chroot, no),
           CALL(swapon, no), CALL(swapoff, no), CALL(reboot, no), CALL(settimeofday, no),
           CALL(clock_settime, no), CALL(adjtimex, no), CALL(clock_adjtime, no),
           CALL(sethostname, no), CALL(setdomainname, no), CALL(acct, no), CALL(quotactl, no),
           CALL(delete_module, no), CALL(kexec_load, no));
    /* Newer than the headers: open_tree to fspick, pidfd_getfd, process_madvise, mount_setattr. */
    APPEND(f, BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 428, 0, 2),
           BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 433, 1, 0), ANSWER(no), IF_EQUAL(438, 0, 1),
           ANSWER(no), IF_EQUAL(440, 0, 1), ANSWER(no), IF_EQUAL(442, 0, 1), ANSWER(no));
#if defined(SYS_iopl)
    APPEND(f, CALL(iopl, no), CALL(ioperm, no));
#endif
    APPEND(f, IF_EQUAL(SYS_ioctl, 0, 5), LOAD(args[1]), IF_EQUAL(TIOCSTI, 1, 0),
           IF_EQUAL(TIOCLINUX, 0, 1), ANSWER(no), ANSWER(SECCOMP_RET_ALLOW));
}

static const char *name_of(int call) {
    switch (call) {
    case SYS_socket: return "open a network connection (socket)";
    case SYS_execve:
    case SYS_execveat: return "start a program (execve)";
#if defined(SYS_fork)
    case SYS_fork:
    case SYS_vfork: return "start a process (fork)";
#endif
    case SYS_clone: return "start a process (clone)";
    default: return "make a system call that is not allowed";
    }
}

static void say_and_end(int signal_number, siginfo_t *info, void *context) {
    static const char start[] = "sandbox: it tried to ";
    const char *what = name_of(info->si_syscall);
    (void)context;
    (void)!write(2, start, sizeof(start) - 1);
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

bool pl_sandbox_calls(const pl_sandbox *s) {
    filter f = { .n = 0 };
    struct sigaction action = { .sa_sigaction = say_and_end, .sa_flags = SA_SIGINFO | SA_NODEFER };
    if (ARCH == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    /* Other calling conventions number their calls differently; nothing in plumb uses one. */
    APPEND(&f, LOAD(arch), IF_EQUAL(ARCH, 1, 0), ANSWER(SECCOMP_RET_KILL_PROCESS), LOAD(nr));
#if defined(__x86_64__)
    APPEND(&f, BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1),
           ANSWER(SECCOMP_RET_ERRNO | ENOSYS));
#endif
    forbid_rest(&f);
    if (!s->programs) forbid_metadata(&f);
    if (!s->programs) forbid_programs(&f);
    forbid_network(&f);
    forbid_administration(&f); /* last: it looks at arguments */
    APPEND(&f, ANSWER(SECCOMP_RET_ALLOW));
    const struct sock_fprog program = { .len = f.n, .filter = f.code };
    sigaction(SIGSYS, &action, NULL);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* ---- kernel support ---- */

bool pl_sandbox_available(char *why, size_t n_why) {
    const uint32_t trap = SECCOMP_RET_TRAP;
    if (landlock_abi() < 1) {
        snprintf(why, n_why, "this kernel has no Landlock (Linux 5.13, enabled at boot)");
        return false;
    }
    if (ARCH == 0 || syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) != 0) {
        snprintf(why, n_why, "this kernel has no seccomp filters");
        return false;
    }
    if (n_why > 0) why[0] = '\0';
    return true;
}
