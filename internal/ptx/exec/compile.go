package exec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Device functions are compiled once for each kernel that reaches them, so that a small source may
// have a large program. All kernels together have a budget, which is counted in instructions. It is
// freeCode for every module, perCode for each instruction of the source, and maxCode at most, or
// what it takes to compile every function twice.
const (
	freeCode = 1 << 16
	perCode  = 32
	maxCode  = 1 << 20

	functionCost = 16 // of compiling a function, however short
	constantCost = 2  // of a constant of a kernel, which has room for each lane
)

func budgetOf(m *ptx.Module) int {
	source, once := 0, 0
	for _, list := range [][]*ptx.Function{m.Entries, m.Functions} {
		for _, f := range list {
			source += len(f.Body)
			once += len(f.Body)*(1+constantCost) + functionCost + len(f.Registers)/4
		}
	}
	return max(min(freeCode+perCode*source, maxCode), 2*once)
}

// spend takes something off the budget.
func (c *compiler) spend(cost int, f *ptx.Function) error {
	if *c.budget -= cost; *c.budget >= 0 {
		return nil
	}
	return &UnsupportedError{Line: f.Line, Kernel: c.entry.Name, Instruction: f.Name, Reason: "the kernels of the module are too large together"}
}

// Compile translates the kernels of a module. The program does not have those that do not run
// here, and unknown says why. The error is an *UnsupportedError or an *InvalidError.
func Compile(m *ptx.Module) (p *Program, unknown []*UnsupportedError, err error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, nil, errors.New("exec: the interpreter needs a little-endian host")
	}
	if m.AddressSize != 64 {
		return nil, nil, &UnsupportedError{Line: 1, Instruction: ".address_size 32", Reason: "only 64-bit addresses"}
	}
	p = &Program{Module: m, index: map[*ptx.Variable]int{}, entries: map[string]*Kernel{}, address: map[*ptx.Function]uint64{}}
	p.collectGlobals()
	budget := budgetOf(m)
	for _, f := range m.Functions {
		if !f.Declared {
			p.funcs = append(p.funcs, f)
			p.address[f] = CodeWindow + 16*uint64(len(p.funcs))
		}
	}
	for _, e := range m.Entries {
		if e.Declared {
			continue
		}
		c := &compiler{prog: p, m: m, entry: e, consts: map[uint64]int32{}, budget: &budget}
		k, err := c.kernel()
		if u, ok := errors.AsType[*UnsupportedError](err); ok {
			unknown = append(unknown, u)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		p.entries[e.Name] = k
	}
	return p, unknown, nil
}

func (p *Program) collectGlobals() {
	add := func(prefix string, v *ptx.Variable) {
		if v.Space != ptx.Global && v.Space != ptx.Const {
			return
		}
		p.index[v] = len(p.globals)
		p.globals = append(p.globals, Global{
			Name: prefix + v.Name, Const: v.Space == ptx.Const, External: v.Linkage == ptx.Extern,
			Managed: v.Managed, Size: v.Size, Align: max(v.Align, 1), v: v,
		})
	}
	for _, v := range p.Module.Variables {
		add("", v)
	}
	for _, list := range [][]*ptx.Function{p.Module.Entries, p.Module.Functions} {
		for _, f := range list {
			for _, v := range f.Variables {
				add(f.Name+".", v)
			}
		}
	}
}

// compiler makes one kernel, with the functions it reaches, into one piece of code.
type compiler struct {
	prog   *Program
	m      *ptx.Module
	entry  *ptx.Function
	layout *ptx.SharedLayout
	budget *int

	code      []inst
	consts    map[uint64]int32 // value -> number
	values    []uint64
	relocs    []constReloc
	relocSlot map[constReloc]int32
	fns       map[*ptx.Function]*function
	queue     []*ptx.Function
	calls     map[*function][]*function
	indirect  map[*function]bool
}

func (c *compiler) kernel() (*Kernel, error) {
	if r := c.entry.ReqNCluster; r[0]*r[1]*r[2] > 1 {
		return nil, &UnsupportedError{Line: c.entry.Line, Kernel: c.entry.Name, Instruction: ".reqnctapercluster", Reason: "clusters of several blocks"}
	}
	c.layout = c.m.Shared(c.entry)
	c.fns = map[*ptx.Function]*function{}
	c.calls = map[*function][]*function{}
	c.indirect = map[*function]bool{}
	c.relocSlot = map[constReloc]int32{}
	c.constant(0) // noSlot
	fn := c.function(c.entry)
	anyIndirect := false
	for len(c.queue) > 0 {
		f := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.compileFunction(f); err != nil {
			return nil, err
		}
		if !anyIndirect && len(c.indirect) > 0 {
			// A call through a register may reach any function of the module.
			anyIndirect = true
			for _, g := range c.prog.funcs {
				c.function(g)
			}
		}
	}
	kc := &kernelCode{
		name: c.entry.Name, code: c.code, fn: fn, relocs: c.relocs,
		params: c.entry.Params, paramBytes: c.entry.ParamBytes,
		sharedBase: c.layout.DynamicBase, shared: c.layout.Static,
		reqNTID: c.entry.ReqNTID, maxNTID: c.entry.MaxNTID,
		funcs: map[uint64]*function{},
	}
	for f, g := range c.fns {
		if a := c.prog.functionAddress(f); a != 0 {
			kc.funcs[a] = g
		}
	}
	kc.localBytes, kc.recursive = c.stackDepth(fn)
	k := &Kernel{kernelCode: kc, consts: make([]lanes, len(c.values))}
	for i, v := range c.values {
		for j := range k.consts[i] {
			k.consts[i][j] = v
		}
	}
	return k, nil
}

// function returns the function that f becomes and sees to it that it is compiled.
func (c *compiler) function(f *ptx.Function) *function {
	if fn := c.fns[f]; fn != nil {
		return fn
	}
	fn := &function{name: f.Name, kernel: f.IsEntry}
	c.fns[f] = fn
	c.queue = append(c.queue, f)
	return fn
}

// stackDepth sums up the frames of the deepest chain of calls. Chains that are not
// bounded, because of recursion or calls through registers, get a stack whose size the
// launch gives.
func (c *compiler) stackDepth(root *function) (bytes uint64, recursive bool) {
	const busy = ^uint64(0)
	depth := map[*function]uint64{}
	var walk func(fn *function) uint64
	walk = func(fn *function) uint64 {
		if d, ok := depth[fn]; ok {
			if d == busy {
				recursive = true
				return 0
			}
			return d
		}
		depth[fn] = busy
		recursive = recursive || c.indirect[fn]
		var most uint64
		for _, g := range c.calls[fn] {
			most = max(most, walk(g))
		}
		depth[fn] = uint64(fn.local) + most
		return depth[fn]
	}
	bytes = walk(root)
	return bytes, recursive
}

// constant returns the slot of a constant.
func (c *compiler) constant(v uint64) int32 {
	n, ok := c.consts[v]
	if !ok {
		n = int32(len(c.values))
		c.consts[v] = n
		c.values = append(c.values, v)
	}
	return ^n
}

// address returns the slot of a constant that Link fills in.
func (c *compiler) address(global int, addend uint64) int32 {
	key := constReloc{global: global, addend: addend}
	if s, ok := c.relocSlot[key]; ok {
		return s
	}
	n := int32(len(c.values))
	c.values = append(c.values, 0)
	r := key
	r.slot = n
	c.relocs = append(c.relocs, r)
	c.relocSlot[key] = ^n
	return ^n
}

// fnc compiles one function.
type fnc struct {
	*compiler
	f    *ptx.Function
	fn   *function
	code []inst

	regs  []int32 // virtual register of a PTX register, -1 before its first use
	high  []int32 // upper half of a 128-bit register
	preds []int32
	nv    int32 // virtual registers
	np    int32
	local map[*ptx.Variable]uint32

	labelAt []int32 // index into code
	in      *ptx.Instruction
	guard   int32
	guardX  uint32
}

func (c *compiler) compileFunction(f *ptx.Function) (err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case *InvalidError:
			err = why
		case *UnsupportedError:
			err = why
		default:
			panic(why)
		}
	}()
	fn := c.fns[f]
	if f.Declared {
		return &UnsupportedError{Line: f.Line, Kernel: c.entry.Name, Instruction: "call " + f.Name,
			Reason: "the function has no body in this module"}
	}
	constants := len(c.values)
	if err := c.spend(functionCost+len(f.Registers)/4, f); err != nil {
		return err
	}
	x := &fnc{compiler: c, f: f, fn: fn, np: 1, code: make([]inst, 0, len(f.Body)+1), local: map[*ptx.Variable]uint32{}}
	n := len(f.Registers)
	x.regs, x.high, x.preds = make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range n {
		x.regs[i], x.high[i] = -1, -1
	}
	x.labelAt = make([]int32, len(f.Labels))
	x.layoutFrame()
	byPos := make([]int, len(f.Labels))
	for i := range byPos {
		byPos[i] = i
	}
	sort.SliceStable(byPos, func(a, b int) bool { return f.Labels[byPos[a]].Pos < f.Labels[byPos[b]].Pos })
	next := 0
	for i := range f.Body {
		for ; next < len(byPos) && f.Labels[byPos[next]].Pos <= i; next++ {
			x.labelAt[byPos[next]] = int32(len(x.code))
		}
		if err := x.instruction(&f.Body[i]); err != nil {
			return err
		}
		if len(x.code) > *c.budget {
			return &UnsupportedError{Line: f.Body[i].Line, Kernel: c.entry.Name, Instruction: f.Body[i].String(), Reason: "the module is too large"}
		}
	}
	for ; next < len(byPos); next++ {
		x.labelAt[byPos[next]] = int32(len(x.code))
	}
	if err := c.spend(len(x.code)+constantCost*(len(c.values)-constants), f); err != nil {
		return err
	}
	// Control that runs off the end leaves the function, as with ptxas.
	x.in = &ptx.Instruction{Op: "ret", Line: f.Line, Guard: -1}
	x.guard, x.guardX = 0, 0
	ret := blank(kRet)
	ret.vs = x.returnSlots()
	x.emit(ret)
	x.finish()
	return nil
}

// layoutFrame places the .local and .param variables of the function in local memory.
func (x *fnc) layoutFrame() {
	off, own := uint64(0), uint64(0)
	place := func(v *ptx.Variable) {
		a := max(v.Align, 1)
		off = (off + a - 1) &^ (a - 1)
		x.local[v] = uint32(off)
		if off += v.Size; off > 1<<30 {
			off = 1 << 30 // a launch refuses it
		}
	}
	if !x.f.IsEntry {
		x.fn.params = x.formals(x.f.Params, x.f.ParamVars, place)
		x.fn.returns = x.formals(x.f.Returns, x.f.ReturnVars, place)
		own = 16 // the address to return to, and a register that is kept: ptxas 12.4 takes no less
	}
	for _, v := range x.f.Variables {
		if v.Space == ptx.Local || v.Space == ptx.ParamSpace {
			place(v)
		}
		if v.Space == ptx.Local {
			own = min(own+v.Size, 1<<30)
		}
	}
	x.fn.local, x.fn.stack = uint32((off+15)&^15), uint32(own)
}

func (x *fnc) formals(list []ptx.Param, vars []*ptx.Variable, place func(*ptx.Variable)) []formal {
	out := make([]formal, len(list))
	for i := range list {
		out[i] = formal{slot: noSlot, slotHi: noSlot}
		switch {
		case list[i].Reg >= 0 && list[i].Type == ptx.Pred:
			out[i].pred = x.predOf(list[i].Reg)
		case list[i].Reg >= 0:
			out[i].slot, out[i].slotHi = x.vreg(list[i].Reg), x.high[list[i].Reg]
		case i < len(vars) && vars[i] != nil:
			place(vars[i])
			out[i].offset, out[i].size = x.local[vars[i]], uint32(min(vars[i].Size, 1<<30))
		}
	}
	return out
}

// returnSlots are the registers that a return reads.
func (x *fnc) returnSlots() (s []int32) {
	for i := range x.fn.returns {
		if f := &x.fn.returns[i]; f.slot >= 0 {
			s = append(s, f.slot)
			if f.slotHi >= 0 {
				s = append(s, f.slotHi)
			}
		}
	}
	return s
}

// newReg makes a virtual register.
func (x *fnc) newReg() int32 {
	x.nv++
	return x.nv - 1
}

// vreg returns the virtual register of a PTX register.
func (x *fnc) vreg(r int) int32 {
	if x.regs[r] < 0 {
		x.regs[r] = x.newReg()
		if x.f.Registers[r].Type == ptx.B128 {
			x.high[r] = x.newReg()
		}
	}
	return x.regs[r]
}

func (x *fnc) predOf(r int) int32 {
	if x.preds[r] == 0 {
		x.preds[r] = x.np
		x.np++
	}
	return x.preds[r]
}

// emit appends an instruction with the guard and line of the current one.
func (x *fnc) emit(in inst) *inst {
	in.guard, in.guardX = x.guard, x.guardX
	in.line = int32(x.in.Line)
	x.code = append(x.code, in)
	return &x.code[len(x.code)-1]
}

func (x *fnc) unsupported(reason string) error {
	return &UnsupportedError{Line: x.in.Line, Kernel: x.entry.Name, Instruction: x.in.String(), Reason: reason}
}

func (x *fnc) invalid(format string, args ...any) error {
	return &InvalidError{Line: x.in.Line, Kernel: x.entry.Name, Instruction: x.in.String(), Msg: fmt.Sprintf(format, args...)}
}

// instruction decodes one PTX instruction.
func (x *fnc) instruction(in *ptx.Instruction) error {
	x.in = in
	x.guard, x.guardX = 0, 0
	if in.Guard >= 0 {
		x.guard = x.predOf(in.Guard)
		if in.GuardNot {
			x.guardX = full
		}
	}
	decode, ok := decoders[in.Op]
	if !ok {
		return x.unsupported("")
	}
	m := mods{list: in.Mods}
	if err := decode(x, in, &m); err != nil {
		return err
	}
	if name, ok := m.left(); ok {
		return x.unsupported("modifier ." + name)
	}
	return nil
}
