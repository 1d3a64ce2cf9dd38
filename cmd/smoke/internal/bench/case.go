package bench

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/runtime"
)

// Machine is what is measured.
type Machine struct {
	// Runtime has the GPUs; nil where there are none.
	Runtime *runtime.Runtime
	// Devices are those to measure, in the order in which they are added. Their contexts are
	// open.
	Devices []runtime.Device
	// Engine is the engine of the main job on the first n devices. Closing it leaves the
	// runtime open.
	Engine func(n int) job.Engine
	// Simulated says that the devices are simulated: they get a ten-thousandth of the work.
	Simulated bool
	// Cores is how many cores of the CPU there are.
	Cores int
}

// Case is one measurement.
type Case struct {
	// Name is as of a Go benchmark without "Benchmark" and the number of cores:
	// "Copy/dir=upload/host=slice/size=1MiB".
	Name string
	// Bytes is what one operation moves or hashes; 0 where that has no meaning.
	Bytes int64
	// Hashes is how many SHA-256 digests one operation computes, or 0.
	Hashes int64

	op    op
	suite *suite
	// requests notes what each request took, where that is measured, or is nil.
	requests *requests
	// size is the break-even that was measured last, 0 if there is none, and its table; or nil.
	size func() (items int, table string)
}

// op does n operations and returns the time that they took.
type op func(ctx context.Context, n int) (time.Duration, error)

// suite is cases that share what open makes. Its cases see it through the variables that open
// sets; what is to be closed after the last case goes to the closers.
type suite struct {
	open  func(ctx context.Context, c *closers) error
	cases []Case
}

func (s *suite) add(c Case) { s.cases = append(s.cases, c) }

// Family is the name up to the first slash.
func (c Case) Family() string {
	family, _, _ := strings.Cut(c.Name, "/")
	return family
}

// List is what can be measured on the machine, in order.
func List(m *Machine, sizes Sizes) []Case {
	var suites []*suite
	if len(m.Devices) > 0 {
		suites = append(suites, calls(m), allocs(m), copies(m, sizes), peers(m, sizes), graphs(m), waits(m), services(m), scatters(m), breakEven(m), scaling(m))
	} else {
		suites = append(suites, cores(m))
	}
	suites = append(suites, jobs(m, sizes))
	var all []Case
	for _, s := range suites {
		for _, c := range s.cases {
			c.suite = s
			all = append(all, c)
		}
	}
	return all
}

// Select keeps the cases whose name matches.
func Select(all []Case, only *regexp.Regexp) []Case {
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool { return !only.MatchString(c.Name) })
}

// upTo is 1, 2, 4 and so on, and n.
func upTo(n int) (counts []int) {
	for i := 1; i < n; i *= 2 {
		counts = append(counts, i)
	}
	return append(counts, n)
}

// closers close what was opened, the last first.
type closers struct{ all []func() error }

func (c *closers) later(f func() error) { c.all = append(c.all, f) }

func (c *closers) close() error {
	var errs []error
	for _, f := range slices.Backward(c.all) {
		errs = append(errs, f())
	}
	c.all = nil
	return errors.Join(errs...)
}

// opened notes that a value is to be closed, and passes it and the error on.
func opened[T interface{ Close() error }](c *closers, value T, err error) (T, error) {
	if err == nil {
		c.later(value.Close)
	}
	return value, err
}
