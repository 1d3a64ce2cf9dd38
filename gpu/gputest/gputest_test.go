package gputest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu/gputest"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/runtime"
)

// faulty are kernels that go wrong: one reports a failed check as gpuc writes it, one never ends.
var faulty = launch.Module{
	Images: []runtime.Image{{Arch: 75, Code: []byte(`.version 6.4
.target sm_75
.address_size 64
.visible .entry planted(.param .u64 planted_report)
{
	.reg .b64 %rd<4>;
	.reg .pred %p;
	ld.param.u64 %rd1, [planted_report];
	atom.global.cas.b64 %rd2, [%rd1], 0, -1;
	setp.ne.u64 %p, %rd2, 0;
	@%p exit;
	st.global.u64 [%rd1+8], 7;
	st.global.u64 [%rd1+16], 7;
	membar.sys;
	atom.global.exch.b64 %rd2, [%rd1], 1;
	exit;
}
.visible .entry endless()
{
again:
	bra again;
}
`)}},
	Kernels: []string{"planted", "endless"},
	Sites:   []string{"x.go:5: index out of range [%d] with length %d"},
}

// recorder is a test that fails alone.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any) {
	r.failures = append(r.failures, fmt.Sprint(args...))
}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// run runs f as a test of its own, and returns what it says when it fails.
func run(t *testing.T, f func(t testing.TB)) string {
	r := &recorder{TB: t}
	f(r)
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.failures, "\n")
}

// TestATestOfAPlantedIndexFails ignores what waits say, as a careless test does.
func TestATestOfAPlantedIndexFails(t *testing.T) {
	for name, wait := range map[string]func(s *runtime.Stream) error{
		"nobody waits": func(*runtime.Stream) error { return nil },
		"the stream is closed": func(s *runtime.Stream) error {
			_ = s.Close()
			return nil
		},
		"Synchronize": func(s *runtime.Stream) error { return s.Synchronize(context.Background()) },
		"Download": func(s *runtime.Stream) error {
			x, err := runtime.Alloc[int32](s, 8)
			if err != nil {
				return err
			}
			defer x.Close()
			return runtime.Download(context.Background(), s, make([]int32, 8), x)
		},
	} {
		t.Run(name, func(t *testing.T) {
			failures := run(t, func(t testing.TB) {
				b, err := gputest.Runtime(t).Probe("test")
				require.NoError(t, err)
				k, err := faulty.Load(b.Context)
				require.NoError(t, err)
				require.NoError(t, k.Launch(0, b.Stream, runtime.Shape1D(1, 32), k.Report()))
				if err := wait(b.Stream); err != nil {
					t.Error(err)
				}
			})
			assert.Contains(t, failures, "x.go:5: index out of range [7] with length 7 in block (0,0,0), thread (0,0,0)")
		})
	}
}

func TestAnEndlessKernelFails(t *testing.T) {
	start := time.Now()
	failures := run(t, func(t testing.TB) {
		b, err := gputest.Runtime(t).Probe("test")
		require.NoError(t, err)
		k, err := faulty.Load(b.Context)
		require.NoError(t, err)
		require.NoError(t, k.Launch(1, b.Stream, runtime.Shape1D(1, 32)))
		if err := b.Stream.Synchronize(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Log(time.Since(start), failures)
	assert.Contains(t, failures, "endless")
}

func TestPolicyOfTheEnvironment(t *testing.T) {
	for _, policy := range []runtime.Policy{runtime.PolicyOff, runtime.PolicyRequired, "nonsense"} {
		t.Setenv(runtime.PolicyVariable, string(policy))
		_, err := gputest.Runtime(t).Probe("test")
		assert.NoError(t, err, "%s is for GPUs, and this one is simulated", policy)
	}
}
