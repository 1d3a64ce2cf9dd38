package gpu

// warpSize is the number of lanes of a warp, on every device that CUDA knows.
const warpSize = 32

// Thread is one thread of a launch. A kernel gets it as its first parameter, and keeps it no longer than it runs.
type Thread struct {
	thread, block, blockDim, gridDim Dim3

	rank  int  // in the block
	calls int  // how many calls of warp functions there were
	vars  bool // it has used shared memory

	moves  int64   // of the block's TxBarriers, when it looked at one last
	tensor *tensor // nil before it has used tensor cores or copies that are asynchronous

	b       *block
	wait    func(t *Thread, at stop) // until the others are at the same place
	passed  [returned]int            // how often it has waited, by where
	verdict error                    // what is wrong with the place where it waits
}

// ThreadX is the index of the thread in its block along x: threadIdx.x of CUDA C.
func (t *Thread) ThreadX() int { return t.thread.X }

// BlockX is the index of the block in the grid along x: blockIdx.x.
func (t *Thread) BlockX() int { return t.block.X }

// BlockDimX is the number of threads of a block along x: blockDim.x.
func (t *Thread) BlockDimX() int { return t.blockDim.X }

// GridDimX is the number of blocks along x: gridDim.x.
func (t *Thread) GridDimX() int { return t.gridDim.X }

// GlobalX is the index of the thread in the whole grid along x: blockIdx.x * blockDim.x + threadIdx.x.
func (t *Thread) GlobalX() int { return t.block.X*t.blockDim.X + t.thread.X }

// GlobalDimX is the number of threads of the whole grid along x: gridDim.x * blockDim.x.
func (t *Thread) GlobalDimX() int { return t.gridDim.X * t.blockDim.X }

// ThreadY is the index of the thread in its block along y: threadIdx.y of CUDA C.
func (t *Thread) ThreadY() int { return t.thread.Y }

// BlockY is the index of the block in the grid along y: blockIdx.y.
func (t *Thread) BlockY() int { return t.block.Y }

// BlockDimY is the number of threads of a block along y: blockDim.y.
func (t *Thread) BlockDimY() int { return t.blockDim.Y }

// GridDimY is the number of blocks along y: gridDim.y.
func (t *Thread) GridDimY() int { return t.gridDim.Y }

// GlobalY is the index of the thread in the whole grid along y: blockIdx.y * blockDim.y + threadIdx.y.
func (t *Thread) GlobalY() int { return t.block.Y*t.blockDim.Y + t.thread.Y }

// GlobalDimY is the number of threads of the whole grid along y: gridDim.y * blockDim.y.
func (t *Thread) GlobalDimY() int { return t.gridDim.Y * t.blockDim.Y }

// ThreadZ is the index of the thread in its block along z: threadIdx.z of CUDA C.
func (t *Thread) ThreadZ() int { return t.thread.Z }

// BlockZ is the index of the block in the grid along z: blockIdx.z.
func (t *Thread) BlockZ() int { return t.block.Z }

// BlockDimZ is the number of threads of a block along z: blockDim.z.
func (t *Thread) BlockDimZ() int { return t.blockDim.Z }

// GridDimZ is the number of blocks along z: gridDim.z.
func (t *Thread) GridDimZ() int { return t.gridDim.Z }

// GlobalZ is the index of the thread in the whole grid along z: blockIdx.z * blockDim.z + threadIdx.z.
func (t *Thread) GlobalZ() int { return t.block.Z*t.blockDim.Z + t.thread.Z }

// GlobalDimZ is the number of threads of the whole grid along z: gridDim.z * blockDim.z.
func (t *Thread) GlobalDimZ() int { return t.gridDim.Z * t.blockDim.Z }

// Rank is the number of the thread in its block over all dimensions; x counts fastest.
func (t *Thread) Rank() int { return t.rank }

// Lane is the number of the thread in its warp, 0 to 31.
func (t *Thread) Lane() int { return t.rank % warpSize }

// Warp is the number of the warp in its block.
func (t *Thread) Warp() int { return t.rank / warpSize }

// Barrier waits until all threads of the block are here: __syncthreads of CUDA C. What a thread has written
// before it is seen by all of them after it. Every thread of the block has to call it.
func (t *Thread) Barrier() { t.wait(t, atBarrier) }
