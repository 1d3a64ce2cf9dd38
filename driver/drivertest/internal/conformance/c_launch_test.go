//go:build linux && (amd64 || arm64)

package conformance

import (
	"structs"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/driver"
)

// maxParams bounds the search for the number of parameters: a kernel takes at most
// 32764 bytes.
const maxParams = 32764

// paramsOf makes a slice of a list of parameters, whose length C does not pass: as the
// real driver, the one that is bridged knows the kernel. A simulated driver tells it in
// all its versions, and others from 12.4 on.
func paramsOf(function driver.Function, params *unsafe.Pointer) []unsafe.Pointer {
	api := target()
	n := uint64(0)
	if known, ok := api.(interface {
		Params(driver.Function) (int, bool)
	}); ok {
		count, _ := known.Params(function)
		n = uint64(count)
	} else {
		for n < maxParams {
			if _, _, r := api.FuncGetParamInfo(function, n); r != driver.Success {
				break
			}
			n++
		}
	}
	if params == nil {
		return nil
	}
	return unsafe.Slice(params, n)
}

func cLaunchKernel(function driver.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream driver.Stream, params, extra *unsafe.Pointer) driver.Result {
	if extra != nil {
		return driver.ResultNotSupported
	}
	return target().LaunchKernel(function, driver.Dim3{X: gridX, Y: gridY, Z: gridZ}, driver.Dim3{X: blockX, Y: blockY, Z: blockZ},
		sharedBytes, stream, paramsOf(function, params))
}

func cLaunchCooperativeKernel(function driver.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream driver.Stream, params *unsafe.Pointer) driver.Result {
	return target().LaunchCooperativeKernel(function, driver.Dim3{X: gridX, Y: gridY, Z: gridZ}, driver.Dim3{X: blockX, Y: blockY, Z: blockZ},
		sharedBytes, stream, paramsOf(function, params))
}

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	_                      structs.HostLayout
	gridX, gridY, gridZ    uint32
	blockX, blockY, blockZ uint32
	sharedBytes            uint32
	stream                 driver.Stream
	attributes             *driver.LaunchAttribute
	attributeCount         uint32
}

func (c *launchConfig) grid() driver.Dim3  { return driver.Dim3{X: c.gridX, Y: c.gridY, Z: c.gridZ} }
func (c *launchConfig) block() driver.Dim3 { return driver.Dim3{X: c.blockX, Y: c.blockY, Z: c.blockZ} }

func (c *launchConfig) list() []driver.LaunchAttribute {
	return unsafe.Slice(c.attributes, c.attributeCount)
}

func cLaunchKernelEx(config *launchConfig, function driver.Function, params, extra *unsafe.Pointer) driver.Result {
	if extra != nil {
		return driver.ResultNotSupported
	}
	return target().LaunchKernelEx(function, config.grid(), config.block(), config.sharedBytes, config.stream,
		config.list(), paramsOf(function, params))
}

// kernelNodeParams is CUDA_KERNEL_NODE_PARAMS.
type kernelNodeParams struct {
	_             structs.HostLayout
	function      driver.Function
	grid, block   driver.Dim3
	sharedBytes   uint32
	params, extra *unsafe.Pointer
	kernel        driver.Kernel
	context       driver.Context
}

func cGraphExecKernelNodeSetParams(exec driver.GraphExec, node driver.GraphNode, p *kernelNodeParams) driver.Result {
	if p.extra != nil {
		return driver.ResultNotSupported
	}
	return target().GraphExecKernelNodeSetParams(exec, node, p.function, p.grid, p.block, p.sharedBytes, paramsOf(p.function, p.params))
}

// graphNodeParams is CUgraphNodeParams of a conditional node.
type graphNodeParams struct {
	kind        driver.GraphNodeType
	_           [3]int32
	handle      driver.GraphConditionalHandle
	conditional driver.GraphConditionalType
	size        uint32
	bodies      *driver.Graph
	context     driver.Context
	_           [26]int64
}

func cGraphAddNode(node *driver.GraphNode, graph driver.Graph, dependencies *driver.GraphNode, edges *byte, count uint64, p *graphNodeParams) (r driver.Result) {
	if p.kind != driver.GraphNodeConditional || p.size != 1 || edges != nil {
		return driver.ResultNotSupported
	}
	bodies := new(driver.Graph)
	*node, *bodies, r = target().GraphAddConditionalNode(graph, unsafe.Slice(dependencies, count), p.handle, p.conditional, p.context)
	p.bodies = bodies
	return r
}

func cOccupancyMaxActiveClusters(clusters *int32, function driver.Function, config *launchConfig) (r driver.Result) {
	*clusters, r = target().OccupancyMaxActiveClusters(function, config.grid(), config.block(), config.sharedBytes, config.list())
	return r
}

func cOccupancyMaxPotentialClusterSize(size *int32, function driver.Function, config *launchConfig) (r driver.Result) {
	*size, r = target().OccupancyMaxPotentialClusterSize(function, config.grid(), config.block(), config.sharedBytes, config.list())
	return r
}

// cOccupancyMaxPotentialBlockSize takes no callback for the shared memory of a block.
func cOccupancyMaxPotentialBlockSize(minGrid, blockSize *int32, function driver.Function, callback uintptr, sharedBytes uint64, limit int32) (r driver.Result) {
	if callback != 0 {
		return driver.ResultNotSupported
	}
	*minGrid, *blockSize, r = target().OccupancyMaxPotentialBlockSize(function, sharedBytes, limit)
	return r
}

// cLaunchHostFunc calls a function of C when the stream reaches it.
func cLaunchHostFunc(stream driver.Stream, fn, data uintptr) driver.Result {
	if fn == 0 {
		return driver.ResultInvalidValue
	}
	return target().LaunchHostFunc(stream, func() { purego.SyscallN(fn, data) })
}
