package kernels

import (
	"math"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/kernels/internal/source"
)

// Source is one kernel of the catalogue.
type Source struct {
	// Name is the kernel's name and its entry point in every image.
	Name string
	// Images are the PTX builds of it, best first: the highest architecture leads. A device
	// runs the first one whose Arch is not above its compute capability.
	Images []Image
	// Block is the number of threads per block that the kernel is meant to be launched with.
	Block uint32
}

// Image is one PTX build of a kernel.
type Image struct {
	// Arch is the lowest compute capability that runs the image, as major*10 + minor.
	Arch int
	// ISA is the PTX version that the image is written in, "major.minor". A driver that is
	// older than this version refuses the image.
	ISA string
	// PTX is the text, without a terminating NUL.
	PTX string
}

// All returns the catalogue in alphabetical order. The caller owns the result; the texts in
// it share the program's read-only data.
func All() []Source {
	return []Source{
		newSource("gram", GramBlock, source.GramSM75, source.GramSM90),
		newSource("histogram256", Histogram256Block, source.Histogram256SM75, source.Histogram256SM90),
		newSource("saxpy", SaxpyBlock, source.SaxpySM75, source.SaxpySM90),
		newSource("sha256_chunks", SHA256ChunksBlock, source.SHA256ChunksSM75, source.SHA256ChunksSM90),
		newSource("sha256_rounds", SHA256RoundsBlock, source.SHA256RoundsSM75, source.SHA256RoundsSM90),
		newSource("sum", SumBlock, source.SumSM75, source.SumSM90),
		newSource("vector_add", VectorAddBlock, source.VectorAddSM75, source.VectorAddSM90),
	}
}

// Lookup returns the kernel of this name, and whether there is one.
func Lookup(name string) (Source, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Source{}, false
}

// newSource joins the parts of a kernel. gpuc chooses the ISA versions; a test compares them with what the images say.
func newSource(name string, block uint32, sm75, sm90 string) Source {
	return Source{
		Name: name, Block: block,
		Images: []Image{{Arch: 90, ISA: "7.8", PTX: sm90}, {Arch: 75, ISA: "7.0", PTX: sm75}},
	}
}

// MaxGrid is the largest number of blocks in the x dimension of a grid on every device.
const MaxGrid = math.MaxInt32

// Grid returns the number of blocks of `block` threads that gives each of n elements a thread, but
// at most MaxGrid. The kernels of this package are correct for any n with any grid. For no elements
// Grid returns 0, an empty grid. A block of 0 counts as 1.
func Grid(n uint64, block uint32) uint32 {
	return clampGrid(n, uint64(max(block, 1)), MaxGrid)
}

// residentGrid returns at most as many blocks as the device runs at the same time, for kernels whose
// blocks do some work once, at their end. perBlock is how many elements a block takes in one step.
// A multiprocessor holds 8 blocks of 256 threads (2048 threads). Some devices hold fewer, and run
// the rest in a second wave.
func residentGrid(n, perBlock uint64, multiprocessors int) uint32 {
	const blocksPerMultiprocessor = 8
	limit := uint64(min(max(multiprocessors, 1), MaxGrid)) * blocksPerMultiprocessor
	return clampGrid(n, perBlock, min(limit, MaxGrid))
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
