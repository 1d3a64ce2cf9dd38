// Package seeds runs the campaigns of the tests: the same program with many seeds.
//
//	PURECUDA_SEEDS=10000          so many seeds
//	PURECUDA_FIRST_SEED=5000000   from this one on, for seeds that were never used
//	PURECUDA_SEED=42              this seed alone, 20 times: the scheduler has its part
//	PURECUDA_LONG=1               as many seeds as the gate runs, and the tests that take longest
package seeds

import (
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	racedetector "github.com/purecuda/purecuda/internal/race"
)

// Program is what a campaign does with one seed.
type Program interface {
	Run() error
	// Describe returns what to print with a failure: the faults that were injected, a trace.
	Describe() string
}

const (
	repeats     = 20
	patience    = 2 * time.Minute // for one seed
	failuresMax = 3
)

// Run runs the program of each seed, on as many goroutines as there are processors, and fails the test
// with the seeds whose programs fail. count is how many seeds there are unless the environment
// says otherwise. A program that hangs ends the process, see [Watch].
func Run[P Program](t *testing.T, count int, program func(seed uint64) P) {
	t.Helper()
	nth, seeds := choose(t, count)
	var next, failures atomic.Uint64
	var workers sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failures.Load() < failuresMax {
				n := next.Add(1) - 1
				if n >= seeds {
					return
				}
				seed := nth(n)
				p := program(seed)
				stop := Watch(seed, p)
				err := p.Run()
				stop()
				if err != nil {
					failures.Add(1)
					t.Errorf("%s: %v\n%s", repeat(seed), err, p.Describe())
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds from %d on", seeds, nth(0))
}

// Each is Run for programs that are tests: it runs each seed as a subtest, one after the other.
func Each(t *testing.T, count int, test func(t *testing.T, seed uint64)) {
	t.Helper()
	nth, seeds := choose(t, count)
	failures := 0
	for n := uint64(0); n < seeds && failures < failuresMax; n++ {
		seed := nth(n)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer Watch(seed, nil)()
			test(t, seed)
		})
		if !ok {
			failures++
			t.Error(repeat(seed))
		}
	}
	t.Logf("%d seeds from %d on", seeds, nth(0))
}

// LongVariable is the variable that the gate sets, so that campaigns have their full length.
const LongVariable = "PURECUDA_LONG"

// Long reports whether tests are to take as long as in the gate.
func Long() bool { return os.Getenv(LongVariable) != "" && !testing.Short() }

// Count returns how many seeds or rounds a campaign has: long in the gate, and short elsewhere. Under the race detector
// it has at most race of them.
func Count(short, long, race int) int {
	n := short
	if Long() {
		n = long
	}
	if racedetector.Enabled {
		n = min(n, race)
	}
	return n
}

// choose returns how many seeds to run, and the nth of them.
func choose(t *testing.T, count int) (nth func(n uint64) uint64, seeds uint64) {
	if one, alone := One(t); alone {
		return func(uint64) uint64 { return one }, repeats
	}
	first := variable(t, "PURECUDA_FIRST_SEED", 0)
	return func(n uint64) uint64 { return first + n }, variable(t, "PURECUDA_SEEDS", uint64(count))
}

func repeat(seed uint64) string {
	return fmt.Sprintf("seed %d (PURECUDA_SEED=%d repeats it)", seed, seed)
}

// One returns the seed of PURECUDA_SEED, if it is set.
func One(t testing.TB) (seed uint64, alone bool) {
	return variable(t, "PURECUDA_SEED", 0), os.Getenv("PURECUDA_SEED") != ""
}

func variable(t testing.TB, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: want a number", name, text)
	}
	return n
}

// Watch ends the process with all stacks unless stop is called within two minutes: a goroutine that
// waits for ever cannot be ended. p may be nil.
func Watch(seed uint64, p Program) (stop func()) {
	watchdog := time.AfterFunc(patience, func() {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:goruntime.Stack(stacks, true)]
		description := ""
		if p != nil {
			description = p.Describe()
		}
		panic(fmt.Sprintf("seed %d hangs; %s\n%s", seed, description, stacks))
	})
	return func() { watchdog.Stop() }
}
