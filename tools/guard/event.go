package main

import "github.com/purecuda/purecuda/runtime"

// Events.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var (
			l     launcher
			event *runtime.Event
		)
		s := &suite{open: func(c *closers) error {
			if err := l.open(m, c); err != nil {
				return err
			}
			e, err := l.context.NewEvent()
			event, err = opened(c, e, err)
			return err
		}}
		s.add(benchmark{"Event/do=record", inC{baseline, "HardwareEventRecord/timing=off"},
			loop(enqueue(&l.stream, batch, false, func() error { return event.Record(l.stream) }))})
		s.add(benchmark{"Event/do=query", inC{baseline, "HardwareCall/fn=cuEventQuery"},
			loop(each(func() error { _, err := event.Query(); return err }))})
		return s
	})
}
