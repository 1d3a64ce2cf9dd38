package kernels

import (
	"cmp"
	"math"
	"slices"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
	"github.com/purecuda/purecuda/kernels/internal/hopper"
	"github.com/purecuda/purecuda/runtime"
)

// Matrix is a matrix on a device, row by row. Row i begins at element i*Pitch of Ref. Pitch is a multiple of 8, and of 16 where an element is a
// byte. Ref begins at a multiple of 16 bytes, as what Alloc returns does. It is a plain value.
type Matrix[T gpu.Element | gpu.Sum] struct {
	Ref               *runtime.Ref[T]
	Rows, Cols, Pitch int
}

// Gemm is the matrix product on tensor cores. It needs compute capability 8.0: [Load] says so. On 9.0 it takes products of four
// warps and copies of tiles, with a size of tiles by the shape.
type Gemm[T gpu.Half] struct{ kernel }

// GemmShape says more of a call of Gemm. The zero value says what a call without it does: one product.
type GemmShape struct {
	// Batch is how many products of the same size a call computes: at most 65,535. 0 means one product, and the strides say nothing then.
	// Each matrix of the next product begins a stride further, in elements of its Ref. A stride on a device is a multiple of what a pitch is. One of 0 gives all products the same A or B.
	// The results lie one after another, or side by side in rows that have room for all.
	Batch                     int
	StrideA, StrideB, StrideC int

	// TransposedA says that A lies in memory as its transpose: a row of the Matrix is a column of A. TransposedB says so of B, and C is then the
	// product of A and the Matrix. Compute capability 9.0 multiplies elements of 16 bits as they lie. Else a launch copies such a matrix
	// to the form that it needs, in scratch memory. It takes as long as reading and writing it. The memory of such a Matrix goes on to a multiple of 4 bytes after the last element.
	TransposedA, TransposedB bool

	// InParts adds up products of few tiles and many columns in parts, which have blocks of their own. It does so where all C have at most 32 tiles of
	// 128 x 128, and A has 2,048 columns or more. The sums of the parts lie in scratch memory, and are added in their order. The parts depend on the
	// shape alone.
	InParts bool

	// Scratch is memory for transposes and parts, of as many bytes as the method Scratch of the kernel says. It overlaps no matrix.
	// Without it, nil, the memory comes from the arena, and the stream must not be captured.
	Scratch *runtime.Ref[byte]
}

// maxBatch is the largest number of blocks in the y dimension of a grid.
const maxBatch = 65535

// gemmBatch is the shape of a call, with its number of products.
func gemmBatch(shape []GemmShape) (g GemmShape, err error) {
	if len(shape) > 1 {
		return g, invalidArgument("Gemm: %d shapes, want one at most", len(shape))
	}
	if len(shape) == 1 {
		g = shape[0]
	}
	if g.Batch < 0 || g.Batch > maxBatch {
		return g, invalidArgument("Gemm: a batch of %d products, want 0 to %d: divide a larger one", g.Batch, maxBatch)
	}
	if g.Batch < 2 {
		g.Batch, g.StrideA, g.StrideB, g.StrideC = 1, 0, 0, 0
	}
	return g, nil
}

// fits looks whether the matrices of a batch have their memory, of which left elements lie behind the first.
func (g GemmShape) fits(name string, stride, left int) error {
	if g.Batch > 1 && (stride < 0 || left/(g.Batch-1) < stride) {
		return invalidArgument("Gemm: the stride of %s is %d: %d elements behind the first of %d matrices have room for 0 to %d: want %d x the stride there", name, stride, left, g.Batch, left/(g.Batch-1), g.Batch-1)
	}
	return nil
}

// apart looks whether the results of a batch overlap. They have rows of cols elements.
func (g GemmShape) apart(rows, cols, pitch int) error {
	if g.Batch < 2 || g.StrideC >= (rows-1)*pitch+cols || g.StrideC >= cols && g.StrideC <= (pitch-cols)/(g.Batch-1) {
		return nil
	}
	return invalidArgument("Gemm: the stride of C is %d: %d results of %d x %d with a pitch of %d overlap: want %d and more, or room for all in a row", g.StrideC, g.Batch, rows, cols, pitch, (rows-1)*pitch+cols)
}

// parts divides the columns of A and B where there are few tiles and many columns, so that there are some 128 blocks. It does not ask the
// device, so that all have the same order of sums. part is how many columns a part has.
func (g GemmShape) parts(m, n, k, size int) (parts, part int) {
	tiles := uint64(ceil(m, gemm.Tile)) * uint64(ceil(n, gemm.Tile))
	if !g.InParts || tiles > 32 || tiles*uint64(g.Batch) > 32 || k < 2048 {
		return 1, k
	}
	parts = min(128/(int(tiles)*g.Batch), k/512, 16)
	depth := 2 * hopper.DepthBytes / size // that of 8.0 is a quarter
	part = ceil(ceil(k, parts), depth) * depth
	return ceil(k, part), part
}

// transposesC reports whether compute capability 9.0 computes the transpose of C in parts: rows of B fill tiles that few rows of A would not.
func (g GemmShape) transposesC(m, n, parts int) bool {
	return parts > 1 && m <= 64 && n > 64 && n&1 == 0
}

// pairs is how many pairs of sums a product has, of C or of its transpose.
func (g GemmShape) pairs(m, n, parts int) int {
	if g.transposesC(m, n, parts) {
		return max(m*ceil(n, 2), n*ceil(m, 2))
	}
	return m * ceil(n, 2)
}

// unit is what pitches and strides of elements of so many bytes are multiples of.
func unit(size int) int { return max(8, 16/size) }

// copied is the shape with those transposes alone that are copied: tensor cores of compute capability 9.0 take 16-bit elements as they lie.
func (g GemmShape) copied(hopper bool, size int) GemmShape {
	if hopper && size == 2 {
		g.TransposedA, g.TransposedB = false, false
	}
	return g
}

// scratch is how many bytes the transposes and the sums of parts take, where elements of A and B have size bytes.
func (g GemmShape) scratch(m, n, k, size int) int {
	total := 0.0 // no int holds what numbers that fit no memory give
	add := func(bytes ...int) {
		all := 1.0
		for _, n := range bytes {
			all *= float64(n)
		}
		total += 256 * math.Ceil(all/256)
	}
	if g.TransposedA {
		add(g.matrices(g.StrideA), m, ceil(k, unit(size))*unit(size), size)
	}
	if g.TransposedB {
		add(g.matrices(g.StrideB), n, ceil(k, unit(size))*unit(size), size)
	}
	if parts, _ := g.parts(m, n, k, size); parts > 1 {
		add(parts, g.Batch, g.pairs(m, n, parts), 8)
	}
	if total >= math.MaxInt {
		return math.MaxInt
	}
	return int(total)
}

// matrices is how many matrices a stride gives.
func (g GemmShape) matrices(stride int) int {
	if stride == 0 {
		return 1
	}
	return g.Batch
}

// gemmScratch is Scratch of a kernel.
func gemmScratch[T gpu.Element](hopper bool, m, n, k int, shape GemmShape) int {
	g, err := gemmBatch([]GemmShape{shape})
	if err != nil || gemmShape(g, m, n, k, k, m, n) != nil || m == 0 || n == 0 {
		return 0
	}
	size := int(sizeOf[T]())
	return g.copied(hopper, size).scratch(m, n, k, size)
}

// Scratch is how many bytes of scratch memory products of A with m rows and depth columns, and B with n rows and as many columns, need.
// It depends on the device of the kernel. A matrix that lies as its transpose is seen as A or B. It is 0 where they need none, and for what Launch refuses.
func (k Gemm[T]) Scratch(m, n, depth int, shape GemmShape) int {
	return gemmScratch[T](k.hopper(), m, n, depth, shape)
}

// hopper reports whether the kernels for compute capability 9.0 are loaded: three widths, before the transpose and the merge.
func (k Gemm[T]) hopper() bool { return len(k.more) > 2 }

// newGemmScratch takes the scratch memory of a call.
func newGemmScratch[T, R gpu.Element | gpu.Sum](s *runtime.Stream, g GemmShape, hopper bool, a Matrix[T], c Matrix[R]) (*scratch, error) {
	_, k, _ := turned[T](g.TransposedA, a.Rows, a.Cols)
	size := int(sizeOf[T]())
	bytes := g.copied(hopper, size).scratch(c.Rows, c.Cols, k, size)
	if bytes == 0 {
		return &scratch{}, nil
	}
	return newScratch("Gemm", s, bytes, g.Scratch)
}

// Launch computes C = A * transposed B: element (i, j) of C is the product of row i of A and row j of B. A linear layer
// computes that, with its weights in B. A and B have as many columns, at least 1. Products are added in float32, as [gpu.MMA] does, and the sum
// is rounded once. Where the columns of C are no multiple of 8, the elements after each row, up to the next multiple, may change. So C has memory for those
// behind its last row too. C overlaps neither A nor B.
// A shape makes it a batch, which runs in one launch.
func (k Gemm[T]) Launch(s *runtime.Stream, a, b, c Matrix[T], shape ...GemmShape) error {
	if k.k == nil {
		return invalidArgument("Gemm: the kernels are nil: load them")
	}
	g, empty, err := gemmChecked(a, b, c, shape)
	if err != nil {
		return err
	} else if empty {
		return nothing(s)
	}
	last := len(k.more) - 1
	space, err := newGemmScratch(s, g, k.hopper(), a, c)
	if err != nil {
		return err
	}
	defer space.close()
	err = gemmStraight(space, &g, k.hopper(), &a, &b, func(shape runtime.Shape, args ...runtime.Arg) error { return k.more[last-1].Launch(s, shape, args...) })
	if err != nil {
		return err
	}
	return gemmInParts(space, g, k.hopper(), a, c, func(sums *runtime.Ref[float32]) error {
		if !k.hopper() {
			shape, args, err := gemmArgs(g, a, b, c, sums)
			if err != nil {
				return err
			}
			return k.k.Launch(s, shape, args...)
		}
		width, shape, args, err := hopperTiled(k.k.Module().Context(), g, a, b, c, sums)
		if err != nil {
			return err
		}
		kernel := k.k
		if width > 0 {
			kernel = k.more[width-1]
		}
		return kernel.Launch(s, shape, args...)
	}, func(shape runtime.Shape, args ...runtime.Arg) error { return k.more[last].Launch(s, shape, args...) })
}

// gemmInParts calls product with memory for the sums of parts, and then merge. Where there are no parts, the sums are nil. hopper says that product is
// for compute capability 9.0.
func gemmInParts[T gpu.Element, R gpu.Element | gpu.Sum](space *scratch, g GemmShape, hopper bool, a Matrix[T], c Matrix[R], product func(sums *runtime.Ref[float32]) error, merge func(shape runtime.Shape, args ...runtime.Arg) error) error {
	_, k, _ := turned[T](g.TransposedA, a.Rows, a.Cols)
	parts, _ := g.parts(c.Rows, c.Cols, k, int(sizeOf[T]()))
	if parts == 1 {
		return product(nil)
	}
	sums, err := cut[float32](space, parts*g.Batch*2*g.pairs(c.Rows, c.Cols, parts)) // or of int32
	if err != nil {
		return err
	}
	if err := product(sums); err != nil {
		return err
	}
	i := func(n int) runtime.Arg { return runtime.Value(int32(n)) }
	shape := runtime.Shape{Grid: runtime.Dim3{X: uint32(ceil(c.Rows*ceil(c.Cols, 2), gemm.MoveThreads)), Y: uint32(g.Batch)}, Block: runtime.Dim3{X: gemm.MoveThreads}}
	return merge(shape, runtime.In(sums), runtime.Value(sums.Len()), runtime.InOut(c.Ref), runtime.Value(c.Ref.Len()/2),
		i(c.Rows), i(c.Cols), i(c.Pitch/2), runtime.Value(g.StrideC/2), i(parts), launch.Bool(hopper && g.transposesC(c.Rows, c.Cols, parts)))
}

// gemmSums are sums as a slice of pairs, which may be none.
func gemmSums(sums *runtime.Ref[float32]) []runtime.Arg {
	if sums == nil {
		return []runtime.Arg{runtime.Value(uint64(0)), runtime.Value(0)}
	}
	return []runtime.Arg{runtime.InOut(sums), runtime.Value(sums.Len() / 2)}
}

// gemmStraight copies matrices that lie as their transposes, where the tensor cores do not take them so.
func gemmStraight[T gpu.Element](space *scratch, g *GemmShape, hopper bool, a, b *Matrix[T], launch func(shape runtime.Shape, args ...runtime.Arg) error) error {
	size := int(sizeOf[T]())
	copied := g.copied(hopper, size)
	for _, o := range []struct {
		copied bool
		turned *bool
		of     *Matrix[T]
		stride *int
	}{{copied.TransposedA, &g.TransposedA, a, &g.StrideA}, {copied.TransposedB, &g.TransposedB, b, &g.StrideB}} {
		if !o.copied {
			continue
		}
		*o.turned = false
		from, count, pitch, side, per := *o.of, g.matrices(*o.stride), ceil(o.of.Rows, unit(size))*unit(size), gemm.Turned(size), 4/size
		grid := uint64(ceil(from.Rows, side)) * uint64(ceil(from.Cols, side))
		if grid > maxGrid {
			return invalidArgument("Gemm: %d x %d elements to transpose are %d tiles, at most %d", from.Rows, from.Cols, grid, maxGrid)
		}
		ref, err := cut[T](space, count*from.Cols*pitch)
		if err != nil {
			return err
		}
		i := func(n int) runtime.Arg { return runtime.Value(int32(n)) }
		shape := runtime.Shape{Grid: runtime.Dim3{X: uint32(grid), Y: uint32(count)}, Block: runtime.Dim3{X: gemm.MoveThreads}, SharedBytes: uint32(gemm.TransposeBytes(size))}
		err = launch(shape, runtime.In(from.Ref), runtime.Value(from.Ref.Len()/per), runtime.InOut(ref), runtime.Value(ref.Len()/per),
			i(from.Rows), i(from.Cols), i(from.Pitch/per), i(pitch/per), runtime.Value(*o.stride/per), runtime.Value(from.Cols*pitch/per))
		if err != nil {
			return err
		}
		*o.of = Matrix[T]{ref, from.Cols, from.Rows, pitch}
		if count > 1 {
			*o.stride = from.Cols * pitch
		}
	}
	return nil
}

// gemmArgs are the shape and the arguments of the kernel for sm_80.
func gemmArgs[T gpu.Element, R gpu.Element | gpu.Sum](g GemmShape, a, b Matrix[T], c Matrix[R], sums *runtime.Ref[float32]) (shape runtime.Shape, args []runtime.Arg, err error) {
	tiles := func(n int) uint64 { return (uint64(n) + gemm.Tile - 1) / gemm.Tile }
	grid := tiles(c.Rows) * tiles(c.Cols)
	if grid > maxGrid {
		return shape, nil, invalidArgument("Gemm: %d x %d elements are %d tiles, at most %d", c.Rows, c.Cols, grid, maxGrid)
	}
	parts, part := g.parts(c.Rows, c.Cols, a.Cols, int(sizeOf[T]()))
	shape = runtime.Shape{Grid: runtime.Dim3{X: uint32(grid), Y: uint32(g.Batch), Z: uint32(parts)}, Block: runtime.Dim3{X: gemm.Threads}, SharedBytes: gemm.SharedBytes}
	per := 16 / int(sizeOf[T]())
	quads := func(m Matrix[T]) runtime.Arg { return runtime.Value(ceil(m.Ref.Len(), per)) }
	i := func(n int) runtime.Arg { return runtime.Value(int32(n)) }
	args = []runtime.Arg{runtime.In(a.Ref), quads(a), runtime.In(b.Ref), quads(b), runtime.InOut(c.Ref), runtime.Value(c.Ref.Len() / 2),
		i(c.Rows), i(c.Cols), i(a.Cols), i(a.Pitch / per), i(b.Pitch / per), i(c.Pitch / 2),
		runtime.Value(g.StrideA / per), runtime.Value(g.StrideB / per), runtime.Value(g.StrideC / 2)}
	return shape, append(append(args, gemmSums(sums)...), i(part)), nil
}

// gemmChecked looks at what a call takes, and whether the result is empty.
func gemmChecked[T gpu.Element, R gpu.Element | gpu.Sum](a, b Matrix[T], c Matrix[R], shape []GemmShape) (g GemmShape, empty bool, err error) {
	if g, err = gemmBatch(shape); err != nil {
		return g, false, err
	}
	rowsA, colsA, oddA := turned[T](g.TransposedA, a.Rows, a.Cols)
	rowsB, colsB, oddB := turned[T](g.TransposedB, b.Rows, b.Cols)
	if err := gemmShape(g, rowsA, rowsB, colsA, colsB, c.Rows, c.Cols); err != nil || c.Rows == 0 || c.Cols == 0 {
		return g, true, err
	}
	// The hardware stores 8 elements of 16 bits together.
	for _, err := range []error{gemmOperand(g, "A", a, g.StrideA, oddA), gemmOperand(g, "B", b, g.StrideB, oddB), gemmOperand(g, "C", c, g.StrideC, -c.Cols&7)} {
		if err != nil {
			return g, false, err
		}
	}
	if err := g.apart(c.Rows, c.Cols, c.Pitch); err != nil {
		return g, false, err
	}
	return g, false, launch.Apart("Gemm", launch.Device("A", a.Ref, false), launch.Device("B", b.Ref, false), launch.Device("C", c.Ref, true), launch.Device("scratch", g.Scratch, true))
}

// gemmOperand looks at a matrix of a call, of which so many odd elements after the last are touched.
func gemmOperand[T gpu.Element | gpu.Sum](g GemmShape, name string, m Matrix[T], stride, odd int) error {
	if m.Pitch > math.MaxInt32 {
		return invalidArgument("Gemm: the pitch of %s is %d, want %d at most", name, m.Pitch, math.MaxInt32)
	}
	if err := m.check("Gemm", name, odd); err != nil {
		return err
	}
	if unit := unit(int(sizeOf[T]())); stride%unit != 0 {
		return invalidArgument("Gemm: the stride of %s is %d, want a multiple of %d", name, stride, unit)
	}
	return g.fits(name, stride, m.Ref.Len()-(m.Rows-1)*m.Pitch-m.Cols-odd)
}

// gemmWidths are the widths of tiles of C on compute capability 9.0, in the order in which the kernels are loaded.
var gemmWidths = []struct {
	name string
	cols int
}{{"Wide", 256}, {"Middle", 128}, {"Narrow", 64}}

// gemmTiles are what tiles have of C. The times were measured on an H200, in microseconds. start is what a block takes beside its steps. step is for 128 bytes of the
// rows of A and B in its first tile, and more is that in others, where blocks read less of the same. next is from a tile to the next, and least what that and the
// steps take at least. On other devices their proportions count.
var gemmTiles = []struct {
	width, rows                    int
	start, step, more, next, least float64
}{
	{0, 128, 4.3, 0.576, 0.57, 1.6, 2.8}, {0, 64, 3.54, 0.292, 0.365, 0.3, 1.58}, {1, 128, 3.3, 0.288, 0.34, 0.8, 1.37},
	{1, 64, 3.07, 0.207, 0.22, 0.3, 0.94}, {2, 128, 3.4, 0.197, 0.3, 0, 0.9}, {2, 64, 2.77, 0.145, 0.17, 0.25, 0.76},
}

// hopperTiles chooses the tiles of the widths from first to last that take the least time, with a block for each multiprocessor. steps is how often a tile takes
// 128 bytes of rows. It says how many tiles the products have. A part counts as a product.
func hopperTiles(first, last, m, n, steps, products, multiprocessors int) (width, rows, tiles int) {
	best := math.Inf(1)
	for _, o := range gemmTiles {
		count := ceil(m, o.rows) * ceil(n, gemmWidths[o.width].cols) * products
		turns, steps := float64(ceil(count, multiprocessors)), float64(steps)
		if time := o.start + steps*o.step + (turns-1)*max(o.least, steps*o.more+o.next); first <= o.width && o.width <= last && time < best {
			best, width, rows, tiles = time, o.width, o.rows, count
		}
	}
	return width, rows, tiles
}

// hopperTiled are hopperArgs with C as tiles behind A and B.
func hopperTiled[T gpu.Half](ctx *runtime.Context, g GemmShape, a, b, c Matrix[T], sums *runtime.Ref[float32]) (width int, shape runtime.Shape, args []runtime.Arg, err error) {
	if width, shape, args, err = hopperArgs(ctx, 0, g, a, b, c, sums); err != nil {
		return width, shape, args, err
	}
	tiles, _, err := c.tiles(ctx, g.Batch, g.StrideC, hopper.StoreRows)
	return width, shape, slices.Insert(args, 2, tiles.InOut()), err
}

// tiles are those of matrices of a batch, of so many rows. next is from one to the next, which is none where all are the same.
func (m Matrix[T]) tiles(ctx *runtime.Context, batch, stride, box int) (tiles *runtime.Tiles, next int32, err error) {
	shape := runtime.TilesShape{Rows: m.Rows, Cols: m.Cols, Pitch: m.Pitch, Box: box}
	if stride > 0 {
		shape.Matrices, shape.Stride, next = batch, stride, 1
	}
	tiles, err = runtime.NewTiles(ctx, m.Ref, shape)
	return tiles, next, err
}

// hopperArgs are the width, at least the first, the shape and the arguments of the kernels for compute capability 9.0: A, B, the size, and the sums of parts.
func hopperArgs[T gpu.Element, R gpu.Element | gpu.Sum](ctx *runtime.Context, first int, g GemmShape, a, b Matrix[T], c Matrix[R], sums *runtime.Ref[float32]) (width int, shape runtime.Shape, args []runtime.Arg, err error) {
	_, k, _ := turned[T](g.TransposedA, a.Rows, a.Cols)
	parts, part := g.parts(c.Rows, c.Cols, k, int(sizeOf[T]()))
	for parts > 1 && !hopper.InParts(gemmWidths[first].cols) {
		first++
	}
	m, n := c.Rows, c.Cols
	if g.transposesC(m, n, parts) {
		m, n, a, b, g.StrideA, g.StrideB, g.TransposedA, g.TransposedB = n, m, b, a, g.StrideB, g.StrideA, g.TransposedB, g.TransposedA
	}
	processors, last := max(1, ctx.Device().Multiprocessors), len(gemmWidths)-1
	for (g.TransposedA || g.TransposedB) && !hopper.Turns[T](gemmWidths[last].cols) {
		last--
	}
	width, rows, count := hopperTiles(first, last, m, n, ceil(part*int(sizeOf[T]()), hopper.DepthBytes), g.Batch*parts, processors)
	if count > maxGrid-processors { // so that no block counts further than int32
		return 0, shape, nil, invalidArgument("Gemm: %d products of %d x %d elements are %d tiles, at most %d", g.Batch, c.Rows, c.Cols, count, maxGrid-processors)
	}
	cols := gemmWidths[width].cols
	boxA, boxB := min(rows, ceil(m, 8)*8), min(cols, ceil(n, 8)*8) // rows that are not there would take as long
	stage := (boxA + boxB) * hopper.DepthBytes
	if g.TransposedA {
		boxA, stage = hopper.Turn, stage+(rows-boxA)*hopper.DepthBytes
	}
	if g.TransposedB {
		boxB, stage = hopper.Turn, stage+(cols-boxB)*hopper.DepthBytes
	}
	tilesA, nextA, errA := a.tiles(ctx, g.Batch, g.StrideA, boxA)
	tilesB, nextB, errB := b.tiles(ctx, g.Batch, g.StrideB, boxB)
	if err := cmp.Or(errA, errB); err != nil {
		return 0, shape, nil, err
	}
	size := hopper.Size{M: int32(m), N: int32(n), K: int32(k), Batch: int32(g.Batch), A: nextA, B: nextB, Part: int32(part), Rows: int32(rows), Turned: hopper.Turned(g.TransposedA, g.TransposedB), Stage: int32(stage), PitchC: int32(c.Pitch / 2), StrideC: g.StrideC / 2}
	shape = runtime.Shape{Grid: runtime.Dim3{X: uint32(min(count, processors))}, Block: runtime.Dim3{X: hopper.Threads}, SharedBytes: uint32(hopper.SharedBytes(cols))}
	return width, shape, append([]runtime.Arg{tilesA.In(), tilesB.In(), runtime.Struct(&size)}, gemmSums(sums)...), nil
}

// check looks whether the memory of a matrix is what the kernel touches. There is an element at least.
func (m Matrix[T]) check(kernel, name string, odd int) error {
	if m.Ref == nil {
		return invalidArgument("%s: %s has no memory", kernel, name)
	}
	if unit := unit(int(sizeOf[T]())); m.Pitch%unit != 0 || m.Pitch < m.Cols {
		return invalidArgument("%s: the pitch of %s is %d: want a multiple of %d, at least its %d columns", kernel, name, m.Pitch, unit, m.Cols)
	}
	if left := m.Ref.Len() - m.Cols - odd; left < 0 || m.Rows > 1 && left/(m.Rows-1) < m.Pitch {
		return invalidArgument("%s: %s has %d elements, too few for %d rows of %d with a pitch of %d", kernel, name, m.Ref.Len(), m.Rows, m.Cols+odd, m.Pitch)
	}
	at, err := m.Ref.Access()
	if err != nil {
		return err
	}
	if at%16 != 0 {
		return invalidArgument("%s: %s begins at address %#x, want a multiple of 16", kernel, name, uint64(at))
	}
	return nil
}

// maxGemm is the largest number of rows and columns, so that what counts them fits 32 bits.
const maxGemm = math.MaxInt32 - 4*gemm.Tile

// turned are the rows and columns of a matrix that may lie as its transpose, and how many elements after it are touched.
func turned[T any](is bool, rows, cols int) (m, k, odd int) {
	if is {
		return cols, rows, -cols & (4/int(sizeOf[T]()) - 1)
	}
	return rows, cols, 0
}

// gemmShape compares the shapes of A, B and C.
func gemmShape(g GemmShape, m, n, k, alsoK, rows, cols int) error {
	along := func(turned bool) string {
		if turned {
			return "rows"
		}
		return "columns"
	}
	switch {
	case k != alsoK:
		return invalidArgument("Gemm: A has %d %s and B %d %s, want as many", k, along(g.TransposedA), alsoK, along(g.TransposedB))
	case m != rows || n != cols:
		return invalidArgument("Gemm: C is %d x %d, want %d x %d: the %s of A, and the %s of B", rows, cols, m, n, along(!g.TransposedA), along(!g.TransposedB))
	case min(m, n) < 0 || k < 1 || max(m, n, k) > maxGemm:
		return invalidArgument("Gemm: C is %d x %d, and A has %d %s: want 0 to %d, and at least one of those", m, n, k, along(g.TransposedA), maxGemm)
	}
	return nil
}

// GemmCPU is Gemm on all cores, without gaps between the rows: A has m rows of k elements, B n rows of k, and C m rows of n. The bits
// are those that the kernel has on the simulated driver. A GPU's may be away by [gpu.MMAError], and by the last bit of T. It
// takes memory for A and B in float64. C overlaps neither, as for [Gemm]. A shape makes it a batch, with strides of any number of elements.
// A slice ends with its last matrix. Where the shape says that A lies as its transpose, it has k rows of m elements, and B has k rows of n.
func GemmCPU[T gpu.Half](m, n, k int, a, b, c []T, shape ...GemmShape) error {
	return gemmCPU(m, n, k, a, b, c, shape, func(sum float32, _ int) T { return gpu.ToHalf[T](sum) })
}

func gemmCPU[T gpu.Element, S gpu.Sum, R any](m, n, k int, a, b []T, c []R, shape []GemmShape, finish func(sum S, col int) R) error {
	g, err := gemmBatch(shape)
	if err != nil {
		return err
	}
	if err := gemmShape(g, m, n, k, k, m, n); err != nil {
		return err
	}
	empty := m == 0 || n == 0
	for _, v := range []struct {
		name                    string
		has, rows, cols, stride int
	}{{"A", len(a), m, k, g.StrideA}, {"B", len(b), n, k, g.StrideB}, {"C", len(c), m, n, g.StrideC}} {
		size := uint64(v.rows) * uint64(v.cols)
		if g.Batch > 1 && !empty {
			if uint64(v.has) < size {
				return invalidArgument("Gemm: %s has %d elements, too few for %d x %d", v.name, v.has, v.rows, v.cols)
			}
			if err := g.fits(v.name, v.stride, v.has-int(size)); err != nil {
				return err
			}
			size += uint64(g.Batch-1) * uint64(v.stride)
		}
		if uint64(v.has) != size && (!empty || g.Batch == 1) {
			return invalidArgument("Gemm: %s: %d elements are not %d of %d x %d, %d apart: want %d", v.name, v.has, g.Batch, v.rows, v.cols, v.stride, size)
		}
	}
	if err := launch.Apart("Gemm", launch.Host("A", a, false), launch.Host("B", b, false), launch.Host("C", c, true)); err != nil || empty {
		return err
	}
	if err := g.apart(m, n, n); err != nil {
		return err
	}
	wide := func(v []T, turned bool, rows int, stride *int) []float64 {
		if !turned {
			out := make([]float64, len(v))
			for i, x := range v {
				out[i] = factor(x)
			}
			return out
		}
		count, from := g.matrices(*stride), *stride
		if from > 0 {
			*stride = rows * k
		}
		out := make([]float64, count*rows*k)
		for i := range out {
			out[i] = factor(v[i/(rows*k)*from+i%k*rows+i/k%rows])
		}
		return out
	}
	x, y := wide(a, g.TransposedA, m, &g.StrideA), wide(b, g.TransposedB, n, &g.StrideB)
	size := int(sizeOf[T]())
	_, part := g.parts(m, n, k, size)
	return gpu.Run(gpu.Shape1D(m*g.Batch, 1), func(t *gpu.Thread) {
		of, i := t.GlobalX()/m, t.GlobalX()%m
		row := x[of*g.StrideA+i*k:][:k]
		for j := range n {
			c[of*g.StrideC+i*n+j] = finish(dotParts[S](row, y[of*g.StrideB+j*k:][:k], part, 32/size), j)
		}
	})
}

// factor is an element as a tensor core multiplies it, exactly.
func factor[T gpu.Element](x T) float64 {
	switch x := any(x).(type) {
	case int8:
		return float64(x)
	case uint8:
		return float64(x)
	case gpu.TF32:
		return float64(math.Float32frombits(math.Float32bits(x.Float32()) &^ 0x1fff))
	case interface{ Float32() float32 }:
		return float64(x.Float32())
	}
	return 0
}

// dotParts adds the sums of parts.
func dotParts[S gpu.Sum](x, y []float64, part, depth int) (sum S) {
	for at := 0; at < len(x); at += part {
		end := min(at+part, len(x))
		var some S
		switch to := any(&some).(type) {
		case *float32:
			*to = dot(x[at:end], y[at:end], depth)
		case *int32:
			*to = dotInts(x[at:end], y[at:end])
		}
		if at == 0 {
			sum = some // which may be -0
		} else {
			sum += some
		}
	}
	return sum
}

// dot adds so many products at a time, as a tensor core does.
func dot(x, y []float64, depth int) (sum float32) {
	for len(x) > 0 {
		some, next := 0.0, min(depth, len(x))
		for i, v := range x[:next] {
			some += float64(v * y[i])
		}
		sum = float32(some + float64(sum))
		x, y = x[next:], y[next:]
	}
	return sum
}

// dotInts wraps around. Sums of float64 are exact here: the largest is below 1<<53.
func dotInts(x, y []float64) int32 {
	sum := 0.0
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return int32(int64(sum))
}
