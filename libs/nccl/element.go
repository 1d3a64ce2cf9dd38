package nccl

import "github.com/purecuda/purecuda/gpu"

// Element are the types of elements.
type Element interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | gpu.Float16 | float32 | float64 | gpu.BFloat16
}

// typeOf is the DataType of T, and its bytes.
func typeOf[T Element]() (DataType, uint64) {
	var zero T
	switch any(zero).(type) {
	case int8:
		return TypeInt8, 1
	case uint8:
		return TypeUint8, 1
	case int32:
		return TypeInt32, 4
	case uint32:
		return TypeUint32, 4
	case int64:
		return TypeInt64, 8
	case uint64:
		return TypeUint64, 8
	case gpu.Float16:
		return TypeFloat16, 2
	case float32:
		return TypeFloat32, 4
	case float64:
		return TypeFloat64, 8
	}
	return TypeBFloat16, 2
}
