package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/purecuda/purecuda/gpu"
)

// tensor has one or two dimensions, and elements of one type. A vector is a row.
type tensor struct {
	rows, cols int
	half       numbers
	float      []float32
}

// readTensors reads a file of safetensors: 8 bytes with the length of a header in JSON, the header, and the data.
func readTensors(file []byte) (map[string]tensor, error) {
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return nil, fmt.Errorf("safetensors: the header is longer than the %d bytes of the file", len(file))
	}
	text, data := file[8:][:binary.LittleEndian.Uint64(file)], file[8+binary.LittleEndian.Uint64(file):]
	var header map[string]struct {
		DType   string
		Shape   []int
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("safetensors: the header: %w", err)
	}
	delete(header, "__metadata__")
	tensors := map[string]tensor{}
	for name, h := range header {
		size, known := map[string]int{"BF16": 2, "F32": 4}[h.DType]
		if !known || len(h.Shape) < 1 || len(h.Shape) > 2 {
			return nil, fmt.Errorf("safetensors: %s is %s of shape %v, want BF16 or F32 with one or two dimensions", name, h.DType, h.Shape)
		}
		t := tensor{rows: 1, cols: h.Shape[len(h.Shape)-1]}
		if len(h.Shape) == 2 {
			t.rows = h.Shape[0]
		}
		if h.Offsets[0] > h.Offsets[1] || h.Offsets[1] > uint64(len(data)) || min(t.rows, t.cols) < 1 || t.rows > len(data)/size/t.cols || uint64(size*t.rows*t.cols) != h.Offsets[1]-h.Offsets[0] {
			return nil, fmt.Errorf("safetensors: %s of %s and shape %v has the bytes %v of %d", name, h.DType, h.Shape, h.Offsets, len(data))
		}
		for raw := data[h.Offsets[0]:h.Offsets[1]]; len(raw) > 0; raw = raw[size:] {
			if size == 2 {
				t.half = append(t.half, gpu.BFloat16FromBits(binary.LittleEndian.Uint16(raw)))
			} else {
				t.float = append(t.float, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		}
		tensors[name] = t
	}
	return tensors, nil
}
