//go:build !android && !cgo && !purecuda_nohost

#include "textflag.h"

#define SYS_arch_prctl 158
#define ARCH_SET_FS    0x1002
#define ARCH_GET_FS    0x1003

// dlhost_rt0 is where the kernel enters a program that purecuda-static has changed: on
// the kernel's stack, without thread-local storage and with no relocation applied. The
// command finds it by the 32 bytes after the jump, which are no instructions.
TEXT dlhost_rt0(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	JMP  start               // two bytes
	LONG $0x65727570         // "purecuda/dlhost entry point no.1"
	LONG $0x61647563
	LONG $0x686c642f
	LONG $0x2074736f
	LONG $0x72746e65
	LONG $0x6f702079
	LONG $0x20746e69
	LONG $0x312e6f6e

start:
	MOVQ SP, BX              // the kernel's block: argc, argv, environment, auxv
	SUBQ $64, SP
	MOVQ BX, 48(SP)

	// A thread pointer is there already if a C library has started us, because somebody
	// ran the loader by hand or put the interpreter back. Then all is done.
	MOVQ $0, 32(SP)
	MOVQ $SYS_arch_prctl, AX
	MOVQ $ARCH_GET_FS, DI
	LEAQ 32(SP), SI
	SYSCALL
	CMPQ 32(SP), $0
	JNE  enter

	// Go code that is called from assembly loads g from thread-local storage. It does
	// not use it, but there has to be something to load from.
	MOVQ $SYS_arch_prctl, AX
	MOVQ $ARCH_SET_FS, DI
	LEAQ ·storage+64(SB), SI
	SYSCALL

	MOVQ 48(SP), AX
	MOVQ AX, 0(SP)
	LEAQ _rt0_amd64_linux(SB), AX
	MOVQ AX, 8(SP)
	CALL ·boot(SB)

	MOVQ $SYS_arch_prctl, AX // as the kernel left it
	MOVQ $ARCH_SET_FS, DI
	XORL SI, SI
	SYSCALL

	MOVQ 16(SP), AX
	TESTQ AX, AX
	JZ   static
	MOVQ 48(SP), SP
	XORL DX, DX              // no function for the loader to call at exit
	JMP  AX

	// No loader: take back what purego told the Go runtime about C. These are the names
	// of the runtime and of package syscall; a test looks for ones that are missing.
static:
	MOVB $0, runtime·iscgo(SB)
	MOVQ $0, _cgo_init(SB)
	MOVQ $0, _cgo_thread_start(SB)
	MOVQ $0, _cgo_notify_runtime_init_done(SB)
	MOVQ $0, _cgo_pthread_key_created(SB)
	MOVQ $0, _cgo_bindm(SB)
	MOVQ $0, runtime·_cgo_setenv(SB)
	MOVQ $0, runtime·_cgo_unsetenv(SB)
	MOVQ $0, syscall·cgo_libc_setegid(SB)
	MOVQ $0, syscall·cgo_libc_seteuid(SB)
	MOVQ $0, syscall·cgo_libc_setgid(SB)
	MOVQ $0, syscall·cgo_libc_setregid(SB)
	MOVQ $0, syscall·cgo_libc_setresgid(SB)
	MOVQ $0, syscall·cgo_libc_setresuid(SB)
	MOVQ $0, syscall·cgo_libc_setreuid(SB)
	MOVQ $0, syscall·cgo_libc_setuid(SB)
	MOVQ $0, syscall·cgo_libc_setgroups(SB)

enter:
	MOVQ 48(SP), SP
	JMP  _rt0_amd64_linux(SB)

// func kernel(call, a, b, c, d, e, f uintptr) uintptr
TEXT ·kernel(SB), NOSPLIT, $0-64
	MOVQ call+0(FP), AX
	MOVQ a+8(FP), DI
	MOVQ b+16(FP), SI
	MOVQ c+24(FP), DX
	MOVQ d+32(FP), R10
	MOVQ e+40(FP), R8
	MOVQ f+48(FP), R9
	SYSCALL
	MOVQ AX, ret+56(FP)
	RET

DATA ·entryPoint(SB)/8, $dlhost_rt0(SB)
GLOBL ·entryPoint(SB), NOPTR, $8
