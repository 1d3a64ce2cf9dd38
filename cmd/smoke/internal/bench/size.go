package bench

import "fmt"

// Sizes bounds the memory that is used.
type Sizes struct {
	// Largest is the largest copy, and the largest input of the main job.
	Largest int64
	// Host and Device are the free memory in bytes; 0 where it is unknown.
	Host, Device int64
}

const (
	smallestCopy = 1 << 10
	// share is the part of the free memory that a size may be: a copy needs it twice on each
	// side, and others use the machine too.
	share = 4
)

// limit is the largest size that is used, for memory on both sides.
func (s Sizes) limit() int64 {
	largest := s.Largest
	for _, free := range []int64{s.Host, s.Device} {
		if free > 0 {
			largest = min(largest, free/share)
		}
	}
	return max(largest, smallestCopy)
}

// copies are the sizes of copies: powers of 4 from 1 KiB to the limit.
func (s Sizes) copies() (sizes []int) {
	for n := int64(smallestCopy); n <= s.limit(); n *= 4 {
		sizes = append(sizes, int(n))
	}
	return sizes
}

// Cut says down to what the free memory has cut the sizes, or 0 if it has not.
func (s Sizes) Cut() int64 {
	if s.limit() < s.Largest {
		return s.limit()
	}
	return 0
}

// SizeName is a size as in names: "64KiB", or the number of bytes.
func SizeName(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
