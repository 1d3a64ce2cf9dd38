package nccl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/runtime"
)

// The operations one by one, on one device and on two.
func TestOperations(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		n := len(b.streams)
		c := b.all()
		assert.Equal(t, n, c.Size())
		in := make([][]float32, n)
		wide := make([][]float32, n)
		for i := range in {
			in[i] = []float32{float32(i + 1), float32(10 * (i + 1))}
			wide[i] = make([]float32, 2*n)
		}
		sum := []float32{float32(n * (n + 1) / 2), float32(10 * n * (n + 1) / 2)}
		x, y := upload(b, in), upload(b, wide)

		require.NoError(t, c.Do(bg, nccl.AllGather(x, y)))
		for i := range y {
			got := download(b, i, y[i])
			for k := range in {
				assert.Equal(t, in[k], got[2*k:2*k+2])
			}
		}
		require.NoError(t, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)))
		for i := range x {
			assert.Equal(t, sum, download(b, i, x[i]))
		}
		require.NoError(t, c.Do(bg, nccl.Broadcast(0, y)))
		require.NoError(t, c.Wait(bg))
		assert.NoError(t, c.Err())
	}, 1, 2)
}

// What Do uses may be closed behind it, and work of other streams with the memory comes before and after.
func TestOrder(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		c := b.all()
		const n = 1 << 16
		for round := range 5 {
			var x []*runtime.Ref[int32]
			for i, s := range b.streams {
				other, err := s.Context().NewStream()
				require.NoError(t, err)
				data := make([]int32, n)
				for k := range data {
					data[k] = int32(i + k + round)
				}
				r, err := runtime.UploadNew(bg, other, data)
				require.NoError(t, err)
				x = append(x, r)
				defer other.Close()
			}
			require.NoError(t, c.Do(bg, nccl.AllReduce(nccl.Max, x, x)))
			for i, r := range x {
				other, err := b.streams[i].Context().NewStream()
				require.NoError(t, err)
				got, err := runtime.DownloadNew(bg, other, r)
				require.NoError(t, err)
				assert.Equal(t, int32(len(b.streams)-1+n-1+round), got[n-1])
				require.NoError(t, other.Close())
			}
			require.NoError(t, c.Do(bg, nccl.Broadcast(0, x)))
			for _, r := range x {
				require.NoError(t, r.Close())
			}
		}
	}, 1, 2)
}

// nothing is a context that a program forgot.
var nothing context.Context

func TestWrongUse(t *testing.T) {
	b, _, lib := simulated(t, 3)
	c := b.all()
	x := upload(b, [][]float32{{1, 2}, {3, 4}, {5, 6}})
	y := upload(b, [][]float32{{1, 2}, {3, 4}, {5, 6}})
	wide := upload(b, [][]float32{make([]float32, 8), make([]float32, 8), make([]float32, 8)})
	odd := upload(b, [][]float32{{1}, {3, 4}, {5, 6}})
	whole := upload(b, [][]float32{make([]float32, 6), make([]float32, 6), make([]float32, 6)})
	closedRef, err := runtime.UploadNew(bg, b.streams[1], []float32{1, 2})
	require.NoError(t, err)
	require.NoError(t, closedRef.Close())
	refs := func(all ...*runtime.Ref[float32]) []*runtime.Ref[float32] { return all }
	parts := func(i, j int) (all []*runtime.Ref[float32]) {
		for _, w := range whole {
			all = append(all, part(b, w, i, j))
		}
		return all
	}
	for name, o := range map[string]struct {
		operations []nccl.Operation
		want       string
	}{
		"zero":              {[]nccl.Operation{{}}, "operation 0 is the zero Operation"},
		"operator":          {[]nccl.Operation{nccl.AllReduce(9, x, y)}, "operator 9"},
		"root":              {[]nccl.Operation{nccl.Broadcast(3, x)}, "ncclBroadcast with rank 3: the communicator has ranks 0 to 2"},
		"negative root":     {[]nccl.Operation{nccl.Reduce(nccl.Sum, -1, x, y[0])}, "with rank -1"},
		"few":               {[]nccl.Operation{nccl.AllReduce(nccl.Sum, x[:2], y)}, "ncclAllReduce of 2 Refs to send: want one for each of the ranks [0 1 2]"},
		"none":              {[]nccl.Operation{nccl.Broadcast[float32](0, nil)}, "ncclBroadcast of 0 Refs to receive"},
		"nil":               {[]nccl.Operation{nccl.AllReduce(nccl.Sum, refs(x[0], nil, x[2]), y)}, "rank 1 sends a Ref that is nil"},
		"zero Ref":          {[]nccl.Operation{nccl.Broadcast(0, refs(x[0], new(runtime.Ref[float32]), x[2]))}, "rank 1 receives a Ref that is nil"},
		"nil first":         {[]nccl.Operation{nccl.AllReduce(nccl.Sum, refs(nil, x[1], x[2]), y)}, "rank 0 sends a Ref that is nil"},
		"counts":            {[]nccl.Operation{nccl.AllReduce(nccl.Sum, odd, odd)}, "rank 1 sends 2 elements, want 1: the first Ref counts, which has 1"},
		"other counts":      {[]nccl.Operation{nccl.AllReduce(nccl.Sum, x, wide)}, "rank 0 receives 8 elements, want 2"},
		"gather":            {[]nccl.Operation{nccl.AllGather(x, wide)}, "rank 0 receives 8 elements, want 6"},
		"scatter":           {[]nccl.Operation{nccl.ReduceScatter(nccl.Sum, wide, x)}, "rank 0 sends 8 elements, want 6"},
		"reduce":            {[]nccl.Operation{nccl.Reduce(nccl.Sum, 1, x, wide[1])}, "rank 1 receives 8 elements, want 2"},
		"reduce to nobody":  {[]nccl.Operation{nccl.Reduce(nccl.Sum, 1, x, nil)}, "ncclReduce to rank 1: want a Ref for the result"},
		"reduce elsewhere":  {[]nccl.Operation{nccl.Reduce(nccl.Sum, 1, x, y[0])}, "rank 1 receives memory of device 0, and its stream is of device 1"},
		"devices":           {[]nccl.Operation{nccl.Broadcast(0, refs(x[0], x[2], x[1]))}, "rank 1 receives memory of device 2"},
		"closed Ref":        {[]nccl.Operation{nccl.Broadcast(0, refs(x[0], closedRef, x[2]))}, "Closed"},
		"send to nobody":    {[]nccl.Operation{nccl.Send(0, 5, x[0])}, "ncclSend with rank 5"},
		"send of nobody":    {[]nccl.Operation{nccl.Send(4, 0, x[0])}, "ncclSend of rank 4, which is not one of this process: [0 1 2]"},
		"send to itself":    {[]nccl.Operation{nccl.Send(1, 1, x[1])}, "rank 1 with itself"},
		"send elsewhere":    {[]nccl.Operation{nccl.Send(1, 0, x[0])}, "rank 1 sends memory of device 0"},
		"send nothing":      {[]nccl.Operation{nccl.Send[float32](1, 0, nil)}, "rank 1 sends a Ref that is nil"},
		"send without recv": {[]nccl.Operation{nccl.Send(0, 1, x[0])}, "rank 0 sends to rank 1, and no Recv of this Do receives it"},
		"recv without send": {[]nccl.Operation{nccl.Recv(0, 1, x[0])}, "rank 0 receives from rank 1, and no Send of this Do sends it"},
		"send and recv":     {[]nccl.Operation{nccl.Send(0, 1, x[0]), nccl.Recv(1, 0, wide[1])}, "rank 0 sends 2 elements of type 7 to rank 1, which receives 8 of type 7"},
		"same memory twice": {[]nccl.Operation{nccl.AllReduce(nccl.Sum, x, y), nccl.Broadcast(0, y)}, "at the same time, and one writes there"},
		"read and written":  {[]nccl.Operation{nccl.AllReduce(nccl.Sum, y, x), nccl.AllReduce(nccl.Sum, x, wideOf(b))}, "at the same time, and one writes there"},
		"partly":            {[]nccl.Operation{nccl.AllReduce(nccl.Sum, parts(0, 2), parts(1, 3))}, "rank 0: ncclAllReduce and ncclAllReduce use"},
		"gather in place":   {[]nccl.Operation{nccl.AllGather(parts(1, 3), whole)}, "rank 0: ncclAllGather and ncclAllGather use"},
		"scatter in place":  {[]nccl.Operation{nccl.ReduceScatter(nccl.Sum, whole, parts(2, 4))}, "rank 0: ncclReduceScatter and ncclReduceScatter use"},
	} {
		err := c.Do(bg, o.operations...)
		require.Error(t, err, name)
		assert.ErrorContains(t, err, o.want, name)
		require.NoError(t, c.Err(), "%s: the communicator goes on", name)
	}
	require.NoError(t, c.Do(bg, nccl.AllReduce(nccl.Sum, x, y), nccl.AllReduce(nccl.Sum, x, wideOf(b))), "what is read only may be read twice")
	require.NoError(t, c.Do(bg))
	require.ErrorIs(t, c.Do(nothing, nccl.Broadcast(0, x)), driver.ErrInvalidArgument)
	over, cancel := context.WithCancel(bg)
	cancel()
	require.ErrorIs(t, c.Do(over, nccl.Broadcast(0, x)), context.Canceled)
	require.ErrorIs(t, (*nccl.Comm)(nil).Do(bg), driver.ErrInvalidArgument)
	require.ErrorIs(t, new(nccl.Comm).Do(bg), driver.ErrInvalidArgument)
	require.ErrorIs(t, c.Wait(nothing), driver.ErrInvalidArgument)
	assert.NoError(t, c.Wait(bg))

	// Several ranks of a process are not recorded.
	for i := range b.streams {
		_, err = b.streams[i].Capture(func(*runtime.Stream) error { return c.Do(bg, nccl.Broadcast(0, x)) })
		require.ErrorIs(t, err, driver.ErrCaptureFailed)
		assert.ErrorContains(t, err, "join each rank by itself")
	}
	assert.NoError(t, c.Err())
	assert.Equal(t, 3, lib.Left())
}

func wideOf(b bench) []*runtime.Ref[float32] {
	all := make([][]float32, len(b.streams))
	for i := range all {
		all[i] = make([]float32, 2)
	}
	return upload(b, all)
}

func TestWrongCommunicators(t *testing.T) {
	b, gpu, lib := simulated(t, 2)
	more := on(t, gpu, lib, 1)
	second, err := b.streams[0].Context().NewStream()
	require.NoError(t, err)
	id, err := nccl.UniqueID(lib)
	require.NoError(t, err)
	streams := func(all ...*runtime.Stream) []*runtime.Stream { return all }
	join := func(size int, ranks []int, all []*runtime.Stream) error {
		_, err := nccl.Join(bg, lib, id, size, ranks, all, nccl.Options{})
		return err
	}
	all := func(all []*runtime.Stream, o nccl.Options) error { _, err := nccl.All(lib, all, o); return err }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no streams":    {all(nil, nccl.Options{}), "one stream at least"},
		"nil":           {all(streams(b.streams[0], nil), nccl.Options{}), "stream 1 is nil"},
		"zero":          {all(streams(new(runtime.Stream)), nccl.Options{}), "stream 0 is nil"},
		"a device":      {all(streams(b.streams[0], second), nccl.Options{}), "two ranks on device 0: NCCL takes one"},
		"a runtime":     {all(streams(b.streams[1], more.streams[0]), nccl.Options{}), "stream 1 is of another Runtime"},
		"timeout":       {all(b.streams, nccl.Options{CloseTimeout: -1}), "a CloseTimeout of -1ns"},
		"rank":          {join(2, []int{2}, b.streams[:1]), "rank 2: want 0 to 1"},
		"negative rank": {join(2, []int{-1}, b.streams[:1]), "rank -1: want 0 to 1"},
		"rank twice":    {join(2, []int{1, 1}, b.streams), "rank 1 twice"},
		"ranks":         {join(2, []int{1}, b.streams), "1 ranks and 2 streams"},
		"size":          {join(1, []int{0, 1}, b.streams), "2 ranks of a communicator of 1"},
	} {
		require.ErrorIs(t, c.err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, c.err, c.want, name)
	}
	_, err = nccl.Join(bg, lib, nccl.ID{}, 1, []int{0}, b.streams[:1], nccl.Options{})
	assert.ErrorContains(t, err, "an ID of zeros")
	_, err = nccl.Join(nothing, lib, id, 1, []int{0}, b.streams[:1], nccl.Options{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = nccl.Join(bg, nil, id, 1, []int{0}, b.streams[:1], nccl.Options{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = nccl.All(nil, b.streams, nccl.Options{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = nccl.UniqueID(nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	over, cancel := context.WithCancel(bg)
	cancel()
	_, err = nccl.Join(over, lib, id, 1, []int{0}, b.streams[:1], nccl.Options{})
	assert.ErrorIs(t, err, context.Canceled)

	var none *nccl.Comm
	assert.Zero(t, none.Size())
	assert.Empty(t, none.Ranks())
	assert.ErrorIs(t, none.Err(), driver.ErrInvalidArgument)
	assert.ErrorIs(t, none.Wait(bg), driver.ErrInvalidArgument)
	assert.NoError(t, none.Close())
	none.Abort()
	<-none.Done()

	lib.SetVersion([3]int{2, 10, 3})
	_, err = nccl.All(lib, b.streams, nccl.Options{})
	require.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.ErrorContains(t, err, "ncclCommInitRankConfig needs NCCL 2.14, found 2.10.3")
}
