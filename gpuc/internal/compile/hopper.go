package compile

import (
	"fmt"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// needsTarget rejects a target that lacks what one alone has.
func (k *kctx) needsTarget(in *ssa.Call, what string, t Target) {
	if !k.o.target().Has(t) {
		k.fail(in.Pos(), "%s needs %v, and this is compiled for %v: give gpuc -arch %v", what, t, k.o.target(), t)
	}
}

// literal is the text of a number that has to be constant.
func (k *kctx) literal(in *ssa.Call, name string, v val, least, most int64) string {
	if n := int64(v.c); !v.isC || n < least || n > most {
		k.fail(in.Pos(), "the number that gpu.%s takes is a constant, %d to %d", name, least, most)
	}
	return fmt.Sprint(v.c)
}

// txBarrier is a method of a TxBarrier: its address, the thread, and a number.
func (k *kctx) txBarrier(in *ssa.Call, name string, a []val) val {
	k.needsTarget(in, "gpu.TxBarrier", Target{Arch: 90})
	k.funcs.version = max(k.funcs.version, "8.0")
	v := k.notNil(a[0], in.Pos())
	if v.p == nil || v.p.sp != spShared {
		k.fail(in.Pos(), "a gpu.TxBarrier lies in shared memory")
	}
	at := k.memOperand(v.p)
	do := func(op string, args ...string) { k.emit(op, nil, args...).side = true }
	switch name {
	case "Init":
		do("mbarrier.init.shared::cta.b64", at, k.low32(a[2], 1<<20-1))
	case "Arrive":
		do("mbarrier.arrive.shared::cta.b64", "_", at)
	case "Expect":
		do("mbarrier.arrive.expect_tx.shared::cta.b64", "_", at, k.low32(a[2], 1<<22-1))
	case "Wait":
		l, p, parity := k.label(), k.reg(kPred), k.register(a[2]).r
		k.out = append(k.out, ins{label: l})
		k.emit("mbarrier.try_wait.parity.shared::cta.b64", []string{p.r}, at, parity).side = true
		k.out = append(k.out, ins{op: "bra", text: l, target: l, side: true, guard: p.r, guardNot: true})
	default:
		k.fail(in.Pos(), "a kernel cannot call gpu.TxBarrier.%s", name)
	}
	return val{}
}

// sharedTile is the first row of a tile in shared memory.
func (k *kctx) sharedTile(in *ssa.Call, name string, v val) *ptr {
	if len(v.e) != 2 || v.e[0].p == nil || v.e[0].p.sp != spShared {
		k.fail(in.Pos(), "gpu.%s takes a tile in shared memory", name)
	}
	return v.e[0].p
}

// only90 are the functions that sm_90a has, and the first target of each.
var only90 = map[string]Target{
	"FenceTxBarriers": {Arch: 90}, "CopyTile": {Arch: 90}, "StoreTile": {Arch: 90}, "StoreWait": {Arch: 90}, "FenceShared": {Arch: 90}, "StoreMatrix": {Arch: 90}, "FragmentOf": {Arch: 90},
	"WGMMA": {90, true}, "WGMMATurned": {90, true}, "WGMMARows": {90, true}, "WGMMAFence": {90, true}, "WGMMACommit": {90, true}, "WGMMAWait": {90, true},
	"MoreRegisters": {90, true}, "FewerRegisters": {90, true},
}

// hopper is a function that came with compute capability 9.0.
func (k *kctx) hopper(in *ssa.Call, name string, fn *ssa.Function, a []val) (val, bool) {
	t, ok := only90[name]
	if !ok {
		return val{}, false
	}
	k.needsTarget(in, "gpu."+name, t)
	k.funcs.version = max(k.funcs.version, "8.0")
	do := func(op string, args ...string) { k.emit(op, nil, args...).side = true }
	tensor := func(m, x, y, z val) string {
		return fmt.Sprintf("[%s, {%s, %s, %s}]", m.r, k.low32(x, 1<<32-1), k.low32(y, 1<<32-1), k.low32(z, 1<<32-1))
	}
	switch name {
	case "FenceTxBarriers":
		do("fence.mbarrier_init.release.cluster")
		do("fence.proxy.async.shared::cta")
	case "FenceShared":
		do("fence.proxy.async.shared::cta")
	case "CopyTile":
		bar := k.notNil(a[6], in.Pos())
		do("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes", k.memOperand(k.sharedTile(in, name, a[1])), tensor(a[2], a[3], a[4], a[5]), k.memOperand(bar.p))
	case "StoreTile":
		k.written[a[1].param] = true // without a name, all are
		do("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group", tensor(a[1], a[2], a[3], a[4]), k.memOperand(k.sharedTile(in, name, a[5])))
		do("cp.async.bulk.commit_group")
	case "StoreWait":
		do("cp.async.bulk.wait_group.read", k.literal(in, name, a[1], 0, 63))
	case "StoreMatrix":
		words := k.rounded(in, name, fn, a[2], a[3])
		do("stmatrix.sync.aligned.m8n8.x4.shared.b16", k.memOperand(k.in(in, name, a[1], spShared)), k.braces(words))
	case "FragmentOf":
		return val{k: kAgg, e: []val{{k: kAgg, e: k.rounded(in, name, fn, a[0], a[1])}}}, true
	case "WGMMA", "WGMMATurned", "WGMMARows":
		k.wgmma(in, name, fn, a)
	case "WGMMAFence":
		do("wgmma.fence.sync.aligned")
	case "WGMMACommit":
		do("wgmma.commit_group.sync.aligned")
	case "WGMMAWait":
		do("wgmma.wait_group.sync.aligned", k.literal(in, name, a[1], 0, 7))
	case "MoreRegisters", "FewerRegisters":
		if k.src.Registers == 0 {
			k.fail(in.Pos(), "gpu.%s needs registers=N in the kernel's directive, so that the block's registers are known", name)
		}
		op := map[string]string{"MoreRegisters": "inc", "FewerRegisters": "dec"}[name]
		n := k.literal(in, name, a[1], 24, 256)
		if a[1].c%8 != 0 {
			k.fail(in.Pos(), "gpu.%s: %s registers are no multiple of 8", name, n)
		}
		do("setmaxnreg."+op+".sync.aligned.u32", n)
	}
	return val{}, true
}

// rounded are 16 columns of an accumulator, from a constant one on, as four words.
func (k *kctx) rounded(in *ssa.Call, name string, fn *ssa.Function, acc0, col val) []val {
	of, words := halfType[tensorName(fn, 0)], make([]val, 4)
	if !col.isC || col.c%16 != 0 || int64(col.c) >= 2*fn.TypeArgs()[1].Underlying().(*types.Array).Len() {
		k.fail(in.Pos(), "the column that gpu.%s takes is a constant, a multiple of 16 among those of acc", name)
	}
	acc := k.notNil(acc0, in.Pos()).p
	if acc.sp != spCell {
		k.fail(in.Pos(), inRegisters, name)
	}
	first := *acc
	first.off += int64(col.c) * 2
	c, ok := k.cellsAt(&first, 8, 4)
	if !ok {
		k.fail(in.Pos(), inRegisters, name)
	}
	for i := range words {
		words[i] = k.reg(k32) // a new one each time: the accumulators change
		k.emit("cvt.rn."+of+"x2.f32", []string{words[i].r}, c[2*i+1].r, c[2*i].r)
	}
	return words
}

// wgmma is gpu.WGMMA and its brothers. The accumulators are changed in place: nothing may copy them while the product goes on.
func (k *kctx) wgmma(in *ssa.Call, name string, fn *ssa.Function, a []val) {
	of, n := tensorName(fn, len(fn.TypeArgs())-1), fn.TypeArgs()[1].Underlying().(*types.Array).Len()
	if name == "WGMMARows" {
		of = tensorName(fn, 0)
	} else if sum := tensorName(fn, 0); tensorTypes[of].sum != sum {
		k.fail(in.Pos(), "gpu.%s: the sums of %s are %s, not %s", name, of, tensorTypes[of].sum, sum)
	}
	if of == "float64" {
		k.fail(in.Pos(), "gpu.%s: no device has it for float64: take gpu.MMA", name)
	}
	acc, ok := k.cellsAt(a[1].p, n, 4)
	if !ok {
		k.fail(in.Pos(), inRegisters, name)
	}
	// Numbers that say what is negated, which integers have not, and what is transposed, which those of 16 bits alone have.
	t, sum, depth, signs := tensorTypes[of], "f32", 16, []string{"1", "1", "0", "0"}
	switch {
	case t.sum == "int32":
		sum, depth, signs = "s32", 32, nil
	case of == "TF32":
		depth, signs = 8, signs[:2]
	case strings.HasPrefix(of, "Float8"):
		depth, signs = 32, signs[:2]
	}
	one := func(add val, args ...string) {
		p, keeps := add.r, true
		if add.isC {
			p, keeps = k.pure(map[bool]string{true: "setp.eq.u32", false: "setp.ne.u32"}[add.c != 0], kPred, "0", "0").r, add.c != 0
		}
		args = append(args[:2:2], append([]string{p}, args[2:]...)...)
		i := k.emit(fmt.Sprintf("wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", 2*n, depth, sum, t.name, t.name), registers(acc), args...)
		if i.side = true; keeps {
			i.src = append(i.src, registers(acc)...)
		}
	}
	if name == "WGMMARows" {
		k.literal(in, name, a[4], 0, 1023)
		k.literal(in, name, a[5], 0, 1023)
		b := *k.sharedTile(in, name, a[3])
		b.off += int64(a[4].c) * 128
		one(a[6], k.braces(flat(a[2], nil)), k.descriptor(&b, int64(a[5].c)*128/16), "1", "1", "1")
		return
	}
	add, nexts, offs := a[len(a)-1], [2]int64{1, 1}, [2]int64{32, 32} // of a step
	if name == "WGMMATurned" {
		if depth != 16 {
			k.fail(in.Pos(), "gpu.WGMMATurned: no device has it for %s, only for elements of 16 bits", of)
		}
		for i := range nexts {
			if !a[4+i].isC {
				k.fail(in.Pos(), "turnedA and turnedB of gpu.WGMMATurned are constants")
			}
			if a[4+i].c != 0 {
				nexts[i], offs[i], signs[2+i] = 64*128/16, 16*128, "1"
			}
		}
	}
	for step := range int64(4) {
		var at [2]string
		for i := range at {
			p := *k.sharedTile(in, name, a[2+i])
			p.off += offs[i] * step
			at[i] = k.descriptor(&p, nexts[i])
		}
		if step > 0 {
			add = cst(kPred, 1)
		}
		one(add, append(at[:], signs...)...)
	}
}

const inRegisters = "acc of gpu.%s has to be a variable in registers: index it by constants alone, and give its address to nothing else"

// descriptor tells wgmma of a matrix in shared memory: its address, 1,024 bytes from 8 rows to the next, and the swizzle of 128
// bytes. next is the distance to the next 64 columns, in 16 bytes, where the rows of B lie in memory one after another.
// PTX ISA, "Matrix Descriptor Format", has the bits: the address in 0 to 13, next in 16, the 1,024 bytes in 32, the swizzle in 62.
func (k *kctx) descriptor(p *ptr, next int64) string {
	q := *p
	q.off = 0
	at := k.address(val{k: kPtr, p: &q})
	d := k.pure("or.b64", k64, k.pure("shr.u64", k64, k.pure("and.b64", k64, at.r, "262143").r, "4").r, fmt.Sprint(1<<62|1024>>4<<32|next<<16))
	if p.off == 0 {
		return d.r
	}
	return k.pure("add.s64", k64, d.r, fmt.Sprint(p.off>>4)).r
}
