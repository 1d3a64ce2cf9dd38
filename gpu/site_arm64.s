#include "textflag.h"

// func site() uint64
// A frame has the address of the one before it, and after that where it returns to. The last has none before it.
TEXT ·site(SB), NOSPLIT|NOFRAME, $0-8
	MOVD R30, R0
	MOVD R29, R1
	MOVD $0x9E3779B97F4A7C15, R2
	MOVD $256, R3
next:
	MUL R2, R0, R0
	CBZ R1, done
	MOVD 8(R1), R4
	ADD R4, R0, R0
	MOVD (R1), R1
	SUB $1, R3, R3
	CBNZ R3, next
done:
	MOVD R0, ret+0(FP)
	RET
