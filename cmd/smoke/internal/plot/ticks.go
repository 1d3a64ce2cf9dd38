package plot

import (
	"math"

	"github.com/go-analyze/charts/chartdraw"
)

const (
	maxTicksX = 12 // more labels do not fit side by side
	ticksY    = 6  // about
)

// ticksX are at values that there are, so that each label is one of a measured point. Where they
// are many every second or third is left out.
func (a Axis) ticksX(x []float64) []chartdraw.Tick {
	if len(x) == 1 { // an axis needs two ends
		half := x[0] / 2
		ticks := []chartdraw.Tick{{Value: a.place(x[0])}, {Value: a.place(x[0]), Label: a.format(x[0])}, {Value: a.place(2 * x[0])}}
		if half > 0 {
			ticks[0].Value = a.place(half)
		} else {
			ticks[0].Value, ticks[2].Value = -1, 1
		}
		return ticks
	}
	step := (len(x) + maxTicksX - 1) / maxTicksX
	var ticks []chartdraw.Tick
	for i, value := range x {
		label := ""
		if i%step == 0 {
			label = a.format(value)
		}
		ticks = append(ticks, chartdraw.Tick{Value: a.place(value), Label: label})
	}
	return ticks
}

// ticksY go from 0 to above top, in steps of 1, 2 or 5 times a power of ten.
func (a Axis) ticksY(top float64) []chartdraw.Tick {
	if top <= 0 {
		top = 1
	}
	step := niceStep(top / ticksY)
	var ticks []chartdraw.Tick
	for i := 0; ; i++ {
		value := float64(i) * step
		digits := max(0, -int(math.Floor(math.Log10(step))))
		round := math.Pow10(digits)
		ticks = append(ticks, chartdraw.Tick{Value: value, Label: a.format(math.Round(value*round) / round)})
		if value >= top {
			return ticks
		}
	}
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is at least least.
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least {
			return m * power
		}
	}
	return 10 * power
}
