//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

type query struct {
	Name   string
	Values []float64
}

type total struct {
	Name string
	Sum  float64
}

// point makes bytes of itself.
type point struct{ x, y uint32 }

func (p *point) MarshalBinary() ([]byte, error) {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, p.x), p.y), nil
}

func (p *point) UnmarshalBinary(data []byte) error {
	if len(data) != 8 {
		return errors.New("a point has 8 bytes")
	}
	p.x, p.y = binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	return nil
}

// asJSON is a codec of a user. It panics for what it does not like.
type asJSON struct{}

func (asJSON) Marshal(v any) ([]byte, error) {
	if q, ok := v.(*query); ok && q.Name == "panic" {
		panic("no such name")
	}
	return json.Marshal(v)
}

func (asJSON) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func sumUp(_ *pool.Worker, q query, _ []*isolate.Buffer) (total, error) {
	if q.Name == "" {
		return total{}, errors.New("no name")
	}
	t := total{Name: q.Name}
	for _, v := range q.Values {
		t.Sum += v
	}
	return t, nil
}

var (
	sums     = isolate.Handle("sum/v1", sumUp)
	sumsJSON = isolate.Handle("sum-json/v1", sumUp, isolate.Codec(asJSON{}))
	swaps    = isolate.Handle("swap/v1", func(_ *pool.Worker, p point, _ []*isolate.Buffer) (point, error) { return point{p.y, p.x}, nil })
	lengths  = isolate.Handle("length/v1", func(_ *pool.Worker, s string, _ []*isolate.Buffer) (int, error) { return len(s), nil })
	grow     = isolate.Handle("grow/v1", func(_ *pool.Worker, n int, _ []*isolate.Buffer) ([]byte, error) { return make([]byte, n), nil })
	sends    = isolate.Handle("send/v1", func(*pool.Worker, int, []*isolate.Buffer) (chan int, error) { return make(chan int), nil })
	fills    = isolate.Handle("fill/v1", func(_ *pool.Worker, with byte, buffers []*isolate.Buffer) (int, error) {
		for i := range buffers[0].Bytes() {
			buffers[0].Bytes()[i] = with
		}
		return len(buffers[0].Bytes()), nil
	})
)

func TestHandle(t *testing.T) {
	g := open(t, 1)
	ctx := within(t)
	for _, h := range []*isolate.Handler[query, total]{sums, sumsJSON} {
		got, report, err := h.Do(ctx, g, query{"three", []float64{1, 2}})
		require.NoError(t, err)
		assert.Equal(t, total{"three", 3}, got)
		assert.Equal(t, pool.OnGPU, report.Where)
		_, _, err = h.Do(ctx, g, query{})
		assert.EqualError(t, err, "no name")
	}
	p, _, err := swaps.Do(ctx, g, point{1, 2})
	require.NoError(t, err)
	assert.Equal(t, point{2, 1}, p)
	n, _, err := lengths.Do(ctx, g, "twelve bytes")
	require.NoError(t, err)
	assert.Equal(t, 12, n)

	b, err := g.NewBuffer(100)
	require.NoError(t, err)
	defer b.Close()
	n, _, err = fills.Do(ctx, g, 7, isolate.WithBuffers(b))
	require.NoError(t, err)
	assert.Equal(t, 100, n)
	assert.EqualValues(t, 7, b.Bytes()[99])
}

func TestWhatAHandlerRefuses(t *testing.T) {
	g := open(t, 1)
	ctx := within(t)
	_, _, err := g.Do(ctx, "sum/v1", []byte("these bytes are of no version"))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "Handler")
	_, _, err = g.Do(ctx, "swap/v1", []byte{1, 2, 2}) // of the version, and no point
	assert.ErrorContains(t, err, "a point has 8 bytes")
	_, _, err = g.Do(ctx, "sum/v1", nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = lengths.Do(ctx, g, string(make([]byte, 16<<20)))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument, "a byte too many")
	_, _, err = grow.Do(ctx, g, 16<<20)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = sends.Do(ctx, g, 1)
	assert.ErrorContains(t, err, "cannot be sent")
	_, _, err = sumsJSON.Do(ctx, g, query{Name: "panic"})
	assert.ErrorContains(t, err, "no such name")
	_, _, err = new(isolate.Handler[int, int]).Do(ctx, g, 1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = sums.Do(ctx, nil, query{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	got, _, err := sums.Do(ctx, g, query{"still", []float64{4}})
	require.NoError(t, err)
	assert.Equal(t, total{"still", 4}, got)
}

func TestFallbackOfAHandler(t *testing.T) {
	g := open(t, 1)
	ctx := within(t)
	onCPU := sums.WithFallback(func(_ context.Context, q query, _ []*isolate.Buffer) (total, error) {
		return total{q.Name + " on the CPU", 5}, nil
	})
	got, report, err := sums.Do(ctx, g, query{}, onCPU) // without a name it fails in the child
	require.NoError(t, err)
	assert.Equal(t, total{" on the CPU", 5}, got)
	assert.Equal(t, pool.OnCPU, report.Where)
	_, _, err = g.Do(ctx, "fail/v1", nil, onCPU)
	assert.ErrorContains(t, err, `the fallback of "sum/v1" cannot do "fail/v1"`)
}

// BenchmarkHandle is what types cost: making bytes of a request and of its result and the other way round, beside bytes.
func BenchmarkHandle(b *testing.B) {
	g := open(b, 1)
	ctx := context.Background()
	for name, do := range map[string]func() error{
		"bytes":         func() error { _, _, err := g.Do(ctx, "echo/v1", make([]byte, 8)); return err },
		"MarshalBinary": func() error { _, _, err := swaps.Do(ctx, g, point{1, 2}); return err },
		"gob":           func() error { _, _, err := sums.Do(ctx, g, query{"x", []float64{1}}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, do())
			}
		})
	}
}
