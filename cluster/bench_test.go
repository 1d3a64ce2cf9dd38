package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

// BenchmarkPieces compares pieces of a function that does nothing with a plain loop over JetStream: publish 64 bytes, fetch in
// batches, publish 64 bytes, acknowledge, consume. Both have two workers.
func BenchmarkPieces(b *testing.B) {
	data := make([]byte, 64)
	b.Run("impl=cluster", func(b *testing.B) {
		s := start(b, embedded.Config{})
		for i := range 2 {
			serve(b, connect(b, s), openPool(b, 1), fmt.Sprint("host", i), cluster.WithSlots(16))
		}
		c := open(b, connect(b, s), cluster.WithPatience(patience))
		piece := func(int) (cluster.Piece, error) { return cluster.Piece{Data: data}, nil }
		scatter := func(n int) {
			_, err := cluster.Scatter(within(b), c, "echo/v1", n, piece, func(int, []byte) error { return nil })
			require.NoError(b, err)
		}
		scatter(1000)
		b.ResetTimer()
		began := used()
		scatter(b.N)
		report(b, began)
	})
	b.Run("impl=plain", func(b *testing.B) {
		s := start(b, embedded.Config{})
		ctx, cancel := context.WithCancel(context.Background())
		js, err := jetstream.New(connect(b, s), jetstream.WithPublishAsyncMaxPending(256))
		require.NoError(b, err)
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "W", Subjects: []string{"w.>"}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy})
		require.NoError(b, err)
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "R", Subjects: []string{"r.>"}, Storage: jetstream.MemoryStorage})
		require.NoError(b, err)
		_, err = js.CreateConsumer(ctx, "W", jetstream.ConsumerConfig{Durable: "w", AckPolicy: jetstream.AckExplicitPolicy})
		require.NoError(b, err)
		var workers sync.WaitGroup
		for range 2 {
			js, err := jetstream.New(connect(b, s))
			require.NoError(b, err)
			consumer, err := js.Consumer(ctx, "W", "w")
			require.NoError(b, err)
			for range 16 {
				workers.Go(func() {
					for ctx.Err() == nil {
						batch, err := consumer.Fetch(4, jetstream.FetchContext(ctx))
						if err != nil {
							return
						}
						for m := range batch.Messages() {
							if _, err := js.Publish(ctx, "r."+m.Subject(), m.Data()); err == nil {
								_ = m.Ack()
							}
						}
					}
				})
			}
		}
		got := make(chan struct{}, 1<<20)
		results, err := js.OrderedConsumer(ctx, "R", jetstream.OrderedConsumerConfig{})
		require.NoError(b, err)
		consume, err := results.Consume(func(jetstream.Msg) { got <- struct{}{} })
		require.NoError(b, err)
		b.ResetTimer()
		began := used()
		for i := range b.N {
			_, err := js.PublishAsync(fmt.Sprint("w.", i), data)
			require.NoError(b, err)
			if i >= 256 {
				<-got
			}
		}
		for range min(b.N, 256) {
			<-got
		}
		report(b, began)
		b.StopTimer()
		consume.Stop()
		cancel()
		workers.Wait()
	})
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself it does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report has the rate, and what holds on a machine that does other things: the processor time of a piece.
func report(b *testing.B, began time.Duration) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pieces/s")
	b.ReportMetric(float64((used()-began).Microseconds())/float64(b.N), "cpu-us/piece")
}

// BenchmarkDo is one piece at a time: what a piece costs.
func BenchmarkDo(b *testing.B) {
	c := onHosts(b, 1)
	data := cluster.Piece{Data: make([]byte, 64)}
	for range b.N {
		_, _, err := cluster.Do(within(b), c, "echo/v1", data)
		require.NoError(b, err)
	}
}
