package exec

// lanes is one register of a warp: a value per thread. Values narrower than 64 bits
// are zero-extended; every operation relies on that and keeps it so.
type lanes [32]uint64

type opKind uint8

const (
	kALU   opKind = iota // alu(d, a, b, c) on all lanes
	kRun                 // run(w, in, mask) on the active lanes
	kSetp                // cmp(a, b) into a predicate
	kSelp                // d = p ? a : b
	kBra                 // to target
	kBrx                 // to table[a]
	kCall                // direct call
	kCallI               // call through a register
	kRet                 // from a function; ends the thread in a kernel
	kExit                // ends the thread
	kColl                // waits for the lanes of a member mask
	kBar                 // waits for the threads of the block
	kYield               // lets others run: nanosleep
)

// noSlot is the absence of an operand before register allocation. As a source, an
// absent operand is the constant zero.
const noSlot = int32(-1) // ^0: constant number 0, which is zero

// inst is a decoded instruction. A source slot is a register of the frame, or the
// complement of a constant's number; a predicate slot 0 is always true.
type inst struct {
	kind  opKind
	space uint8 // of a memory access
	esz   uint8 // bytes of an element
	n     uint8 // elements
	flags uint8
	sub   uint8 // meaning depends on run

	guard  int32
	guardX uint32 // ^0 for @!p

	d, a, b, c int32
	pd, pq     int32  // predicates written: p and its second, 0 for none
	pa         int32  // predicate read
	pax        uint32 // ^0 for !p

	target int32
	line   int32
	imm    uint64
	mask   uint64 // of the destination register's width

	alu func(d, a, b, c *lanes)
	run func(w *warp, in *inst, mask uint32)
	cmp func(a, b *lanes) uint32

	vd, vs []int32 // further registers written and read
	table  []int32 // targets of kBrx
	call   *callInfo
	coll   *collective
}

const (
	flagSigned  = 1 << iota // sign-extend loaded elements
	flagAddr32              // the address register has 32 bits
	flagAtomic              // volatile, relaxed, acquire, release: access words atomically
	flagCluster             // a barrier of the cluster
	flagAcquire             // for more than the block
	flagRelease             // for more than the block
)

// blank is an instruction without operands.
func blank(k opKind) inst {
	return inst{kind: k, a: noSlot, b: noSlot, c: noSlot, d: noSlot}
}

// full is the mask of all lanes.
const full = ^uint32(0)
