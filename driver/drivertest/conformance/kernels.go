package conformance

import (
	"errors"

	"github.com/purecuda/purecuda/driver/drivertest"
)

// ramp is the kernel of the suite: out[i] = first + i for i < n.
const ramp = `// kernels of the conformance suite
.version 6.4
.target sm_52
.address_size 64

.visible .global .align 4 .u32 answer = 42;
.visible .global .align 4 .b8 table[16];

.visible .entry ramp(
	.param .u64 ramp_out,
	.param .u32 ramp_first,
	.param .u32 ramp_n
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [ramp_out];
	ld.param.u32 %r1, [ramp_first];
	ld.param.u32 %r2, [ramp_n];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.s32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r6, %r2;
	@%p1 bra done;
	mul.wide.u32 %rd3, %r6, 4;
	add.s64 %rd2, %rd2, %rd3;
	add.u32 %r7, %r6, %r1;
	st.global.u32 [%rd2], %r7;
done:
	ret;
}

.visible .entry nothing()
.maxntid 64, 1, 1
{
	ret;
}
`

// Kernels are the kernels of the suite in Go, for simulated drivers that bind
// kernels by name.
func Kernels() map[string]drivertest.KernelFunc {
	return map[string]drivertest.KernelFunc{
		"ramp": func(k *drivertest.Launch) error {
			threads := k.Grid.X * k.Block.X
			n := min(k.Uint32(2), threads)
			out, err := drivertest.Slice[uint32](k, k.Ptr(0), uint64(n))
			if err != nil {
				return err
			}
			for i := range out {
				out[i] = k.Uint32(1) + uint32(i)
			}
			return nil
		},
		"nothing": func(k *drivertest.Launch) error {
			if k.Params() != 0 {
				return errors.New("nothing takes no parameters")
			}
			return nil
		},
	}
}
