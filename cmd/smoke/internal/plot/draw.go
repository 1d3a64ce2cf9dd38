package plot

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The size of a chart in pixels, and where its lines are drawn. The legend has its rows below that.
const (
	width, height = 960, 600
	left, right   = 72, width - 44
	top, bottom   = 84, height - 80
	legendRow     = 22
	titleSize     = 20
	textSize      = 13
	longTitle     = 90  // characters of the title that fit
	longText      = 130 // characters that fit from side to side
	longName      = 52  // characters of a name that leave room for another one beside it
)

// colours are the eight of Okabe and Ito without yellow and black, which people with any colour
// vision can tell apart.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"}

const ink, grey, grid = "#333333", "#777777", "#E4E4E4"

// drawing is an SVG that is being written.
type drawing struct{ strings.Builder }

func (d *drawing) text(x, y float64, size int, anchor, colour, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">`, x, y, size, anchor, colour)
	_ = xml.EscapeText(d, []byte(text)) // a builder takes everything
	d.WriteString("</text>\n")
}

func (d *drawing) rule(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(d, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// series draws points with lines between them, in the way of one line of the chart.
func (d *drawing) series(points []Point, colour string, dashed bool) {
	var path strings.Builder
	for i, p := range points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], p.X, p.Y)
	}
	style := `stroke-width="2"`
	if dashed {
		style = `stroke-width="1.5" stroke-dasharray="6 4"`
	}
	fmt.Fprintf(d, `<path d="%s" fill="none" stroke="%s" %s/>`+"\n", &path, colour, style)
	for _, p := range points {
		if !dashed {
			fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", p.X, p.Y, colour)
		}
	}
}

// cut is the text if it has at most n characters, and otherwise its beginning.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-3]) + "..."
	}
	return text
}

// draw is the chart as SVG.
func (c Chart) draw(v values) string {
	columns := 2
	if slices.ContainsFunc(c.Lines, func(l Line) bool { return utf8.RuneCountInString(l.Name) > longName }) {
		columns = 1
	}
	all := height + (len(c.Lines)+columns-1)/columns*legendRow
	d := new(drawing)
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif">`+"\n", width, all, width, all)
	fmt.Fprintf(d, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, all)
	d.text(left, 30, titleSize, "start", ink, cut(c.Title, longTitle))
	d.text(left, 52, textSize, "start", grey, cut(c.Note, longText))
	d.text(left, top-12, textSize, "start", ink, c.Y.Label)
	d.text((left+right)/2, bottom+44, textSize, "middle", ink, c.X.Label)

	ticksX, ticksY := c.X.ticksX(v.x), c.Y.ticksY(v.top)
	first, last, highest := ticksX[0].value, ticksX[len(ticksX)-1].value, ticksY[len(ticksY)-1].value
	at := func(p Point) Point {
		return Point{left + (p.X-first)/(last-first)*(right-left), bottom - p.Y/highest*(bottom-top)}
	}
	for _, tick := range ticksX {
		x := at(Point{X: tick.value}).X
		d.rule(x, top, x, bottom, grid)
		d.text(x, bottom+20, textSize, "middle", ink, tick.label)
	}
	for _, tick := range ticksY {
		y := at(Point{Y: tick.value}).Y
		d.rule(left, y, right, y, grid)
		d.text(left-8, y+4, textSize, "end", ink, tick.label)
	}
	d.rule(left, top, left, bottom, grey)
	d.rule(left, bottom, right, bottom, grey)

	for i, l := range c.Lines {
		colour := colours[i%len(colours)]
		if l.Dashed {
			colour = grey
		}
		points := slices.Clone(l.Points)
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		for k, p := range points {
			points[k] = at(Point{c.X.place(p.X), p.Y})
		}
		if len(points) > 0 {
			d.series(points, colour, l.Dashed)
		}
		x, y := float64(left+i%columns*(right-left)/columns), float64(bottom+72+i/columns*legendRow)
		d.series([]Point{{x, y - 4}, {x + 14, y - 4}, {x + 28, y - 4}}, colour, l.Dashed)
		d.text(x+36, y, textSize, "start", ink, cut(l.Name, longText-10))
	}
	d.WriteString("</svg>\n")
	return d.String()
}
