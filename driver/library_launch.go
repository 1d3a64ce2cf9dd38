package driver

import (
	"math"
	"unsafe"
)

// LaunchKernel implements [API].
func (l *Library) LaunchKernel(function Function, grid, block Dim3, sharedBytes uint32, stream Stream, params []unsafe.Pointer) Result {
	return l.launchKernel(function, grid.X, grid.Y, grid.Z, block.X, block.Y, block.Z,
		sharedBytes, stream, unsafe.SliceData(params), nil)
}

// LaunchCooperativeKernel implements [API].
func (l *Library) LaunchCooperativeKernel(function Function, grid, block Dim3, sharedBytes uint32, stream Stream, params []unsafe.Pointer) Result {
	return l.launchCooperativeKernel(function, grid.X, grid.Y, grid.Z, block.X, block.Y, block.Z,
		sharedBytes, stream, unsafe.SliceData(params))
}

// LaunchKernelEx implements [API].
func (l *Library) LaunchKernelEx(function Function, grid, block Dim3, sharedBytes uint32, stream Stream, attributes []LaunchAttribute, params []unsafe.Pointer) Result {
	config := configOf(grid, block, sharedBytes, stream, attributes)
	return l.launchKernelEx(&config, function, unsafe.SliceData(params), nil)
}

// OccupancyMaxActiveClusters implements [API].
func (l *Library) OccupancyMaxActiveClusters(function Function, grid, block Dim3, sharedBytes uint32, attributes []LaunchAttribute) (clusters int32, r Result) {
	config := configOf(grid, block, sharedBytes, 0, attributes)
	r = l.occupancyMaxActiveClusters(&clusters, function, &config)
	r = within(l, fnOccupancyMaxActiveClusters, r, "clusters", &clusters, 0, math.MaxInt32)
	return clusters, r
}

// OccupancyMaxPotentialClusterSize implements [API].
func (l *Library) OccupancyMaxPotentialClusterSize(function Function, grid, block Dim3, sharedBytes uint32, attributes []LaunchAttribute) (size int32, r Result) {
	config := configOf(grid, block, sharedBytes, 0, attributes)
	r = l.occupancyMaxPotentialClusterSize(&size, function, &config)
	r = within(l, fnOccupancyMaxPotentialClusterSize, r, "size", &size, 0, maxThreads)
	return size, r
}

func configOf(grid, block Dim3, sharedBytes uint32, stream Stream, attributes []LaunchAttribute) launchConfig {
	return launchConfig{grid: grid, block: block, sharedBytes: sharedBytes, stream: stream,
		attributes: unsafe.SliceData(attributes), attributeCount: uint32(len(attributes))}
}

// OccupancyMaxPotentialBlockSize implements [API]. It passes no callback: that
// would call back into Go on this thread and move the stack under the call.
func (l *Library) OccupancyMaxPotentialBlockSize(function Function, sharedBytes uint64, limit int32) (minGrid, blockSize int32, r Result) {
	r = l.occupancyMaxPotentialBlockSize(&minGrid, &blockSize, function, 0, sharedBytes, limit)
	r = within(l, fnOccupancyMaxPotentialBlockSize, r, "block", &blockSize, 0, maxThreads)
	r = within(l, fnOccupancyMaxPotentialBlockSize, r, "grid", &minGrid, 0, math.MaxInt32)
	return minGrid, blockSize, r
}
