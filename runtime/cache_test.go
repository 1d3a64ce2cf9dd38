package runtime_test

import (
	"context"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// namedPTX is an image with one kernel of the given name: add, of the compiled kernels.
func namedPTX(name string) []byte {
	text := string(kernelsPTX)
	begin := strings.Index(text, ".visible .entry add(")
	end := begin + strings.Index(text[begin:], "\n}\n") + 3
	head := text[:strings.Index(text, "\t// .globl")]
	return []byte(head + strings.NewReplacer("add(", name+"(", "add_", name+"_").Replace(text[begin:end]))
}

func cachedModule(t testing.TB, c *runtime.Context, images ...runtime.Image) *runtime.Module {
	t.Helper()
	m, err := c.CachedModule(images...)
	require.NoError(t, err)
	return m
}

// addWith adds 1 to a few words with a kernel of the module, and checks that.
func addWith(t testing.TB, s *runtime.Stream, m *runtime.Module, name string) {
	t.Helper()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	x := upload(t, s, count(5, 100))
	require.NoError(t, addTo(k, s, x, 1))
	assert.Equal(t, count(6, 100), download(t, s, x))
	require.NoError(t, x.Close())
}

func TestCachedModule(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		image := runtime.Image{Code: kernelsPTX}
		first, second := cachedModule(t, c, image), cachedModule(t, c, image)
		assert.NotSame(t, first, second)
		assert.Equal(t, first.Handle(), second.Handle())
		assert.Equal(t, 75, second.Image().Arch)
		addWith(t, s, first, "add")
		addWith(t, s, second, "add")
		own, err := first.Kernel("add")
		require.NoError(t, err)
		again, err := first.Kernel("add")
		require.NoError(t, err)
		assert.Same(t, own, again)
		assert.Same(t, first, own.Module())
		answer, err := runtime.FindVariable[uint32](first, "answer")
		require.NoError(t, err)

		// A lease ends with its Close; the other one and the code do not.
		require.NoError(t, first.Close())
		require.NoError(t, first.Close())
		_, err = first.Kernel("add")
		require.ErrorIs(t, err, driver.ErrClosed)
		x := upload(t, s, count(5, 100))
		require.ErrorIs(t, addTo(own, s, x, 1), driver.ErrClosed)
		_, _, err = own.MaxPotentialBlockSize(0)
		require.ErrorIs(t, err, driver.ErrClosed)
		require.ErrorIs(t, answer.Zero(s), driver.ErrClosed)
		addWith(t, s, second, "add")
		require.NoError(t, second.Close())
		third := cachedModule(t, c, image)
		addWith(t, s, third, "add")

		stats := c.Stats()
		assert.Equal(t, []uint64{2, 1, 0, 1, uint64(len(kernelsPTX)), 1},
			[]uint64{stats.ModuleHits, stats.ModuleMisses, stats.ModuleEvictions, stats.CachedModules, stats.CachedModuleBytes, stats.Modules})
		assert.Positive(t, stats.ModuleLoadTime)
		other := cachedModule(t, c, runtime.Image{Arch: 75, Code: kernelsPTX})
		assert.NotEqual(t, third.Handle(), other.Handle(), "another key")
	})
}

func TestCachedModuleFailuresAreNotKept(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	_, err := c.CachedModule()
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = c.CachedModule(runtime.Image{Code: futurePTX})
	require.ErrorIs(t, err, driver.ResultUnsupportedPTXVersion)
	for _, op := range []string{"cuModuleLoadDataEx", "cuCtxPushCurrent"} {
		gpu.Fail(op, 1, driver.ResultUnknown)
		_, err = c.CachedModule(runtime.Image{Code: kernelsPTX})
		require.ErrorIs(t, err, driver.ResultUnknown)
		assert.Zero(t, c.Stats().CachedModules)
	}
	m := cachedModule(t, c, runtime.Image{Code: kernelsPTX})
	for _, op := range []string{"cuModuleGetFunction", "cuFuncGetAttribute", "cuCtxPushCurrent"} {
		gpu.Fail(op, 1, driver.ResultUnknown)
		_, err = m.Kernel("add")
		require.ErrorIs(t, err, driver.ResultUnknown)
	}
	addWith(t, newStream(t, c), m, "add")
}

// What is used longest ago goes first, and what is in use stays whatever the limit.
func TestModulesAreEvicted(t *testing.T) {
	size := uint64(len(namedPTX("k0")))
	rt, gpu := open(t, drivertest.Config{}, runtime.WithModuleCache(2*size))
	c := contextOf(t, rt)
	image := func(n int) runtime.Image { return runtime.Image{Code: namedPTX("k" + string(rune('0'+n)))} }
	loads := func() int { return gpu.Calls("cuModuleLoadDataEx") }
	ask := func(n int) { require.NoError(t, cachedModule(t, c, image(n)).Close()) }
	ask(0)
	ask(1)
	ask(0)
	ask(2) // drives 1 out
	assert.Equal(t, 3, loads())
	ask(0)
	ask(2)
	assert.Equal(t, 3, loads())
	ask(1)
	assert.Equal(t, 4, loads())
	assert.Equal(t, []uint64{2, 2 * size, 2}, []uint64{c.Stats().Modules, c.Stats().CachedModuleBytes, c.Stats().ModuleEvictions})

	var leases []*runtime.Module
	for n := range 5 {
		leases = append(leases, cachedModule(t, c, image(n)))
	}
	assert.Equal(t, 5*size, c.Stats().CachedModuleBytes, "all of them are in use")
	s := newStream(t, c)
	for n, m := range leases {
		addWith(t, s, m, "k"+string(rune('0'+n)))
	}
	for _, m := range leases {
		require.NoError(t, m.Close())
	}
	assert.Equal(t, 2*size, c.Stats().CachedModuleBytes)
	assert.Equal(t, uint64(2), c.Stats().Modules)
	require.NoError(t, c.TrimModules(0))
	assert.Zero(t, c.Stats().CachedModuleBytes)
	assert.Zero(t, c.Stats().Modules)
}

// With no room at all a module goes with its last lease, after the work that uses it.
func TestEvictionWaitsForTheDevice(t *testing.T) {
	rt, _ := open(t, drivertest.Config{}, runtime.WithModuleCache(0))
	c := contextOf(t, rt)
	s := newStream(t, c)
	m := cachedModule(t, c, runtime.Image{Code: kernelsPTX})
	k, err := m.Kernel("add")
	require.NoError(t, err)
	x := upload(t, s, count(0, 8))
	release := hold(t, s)
	require.NoError(t, addTo(k, s, x, 1))
	closed := async(m.Close)
	time.Sleep(20 * time.Millisecond)
	assert.Empty(t, closed)
	release()
	require.NoError(t, await(t, "it is unloaded", closed))
	assert.Zero(t, c.Stats().Modules)
	assert.Equal(t, count(1, 8), download(t, s, x))
}

// A graph keeps the code that it uses, whether the lease was closed or forgotten.
func TestGraphsKeepCachedModules(t *testing.T) {
	for name, closing := range map[string]bool{"closed": true, "forgotten": false} {
		t.Run(name, func(t *testing.T) {
			rt, _ := open(t, drivertest.Config{}, runtime.WithModuleCache(0))
			c := contextOf(t, rt)
			s := newStream(t, c)
			x := upload(t, s, count(0, 8))
			g := func() *runtime.Graph {
				m := cachedModule(t, c, runtime.Image{Code: kernelsPTX})
				k, err := m.Kernel("add")
				require.NoError(t, err)
				g := capture(t, s, adding(k, x, 2, 1))
				answer, err := runtime.FindVariable[uint32](m, "answer")
				require.NoError(t, err)
				require.NoError(t, capture(t, s, answer.Zero).Close())
				if closing {
					require.NoError(t, m.Close())
				}
				return g
			}()
			exec := instantiate(t, g)
			require.NoError(t, g.Close())
			collect(t, c)
			require.NoError(t, c.TrimModules(0))
			assert.Equal(t, uint64(1), c.Stats().Modules)
			require.NoError(t, exec.Launch(s))
			assert.Equal(t, count(2, 8), download(t, s, x))
			require.NoError(t, exec.Close())
			eventually(t, "it is unloaded", func() bool {
				collect(t, c)
				require.NoError(t, c.TrimModules(0))
				return c.Stats().Modules == 0
			})
		})
	}
}

// Forgotten leases are found by the garbage collector.
func TestForgottenLeases(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	for range 3 {
		addWith(t, s, cachedModule(t, c, runtime.Image{Code: kernelsPTX}), "add")
	}
	require.NoError(t, s.Synchronize(bg))
	eventually(t, "it is unloaded", func() bool {
		goruntime.GC()
		require.NoError(t, c.TrimModules(0))
		return c.Stats().Modules == 0
	})
}

// What one lease has asked the driver for, the function has for all.
func TestLeasesShareGrants(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	kernelOf := func() *runtime.Kernel {
		k, err := cachedModule(t, c, runtime.Image{Code: kernelsPTX}).Kernel("reverse")
		require.NoError(t, err)
		return k
	}
	large, small := kernelOf(), kernelOf()
	x := upload(t, s, count(0, 100))
	launch := func(k *runtime.Kernel, shared uint32) {
		shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}, SharedBytes: shared}
		require.NoError(t, k.Launch(s, shape, runtime.InOut(x), runtime.Value(uint32(x.Len()))))
	}
	launch(large, 100<<10)
	launch(small, 60<<10)
	launch(large, 100<<10)
	launch(kernelOf(), 90<<10)
	require.NoError(t, s.Synchronize(bg))
	assert.Equal(t, 1, gpu.Calls("cuFuncSetAttribute"))
	assert.Equal(t, 1, gpu.Calls("cuModuleGetFunction"))
}

// Unused modules make room when there is no memory for another one.
func TestCachedModulesMakeRoom(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	kept := cachedModule(t, c, runtime.Image{Code: namedPTX("kept")})
	require.NoError(t, cachedModule(t, c, runtime.Image{Code: namedPTX("unused")}).Close())
	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultOutOfMemory)
	m := cachedModule(t, c, runtime.Image{Code: kernelsPTX})
	assert.Equal(t, uint64(2), c.Stats().Modules)
	s := newStream(t, c)
	addWith(t, s, m, "add")
	addWith(t, s, kept, "kept")
	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultOutOfMemory)
	gpu.Fail("cuModuleLoadDataEx", 2, driver.ResultOutOfMemory)
	_, err := c.CachedModule(runtime.Image{Code: namedPTX("unused")})
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
}

// A Reset takes the cache with it: old leases are stale, and the next caller loads anew.
func TestResetDropsCachedModules(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		image := runtime.Image{Code: kernelsPTX}
		m := cachedModule(t, c, image)
		k, err := m.Kernel("add")
		require.NoError(t, err)
		answer, err := runtime.FindVariable[uint32](m, "answer")
		require.NoError(t, err)
		require.NoError(t, c.Reset(bg))
		s := newStream(t, c)
		assert.Zero(t, c.Stats().CachedModules)

		x := upload(t, s, count(0, 8))
		_, unknown := m.Kernel("store")
		_, known := m.Kernel("add")
		_, _, occupancy := k.MaxPotentialBlockSize(0)
		for _, err := range []error{unknown, known, occupancy, addTo(k, s, x, 1), answer.Zero(s)} {
			assert.ErrorIs(t, err, driver.ErrRefStale)
		}
		now := cachedModule(t, c, image)
		addWith(t, s, now, "add")
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		addWith(t, s, now, "add")
		require.NoError(t, now.Close())
		addWith(t, s, cachedModule(t, c, image), "add")
		assert.Equal(t, uint64(1), c.Stats().Modules)
	})
}

func TestCachedModulesAfterTheEnd(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	m := cachedModule(t, c, runtime.Image{Code: kernelsPTX})
	k, err := m.Kernel("add")
	require.NoError(t, err)
	require.NoError(t, rt.Close())
	_, err = c.CachedModule(runtime.Image{Code: kernelsPTX})
	require.ErrorIs(t, err, driver.ErrClosed)
	_, err = m.Kernel("add")
	require.ErrorIs(t, err, driver.ErrClosed)
	_, _, err = k.MaxPotentialBlockSize(0)
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, c.TrimModules(0), driver.ErrClosed)
	require.NoError(t, m.Close())

	lost, gpu := openFaulty(t, drivertest.Config{})
	c = contextOf(t, lost)
	m = cachedModule(t, c, runtime.Image{Code: kernelsPTX})
	gpu.Fail("cuCtxSynchronize", 1, driver.ResultIllegalAddress)
	require.Error(t, c.Synchronize())
	_, err = c.CachedModule(runtime.Image{Code: kernelsPTX})
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.NoError(t, m.Close())
}

// Many callers take, use, capture, close and forget modules of a cache that is too small,
// while others trim it and the context is reset.
func TestCachedModulesUnderStress(t *testing.T) {
	rt, _ := open(t, drivertest.Config{}, runtime.WithModuleCache(uint64(3*len(namedPTX("k0")))))
	c := contextOf(t, rt)
	var wg sync.WaitGroup
	var done atomic.Int64
	end := time.Now().Add(time.Second)
	for seed := range 8 {
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(seed), 1))
			for time.Now().Before(end) {
				err := useAndClose(c, "k"+string(rune('0'+chance.IntN(6))), chance.IntN(4))
				if err != nil && !errors.Is(err, driver.ErrRefStale) && !errors.Is(err, driver.ErrCaptureFailed) {
					t.Errorf("%v", err)
					return
				}
				if err == nil {
					done.Add(1)
				}
				switch chance.IntN(40) {
				case 0:
					if err := c.TrimModules(0); err != nil && !errors.Is(err, driver.ErrRefStale) {
						t.Errorf("trim: %v", err)
					}
				case 1:
					goruntime.GC()
				}
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(50 * time.Millisecond)
			ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
			err := c.Reset(ctx)
			cancel()
			if err != nil && !errors.Is(err, driver.ErrCaptureFailed) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("reset: %v", err)
			}
		}
	})
	wg.Wait()
	assert.Positive(t, done.Load())
	eventually(t, "all is given back", func() bool {
		collect(t, c)
		require.NoError(t, c.TrimModules(0))
		return c.Stats().Modules == 0
	})
}

func useAndClose(c *runtime.Context, name string, how int) error {
	m, err := c.CachedModule(runtime.Image{Code: namedPTX(name)})
	if err != nil {
		return err
	}
	if how > 0 { // 0: it is forgotten
		defer m.Close()
	}
	k, err := m.Kernel(name)
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	x, err := runtime.Alloc[uint32](s, 64)
	if err != nil {
		return err
	}
	defer x.Close()
	if how == 1 {
		return addTo(k, s, x, 1)
	}
	g, err := s.Capture(adding(k, x, 2, 1))
	if err != nil {
		return err
	}
	defer g.Close()
	if how == 2 {
		if err := m.Close(); err != nil {
			return err
		}
	}
	exec, err := g.Instantiate()
	if err != nil {
		return err
	}
	defer exec.Close()
	return errors.Join(exec.Launch(s), s.Synchronize(bg))
}
