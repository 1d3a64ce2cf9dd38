package main

import "github.com/purecuda/purecuda/runtime"

// Graphs of ten launches: what a replay costs, and until it has run.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var (
			l     launcher
			graph *runtime.GraphExec
		)
		launches := func() error {
			for range graphNodes {
				if err := l.launch(); err != nil {
					return err
				}
			}
			return nil
		}
		s := &suite{open: func(c *closers) error {
			if err := l.open(m, c); err != nil {
				return err
			}
			captured, err := l.stream.Capture(func(*runtime.Stream) error { return launches() })
			if captured, err = opened(c, captured, err); err != nil {
				return err
			}
			graph, err = captured.Instantiate()
			if graph, err = opened(c, graph, err); err != nil {
				return err
			}
			return graph.Upload(l.stream)
		}}
		replay := func() error { return graph.Launch(l.stream) }
		s.add(benchmark{"Graph/do=replay/nodes=10", inC{baseline, "HardwareGraphReplay/nodes=10"}, loop(enqueue(&l.stream, graphBatch, false, replay))})
		s.add(benchmark{"Graph/do=wait/nodes=10", inC{}, loop(enqueue(&l.stream, 1, true, replay))})
		s.add(benchmark{"Graph/do=launches/nodes=10", inC{}, loop(enqueue(&l.stream, graphBatch, false, launches))})
		return s
	})
}
