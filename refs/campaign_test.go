package refs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/race"
	"github.com/purecuda/purecuda/internal/seeds"
)

// Goroutines allocate, write, read, copy, share, lease, forget and close memory on streams
// of their own, while the driver fails by chance, streams are closed with work on them, and the
// device is drained, rebuilt, lost and closed. What is read must be what was written last;
// the driver must find no mistake, and so no access to memory that is gone; every block must
// be accounted for; and nobody may hang. The seed decides about the machine, the faults and
// the program of each goroutine; how these meet is the scheduler's.
func TestCampaign(t *testing.T) {
	var sum tally
	seeds.Run(t, seeds.Count(100, 400, 60), func(seed uint64) *campaign {
		c := newCampaign(seed)
		c.all = &sum
		return c
	})
	t.Logf("%s", &sum)
}

// Run implements [seeds.Program].
func (c *campaign) Run() error {
	err := c.run()
	c.sum(c.all)
	return err
}

// Describe implements [seeds.Program].
func (c *campaign) Describe() string { return fmt.Sprintf("injected: %v", c.gpu.Injected()) }

// A campaign that does not call Use, or that counts no leases, is found out: the checks see
// what they are there for.
func TestCampaignFindsMistakes(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector finds the mistake first")
	}
	found := 0
	for seed := range uint64(40) {
		c := newCampaign(seed)
		c.bypass = true
		stop := seeds.Watch(seed, c)
		if err := c.run(); err != nil && strings.Contains(err.Error(), "want") {
			found++
		}
		stop()
	}
	t.Logf("%d of 40 seeds find that nobody waits", found)
	require.NotZero(t, found)
}

// tally is what all seeds together have done.
type tally struct {
	mu                                                   sync.Mutex
	allocated, freed, leaked, gone, reads, stale, faults uint64
	rebuilds, lost, dropped, resumes, forgot             uint64
	closed, unproven                                     uint64
	causes                                               map[string]uint64 // of leaks
}

func (t *tally) String() string {
	return fmt.Sprintf("%d blocks (%d freed, %d leaked on purpose %v, %d gone with their context), %d reads compared, "+
		"%d uses refused as stale, %d faults injected, %d rebuilds, %d drains resumed, %d losses, %d drops, "+
		"%d handles forgotten, %d streams closed, %d of them without a proof",
		t.allocated, t.freed, t.leaked, t.causes, t.gone, t.reads, t.stale, t.faults, t.rebuilds, t.resumes, t.lost, t.dropped,
		t.forgot, t.closed, t.unproven)
}

// run is one campaign.
func (c *campaign) run() error {
	if err := c.start(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for g := range c.goroutines {
		wg.Go(func() { c.worker(rand.New(rand.NewPCG(c.seed, uint64(g)))) })
	}
	controlled := make(chan struct{})
	go func() {
		defer close(controlled)
		c.control(rand.New(rand.NewPCG(c.seed, 0xc0)))
	}()
	wg.Wait()
	c.done.Store(true)
	<-controlled
	return errors.Join(c.finish(), c.gpu.Close(), c.mistakes())
}

// mistakes are those that the driver and the goroutines have found.
func (c *campaign) mistakes() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.wrong...)
	for _, f := range c.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	return err
}

func (c *campaign) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) < 10 {
		c.wrong = append(c.wrong, fmt.Errorf(format, args...))
	}
}

// leaks checks the error of memory that was leaked on purpose: what cannot be proven is so for
// a call that failed, or a device that was lost, and never because streams were closed.
func (c *campaign) leaks(what string, err error) {
	cause := "none"
	for _, i := range c.gpu.Injected() {
		if errors.Is(err, i.Result) {
			cause = "a call that failed"
		}
	}
	switch {
	case errors.Is(err, driver.ErrDeviceLost):
		cause = "the device was lost"
	case cause == "none":
		c.fail("%s: nothing explains the leak: %v", what, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.causes == nil {
		c.causes = map[string]uint64{}
	}
	c.causes[cause]++
}

// explained checks an error: it is what a state answers, or what was injected.
func (c *campaign) explained(what string, err error) (failed bool) {
	if err == nil {
		return false
	}
	if strings.Contains(err.Error(), "leaked on purpose") {
		c.leaks(what, err)
	}
	var e *driver.Error
	if !errors.As(err, &e) {
		c.fail("%s: an error without a kind: %v", what, err)
		return true
	}
	switch e.Kind {
	case driver.ErrRefStale:
		c.tally.stale.Add(1)
		switch {
		case e.Detail == "context rebuilt" && c.state.Generation() > 1:
		case e.Detail == "device shutting down" && c.shutdowns.Load() > 0:
		case e.Detail == "device state closed" && c.dropped.Load():
		default:
			c.fail("%s: stale without a reason: %v", what, err)
		}
		return true
	case driver.ErrDeviceLost:
		if c.state.Lost() == nil && !e.Sticky {
			c.fail("%s: lost, and nothing was: %v", what, err)
		}
		return true
	case driver.ErrClosed: // another goroutine has closed it, or the stream's arena
		return true
	}
	for _, i := range c.gpu.Injected() {
		if errors.Is(err, i.Result) {
			return true
		}
	}
	c.fail("%s: nothing explains %v", what, err)
	return true
}
