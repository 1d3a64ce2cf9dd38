package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cmd/smoke/internal/plot"
)

// show keeps the drawn charts in a folder, to look at them.
var show = flag.String("show", "", "write the charts of the tests to this folder")

// copies is a chart with everything: a logarithmic axis, many ticks, names that XML reserves.
func copies() plot.Chart {
	c := plot.Chart{
		Title: "Copies between host and device <0> & back",
		Note:  "2 x NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0",
		X:     plot.Axis{Label: "bytes copied", Log2: true, Format: func(v float64) string { return fmt.Sprintf("%.0f Ki", v/1024) }},
		Y:     plot.Axis{Label: "GB/s"},
	}
	for i, name := range []string{"upload, Go slice", "upload, page-locked", "download, Go slice", "download, page-locked"} {
		line := plot.Line{Name: name}
		for n := 1024.0; n <= 1<<30; n *= 4 {
			line.Points = append(line.Points, plot.Point{X: n, Y: (55 - float64(i)*3) * n / (n + float64(i+1)*200e3)})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// scaling is a chart with linear axes and lines that were not measured.
func scaling() plot.Chart {
	c := plot.Chart{Title: "Scaling", X: plot.Axis{Label: "devices"}, Y: plot.Axis{Label: "times one device"}}
	measured, ideal := plot.Line{Name: "scatter"}, plot.Line{Name: "ideal", Dashed: true}
	for _, n := range []float64{8, 1, 2, 4} { // in any order
		measured.Points = append(measured.Points, plot.Point{X: n, Y: n * 0.9})
		ideal.Points = append(ideal.Points, plot.Point{X: n, Y: n})
	}
	c.Lines = []plot.Line{measured, ideal}
	return c
}

func draw(t *testing.T, c plot.Chart) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, c.Write(&out))
	if *show != "" {
		name := strings.ReplaceAll(t.Name(), "/", "-") + ".svg"
		require.NoError(t, os.WriteFile(filepath.Join(*show, name), out.Bytes(), 0o644))
	}
	return out.Bytes()
}

// texts are the texts of an SVG, which must be well-formed.
func texts(t *testing.T, svg []byte) (all []string) {
	t.Helper()
	inText := false
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				all = append(all, string(token))
			}
		}
	}
}

func TestSVG(t *testing.T) {
	c := copies()
	c.Lines[0].Name = `upload, "Go" <slice> & more`
	svg := draw(t, c)
	found := texts(t, svg)
	want := []string{c.Title, c.Note, c.X.Label, "GB/s", "1 Ki", "1048576 Ki", "0", "10", "60"}
	for _, l := range c.Lines {
		want = append(want, l.Name)
	}
	for _, text := range want {
		assert.Contains(t, found, text)
	}
	for _, colour := range []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7"} { // one a line
		assert.Contains(t, string(svg), colour)
	}
	assert.Regexp(t, `^<svg [^>]*width="960" height="\d+" viewBox=`, string(svg))
	assert.Equal(t, 4*(11+3), strings.Count(string(svg), "<circle"), "a dot for each point, and in the legend")
	assert.NotContains(t, string(svg), "NaN")
	assert.NotContains(t, string(svg), "stroke-dasharray")
	assert.Contains(t, string(draw(t, scaling())), "stroke-dasharray")
}

// A machine with one core or one device has one point.
func TestOnePoint(t *testing.T) {
	for _, log := range []bool{false, true} {
		for _, x := range []float64{1, 1024} {
			c := plot.Chart{Title: "One", X: plot.Axis{Label: "x", Log2: log}, Lines: []plot.Line{{Name: "l", Points: []plot.Point{{X: x, Y: 3}}}}}
			assert.Contains(t, texts(t, draw(t, c)), fmt.Sprint(x))
		}
	}
	c := plot.Chart{Title: "Zero", Lines: []plot.Line{{Name: "l", Points: []plot.Point{{}}}}}
	assert.Contains(t, texts(t, draw(t, c)), "0")
}

func TestWhatCannotBeDrawn(t *testing.T) {
	line := func(points ...plot.Point) []plot.Line { return []plot.Line{{Name: "the line", Points: points}} }
	for _, c := range []struct {
		name  string
		chart plot.Chart
		text  string
	}{
		{"no line", plot.Chart{Title: "T"}, `plot "T": there is nothing to plot`},
		{"no point", plot.Chart{Lines: line()}, "there is nothing to plot"},
		{"infinite", plot.Chart{Lines: line(plot.Point{X: 1, Y: math.Inf(1)})}, "the line has the point (1, +Inf)"},
		{"not a number", plot.Chart{Lines: line(plot.Point{X: math.NaN()})}, "the line has the point"},
		{"negative", plot.Chart{Lines: line(plot.Point{X: 1, Y: -1})}, "from 0 on"},
		{"no logarithm", plot.Chart{X: plot.Axis{Log2: true}, Lines: line(plot.Point{})}, "logarithmic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.ErrorContains(t, c.chart.Write(&out), c.text)
			assert.Zero(t, out.Len())
		})
	}
	require.ErrorIs(t, plot.Chart{}.Write(io.Discard), plot.ErrEmpty)
}

// failing is a file on a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteError(t *testing.T) {
	require.ErrorContains(t, copies().Write(failing{}), "disk full")
}
