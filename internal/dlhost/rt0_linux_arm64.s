//go:build !android && !cgo && !purecuda_nohost

#include "textflag.h"

// dlhost_rt0 is where the kernel enters a program that purecuda-static has changed: on
// the kernel's stack, without thread-local storage and with no relocation applied. The
// command finds it by the 32 bytes after the jump, which are no instructions.
TEXT dlhost_rt0(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	B    start               // four bytes
	WORD $0x65727570         // "purecuda/dlhost entry point no.1"
	WORD $0x61647563
	WORD $0x686c642f
	WORD $0x2074736f
	WORD $0x72746e65
	WORD $0x6f702079
	WORD $0x20746e69
	WORD $0x312e6f6e

start:
	MOVD RSP, R1             // the kernel's block: argc, argv, environment, auxv
	SUB  $64, RSP
	MOVD R1, 48(RSP)

	// A thread pointer is there already if a C library has started us, because somebody
	// ran the loader by hand or put the interpreter back. Then all is done.
	MRS  TPIDR_EL0, R0
	CBNZ R0, enter

	// The arguments of Go functions begin above the word that holds the return address.
	MOVD R1, 8(RSP)
	MOVD $_rt0_arm64_linux(SB), R0
	MOVD R0, 16(RSP)
	MOVD ZR, g               // g, which the Go code does not use
	MOVD ZR, R29
	BL   ·boot(SB)

	MOVD 24(RSP), R16        // with R16, a jump may land where only calls are meant to
	CBZ  R16, static
	MOVD 48(RSP), R1
	MOVD R1, RSP
	MOVD ZR, R0              // no function for the loader to call at exit
	MOVD ZR, R29
	MOVD ZR, R30
	B    (R16)

	// No loader: take back what purego told the Go runtime about C. These are the names
	// of the runtime and of package syscall; a test looks for ones that are missing.
static:
	MOVB ZR, runtime·iscgo(SB)
	MOVD ZR, _cgo_init(SB)
	MOVD ZR, _cgo_thread_start(SB)
	MOVD ZR, _cgo_notify_runtime_init_done(SB)
	MOVD ZR, _cgo_pthread_key_created(SB)
	MOVD ZR, _cgo_bindm(SB)
	MOVD ZR, runtime·_cgo_setenv(SB)
	MOVD ZR, runtime·_cgo_unsetenv(SB)
	MOVD ZR, syscall·cgo_libc_setegid(SB)
	MOVD ZR, syscall·cgo_libc_seteuid(SB)
	MOVD ZR, syscall·cgo_libc_setgid(SB)
	MOVD ZR, syscall·cgo_libc_setregid(SB)
	MOVD ZR, syscall·cgo_libc_setresgid(SB)
	MOVD ZR, syscall·cgo_libc_setresuid(SB)
	MOVD ZR, syscall·cgo_libc_setreuid(SB)
	MOVD ZR, syscall·cgo_libc_setuid(SB)
	MOVD ZR, syscall·cgo_libc_setgroups(SB)

enter:
	MOVD 48(RSP), R1
	MOVD R1, RSP
	B    _rt0_arm64_linux(SB)

// func kernel(call, a, b, c, d, e, f uintptr) uintptr
TEXT ·kernel(SB), NOSPLIT, $0-64
	MOVD call+0(FP), R8
	MOVD a+8(FP), R0
	MOVD b+16(FP), R1
	MOVD c+24(FP), R2
	MOVD d+32(FP), R3
	MOVD e+40(FP), R4
	MOVD f+48(FP), R5
	SVC
	MOVD R0, ret+56(FP)
	RET

DATA ·entryPoint(SB)/8, $dlhost_rt0(SB)
GLOBL ·entryPoint(SB), NOPTR, $8
