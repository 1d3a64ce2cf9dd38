package arena_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
)

// modelBlock is a block that the model knows to be in use.
type modelBlock struct {
	arena.Block
	ptr   driver.DevicePtr
	value byte // what work on the stream has filled it with
	on    int  // the stream that its work is on, or unknown
}

// unknown is the stream of blocks whose stream was closed in a way that nobody can tell when its
// work is done: they stay in use.
const unknown = -1

// readBytes is how much of a block is read back.
const readBytes = 256

// model runs a random program on an arena, beside a model of what must come out.
type model struct {
	*machine
	t       *testing.T
	r       *rand.Rand
	d       *arena.Device
	faulty  bool // calls may fail
	streams []*arena.Stream
	handles []driver.Stream // all that were made
	paused  []bool          // capturing, as far as the arena knows
	blocks  []modelBlock
	stale   []arena.Block
	frees   uint64
	host    unsafe.Pointer
	reads   []byte // expected, one for every read
	split   bool   // there were free parts of blocks
	trouble string // why the program ended early
}

// step is one action; it is chosen by weight.
var modelSteps = []struct {
	weight int
	run    func(*model) error
}{
	{40, (*model).alloc},
	{34, (*model).free},
	{6, (*model).freeElsewhere},
	{5, (*model).wait},
	{3, (*model).trim},
	{4, (*model).reopen},
	{3, (*model).pause},
	{4, (*model).freeAfter},
	{3, (*model).retire},
	{5, (*model).freeStale},
}

const modelStreams = 4

func newModel(t *testing.T, m *machine, seed uint64, config arena.DeviceConfig, faulty bool) *model {
	d, err := arena.NewDevice(m.Binding, config)
	if err != nil {
		require.True(t, faulty, "%v", err)
		return nil
	}
	p := &model{machine: m, t: t, d: d, r: rand.New(rand.NewPCG(seed, 1)), faulty: faulty}
	_ = m.Do(func() error {
		p.host, _ = m.API.MemHostAlloc(1<<20, driver.HostAllocPortable)
		return nil
	})
	for range modelStreams {
		h, err := p.newHandle()
		if err != nil {
			require.True(t, faulty, "%v", err)
			p.trouble = "no streams"
			break
		}
		p.streams = append(p.streams, d.NewStream(h))
		p.paused = append(p.paused, false)
	}
	return p
}

func (p *model) newHandle() (h driver.Stream, err error) {
	err = p.Do(func() error {
		var r driver.Result
		h, r = p.API.StreamCreate(driver.StreamNonBlocking)
		return p.Failed("cuStreamCreate", r)
	})
	if err == nil {
		p.handles = append(p.handles, h)
	}
	return h, err
}

// run does n steps.
func (p *model) run(n int) {
	total := 0
	for _, s := range modelSteps {
		total += s.weight
	}
	for i := 0; i < n && p.trouble == "" && !p.t.Failed(); i++ {
		pick := p.r.IntN(total)
		for _, s := range modelSteps {
			if pick -= s.weight; pick < 0 {
				if err := s.run(p); err != nil {
					if !p.faulty {
						p.t.Errorf("step %d: %v", i, err)
					}
					if errors.Is(err, driver.ErrDeviceLost) {
						p.trouble = "lost"
					}
				}
				break
			}
		}
		p.check()
	}
}

// check compares the numbers.
func (p *model) check() {
	stats := exact(p.t, p.d)
	var use, asked uint64
	for _, b := range p.blocks {
		if b.Valid() {
			use += b.Size()
			asked += b.Bytes()
		}
	}
	p.split = p.split || stats.Split > 0
	assert.Equal(p.t, use, stats.InUse)
	assert.Equal(p.t, asked, stats.Requested)
	assert.Equal(p.t, p.frees, stats.Frees)
	assert.Equal(p.t, stats.Frees+uint64(len(p.blocks)), stats.Hits+stats.Shared+stats.Misses-p.undone(stats))
	if p.r.IntN(10) == 0 {
		assert.Len(p.t, p.d.Leaks(), len(p.blocks))
	}
}

// undone are allocations that were counted and then failed (a memset did).
func (p *model) undone(s arena.DeviceStats) uint64 {
	if !p.faulty {
		return 0
	}
	return s.Hits + s.Shared + s.Misses - s.Frees - uint64(len(p.blocks))
}

func (p *model) size() uint64 {
	if p.r.IntN(4) == 0 {
		return 1 + p.r.Uint64N(100_000)
	}
	return 1 + p.r.Uint64N(3000)
}

func (p *model) alloc() error {
	on := p.r.IntN(modelStreams)
	bytes := p.size()
	b, err := p.streams[on].Alloc(bytes)
	if p.paused[on] {
		assert.Error(p.t, err)
		return nil
	}
	if err != nil {
		return err
	}
	assert.Equal(p.t, bytes, b.Bytes())
	n := modelBlock{b, b.Ptr(), byte(p.r.IntN(256)), on}
	for _, o := range p.blocks {
		if n.ptr < o.ptr+driver.DevicePtr(o.Size()) && o.ptr < n.ptr+driver.DevicePtr(b.Size()) {
			p.t.Errorf("%#x and %#x overlap", n.ptr, o.ptr)
		}
	}
	p.blocks = append(p.blocks, n)
	return p.hot(func() driver.Result {
		return p.MemsetD8Async(n.ptr, n.value, b.Size(), p.streams[on].Handle())
	})
}

func (p *model) hot(f func() driver.Result) error {
	if err := p.Push(); err != nil {
		return err
	}
	defer p.Pop()
	return p.Failed("work", f())
}

// read puts a copy of the block's content behind its work; finish looks at it.
func (p *model) read(b modelBlock) error {
	n := len(p.reads)
	if p.host == nil || (n+1)*readBytes > 1<<20 {
		return nil
	}
	bytes := min(b.Bytes(), readBytes)
	from := b.ptr + driver.DevicePtr(b.Size()-bytes)
	err := p.hot(func() driver.Result {
		to := unsafe.Add(p.host, n*readBytes)
		return p.MemcpyDtoHAsync(to, from, 1, p.streams[b.on].Handle())
	})
	if err == nil {
		p.reads = append(p.reads, b.value)
	}
	return err
}

// freeOn frees block i on a stream.
func (p *model) freeOn(i, on int) error {
	b := p.blocks[i]
	err := p.streams[on].Free(b.Block)
	if b.Valid() {
		return err
	}
	p.frees++
	p.stale = append(p.stale, b.Block)
	p.blocks = append(p.blocks[:i], p.blocks[i+1:]...)
	return err
}

// pick is a block that can be freed.
func (p *model) pick() (i int, ok bool) {
	if len(p.blocks) == 0 {
		return 0, false
	}
	i = p.r.IntN(len(p.blocks))
	return i, p.blocks[i].on != unknown
}

func (p *model) free() error {
	i, ok := p.pick()
	if !ok {
		return nil
	}
	b := p.blocks[i]
	if err := p.read(b); err != nil {
		return err
	}
	return p.freeOn(i, b.on)
}

func (p *model) freeElsewhere() error {
	i, ok := p.pick()
	if !ok {
		return nil
	}
	b, on := p.blocks[i], p.r.IntN(modelStreams)
	if p.paused[b.on] { // what a stream captures is no work, and here it is
		return nil
	}
	if err := p.read(b); err != nil {
		return err
	}
	waits, err := p.waits(on, b.on)
	if err != nil || !waits {
		return err
	}
	return p.freeOn(i, on)
}

// waits makes a stream wait for another one, and reports whether it does: a stream that is captured
// fails.
func (p *model) waits(on, of int) (bool, error) {
	err := p.streams[on].Wait(p.streams[of])
	if p.paused[on] && on != of {
		assert.Error(p.t, err)
		return false, nil
	}
	return err == nil, err
}

// freeAfter frees a block behind its stream and another one.
func (p *model) freeAfter() error {
	i, ok := p.pick()
	if !ok {
		return nil
	}
	b, also := p.blocks[i], p.r.IntN(modelStreams)
	if p.paused[b.on] || p.paused[also] { // as above
		return nil
	}
	if err := p.read(b); err != nil {
		return err
	}
	return p.freeAfterOf(i, p.streams[b.on], p.streams[also])
}

func (p *model) freeAfterOf(i int, streams ...*arena.Stream) error {
	b := p.blocks[i]
	err := p.d.FreeAfter(b.Block, streams...)
	if assert.Equal(p.t, err != nil, b.Valid()); err == nil {
		p.frees++
		p.stale = append(p.stale, b.Block)
		p.blocks = append(p.blocks[:i], p.blocks[i+1:]...)
	}
	return err
}

// retire closes a stream with its work and opens another one, which does not wait for it. The
// blocks are freed after that.
func (p *model) retire() error {
	on := p.r.IntN(modelStreams)
	if p.paused[on] {
		return nil
	}
	h, err := p.newHandle()
	if err != nil {
		return err
	}
	old := p.streams[on]
	for _, b := range p.blocks {
		if b.on == on {
			err = errors.Join(err, p.read(b))
		}
	}
	p.streams[on] = p.d.NewStream(h)
	err = errors.Join(err, old.Close(), p.hot(func() driver.Result { return p.API.StreamDestroy(old.Handle()) }))
	for i := len(p.blocks) - 1; i >= 0; i-- {
		if p.blocks[i].on != on {
			continue
		}
		if failed := p.freeAfterOf(i, old); failed != nil {
			p.blocks[i].on = unknown
			err = errors.Join(err, failed)
		}
	}
	return err
}

func (p *model) wait() error {
	_, err := p.waits(p.r.IntN(modelStreams), p.r.IntN(modelStreams))
	return err
}

func (p *model) trim() error {
	keep := p.r.Uint64N(1 << 17)
	err := p.d.Trim(keep)
	paused := false
	for _, v := range p.paused {
		paused = paused || v
	}
	if err == nil && !paused {
		stats := p.d.Stats()
		assert.LessOrEqual(p.t, stats.Cached-stats.Split, keep)
	}
	return err
}

// reopen closes a stream and opens another one. What was on it goes on there.
func (p *model) reopen() error {
	on := p.r.IntN(modelStreams)
	h, err := p.newHandle()
	if err != nil {
		return err
	}
	if p.paused[on] {
		p.streams[on].Capture(false)
		p.paused[on] = false
	}
	old := p.streams[on]
	s := p.d.NewStream(h)
	if err := s.Wait(old); err != nil {
		return errors.Join(err, s.Close())
	}
	p.streams[on] = s
	err = old.Close()
	return errors.Join(err, p.hot(func() driver.Result { return p.API.StreamDestroy(old.Handle()) }))
}

// pause makes the arena believe that a stream captures, and that it does not.
func (p *model) pause() error {
	on := p.r.IntN(modelStreams)
	p.paused[on] = !p.paused[on]
	p.streams[on].Capture(p.paused[on])
	return nil
}

func (p *model) freeStale() error {
	if len(p.stale) > 0 {
		b := p.stale[p.r.IntN(len(p.stale))]
		assert.ErrorIs(p.t, p.streams[p.r.IntN(modelStreams)].Free(b), driver.ErrInvalidArgument)
		assert.Zero(p.t, b.Ptr())
	}
	return nil
}

// finish frees everything, closes the arena and looks at what was read.
func (p *model) finish() (lost uint64) {
	for on, paused := range p.paused {
		if paused {
			p.streams[on].Capture(false)
		}
	}
	for i := len(p.blocks) - 1; i >= 0; i-- {
		if p.blocks[i].on == unknown {
			continue
		}
		if err := p.freeOn(i, p.blocks[i].on); err != nil && !p.faulty {
			p.t.Errorf("free: %v", err)
		}
	}
	err := p.d.Close()
	for _, b := range p.blocks { // of a device that is lost they are still in use, otherwise stale
		_ = p.d.FreeAfter(b.Block)
	}
	stats := exact(p.t, p.d)
	assert.Zero(p.t, stats.Held)
	if p.faulty {
		if err != nil && len(p.reads) == 0 {
			return stats.Lost
		}
	} else {
		assert.NoError(p.t, err)
		assert.Zero(p.t, stats.Lost)
		data := unsafe.Slice((*byte)(p.host), 1<<20)
		for i, want := range p.reads {
			if !assert.Equal(p.t, want, data[i*readBytes], "read %d: the memory was in use by others", i) {
				break
			}
		}
	}
	return stats.Lost
}

// destroy ends what the program had beside the arena.
func (p *model) destroy() {
	_ = p.Do(func() error {
		for _, s := range p.streams {
			p.API.StreamSynchronize(s.Handle())
			p.API.StreamDestroy(s.Handle())
		}
		p.API.MemFreeHost(p.host)
		return nil
	})
}

// TestDeviceModel runs long random programs on slow devices.
func TestDeviceModel(t *testing.T) {
	seeds.Each(t, seeds.Count(3, 12, 12), func(t *testing.T, seed uint64) {
		config := arena.DeviceConfig{CacheBytes: []uint64{0, 1 << 17, arena.NoCache}[seed%3], NoPools: seed%4 == 1,
			Zero: seed%5 == 2, Poison: seed%5 == 3, Sites: seed%6 == 4}
		gpu := drivertest.ForTest(t, drivertest.Config{
			HotPathNeedsContext: seed%4 == 3,
			Chaos:               &drivertest.Chaos{Seed: seed, SlowWork: 0.2, MaxDelay: 100 * time.Microsecond},
		})
		m := machineAt(t, gpu, 0, seed%4 == 3)
		p := newModel(t, m, seed, config, false)
		p.run(600)
		assert.True(t, p.split || config.CacheBytes == arena.NoCache, "a block is split") // without a cache, one that a capture keeps may be
		p.finish()
		p.destroy()
		if t.Failed() {
			t.Logf("config %+v", config)
		}
	})
}

// TestDeviceChaos runs short programs on drivers that fail by chance: nothing hangs, the
// numbers stay exact, and the memory that the driver has not got back is what the arena
// counts as lost.
func TestDeviceChaos(t *testing.T) {
	seeds.Each(t, seeds.Count(200, 2400, 2400), chaos)
}

func chaos(t *testing.T, seed uint64) {
	sticky := []float64{0, 0.3}[seed%2]
	gpu := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{
		Seed: seed, Failures: 0.03, Sticky: sticky, SlowWork: 0.05, MaxDelay: 20 * time.Microsecond,
		Results: map[string][]driver.Result{
			"cuInit": {}, "cuDeviceGet": {}, "cuDevicePrimaryCtxRetain": {}, "cuCtxPopCurrent": {},
		},
	}})
	defer gpu.Close()
	gpu.Init(0)
	context, _ := gpu.DevicePrimaryCtxRetain(0)
	m := &machine{Binding: &driver.Binding{API: gpu, Context: context}}
	config := arena.DeviceConfig{CacheBytes: []uint64{0, 1 << 16}[seed/2%2], NoPools: seed/4%3 == 0,
		Poison: seed/8%4 == 0, Zero: seed/8%4 == 1, Limit: []uint64{0, 1 << 18}[seed/16%2]}
	p := newModel(t, m, seed, config, true)
	if p == nil {
		return
	}
	p.run(60)
	if len(p.streams) < modelStreams {
		p.blocks = nil
	}
	lost := p.finish()
	if gpu.Sticky() != driver.Success {
		return
	}
	// What was given back on a stream comes back when the stream gets there.
	leaked := leakedBytes(gpu)
	for end := time.Now().Add(time.Minute); leaked != lost && time.Now().Before(end); leaked = leakedBytes(gpu) {
		time.Sleep(time.Millisecond)
	}
	assert.Equal(t, lost, leaked, "config %+v: %+v\ninjected: %v", config, p.d.Stats(), gpu.Injected())
}

// leakedBytes is the device memory that the driver has not got back.
func leakedBytes(gpu *drivertest.Driver) (sum uint64) {
	for _, leak := range gpu.Leaks() {
		var bytes uint64
		if strings.Contains(leak, "of device memory") {
			if _, err := fmt.Sscanf(leak, "%d bytes", &bytes); err == nil {
				sum += bytes
			}
		}
	}
	return sum
}
