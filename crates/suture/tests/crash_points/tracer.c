/* Runs a command, and asks before each of its system calls on files what is to become of it.
 *
 * tracer SOCKET COMMAND ARGS..
 *
 * A seccomp filter stops the command at the calls of `TRACED`, and only there; so calls that do not
 * go through libc are seen too. Whoever listens on SOCKET gets a record of `struct report` for each
 * stop and answers with one of `struct answer`. What the calls mean is decided there, not here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "only x86_64 so far: registers are read and changed by name"
#endif

enum { STARTED, CALL, RETURN, ENDED };
enum { GO, GO_AND_TELL, FAIL, SHORTEN, KILL };

struct report {
    uint64_t kind, thread, number, arguments[6];
};

struct answer {
    uint64_t action, value;
};

/* Whatever opens, reads, changes, names or locks a file. io_uring would escape: it is reported. */
static const int TRACED[] = {
    SYS_open, SYS_openat, SYS_openat2, SYS_creat, SYS_read, SYS_pread64, SYS_readv, SYS_preadv,
    SYS_preadv2, SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2, SYS_sendfile,
    SYS_copy_file_range, SYS_splice, SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_syncfs,
    SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_rename, SYS_renameat, SYS_renameat2, SYS_link,
    SYS_linkat, SYS_symlink, SYS_symlinkat, SYS_unlink, SYS_unlinkat, SYS_mkdir, SYS_mkdirat,
    SYS_rmdir, SYS_getdents64, SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat, SYS_statx,
    SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_chmod, SYS_fchmod,
    SYS_fchmodat, SYS_chown, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_flock, SYS_fcntl,
    SYS_mmap, SYS_msync, SYS_io_uring_setup,
};
enum { TRACED_COUNT = sizeof TRACED / sizeof *TRACED };

static int control;

static void fail(const char *what)
{
    perror(what);
    exit(127);
}

static void put(struct report report)
{
    const char *at = (const char *)&report;
    for (size_t left = sizeof report; left > 0;) {
        ssize_t sent = send(control, at, left, MSG_NOSIGNAL);
        if (sent <= 0)
            exit(127); /* EXITKILL ends the command too. */
        at += sent;
        left -= (size_t)sent;
    }
}

static struct answer ask(struct report report)
{
    struct answer answer;
    put(report);
    if (recv(control, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
        exit(127);
    return answer;
}

static void install_filter(void)
{
    struct sock_filter program[TRACED_COUNT + 5];
    int at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, TRACED_COUNT + 1);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < TRACED_COUNT; i++)
        program[at++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (unsigned)TRACED[i], (unsigned char)(TRACED_COUNT - i), 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog filter = { (unsigned short)at, program };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        fail("cannot install the filter");
}

static pid_t start(char **command)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        install_filter();
        raise(SIGSTOP);
        execvp(command[0], command);
        fail(command[0]);
    }
    const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK
        | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    int status;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        fail("the command did not start");
    if (ptrace(PTRACE_SEIZE, child, 0, options)) {
        int why = errno;
        kill(child, SIGKILL);
        errno = why;
        fail("cannot trace");
    }
    kill(child, SIGCONT);
    return child;
}

/* Asks about a call that is about to be made; gives how the thread is to go on. */
static int at_call(pid_t child, pid_t thread)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, thread, 0, &r))
        return PTRACE_CONT; /* It was killed meanwhile. */
    struct report call = { CALL, (uint64_t)thread, r.orig_rax, { r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9 } };
    struct answer answer = ask(call);
    switch (answer.action) {
    case GO:
        return PTRACE_CONT;
    case FAIL:
        r.orig_rax = (unsigned long long)-1;
        r.rax = -answer.value;
        ptrace(PTRACE_SETREGS, thread, 0, &r);
        return PTRACE_CONT;
    case SHORTEN:
        r.rdx = answer.value;
        ptrace(PTRACE_SETREGS, thread, 0, &r);
        return PTRACE_SYSCALL;
    case KILL:
        kill(child, SIGKILL);
        return PTRACE_CONT;
    default:
        return PTRACE_SYSCALL;
    }
}

static void at_return(pid_t child, pid_t thread)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, thread, 0, &r))
        return;
    struct report report = { RETURN, (uint64_t)thread, r.orig_rax, { r.rax } };
    if (ask(report).action == KILL)
        kill(child, SIGKILL);
}

int main(int count, char **arguments)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (count < 3 || strlen(arguments[1]) >= sizeof address.sun_path)
        return 126;
    strcpy(address.sun_path, arguments[1]);
    control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control < 0 || connect(control, (struct sockaddr *)&address, sizeof address))
        fail(arguments[1]);
    pid_t child = start(arguments + 2);
    put((struct report){ STARTED, (uint64_t)child, 0, { 0 } });
    int status, ended = -1;
    pid_t thread;
    while ((thread = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (thread == child)
                ended = status;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16, how = PTRACE_CONT;
        if (event == PTRACE_EVENT_SECCOMP)
            how = at_call(child, thread);
        else if (signal == (SIGTRAP | 0x80))
            at_return(child, thread);
        /* What is neither an event nor the end of a call is a signal for the command itself. */
        int deliver = event || signal == (SIGTRAP | 0x80) ? 0 : signal;
        ptrace(how, thread, 0, deliver);
    }
    put((struct report){ ENDED, (uint64_t)child, (uint64_t)ended, { 0 } });
    return 0;
}
