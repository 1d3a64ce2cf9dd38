package nccl_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/runtime"
)

// check compares the memory of a rank with what was computed on the host.
type check func()

// types are the steps of a campaign for each type of elements.
var types = []func(b bench, r *rand.Rand) (nccl.Operation, check){
	step[int8], step[uint8], step[int32], step[uint32], step[int64], step[uint64], step[gpu.Float16], step[float32], step[float64], step[gpu.BFloat16],
}

// Random operations of random types and sizes, one at a time and together, recorded and not, are what the host computes.
func TestCampaign(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprintf("simulated/%d", n), func(t *testing.T) {
			seeds.Each(t, 6, func(t *testing.T, seed uint64) {
				b, _, _ := simulated(t, n)
				campaign(b, seed)
			})
		})
	}
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprintf("hardware/%d", n), func(t *testing.T) { campaign(onHardware(t, n), 1) })
	}
}

func campaign(b bench, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(len(b.streams))))
	r.Shuffle(len(b.streams), func(i, j int) { b.streams[i], b.streams[j] = b.streams[j], b.streams[i] })
	c := b.all()
	for range 12 {
		var operations []nccl.Operation
		var checks []check
		for range 1 + r.IntN(4) {
			o, verify := types[r.IntN(len(types))](b, r)
			operations, checks = append(operations, o), append(checks, verify)
		}
		if len(b.streams) > 1 && r.IntN(3) == 0 {
			x, y, verify := ring(b, r)
			operations, checks = append(append(operations, x...), y...), append(checks, verify)
		}
		if len(b.streams) > 1 || r.IntN(4) > 0 {
			require.NoError(b, c.Do(bg, operations...))
		} else {
			recorded(b, c, operations)
		}
		for _, verify := range checks {
			verify()
		}
	}
	require.NoError(b, c.Wait(bg))
}

// recorded runs operations as a graph.
func recorded(b bench, c *nccl.Comm, operations []nccl.Operation) {
	b.Helper()
	graph, err := b.streams[0].Capture(func(*runtime.Stream) error { return c.Do(bg, operations...) })
	require.NoError(b, err)
	exec, err := graph.Instantiate()
	require.NoError(b, err)
	require.NoError(b, graph.Close())
	require.NoError(b, exec.Launch(b.streams[0]))
	require.NoError(b, exec.Close())
}

// values are numbers that all types have, and that sum up and multiply exactly in all of them but for 8 bits, which go round.
func values[T nccl.Element](b bench, r *rand.Rand, n int) (all [][]T) {
	for range b.streams {
		x := make([]T, n)
		for i := range x {
			x[i] = to[T](float64(1 + r.IntN(2)))
		}
		all = append(all, x)
	}
	return all
}

// step is an operation with its check.
func step[T nccl.Element](b bench, r *rand.Rand) (nccl.Operation, check) {
	ranks, n, root := len(b.streams), r.IntN(300), r.IntN(len(b.streams))
	op := nccl.Op(r.IntN(5))
	inPlace := r.IntN(2) == 0
	sends, recvs := n, n
	kind := nccl.Kind(r.IntN(5))
	switch kind {
	case nccl.KindAllGather:
		recvs = n * ranks
	case nccl.KindReduceScatter:
		sends = n * ranks
	}
	in, out := values[T](b, r, sends), values[T](b, r, recvs)
	var send, recv []*runtime.Ref[T]
	switch {
	case !inPlace:
		send, recv = upload(b, in), upload(b, out)
	case kind == nccl.KindAllGather:
		for i := range in {
			copy(out[i][i*n:], in[i])
		}
		recv = upload(b, out)
		for i, x := range recv {
			send = append(send, part(b, x, i*n, i*n+n))
		}
	case kind == nccl.KindReduceScatter:
		send = upload(b, in)
		for i, x := range send {
			recv = append(recv, part(b, x, i*n, i*n+n))
		}
	default:
		send = upload(b, in)
		recv = send
	}
	var o nccl.Operation
	want := func(i, k int) float64 { return combined(op, in, k) }
	got := recv
	switch kind {
	case nccl.KindAllReduce:
		o = nccl.AllReduce(op, send, recv)
	case nccl.KindBroadcast:
		o, got = nccl.Broadcast(root, send), send
		want = func(_, k int) float64 { return from(in[root][k]) }
	case nccl.KindReduce:
		o = nccl.Reduce(op, root, send, recv[root])
	case nccl.KindAllGather:
		o = nccl.AllGather(send, recv)
		want = func(_, k int) float64 { return from(in[k/n][k%n]) }
	case nccl.KindReduceScatter:
		o = nccl.ReduceScatter(op, send, recv)
		want = func(i, k int) float64 { return combined(op, in, i*n+k) }
	}
	return o, func() {
		b.Helper()
		for i := range got {
			if kind == nccl.KindReduce && i != root {
				continue
			}
			for k, x := range download(b, i, got[i]) {
				value, tolerance := want(i, k), 0.0
				if op == nccl.Avg && kind != nccl.KindBroadcast && kind != nccl.KindAllGather {
					tolerance = average[T]()
				}
				if !(math.Abs(from(x)-value) <= tolerance) {
					b.Fatalf("%v of operator %d, %d elements of %T, root %d, in place %v: element %d of rank %d is %v, want %v", kind, op, n, x, root, inPlace, k, i, from(x), value)
				}
			}
		}
	}
}

// part is a view that ends with the test.
func part[T any](b bench, x *runtime.Ref[T], i, j int) *runtime.Ref[T] {
	view := x.Slice(i, j)
	b.Cleanup(func() { _ = view.Close() })
	return view
}

// combined is element k of all ranks, with the wrapping of T.
func combined[T nccl.Element](op nccl.Op, in [][]T, k int) float64 {
	v := from(in[0][k])
	for _, x := range in[1:] {
		y := from(x[k])
		switch op {
		case nccl.Prod:
			v *= y
		case nccl.Max:
			v = max(v, y)
		case nccl.Min:
			v = min(v, y)
		default:
			v += y
		}
	}
	if op == nccl.Avg {
		return v / float64(len(in))
	}
	var zero T
	switch any(zero).(type) {
	case int8:
		return float64(int8(int64(v)))
	case uint8:
		return float64(uint8(int64(v)))
	}
	return v
}

// average is how far an average may be off: one of integers is rounded, and others may be divided before they are added up.
func average[T nccl.Element]() float64 {
	var zero T
	switch any(zero).(type) {
	case float64:
		return 0x1p-48
	case float32:
		return 0x1p-19
	case gpu.Float16:
		return 0x1p-6
	case gpu.BFloat16:
		return 0x1p-3
	}
	return 1
}

// ring sends from each rank to the next one.
func ring(b bench, r *rand.Rand) (sends, recvs []nccl.Operation, _ check) {
	n, ranks := 1+r.IntN(100), len(b.streams)
	in := values[float32](b, r, n)
	send, recv := upload(b, in), upload(b, values[float32](b, r, n))
	for i := range ranks {
		next := (i + 1) % ranks
		sends = append(sends, nccl.Send(i, next, send[i]))
		recvs = append(recvs, nccl.Recv(next, i, recv[next]))
	}
	r.Shuffle(ranks, func(i, j int) { recvs[i], recvs[j] = recvs[j], recvs[i] })
	return sends, recvs, func() {
		b.Helper()
		for i := range ranks {
			require.Equal(b, in[i], download(b, (i+1)%ranks, recv[(i+1)%ranks]))
		}
	}
}
