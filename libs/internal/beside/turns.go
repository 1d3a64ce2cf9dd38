package beside

import (
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/runtime"
)

// turnsVariable names the library built from scripts/baseline/turns.c.
const turnsVariable = "PURECUDA_TURNS_LIBRARY"

// Side makes n calls, one way or another.
type Side struct {
	Name string
	Do   func(n int) error
}

// perTurn is as many calls as fit the queue of a stream.
const perTurn = 256

// Turns times calls of a function of a library in C and in Go, in one process, on one thread and in turns. Between processes a
// call differs by a fifth. The first side is that of C. words are the arguments of the function, whose context must be current.
// What is printed are medians over the turns, in which the stream's work is not waited for.
func Turns(b *testing.B, s *runtime.Stream, library, function string, words []uint64, sides ...Side) {
	path := os.Getenv(turnsVariable)
	if path == "" {
		b.Skipf("%s is not set: it names the library of scripts/baseline/turns.c", turnsVariable)
	}
	loops, _, err := dl.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	lib, _, err := dl.Open(library)
	if err != nil {
		b.Fatal(err)
	}
	loop, f := loops.Symbol("turn_words"), lib.Symbol(function)
	if loop == 0 || f == 0 {
		b.Fatalf("%s or %s lacks a function", path, library)
	}
	all := new([20]uint64) // on the heap, where it does not move
	copy(all[:], words)
	sides = append([]Side{{"C", func(n int) error {
		var c struct {
			ffi.Frame
			f     uintptr
			words *[20]uint64
			n     uintptr
			_     [ffi.RegisterWords - 3]uintptr
		}
		c.f, c.words, c.n = f, all, uintptr(n)
		if failed := c.Call(loop, 3); failed != 0 {
			b.Errorf("%d of %d calls in C failed", failed, n)
		}
		return nil
	}}}, sides...)
	took := make([][]float64, len(sides))
	err = s.Context().Do(func() error {
		for turn := 0; b.Loop(); turn++ {
			for i := range sides {
				i = (turn + i) % len(sides)
				from := time.Now()
				if err := sides[i].Do(perTurn); err != nil {
					return err
				}
				took[i] = append(took[i], float64(time.Since(from).Nanoseconds())/perTurn)
				if err := s.Synchronize(b.Context()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op") // of a turn, which means nothing
	for i, side := range sides {
		slices.Sort(took[i])
		median := took[i][len(took[i])/2]
		b.ReportMetric(median, side.Name+"-ns")
		if i > 0 {
			slices.Sort(took[0])
			b.ReportMetric(median/took[0][len(took[0])/2], side.Name+"/C")
		}
	}
}

// Address is where v lies, for words. v must stay on the heap.
func Address[T any](v *T) uint64 { return uint64(uintptr(unsafe.Pointer(v))) }

// Repeat is a side that calls f so many times.
func Repeat(name string, f func() error) Side {
	return Side{name, func(n int) error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}}
}
