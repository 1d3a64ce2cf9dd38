package internal_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

func typed[T any]() reflect.Type { return reflect.TypeFor[T]() }

// values are the exported types that are no interfaces.
var values = []reflect.Type{
	typed[arena.Block](),
	typed[arena.Copier](),
	typed[arena.CopierStats](),
	typed[arena.Device](),
	typed[arena.DeviceConfig](),
	typed[arena.DeviceStats](),
	typed[arena.Leak](),
	typed[arena.Lease](),
	typed[arena.Peers](),
	typed[arena.Pinned](),
	typed[arena.PinnedConfig](),
	typed[arena.PinnedStats](),
	typed[arena.Range](),
	typed[arena.Stream](),
	typed[arena.Workers](),
	typed[driver.AddressMode](),
	typed[driver.Array](),
	typed[driver.Array3DDescriptor](),
	typed[driver.ArrayDescriptor](),
	typed[driver.ArrayFormat](),
	typed[driver.Attempt](),
	typed[driver.Binding](),
	typed[driver.CacheConfig](),
	typed[driver.CaptureMode](),
	typed[driver.CaptureStatus](),
	typed[driver.CheckpointGPUPair](),
	typed[driver.CheckpointLockArgs](),
	typed[driver.CheckpointRestoreArgs](),
	typed[driver.Context](),
	typed[driver.DevResource](),
	typed[driver.DevResourceDesc](),
	typed[driver.DevResourceType](),
	typed[driver.Device](),
	typed[driver.DeviceAttribute](),
	typed[driver.DevicePtr](),
	typed[driver.Dim3](),
	typed[driver.Entry](),
	typed[driver.Error](),
	typed[driver.Event](),
	typed[driver.FilterMode](),
	typed[driver.Function](),
	typed[driver.FunctionAttribute](),
	typed[driver.Graph](),
	typed[driver.GraphConditionalHandle](),
	typed[driver.GraphConditionalType](),
	typed[driver.GraphExec](),
	typed[driver.GraphExecUpdateInfo](),
	typed[driver.GraphExecUpdateResult](),
	typed[driver.GraphNode](),
	typed[driver.GraphNodeType](),
	typed[driver.GreenContext](),
	typed[driver.IpcEventHandle](),
	typed[driver.IpcMemHandle](),
	typed[driver.JIT](),
	typed[driver.JITLog](),
	typed[driver.Kernel](),
	typed[driver.KernelLibrary](),
	typed[driver.Kind](),
	typed[driver.LaunchAttribute](),
	typed[driver.LaunchAttributeID](),
	typed[driver.Library](),
	typed[driver.Limit](),
	typed[driver.LinkKind](),
	typed[driver.LinkPart](),
	typed[driver.LoadingMode](),
	typed[driver.LoadingState](),
	typed[driver.MemAccess](),
	typed[driver.MemAccessFlags](),
	typed[driver.MemAdvice](),
	typed[driver.MemAllocationProps](),
	typed[driver.MemAllocationType](),
	typed[driver.MemGranularity](),
	typed[driver.MemHandle](),
	typed[driver.MemHandleType](),
	typed[driver.MemLocation](),
	typed[driver.MemLocationType](),
	typed[driver.MemPool](),
	typed[driver.MemPoolAttribute](),
	typed[driver.MemPoolProps](),
	typed[driver.MemRangeHandleType](),
	typed[driver.MemcpyBox](),
	typed[driver.MemcpyRect](),
	typed[driver.MemoryType](),
	typed[driver.Module](),
	typed[driver.P2PAttribute](),
	typed[driver.PointerAttribute](),
	typed[driver.ProcessState](),
	typed[driver.ResourceDesc](),
	typed[driver.ResourceType](),
	typed[driver.ResourceViewDesc](),
	typed[driver.Result](),
	typed[driver.ShareableHandle](),
	typed[driver.Stream](),
	typed[driver.TensorDataType](),
	typed[driver.TensorFill](),
	typed[driver.TensorInterleave](),
	typed[driver.TensorL2Promotion](),
	typed[driver.TensorMap](),
	typed[driver.TensorSwizzle](),
	typed[driver.TensorTiles](),
	typed[driver.TexObject](),
	typed[driver.TextureDesc](),
	typed[driver.UUID](),
	typed[driver.Version](),
	typed[gpu.BFloat16](),
	typed[gpu.BFloat16x2](),
	typed[gpu.Block](),
	typed[gpu.Dim3](),
	typed[gpu.Error](),
	typed[gpu.Float16](),
	typed[gpu.Float16x2](),
	typed[gpu.Float4](),
	typed[gpu.Float8E4M3](),
	typed[gpu.Float8E5M2](),
	typed[gpu.Float64x2](),
	typed[gpu.FragmentA[gpu.Float16]](),
	typed[gpu.FragmentB[gpu.Float16]](),
	typed[gpu.FragmentC[float32]](),
	typed[gpu.Group](),
	typed[gpu.Int4](),
	typed[gpu.Order](),
	typed[gpu.Pipeline](),
	typed[gpu.Scope](),
	typed[gpu.Shape](),
	typed[gpu.TF32](),
	typed[gpu.Thread](),
	typed[gpu.TileRow[gpu.Float16]](),
	typed[gpu.Tiles[gpu.Float16]](),
	typed[gpu.SharedTile[gpu.Float16]](),
	typed[gpu.TxBarrier](),
	typed[gpu.Uint4](),
	typed[gpu.Uint64x2](),
	typed[kernels.Attention[gpu.Float16]](),
	typed[kernels.Chunk](),
	typed[kernels.Decode[gpu.Float16]](),
	typed[kernels.Digest](),
	typed[kernels.Gemm[gpu.Float16]](),
	typed[kernels.GemmShape](),
	typed[kernels.GemmTo[gpu.Float8E4M3, float32, float32, activation]](),
	typed[kernels.GemmWith[gpu.Float16, activation]](),
	typed[kernels.Gram](),
	typed[kernels.Heads](),
	typed[kernels.Histogram256](),
	typed[kernels.Histogram[float32]](),
	typed[kernels.LayerNorm[float32]](),
	typed[kernels.Matrix[gpu.Float16]](),
	typed[kernels.Part[kernels.Sort[uint32], uint32]](),
	typed[kernels.Partition[uint32, stays]](),
	typed[kernels.RMSNorm[float32]](),
	typed[kernels.Reducer](),
	typed[kernels.ReducerOptions](),
	typed[kernels.Reduce[uint32, block.Add[uint32]]](),
	typed[kernels.ReduceByKey[uint32, uint32, block.Add[uint32]]](),
	typed[kernels.RunLengths[uint32]](),
	typed[kernels.SHA256Chunks](),
	typed[kernels.SHA256Rounds](),
	typed[kernels.Saxpy](),
	typed[kernels.Scan[uint32, block.Add[uint32]]](),
	typed[kernels.ScanAcross[uint32, block.Add[uint32]]](),
	typed[kernels.Search[uint32, ascending]](),
	typed[kernels.SegmentedReduce[uint32, block.Add[uint32]]](),
	typed[kernels.SegmentedSort[uint32, ascending]](),
	typed[kernels.Select[uint32, stays]](),
	typed[kernels.Softmax[float32]](),
	typed[kernels.Sort[float32]](),
	typed[kernels.SortPairs[float32, uint64]](),
	typed[kernels.StableSort[uint32, ascending]](),
	typed[kernels.Sum](),
	typed[kernels.TopK[float32]](),
	typed[kernels.Unique[uint32]](),
	typed[kernels.VectorAdd](),
	typed[nvrtc.Compiler](),
	typed[nvrtc.Config](),
	typed[nvrtc.Handle](),
	typed[nvrtc.Header](),
	typed[nvrtc.Artifact](),
	typed[nvrtc.Kind](),
	typed[nvrtc.Library](),
	typed[nvrtc.Linker](),
	typed[nvrtc.Options](),
	typed[nvrtc.Program](),
	typed[nvrtc.Result](),
	typed[nvrtc.Stats](),
	typed[nvrtc.Target](),
	typed[pool.Batcher[int, int]](),
	typed[pool.BatcherConfig[int, int]](),
	typed[pool.BatcherStats](),
	typed[pool.BreakEven](),
	typed[pool.BreakEvenConfig](),
	typed[pool.BreakEvenPoint](),
	typed[pool.BreakEvenReport](),
	typed[pool.DeviceStats](),
	typed[pool.DoOptions](),
	typed[pool.Error](),
	typed[pool.Histogram](),
	typed[pool.MapOptions[int, int]](),
	typed[pool.Options](),
	typed[pool.PanicError](),
	typed[pool.ParallelOptions](),
	typed[pool.Phase](),
	typed[pool.Pool](),
	typed[pool.Reason](),
	typed[pool.ReduceOptions[int]](),
	typed[pool.Report](),
	typed[pool.ReserveError](),
	typed[pool.ScatterOptions](),
	typed[pool.State[int]](),
	typed[pool.Stats](),
	typed[pool.StreamOptions[int, int]](),
	typed[pool.Tile](),
	typed[pool.TileReport](),
	typed[pool.Place](),
	typed[pool.Worker](),
	typed[refs.Change](),
	typed[refs.Core](),
	typed[refs.Growable[float32]](),
	typed[refs.Ref[float32]](),
	typed[refs.State](),
	typed[refs.StateConfig](),
	typed[refs.Stats](),
	typed[refs.Status](),
	typed[runtime.Arg](),
	typed[runtime.Checks](),
	typed[runtime.Backend](),
	typed[runtime.Box](),
	typed[runtime.Capability](),
	typed[runtime.ComputeMode](),
	typed[runtime.Context](),
	typed[runtime.Device](),
	typed[runtime.Dim3](),
	typed[runtime.Event](),
	typed[runtime.Graph](),
	typed[runtime.GraphBuilder](),
	typed[runtime.GraphExec](),
	typed[runtime.GraphNode](),
	typed[runtime.HostBuffer[float32]](),
	typed[runtime.IPCHandle](),
	typed[runtime.Managed[float32]](),
	typed[runtime.Image](),
	typed[runtime.Kernel](),
	typed[runtime.Shape](),
	typed[runtime.LibraryHandle](),
	typed[runtime.Module](),
	typed[runtime.Option](),
	typed[runtime.Outcome](),
	typed[runtime.Policy](),
	typed[runtime.Ref[float32]](),
	typed[runtime.Runtime](),
	typed[runtime.Pitches](),
	typed[runtime.Scope](),
	typed[runtime.Stats](),
	typed[runtime.Stream](),
	typed[runtime.Variable[float32]](),
	typed[runtime.Tiles](),
	typed[runtime.TilesShape](),
	typed[runtime.Trace](),
	typed[runtime.TraceCall](),
	typed[runtime.TraceCopy](),
	typed[runtime.TraceKernel](),
	typed[runtime.TraceLaunch](),
	typed[runtime.TraceModule](),
	typed[runtime.TraceRequest](),

	typed[isolate.Buffer](),
	typed[isolate.DeviceStats](),
	typed[isolate.Fallback](),
	typed[isolate.Func](),
	typed[isolate.Group](),
	typed[isolate.Handler[int, int]](),
	typed[isolate.Option](),
	typed[isolate.RemoteError](),
	typed[isolate.Request](),
	typed[isolate.State](),
	typed[isolate.Stats](),
	typed[launch.CheckError](),
	typed[launch.Kernels](),
	typed[launch.Layout](),
	typed[launch.Module](),
	typed[launch.Place](),
	typed[launch.Span](),
	typed[metrics.HealthReader](),
	typed[metrics.Kind](),
	typed[metrics.Metric](),
	typed[metrics.Reader](),
	typed[metrics.Sample](),
	typed[poolmetrics.Reader](),
}

// needNoError are the methods and functions for which nothing is no mistake, each with its reason.
var needNoError = map[string]string{
	"runtime.Scope.Err":         "nothing has failed",
	"driver.Binding.Failed":     "no result is Success, which is no failure",
	"driver.Binding.Push":       "the zero Binding needs nothing",
	"driver.Error.Unwrap":       "without a cause",
	"contain.PanicError.Unwrap": "without a cause",
	"pool.ReserveError.Unwrap":  "is of one kind",
	"isolate.Group.Shutdown":    "no group has nothing to end",
	"refs.State.Lost":           "was not lost",

	// Functions.
	"driver.Open":              "takes the driver of this machine, if there is one",
	"nvrtc.Open":               "takes the NVRTC of this machine, if there is one",
	"nvrtc.OpenCompiler":       "takes the NVRTC of this machine, if there is one",
	"nvrtc.OpenLinker":         "takes the nvJitLink of this machine, if there is one",
	"runtime.Open":             "takes the driver of this machine, if there is one",
	"runtime.Probe":            "takes the driver of this machine, if there is one",
	"runtime.Refresh":          "takes the driver of this machine, if there is one",
	"runtime.ParsePolicy":      "no text is PolicyAuto",
	"refs.SizeOf":              "no elements have no bytes",
	"kernels.SHA256ChunksCPU":  "no chunks have no digests",
	"kernels.SoftmaxCPU":       "no elements are no work",
	"kernels.RMSNormCPU":       "no elements are no work",
	"kernels.LayerNormCPU":     "no elements are no work",
	"kernels.SaxpyCPU":         "no elements are no work",
	"kernels.ScanCPU":          "no elements are no work",
	"kernels.PartitionCPU":     "no elements are no work",
	"kernels.ReduceByKeyCPU":   "no elements are no work",
	"kernels.RunLengthsCPU":    "no elements are no work",
	"kernels.SegmentedSortCPU": "no elements are no work",
	"kernels.TopKCPU":          "no elements are no work",
	"kernels.VectorAddCPU":     "no elements are no work",
	"runtime.Runtime.Degraded": "Err says what is wrong with all of it",
}

// stays is a condition of kernels.Select.
type stays struct{}

func (stays) Keep(uint32) bool { return true }

// ascending is an order of kernels.Search.
type ascending struct{}

func (ascending) Less(a, b uint32) bool { return a < b }

// inKernels is the package that kernels call: what panics there is an error of gpu.Run.
const inKernels = "gpu"

var exportedType = regexp.MustCompile(`^pkg (\w+|pool/\w+|runtime/metrics|gpu/launch), type (\w+)(\[.*?\])? (\S+)`)

// elsewhere are names of types that are tried by another name.
var elsewhere = map[string]bool{"kernels.Digest": true, "pool.PanicError": true, "runtime.Dim3": true, "runtime.Growable": true, "runtime.Ref": true,
	"launch.Copies": true} // is made for the functions that gpuc writes, and lives in their call

// The list of types is complete.
func TestValuesAreAll(t *testing.T) {
	text, err := os.ReadFile("../api/purecuda.txt")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, v := range values {
		name, _, _ := strings.Cut(v.String(), "[")
		known[name] = true
	}
	for line := range strings.Lines(string(text)) {
		m := exportedType.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[4], "interface") || place(m[1]) < 0 {
			continue
		}
		name := path.Base(m[1]) + "." + m[2]
		assert.True(t, known[name] || elsewhere[name], "%s is not tried", name)
	}
}

// What a program forgot to make is an error of kind ErrInvalidArgument, never a panic: each
// method of a nil pointer and of the zero value, with arguments that are zero.
func TestMethodsOfNothing(t *testing.T) {
	for _, typ := range values {
		if strings.HasPrefix(typ.String(), inKernels+".") {
			continue
		}
		pointer := reflect.PointerTo(typ)
		for i := range pointer.NumMethod() {
			m := pointer.Method(i)
			name := typ.String() + "." + m.Name
			_, byValue := typ.MethodByName(m.Name)
			if byValue && typ == typed[driver.Binding]() {
				continue // a method of the interface in it, where Go itself calls
			}
			if !byValue { // which Go itself refuses to call
				tryMethod(t, "nil "+name, name, reflect.Zero(pointer).Method(i))
			}
			tryMethod(t, "zero "+name, name, reflect.New(typ).Method(i))
		}
	}
}

func tryMethod(t *testing.T, what, name string, method reflect.Value) {
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
			break
		}
		args = append(args, reflect.Zero(method.Type().In(i)))
	}
	var results []reflect.Value
	var panicked any
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { panicked = recover() }()
		results = method.Call(args)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not return", what)
	}
	if !assert.Nil(t, panicked, what) || len(results) == 0 {
		return
	}
	last := results[len(results)-1]
	if last.Type() != reflect.TypeFor[error]() || needNoError[name] != "" || strings.HasSuffix(name, ".Close") && last.IsNil() {
		return
	}
	err, _ := last.Interface().(error)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument, fmt.Sprintf("%s: %v", what, err))
	var known *driver.Error
	assert.True(t, errors.As(err, &known), what)
}
