package exec

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/bits"
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// Kernel is an entry that can be launched, by several goroutines at once.
type Kernel struct {
	*kernelCode
	consts []lanes
	blocks sync.Pool // of *block
}

// Launch says how to run a kernel.
type Launch struct {
	Grid        [3]uint32
	Block       [3]uint32
	SharedBytes uint32 // dynamic shared memory
	Params      []byte // the parameter buffer; copied
	Memory      Memory // global memory; may be nil if the kernel uses none

	Workers     int    // goroutines; 0 means GOMAXPROCS
	Chance      uint64 // if not 0, a seed for a run that PTX allows and a device does seldom: see chance.go
	Cooperative bool   // all blocks run at the same time, and may wait for each other
	MaxSteps    uint64 // warp instructions of the whole launch before LaunchTimeout; 0 means no limit
	StackBytes  uint32 // stack of a thread, which recursive calls may overflow; 0 means 16 KiB

	SMCount int       // what %nsmid tells; 0 means the number of workers
	GridID  uint64    // what %gridid tells
	Printf  io.Writer // where vprintf writes; nil drops it

	// Conditional sets the number of a conditional node of a graph, and is false for what is no handle of one.
	Conditional func(handle uint64, value uint32) bool

	// Steps, if not nil, receives the number of warp instructions executed.
	Steps *uint64
	// Traffic, if not nil, is told how many bytes of global memory threads have read and written. Atomics, and loads and stores that are
	// volatile, relaxed, acquire or release, count apart.
	Traffic func(read, written, atomics uint64)
}

// Limits of a launch, as of all devices since compute capability 3.0 and, for shared
// memory, more than any.
const (
	maxThreads     = 1024
	maxSharedBytes = 1 << 20
	maxLocalBytes  = 1 << 20
	maxBlockLocal  = 256 << 20 // local memory of all threads of a block
)

type launchState struct {
	Launch
	k           *Kernel
	params      []byte
	sharedBytes uint64
	localBytes  uint64
	stackBytes  uint64
	workspace   []byte // of a cooperative launch
	total       uint64
	workers     int
	done        <-chan struct{}

	next  atomic.Uint64
	steps atomic.Uint64
	moved [3]atomic.Uint64 // bytes of global memory, by what an instruction does with them
	stop  atomic.Bool
	fault atomic.Pointer[Fault]
	print sync.Mutex
	wide  sync.Mutex // of 128-bit atomics
}

// stopped ends the blocks of a launch that another block has ended.
var stopped = &Fault{Kind: LaunchFailed}

// Launch runs the kernel and returns when all of it has run. Blocks run in parallel on
// Workers goroutines, the calling one among them. The error is a *Fault for what the
// kernel did; another error means that the launch was not possible. When ctx ends, or
// after MaxSteps, the launch ends with a Fault of kind LaunchTimeout, which wraps
// nothing: what the kernel has written by then stays.
func (k *Kernel) Launch(ctx context.Context, l Launch) error {
	s, err := k.prepare(l)
	if err != nil {
		return err
	}
	s.done = ctx.Done()
	if ctx.Err() != nil {
		return &Fault{Kind: LaunchTimeout, Kernel: k.name, Msg: ctx.Err().Error()}
	}
	switch {
	case l.Chance != 0:
		err = s.byChance()
	case l.Cooperative:
		err = s.cooperative()
	default:
		err = s.parallel()
	}
	if l.Traffic != nil {
		l.Traffic(s.moved[memLoad].Load(), s.moved[memStore].Load(), s.moved[memAtom].Load())
	}
	if l.Steps != nil {
		*l.Steps = s.steps.Load()
	}
	return err
}

func (k *Kernel) prepare(l Launch) (*launchState, error) {
	threads := uint64(1)
	for i, d := range l.Block {
		if d == 0 || d > maxThreads || l.Grid[i] == 0 {
			return nil, fmt.Errorf("exec: kernel %s: grid %v of blocks %v is not possible", k.name, l.Grid, l.Block)
		}
		threads *= uint64(d)
	}
	if threads > maxThreads {
		return nil, fmt.Errorf("exec: kernel %s: block %v has %d threads, more than %d", k.name, l.Block, threads, maxThreads)
	}
	if k.reqNTID[0] != 0 && l.Block != k.reqNTID {
		return nil, fmt.Errorf("exec: kernel %s: block %v, but the kernel demands %v (.reqntid)", k.name, l.Block, k.reqNTID)
	}
	if m := k.maxNTID; m[0] != 0 && threads > uint64(m[0])*uint64(m[1])*uint64(m[2]) {
		return nil, fmt.Errorf("exec: kernel %s: block %v is larger than the kernel allows, %v (.maxntid)", k.name, l.Block, m)
	}
	hi, total := bits.Mul64(uint64(l.Grid[0])*uint64(l.Grid[1]), uint64(l.Grid[2]))
	if hi != 0 {
		return nil, fmt.Errorf("exec: kernel %s: grid %v is too large", k.name, l.Grid)
	}
	if uint64(len(l.Params)) < k.paramBytes {
		return nil, fmt.Errorf("exec: kernel %s: %d bytes of parameters, wants %d", k.name, len(l.Params), k.paramBytes)
	}
	s := &launchState{Launch: l, k: k, total: total}
	s.sharedBytes = k.shared
	if l.SharedBytes > 0 {
		s.sharedBytes = k.sharedBase + uint64(l.SharedBytes)
	}
	if s.sharedBytes > maxSharedBytes {
		return nil, fmt.Errorf("exec: kernel %s: %d bytes of shared memory, more than %d", k.name, s.sharedBytes, maxSharedBytes)
	}
	s.localBytes = k.localBytes
	s.stackBytes = 1 << 30
	if k.recursive {
		s.stackBytes = uint64(cmp.Or(l.StackBytes, 16<<10))
		s.localBytes += (max(s.stackBytes, 16<<10) + 15) &^ 15 // parameters lie there too, which a device has in registers
	}
	if s.localBytes > maxLocalBytes {
		return nil, fmt.Errorf("exec: kernel %s: %d bytes of local memory, more than %d", k.name, s.localBytes, maxLocalBytes)
	}
	if n := s.localBytes * threads; n > maxBlockLocal {
		return nil, fmt.Errorf("exec: kernel %s: %d bytes of local memory for a block, more than %d", k.name, n, maxBlockLocal)
	}
	s.params = alignedBytes(int(k.paramBytes))
	copy(s.params, l.Params)
	if l.Cooperative {
		s.workspace = newWorkspace()
		if total > maxCooperative {
			return nil, fmt.Errorf("exec: kernel %s: cooperative launch of %d blocks, more than %d", k.name, total, maxCooperative)
		}
	}
	s.workers = l.Workers
	if s.workers <= 0 {
		s.workers = goruntime.GOMAXPROCS(0)
	}
	if uint64(s.workers) > total {
		s.workers = int(total)
	}
	if s.SMCount <= 0 {
		s.SMCount = s.workers
	}
	return s, nil
}

func (s *launchState) block(worker int) *block {
	b, _ := s.k.blocks.Get().(*block)
	if b == nil {
		b = &block{}
	}
	b.worker = worker
	b.fit(s)
	return b
}

func (s *launchState) giveBack(b *block) {
	b.release()
	s.k.blocks.Put(b)
}

// parallel runs blocks in the order of their numbers, as many at a time as there are
// workers. A block may wait for one with a smaller number, which has begun before it.
func (s *launchState) parallel() error {
	s.each(func(worker int) {
		b := s.block(worker)
		defer s.giveBack(b)
		for !s.stop.Load() {
			n := s.next.Add(1) - 1
			if n >= s.total {
				return
			}
			b.start(n)
			for {
				done, flt := b.turn(quantum)
				if flt != nil {
					s.end(flt)
					return
				}
				if done {
					break
				}
			}
		}
	})
	return s.result()
}

// maxCooperative bounds the blocks that are in memory at a time.
const maxCooperative = 1 << 14

// cooperative keeps all blocks alive at the same time: each worker gives its blocks
// turns.
func (s *launchState) cooperative() error {
	s.each(func(worker int) {
		var blocks []*block
		for n := uint64(worker); n < s.total; n += uint64(s.workers) {
			b := s.block(worker)
			b.start(n)
			blocks = append(blocks, b)
		}
		defer func() {
			for _, b := range blocks {
				s.giveBack(b)
			}
		}()
		live := append([]*block(nil), blocks...)
		for len(live) > 0 && !s.stop.Load() {
			rest := live[:0]
			for _, b := range live {
				done, flt := b.turn(quantum)
				if flt != nil {
					s.end(flt)
					return
				}
				if !done {
					rest = append(rest, b)
				}
			}
			live = rest
		}
	})
	return s.result()
}

// each runs f once per worker and waits.
func (s *launchState) each(f func(worker int)) {
	var wg sync.WaitGroup
	for i := 1; i < s.workers; i++ {
		wg.Go(func() { f(i) })
	}
	f(0)
	wg.Wait()
}

func (s *launchState) end(f *Fault) {
	if f != stopped {
		s.fault.CompareAndSwap(nil, f)
	}
	s.stop.Store(true)
}

func (s *launchState) result() error {
	if f := s.fault.Load(); f != nil {
		return f
	}
	return nil
}

// spend accounts for instructions of a block and looks whether it is time to end.
func (s *launchState) spend(steps uint64, b *block) *Fault {
	n := s.steps.Add(steps)
	if s.stop.Load() {
		return stopped
	}
	msg := ""
	if s.MaxSteps != 0 && n > s.MaxSteps {
		msg = fmt.Sprintf("more than %d warp instructions", s.MaxSteps)
		if begun := s.next.Load(); !s.Cooperative && begun < s.total {
			msg += fmt.Sprintf("; %d of %d blocks have not begun: blocks that wait for each other need a cooperative launch", s.total-begun, s.total)
		}
	}
	select {
	case <-s.done:
		msg = "cancelled"
	default:
	}
	if msg == "" {
		return nil
	}
	w, g := b.stuck()
	if w.done() { // the last block has ended: only the count is over
		return nil
	}
	w.flt = nil
	w.fail(LaunchTimeout, &w.code[min(int(g.pc), len(w.code)-1)], firstLane(g.mask), msg)
	return w.flt
}
