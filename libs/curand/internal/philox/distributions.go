package philox

import "math"

// Uint32 fills to with words.
func (s *State) Uint32(to []uint32) {
	narrow(s, to, func(words [4]uint32) [4]uint32 { return words })
}

// Uniform fills to with numbers above 0, up to 1.
func (s *State) Uniform(to []float32) {
	narrow(s, to, func(w [4]uint32) [4]float32 {
		return [4]float32{uniform(w[0]), uniform(w[1]), uniform(w[2]), uniform(w[3])}
	})
}

// UniformDouble is Uniform of float64.
func (s *State) UniformDouble(to []float64) {
	wide(s, to, func(w [4]uint32) [2]float64 {
		return [2]float64{uniformDouble(w[0], w[1]), uniformDouble(w[2], w[3])}
	})
}

// Normal fills to with numbers of a normal distribution.
func (s *State) Normal(to []float32, mean, stddev float32) {
	narrow(s, to, func(w [4]uint32) [4]float32 {
		a, b := normal(w[0], w[1])
		c, d := normal(w[2], w[3])
		return [4]float32{mean + stddev*a, mean + stddev*b, mean + stddev*c, mean + stddev*d}
	})
}

// NormalDouble is Normal of float64.
func (s *State) NormalDouble(to []float64, mean, stddev float64) {
	wide(s, to, func(w [4]uint32) [2]float64 {
		a, b := normalDouble(w)
		return [2]float64{mean + stddev*a, mean + stddev*b}
	})
}

// LogNormal fills to with numbers whose logarithms are those of Normal.
func (s *State) LogNormal(to []float32, mean, stddev float32) {
	s.Normal(to, mean, stddev)
	for i, x := range to {
		to[i] = float32(math.Exp(float64(x)))
	}
}

// LogNormalDouble is LogNormal of float64.
func (s *State) LogNormalDouble(to []float64, mean, stddev float64) {
	s.NormalDouble(to, mean, stddev)
	for i, x := range to {
		to[i] = math.Exp(x)
	}
}

// uniform is exact: the product is, so that nothing depends on whether it is fused with the sum.
func uniform(x uint32) float32 { return float32(x)*0x1p-32 + 0x1p-33 }

// uniformDouble has 53 bits of two words, and is exact as well.
func uniformDouble(x, y uint32) float64 {
	return float64(uint64(x)^uint64(y)<<21)*0x1p-53 + 0x1p-54
}

// normal is the transform of Box and Muller.
func normal(x, y uint32) (float32, float32) {
	const turn = float32(0x1p-32) * float32(6.2831855)
	s := math.Sqrt(-2 * math.Log(float64(uniform(x))))
	sin, cos := math.Sincos(float64(float32(y)*turn + turn/2))
	return float32(s * sin), float32(s * cos)
}

func normalDouble(w [4]uint32) (float64, float64) {
	s := math.Sqrt(-2 * math.Log(uniformDouble(w[0], w[1])))
	sin, cos := math.Sincos(2 * math.Pi * uniformDouble(w[2], w[3]))
	return s * sin, s * cos
}
