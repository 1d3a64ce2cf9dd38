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

// floatsTrampoline is trampoline for a function that takes float or double. Bit i of the upper
// half of FRAME_WORDS says that word i is one. Those go to X0 to X7, the others to the six registers
// of words, and what has no register left to the stack, each in its order.
TEXT floatsTrampoline<>(SB), NOSPLIT|NOFRAME, $0
	SUBQ $24, SP
	MOVQ BP, 16(SP)
	LEAQ 16(SP), BP
	MOVQ BX, -16(BP)
	MOVQ DI, BX
	SUBQ $368, SP            // 32 words of stack, 6 words, 8 floats: SP stays a multiple of 16

	MOVL FRAME_WORDS(BX), DX     // how many are left
	MOVL (FRAME_WORDS+4)(BX), CX // bit 0 is that of the next one
	LEAQ FRAME_ARGS(BX), SI      // the next one
	MOVQ SP, R9                  // where the next goes on the stack,
	LEAQ 256(SP), DI             // among the words, which end where the floats begin,
	LEAQ 304(SP), R8             // and among the floats
	LEAQ 304(SP), R10
	LEAQ 368(SP), R11

next:
	SUBQ $1, DX
	JLT  loaded
	MOVQ (SI), AX
	ADDQ $8, SI
	SHRL $1, CX
	JCS  float
	CMPQ DI, R10
	JEQ  spill
	MOVQ AX, (DI)
	ADDQ $8, DI
	JMP  next

float:
	CMPQ R8, R11
	JEQ  spill
	MOVQ AX, (R8)
	ADDQ $8, R8
	JMP  next

spill:
	MOVQ AX, (R9)
	ADDQ $8, R9
	JMP  next

loaded:
	MOVSD 304(SP), X0
	MOVSD 312(SP), X1
	MOVSD 320(SP), X2
	MOVSD 328(SP), X3
	MOVSD 336(SP), X4
	MOVSD 344(SP), X5
	MOVSD 352(SP), X6
	MOVSD 360(SP), X7
	MOVQ  256(SP), DI
	MOVQ  264(SP), SI
	MOVQ  272(SP), DX
	MOVQ  280(SP), CX
	MOVQ  288(SP), R8
	MOVQ  296(SP), R9
	MOVL  $8, AX             // vector registers, should the callee be variadic
	CALL  FRAME_FN(BX)
	MOVQ  AX, FRAME_RET(BX)

	LEAQ -16(BP), SP
	MOVQ 0(SP), BX
	MOVQ 16(SP), BP
	ADDQ $24, SP
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
	SUBQ $24, SP
	MOVQ BP, 16(SP)
	LEAQ 16(SP), BP
	MOVQ BX, -16(BP)
	MOVQ DI, BX

	MOVQ WITHIN_CONTEXT(BX), DI
	CALL WITHIN_PUSH(BX)
	MOVQ AX, WITHIN_PUSHED(BX)
	TESTL AX, AX
	JNE  done
	MOVQ WITHIN_FRAME(BX), DI
	CALL WITHIN_CALL(BX)
	LEAQ WITHIN_OFF(BX), DI
	CALL WITHIN_POP(BX)
	MOVQ AX, WITHIN_POPPED(BX)

done:
	MOVQ 0(SP), BX
	MOVQ 16(SP), BP
	ADDQ $24, SP
	RET

DATA ·withinTrampolineAddress(SB)/8, $withinTrampoline<>(SB)
GLOBL ·withinTrampolineAddress(SB), NOPTR, $8
