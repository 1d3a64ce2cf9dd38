package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/pool/isolate"
)

// sides are a function of a cluster that does nothing, and a plain loop over JetStream: publish 64 bytes, fetch in batches, publish 64
// bytes, acknowledge, consume. Both have two workers with 16 slots. Each side does n pieces.
var sides = []struct {
	name string
	open func(b *testing.B) (pieces func(n int))
}{{"plain", loopPieces}, {"cluster", scatterPieces}}

// BenchmarkPieces is each side alone.
func BenchmarkPieces(b *testing.B) {
	for _, side := range sides {
		b.Run("impl="+side.name, func(b *testing.B) {
			pieces := side.open(b)
			pieces(1000)
			b.ResetTimer()
			began := used()
			pieces(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pieces/s")
			b.ReportMetric(float64((used()-began).Microseconds())/float64(b.N), "cpu-us/piece")
		})
	}
}

// BenchmarkTurns is both sides in turns, 2,000 pieces each, and reports the ratio of the medians: it holds on a machine that does
// other things too. Run it with -benchtime 15x.
func BenchmarkTurns(b *testing.B) {
	const n = 2000
	var turns []turn
	for _, side := range sides {
		f := side.open(b)
		turns = append(turns, turn{side.name, n, func() { f(n) }})
	}
	inTurns(b, "pieces/s", turns)
}

// BenchmarkTurnsOnChildren is BenchmarkTurns where both sides call a function in a child.
func BenchmarkTurnsOnChildren(b *testing.B) {
	const n = 1000
	var groups [2]*isolate.Group
	for i := range groups {
		groups[i] = group(b, 1)
	}
	work := func(worker int, data []byte) []byte {
		result, _, err := groups[worker].Do(context.Background(), "echo/v1", data, isolate.WithQueueWait())
		assert.NoError(b, err)
		return result
	}
	plain := plainLoop(b, work)
	s := start(b, embedded.Config{})
	for i := range 2 {
		serve(b, connect(b, s), groups[i], fmt.Sprint("host", i), cluster.WithSlots(16))
	}
	c := open(b, connect(b, s), cluster.WithPatience(patience))
	inTurns(b, "pieces/s", []turn{{"plain", n, func() { plain(n) }}, {"cluster", n, func() { scatter(b, c, n) }}})
}

// BenchmarkSizes is pieces of some sizes in turns, and reports the ratios of the rates in bytes: 60 KiB are 1.
func BenchmarkSizes(b *testing.B) {
	s := start(b, embedded.Config{Listen: "127.0.0.1:0", Token: token})
	over := func() *nats.Conn { // the network, as between hosts: a pipe in the process costs by the write
		nc, err := dial(s.URL())
		require.NoError(b, err)
		b.Cleanup(nc.Close)
		return nc
	}
	for i := range 2 {
		serve(b, over(), openPool(b, 1), fmt.Sprint("host", i), cluster.WithSlots(4))
	}
	c := open(b, over(), cluster.WithPatience(patience))
	var turns []turn
	for _, size := range []int{60 << 10, 70 << 10, 900 << 10, 2 << 20} {
		data := make([]byte, size)
		n := 32 << 20 / size
		turns = append(turns, turn{fmt.Sprint(size>>10, "KiB"), float64(n*size) / 1e6, func() {
			_, err := cluster.Scatter(within(b), c, "sink/v1", n, func(int) (cluster.Piece, error) { return cluster.Piece{Data: data}, nil },
				func(int, []byte) error { return nil })
			require.NoError(b, err)
		}})
	}
	inTurns(b, "MB/s", turns)
}

// turn is work of so many units.
type turn struct {
	name  string
	units float64
	run   func()
}

// inTurns runs all in turns, and reports the medians of their rates and costs, and the ratios to the first one.
func inTurns(b *testing.B, unit string, turns []turn) {
	rates, costs := make([][]float64, len(turns)), make([][]float64, len(turns))
	for _, t := range turns {
		t.run()
	}
	b.ResetTimer()
	for range b.N {
		for i, t := range turns {
			cpu, began := used(), time.Now()
			t.run()
			rates[i] = append(rates[i], t.units/time.Since(began).Seconds())
			costs[i] = append(costs[i], float64((used()-cpu).Microseconds())/t.units)
		}
	}
	b.StopTimer()
	for i, t := range turns {
		b.ReportMetric(median(rates[i]), t.name+"-"+unit)
		b.ReportMetric(median(costs[i]), t.name+"-cpu-us")
		if i > 0 {
			b.ReportMetric(median(rates[i])/median(rates[0]), t.name+"/"+turns[0].name)
		}
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func scatterPieces(b *testing.B) (pieces func(n int)) {
	s := start(b, embedded.Config{})
	for i := range 2 {
		serve(b, connect(b, s), openPool(b, 1), fmt.Sprint("host", i), cluster.WithSlots(16))
	}
	c := open(b, connect(b, s), cluster.WithPatience(patience))
	return func(n int) { scatter(b, c, n) }
}

func scatter(b *testing.B, c *cluster.Cluster, n int) {
	data := make([]byte, 64)
	_, err := cluster.Scatter(within(b), c, "echo/v1", n, func(int) (cluster.Piece, error) { return cluster.Piece{Data: data}, nil },
		func(int, []byte) error { return nil })
	require.NoError(b, err)
}

func loopPieces(b *testing.B) (pieces func(n int)) {
	return plainLoop(b, func(_ int, data []byte) []byte { return data })
}

// plainLoop has two workers, which call work with their number.
func plainLoop(b *testing.B, work func(worker int, data []byte) []byte) (pieces func(n int)) {
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
	for worker := range 2 {
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
						if _, err := js.Publish(ctx, "r."+m.Subject(), work(worker, m.Data())); err == nil {
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
	b.Cleanup(func() {
		consume.Stop()
		cancel()
		workers.Wait()
	})
	data := make([]byte, 64)
	return func(n int) {
		for i := range n {
			_, err := js.PublishAsync(fmt.Sprint("w.", i), data)
			require.NoError(b, err)
			if i >= 256 {
				<-got
			}
		}
		for range min(n, 256) {
			<-got
		}
	}
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself it does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
