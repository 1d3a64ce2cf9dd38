package kernels

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// primitive is what Scan, Reduce, Select and Sort have in common: their kernels among those of a package, from the first on.
type primitive struct {
	k     *launch.Kernels
	first int
}

// its is the primitive of what has one.
func (p primitive) its() primitive { return p }

// loaded says what is wrong with a primitive that nobody loaded.
func (p primitive) loaded(name string) error {
	if p.k == nil {
		return invalidArgument("%s: the kernels are nil: load them", name)
	}
	return nil
}

// Close unloads the kernels. It does not wait for their work. It may be called twice.
func (p primitive) Close() error { return p.k.Close() }

// launch puts a kernel of the primitive on the stream.
func (p primitive) launch(i int, s *runtime.Stream, grid, block, shared int, args ...runtime.Arg) error {
	return p.k.Launch(p.first+i, s, runtime.Shape{Grid: runtime.Dim3{X: uint32(grid)}, Block: runtime.Dim3{X: uint32(block)}, SharedBytes: uint32(shared)}, args...)
}

// fits says what is wrong with elements of which a block keeps so many in shared memory, beside other bytes.
func fits[T any](p primitive, name string, count, other int) error {
	size := int(sizeOf[T]())
	if count*size+other <= 48<<10 { // which all devices have
		return nil
	}
	d := p.k.Context().Device()
	if most := (max(d.SharedPerBlockOptin, d.SharedPerBlock) - other) / count; size > most {
		return driver.Errorf(driver.ErrUnsupported, "%s: %v has %d bytes, and a device of compute capability %v has room for at most %d each: take a smaller type, such as the index of one",
			name, reflect.TypeFor[T](), size, d.Capability, most)
	}
	return nil
}

// slice is a slice as an argument of a kernel.
func slice[T any](x *runtime.Ref[T], written bool) (memory, length runtime.Arg) {
	if written {
		return runtime.InOut(x), runtime.Value(x.Len())
	}
	return runtime.In(x), runtime.Value(x.Len())
}

// aligned reports whether the memory begins at a multiple of 16 bytes.
func aligned[T any](x *runtime.Ref[T]) bool {
	p, err := x.Access()
	return err == nil && p%16 == 0
}

// operand is what a call reads of in. That may be out, from its begin on.
func operand[T any](name string, in, out *runtime.Ref[T]) launch.Span {
	if a, err := in.Access(); err == nil {
		if b, err := out.Access(); err == nil && a == b {
			return launch.Span{}
		}
	}
	return launch.Device(name, in, false)
}

// operandOnCPU is [operand] for slices of the program.
func operandOnCPU[T any](name string, in, out []T) launch.Span {
	if unsafe.SliceData(in) == unsafe.SliceData(out) {
		return launch.Span{}
	}
	return launch.Host(name, in, false)
}

// memory is a Ref.
type memory interface {
	Access() (driver.DevicePtr, error)
}

// nothing says what is wrong with the stream and the Refs of a call that has nothing to do. Else the launch says so.
func nothing(s *runtime.Stream, refs ...memory) error {
	if err := usable(refs...); err != nil {
		return err
	}
	return s.Err()
}

// usable says what is wrong with Refs that no launch takes.
func usable(refs ...memory) error {
	for _, r := range refs {
		if _, err := r.Access(); err != nil {
			return err
		}
	}
	return nil
}

func sizeOf[T any]() uintptr {
	var zero T
	return unsafe.Sizeof(zero)
}

// totals is how many words and values so many tiles need to say what is as long as size.
func totals(tileCount int, size uintptr) (words, values int) {
	count := tiles.TotalsLen(tileCount)
	if size > 8 {
		values = count
	}
	return tiles.Words + count*tiles.TotalWords(size), values
}

// totalsBytes is how many bytes of scratch those are.
func totalsBytes[T any](tileCount int) int {
	words, values := totals(tileCount, sizeOf[T]())
	return room256(8*words) + room256(values*int(sizeOf[T]()))
}

// cutTotals takes the memory for what tiles say, and clears it by kernel number clear.
func cutTotals[T any](c *scratch, s *runtime.Stream, p primitive, clear, tileCount int) (words *runtime.Ref[uint64], values *runtime.Ref[T], err error) {
	w, v := totals(tileCount, sizeOf[T]())
	if words, err = cut[uint64](c, w); err != nil {
		return nil, nil, err
	}
	if values, err = cut[T](c, v); err != nil {
		return nil, nil, err
	}
	x, n := slice(words, true)
	return words, values, p.launch(clear, s, min(ceil(w, tiles.TileThreads), 1024), tiles.TileThreads, 0, x, n)
}

// ceil is n/by, rounded up.
func ceil(n, by int) int { return (n + by - 1) / by }

// room256 rounds a size up, so that the next thing is aligned.
func room256(bytes int) int { return (bytes + 255) &^ 255 }

// scratch is memory for the time of a call: that of the caller, or of the arena.
type scratch struct {
	all  *runtime.Ref[byte]
	own  bool
	next int
}

// newScratch takes what the caller gives, which may be nothing.
func newScratch(name string, s *runtime.Stream, bytes int, given *runtime.Ref[byte]) (*scratch, error) {
	if given != nil {
		if given.Len() < bytes {
			return nil, invalidArgument("%s: the scratch memory has %d bytes, and Scratch says %d", name, given.Len(), bytes)
		}
		if _, err := given.Access(); err != nil {
			return nil, err
		}
		if !aligned(given) {
			return nil, invalidArgument("%s: the scratch memory begins at no multiple of 16 bytes", name)
		}
		return &scratch{all: given}, nil
	}
	all, err := runtime.Alloc[byte](s, bytes)
	if errors.Is(err, driver.ErrCaptureFailed) {
		no := driver.Errorf(driver.ErrCaptureFailed, "%s: give %d bytes of scratch memory, as Scratch says, where the stream is captured", name, bytes)
		no.Err = err
		err = no
	}
	return &scratch{all: all, own: true}, err
}

// cut takes n elements.
func cut[T any](c *scratch, n int) (*runtime.Ref[T], error) {
	bytes := n * int(sizeOf[T]())
	part := c.all.Slice(c.next, c.next+bytes)
	c.next += room256(bytes)
	return runtime.Cast[T](part)
}

// close frees the memory, after the work that uses it.
func (c *scratch) close() {
	if c.own {
		_ = c.all.Close() // what goes wrong with that changes no result
	}
}
