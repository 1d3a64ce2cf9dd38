package runtime_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// tilesPTX has a kernel that copies a tile of 16 x 64 elements and writes what it has of the first row to out.
const tilesPTX = `.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 room[];
.visible .entry tile(.param .align 64 .b8 tensor[128], .param .u64 out, .param .u32 matrix)
{
	.reg .pred %p;
	.reg .b32 %r<3>;
	.reg .b64 %rd<6>;
	mov.b64 %rd1, tensor;
	cvta.param.u64 %rd2, %rd1;
	mbarrier.init.shared::cta.b64 [room+2048], 1;
	fence.mbarrier_init.release.cluster;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [room+2048], 2048;
	mov.u32 %r1, 0;
	ld.param.u32 %r0, [matrix];
	cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [room], [%rd2, {%r1, %r1, %r0}], [room+2048];
AGAIN:
	mbarrier.try_wait.parity.shared::cta.b64 %p, [room+2048], 0;
	@!%p bra AGAIN;
	ld.shared.u32 %r2, [room];
	ld.param.u64 %rd3, [out];
	cvta.to.global.u64 %rd4, %rd3;
	st.global.u32 [%rd4], %r2;
	ret;
}
`

func openTiles(t *testing.T, sim *drivertest.Driver) *runtime.Backend {
	rt, err := runtime.Open(runtime.WithDriver(sim))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	return b
}

// TestTilesOfTwoDimensions has an instruction that takes fewer than the tiles have.
func TestTilesOfTwoDimensions(t *testing.T) {
	sim := drivertest.New(drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})
	b := openTiles(t, sim)
	ref, err := runtime.UploadNew(t.Context(), b.Stream, make([]uint16, 16*64))
	require.NoError(t, err)
	tiles, err := runtime.NewTiles(b.Context, ref, runtime.TilesShape{Rows: 16, Cols: 60, Pitch: 64, Box: 16})
	require.NoError(t, err)
	m, err := b.Context.LoadModule(runtime.Image{Code: []byte(strings.NewReplacer("tensor.3d", "tensor.2d", "%r1, %r1, %r0", "%r1, %r1").Replace(tilesPTX))})
	require.NoError(t, err)
	k, err := m.Kernel("tile")
	require.NoError(t, err)
	require.NoError(t, k.Launch(b.Stream, runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}, SharedBytes: 2056}, tiles.In(), runtime.InOut(ref), runtime.Value(int32(0))))
	assert.ErrorContains(t, b.Stream.Synchronize(t.Context()), "ILLEGAL_INSTRUCTION")
	assert.Contains(t, fmt.Sprint(sim.Findings()), "the tensor map has 3 dimensions, and the instruction takes 2")
}

func TestTiles(t *testing.T) {
	open := func(d drivertest.DeviceConfig) *runtime.Backend {
		return openTiles(t, drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, d)}))
	}
	b := open(drivertest.H100())
	ctx := t.Context()
	values := make([]uint16, 3*16*64)
	values[0], values[1], values[16], values[17] = 7, 9, 1, 2
	ref, err := runtime.UploadNew(ctx, b.Stream, values)
	require.NoError(t, err)
	good := runtime.TilesShape{Rows: 16, Cols: 60, Pitch: 64, Box: 16}
	with := func(f func(s *runtime.TilesShape)) runtime.TilesShape { s := good; f(&s); return s }
	for want, shape := range map[string]runtime.TilesShape{
		"0 x 60 elements":               with(func(s *runtime.TilesShape) { s.Rows = 0 }),
		"the pitch is 62 elements":      with(func(s *runtime.TilesShape) { s.Pitch = 62 }),
		"the pitch is 56 elements":      with(func(s *runtime.TilesShape) { s.Pitch = 56 }),
		"the memory has 3072 elements":  with(func(s *runtime.TilesShape) { s.Rows = 49 }),
		"a box of 257 x 64 elements":    with(func(s *runtime.TilesShape) { s.Box = 257 }),
		"a box of 16 x 60 elements":     with(func(s *runtime.TilesShape) { s.BoxCols = 60 }),
		"a box of 16 x -8 elements":     with(func(s *runtime.TilesShape) { s.BoxCols = -8 }),
		"-1 matrices with a":            with(func(s *runtime.TilesShape) { s.Matrices = -1 }),
		"2 matrices with a stride of 0": with(func(s *runtime.TilesShape) { s.Matrices = 2 }),
		"2 matrices with a stride of 4": with(func(s *runtime.TilesShape) { s.Matrices, s.Stride = 2, 4 }),
		"3072 elements, too few for 3 matrices of 1020 with a stride of 1032": with(func(s *runtime.TilesShape) { s.Matrices, s.Stride = 3, 1032 }),
		"2 matrices with a stride of 1099511627776":                           with(func(s *runtime.TilesShape) { s.Matrices, s.Stride = 2, 1<<40 }),
	} {
		_, err := runtime.NewTiles(b.Context, ref, shape)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
	_, err = runtime.NewTiles(b.Context, ref.Slice(1, 1000), runtime.TilesShape{Rows: 1, Cols: 8, Pitch: 8, Box: 1})
	assert.ErrorContains(t, err, "want a multiple of 16")
	_, err = runtime.NewTiles[uint16](nil, ref, good)
	assert.Error(t, err)
	_, err = runtime.NewTiles[uint16](b.Context, nil, good)
	assert.Error(t, err)

	tiles, err := runtime.NewTiles(b.Context, ref, good)
	require.NoError(t, err)
	m, err := b.Context.LoadModule(runtime.Image{Code: []byte(tilesPTX)})
	require.NoError(t, err)
	k, err := m.Kernel("tile")
	require.NoError(t, err)
	out, err := runtime.Alloc[uint32](b.Stream, 1)
	require.NoError(t, err)
	shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}, SharedBytes: 2056}
	got := make([]uint32, 1)
	beside, err := runtime.NewTiles(b.Context, ref, with(func(s *runtime.TilesShape) { s.Cols, s.Matrices, s.Stride = 16, 4, 16 }))
	require.NoError(t, err)
	for _, c := range []struct {
		of     *runtime.Tiles
		matrix int32
		want   uint32
	}{{tiles, 0, 9<<16 | 7}, {tiles, 1, 0}, {beside, 1, 2<<16 | 1}, {beside, 3, 0}, {beside, 4, 0}, {beside, -1, 0}} {
		require.NoError(t, k.Launch(b.Stream, shape, c.of.In(), runtime.InOut(out), runtime.Value(c.matrix)))
		require.NoError(t, runtime.Download(ctx, b.Stream, got, out))
		assert.Equal(t, c.want, got[0], c)
	}

	var none *runtime.Tiles
	assert.ErrorContains(t, k.Launch(b.Stream, shape, none.In(), runtime.InOut(out), runtime.Value(int32(0))), "the tiles of an argument are nil")
	require.NoError(t, ref.Close()) // the launch then says so, and nothing reads what was freed
	assert.Error(t, k.Launch(b.Stream, shape, tiles.In(), runtime.InOut(out), runtime.Value(int32(0))))
	require.NoError(t, out.Close())

	old := open(drivertest.A100())
	ref, err = runtime.UploadNew(ctx, old.Stream, values)
	require.NoError(t, err)
	_, err = runtime.NewTiles(old.Context, ref, good)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	require.NoError(t, ref.Close())
}
