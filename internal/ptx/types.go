package ptx

// Type is a PTX operand type (PTX ISA, "Types").
type Type uint8

// The types. TypeNone is the absence of one.
const (
	TypeNone Type = iota
	B8
	B16
	B32
	B64
	B128
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	F16x2
	BF16
	BF16x2
	TF32
	F32
	F32x2
	F64
	U16x2
	S16x2
	E4M3
	E5M2
	E4M3x2
	E5M2x2
	Pred
	TexRef
	SamplerRef
	SurfRef
	numTypes
)

// Class tells how the bits of a type are read.
type Class uint8

// The classes.
const (
	ClassNone   Class = iota
	ClassBits         // untyped bits
	ClassUint         // unsigned integer
	ClassSint         // two's complement integer
	ClassFloat        // IEEE-like floating point
	ClassPacked       // several values in one register
	ClassPred         // predicate
	ClassOpaque       // texture, sampler and surface references
)

type typeInfo struct {
	name  string
	bits  int
	class Class
}

var typeTable = [numTypes]typeInfo{
	TypeNone: {"", 0, ClassNone},
	B8:       {"b8", 8, ClassBits}, B16: {"b16", 16, ClassBits}, B32: {"b32", 32, ClassBits},
	B64: {"b64", 64, ClassBits}, B128: {"b128", 128, ClassBits},
	U8: {"u8", 8, ClassUint}, U16: {"u16", 16, ClassUint}, U32: {"u32", 32, ClassUint}, U64: {"u64", 64, ClassUint},
	S8: {"s8", 8, ClassSint}, S16: {"s16", 16, ClassSint}, S32: {"s32", 32, ClassSint}, S64: {"s64", 64, ClassSint},
	F16: {"f16", 16, ClassFloat}, F16x2: {"f16x2", 32, ClassPacked},
	BF16: {"bf16", 16, ClassFloat}, BF16x2: {"bf16x2", 32, ClassPacked},
	TF32: {"tf32", 32, ClassFloat}, F32: {"f32", 32, ClassFloat}, F32x2: {"f32x2", 64, ClassPacked},
	F64:   {"f64", 64, ClassFloat},
	U16x2: {"u16x2", 32, ClassPacked}, S16x2: {"s16x2", 32, ClassPacked},
	E4M3: {"e4m3", 8, ClassFloat}, E5M2: {"e5m2", 8, ClassFloat},
	E4M3x2: {"e4m3x2", 16, ClassPacked}, E5M2x2: {"e5m2x2", 16, ClassPacked},
	Pred:   {"pred", 1, ClassPred},
	TexRef: {"texref", 64, ClassOpaque}, SamplerRef: {"samplerref", 64, ClassOpaque}, SurfRef: {"surfref", 64, ClassOpaque},
}

var typeByName = func() map[string]Type {
	m := make(map[string]Type, numTypes)
	for t := B8; t < numTypes; t++ {
		m[typeTable[t].name] = t
	}
	return m
}()

// ParseType returns the type with the given name, without its dot: "u32".
func ParseType(name string) (Type, bool) {
	t, ok := typeByName[name]
	return t, ok
}

// Bits is the width of a value in bits; a predicate has one.
func (t Type) Bits() int {
	if t >= numTypes {
		return 0
	}
	return typeTable[t].bits
}

// Size is the width of a value in memory in bytes; a predicate has none.
func (t Type) Size() int { return t.Bits() / 8 }

// Class tells how the bits are read.
func (t Type) Class() Class {
	if t >= numTypes {
		return ClassNone
	}
	return typeTable[t].class
}

func (t Type) String() string {
	if t >= numTypes || t == TypeNone {
		return "none"
	}
	return "." + typeTable[t].name
}

// Space is a PTX state space (PTX ISA, "State Spaces").
type Space uint8

// The state spaces. Generic is the absence of a name in ld, st and atom.
const (
	Generic Space = iota
	RegSpace
	Global
	Shared
	Local
	Const
	ParamSpace
	numSpaces
)

var spaceNames = [numSpaces]string{"generic", "reg", "global", "shared", "local", "const", "param"}

func (s Space) String() string {
	if s >= numSpaces {
		return "unknown"
	}
	return spaceNames[s]
}
