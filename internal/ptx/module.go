package ptx

// Linkage is how a symbol is seen from other modules.
type Linkage uint8

// The linkages; Internal is the absence of a directive.
const (
	Internal Linkage = iota
	Visible
	Extern
	Weak
	Common
)

// Version is a PTX ISA version.
type Version struct{ Major, Minor int }

// AtLeast reports whether v is not older than major.minor.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Module is a translation unit.
type Module struct {
	Version       Version
	Target        string   // "sm_75"
	TargetOptions []string // the rest of the .target list: "texmode_independent", "debug"
	AddressSize   int      // 32 or 64

	Entries   []*Function // kernels, in source order
	Functions []*Function // device functions, with and without a body
	Variables []*Variable // module-scope variables

	symbols map[string]any // *Function or *Variable
	deps    map[*Function]*deps
}

// Entry returns the kernel of that name, or nil.
func (m *Module) Entry(name string) *Function {
	if f, ok := m.symbols[name].(*Function); ok && f.IsEntry {
		return f
	}
	return nil
}

// Function returns the kernel or device function of that name, or nil.
func (m *Module) Function(name string) *Function {
	f, _ := m.symbols[name].(*Function)
	return f
}

// Variable returns the module-scope variable of that name, or nil.
func (m *Module) Variable(name string) *Variable {
	v, _ := m.symbols[name].(*Variable)
	return v
}

// Param is a parameter or a return value of a function.
type Param struct {
	Name   string
	Type   Type   // element type
	Array  bool   // declared as an array: a struct passed by value
	Size   uint64 // bytes
	Align  uint64 // bytes
	Offset uint64 // bytes from the start of the parameter buffer

	Ptr      bool  // carries a .ptr attribute
	PtrSpace Space // where a .ptr points to; Generic when not said
	PtrAlign uint64

	Reg int // index into Function.Registers of a .reg parameter, -1 for .param
}

// Function is a kernel (.entry) or a device function (.func).
type Function struct {
	Name     string
	IsEntry  bool
	Linkage  Linkage
	Declared bool // a prototype without a body
	NoReturn bool
	Line     int

	Params     []Param
	Returns    []Param
	ParamBytes uint64 // size of the parameter buffer, without padding at its end

	ReqNTID      [3]uint32 // zero when not given; a given one has missing dimensions filled with 1
	MaxNTID      [3]uint32
	MinNCTAPerSM uint32
	MaxNReg      uint32
	ReqNCluster  [3]uint32 // blocks per cluster

	// SharedBytes is the static shared memory of an entry: its own and the memory of what it
	// calls and of the module-scope variables it names.
	SharedBytes uint64

	ParamVars  []*Variable // what the body calls the parameters; nil for .reg ones
	ReturnVars []*Variable

	Registers []Register
	Variables []*Variable // .shared, .local, .param, ... of the body
	Labels    []Label
	Tables    []Table // .branchtargets and .calltargets
	Protos    []Proto // .callprototype
	Body      []Instruction
}

// Register is a register of a function. A vector register is as many registers.
type Register struct {
	Name string
	Type Type
}

// Label is a place in a body: before Body[Pos], or its end.
type Label struct {
	Name string
	Pos  int
}

// Table is the operand list of .branchtargets or .calltargets.
type Table struct {
	Name    string
	Targets []Operand // OperandLabel or OperandFunc
}

// Proto is a .callprototype: the signature of an indirect call.
type Proto struct {
	Name    string
	Returns []Param
	Params  []Param
}

// Variable is a variable of any state space but .reg.
type Variable struct {
	Name    string
	Space   Space
	Linkage Linkage
	Type    Type
	Vector  int    // elements of a vector type, else 1
	Size    uint64 // bytes; 0 for the dynamic part of shared memory
	Align   uint64
	Array   bool
	Managed bool
	Line    int

	Init   []byte  // initial bytes; shorter than Size where the rest is zero
	Relocs []Reloc // addresses to be written over Init
}

// Dynamic reports that the variable is the dynamic part of shared memory, whose size
// the launch gives.
func (v *Variable) Dynamic() bool { return v.Space == Shared && v.Size == 0 }

// Reloc asks for (address(Target) + Addend) & Mask >> Shift in Size bytes at Offset.
type Reloc struct {
	Offset  uint64
	Size    int
	Var     *Variable // one of Var and Func is set
	Func    *Function
	Addend  int64
	Generic bool // the generic address rather than the one within the state space
	Mask    uint64
	Shift   uint
}

// Instruction is one instruction of a body.
type Instruction struct {
	Line     int
	Guard    int // register of the predicate, -1 without one
	GuardNot bool
	Op       string   // "mad"
	Mods     []string // "lo", "u32": what follows the dots
	Operands []Operand
}

// String returns the instruction's name with modifiers: "mad.lo.u32".
func (in *Instruction) String() string {
	s := in.Op
	for _, m := range in.Mods {
		s += "." + m
	}
	return s
}

// OperandKind says which fields of an Operand count.
type OperandKind uint8

// The operand kinds.
const (
	OperandNone    OperandKind = iota
	OperandReg                 // Reg + Bits, Not
	OperandInt                 // Bits: an integer constant, two's complement
	OperandF32                 // Bits: 0f...
	OperandF64                 // Bits: 0d... or a decimal fraction
	OperandSpecial             // Special, Dim
	OperandVar                 // Var + Bits: the address of a variable
	OperandFunc                // Func: the address of a function
	OperandLabel               // Index into Function.Labels
	OperandTable               // Index into Function.Tables
	OperandProto               // Index into Function.Protos
	OperandMem                 // [Elems[0] + Bits]; coordinates are further Elems
	OperandVector              // {Elems}
	OperandList                // (Elems) of a call
	OperandPair                // Elems[0] | Elems[1]
	OperandSink                // _
	OperandName                // Name: not resolved; never in a parsed module
)

// Operand is an operand of an instruction.
type Operand struct {
	Kind    OperandKind
	Not     bool // !p
	Neg     bool // -r, where an instruction allows it
	Dim     uint8
	Special Special
	Reg     int
	Index   int
	Bits    uint64
	Var     *Variable
	Func    *Function
	Name    string
	Elems   []Operand

	line, col int
}
