// Package nccltest is a simulated NCCL for tests without a GPU. The operations of a rank become the launch of a kernel on the simulated
// driver, which waits for the kernels of the other ranks, as on hardware. The last one to come computes, in plain Go. So order,
// captures, faults and the checks of memory are the driver's, and a rank that never comes keeps the others waiting.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(4, drivertest.H100()), Kernels: nccltest.Kernels()})
//	rt, err := runtime.Open(runtime.WithDriver(gpu))
//	if err != nil {
//		return err
//	}
//	defer rt.Close()
//	c, err := nccl.All(nccltest.New(gpu), streams, nccl.Options{})
//
// Several communicators with one ID stand for several processes.
package nccltest

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/internal/simulated"
	"github.com/purecuda/purecuda/libs/nccl"
)

// Library is a simulated NCCL. It implements [nccl.API] and is safe for concurrent use.
type Library struct {
	gpu driver.API

	groups   sync.Mutex // from GroupStart to GroupEnd
	launches []func() nccl.Status
	frees    []func() nccl.Status

	table simulated.Settings[nccl.Status]

	mu      sync.Mutex
	async   nccl.Status
	cliques map[nccl.ID]*clique
	comms   map[nccl.RawComm]*comm
	last    nccl.RawComm
}

// comm is what an ncclComm_t stands for.
type comm struct {
	clique   *clique
	rank     int
	blocking bool
	context  driver.Context
	module   driver.Module
	kernel   driver.Function
	aborted  chan struct{}
	plans    []uint64
	queued   atomic.Int64 // kernels that were launched and have not ended
	going    int          // so often AsyncError says that the call goes on
	group    []nccl.Call  // of the open group
	stream   driver.Stream
}

// New makes an NCCL on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	l := &Library{gpu: gpu, cliques: map[nccl.ID]*clique{}, comms: map[nccl.RawComm]*comm{}}
	l.table.SetVersion([3]int{2, 28, 3})
	return l
}

// LoseRank makes all communicators report a fault from now on, such as StatusRemoteError, as NCCL does when it notices
// the loss of a rank.
func (l *Library) LoseRank(s nccl.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.async = s
}

// Left is how many ranks were neither destroyed nor aborted.
func (l *Library) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.comms)
}

var ids atomic.Uint64

// UniqueID implements [nccl.API].
func (l *Library) UniqueID() (id nccl.ID, s nccl.Status) {
	if s := l.table.Fault("UniqueID"); s != nccl.StatusSuccess {
		return id, s
	}
	binary.LittleEndian.PutUint64(id[:], ids.Add(1))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cliques[id] = newClique()
	return id, nccl.StatusSuccess
}

// GroupStart implements [nccl.API].
func (l *Library) GroupStart() nccl.Status {
	if s := l.table.Fault("GroupStart"); s != nccl.StatusSuccess {
		return s
	}
	l.groups.Lock()
	return nccl.StatusSuccess
}

// GroupEnd implements [nccl.API].
func (l *Library) GroupEnd() nccl.Status {
	defer l.groups.Unlock()
	s := l.table.Fault("GroupEnd")
	if s != nccl.StatusSuccess {
		l.launches = nil
	}
	for _, f := range append(l.launches, l.frees...) {
		if status := f(); s == nccl.StatusSuccess || s == nccl.StatusInProgress && status != nccl.StatusSuccess {
			s = status
		}
	}
	l.launches, l.frees = nil, nil
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.comms {
		c.group = nil
	}
	return s
}

// InitRank implements [nccl.API].
func (l *Library) InitRank(out *nccl.RawComm, size int, id *nccl.ID, rank int, blocking bool) nccl.Status {
	if s := l.table.Fault("InitRank"); s != nccl.StatusSuccess {
		return s
	}
	context, r := l.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return nccl.StatusUnhandledCuda
	}
	module, s := simulated.Load(l.gpu, image, nccl.StatusUnhandledCuda)
	if s != nccl.StatusSuccess {
		return s
	}
	kernel, r := l.gpu.ModuleGetFunction(module, kernelName)
	if r != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.cliques[*id]
	if k == nil || !k.join(size, rank) {
		l.gpu.ModuleUnload(module)
		return nccl.StatusInvalidArgument
	}
	l.last++
	*out = l.last
	l.comms[l.last] = &comm{clique: k, rank: rank, blocking: blocking, context: context, module: module, kernel: kernel, aborted: make(chan struct{})}
	if blocking {
		return nccl.StatusSuccess
	}
	return nccl.StatusInProgress
}

// Run implements [nccl.API].
func (l *Library) Run(c nccl.RawComm, s driver.Stream, call *nccl.Call) nccl.Status {
	if s := l.table.Fault("Run"); s != nccl.StatusSuccess {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.comms[c]
	if known == nil || known.going > 0 || !known.clique.ready() || call.Peer < 0 || int(call.Peer) >= known.clique.size || call.Count == 0 {
		return nccl.StatusInvalidArgument
	}
	if len(known.group) == 0 {
		known.stream = s
		l.launches = append(l.launches, func() nccl.Status { return l.launch(known) })
	}
	known.group = append(known.group, *call)
	return nccl.StatusSuccess
}

// launch puts the operations of a group on the stream of a rank.
func (l *Library) launch(c *comm) nccl.Status {
	capture, r := l.gpu.StreamIsCapturing(c.stream)
	if r != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	p := &plan{comm: c, calls: c.group, queued: capture == driver.CaptureNone}
	number := lastPlan.Add(1)
	plans.Store(number, p)
	c.plans = append(c.plans, number)
	if p.queued {
		c.queued.Add(1)
	}
	if l.gpu.CtxPushCurrent(c.context) != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	r = l.gpu.LaunchKernel(c.kernel, one, one, 0, c.stream, []unsafe.Pointer{unsafe.Pointer(&number)})
	if _, popped := l.gpu.CtxPopCurrent(); r != driver.Success || popped != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	if c.blocking {
		return nccl.StatusSuccess
	}
	c.going = 2
	return nccl.StatusInProgress
}

// AsyncError implements [nccl.API].
func (l *Library) AsyncError(c nccl.RawComm) (state, s nccl.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.comms[c]
	switch {
	case known == nil:
		return 0, nccl.StatusInvalidArgument
	case l.async != nccl.StatusSuccess:
		return l.async, nccl.StatusSuccess
	case !known.clique.ready():
		return nccl.StatusInProgress, nccl.StatusSuccess
	case known.going > 0:
		known.going--
		return nccl.StatusInProgress, nccl.StatusSuccess
	}
	return nccl.StatusSuccess, nccl.StatusSuccess
}

// LastError implements [nccl.API].
func (l *Library) LastError(nccl.RawComm) string { return "simulated" }

// Finalize implements [nccl.API]. It goes on for a while where calls do not block.
func (l *Library) Finalize(c nccl.RawComm) nccl.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.comms[c]
	if known == nil {
		return nccl.StatusInvalidArgument
	}
	if !known.blocking {
		known.going = 2
	}
	return l.table.Fault("Finalize")
}

// Destroy implements [nccl.API].
func (l *Library) Destroy(c nccl.RawComm) nccl.Status { return l.remove("Destroy", c) }

// Abort implements [nccl.API].
func (l *Library) Abort(c nccl.RawComm) nccl.Status { return l.remove("Abort", c) }

// remove ends a rank. Its kernels end, and then it is freed with the group.
func (l *Library) remove(method string, c nccl.RawComm) nccl.Status {
	l.mu.Lock()
	known := l.comms[c]
	delete(l.comms, c)
	l.mu.Unlock()
	if known == nil {
		return nccl.StatusInvalidArgument
	}
	close(known.aborted)
	l.frees = append(l.frees, func() nccl.Status { return known.free(l.gpu) })
	return l.table.Fault(method)
}

// free waits for the kernels of a rank, a second at most: on a device that is lost they do not end.
func (c *comm) free(gpu driver.API) nccl.Status {
	for range 1000 {
		if c.queued.Load() == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for _, n := range c.plans {
		plans.Delete(n)
	}
	if gpu.CtxPushCurrent(c.context) != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	r := gpu.ModuleUnload(c.module)
	if _, popped := gpu.CtxPopCurrent(); r != driver.Success || popped != driver.Success {
		return nccl.StatusUnhandledCuda
	}
	return nccl.StatusSuccess
}

// Kernels are the kernels of the simulated NCCL, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	return map[string]drivertest.KernelFunc{kernelName: func(k *drivertest.Launch) error {
		p, ok := plans.Load(drivertest.Param[uint64](k, 0))
		if !ok {
			return errors.New("the communicator was freed before the kernel ran")
		}
		return p.(*plan).run(k)
	}}
}
