package internal_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

type activation struct{}

func (activation) Apply(sum, bias float32) float32 { return sum + bias }

// functions are the exported functions.
var functions = map[string]any{
	"arena.NewCopier":            arena.NewCopier,
	"arena.NewDevice":            arena.NewDevice,
	"arena.NewPinned":            arena.NewPinned,
	"arena.NewWorkers":           arena.NewWorkers,
	"driver.ArrayResource":       driver.ArrayResource,
	"driver.Candidates":          driver.Candidates,
	"driver.ClusterSize":         driver.ClusterSize,
	"driver.Cooperative":         driver.Cooperative,
	"driver.Entries":             driver.Entries,
	"driver.Errorf":              driver.Errorf,
	"driver.Failed":              driver.Failed,
	"driver.HasLoader":           driver.HasLoader,
	"driver.UnfitDevice":         driver.UnfitDevice,
	"driver.LaunchPriority":      driver.LaunchPriority,
	"driver.LinearResource":      driver.LinearResource,
	"driver.LinkKindOf":          driver.LinkKindOf,
	"driver.NewLibrary":          driver.NewLibrary,
	"driver.Open":                driver.Open,
	"driver.PitchResource":       driver.PitchResource,
	"kernels.AddGram":            kernels.AddGram,
	"kernels.AttentionCPU":       kernels.AttentionCPU[gpu.Float16],
	"kernels.AddPartials":        kernels.AddPartials,
	"kernels.DecodeCPU":          kernels.DecodeCPU[gpu.Float16],
	"kernels.LayerNormCPU":       kernels.LayerNormCPU[float32],
	"kernels.RMSNormCPU":         kernels.RMSNormCPU[float32],
	"kernels.ScanAll":            kernels.ScanAll[uint32, block.Add[uint32]],
	"kernels.ExclusiveScanAll":   kernels.ExclusiveScanAll[uint32, block.Add[uint32]],
	"kernels.ScanBlock":          kernels.ScanBlock,
	"kernels.SortAll":            kernels.SortAll[uint32],
	"kernels.SortPairsAll":       kernels.SortPairsAll[uint32, uint64],
	"kernels.StableSortAll":      kernels.StableSortAll[uint32, ascending],
	"kernels.SoftmaxCPU":         kernels.SoftmaxCPU[float32],
	"kernels.GemmCPU":            kernels.GemmCPU[gpu.Float16],
	"kernels.GemmToCPU":          kernels.GemmToCPU[gpu.Float8E4M3, float32, float32, activation],
	"kernels.GemmWithCPU":        kernels.GemmWithCPU[gpu.Float16, activation],
	"kernels.GramPartialsCPU":    kernels.GramPartialsCPU,
	"kernels.Histogram256CPU":    kernels.Histogram256CPU,
	"kernels.HistogramCPU":       kernels.HistogramCPU[float32],
	"kernels.Load":               kernels.Load[kernels.Gram],
	"kernels.OpenReducer":        kernels.OpenReducer,
	"kernels.PaddedSize":         kernels.PaddedSize,
	"kernels.PartitionCPU":       kernels.PartitionCPU[uint32, stays],
	"kernels.ReduceByKeyCPU":     kernels.ReduceByKeyCPU[uint32, uint32, block.Add[uint32]],
	"kernels.RunLengthsCPU":      kernels.RunLengthsCPU[uint32],
	"kernels.SHA256ChunksCPU":    kernels.SHA256ChunksCPU,
	"kernels.SHA256RoundsCPU":    kernels.SHA256RoundsCPU,
	"kernels.SHA256RoundsEnough": kernels.SHA256RoundsEnough,
	"kernels.SaxpyCPU":           kernels.SaxpyCPU,
	"kernels.ScanCPU":            kernels.ScanCPU[uint32, block.Add[uint32]],
	"kernels.SegmentedReduceCPU": kernels.SegmentedReduceCPU[uint32, block.Add[uint32]],
	"kernels.SegmentedSortCPU":   kernels.SegmentedSortCPU[uint32, ascending],
	"kernels.SumPartialsCPU":     kernels.SumPartialsCPU,
	"kernels.TopKCPU":            kernels.TopKCPU[float32],
	"kernels.VectorAddCPU":       kernels.VectorAddCPU,
	"nvrtc.Candidates":           nvrtc.Candidates,
	"nvrtc.Compile":              nvrtc.Compile,
	"nvrtc.NewCompiler":          nvrtc.NewCompiler,
	"nvrtc.Open":                 nvrtc.Open,
	"nvrtc.OpenCompiler":         nvrtc.OpenCompiler,
	"nvrtc.OpenLinker":           nvrtc.OpenLinker,
	"nvrtc.TargetFor":            nvrtc.TargetFor,
	"pool.Parallel":              pool.Parallel,
	"pool.PerDevice":             pool.PerDevice[float32],
	"pool.PerStream":             pool.PerStream[float32],
	"pool.Map":                   pool.Map[float32, float32],
	"pool.NewBatcher":            pool.NewBatcher[float32, float32],
	"pool.NewBreakEven":          pool.NewBreakEven,
	"pool.Open":                  pool.Open,
	"pool.Partition":             pool.Partition,
	"pool.Readers":               pool.Readers,
	"pool.Reduce":                pool.Reduce[float32],
	"pool.Stream":                pool.Stream[float32, float32],
	"refs.Wrap":                  refs.Wrap[float32],
	"refs.Cast":                  refs.Cast[byte, float32],
	"refs.New":                   refs.New[float32],
	"refs.NewGrowable":           refs.NewGrowable[float32],
	"refs.NewState":              refs.NewState,
	"refs.Own":                   refs.Own[float32],
	"refs.SizeOf":                refs.SizeOf[float32],
	"runtime.WrapRef":            runtime.WrapRef[float32],
	"runtime.Alloc":              runtime.Alloc[float32],
	"runtime.AllocGrowable":      runtime.AllocGrowable[float32],
	"runtime.AllocHost":          runtime.AllocHost[float32],
	"runtime.AllocIPC":           runtime.AllocIPC[float32],
	"runtime.AllocManaged":       runtime.AllocManaged[float32],
	"runtime.Budget":             runtime.Budget,
	"runtime.Cast":               runtime.Cast[byte, float32],
	"runtime.CastHost":           runtime.CastHost[byte, float32],
	"runtime.Copy":               runtime.Copy[float32],
	"runtime.Copy2D":             runtime.Copy2D[float32],
	"runtime.Copy3D":             runtime.Copy3D[float32],
	"runtime.Download":           runtime.Download[float32],
	"runtime.Download2D":         runtime.Download2D[float32],
	"runtime.Download3D":         runtime.Download3D[float32],
	"runtime.DownloadHost":       runtime.DownloadHost[float32],
	"runtime.DownloadNew":        runtime.DownloadNew[float32],
	"runtime.ExportIPC":          runtime.ExportIPC[float32],
	"runtime.Fill":               runtime.Fill[float32],
	"runtime.FindVariable":       runtime.FindVariable[float32],
	"runtime.Islands":            runtime.Islands,
	"runtime.Global":             runtime.Global,
	"runtime.In":                 runtime.In[float32],
	"runtime.Int":                runtime.Int,
	"runtime.Keep":               runtime.Keep[*runtime.Stream],
	"runtime.InOut":              runtime.InOut[float32],
	"runtime.Shape1D":            runtime.Shape1D,
	"runtime.NewTiles":           runtime.NewTiles[float32],
	"runtime.Open":               runtime.Open,
	"runtime.OpenIPC":            runtime.OpenIPC[float32],
	"runtime.ParsePolicy":        runtime.ParsePolicy,
	"runtime.Shape2D":            runtime.Shape2D,
	"runtime.Probe":              runtime.Probe,
	"runtime.Refresh":            runtime.Refresh,
	"runtime.LeaseHost":          runtime.LeaseHost[float32],
	"runtime.RegisterHost":       runtime.RegisterHost[float32],
	"runtime.Score":              runtime.Score,
	"runtime.Struct":             runtime.Struct[float32],
	"runtime.Upload":             runtime.Upload[float32],
	"runtime.Upload2D":           runtime.Upload2D[float32],
	"runtime.Upload3D":           runtime.Upload3D[float32],
	"runtime.UploadHost":         runtime.UploadHost[float32],
	"runtime.UploadNew":          runtime.UploadNew[float32],
	"runtime.Value":              runtime.Value[float32],
	"runtime.Shape3D":            runtime.Shape3D,
	"runtime.WithBudget":         runtime.WithBudget,
	"runtime.WithCompiler":       runtime.WithCompiler,
	"runtime.WithDevices":        runtime.WithDevices,
	"runtime.WithDriver":         runtime.WithDriver,
	"runtime.WithErrorHook":      runtime.WithErrorHook,
	"runtime.WithLogger":         runtime.WithLogger,
	"runtime.WithMemory":         runtime.WithMemory,
	"runtime.WithModuleCache":    runtime.WithModuleCache,
	"runtime.WithPinned":         runtime.WithPinned,
	"runtime.WithPolicy":         runtime.WithPolicy,
	"runtime.WithScore":          runtime.WithScore,
	"runtime.WithStateHook":      runtime.WithStateHook,
	"runtime.WithTrace":          runtime.WithTrace,
	"runtime.Zero":               runtime.Zero[float32],
}

var exportedFunction = regexp.MustCompile(`^pkg (\w+), func (\w+)`)

// The list of functions is complete.
func TestFunctionsAreAll(t *testing.T) {
	text, err := os.ReadFile("../api/purecuda.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if m := exportedFunction.FindStringSubmatch(line); m != nil && m[1] != inKernels && place(m[1]) >= 0 {
			assert.NotNil(t, functions[m[1]+"."+m[2]], "%s.%s is not tried", m[1], m[2])
		}
	}
}

// showInternal are declarations that name a type which no other module can name.
var showInternal = []string{
	"pkg arena, method (Lease) FreeAfter(...internal/wait.Ticket) error",
	"pkg arena, func NewCopier(*driver.Binding, *Workers, *Pinned, *internal/wait.Device) *Copier",
	"pkg arena, type DeviceConfig struct, Waits *internal/wait.Device",
	"pkg runtime, method (*LibraryHandle) Current() *internal/current.Context", // module libs can
	"pkg pool, type PanicError = internal/contain.PanicError",
}

// What is exported names no internal type.
func TestNoInternalTypes(t *testing.T) {
	text, err := os.ReadFile("../api/purecuda.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		assert.True(t, !strings.Contains(line, "internal/") || slices.Contains(showInternal, line), line)
	}
}

// Arguments that a program forgot to make are an error of kind ErrInvalidArgument, never a panic:
// each function, with arguments that are zero.
func TestFunctionsOfNothing(t *testing.T) {
	t.Setenv("PURECUDA_CACHE_DIR", "off")
	for name, f := range functions {
		tryMethod(t, name, name, reflect.ValueOf(f))
	}
}
