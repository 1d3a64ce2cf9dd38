package conformance

// ramp is the module of the suite. Its kernel ramp does out[i] = first + i for i < n.
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

// countdown takes one from what counter points to, which is then the number of a conditional node.
const countdown = `.version 6.4
.target sm_52
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry countdown(.param .u64 counter, .param .u64 handle)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [counter];
	ld.param.u64 %rd3, [handle];
	cvta.to.global.u64 %rd2, %rd1;
	ld.global.u32 %r1, [%rd2];
	add.s32 %r2, %r1, -1;
	st.global.u32 [%rd2], %r2;
	{
	.param .b64 p;
	.param .b32 q;
	st.param.b64 [p], %rd3;
	st.param.b32 [q], %r2;
	call cudaGraphSetConditional, (p, q);
	}
	ret;
}
`

// caller and callee are two parts to link. Both have a function of their own with the same name.
const caller = `.version 6.4
.target sm_52
.address_size 64

.extern .func (.param .b32 result) triple(.param .b32 x);
.extern .global .align 4 .u32 step;

.func (.param .b32 result) own(.param .b32 x)
{
	.reg .b32 %r<4>;
	ld.param.u32 %r1, [x];
	ld.global.u32 %r2, [step];
	add.u32 %r3, %r1, %r2;
	st.param.b32 [result], %r3;
	ret;
}

.visible .entry linked(.param .u64 out, .param .u32 x)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [x];
	cvta.to.global.u64 %rd2, %rd1;
	{
	.param .b32 p;
	.param .b32 q;
	st.param.b32 [p], %r1;
	call (q), triple, (p);
	ld.param.b32 %r2, [q];
	}
	{
	.param .b32 p;
	.param .b32 q;
	st.param.b32 [p], %r2;
	call (q), own, (p);
	ld.param.b32 %r3, [q];
	}
	st.global.u32 [%rd2], %r3;
	ret;
}
`

const callee = `.version 6.4
.target sm_52
.address_size 64

.visible .global .align 4 .u32 step = 7;

.func (.param .b32 result) own(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	mul.lo.u32 %r2, %r1, 3;
	st.param.b32 [result], %r2;
	ret;
}

.visible .func (.param .b32 result) triple(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	{
	.param .b32 p;
	.param .b32 q;
	st.param.b32 [p], %r1;
	call (q), own, (p);
	ld.param.b32 %r2, [q];
	}
	st.param.b32 [result], %r2;
	ret;
}
`
