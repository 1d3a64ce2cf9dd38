// Package plot draws line charts as SVG.
//
//	err := plot.Chart{
//		Title: "Copy rate",
//		X:     plot.Axis{Label: "size of the copy", Log2: true, Format: formatSize},
//		Y:     plot.Axis{Label: "GB/s"},
//		Lines: []plot.Line{{Name: "upload", Points: points}},
//	}.Write(w)
package plot
