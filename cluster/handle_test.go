package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

type query struct {
	Name   string
	Values []float64
}

type total struct {
	Name  string
	Sum   float64
	Bytes int
}

// asJSON is a codec of a user.
type asJSON struct{}

func (asJSON) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (asJSON) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func sumUp(q query, buffers int) (total, error) {
	if q.Name == "" {
		return total{}, errors.New("no name")
	}
	t := total{Name: q.Name, Bytes: buffers}
	for _, v := range q.Values {
		t.Sum += v
	}
	return t, nil
}

// onHost is sumUp with the bytes of the buffers.
func onHost(q query, buffers []*isolate.Buffer) (total, error) {
	n := 0
	for _, b := range buffers {
		n += len(b.Bytes())
	}
	return sumUp(q, n)
}

func init() {
	f := func(_ *pool.Worker, q query, buffers []*isolate.Buffer) (total, error) { return onHost(q, buffers) }
	isolate.Handle("total/v1", f)
	isolate.Handle("total-json/v1", f, isolate.Codec(asJSON{}))
}

var (
	totals     = cluster.Handle[query, total]("total/v1")
	totalsJSON = cluster.Handle[query, total]("total-json/v1", asJSON{})
)

// TestHandle has requests and results of types, on children, on a pool and on the CPU of a host, with both codecs.
func TestHandle(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "data"), make([]byte, 100), 0o600))
	for on, serving := range map[string]func(t *testing.T, s *embedded.Server){
		"children": func(t *testing.T, s *embedded.Server) {
			serve(t, connect(t, s), group(t, 1), "host", cluster.WithRoot("set", folder))
		},
		"pool": func(t *testing.T, s *embedded.Server) {
			serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithRoot("set", folder))
		},
		"cpu": func(t *testing.T, s *embedded.Server) {
			f := func(_ context.Context, q query, buffers []*isolate.Buffer) (total, error) { return onHost(q, buffers) }
			serveFunctions(t, connect(t, s), openPool(t, 0), "host", []string{"total/v1", "total-json/v1"}, cluster.WithRoot("set", folder), totals.WithCPU(f), totalsJSON.WithCPU(f))
		},
	} {
		t.Run(on, func(t *testing.T) {
			s := start(t, embedded.Config{})
			serving(t, s)
			c := open(t, connect(t, s), cluster.WithPatience(patience), cluster.WithRetry(0))
			for name, h := range map[string]*cluster.Handler[query, total]{"gob": totals, "json": totalsJSON} {
				t.Run(name, func(t *testing.T) {
					got, report, err := h.Do(within(t), c, query{"one", []float64{1, 2, 4}})
					require.NoError(t, err)
					assert.Equal(t, total{Name: "one", Sum: 7}, got)
					assert.Equal(t, "host", report.Host)
					all, _, err := h.Map(within(t), c, []query{{"a", nil}, {"b", []float64{5}}})
					require.NoError(t, err)
					assert.Equal(t, []total{{Name: "a"}, {Name: "b", Sum: 5}}, all)
					_, _, err = h.Map(within(t), c, []query{{"a", nil}, {}})
					assert.ErrorContains(t, err, "no name")
					p, err := h.Piece(query{Name: "refs"}, cluster.Ref{URI: "file:set/data", Length: 100})
					require.NoError(t, err)
					data, _, err := cluster.Do(within(t), c, map[string]string{"gob": "total/v1", "json": "total-json/v1"}[name], p)
					require.NoError(t, err)
					got, err = h.Result(data)
					require.NoError(t, err)
					assert.Equal(t, 100, got.Bytes)
				})
			}
		})
	}
}

// TestHandleRefuses has what is of no Handler, of another version, of another type, or too large.
func TestHandleRefuses(t *testing.T) {
	c := onHosts(t, 1)
	do := func(h *cluster.Handler[query, total], q query, options ...cluster.Option) error {
		_, _, err := h.Do(within(t), c, q, append([]cluster.Option{cluster.WithRetry(0)}, options...)...)
		return err
	}
	other := cluster.Handle[string, total]("total/v1")
	_, _, err := other.Do(within(t), c, "text", cluster.WithRetry(0))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "are no value of")
	_, _, err = cluster.Do(within(t), c, "total/v1", cluster.Piece{Data: []byte("x\x01")}, cluster.WithRetry(0))
	assert.ErrorContains(t, err, "not those of a Handler of version 2")
	raw := cluster.Handle[query, total]("fail/v1")
	assert.ErrorContains(t, do(raw, query{}), "not today")
	unknown := cluster.Handle[string, total]("square/v1") // gives 8 bytes without a version
	_, _, err = unknown.Map(within(t), c, []string{"12345678"}, cluster.WithRetry(0))
	assert.ErrorContains(t, err, "the result was refused")
	assert.ErrorContains(t, err, "not those of a Handler of version 2")
	assert.ErrorContains(t, do(totals, query{"large", make([]float64, 0, 1)}, cluster.WithPieceDeadline(0)), "WithPieceDeadline")
	large := cluster.Handle[[]byte, total]("total/v1")
	_, _, err = large.Do(within(t), c, make([]byte, 16<<20))
	assert.ErrorContains(t, err, "want at most 16777216")
	for name, none := range map[string]*cluster.Handler[query, total]{"nil": nil, "zero": {}, "two codecs": cluster.Handle[query, total]("total/v1", asJSON{}, asJSON{}), "nil codec": cluster.Handle[query, total]("total/v1", nil)} {
		assert.ErrorIs(t, do(none, query{}), driver.ErrInvalidArgument, name)
		_, _, err := none.Map(within(t), c, []query{{}}, cluster.WithRetry(0))
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		_, err = none.Result(nil)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		assert.NotNil(t, none.WithFallback(nil))
		assert.Nil(t, none.WithCPU(nil))
	}
}

// TestHandleFallback has no host.
func TestHandleFallback(t *testing.T) {
	c := open(t, connect(t, start(t, embedded.Config{})), cluster.WithPatience(0))
	for _, h := range []*cluster.Handler[query, total]{totals, totalsJSON} {
		got, report, err := h.Do(within(t), c, query{"here", []float64{3}}, h.WithFallback(func(_ context.Context, q query, refs []cluster.Ref) (total, error) {
			return sumUp(q, len(refs))
		}))
		require.NoError(t, err)
		assert.Equal(t, total{Name: "here", Sum: 3}, got)
		assert.Equal(t, pool.OnCPU, report.Where)
	}
}
