package kernels

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHistogram256CPU(t *testing.T) {
	var counts [256]uint64
	Histogram256CPU(nil, &counts)
	assert.Equal(t, [256]uint64{}, counts)

	Histogram256CPU([]byte{0, 255, 7, 7, 0, 7}, &counts)
	assert.Equal(t, uint64(2), counts[0])
	assert.Equal(t, uint64(3), counts[7])
	assert.Equal(t, uint64(1), counts[255])

	Histogram256CPU([]byte{7}, &counts)
	assert.Equal(t, uint64(4), counts[7], "counts go on from what is there")
}

func TestHistogram256CountsLikeBytesCount(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		data := make([]byte, r.IntN(5000))
		for i := range data {
			data[i] = byte(r.Uint32() & r.Uint32())
		}
		var counts [256]uint64
		Histogram256CPU(data, &counts)
		for v, count := range counts {
			assert.Equal(t, uint64(bytes.Count(data, []byte{byte(v)})), count, "value %d", v)
		}
	}
}
