package runtime_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// Many goroutines use everything at the same time, each with its own stream and all
// with the same contexts and modules.
func TestStress(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		var contexts []*runtime.Context
		var kernels []*runtime.Kernel
		for place := range min(2, len(rt.Devices())) {
			contexts = append(contexts, contextAt(t, rt, place))
			kernels = append(kernels, kernel(t, contexts[place], "add"))
		}
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				at := g % len(contexts)
				for round := range 20 {
					if err := stressOnce(rt, contexts, kernels, at, uint32(g*1000+round)); !assert.NoError(t, err) {
						return
					}
				}
			})
		}
		wg.Wait()
		assert.Zero(t, rt.Stats().Errors)
	})
}

// stressOnce moves data to one device, works on it, moves it on to the next one and
// back.
func stressOnce(rt *runtime.Runtime, contexts []*runtime.Context, kernels []*runtime.Kernel, at int, seed uint32) error {
	next := (at + 1) % len(contexts)
	c, other := contexts[at], contexts[next]
	n := 1 + int(seed%977)
	b, err := rt.Probe(fmt.Sprint("label ", seed%5))
	if err != nil {
		return err
	}
	if _, err := b.Stream.Query(); err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	onOther, err := other.NewStream()
	if err != nil {
		return err
	}
	defer onOther.Close()
	done, err := c.NewEvent()
	if err != nil {
		return err
	}
	defer done.Close()
	x, err := runtime.Alloc[uint32](s, n)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := runtime.Alloc[uint32](onOther, n)
	if err != nil {
		return err
	}
	defer y.Close()
	h, err := hostMemory[uint32](seed%2 == 0, c, n)
	if err != nil {
		return err
	}
	defer h.Close()
	copy(h.Data(), count(seed, n))
	got := make([]uint32, n)
	for _, step := range []func() error{
		func() error { return runtime.UploadHost(s, x, h) },
		func() error { return addTo(kernels[at], s, x, 3) },
		func() error { return done.Record(s) },
		func() error { return onOther.Wait(done) },
		func() error { return runtime.Copy(onOther, y, x) },
		func() error { return addTo(kernels[next], onOther, y, 4) },
		func() error { return runtime.Download(bg, onOther, got, y) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	rt.Stats()
	if !slices.Equal(got, count(seed+7, n)) {
		return fmt.Errorf("wrong result: %v", got)
	}
	return nil
}

// model is a buffer and what it should hold.
type model struct {
	buffer *runtime.Ref[uint32]
	want   []uint32
}

// part is a random view of the buffer and of the model, at least min elements long.
func (m model) part(r *rand.Rand, length int) (*runtime.Ref[uint32], []uint32) {
	i := r.IntN(len(m.want) - length + 1)
	j := i + length
	if r.IntN(2) == 0 { // by two steps
		return m.buffer.Slice(i, len(m.want)).Slice(0, length), m.want[i:j]
	}
	return m.buffer.Slice(i, j), m.want[i:j]
}

// Random sequences of operations give what they give on Go slices.
func TestBuffersBehaveLikeSlices(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		seeds.Each(t, 8, func(t *testing.T, seed uint64) { compareWithSlices(t, rt, seed) })
	})
}

func compareWithSlices(t *testing.T, rt *runtime.Runtime, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	var live []model
	for step := range 400 {
		if len(live) == 0 || len(live) < 6 && r.IntN(8) == 0 {
			n := 1 + r.IntN(500)
			m := model{alloc[uint32](t, s, n), make([]uint32, n)}
			require.NoError(t, runtime.Zero(s, m.buffer))
			live = append(live, m)
		}
		at := r.IntN(len(live))
		m, other := live[at], live[r.IntN(len(live))]
		length := r.IntN(min(len(m.want), len(other.want)) + 1)
		view, want := m.part(r, length)
		value := r.Uint32()
		var err error
		switch op := r.IntN(9); op {
		case 0:
			data := count(value, length)
			err = runtime.Upload(bg, s, view, data)
			copy(want, data)
		case 1:
			got := make([]uint32, length)
			err = runtime.Download(bg, s, got, view)
			require.Equal(t, append([]uint32{}, want...), got, step)
		case 2:
			err = runtime.Fill(s, view, value)
			for i := range want {
				want[i] = value
			}
		case 3:
			err = runtime.Zero(s, view)
			clear(want)
		case 4:
			if other.buffer == m.buffer {
				continue // the two may overlap, which a device does not allow
			}
			from, data := other.part(r, length)
			err = runtime.Copy(s, view, from)
			copy(want, data)
		case 5:
			err = addTo(k, s, view, value)
			for i := range want {
				want[i] += value
			}
		case 6:
			h := allocHost[uint32](t, c, length)
			copy(h.Data(), count(value, length))
			err = runtime.UploadHost(s, view, h)
			copy(want, count(value, length))
			synchronize(t, s)
			require.NoError(t, h.Close())
		case 7:
			if r.IntN(4) == 0 {
				synchronize(t, s)
				require.NoError(t, m.buffer.Close())
				live = slices.Delete(live, at, at+1)
			}
		case 8:
			err = view.Close() // closes nothing
		}
		require.NoError(t, err, step)
	}
	for _, m := range live {
		require.Equal(t, m.want, download(t, s, m.buffer))
	}
}
