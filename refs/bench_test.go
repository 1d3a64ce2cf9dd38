package refs_test

import (
	"testing"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

func BenchmarkAccess(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	r := alloc(b, m, m.stream(b), 1000)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Access(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	r := alloc(b, m, m.stream(b), 1000)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Acquire(); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkUseSameStream(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	s := m.stream(b)
	r := alloc(b, m, s, 1000)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Core().Use(s, true); err != nil {
			b.Fatal(err)
		}
	}
}

// A reader on a second stream: it has waited once and need not wait again.
func BenchmarkUseSecondReader(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	s, other := m.stream(b), m.stream(b)
	r := alloc(b, m, s, 1000)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Core().Use(other, false); err != nil {
			b.Fatal(err)
		}
	}
}

// What a launch with three arguments pays.
func BenchmarkThreeArguments(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	s := m.stream(b)
	var cores [3]*refs.Core
	for i := range cores {
		r := alloc(b, m, s, 1000)
		defer r.Close()
		cores[i] = r.Core()
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range cores {
			if _, err := c.Acquire(); err != nil {
				b.Fatal(err)
			}
			if err := c.Use(s, true); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range cores {
			c.Release()
		}
	}
}

func BenchmarkNewClose(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	s := m.stream(b)
	b.ReportAllocs()
	for b.Loop() {
		r, err := refs.New[uint32](m.state, s, 1000)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSlice(b *testing.B) {
	m := newMachine(b, drivertest.Config{})
	r := alloc(b, m, m.stream(b), 1000)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if v := r.Slice(10, 20); v.Len() != 10 {
			b.Fatal(v)
		}
	}
}
