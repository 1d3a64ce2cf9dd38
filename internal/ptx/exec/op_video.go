package exec

import (
	"strings"

	"github.com/purecuda/purecuda/internal/ptx"
)

// videoDecoders are the SIMD video instructions that compilers emit for CUDA's functions
// of packed bytes and half words: two or four lanes, without masks and selectors.
var videoDecoders = func() map[string]decoder {
	all := map[string]decoder{}
	for _, op := range []string{"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"} {
		all[op+"2"], all[op+"4"] = decodeVideo, decodeVideo
	}
	return all
}()

// decodeVideo covers v<op>{2,4}.dtype.atype.btype{.sat}{.add} d, a, b, c.
func decodeVideo(x *fnc, in *ptx.Instruction, m *mods) error {
	x.count(in, 4, 4)
	td, ta, tb := m.typ(), m.typ(), m.typ()
	for _, t := range []ptx.Type{td, ta, tb} {
		if t != ptx.U32 && t != ptx.S32 {
			return x.invalid("needs three of .u32 and .s32")
		}
	}
	sat, sum := m.has("sat"), m.has("add")
	op, lanes := in.Op[:len(in.Op)-1], uint(in.Op[len(in.Op)-1]-'0')
	width := 32 / lanes
	lo, hi := int64(0), int64(1)<<width-1
	if isSigned(td) {
		lo, hi = -1<<(width-1), 1<<(width-1)-1
	}
	lane := func(v uint64, i uint, t ptx.Type) int64 {
		v = v >> (i * width) & (1<<width - 1)
		if isSigned(t) {
			return sext(v, width)
		}
		return int64(v)
	}
	f := func(a, b, c uint64) uint64 {
		var d uint64
		total := int64(c)
		for i := range lanes {
			v := videoLane(op, lane(a, i, ta), lane(b, i, tb))
			if sat {
				v = min(max(v, lo), hi)
			}
			d |= uint64(v) & (1<<width - 1) << (i * width)
			total += v
		}
		if sum {
			return uint64(uint32(total))
		}
		return d
	}
	o := in.Operands
	return x.aluTypes(ptx.B32, lift3(f), &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{ta, tb, td})
}

func videoLane(op string, a, b int64) int64 {
	switch strings.TrimPrefix(op, "v") {
	case "add":
		return a + b
	case "sub":
		return a - b
	case "avrg": // halves round away from zero when positive
		if a+b >= 0 {
			return (a + b + 1) >> 1
		}
		return (a + b) >> 1
	case "absdiff":
		return max(a-b, b-a)
	case "min":
		return min(a, b)
	}
	return max(a, b)
}
