package exec

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/ptx"
)

// gmem is the global memory of the tests: allocations far apart.
type gmem struct {
	blocks [][]byte
}

const (
	heapBase = 0x7_0000_0000
	heapStep = 1 << 32
)

func (h *gmem) alloc(n int) uint64 {
	h.blocks = append(h.blocks, alignedBytes(n))
	return heapBase + uint64(len(h.blocks)-1)*heapStep
}

func (h *gmem) put(data []byte) uint64 {
	a := h.alloc(len(data))
	copy(h.bytes(a), data)
	return a
}

func (h *gmem) put32(v ...uint32) uint64 {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return h.put(b)
}

func (h *gmem) put64(v ...uint64) uint64 {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return h.put(b)
}

func (h *gmem) bytes(a uint64) []byte { return h.blocks[(a-heapBase)/heapStep] }

func (h *gmem) get32(a uint64) []uint32 {
	b := h.bytes(a)
	v := make([]uint32, len(b)/4)
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return v
}

func (h *gmem) get64(a uint64) []uint64 {
	b := h.bytes(a)
	v := make([]uint64, len(b)/8)
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return v
}

func (h *gmem) Find(addr uint64) (uint64, []byte, bool) {
	if addr < heapBase {
		return 0, nil, false
	}
	i := (addr - heapBase) / heapStep
	if i >= uint64(len(h.blocks)) || h.blocks[i] == nil {
		return 0, nil, false
	}
	return heapBase + i*heapStep, h.blocks[i], true
}

// args lays out kernel parameters: uint32, uint64, float32 bits as uint32, []byte.
func args(k *Kernel, values ...any) []byte {
	buf := make([]byte, k.ParamBytes())
	for i, v := range values {
		at := buf[k.Params()[i].Offset:]
		switch v := v.(type) {
		case uint32:
			binary.LittleEndian.PutUint32(at, v)
		case int:
			binary.LittleEndian.PutUint32(at, uint32(v))
		case uint64:
			binary.LittleEndian.PutUint64(at, v)
		case []byte:
			copy(at, v)
		}
	}
	return buf
}

// load compiles a source and links its globals into h.
func load(t testing.TB, h *gmem, src string) *Linked {
	t.Helper()
	m, err := ptx.Parse([]byte(src))
	require.NoError(t, err)
	p, err := compileAll(m)
	require.NoError(t, err)
	return link(t, h, p)
}

func link(t testing.TB, h *gmem, p *Program) *Linked {
	t.Helper()
	var addrs []uint64
	for _, g := range p.Globals() {
		addrs = append(addrs, h.alloc(int(max(g.Size, 8))))
	}
	for i := range addrs {
		data, err := p.Initial(i, addrs)
		require.NoError(t, err)
		copy(h.bytes(addrs[i]), data)
	}
	l, err := p.Link(addrs)
	require.NoError(t, err)
	return l
}

func loadFile(t testing.TB, h *gmem, name string) *Linked {
	t.Helper()
	return load(t, h, readPTX(t, name))
}

func dim(x uint32) [3]uint32 { return [3]uint32{x, 1, 1} }

// launch runs a kernel over one dimension.
func launch(t testing.TB, l *Linked, h *gmem, name string, grid, block uint32, values ...any) error {
	t.Helper()
	k := l.Entry(name)
	require.NotNil(t, k, "kernel %s", name)
	return k.Launch(context.Background(), Launch{
		Grid: dim(grid), Block: dim(block), Params: args(k, values...), Memory: h, MaxSteps: 1 << 26,
	})
}

func alignedAt(b []byte, i int) unsafe.Pointer { return unsafe.Pointer(&b[i]) }

func mustParse(t testing.TB, src string) *ptx.Module {
	t.Helper()
	m, err := ptx.Parse([]byte(src))
	require.NoError(t, err)
	return m
}

// readPTX reads a file of testdata, or of what clang 19 has made of the .cu files in testdata/hardware.
func readPTX(t testing.TB, name string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		src, err = os.ReadFile(filepath.Join("testdata", "clang", name))
	}
	require.NoError(t, err)
	return string(src)
}

// compileAll compiles a module of which every kernel must run here.
func compileAll(m *ptx.Module) (*Program, error) {
	p, unknown, err := Compile(m)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}
