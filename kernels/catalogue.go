package kernels

import (
	"errors"
	"math"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
	"github.com/purecuda/purecuda/kernels/internal/hopper"
	"github.com/purecuda/purecuda/kernels/internal/source"
	"github.com/purecuda/purecuda/runtime"
)

// catalogue has the PTX of each kernel by its name, which is its entry point too.
var catalogue = map[string]string{
	"gram":          source.GramSM75,
	"histogram256":  source.Histogram256SM75,
	"saxpy":         source.SaxpySM75,
	"sha256_chunks": source.SHA256ChunksSM75,
	"sha256_rounds": source.SHA256RoundsSM75,
	"sum":           source.SumSM75,
	"vector_add":    source.VectorAddSM75,
}

// tensorCatalogue has those of Gemm for BFloat16: for sm_90a by the width of their tiles, and for sm_80.
var tensorCatalogue = []string{hopper.ProductWideBFloat16SM90A, hopper.ProductMiddleBFloat16SM90A, hopper.ProductNarrowBFloat16SM90A, gemm.ProductBFloat16SM80, gemm.TransposeSM80, gemm.MergeBFloat16SM80}

// forFloat16 makes the PTX for Float16 from that for BFloat16. gpuc writes the same text but for these names, which a test of gpuc shows.
var forFloat16 = strings.NewReplacer("BFloat16", "Float16", "bf16", "f16")

// Load loads a kernel of the catalogue into a context: Load[Saxpy](c). Close unloads it. The kernel is safe for concurrent
// use, each goroutine with a stream of its own. It compiles the PTX, unless the driver's cache has it.
func Load[K Gemm[gpu.Float16] | Gemm[gpu.BFloat16] | Gram | Histogram256 | Saxpy | SHA256Chunks | SHA256Rounds | Sum | VectorAdd](c *runtime.Context) (K, error) {
	var k K
	var name string
	switch any(k).(type) {
	case Gemm[gpu.Float16]:
		name = "ProductFloat16"
	case Gemm[gpu.BFloat16]:
		name = "ProductBFloat16"
	case Gram:
		name = "gram"
	case Histogram256:
		name = "histogram256"
	case Saxpy:
		name = "saxpy"
	case SHA256Chunks:
		name = "sha256_chunks"
	case SHA256Rounds:
		name = "sha256_rounds"
	case Sum:
		name = "sum"
	case VectorAdd:
		name = "vector_add"
	}
	names, codes := []string{name}, tensorCatalogue
	switch has := c.Device().Capability; {
	case !strings.HasPrefix(name, "Product"):
		codes = []string{catalogue[name]}
	case has.Major < 8:
		return k, driver.Errorf(driver.ErrUnsupported, "kernels.Gemm needs compute capability 8.0, and the device has %v: take another device, or kernels.GemmCPU", has)
	case has.Arch() == 90 && c.Device().TensorMaps:
		names = nil
		for _, width := range gemmWidths {
			names = append(names, "Product"+width.name+name[len("Product"):])
		}
		names, codes = append(names, "Transpose", "Merge"+name[len("Product"):]), append(codes[:len(gemmWidths):len(gemmWidths)], codes[len(gemmWidths)+1:]...)
	default:
		codes, names = codes[len(gemmWidths):], []string{name, "Transpose", "Merge" + name[len("Product"):]}
	}
	var all kernel
	for i, name := range names {
		code := codes[i]
		if strings.HasSuffix(name, "Float16") && !strings.HasSuffix(name, "BFloat16") {
			code = forFloat16.Replace(code)
		}
		m, err := c.LoadModule(runtime.Image{Code: []byte(code)})
		if err != nil {
			return k, errors.Join(err, all.Close())
		}
		entry, err := m.Kernel(name)
		if err != nil {
			return k, errors.Join(err, m.Close(), all.Close())
		}
		if i == 0 {
			all.k = entry
		} else {
			all.more = append(all.more, entry)
		}
	}
	return K(struct{ kernel }{all}), nil
}

// kernel is what all kernels have in common.
type kernel struct {
	k    *runtime.Kernel
	more []*runtime.Kernel // of Gemm: on compute capability 9.0 those for other widths of tiles, and Transpose and Merge at the end
}

// Close unloads the kernel. It may be called twice.
func (k kernel) Close() error {
	var errs []error
	for _, more := range k.more {
		errs = append(errs, more.Module().Close())
	}
	return errors.Join(append(errs, k.k.Module().Close())...)
}

// launch runs the kernel with a grid and a block of one dimension.
func (k kernel) launch(s *runtime.Stream, grid, block uint32, args ...runtime.Arg) error {
	return k.k.Launch(s, runtime.Shape{Grid: runtime.Dim3{X: grid}, Block: runtime.Dim3{X: block}}, args...)
}

// multiprocessors is the number of them on the kernel's device.
func (k kernel) multiprocessors() int { return k.k.Module().Context().Device().Multiprocessors }

// maxGrid is the largest number of blocks in the x dimension of a grid on every device.
const maxGrid = math.MaxInt32

// linearGrid returns the number of blocks that gives each of n elements a thread, but at most maxGrid. The kernels are correct for any n with
// any grid.
func linearGrid(n uint64, block uint32) uint32 { return clampGrid(n, uint64(block), maxGrid) }

// residentGrid returns at most as many blocks as the device runs at the same time, for kernels whose
// blocks do some work once, at their end. perBlock is how many elements a block takes in one step.
// A multiprocessor holds 8 blocks of 256 threads (2048 threads). Some devices hold fewer, and run
// the rest in a second wave.
func residentGrid(n, perBlock uint64, multiprocessors int) uint32 {
	const blocksPerMultiprocessor = 8
	limit := uint64(min(max(multiprocessors, 1), maxGrid)) * blocksPerMultiprocessor
	return clampGrid(n, perBlock, min(limit, maxGrid))
}

// clampGrid is ceil(n/perBlock), at most limit.
func clampGrid(n, perBlock, limit uint64) uint32 {
	blocks := n / perBlock
	if n%perBlock != 0 {
		blocks++
	}
	return uint32(min(blocks, limit))
}

// invalidArgument is the error of a call whose arguments break the kernel's contract:
// slices whose lengths do not belong together, or a chunk outside its data.
func invalidArgument(format string, args ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, args...)
}
