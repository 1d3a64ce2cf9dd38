package main

import (
	"os"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// point and sum are a request with types.
type point struct {
	Name   string
	Values []float64
}

type sum struct {
	Name  string
	Total float64
}

// A request with types in a child process, and one of as many bytes.
func init() {
	sums := isolate.Handle("sum/v1", func(_ *pool.Worker, p point, _ []*isolate.Buffer) (sum, error) {
		s := sum{Name: p.Name}
		for _, v := range p.Values {
			s.Total += v
		}
		return s, nil
	})
	suites = append(suites, func(m *machine) *suite {
		var g *isolate.Group
		s := &suite{open: func(c *closers) error {
			group, err := isolate.Open(m.rt, isolate.WithQueueWait(), isolate.WithOutput(os.Stderr), isolate.WithEnvironment(simulateVariable+"="+os.Getenv(simulateVariable)))
			g, err = opened(c, group, err)
			return err
		}}
		data := make([]byte, 100)
		s.add(benchmark{"Isolate/do=bytes/size=100B", inC{}, loop(each(func() error { _, _, err := g.Do(bg, "echo/v1", data); return err }))})
		p := point{"x", []float64{1, 2, 3}}
		s.add(benchmark{"Isolate/do=typed", inC{}, loop(each(func() error { _, _, err := sums.Do(bg, g, p); return err }))})
		return s
	})
}
