package gpu

import "fmt"

// Dim3 is a size or a place in three dimensions. In a size, 0 for Y or Z means 1.
type Dim3 struct{ X, Y, Z int }

// String returns the numbers, as in "(4,1,1)".
func (d Dim3) String() string { return fmt.Sprintf("(%d,%d,%d)", d.X, d.Y, d.Z) }

// Shape is the shape of a launch: how many blocks, how many threads in each, and how many bytes of dynamic
// shared memory each block has. A grid with an X of 0 is empty: nothing runs.
type Shape struct {
	Grid, Block Dim3
	SharedBytes int
}

// Shape1D is a grid of one dimension with at least n threads, in blocks of threads each. For n of 0 the grid is empty.
func Shape1D(n, threads int) Shape {
	if threads < 1 || n < 0 {
		return Shape{} // Run says what is wrong with it
	}
	return Shape{Grid: Dim3{X: n/threads + min(1, n%threads)}, Block: Dim3{X: threads}}
}

// The limits of CUDA on every device.
const (
	maxThreads     = 1024
	maxGridX       = 1<<31 - 1
	maxGridYZ      = 1<<16 - 1
	maxBlockZ      = 64
	maxSharedBytes = 227 << 10
)

// complete puts 1 where Y or Z is 0.
func (d Dim3) complete() Dim3 {
	if d.Y == 0 {
		d.Y = 1
	}
	if d.Z == 0 {
		d.Z = 1
	}
	return d
}

// count is the number of places.
func (d Dim3) count() int { return d.X * d.Y * d.Z }

// place is the place with number i: x counts fastest.
func (d Dim3) place(i int) Dim3 { return Dim3{i % d.X, i / d.X % d.Y, i / d.X / d.Y} }

// within reports whether each number is from 1 to its limit.
func (d Dim3) within(x, y, z int) bool {
	return d.X >= 1 && d.X <= x && d.Y >= 1 && d.Y <= y && d.Z >= 1 && d.Z <= z
}

// checked returns the shape with its sizes complete, or says what no device could launch.
func (s Shape) checked() (Shape, error) {
	s.Grid, s.Block = s.Grid.complete(), s.Block.complete()
	switch {
	case s.Grid.X != 0 && !s.Grid.within(maxGridX, maxGridYZ, maxGridYZ):
		return s, fmt.Errorf("gpu: the grid %v is outside (0,1,1) to (%d,%d,%d)", s.Grid, maxGridX, maxGridYZ, maxGridYZ)
	case !s.Block.within(maxThreads, maxThreads, maxBlockZ):
		return s, fmt.Errorf("gpu: the block %v is outside (1,1,1) to (%d,%d,%d)", s.Block, maxThreads, maxThreads, maxBlockZ)
	case s.Block.count() > maxThreads:
		return s, fmt.Errorf("gpu: the block %v has %d threads; a device takes at most %d", s.Block, s.Block.count(), maxThreads)
	case s.SharedBytes < 0 || s.SharedBytes > maxSharedBytes:
		return s, fmt.Errorf("gpu: %d bytes of dynamic shared memory are outside 0 to %d", s.SharedBytes, maxSharedBytes)
	}
	return s, nil
}
