package pool_test

import (
	"context"
	"testing"
	"time"

	"github.com/purecuda/purecuda/pool"
)

// BenchmarkHardwareOverload is ten seconds of overload on the devices.
func BenchmarkHardwareOverload(b *testing.B) {
	const length, streams = 2 * time.Millisecond, 16
	onHardware(b, func(b *testing.B, devices int, p *pool.Pool) {
		request := func() error {
			_, err := p.Do(context.Background(), func(w *pool.Worker) error {
				return spinner{w.Stream(), ofSpin.Of(w)}.request(w.CallContext(), length)
			})
			return err
		}
		requestsOf(b, devices*streams, 2000, func(int) error { return request() }) // makes the streams
		overload(b, devices*streams, length, 10*time.Second, request)
	}, pool.Options{Streams: streams, Setup: []pool.Setup{ofSpin}})
}
