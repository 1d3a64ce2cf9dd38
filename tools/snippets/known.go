package main

// imported are packages that only documents and tests import. A module may
// lack them.
var imported = []string{
	"testing", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require", "go.opentelemetry.io/otel",
	"gonum.org/v1/gonum/blas/blas32",
}

// aliases are names under which the documents import packages whose own name is another one.
var aliases = map[string]string{
	"goruntime":    "runtime",
	"purecudaotel": root + "/contrib/otel",
	"purecudaprom": root + "/contrib/prometheus",
}

// known are the variables that a fragment may use without declaring them, with their types.
var known = map[string]string{
	"ctx":     "context.Context",
	"err":     "error",
	"t":       "*testing.T",
	"rt":      "*runtime.Runtime",
	"backend": "*runtime.Backend",
	"c":       "*runtime.Context",
	"s":       "*runtime.Stream",
	"k":       "*runtime.Kernel",
	"shape":   "runtime.Shape",
	"x":       "*runtime.Ref[float32]",
	"y":       "*runtime.Ref[float32]",
	"n":       "int",
	"source":  "string",
	"program": "nvrtc.Program",
	"target":  "nvrtc.Target",
}

// preambles are declarations for the comments of a file.
var preambles = map[string]string{
	"arena/doc.go":                         "var binding *driver.Binding; var handle driver.Stream; func launch(driver.Stream, driver.DevicePtr)",
	"cluster/doc.go":                       "var nc *nats.Conn; var group *isolate.Group; var images [][]byte",
	"cmd/smoke/internal/bench/doc.go":      "var machine *bench.Machine; var options bench.Options",
	"contrib/prometheus/collector.go":      "var registry *prometheus.Registry",
	"driver/doc.go":                        "func onTheCPU() error",
	"driver/nvml/doc.go":                   "var uuid driver.UUID",
	"driver/nvml/nvmltest/nvmltest.go":     "func watch(nvml.API)",
	"driver/drivertest/doc.go":             "func run(driver.API)",
	"gpu/block/exchange.go":                "var t *gpu.Thread; var in []float32",
	"gpu/block/histogram.go":               "var t *gpu.Thread; var data []byte; var counts []uint32",
	"gpu/block/runs.go":                    "var t *gpu.Thread; var x, values, outValues [64]byte; var lengths, outLengths [64]uint32",
	"gpu/block/top.go":                     "var t *gpu.Thread; var in, x []float32; var less order; type order struct{}; func (order) Less(a, b float32) bool; var room, k int",
	"gpu/doc.go":                           "var in, out []float32; func Blur(t *gpu.Thread, in, out []float32)",
	"internal/artifact/doc.go":             "var key artifact.Key; var logger *slog.Logger; func compile() []byte",
	"internal/ffi/doc.go":                  "var dptr uint64; var fn uintptr",
	"internal/ptx/doc.go":                  "var src []byte",
	"internal/ptx/exec/doc.go":             "var src []byte; var params []byte; var memory exec.Memory; func place([]exec.Global) []uint64",
	"libs/cublas/cublastest/cublastest.go": "var stream *runtime.Stream",
	"libs/cublas/doc.go":                   "func multiplyOnTheCPU() error; var stream *runtime.Stream; var a, b, c *runtime.Ref[float32]; var m, n, k int",
	"libs/cufft/doc.go":                    "var signal *runtime.Ref[float32]; var spectrum *runtime.Ref[complex64]; var batch int",
	"libs/nccl/doc.go":                     "func addOnTheHost() error; var streams []*runtime.Stream; var gradients []*runtime.Ref[float32]",
	"libs/nccl/nccltest/nccltest.go":       "var streams []*runtime.Stream",
	"internal/wait/doc.go":                 "var binding *driver.Binding; var handle driver.Stream",
	"nvrtc/doc.go":                         "var driverVersion driver.Version; func usePTX() error",
	"nvrtc/linker.go":                      "var linker *nvrtc.Linker; var first, second *nvrtc.Artifact",
	"nvrtc/nvrtctest/doc.go":               "var ptx string",
	"runtime/graph_build.go":               "var prepare, step *runtime.Kernel; var left *runtime.Ref[uint32]",
	"pool/batcher.go": "var p *pool.Pool; type Query struct{}; type Score float32; var query Query; " +
		"func scoreOnGPU(w *pool.Worker, in []Query, out []Score, errs []error) error; " +
		"func scoreOnCPU(ctx context.Context, in []Query, out []Score, errs []error) error",
	"pool/breakeven.go": "var p *pool.Pool; func hashOnGPU(*pool.Worker, pool.Tile) error; func hashOnCPU(ctx context.Context, lo, hi int) error",
	"pool/poolmetrics/metrics.go": "var p *pool.Pool; var batcher *pool.Batcher[int, int]; " +
		"func send(name string, labels []string, value float64)",
	"pool/stream.go": "var p *pool.Pool; type Digest [32]byte; var files iter.Seq2[string, error]; var root io.Writer; func read(context.Context, string, []byte) (int, error); " +
		"func hash(*pool.Worker, string, *runtime.HostBuffer[byte]) (Digest, error)",
	"pool/doc.go":            sobel,
	"pool/state.go":          sobel,
	"gpu/gputest/gputest.go": "var x, y []float32; func SaxpyAuto(context.Context, *runtime.Runtime, runtime.Shape, float32, []float32, []float32) (launch.Place, error)",
	"refs/core.go":           "var c *refs.Core; var stream *arena.Stream",
	"refs/doc.go":            "var state *refs.State; var stream *arena.Stream",
	"runtime/kernelset.go":   "var m *runtime.Module",
	"runtime/link.go":        "var first, second []byte",
	"runtime/doc.go":         "var a float32; var x, y []float32; func saxpyOnTheCPU(a float32, x, y []float32) error",
	"runtime/metrics/doc.go": "func send(name string, labels []string, value float64)",
}

// sobel is what gpuc writes of a kernel.
const sobel = "type Kernels struct{}; func (*Kernels) Sobel(s *runtime.Stream, shape int, in, out []float32) error; func (*Kernels) Blur(s *runtime.Stream, shape int, in, out []float32) error; " +
	"func Load(*runtime.Context) (*Kernels, error); var shape int; var in, out []float32; func sobelOnCPU(context.Context) error"
