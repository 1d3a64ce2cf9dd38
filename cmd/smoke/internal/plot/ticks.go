package plot

import "math"

const (
	maxTicksX = 12 // more labels do not fit side by side
	ticksY    = 6  // about
)

// tick is a mark of an axis, with or without a label.
type tick struct {
	value float64
	label string
}

// ticksX are at values that there are, so that each label is one of a measured point. Where they
// are many every second or third is left out.
func (a Axis) ticksX(x []float64) []tick {
	if len(x) == 1 { // an axis needs two ends
		half := x[0] / 2
		ticks := []tick{{value: a.place(x[0])}, {value: a.place(x[0]), label: a.format(x[0])}, {value: a.place(2 * x[0])}}
		if half > 0 {
			ticks[0].value = a.place(half)
		} else {
			ticks[0].value, ticks[2].value = -1, 1
		}
		return ticks
	}
	step := (len(x) + maxTicksX - 1) / maxTicksX
	var ticks []tick
	for i, value := range x {
		label := ""
		if i%step == 0 {
			label = a.format(value)
		}
		ticks = append(ticks, tick{value: a.place(value), label: label})
	}
	return ticks
}

// ticksY go from 0 to above top, in steps of 1, 2 or 5 times a power of ten.
func (a Axis) ticksY(top float64) []tick {
	if top <= 0 {
		top = 1
	}
	step := niceStep(top / ticksY)
	var ticks []tick
	for i := 0; ; i++ {
		value := float64(i) * step
		digits := max(0, -int(math.Floor(math.Log10(step))))
		round := math.Pow10(digits)
		ticks = append(ticks, tick{value: value, label: a.format(math.Round(value*round) / round)})
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
