/* Runs a program with one system call forbidden: seccomp openat PROGRAM [ARGUMENT...] */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned number; } calls[] = {
		{"openat", SYS_openat}, {"pread64", SYS_pread64}, {"faccessat", SYS_faccessat},
	};
	unsigned number = ~0u;
	for (size_t i = 0; i < sizeof calls / sizeof *calls && argc > 2; i++)
		if (strcmp(argv[1], calls[i].name) == 0)
			number = calls[i].number;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	if (number == ~0u || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("seccomp:");
		return 2;
	}
	execv(argv[2], argv + 2);
	perror("seccomp: execv");
	return 2;
}
