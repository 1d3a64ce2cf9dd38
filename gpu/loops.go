package gpu

// Block is one block of a launch in the form that gpuc gives a kernel for the CPU: loops over the threads of a block,
// cut at the barriers. Programs do not make one.
type Block struct {
	X, Y, Z int // the place of the thread that runs
	t       Thread
}

// Thread is the thread that runs.
func (b *Block) Thread() *Thread {
	b.t.thread = Dim3{b.X, b.Y, b.Z}
	b.t.rank = (b.Z*b.t.blockDim.Y+b.Y)*b.t.blockDim.X + b.X
	return &b.t
}

// loops runs blocks of a kernel in loops, one after another.
type loops struct {
	*launch
	kernel func(b *Block)
	first  Thread // of a block, whose number is to come
	b      Block
}

func newLoops(l *launch, kernel func(b *Block)) *loops {
	c := &loops{launch: l, kernel: kernel}
	c.first = l.thread(&block{vars: &vars{bytes: l.SharedBytes}}, 0, 0)
	c.first.wait = stale
	return c
}

func (c *loops) run(number int) {
	if c.b.t.vars {
		c.first.b.vars.reset()
	}
	c.b = Block{t: c.first}
	c.b.t.block = c.Grid.place(number)
	c.kernel(&c.b)
}

// end notes a panic of the kernel.
func (c *loops) end(cause any, ended bool) {
	t := c.b.Thread()
	switch {
	case cause != nil:
		c.fail(failed(t, cause))
	case !ended:
		c.fail(&Error{Block: t.block, Thread: t.thread, Err: errGoexit})
	}
}

// stale is what a thread in a loop does where it would wait.
func stale(*Thread, stop) {
	fault("the kernel waits where it did not when gpuc ran last: run go generate")
}
