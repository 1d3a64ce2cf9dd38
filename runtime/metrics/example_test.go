package metrics_test

import (
	"fmt"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

func ExampleReader() {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = rt.Close() }()
	for _, s := range metrics.NewReader(rt).Read() {
		if s.Name == "purecuda.outcome" {
			fmt.Println(s.Name, s.Labels, s.Value)
		}
	}
	// Output:
	// purecuda.outcome [available] 1
	// purecuda.outcome [absent] 0
	// purecuda.outcome [fault] 0
}
