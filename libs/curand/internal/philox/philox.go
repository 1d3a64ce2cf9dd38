// Package philox makes on the CPU the numbers that cuRAND makes with its generator Philox4_32_10.
package philox

import "math/bits"

// Sequences is how many sequences the results of a generator come from.
const Sequences = 65536

// Block is Philox4x32-10 of a counter and a key, by Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC11.
func Block(counter [4]uint32, key [2]uint32) [4]uint32 {
	a, b, c, d := counter[0], counter[1], counter[2], counter[3] // in registers, which arrays are not
	first, second := key[0], key[1]
	for range 10 {
		high0, low0 := bits.Mul32(0xd2511f53, a)
		high1, low1 := bits.Mul32(0xcd9e8d57, c)
		a, b, c, d = high1^b^first, low1, high0^d^second, low0
		first += 0x9e3779b9
		second += 0xbb67ae85
	}
	return [4]uint32{a, b, c, d}
}

// State of a generator. It has no pointers, so that it can be in the memory of a simulated device.
type State struct {
	Seed uint64
	// Position is the number of the next result, from the offset of the generator on.
	Position uint64
	// Ahead are the blocks that float64 has taken from each sequence beyond one for four results.
	Ahead [Sequences]uint64
}

// Reset makes it the state of a new generator.
func (s *State) Reset(seed, offset uint64) {
	s.Seed, s.Position = seed, offset
	clear(s.Ahead[:])
}

// place is the order in which cuRAND takes numbers from its sequences, for a group of four results: the first of the group's
// blocks. A block is four words. With float64 a group has a second block, which follows in the same sequence.
//
// It is CURAND_ORDERING_PSEUDO_LEGACY: "In host API there are 65536 different sequences. Each four values from one sequence
// are followed by four values from next sequence."
// https://docs.nvidia.com/cuda/curand/host-api-overview.html#order
func (s *State) place(group uint64) (sequence, block uint64) {
	sequence = group % Sequences
	return sequence, group/Sequences + s.Ahead[sequence]
}

// words of a block, as after curand_init(seed, sequence, 4*block).
func (s *State) words(sequence, block uint64) [4]uint32 {
	return Block([4]uint32{uint32(block), uint32(block >> 32), uint32(sequence), 0}, [2]uint32{uint32(s.Seed), uint32(s.Seed >> 32)})
}

// narrow fills to with results that come from a word each.
func narrow[T any](s *State, to []T, f func(words [4]uint32) [4]T) {
	for len(to) > 0 {
		four := f(s.words(s.place(s.Position / 4)))
		n := copy(to, four[s.Position%4:])
		s.Position += uint64(n)
		to = to[n:]
	}
}

// wide fills to with results that come from two words each.
func wide(s *State, to []float64, f func(words [4]uint32) [2]float64) {
	for len(to) > 0 {
		sequence, block := s.place(s.Position / 4)
		first, second := f(s.words(sequence, block)), f(s.words(sequence, block+1))
		four := [4]float64{first[0], first[1], second[0], second[1]}
		n := copy(to, four[s.Position%4:])
		s.Position += uint64(n)
		to = to[n:]
		if s.Position%4 == 0 {
			s.Ahead[sequence]++
		}
	}
}
