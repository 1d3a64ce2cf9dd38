//go:build !purecuda_portable

#include "textflag.h"

// Offsets in Frame.
#define FRAME_FN    0
#define FRAME_WORDS 8
#define FRAME_RET   16
#define FRAME_ARGS  24

// trampoline is called by runtime.cgocall on the system stack by the AAPCS64
// calling convention, the block's address in R0. It passes the first eight
// argument words in registers and the others on the stack, in order, and stores
// the result in the block. R19, R29 and R30 belong to the caller and are given
// back.
TEXT trampoline<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $32, RSP
	STP  (R29, R30), 0(RSP)
	MOVD R19, 16(RSP)
	MOVD RSP, R29
	MOVD R0, R19

	MOVD FRAME_WORDS(R19), R9
	SUBS $8, R9, R9
	BLE  registers
	ADD  $1, R9, R10         // room for an even number of words keeps SP aligned
	AND  $~1, R10, R10
	LSL  $3, R10, R10
	MOVD RSP, R11
	SUB  R10, R11, R11
	MOVD R11, RSP
	ADD  $(FRAME_ARGS+8*8), R19, R10

stack:
	MOVD.P 8(R10), R12
	MOVD.P R12, 8(R11)
	SUBS   $1, R9, R9
	BNE    stack

registers:
	MOVD (FRAME_ARGS+0*8)(R19), R0
	MOVD (FRAME_ARGS+1*8)(R19), R1
	MOVD (FRAME_ARGS+2*8)(R19), R2
	MOVD (FRAME_ARGS+3*8)(R19), R3
	MOVD (FRAME_ARGS+4*8)(R19), R4
	MOVD (FRAME_ARGS+5*8)(R19), R5
	MOVD (FRAME_ARGS+6*8)(R19), R6
	MOVD (FRAME_ARGS+7*8)(R19), R7
	MOVD FRAME_FN(R19), R9
	BL   (R9)
	MOVD R0, FRAME_RET(R19)

	MOVD R29, RSP
	LDP  0(RSP), (R29, R30)
	MOVD 16(RSP), R19
	ADD  $32, RSP
	RET

DATA ·trampolineAddress(SB)/8, $trampoline<>(SB)
GLOBL ·trampolineAddress(SB), NOPTR, $8
