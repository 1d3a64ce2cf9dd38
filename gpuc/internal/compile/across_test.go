package compile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/across"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// among are the kernels of package across on some devices, with a stream of each.
type among []*primitivesIn

// openAmong opens that many simulated devices. On hardware it opens all that there are.
func openAmong(t *testing.T, devices int) among {
	return openAmongWith(t, devices, drivertest.Config{})
}

func openAmongWith(t *testing.T, devices int, config drivertest.Config) among {
	config.Devices = drivertest.Devices(devices, drivertest.H100())
	rt, module, in := openModule(t, "across", config)
	var all among
	for _, d := range rt.Devices() {
		c, err := rt.Context(d.Ordinal)
		require.NoError(t, err)
		on := &primitivesIn{t, nil, nil, in.first, in.d}
		on.s, err = c.NewStream()
		require.NoError(t, err)
		on.k, err = module.Load(c)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, on.k.Close()) })
		all = append(all, on)
	}
	return all
}

type instance[P any] interface {
	Of(*launch.Kernels, int) P
}

// give gives each device its part, which has so many elements.
func give[P instance[P], T any](all among, name string, x []T, lengths []int) (parts []kernels.Part[P, T]) {
	for i, n := range lengths {
		var k P
		on := all[i]
		parts = append(parts, kernels.Part[P, T]{Kernels: k.Of(on.of(name)), Stream: on.s, Data: onDevice(on, x[:n], 0)})
		x = x[n:]
	}
	return parts
}

func together[P, T any](all among, parts []kernels.Part[P, T]) (x []T) {
	for i, p := range parts {
		x = append(x, onHost(all[i], p.Data)...)
	}
	return x
}

// division divides n by chance; some parts are empty.
func division(r *rand.Rand, n, parts int) []int {
	lengths := make([]int, parts)
	for i := range parts - 1 {
		switch r.IntN(4) {
		case 0:
		case 1:
			lengths[i] = r.IntN(n + 1)
		default:
			lengths[i] = min(n, n/(parts-i))
		}
		n -= lengths[i]
	}
	lengths[parts-1] = n
	return lengths
}

func sortedAmong[K kernels.Key](t *testing.T, all among, name string, x []K, lengths []int) {
	t.Helper()
	parts := give[kernels.SortAcross[K]](all, name, x, lengths)
	require.NoError(t, kernels.SortAll(t.Context(), parts...))
	want := slices.Clone(x)
	slices.Sort(want)
	same(t, want, together(all, parts), name, lengths)
}

// The keys of all devices are in order, however they are divided.
func TestSortAll(t *testing.T) {
	if device.Hardware() {
		t.Skip("TestSortAllOnHardware does it there")
	}
	for _, devices := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			all := openAmong(t, devices)
			seeds.Each(t, seeds.Count(4, 20, 1), func(t *testing.T, seed uint64) {
				r := rand.New(rand.NewPCG(seed, uint64(devices)))
				n := r.IntN(7000)
				lengths := division(r, n, devices)
				next := uint32(0)
				for kind, key := range map[string]func() uint32{
					"any":     r.Uint32,
					"equal":   func() uint32 { return math.MaxUint32 },
					"zero":    func() uint32 { return 0 },
					"few":     func() uint32 { return r.Uint32N(3) + math.MaxUint32 - 2 },
					"sorted":  func() uint32 { next++; return next },
					"falling": func() uint32 { next--; return next },
				} {
					t.Run(kind, func(t *testing.T) {
						sortedAmong(t, all, "SortAcrossUint32", elements(n, key), lengths)
					})
				}
				sortedAmong(t, all, "SortAcrossInt64", elements(n, func() int64 { return int64(r.Uint64()) >> r.IntN(64) }), lengths)
				sortedAmong(t, all, "SortAcrossFloat32", elements(n, func() float32 { return float32(r.NormFloat64()) * float32(r.IntN(2)+1) }), lengths)
			})
		})
	}
}

// scannedAmong gives each device some blocks, and returns what comes of the elements.
func scannedAmong[T comparable, O block.Op[T]](t *testing.T, all among, name string, op O, exclusive bool, x []T, r *rand.Rand) []T {
	t.Helper()
	size := kernels.ScanBlock(len(x))
	lengths := division(r, len(x)/size, len(all))
	for i := range lengths {
		lengths[i] *= size
	}
	last := len(all) - 1
	if r.IntN(2) == 0 {
		for last > 0 && lengths[last] == 0 { // the devices behind have nothing
			last--
		}
	}
	lengths[last] += len(x) % size
	parts := give[kernels.ScanAcross[T, O]](all, name, x, lengths)
	scan := kernels.ScanAll[T, O]
	if exclusive {
		scan = kernels.ExclusiveScanAll[T, O]
	}
	require.NoError(t, scan(t.Context(), op, parts...))
	return together(all, parts)
}

// A scan of all devices is that of one, bit for bit.
func TestScanAll(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 8)
	seeds.Each(t, seeds.Count(4, 20, 1), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := r.IntN(20_000)
		floats := elements(n, func() float32 { return float32(r.NormFloat64()) })
		pairs := elements(n, func() across.Pair { return across.Pair{A: r.Uint32(), B: r.Uint32()} })
		want := make([]across.Pair, n+1)
		want[0].A = 1
		require.NoError(t, kernels.ScanCPU(across.Then{}, want[1:], pairs))
		for _, exclusive := range []bool{false, true} {
			var bits []uint32
			for _, devices := range []int{1, 2, 3, 8} {
				var got []uint32
				for _, f := range scannedAmong(t, all[:devices], "ScanAcrossFloat32AddFloat32", block.Add[float32]{}, exclusive, floats, r) {
					got = append(got, math.Float32bits(f))
				}
				if devices == 1 {
					bits = got
				}
				same(t, bits, got, devices, "devices", exclusive)
				of := want[1:]
				if exclusive {
					of = want[:n]
				}
				same(t, of, scannedAmong(t, all[:devices], "ScanAcrossPairThen", across.Then{}, exclusive, pairs, r), devices, "devices", exclusive)
			}
		}
	})
	x := make([]float32, 3000)
	bad := give[kernels.ScanAcross[float32, block.Add[float32]]](all, "ScanAcrossFloat32AddFloat32", x, []int{1000, 2000})
	err := kernels.ScanAll(t.Context(), block.Add[float32]{}, bad...)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.ErrorContains(t, err, "part 1 begins at element 1000 of 3000")
	require.NoError(t, kernels.ScanAll[float32](t.Context(), block.Add[float32]{}))
}

// A launch that fails, a device that is lost and a caller who goes end the call with the cause, at every step of it, and nothing hangs.
func TestAllEnds(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	add := block.Add[float32]{}
	for _, after := range []int64{1, 5, 20, 28, 40} {
		for name, call := range map[string]func(all among) func(ctx context.Context) error{
			"sort": func(all among) func(ctx context.Context) error {
				r := rand.New(rand.NewPCG(uint64(after), 1))
				parts := give[kernels.SortAcross[uint32]](all, "SortAcrossUint32", elements(6000, r.Uint32), []int{2000, 2000, 2000})
				return func(ctx context.Context) error { return kernels.SortAll(ctx, parts...) }
			},
			"scan": func(all among) func(ctx context.Context) error {
				parts := give[kernels.ScanAcross[float32, block.Add[float32]]](all, "ScanAcrossFloat32AddFloat32", make([]float32, 20480), []int{10240, 5120, 5120})
				return func(ctx context.Context) error { return kernels.ScanAll(ctx, add, parts...) }
			},
		} {
			for end, want := range map[string]error{"refused": driver.ErrDriverCallFailed, "lost": driver.ErrDeviceLost, "gone": errGone} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, end, after), func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					var d *drivertest.Driver
					var launches atomic.Int64
					launches.Store(math.MinInt64)
					all := openAmongWith(t, 3, drivertest.Config{OnCall: func(op string) driver.Result {
						if op != "cuLaunchKernel" || launches.Add(1) != after {
							return driver.Success
						}
						switch end {
						case "refused":
							return driver.ResultInvalidValue
						case "lost":
							d.Vanish(1)
						default:
							cancel(errGone)
						}
						return driver.Success
					}})
					d = all[0].d
					run := call(all)
					launches.Store(0)
					require.ErrorIs(t, run(ctx), want)
				})
			}
		}
	}
}

var errGone = errors.New("the caller has gone")

// What is wrong with the parts is said, and nothing moves.
func TestSortAllRefuses(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 2)
	x := []uint32{4, 3, 2, 1}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	type part = kernels.Part[kernels.SortAcross[uint32], uint32]
	for name, c := range map[string]struct {
		change func(p []part)
		ctx    context.Context
		kind   error
		says   string
	}{
		"no kernels":  {func(p []part) { p[1].Kernels = kernels.SortAcross[uint32]{} }, t.Context(), driver.ErrInvalidArgument, "part 1"},
		"no stream":   {func(p []part) { p[1].Stream = nil }, t.Context(), driver.ErrInvalidArgument, "part 1"},
		"no memory":   {func(p []part) { p[0].Data = nil }, t.Context(), driver.ErrInvalidArgument, "part 0"},
		"same stream": {func(p []part) { p[1].Stream = p[0].Stream }, t.Context(), driver.ErrInvalidArgument, "same stream"},
		"same memory": {func(p []part) { p[1].Data = p[0].Data.Slice(1, 2) }, t.Context(), driver.ErrInvalidArgument, "part 0"},
		"nil ctx":     {func([]part) {}, nil, driver.ErrInvalidArgument, "ctx is nil"},
		"ended ctx":   {func([]part) {}, ended, errGone, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			good := give[kernels.SortAcross[uint32]](all, "SortAcrossUint32", x, []int{2, 2})
			p := slices.Clone(good)
			c.change(p)
			err := kernels.SortAll(c.ctx, p...)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			same(t, x, together(all, good))
		})
	}
	require.NoError(t, kernels.SortAll[uint32](t.Context()), "nothing is sorted")
}

// SortAll of 1 Gi keys on one device and on two, in turns. Each turn begins with the same keys and ends with the same.
func TestSortAllOnHardware(t *testing.T) {
	n, turns := 1<<30, 7
	if !device.Hardware() {
		n, turns = 10_000, 1
	}
	all := openAmong(t, 2)
	if len(all) < 2 {
		t.Skipf("%d device: this compares two with one", len(all))
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := elements(n, r.Uint32)
	var first []uint32
	parts := map[int][]kernels.Part[kernels.SortAcross[uint32], uint32]{}
	took := map[int][]time.Duration{}
	for turn := range turns + 1 {
		for _, devices := range []int{1, 2} {
			if turn == 0 {
				parts[devices] = give[kernels.SortAcross[uint32]](all, "SortAcrossUint32", x, slices.Repeat([]int{n / devices}, devices))
			}
			for i, p := range parts[devices] {
				require.NoError(t, runtime.Upload(t.Context(), p.Stream, p.Data, x[n/devices*i:n/devices*(i+1)]))
				require.NoError(t, p.Stream.Synchronize(t.Context()))
			}
			start := time.Now()
			require.NoError(t, kernels.SortAll(t.Context(), parts[devices]...))
			if turn > 0 { // the first one warms up
				took[devices] = append(took[devices], time.Since(start))
			}
			got := together(all, parts[devices])
			if first == nil {
				require.True(t, slices.IsSorted(got))
				first = got
			}
			require.True(t, slices.Equal(first, got), "%d devices", devices)
		}
	}
	median := map[int]float64{}
	for _, devices := range []int{1, 2} {
		d := took[devices]
		slices.Sort(d)
		median[devices] = d[len(d)/2].Seconds()
		t.Logf("%d keys on %d devices: %.3f ms, %.1f GKey/s; the turns: %v", n, devices, 1e3*median[devices], float64(n)/median[devices]/1e9, d)
	}
	t.Logf("two devices have %.2f of the rate of one", median[1]/median[2])
}
