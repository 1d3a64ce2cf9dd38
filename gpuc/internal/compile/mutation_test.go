package compile_test

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	ops "github.com/purecuda/purecuda/gpuc/internal/testdata/ops"
)

// mutations are wrong instructions that a compiler could write, as what is replaced in its text, and by what.
var mutations = []struct{ kernel, from, to string }{
	{"Int32", `\bsub\.s32`, "add.s32"},
	{"Int32", `\bmul\.lo\.s32`, "mul.lo.u32"}, // the same bits: found to be no fault
	{"Int32", `\bdiv\.s32`, "div.u32"},
	{"Int32", `\brem\.s32`, "rem.u32"},
	{"Int32", `\bshr\.s32`, "shr.u32"},
	{"Int32", `\bsetp\.lt\.s32`, "setp.le.s32"},
	{"Int32", `\bsetp\.ge\.s32`, "setp.gt.s32"},
	{"Int32", `\bmin\.s32`, "max.s32"},
	{"Int32", `\band\.b32`, "or.b32"},
	{"Int32", `\bxor\.b32`, "or.b32"},
	{"Int32", `\bnot\.b32`, "neg.s32"},
	{"Int32", `min\.u64`, "max.u64"}, // of a count of bits
	{"Int8", `cvt\.s32\.s8`, "mov.b32"},
	{"Uint8", `, 255;`, ", 127;"},
	{"Uint16", `, 65535;`, ", 32767;"},
	{"Int64", `cvt\.s64\.s32`, "cvt.u64.u32"},
	{"Int64", `cvt\.rzi`, "cvt.rni"},
	{"Int64", `shf\.l`, "shf.r"},
	{"Uint64", `\bdiv\.u64`, "div.s64"},
	{"Uint64", `\bmax\.u64`, "max.s64"},
	{"Int64", `\bclz`, "popc"},
	{"Int64", `, 0, 291;`, ", 0, 12816;"},
	{"Floats32", `setp\.nan`, "setp.num"},
	{"Floats32", `cvt\.rmi`, "cvt.rpi"},
	{"Floats32", `fma\.rn`, "fma.rz"},
	{"Floats32", `mul\.rn`, "mul.rz"},
	{"Floats32", `sqrt\.rn`, "sqrt.rz"},
}

// TestMutations proves that the comparison of operations finds wrong instructions.
func TestMutations(t *testing.T) {
	p := program(t, opsFolder)
	for _, mutation := range mutations {
		t.Run(mutation.kernel+" "+mutation.from, func(t *testing.T) {
			m, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff}, mutation.kernel)
			require.NoError(t, err)
			from := regexp.MustCompile(mutation.from)
			require.Regexp(t, from, m.PTX, "there is nothing to mutate")
			m.PTX = from.ReplaceAllString(m.PTX, mutation.to)
			d := device.Open(t, device.Of(m))
			r := rand.New(rand.NewPCG(1, 2))
			u := func() uint64 { return r.Uint64() >> (r.Uint64() % 64) }
			var found []string
			switch mutation.kernel {
			case "Int8":
				found = differ(d, mutation.kernel, ops.N, ops.Int8, func() int8 { return int8(u()) })
			case "Uint8":
				found = differ(d, mutation.kernel, ops.N, ops.Uint8, func() uint8 { return uint8(u()) })
			case "Uint16":
				found = differ(d, mutation.kernel, ops.N, ops.Uint16, func() uint16 { return uint16(u()) })
			case "Int32":
				found = differ(d, mutation.kernel, ops.N, ops.Int32, func() int32 { return int32(u()) })
			case "Int64":
				found = differ(d, mutation.kernel, ops.N, ops.Int64, func() int64 { return int64(u()) })
			case "Uint64":
				found = differ(d, mutation.kernel, ops.N, ops.Uint64, u)
			case "Floats32":
				found = differ(d, mutation.kernel, 12, ops.Floats32, func() float32 {
					if r.Uint32()&3 == 0 {
						return nan()
					}
					return float32(r.NormFloat64() * 10)
				})
			}
			if mutation.from == `\bmul\.lo\.s32` {
				assert.Empty(t, found)
			} else {
				assert.NotEmpty(t, found, "nothing was found")
			}
		})
	}
}

func nan() float32 { z := float32(0); return z / z }

// differ returns the differences between a kernel and Go.
func differ[T any](d *device.Device, name string, n int, f func(t *gpu.Thread, out, a, b []T), gen func() T) []string {
	const items = 256
	x, y := operands(items, gen)
	return d.Compare(name, gpu.Shape1D(items, 128), func(t *gpu.Thread, a []any) { f(t, as[[]T](a, 0), as[[]T](a, 1), as[[]T](a, 2)) },
		make([]T, items*n), x, y)
}
