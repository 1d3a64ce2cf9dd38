package nccltest

import (
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/libs/nccl"
)

func elementBytes(t nccl.DataType) (uint64, error) {
	switch t {
	case nccl.TypeInt8, nccl.TypeUint8:
		return 1, nil
	case nccl.TypeFloat16, nccl.TypeBFloat16:
		return 2, nil
	case nccl.TypeInt32, nccl.TypeUint32, nccl.TypeFloat32:
		return 4, nil
	case nccl.TypeInt64, nccl.TypeUint64, nccl.TypeFloat64:
		return 8, nil
	}
	return 0, fmt.Errorf("elements of type %d", t)
}

// move does what the kind of the call says. What is written was read before, because ranks receive where they send.
func (m *meeting) move(call *nccl.Call) error {
	var all [][]byte
	for _, a := range m.ranks {
		if a != nil && a.send != nil {
			all = append(all, a.send)
		}
	}
	switch call.Kind {
	case nccl.KindSend, nccl.KindRecv:
		for _, a := range m.ranks {
			if a != nil {
				copy(a.recv, all[0])
			}
		}
	case nccl.KindBroadcast:
		for rank, a := range m.ranks {
			if rank != int(call.Peer) {
				copy(a.recv, m.ranks[call.Peer].send)
			}
		}
	case nccl.KindAllGather:
		var gathered []byte
		for _, send := range all {
			gathered = append(gathered, send...)
		}
		for _, a := range m.ranks {
			copy(a.recv, gathered)
		}
	default:
		result, err := combined(call, all)
		if err != nil {
			return err
		}
		for rank, a := range m.ranks {
			switch {
			case call.Kind == nccl.KindReduceScatter:
				copy(a.recv, result[rank*len(a.recv):])
			case call.Kind == nccl.KindAllReduce || rank == int(call.Peer):
				copy(a.recv, result)
			}
		}
	}
	return nil
}

func combined(call *nccl.Call, all [][]byte) ([]byte, error) {
	switch call.Type {
	case nccl.TypeInt8:
		return combine[int8](call.Op, all)
	case nccl.TypeUint8:
		return combine[uint8](call.Op, all)
	case nccl.TypeInt32:
		return combine[int32](call.Op, all)
	case nccl.TypeUint32:
		return combine[uint32](call.Op, all)
	case nccl.TypeInt64:
		return combine[int64](call.Op, all)
	case nccl.TypeUint64:
		return combine[uint64](call.Op, all)
	case nccl.TypeFloat32:
		return combine[float32](call.Op, all)
	case nccl.TypeFloat64:
		return combine[float64](call.Op, all)
	case nccl.TypeFloat16:
		return halves(call.Op, all, func(x gpu.Float16) float32 { return x.Float32() }, gpu.ToFloat16)
	}
	return halves(call.Op, all, func(x gpu.BFloat16) float32 { return x.Float32() }, gpu.ToBFloat16)
}

// halves combines as float32, and rounds once.
func halves[T any](op nccl.Op, all [][]byte, get func(T) float32, put func(float32) T) ([]byte, error) {
	var singles [][]byte
	for _, b := range all {
		var x []float32
		for _, h := range elements[T](b) {
			x = append(x, get(h))
		}
		singles = append(singles, bytesOf(x))
	}
	sums, err := combine[float32](op, singles)
	var out []T
	for _, x := range elements[float32](sums) {
		out = append(out, put(x))
	}
	return bytesOf(out), err
}

type number interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func combine[T number](op nccl.Op, all [][]byte) ([]byte, error) {
	out := append([]T(nil), elements[T](all[0])...)
	for _, b := range all[1:] {
		for i, x := range elements[T](b) {
			switch op {
			case nccl.Sum, nccl.Avg:
				out[i] += x
			case nccl.Prod:
				out[i] *= x
			case nccl.Max:
				out[i] = max(out[i], x)
			case nccl.Min:
				out[i] = min(out[i], x)
			default:
				return nil, fmt.Errorf("operator %d", op)
			}
		}
	}
	if op == nccl.Avg {
		for i := range out {
			out[i] /= T(len(all))
		}
	}
	return bytesOf(out), nil
}

// elements are bytes of the device as elements. NCCL wants them aligned as its elements are.
func elements[T any](b []byte) []T {
	var element T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(element)))
}

func bytesOf[T any](x []T) []byte {
	var element T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(element)))
}
