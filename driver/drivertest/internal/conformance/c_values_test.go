//go:build linux && (amd64 || arm64)

package conformance

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

func cThreadExchangeStreamCaptureMode(mode *driver.CaptureMode) driver.Result {
	old, r := target().ThreadExchangeStreamCaptureMode(*mode)
	if r == driver.Success {
		*mode = old
	}
	return r
}

// cGraphGetNodes gives the number of nodes, or those that there is room for.
func cGraphGetNodes(graph driver.Graph, nodes *driver.GraphNode, count *uint64) driver.Result {
	all, r := target().GraphGetNodes(graph)
	if r == driver.Success {
		*count = list(all, nodes, *count)
	}
	return r
}

// list writes what there is room for, if there is a place to write to. It returns how much that is.
func list[T any, N uint32 | uint64](all []T, to *T, room N) N {
	if to == nil {
		return N(len(all))
	}
	return N(copy(unsafe.Slice(to, room), all))
}

func cDevSmResourceSplitByCount(groups *driver.DevResource, count *uint32, input, rest *driver.DevResource, flags, minCount uint32) driver.Result {
	all, remaining, r := target().DevSmResourceSplitByCount(*input, minCount, flags)
	if r == driver.Success {
		*count = list(all, groups, *count)
		if rest != nil {
			*rest = remaining
		}
	}
	return r
}

func cTensorMapEncodeTiled(tensor *driver.TensorMap, kind driver.TensorDataType, rank uint32, base driver.DevicePtr, dims, strides *uint64,
	box, elementStrides *uint32, interleave driver.TensorInterleave, swizzle driver.TensorSwizzle, promotion driver.TensorL2Promotion, fill driver.TensorFill) (r driver.Result) {
	*tensor, r = target().TensorMapEncodeTiled(driver.TensorTiles{Type: kind, Base: base, Dims: unsafe.Slice(dims, rank),
		Strides: unsafe.Slice(strides, rank-1), Box: unsafe.Slice(box, rank), ElementStrides: unsafe.Slice(elementStrides, rank),
		Interleave: interleave, Swizzle: swizzle, L2Promotion: promotion, Fill: fill})
	return r
}

// handle is CUipcMemHandle and CUipcEventHandle: C passes it by value, and the
// conventions for that differ from processor to processor.
type handle struct{ bytes [64]byte }

func cIpcOpenMemHandle(ptr *driver.DevicePtr, h handle, flags uint32) (r driver.Result) {
	*ptr, r = target().IpcOpenMemHandle(h.bytes, flags)
	return r
}

func cIpcOpenEventHandle(event *driver.Event, h handle) (r driver.Result) {
	*event, r = target().IpcOpenEventHandle(h.bytes)
	return r
}
