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

// floatsTrampoline is trampoline for a function that takes float or double. Bit i of the upper
// half of FRAME_WORDS says that word i is one. Those go to F0 to F7, the others to R0 to R7, and
// what has no register left to the stack, each in its order.
TEXT floatsTrampoline<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $32, RSP
	STP  (R29, R30), 0(RSP)
	MOVD R19, 16(RSP)
	MOVD RSP, R29
	MOVD R0, R19
	SUB  $384, RSP           // 32 words of stack, 8 words, 8 floats
	MOVD RSP, R11            // where the next goes on the stack,
	ADD  $256, R11, R12      // among the words, which end where the floats begin,
	ADD  $320, R11, R13      // and among the floats
	ADD  $320, R11, R14
	ADD  $384, R11, R15

	MOVWU FRAME_WORDS(R19), R9      // how many are left
	MOVWU (FRAME_WORDS+4)(R19), R10 // bit 0 is that of the next one
	ADD   $FRAME_ARGS, R19, R8      // the next one

next:
	SUBS   $1, R9, R9
	BLT    loaded
	MOVD.P 8(R8), R7
	AND    $1, R10, R6
	LSR    $1, R10, R10
	CBNZ   R6, float
	CMP    R12, R14
	BEQ    spill
	MOVD.P R7, 8(R12)
	B      next

float:
	CMP    R13, R15
	BEQ    spill
	MOVD.P R7, 8(R13)
	B      next

spill:
	MOVD.P R7, 8(R11)
	B      next

loaded:
	MOVD  RSP, R11
	FMOVD 320(R11), F0
	FMOVD 328(R11), F1
	FMOVD 336(R11), F2
	FMOVD 344(R11), F3
	FMOVD 352(R11), F4
	FMOVD 360(R11), F5
	FMOVD 368(R11), F6
	FMOVD 376(R11), F7
	MOVD  256(R11), R0
	MOVD  264(R11), R1
	MOVD  272(R11), R2
	MOVD  280(R11), R3
	MOVD  288(R11), R4
	MOVD  296(R11), R5
	MOVD  304(R11), R6
	MOVD  312(R11), R7
	MOVD  FRAME_FN(R19), R9
	BL    (R9)
	MOVD  R0, FRAME_RET(R19)

	MOVD R29, RSP
	LDP  0(RSP), (R29, R30)
	MOVD 16(RSP), R19
	ADD  $32, RSP
	RET

DATA ·floatsTrampolineAddress(SB)/8, $floatsTrampoline<>(SB)
GLOBL ·floatsTrampolineAddress(SB), NOPTR, $8

// Offsets in within.
#define WITHIN_FRAME   0
#define WITHIN_CALL    8
#define WITHIN_PUSH    16
#define WITHIN_POP     24
#define WITHIN_CONTEXT 32
#define WITHIN_OFF     40
#define WITHIN_PUSHED  48
#define WITHIN_POPPED  56

// withinTrampoline makes three calls, where the first returns 0: push(context), that of the frame, and pop(&off).
TEXT withinTrampoline<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $32, RSP
	STP  (R29, R30), 0(RSP)
	MOVD R19, 16(RSP)
	MOVD RSP, R29
	MOVD R0, R19

	MOVD WITHIN_CONTEXT(R19), R0
	MOVD WITHIN_PUSH(R19), R9
	BL   (R9)
	MOVD R0, WITHIN_PUSHED(R19)
	CBNZW R0, done
	MOVD WITHIN_FRAME(R19), R0
	MOVD WITHIN_CALL(R19), R9
	BL   (R9)
	ADD  $WITHIN_OFF, R19, R0
	MOVD WITHIN_POP(R19), R9
	BL   (R9)
	MOVD R0, WITHIN_POPPED(R19)

done:
	LDP  0(RSP), (R29, R30)
	MOVD 16(RSP), R19
	ADD  $32, RSP
	RET

DATA ·withinTrampolineAddress(SB)/8, $withinTrampoline<>(SB)
GLOBL ·withinTrampolineAddress(SB), NOPTR, $8
