package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times are turns of one side with normal noise.
func times(r *rand.Rand, n int, median, noise float64) (turns []float64) {
	for range n {
		turns = append(turns, median*math.Exp(noise*r.NormFloat64()))
	}
	return turns
}

// How often a change is said to be worse, of 2000 figures of each kind.
func TestTheRule(t *testing.T) {
	for _, c := range []struct {
		name            string
		turns           int
		change, noise   float64
		fewest, longest float64 // parts of the figures that are worse
	}{
		{"nothing has changed, and there is little noise", 6, 1, 0.01, 0, 0},
		{"nothing has changed, and noise of 10 %", 6, 1, 0.10, 0, 0.007},
		{"nothing has changed, and noise of 10 %, measured again", 12, 1, 0.10, 0, 0.001},
		{"a loss of 10 %, and noise of 1 %", 6, 1.10, 0.01, 0.97, 1},
		{"a loss of 10 %, and noise of 2 %, measured again", 12, 1.10, 0.02, 0.75, 1},
		{"a loss of 4 %", 6, 1.04, 0.002, 0, 0},
		{"three times as slow, and noise of 20 %", 6, 3, 0.20, 0.97, 1},
		{"10 % better", 6, 0.90, 0.01, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, bad := rand.New(rand.NewPCG(1, 2)), 0
			for range 2000 {
				f := figure{Unit: "ns/op", Old: times(r, c.turns, 1000, c.noise), New: times(r, c.turns, 1000*c.change, c.noise)}
				if _, _, v := f.compare(); v == worse {
					bad++
				}
			}
			assert.GreaterOrEqual(t, float64(bad)/2000, c.fewest)
			assert.LessOrEqual(t, float64(bad)/2000, c.longest)
		})
	}
}

func TestVerdicts(t *testing.T) {
	six := func(v float64) []float64 { return []float64{v, v, v, v, v, v} }
	for _, c := range []struct {
		name, unit string
		old, new   []float64
		want       verdict
	}{
		{"a time that grows", "p99-ns", six(100), six(111), worse},
		{"a time that shrinks", "p50-ns", six(100), six(80), better},
		{"a rate that grows", "req/s", six(100), six(120), better},
		{"a rate that shrinks", "req/s", six(100), six(90), worse},
		{"cores are told", "cores", six(1), six(10), same},
		{"the first allocation", "allocs/op", six(0), six(1), worse},
		{"no allocations", "allocs/op", six(0), six(0), same},
		{"the last allocation", "allocs/op", six(1), six(0), better},
		{"an allocation now and then", "allocs/op", six(0), []float64{0, 1, 0, 0, 1, 0}, same},
		{"new", "ns/op", nil, six(1), notInOld},
		{"two turns", "ns/op", []float64{1, 1}, six(9), tooFew},
		{"none of the new", "ns/op", six(1), nil, tooFew},
		{"a process that was slow", "ns/op", six(100), []float64{100, 100, 100, 101, 160, 160}, same},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, v := figure{Unit: c.unit, Old: c.old, New: c.new}.compare()
			assert.Equal(t, verdicts[c.want], verdicts[v])
		})
	}
}

// testdata/same.json was recorded: a commit beside itself, on the simulated driver and a busy machine with two cores.
func TestRecorded(t *testing.T) {
	read := func() *ledger {
		l, err := readLedger("testdata/same.json")
		require.NoError(t, err)
		return l
	}
	var out strings.Builder
	code, err := read().result(&out)
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Contains(t, out.String(), "0 worse")

	l, changed := read(), 0
	for i := range l.Figures {
		f := &l.Figures[i]
		if f.Unit == "ns/op" { // now it is 10 % slower, beyond the noise
			slower := 1.1 * math.Exp(math.Hypot(spread(f.Old), spread(f.Old)))
			f.New = nil
			for _, v := range f.Old {
				f.New = append(f.New, slower*v)
			}
			changed++
		}
	}
	require.Positive(t, changed)
	out.Reset()
	code, err = l.result(&out)
	assert.Equal(t, exitWorse, code)
	assert.ErrorContains(t, err, "more than 5 % worse")
	assert.Equal(t, changed, strings.Count(out.String(), "\nworse: "))
}

func TestResult(t *testing.T) {
	good := figure{Name: "A", Unit: "ns/op", Old: []float64{1, 1, 1}, New: []float64{1, 1, 1}}
	for _, c := range []struct {
		name, want string
		l          ledger
	}{
		{"nothing", "nothing was compared", ledger{}},
		{"only new", "nothing was compared", ledger{Figures: []figure{{Unit: "ns/op", New: good.New}}}},
		{"a failure", "1 benchmarks failed", ledger{Figures: []figure{good}, Failures: []string{"B: broken"}}},
		{"few turns", "1 figures have less than 3 turns", ledger{Figures: []figure{good, {Unit: "ns/op", Old: good.Old[:1], New: good.New}}}},
	} {
		var out strings.Builder
		code, err := c.l.result(&out)
		assert.Equal(t, exitWorse, code, c.name)
		assert.ErrorContains(t, err, c.want, c.name)
	}
	l := ledger{Figures: []figure{good}, Notes: []string{"not in 63ddaaa: Do"}}
	var out strings.Builder
	code, err := l.result(&out)
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Contains(t, out.String(), "note: not in 63ddaaa: Do")
}

func TestFormat(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00 ns", 5: "5.00 ns", 999: "999 ns", 5321: "5.32 us", 53210: "53.2 us", 532100: "532 us", 2.5e9: "2.50 s", 4e12: "4000 s"} {
		assert.Equal(t, want, formatNanoseconds(v))
	}
	for v, want := range map[float64]float64{0: 0, 123456: 123500, 0.0123456: 0.01235, 9: 9} {
		assert.InDelta(t, want, rounded(v), 1e-9)
	}
	assert.Equal(t, "64KiB", sizeName(64<<10))
	assert.Equal(t, "1GiB", sizeName(1<<30))
}
