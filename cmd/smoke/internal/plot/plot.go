package plot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Chart is lines over one pair of axes.
type Chart struct {
	Title string
	Note  string // a smaller line below the title
	X, Y  Axis
	Lines []Line
}

// Axis says what is on an axis. The y axis begins at 0 and is never logarithmic.
type Axis struct {
	Label  string                     // with the unit
	Log2   bool                       // logarithmic; each tick is twice the one before, or more
	Format func(value float64) string // of a tick; nil: the number
}

// Line is one series.
type Line struct {
	Name   string // in the legend
	Dashed bool   // not measured: an ideal, a limit
	Points []Point
}

// Point is one value. A logarithmic axis takes positive values only.
type Point struct{ X, Y float64 }

// ErrEmpty says that there is nothing to draw.
var ErrEmpty = errors.New("there is nothing to plot: no line has a point")

// Write draws the chart as SVG. Nothing is written if it cannot be drawn.
func (c Chart) Write(w io.Writer) error {
	values, err := c.values()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, c.draw(values))
	return err
}

// values are all x values in order, each once, and the largest y value.
type values struct {
	x   []float64
	top float64
}

func (c Chart) values() (v values, err error) {
	for _, l := range c.Lines {
		for _, p := range l.Points {
			for _, n := range []float64{p.X, p.Y} {
				if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
					return v, fmt.Errorf("plot %q: %s has the point (%v, %v); numbers from 0 on can be drawn", c.Title, l.Name, p.X, p.Y)
				}
			}
			if c.X.Log2 && p.X == 0 {
				return v, fmt.Errorf("plot %q: %s has a point at 0, which a logarithmic axis has not", c.Title, l.Name)
			}
			v.x = append(v.x, p.X)
			v.top = max(v.top, p.Y)
		}
	}
	if len(v.x) == 0 {
		return v, fmt.Errorf("plot %q: %w", c.Title, ErrEmpty)
	}
	slices.Sort(v.x)
	v.x = slices.Compact(v.x)
	return v, nil
}

// place is where a value is on the axis.
func (a Axis) place(value float64) float64 {
	if a.Log2 {
		return math.Log2(value)
	}
	return value
}

func (a Axis) format(value float64) string {
	if a.Format != nil {
		return a.Format(value)
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
