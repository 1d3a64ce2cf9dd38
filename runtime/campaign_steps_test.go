package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// place opens the context of a random device.
func (c *campaign) place() (*place, error) {
	n := c.chance.IntN(len(c.places))
	if c.places[n] == nil {
		var ctx *runtime.Context
		err, wrong := c.call("Context", func() (err error) {
			ctx, err = c.rt.Context(c.rt.Devices()[n].Ordinal)
			return err
		})
		if err != nil && c.struck("cuCtxPushCurrent") {
			c.halfOpen++
		}
		if err != nil || wrong != nil {
			return nil, wrong
		}
		c.places[n] = &place{c: ctx}
	}
	return c.places[n], nil
}

// one takes a random element, or the zero value of none.
func pickFrom[T any](chance *rand.Rand, from []T) (one T) {
	if len(from) > 0 {
		one = from[chance.IntN(len(from))]
	}
	return one
}

// step makes one random step. It returns what is wrong.
func (c *campaign) step() error {
	p, wrong := c.place()
	if p == nil || wrong != nil {
		return wrong
	}
	steps := []func(*place) error{
		c.makeStream, c.makeEvent, c.makeBuffer, c.makeBuffer, c.makeHost, c.makeModule, c.makeKernel,
		c.useContext, c.useStream, c.useEvent, c.useEvent, c.closeOne,
		c.upload, c.uploadPinned, c.fill, c.launch, c.launch, c.copyWithin, c.copyAcross, c.download, c.download, c.downloadPinned,
	}
	return steps[c.chance.IntN(len(steps))](p)
}

func (c *campaign) makeStream(p *place) error {
	if c.chance.IntN(4) == 0 {
		label := fmt.Sprint("label ", c.chance.IntN(3))
		_, wrong := c.call("Probe", func() error {
			b, err := c.rt.Probe(label)
			if err == nil {
				for _, d := range b.Skipped {
					c.hear(d.Err)
				}
			}
			return err
		})
		return wrong
	}
	_, wrong := c.call("NewStream", func() error {
		s, err := p.c.NewStreamWithPriority(-c.chance.IntN(3))
		if err == nil {
			p.streams = append(p.streams, s)
		}
		return err
	})
	return wrong
}

func (c *campaign) makeEvent(p *place) error {
	_, wrong := c.call("NewEvent", func() error {
		e, err := p.c.NewTimingEvent()
		if err == nil {
			p.events = append(p.events, e)
		}
		return err
	})
	return wrong
}

func (c *campaign) makeBuffer(p *place) error {
	s := pickFrom(c.chance, p.streams)
	if s == nil {
		return c.makeStream(p)
	}
	n := 1 + c.chance.IntN(2000)
	_, wrong := c.call("Alloc", func() error {
		b, err := runtime.Alloc[uint32](s, n)
		if err == nil {
			p.buffers = append(p.buffers, &content{buffer: b, stream: s})
		}
		return err
	})
	return wrong
}

func (c *campaign) makeHost(p *place) error {
	// Whether memory is leased again, or the driver is asked for more, is a matter of time.
	leased := c.chance.IntN(2) == 0 && !c.steady
	_, wrong := c.call(map[bool]string{false: "AllocHost", true: "LeaseHost"}[leased], func() error {
		h, err := hostMemory[uint32](leased, p.c, 1+c.chance.IntN(2000))
		if err == nil {
			p.hosts = append(p.hosts, h)
		}
		return err
	})
	return wrong
}

func (c *campaign) makeModule(p *place) error {
	_, wrong := c.call("LoadModule", func() error {
		m, err := p.c.LoadModule(runtime.Image{Code: addPTX()})
		if err == nil {
			p.modules = append(p.modules, m)
		}
		return err
	})
	return wrong
}

// addPTX is the kernel add alone, which is read faster.
var addPTX = sync.OnceValue(func() []byte {
	head, _, _ := strings.Cut(string(kernelsPTX), ".visible")
	_, add, _ := strings.Cut(string(kernelsPTX), ".entry add(")
	add, _, _ = strings.Cut(add, "\n}")
	return []byte(head + ".visible .entry add(" + add + "\n}\n")
})

func (c *campaign) makeKernel(p *place) error {
	m := pickFrom(c.chance, p.modules)
	if m == nil {
		return c.makeModule(p)
	}
	_, wrong := c.call("Kernel", func() error {
		k, err := m.Kernel("add")
		if err == nil {
			p.kernels = append(p.kernels, k)
		}
		return err
	})
	return wrong
}

func (c *campaign) useContext(p *place) error {
	var wrong error
	if c.chance.IntN(2) == 0 {
		_, wrong = c.call("MemInfo", func() error { _, _, err := p.c.MemInfo(); return err })
	} else {
		_, wrong = c.call("Context.Synchronize", p.c.Synchronize)
	}
	return wrong
}

func (c *campaign) useStream(p *place) error {
	s := pickFrom(c.chance, p.streams)
	if s == nil {
		return c.makeStream(p)
	}
	var wrong error
	switch c.chance.IntN(4) {
	case 0:
		_, wrong = c.call("Stream.Query", func() error { _, err := s.Query(); return err })
	case 1:
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, wrong = c.call("Stream.Synchronize", func() error { return s.Synchronize(ctx) })
	case 2:
		_, wrong = c.call("Stream.Synchronize", func() error { return s.Synchronize(context.Background()) })
	case 3:
		_, wrong = c.call("Stream.LaunchHostFunc", func() error { return s.LaunchHostFunc(func() {}) })
	}
	return wrong
}

func (c *campaign) useEvent(p *place) error {
	s, e := pickFrom(c.chance, p.streams), pickFrom(c.chance, p.events)
	if s == nil || e == nil {
		return c.makeEvent(p)
	}
	var wrong error
	switch c.chance.IntN(5) {
	case 0, 1:
		_, wrong = c.call("Event.Record", func() error { return e.Record(s) })
	case 2:
		other := pickFrom(c.chance, c.places)
		if other == nil || pickFrom(c.chance, other.streams) == nil {
			return nil
		}
		_, wrong = c.call("Stream.Wait", func() error { return pickFrom(c.chance, other.streams).Wait(e) })
	case 3:
		_, wrong = c.call("Event.Query", func() error { _, err := e.Query(); return err })
	case 4:
		_, wrong = c.call("Event.Synchronize", func() error { return e.Synchronize(context.Background()) })
	}
	return wrong
}

// closeOne closes an object and lets go of it, whatever Close says.
func (c *campaign) closeOne(p *place) error {
	var o interface{ Close() error }
	switch c.chance.IntN(5) {
	case 0:
		if e := pickFrom(c.chance, p.events); e != nil {
			o, p.events = e, without(p.events, e)
		}
	case 1:
		s := pickFrom(c.chance, p.streams)
		if s == nil || slices.ContainsFunc(p.buffers, func(x *content) bool { return x.stream == s }) {
			return nil
		}
		o, p.streams = s, without(p.streams, s)
	case 2:
		if x := pickFrom(c.chance, p.buffers); x != nil {
			o, p.buffers = x.buffer, without(p.buffers, x)
		}
	case 3:
		if h := pickFrom(c.chance, p.hosts); h != nil {
			o, p.hosts = h, without(p.hosts, h)
		}
	case 4:
		if m := pickFrom(c.chance, p.modules); m != nil {
			o, p.modules = m, without(p.modules, m)
			p.kernels = slices.DeleteFunc(p.kernels, func(k *runtime.Kernel) bool { return k.Module() == m })
		}
	}
	if o == nil {
		return nil
	}
	if c.cause != driver.Success { // nothing can be given back, and nobody has to hear of it
		if err := o.Close(); err != nil {
			return fmt.Errorf("closing %T after CUDA was lost: %w", o, err)
		}
		return nil
	}
	_, wrong := c.call(fmt.Sprintf("Close of %T", o), o.Close)
	if err := o.Close(); err != nil {
		return fmt.Errorf("closing %T twice: %w", o, err)
	}
	return wrong
}

func without[T comparable](from []T, one T) []T {
	return slices.DeleteFunc(from, func(v T) bool { return v == one })
}

// change makes a call that writes a buffer. If it fails because the driver refused it,
// nothing has happened; partial tells that a failure leaves the content unknown.
func (c *campaign) change(name string, x *content, partial bool, want []uint32, f func() error) error {
	err, wrong := c.call(name, f)
	switch {
	case err == nil:
		x.want = want
	case partial:
		x.want = nil
	}
	return wrong
}

func (c *campaign) upload(p *place) error {
	x := pickFrom(c.chance, p.buffers)
	if x == nil {
		return c.makeBuffer(p)
	}
	data := count(c.chance.Uint32(), x.buffer.Len())
	return c.change("Upload", x, true, data, func() error { return runtime.Upload(bg, x.stream, x.buffer, data) })
}

func (c *campaign) fill(p *place) error {
	x := pickFrom(c.chance, p.buffers)
	if x == nil {
		return c.makeBuffer(p)
	}
	v := c.chance.Uint32()
	want := slices.Repeat([]uint32{v}, x.buffer.Len())
	return c.change("Fill", x, false, want, func() error { return runtime.Fill(x.stream, x.buffer, v) })
}

func (c *campaign) launch(p *place) error {
	x, k := pickFrom(c.chance, p.buffers), pickFrom(c.chance, p.kernels)
	switch {
	case x == nil:
		return c.makeBuffer(p)
	case k == nil:
		return c.makeKernel(p)
	case x.want == nil:
		return c.fill(p)
	}
	amount := c.chance.Uint32()
	want := slices.Clone(x.want)
	for i := range want {
		want[i] += amount
	}
	return c.change("Launch", x, false, want, func() error { return addTo(k, x.stream, x.buffer, amount) })
}

func (c *campaign) download(p *place) error {
	x := pickFrom(c.chance, p.buffers)
	if x == nil {
		return c.makeBuffer(p)
	}
	got := make([]uint32, x.buffer.Len())
	err, wrong := c.call("Download", func() error { return runtime.Download(bg, x.stream, got, x.buffer) })
	if err == nil && wrong == nil && x.want != nil && !slices.Equal(x.want, got) {
		return fmt.Errorf("downloaded %v..., want %v...", got[0], x.want[0])
	}
	return wrong
}

// pinned finds a buffer and page-locked memory, and the length of both.
func (c *campaign) pinned(p *place) (x *content, h *runtime.HostBuffer[uint32], n int) {
	x, h = pickFrom(c.chance, p.buffers), pickFrom(c.chance, p.hosts)
	if x != nil && h != nil {
		n = min(x.buffer.Len(), h.Len())
	}
	return x, h, n
}

func (c *campaign) uploadPinned(p *place) error {
	x, h, n := c.pinned(p)
	if n == 0 {
		return c.makeHost(p)
	}
	data := count(c.chance.Uint32(), n)
	copy(h.Data(), data)
	var want []uint32
	if x.want != nil {
		want = slices.Concat(data, x.want[n:])
	}
	wrong := c.change("UploadHost", x, false, want, func() error {
		return runtime.UploadHost(x.stream, x.buffer.Slice(0, n), h.Slice(0, n))
	})
	if wrong == nil {
		_, wrong = c.settle(x.stream)
	}
	return wrong
}

func (c *campaign) downloadPinned(p *place) error {
	x, h, n := c.pinned(p)
	if n == 0 {
		return c.makeHost(p)
	}
	err, wrong := c.call("DownloadHost", func() error {
		return runtime.DownloadHost(x.stream, h.Slice(0, n), x.buffer.Slice(0, n))
	})
	if wrong != nil {
		return wrong
	}
	settled, wrong := c.settle(x.stream)
	if err == nil && settled && wrong == nil && x.want != nil && !slices.Equal(x.want[:n], h.Data()[:n]) {
		return fmt.Errorf("downloaded %v..., want %v...", h.Data()[0], x.want[0])
	}
	return wrong
}

func (c *campaign) copyWithin(p *place) error {
	x, y := pickFrom(c.chance, p.buffers), pickFrom(c.chance, p.buffers)
	if x == y {
		return c.makeBuffer(p)
	}
	return c.copy(y, x)
}

func (c *campaign) copyAcross(p *place) error {
	other := pickFrom(c.chance, c.places)
	if other == nil || other == p {
		return nil
	}
	x, y := pickFrom(c.chance, other.buffers), pickFrom(c.chance, p.buffers)
	if x == nil || y == nil {
		return c.makeBuffer(p)
	}
	return c.copy(y, x)
}

// copy copies between buffers of two streams, which wait for each other.
func (c *campaign) copy(to, from *content) error {
	settled, wrong := c.settle(from.stream)
	if !settled {
		return wrong
	}
	n := min(to.buffer.Len(), from.buffer.Len())
	var want []uint32
	if to.want != nil && from.want != nil {
		want = slices.Concat(from.want[:n], to.want[n:])
	}
	wrong = c.change("Copy", to, false, want, func() error {
		return runtime.Copy(to.stream, to.buffer.Slice(0, n), from.buffer.Slice(0, n))
	})
	if wrong == nil {
		_, wrong = c.settle(to.stream)
	}
	return wrong
}

// settle waits for a stream, and again if the wait is refused. It fails where the
// stream will never be asked successfully.
func (c *campaign) settle(s *runtime.Stream) (settled bool, wrong error) {
	for range 100 {
		err, wrong := c.call("Stream.Synchronize", func() error { return s.Synchronize(context.Background()) })
		if err == nil || wrong != nil || c.cause != driver.Success {
			return err == nil, wrong
		}
	}
	if c.gone {
		return false, nil
	}
	return false, errors.New("a stream is never done")
}
