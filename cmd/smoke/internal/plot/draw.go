package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// The size of a chart in pixels and what is left around its lines: above for title and note,
// below for the legend.
const (
	width, height = 960, 600
	marginTop     = 84
	marginSide    = 44
	marginBottom  = 48
	legendRow     = 22
	titleSize     = 15
	textSize      = 10
	longTitle     = 90  // characters of the title that fit
	longText      = 130 // characters that fit from side to side
	longName      = 52  // characters of a name that leave room for another one beside it
)

// colours are the eight of Okabe and Ito without yellow and black, which people with any colour
// vision can tell apart.
var colours = []drawing.Color{
	drawing.ColorFromHex("0072B2"), drawing.ColorFromHex("D55E00"), drawing.ColorFromHex("009E73"),
	drawing.ColorFromHex("CC79A7"), drawing.ColorFromHex("56B4E9"), drawing.ColorFromHex("E69F00"),
}

var (
	ink  = drawing.ColorFromHex("333333")
	grey = drawing.ColorFromHex("777777")
	grid = drawing.ColorFromHex("E4E4E4")
)

func (c Chart) colour(line int) drawing.Color {
	if c.Lines[line].Dashed {
		return grey
	}
	return colours[line%len(colours)]
}

// legendColumns is how many names stand side by side.
func (c Chart) legendColumns() int {
	for _, l := range c.Lines {
		if utf8.RuneCountInString(l.Name) > longName {
			return 1
		}
	}
	return 2
}

// legendRows is how many rows the legend has.
func (c Chart) legendRows() int { return (len(c.Lines) + c.legendColumns() - 1) / c.legendColumns() }

// cut is the text if it has at most n characters, and otherwise its beginning.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-3]) + "..."
	}
	return text
}

// fitted is the chart with its texts cut to the room that there is.
func (c Chart) fitted() Chart {
	c.Title, c.Note = cut(c.Title, longTitle), cut(c.Note, longText)
	c.Lines = slices.Clone(c.Lines)
	for i := range c.Lines {
		c.Lines[i].Name = cut(c.Lines[i].Name, longText-10)
	}
	return c
}

func (c Chart) lineStyle(line int) chartdraw.Style {
	style := chartdraw.Style{StrokeColor: c.colour(line), StrokeWidth: 2, DotColor: c.colour(line), DotWidth: 3}
	if c.Lines[line].Dashed {
		style.StrokeDashArray, style.StrokeWidth = []float64{6, 4}, 1.5
		style.DotWidth, style.DotColor = 0, drawing.Color{}
	}
	return style
}

// chart is the chart as the library takes it. Its second y axis is the one on the left.
func (c Chart) chart(v values) chartdraw.Chart {
	text := chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: textSize, FontColor: ink}, StrokeColor: grey, StrokeWidth: 1}
	gridLine := chartdraw.Style{StrokeColor: grid, StrokeWidth: 1}
	y := c.Y.ticksY(v.top)
	rows := c.legendRows()
	chart := chartdraw.Chart{
		Width: width, Height: height + rows*legendRow,
		Background: chartdraw.Style{FillColor: drawing.ColorWhite, Padding: chartdraw.Box{
			Top: marginTop, Left: marginSide, Right: marginSide, Bottom: marginBottom + rows*legendRow, IsSet: true,
		}},
		XAxis: chartdraw.XAxis{Style: text, Ticks: c.X.ticksX(v.x), GridMajorStyle: gridLine, GridMinorStyle: gridLine},
		YAxis: chartdraw.YAxis{Style: chartdraw.Hidden(), Range: &chartdraw.ContinuousRange{Min: 0, Max: 1}},
		YAxisSecondary: chartdraw.YAxis{Style: text, Ticks: y, GridMajorStyle: gridLine, GridMinorStyle: gridLine,
			Range: &chartdraw.ContinuousRange{Min: 0, Max: y[len(y)-1].Value}},
		Elements: []chartdraw.Renderable{c.heading, c.legend},
	}
	for i, l := range c.Lines {
		if len(l.Points) == 0 {
			continue
		}
		series := chartdraw.ContinuousSeries{Name: l.Name, Style: c.lineStyle(i), YAxis: chartdraw.YAxisSecondary}
		points := slices.Clone(l.Points)
		slices.SortStableFunc(points, func(a, b Point) int {
			switch {
			case a.X < b.X:
				return -1
			case a.X > b.X:
				return 1
			}
			return 0
		})
		for _, p := range points {
			series.XValues = append(series.XValues, c.X.place(p.X))
			series.YValues = append(series.YValues, p.Y)
		}
		chart.Series = append(chart.Series, series)
	}
	return chart
}

// heading draws the title, the note and what the axes are.
func (c Chart) heading(r chartdraw.Renderer, canvas chartdraw.Box, defaults chartdraw.Style) {
	write := func(text string, x, y int, size float64, colour drawing.Color) chartdraw.Box {
		style := chartdraw.Style{FontStyle: chartdraw.FontStyle{Font: defaults.GetFont(), FontSize: size, FontColor: colour}}
		style.WriteTextOptionsToRenderer(r)
		r.Text(text, x, y)
		return r.MeasureText(text)
	}
	write(c.Title, canvas.Left, 30, titleSize, ink)
	write(c.Note, canvas.Left, 50, textSize, grey)
	write(c.Y.Label, canvas.Left, canvas.Top-14, textSize, ink)
	style := chartdraw.Style{FontStyle: chartdraw.FontStyle{Font: defaults.GetFont(), FontSize: textSize, FontColor: ink}}
	style.WriteTextOptionsToRenderer(r)
	label := r.MeasureText(c.X.Label)
	r.Text(c.X.Label, (canvas.Left+canvas.Right-label.Width())/2, canvas.Bottom+44)
}

// legend draws the names of the lines below the chart.
func (c Chart) legend(r chartdraw.Renderer, canvas chartdraw.Box, defaults chartdraw.Style) {
	const sample = 28 // pixels of line
	columns := c.legendColumns()
	column := canvas.Width() / columns
	for i, l := range c.Lines {
		x, y := canvas.Left+(i%columns)*column, canvas.Bottom+72+(i/columns)*legendRow
		style := c.lineStyle(i)
		r.SetStrokeColor(style.StrokeColor)
		r.SetStrokeWidth(style.StrokeWidth)
		r.SetStrokeDashArray(style.StrokeDashArray)
		r.MoveTo(x, y-4)
		r.LineTo(x+sample, y-4)
		r.Stroke()
		r.SetStrokeDashArray(nil)
		if style.DotWidth > 0 {
			r.SetFillColor(style.DotColor)
			r.Circle(style.DotWidth, x+sample/2, y-4)
			r.FillStroke()
		}
		text := chartdraw.Style{FontStyle: chartdraw.FontStyle{Font: defaults.GetFont(), FontSize: textSize, FontColor: ink}}
		text.WriteTextOptionsToRenderer(r)
		r.Text(l.Name, x+sample+8, y)
	}
}

// escaped is the chart with its texts as XML has them: the library writes them as they are.
func (c Chart) escaped() Chart {
	c.Title, c.Note = escape(c.Title), escape(c.Note)
	c.X, c.Y = c.X.escaped(), c.Y.escaped()
	c.Lines = slices.Clone(c.Lines)
	for i := range c.Lines {
		c.Lines[i].Name = escape(c.Lines[i].Name)
	}
	return c
}

func (a Axis) escaped() Axis {
	inner := a
	a.Label = escape(a.Label)
	a.Format = func(value float64) string { return escape(inner.format(value)) }
	return a
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}

// sized adds a size to what the library writes, which has a view box only: viewers would fill
// the window with it.
func sized(svg []byte) (out bytes.Buffer) {
	before, after, _ := bytes.Cut(svg, []byte(" viewBox="))
	var w, h, left, top int
	_, _ = fmt.Sscanf(string(after[:min(len(after), 64)]), `"%d %d %d %d"`, &left, &top, &w, &h)
	out.Write(before)
	fmt.Fprintf(&out, ` width="%d" height="%d" viewBox=`, w, h)
	out.Write(after)
	return out
}
