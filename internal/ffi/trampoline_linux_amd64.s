//go:build !purecuda_portable

#include "textflag.h"

// Offsets in Frame.
#define FRAME_FN    0
#define FRAME_WORDS 8
#define FRAME_RET   16
#define FRAME_ARGS  24

// trampoline is called by runtime.cgocall on the system stack by the System V
// calling convention, the block's address in DI. It passes the first six
// argument words in registers and the others on the stack, in order, and stores
// the result in the block. BP and BX belong to the caller and are given back.
TEXT trampoline<>(SB), NOSPLIT|NOFRAME, $0
	SUBQ $24, SP             // SP is a multiple of 16 from here on
	MOVQ BP, 16(SP)
	LEAQ 16(SP), BP
	MOVQ BX, -16(BP)
	MOVQ DI, BX

	MOVQ FRAME_WORDS(BX), CX
	SUBQ $6, CX
	JLE  registers
	LEAQ 1(CX), AX           // room for an even number of words keeps SP aligned
	ANDQ $~1, AX
	SHLQ $3, AX
	SUBQ AX, SP

stack:                       // CX is the number of words left: last one first
	MOVQ (FRAME_ARGS+5*8)(BX)(CX*8), AX
	MOVQ AX, -8(SP)(CX*8)
	SUBQ $1, CX
	JNZ  stack

registers:
	MOVQ (FRAME_ARGS+0*8)(BX), DI
	MOVQ (FRAME_ARGS+1*8)(BX), SI
	MOVQ (FRAME_ARGS+2*8)(BX), DX
	MOVQ (FRAME_ARGS+3*8)(BX), CX
	MOVQ (FRAME_ARGS+4*8)(BX), R8
	MOVQ (FRAME_ARGS+5*8)(BX), R9
	XORL AX, AX              // no vector registers, should the callee be variadic
	CALL FRAME_FN(BX)
	MOVQ AX, FRAME_RET(BX)

	LEAQ -16(BP), SP
	MOVQ 0(SP), BX
	MOVQ 16(SP), BP
	ADDQ $24, SP
	RET

DATA ·trampolineAddress(SB)/8, $trampoline<>(SB)
GLOBL ·trampolineAddress(SB), NOPTR, $8
