package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// indices are the methods of a thread that are a special register along x, y or z.
var indices = map[string]string{"Thread": "tid", "Block": "ctaid", "BlockDim": "ntid", "GridDim": "nctaid"}

// float32Ops are the functions of package gpu that are one instruction on float32.
var float32Ops = map[string]string{
	"FMA32": "fma.rn.f32", "Sqrt32": "sqrt.rn.f32", "Abs32": "abs.f32", "Floor32": "cvt.rmi.f32.f32", "Ceil32": "cvt.rpi.f32.f32",
	"Trunc32": "cvt.rzi.f32.f32", "RoundToEven32": "cvt.rni.f32.f32",
	"FastDiv32": "div.approx.f32", "FastSqrt32": "sqrt.approx.f32", "FastRsqrt32": "rsqrt.approx.f32", "FastRcp32": "rcp.approx.f32",
	"FastSin32": "sin.approx.f32", "FastCos32": "cos.approx.f32", "FastTanh32": "tanh.approx.f32", "FastExp2": "ex2.approx.ftz.f32", "FastLog2": "lg2.approx.f32",
}

// atomicOps are the atomics, by function.
var atomicOps = map[string]string{
	"AtomicAdd": "add", "AtomicMin": "min", "AtomicMax": "max", "AtomicAnd": "and", "AtomicOr": "or", "AtomicXor": "xor",
	"AtomicExchange": "exch", "AtomicCompareAndSwap": "cas", "AtomicInc": "inc", "AtomicDec": "dec",
	"AtomicAddHalf": "add.noftz", "AtomicCompareAndSwapPair": "cas",
}

var shuffles = map[string]string{"Shuffle": "idx", "ShuffleUp": "up", "ShuffleDown": "down", "ShuffleXor": "bfly"}

// special is a special register, as an int.
func (k *kctx) special(name string) val {
	v := k.pure("cvt.u64.u32", k64, k.pure("mov.u32", k32, "%"+name).r)
	if base, axis, ok := strings.Cut(name, "."); ok {
		v.hi = most[base][strings.Index("xyz", axis)]
		if n := k.src.Block[strings.Index("xyz", axis)]; base == "tid" && n > 0 {
			v.hi = uint64(max(1, n-1))
		}
	} else if name == "laneid" {
		v.hi = 31
	}
	return v
}

// most is the largest that a special register can be along x, y and z.
var most = map[string][3]uint64{
	"tid": {1023, 1023, 63}, "ntid": {1024, 1024, 64},
	"ctaid": {math.MaxInt32 - 1, math.MaxUint16 - 1, math.MaxUint16 - 1}, "nctaid": {math.MaxInt32, math.MaxUint16, math.MaxUint16},
}

// gpu is a call of package gpu. What is not here is compiled from its source.
func (k *kctx) gpu(f *frame, in *ssa.Call, o, fn *ssa.Function, a []val) (val, bool) {
	name := o.Name()
	if r := fn.Signature.Recv(); r != nil && isThread(r.Type()) {
		return k.method(name, a)
	} else if r != nil && named(r.Type()) == "TxBarrier" {
		return k.txBarrier(in, name, a), true
	} else if r != nil {
		return k.half(named(r.Type()), name, a)
	}
	if t, ok := strings.CutPrefix(name, "To"); ok && halfType[t] != "" {
		return k.half(t, name, a)
	}
	if op, ok := float32Ops[name]; ok {
		args := make([]string, len(a))
		for i := range a {
			args[i] = a[i].String()
		}
		return k.pure(op, kF32, args...), true
	}
	if v, ok := k.ofMemory(in, name, fn, a); ok {
		return v, true
	}
	if op, ok := atomicOps[name]; ok {
		if op != "cas" && name != "AtomicAddHalf" && sizes.Sizeof(fn.Signature.Results().At(0).Type()) == 2 {
			return val{}, false // a loop around that
		}
		return k.atomic(op, in, fn, a), true
	}
	if mode, ok := shuffles[name]; ok {
		for _, l := range scalars(fn.Signature.Params().At(1).Type(), 0, nil) {
			if l.k == kNone {
				k.fail(in.Pos(), "gpu.%s moves numbers and bools, and structs and arrays of them, not %s", name, fn.Signature.Params().At(1).Type())
			}
		}
		return k.shuffle(mode, a[1], k.low32(a[2], 31), "-1"), true
	}
	if v, ok := k.tensor(in, name, fn, a); ok {
		return v, true
	}
	switch name {
	case "Copysign32":
		return k.pure("copysign.f32", kF32, a[1].String(), a[0].String()), true
	case "FunnelShiftLeft", "FunnelShiftRight":
		return k.pure("shf."+strings.ToLower(name[len("FunnelShift"):][:1])+".wrap.b32", k32, a[1].String(), a[0].String(), k.low32(a[2], 31)), true
	case "BytePermute":
		return k.pure("prmt.b32", k32, a[0].String(), a[1].String(), a[2].String()), true
	case "MulHigh32":
		return k.mulHigh(a[0], a[1]), true
	case "LaneMaskBelow":
		return k.pure("mov.u32", k32, "%lanemask_lt"), true
	case "All", "Any":
		return k.vote(strings.ToLower(name)+".pred", kPred, a[1], "-1"), true
	case "Ballot":
		return k.vote("ballot.b32", k32, a[1], "-1"), true
	case "MatchAny":
		v, x, ty := k.reg(k32), k.register(a[1]), "b32"
		switch x.k {
		case kF32:
			x = k.pure("mov.b32", k32, x.r)
		case kF64:
			x, ty = k.pure("mov.b64", k64, x.r), "b64"
		case k64:
			ty = "b64"
		}
		k.emit("match.any.sync."+ty, []string{v.r}, x.r, "-1").side = true
		return v, true
	case "WarpBarrier":
		k.emit("bar.warp.sync", nil, "-1").side = true
		return val{}, true
	case "activeLanes", "groupBarrier", "groupBallot", "groupShuffle":
		return k.group(name, a), true
	case "Tile":
		if n := a[1]; !n.isC || n.c < 1 || n.c > 32 || n.c&(n.c-1) != 0 {
			k.fail(in.Pos(), "the number of lanes of gpu.Tile is a constant: 1, 2, 4, 8, 16 or 32")
		}
		return val{}, false
	case "Quads":
		return k.quads(a[0]), true
	case "View":
		return k.view(fn, a[0]), true
	case "Select":
		if a[0].isC {
			return a[2-int(a[0].c)], true
		}
		return k.choose(k.register(a[0]), a[1], a[2], in.Pos()), true
	case "Bits":
		return k.bitsOf(in, a[0], fn.Signature.Params().At(0).Type()), true
	case "FromBits":
		return k.fromBits(in, fn.Signature.Results().At(0).Type(), a[0]), true
	case "Dot4":
		ty := num(fn.Signature.Results().At(0).Type().Underlying().(*types.Basic))
		return k.pure("dp4a."+ty+"."+ty, k32, a[0].String(), a[1].String(), a[2].String()), true
	case "MinBlocksPerMultiprocessor":
		n := a[0]
		if !n.isC || int64(n.c) < 1 || n.c > 32 {
			k.fail(in.Pos(), "gpu.MinBlocksPerMultiprocessor takes a constant, 1 to 32: a multiprocessor has room for so many blocks")
		}
		k.funcs.blocks = max(k.funcs.blocks, int(n.c))
		return val{}, true
	case "Prefetch":
		if x := k.notNil(a[0], in.Pos()); x.p.sp == spGlobal {
			k.emit("prefetch.global.L2", nil, k.memOperand(x.p)).side = true
		}
		return val{}, true
	case "GridBarrier":
		k.funcs.grid = true
		return val{}, false
	case "Shared":
		return k.sharedVar(f, in, elem(fn.Signature.Results().At(0).Type())), true
	case "DynamicShared":
		return k.dynamicShared(fn.Signature.Results().At(0).Type().Underlying().(*types.Slice).Elem()), true
	}
	switch name {
	case "Active", "GroupShuffle", "GroupReduce", "ReduceAdd", "ReduceMin", "ReduceMax", "FastExp32", "FastLog32", "Float16FromBits", "BFloat16FromBits", "odd32", "fmaOdd", "sumOdd",
		"ToFloat8E4M3", "ToFloat8E5M2", "toFloat8", "Float8E4M3FromBits", "Float8E5M2FromBits", "ToTF32", "LoadA", "LoadB", "within", "ToHalf", "ToFloat", "Float32", "PackHalves", "NewPipeline", "packFloat16", "packBFloat16", "update":
		return val{}, false // their source says what they do
	}
	if fn.Parent() != nil { // of a function of which this is true
		return val{}, false
	}
	k.fail(in.Pos(), "a kernel cannot call gpu.%s", name)
	return val{}, false
}

// method is a method of the thread.
func (k *kctx) method(name string, a []val) (val, bool) {
	switch name {
	case "Clock", "GlobalTimer":
		v := k.reg(k64)
		k.emit("mov.u64", []string{v.r}, map[string]string{"Clock": "%clock64", "GlobalTimer": "%globaltimer"}[name]).side = true
		return v, true
	case "Multiprocessor":
		return k.special("smid"), true
	case "Nanosleep":
		k.emit("nanosleep.u32", nil, a[1].String()).side = true
		k.endWithOthers()
		return val{}, true
	case "Barrier":
		k.barrier()
		return val{}, true
	case "Lane":
		return k.special("laneid"), true
	case "Warp":
		t := types.Typ[types.Int]
		return k.bin(token.SHR, t, t, k.rank(), cst(k64, 5), token.NoPos), true
	case "Rank":
		return k.rank(), true
	}
	axis := strings.IndexByte("XYZ", name[len(name)-1])
	d, base := "."+string("xyz"[axis]), name[:len(name)-1]
	if base == "BlockDim" && k.src.Block[0] > 0 {
		return cst(k64, uint64(k.src.Block[axis])), true
	}
	if r, ok := indices[base]; ok {
		return k.special(r + d), true
	}
	r32 := func(r string) string {
		if r == "ntid" && k.src.Block[0] > 0 {
			return fmt.Sprint(k.src.Block[axis])
		}
		return k.pure("mov.u32", k32, "%"+r+d).r
	}
	product := func(r string) val {
		v := k.pure("mul.wide.u32", k64, r32(r), r32("ntid"))
		v.hi = most[r][axis] * most["ntid"][axis]
		return v
	}
	if base == "GlobalDim" {
		return product("nctaid"), true
	}
	if axis > 0 { // these fit 32 bits
		v := k.pure("cvt.u64.u32", k64, k.pure("mad.lo.u32", k32, r32("ctaid"), r32("ntid"), r32("tid")).r)
		v.hi = most["ctaid"][axis]*most["ntid"][axis] + most["tid"][axis]
		return v, true
	}
	t := types.Typ[types.Int]
	v := k.bin(token.ADD, t, t, product("ctaid"), k.special("tid"+d), token.NoPos)
	v.sum = nil // nobody adds up its parts in another way
	return v, true
}

// named is the name of the type of a receiver.
func named(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.(*types.Named).Obj().Name()
}

// halfType is the type in PTX.
var halfType = map[string]string{"Float16": "f16", "BFloat16": "bf16", "Float16x2": "f16x2", "BFloat16x2": "bf16x2"}

// half is a function or method of Float16, BFloat16 or two of them that the target has an instruction for. All others are compiled
// from their source, which gives the same bits.
func (k *kctx) half(of, name string, a []val) (val, bool) {
	t, brain := halfType[of], of[0] == 'B'
	kd, packed := kHalf, strings.HasSuffix(of, "x2")
	if packed {
		kd = k32
	}
	reg := func(v val) string {
		if packed {
			return k.register(v.e[0]).r
		}
		return k.pure("cvt.u16.u32", kHalf, k.register(v.e[0]).r).r
	}
	result := func(v val) (val, bool) {
		if !packed {
			v = k.pure("cvt.u32.u16", k32, v.r)
		}
		return val{k: kAgg, e: []val{v}}, true
	}
	op := strings.ToLower(name)
	switch {
	case k.o.Arch < 80 && (brain || packed && name == "To"+of):
	case name == "To"+of && packed:
		return result(k.pure("cvt.rn."+t+".f32", kd, k.register(a[1]).r, k.register(a[0]).r))
	case name == "To"+of:
		return result(k.pure("cvt.rn."+t+".f32", kd, k.register(a[0]).r))
	case name == "Float32" && of == "Float16":
		return k.pure("cvt.f32.f16", kF32, reg(a[0])), true
	case name == "FMA":
		return result(k.pure("fma.rn."+t, kd, reg(a[0]), reg(a[1]), reg(a[2])))
	case (!brain || k.o.Arch >= 90) && (name == "Add" || name == "Sub" || name == "Mul"):
		return result(k.pure(op+".rn."+t, kd, reg(a[0]), reg(a[1])))
	}
	return val{}, false
}

// rank is the number of the thread in its block, below 1024.
func (k *kctx) rank() val {
	r := func(n string) string { return k.pure("mov.u32", k32, "%"+n).r }
	yz := k.pure("mad.lo.u32", k32, r("tid.z"), r("ntid.y"), r("tid.y"))
	v := k.pure("cvt.u64.u32", k64, k.pure("mad.lo.u32", k32, yz.r, r("ntid.x"), r("tid.x")).r)
	v.hi = 1023
	if b := k.src.Block; b[0] > 0 {
		v.hi = uint64(max(1, b[0]*b[1]*b[2]-1))
	}
	return v
}

// shuffle moves a value between lanes; 64 bits are two of 32, and a struct is its fields.
func (k *kctx) shuffle(mode string, x val, lane, lanes string) val {
	if x.k == kAgg {
		v := val{k: kAgg}
		for _, e := range x.e {
			v.e = append(v.e, k.shuffle(mode, e, lane, lanes))
		}
		return v
	}
	x = k.register(x)
	bound := "31"
	if mode == "up" {
		bound = "0"
	}
	one := func(r string, kd kind) val {
		v := k.reg(kd)
		k.emit("shfl.sync."+mode+".b32", []string{v.r}, r, lane, bound, lanes).side = true
		return v
	}
	switch x.k {
	case k32, kF32:
		return one(x.r, x.k)
	case kPred:
		return k.pure("setp.ne.u32", kPred, one(k.pure("selp.b32", k32, "1", "0", x.r).r, k32).r, "0")
	}
	lo, hi := k.reg(k32), k.reg(k32)
	k.emit("mov.b64", []string{lo.r, hi.r}, x.r)
	l, h := one(lo.r, k32), one(hi.r, k32)
	v := k.reg(x.k)
	k.emit("mov.b64", []string{v.r}, "{"+l.r+", "+h.r+"}")
	return v
}

// vote is what lanes say to a question. See idleVotes for one whose answer is no.
func (k *kctx) vote(op string, result kind, p val, lanes string) val {
	if p.isC && p.c == 0 {
		k.emit("bar.warp.sync", nil, lanes).side = true
		return val{k: result, isC: true}
	}
	v := k.reg(result)
	k.emit("vote.sync."+op, []string{v.r}, k.register(p).r, lanes).side = true
	return v
}

// group is what a group of lanes does by one instruction. Its lanes are a mask; a tile of 32 has all of them.
func (k *kctx) group(name string, a []val) val {
	v := k.reg(k32)
	switch name {
	case "activeLanes":
		k.emit("activemask.b32", []string{v.r}).side = true
	case "groupBarrier":
		k.emit("bar.warp.sync", nil, a[1].String()).side = true
	case "groupBallot":
		return k.vote("ballot.b32", k32, a[2], a[1].String())
	case "groupShuffle":
		return k.shuffle("idx", a[2], k.low32(a[3], 31), a[1].String())
	}
	return v
}

// atomic changes memory in one step. Where nobody wants what was there before, it is a reduction.
func (k *kctx) atomic(op string, in *ssa.Call, fn *ssa.Function, a []val) val {
	p := a[0].p
	if p == nil {
		k.fail(in.Pos(), "the address of an atomic is not known here")
	}
	k.writes(p)
	k.seenByOthers(in, a[0], "an atomic")
	t, ok := fn.Signature.Results().At(0).Type().Underlying().(*types.Basic)
	if !ok || sizes.Sizeof(t) == 2 {
		return k.otherAtomic(op, in, fn, a)
	}
	ty := num(t)
	switch op {
	case "add":
		if ty == "s64" {
			ty = "u64" // the same sum; PTX has no other
		}
	case "and", "or", "xor", "exch", "cas":
		ty = fmt.Sprint("b", sizes.Sizeof(t)*8)
	}
	args := []string{k.memOperand(p)}
	for _, v := range a[1:] {
		v = k.register(v)
		if ty[0] == 'b' && isFloat(v.k) {
			v = k.pure("mov."+ty, map[kind]kind{kF32: k32, kF64: k64}[v.k], v.r)
		}
		args = append(args, v.r)
	}
	if len(*in.Referrers()) == 0 && op != "exch" && op != "cas" {
		k.emit("red"+spaceName[p.sp]+"."+op+"."+ty, nil, args...).side = true
		return val{}
	}
	kd := kindOf(t)
	v := k.reg(kd)
	if ty[0] == 'b' && isFloat(kd) {
		w := k.reg(map[kind]kind{kF32: k32, kF64: k64}[kd])
		k.emit("atom"+spaceName[p.sp]+"."+op+"."+ty, []string{w.r}, args...).side = true
		k.emit("mov."+ty, []string{v.r}, w.r)
		return v
	}
	k.emit("atom"+spaceName[p.sp]+"."+op+"."+ty, []string{v.r}, args...).side = true
	return v
}

// otherAtomic is an atomic on 16 bits, or on 16 bytes.
func (k *kctx) otherAtomic(op string, in *ssa.Call, fn *ssa.Function, a []val) val {
	t := fn.Signature.Results().At(0).Type()
	half, pair := "", sizes.Sizeof(t) == 16
	if n, ok := t.(*types.Named); ok {
		half = halfType[n.Obj().Name()]
	}
	if k.o.Arch < 90 && (pair || half == "bf16") {
		k.fail(in.Pos(), "gpu.%s of %s needs sm_90, and the target is sm_%d: write gpuc -arch sm_90", in.Call.StaticCallee().Name(), t, k.o.Arch)
	}
	ty, kd := "b16", kHalf
	switch {
	case pair && !a[0].p.aligned(16):
		k.fail(in.Pos(), "gpu.%s works on an element of a slice of gpu.Uint64x2", fn.Name())
	case pair:
		ty, kd, k.funcs.version = "b128", kPair, max(k.funcs.version, "8.3")
	case half != "":
		ty = half
	}
	args := []string{k.memOperand(a[0].p)}
	for _, v := range a[1:] {
		r := k.reg(kd)
		switch {
		case pair:
			k.emit("mov.b128", []string{r.r}, "{"+k.register(v.e[0]).r+", "+k.register(v.e[1]).r+"}")
		case half != "":
			k.emit("cvt.u16.u32", []string{r.r}, k.register(v.e[0]).r)
		default:
			k.emit("cvt.u16.u32", []string{r.r}, k.register(v).r)
		}
		args = append(args, r.r)
	}
	v := k.reg(kd)
	k.emit("atom"+spaceName[a[0].p.sp]+"."+op+"."+ty, []string{v.r}, args...).side = true
	if pair {
		x, y := k.reg(k64), k.reg(k64)
		k.emit("mov.b128", []string{x.r, y.r}, v.r)
		return val{k: kAgg, e: []val{x, y}}
	}
	w := k.pure("cvt.u32.u16", k32, v.r)
	if half != "" {
		return val{k: kAgg, e: []val{w}}
	}
	return k.narrow(t.Underlying().(*types.Basic), w)
}

// maxShared is how much shared memory a kernel can declare. What is above it, a launch has to ask for.
const maxShared = 48 << 10

// sharedVar is a variable in shared memory: one for each call in the source, by the calls that lead to it.
func (k *kctx) sharedVar(f *frame, in *ssa.Call, t types.Type) val {
	for _, l := range scalars(t, 0, nil) {
		if l.k == kNone {
			k.fail(in.Pos(), "shared memory cannot hold %s: numbers, bools, and arrays and structs of them", t)
		}
	}
	key := f.path + "/" + in.Name() + "@" + f.fn.Name()
	if k.callee != nil {
		k.fail(in.Pos(), "gpu.Shared is called in %s, which is not inlined: call it in the kernel, and give the pointer", called(k.callee.fn))
	}
	shared := func(name string) val { return val{k: kPtr, p: &ptr{sp: spShared, base: name, align: 16}} }
	if n, ok := k.shared[key]; ok { // in another copy of a loop
		return shared(n)
	}
	if k.sharedSize = (k.sharedSize + 15) &^ 15; k.sharedSize+sizes.Sizeof(t) > maxShared && k.src.Of != nil && ofLibrary(f.fn) {
		k.tooLarge = in.Pos() // how much is too much is known at the end
	} else if k.sharedSize+sizes.Sizeof(t) > maxShared {
		k.fail(in.Pos(), "with this %s, the kernel has %d bytes of gpu.Shared; at most %d: take gpu.DynamicShared, whose size the launch gives", t, k.sharedSize+sizes.Sizeof(t), maxShared)
	}
	k.sharedSize += max(1, sizes.Sizeof(t))
	k.sharedTypes = append(k.sharedTypes, t)
	n := fmt.Sprintf("shared_%s_%d", k.name, len(k.shared))
	k.shared[key] = n
	k.decls = append(k.decls, fmt.Sprintf(".shared .align 16 .b8 %s[%d];", n, max(1, sizes.Sizeof(t))))
	return shared(n)
}

// rejectTooLarge rejects types that are too large for what a kernel of a library keeps of them in shared memory.
func (k *kctx) rejectTooLarge() {
	var of types.Type
	var count, most int64
	for a := range k.src.Of.Type.TypeArgs().Types() {
		n := int64(0)
		for _, t := range k.sharedTypes {
			n += countOf(t, a)
		}
		if size := sizes.Sizeof(a); n*size > count*most {
			of, count, most = a, n, size
		}
	}
	if of == nil {
		k.fail(k.tooLarge, "the kernel has %d bytes of gpu.Shared; at most %d", k.sharedSize, maxShared)
	}
	limit := (maxShared - k.sharedSize + count*most) / count
	k.fail(k.tooLarge, "%s has %d bytes, and a block has room for at most %d each: take a smaller type, such as the index of one", of, most, limit/sizes.Alignof(of)*sizes.Alignof(of))
}

// countOf is how many values of another type a type has.
func countOf(t, of types.Type) (n int64) {
	if types.Identical(t, of) {
		return 1
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return u.Len() * countOf(u.Elem(), of)
	case *types.Struct:
		for f := range u.Fields() {
			n += countOf(f.Type(), of)
		}
	}
	return n
}

// dynamicShared is the dynamic shared memory as a slice.
func (k *kctx) dynamicShared(t types.Type) val {
	align := int64(16)
	if k.o.Only { // tiles lie at multiples of it
		align = 1024
	}
	k.declareOnce(fmt.Sprintf(".extern .shared .align %d .b8 dynamic_shared[];", align))
	n := k.special("dynamic_smem_size")
	if size := sizes.Sizeof(t); size > 1 {
		n = k.pure("div.u64", k64, n.r, fmt.Sprint(size))
	}
	return val{k: kAgg, e: []val{{k: kPtr, p: &ptr{sp: spShared, base: "dynamic_shared", align: align}}, n}}
}

// mulHigh is the upper half of a product. Of mul.hi.u32, ptxas of driver 580 takes a 0 off in 64 bits and gets a borrow.
func (k *kctx) mulHigh(x, y val) val {
	wide := k.pure("shr.u64", k64, k.pure("mul.wide.u32", k64, x.String(), y.String()).r, "32")
	v := k.pure("cvt.u32.u64", k32, wide.r)
	wide.n32, wide.hi = v.r, math.MaxUint32
	k.cur.m["cvt.u64.u32 "+v.r] = wide // where it is widened again
	return v
}
