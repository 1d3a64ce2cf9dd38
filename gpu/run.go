package gpu

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// Run runs a kernel on the CPU, as a launch of this shape does on a GPU, and returns when it has ended. Blocks run
// in parallel, over as many cores as Go uses. Threads of a block run one after another until one waits for others;
// in a build with -race each is a goroutine.
//
// The error says what the kernel did wrong first; the rest of the launch does not run then, and what the kernel has
// written is not defined. Nothing that a kernel does panics here.
func Run(shape Shape, kernel func(t *Thread)) error {
	if kernel == nil {
		return errors.New("gpu: the kernel is nil")
	}
	return run(shape, kernel, func(l *launch) {
		if raceBuild {
			l.runGoroutines()
		} else {
			l.onCores(func() runner { return &core{launch: l} })
		}
	})
}

// RunBlocks is Run for a kernel that gpuc has cut into loops: block runs all threads of a block. In a build with -race
// the kernel itself runs, thread by thread, as in Run.
func RunBlocks(shape Shape, kernel func(t *Thread), block func(b *Block)) error {
	if raceBuild || block == nil {
		return Run(shape, kernel)
	}
	return run(shape, kernel, func(l *launch) { l.onCores(func() runner { return newLoops(l, block) }) })
}

// run runs a launch of this shape.
func run(shape Shape, kernel func(t *Thread), how func(l *launch)) error {
	shape, err := shape.checked()
	if err != nil || shape.Grid.X == 0 {
		return err
	}
	l := &launch{Shape: shape, kernel: kernel, blocks: shape.Grid.count()}
	how(l)
	if e := l.err.Load(); e != nil {
		return e
	}
	return nil
}

// launch is one call of Run.
type launch struct {
	Shape
	kernel func(t *Thread)
	blocks int
	next   atomic.Int64 // the block that no core has begun
	more   func()       // lets one runner more begin blocks
	err    atomic.Pointer[Error]
}

// fail keeps the first error.
func (l *launch) fail(e *Error) { l.err.CompareAndSwap(nil, e) }

func (l *launch) failed() bool { return l.err.Load() != nil }

// thread is the thread of a place.
func (l *launch) thread(b *block, number, rank int) Thread {
	return Thread{
		thread: l.Block.place(rank), block: l.Grid.place(number), blockDim: l.Block, gridDim: l.Grid,
		rank: rank, b: b,
	}
}

// runner runs blocks on one core.
type runner interface {
	run(number int)
	end(cause any, ended bool)
}

// onCores runs the launch, each core with a runner of its own.
func (l *launch) onCores(newRunner func() runner) {
	var all sync.WaitGroup
	l.more = func() {
		all.Go(func() {
			r, ended := newRunner(), false
			defer func() { r.end(recover(), ended) }()
			for !l.failed() {
				number := int(l.next.Add(1)) - 1
				if number >= l.blocks {
					break
				}
				r.run(number)
			}
			ended = true
		})
	}
	for range min(l.blocks, runtime.GOMAXPROCS(0)) {
		l.more()
	}
	all.Wait()
}

var errGoexit = errors.New("the kernel called runtime.Goexit, as FailNow of a test does")
