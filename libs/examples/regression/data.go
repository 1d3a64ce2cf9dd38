package main

import (
	"math"
	"math/rand/v2"
)

// generate makes observations of a line for each group, with some noise, and the coefficients of the lines.
func generate(groups, rows, cols int) (d data, truth []float64) {
	r := rand.New(rand.NewPCG(1, 2))
	d = data{groups: groups, rows: rows, cols: cols}
	d.x, d.y, d.weights = make([]float64, groups*rows*cols), make([]float64, groups*rows), make([]float64, groups*rows)
	truth = make([]float64, groups*cols)
	for i := range truth {
		truth[i] = 2*r.Float64() - 1
	}
	for row := range d.y {
		d.weights[row] = 0.5 + r.Float64()
		d.y[row] = 0.02 * (2*r.Float64() - 1)
		for i := range cols {
			x := 1.0
			if i > 0 {
				x = 2*r.Float64() - 1
			}
			d.x[row*cols+i] = x
			d.y[row] += x * truth[row/rows*cols+i]
		}
	}
	return d, truth
}

// worst is the largest difference.
func worst(a, b []float64) (most float64) {
	for i := range a {
		most = math.Max(most, math.Abs(a[i]-b[i]))
	}
	return most
}
