package exec

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/ptx"
)

// TestHardware runs what nvcc, NVRTC (CUDA 13.0) and Triton made of our own kernels, and
// compares with what a GPU host (H100, driver 580) computed from the same PTX and the
// same inputs: bit for bit, but for functions with a stated error. hardware.tar.gz was
// made there by scripts/hardware-ptx from testdata/hardware.
func TestHardware(t *testing.T) {
	files := readHardware(t)
	var runs []hardwareRun
	require.NoError(t, json.Unmarshal(files["manifest.json"], &runs))
	byModule := map[string][]hardwareRun{}
	for _, r := range runs {
		byModule[r.Module] = append(byModule[r.Module], r)
	}
	in := hardwareInputs()
	for name, src := range files {
		if !strings.HasSuffix(name, ".ptx") {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".ptx"), func(t *testing.T) {
			t.Parallel()
			m, err := ptx.Parse(src)
			require.NoError(t, err)
			p, err := compileAll(m)
			if what, ok := hardwareUnsupported[name]; ok {
				var u *UnsupportedError
				require.True(t, errors.As(err, &u), "%v", err)
				require.ErrorContains(t, err, what)
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, byModule[name])
			for _, r := range byModule[name] {
				t.Run(r.Kernel, func(t *testing.T) {
					want := files["outputs.bin"][4*r.At : 4*(r.At+r.Words)]
					r.compare(t, p, in, want)
				})
			}
		})
	}
}

// hardwareUnsupported are instructions that do not run here: Compile names them.
var hardwareUnsupported = map[string]string{}

// hardwareRun is an entry of manifest.json.
type hardwareRun struct {
	Module, Kernel string
	Grid, Block    uint32
	Shared         uint32
	Args           []string
	Init           string
	At, Words      int
}

func (r hardwareRun) compare(t *testing.T, p *Program, in map[string][]byte, want []byte) {
	h := &gmem{}
	l := link(t, h, p)
	addrs := map[string]uint64{}
	for _, name := range []string{"in", "fin", "hin", "chunks"} {
		addrs[name] = h.put(in[name])
	}
	addrs["out"] = h.alloc(4 * 8192)
	copy(h.bytes(addrs["out"]), in[r.Init])
	values := make([]any, len(r.Args))
	for i, a := range r.Args {
		kind, v, _ := strings.Cut(a, ":")
		buffer, offset, _ := strings.Cut(a, "+")
		var err error
		var n uint64
		switch kind {
		case "u32":
			n, err = strconv.ParseUint(v, 0, 32)
			values[i] = uint32(n)
		case "u64":
			values[i], err = strconv.ParseUint(v, 0, 64)
		case "hex":
			values[i], err = hex.DecodeString(v)
		default:
			if offset != "" {
				n, err = strconv.ParseUint(offset, 0, 64)
			}
			require.Contains(t, addrs, buffer)
			values[i] = addrs[buffer] + n
		}
		require.NoError(t, err)
	}
	k := l.Entry(r.Kernel)
	require.NotNil(t, k)
	err := k.Launch(context.Background(), Launch{
		Grid: dim(r.Grid), Block: dim(r.Block), SharedBytes: r.Shared,
		Params: args(k, values...), Memory: h, MaxSteps: 1 << 26,
	})
	require.NoError(t, err)
	got := h.bytes(addrs["out"])[:4*r.Words]
	bad := map[int]int{}
	first := ""
	for i := 0; i < r.Words; i++ {
		a, b := binary.LittleEndian.Uint32(got[4*i:]), binary.LittleEndian.Uint32(want[4*i:])
		ok := a == b
		switch {
		case ok:
		case r.Kernel == "x_f64" && i%2 == 1 && i%16 < 14: // which NaN, PTX leaves open
			ok = math.IsNaN(math.Float64frombits(uint64(a)<<32|1)) && math.IsNaN(math.Float64frombits(uint64(b)<<32|1))
		case r.Kernel == "a_fast" && i%16 == 1: // sin.approx has an absolute error
			ok = math.Abs(float64(math.Float32frombits(a))-float64(math.Float32frombits(b))) <= 0x1p-20
		case strings.HasPrefix(r.Kernel, "a_") && i%16 < 8 || r.Kernel == "softmax":
			ok = near(float64(math.Float32frombits(a)), float64(math.Float32frombits(b)), hardwareError32)
		case strings.HasPrefix(r.Kernel, "a_") && i%2 == 0: // the low half of a double
			ok = near(math.Float64frombits(binary.LittleEndian.Uint64(got[4*i:])),
				math.Float64frombits(binary.LittleEndian.Uint64(want[4*i:])), hardwareError64)
		case strings.HasPrefix(r.Kernel, "a_"): // the high half
			ok = near(math.Float64frombits(binary.LittleEndian.Uint64(got[4*i-4:])),
				math.Float64frombits(binary.LittleEndian.Uint64(want[4*i-4:])), hardwareError64)
		}
		if !ok {
			bad[i%16]++
			if len(first) < 600 {
				first += fmt.Sprintf("\nthread %d word %d: %#x (%g), hardware %#x (%g)", i/16, i%16,
					a, math.Float32frombits(a), b, math.Float32frombits(b))
			}
		}
	}
	require.Empty(t, bad, "%s: differences by word, and the first: %s", r.Kernel, first)
}

// The relative errors that two implementations within PTX's stated errors may differ by:
// ex2.approx and lg2.approx have 2 ulp and 2^-22, and powf multiplies what they leave.
const (
	hardwareError32 = 1e-5
	hardwareError64 = 1e-15
)

func near(a, b, rel float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return math.IsNaN(a) && math.IsNaN(b) || a == b
	}
	return math.Abs(a-b) <= rel*math.Max(math.Abs(a), math.Abs(b))
}

func readHardware(t *testing.T) map[string][]byte {
	f, err := os.Open("testdata/hardware/hardware.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		if head.Typeflag == tar.TypeReg {
			files[head.Name[strings.LastIndexByte(head.Name, '/')+1:]] = data
		}
	}
}

// hardwareInputs makes the inputs as testdata/hardware/run.py does.
func hardwareInputs() map[string][]byte {
	special := [32]uint32{
		0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
		0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4F000000, 0xCF000000,
		0x3C003C00, 0x7C00FC00, 0x7E010001, 0x7F807FC0, 0x03FF8400, 0x7FEFFFFF, 0x7FF00000, 0x3FF00000,
		0x4B000001, 0x3F000000, 0x40200000, 0xC0600000, 7, 0x7FFFFFFF, 0x41E00000, 0x43E00000,
	}
	in := map[string][]byte{}
	s := uint64(1)
	for i := range 4096 {
		s = s*6364136223846793005 + 1442695040888963407
		v := uint32(s >> 32)
		if i%5 == 3 {
			v = special[s>>40&31]
		}
		in["in"] = binary.LittleEndian.AppendUint32(in["in"], v)
		in["fin"] = binary.LittleEndian.AppendUint32(in["fin"], math.Float32bits(float32(int32(v)>>8)/65536))
		in["hin"] = binary.LittleEndian.AppendUint16(in["hin"], f32ToF16Exact(float32(int8(v>>24))/16))
	}
	for i := range 64 {
		in["chunks"] = binary.LittleEndian.AppendUint64(in["chunks"], uint64(16*i))
		in["chunks"] = binary.LittleEndian.AppendUint32(in["chunks"], uint32(i*37%200))
		in["chunks"] = binary.LittleEndian.AppendUint32(in["chunks"], 0)
	}
	return in
}

// f32ToF16Exact converts a value that a normal f16, or zero, holds.
func f32ToF16Exact(f float32) uint16 {
	b := math.Float32bits(f)
	if f == 0 {
		return uint16(b >> 16)
	}
	return uint16(b>>16&0x8000) | uint16((b>>23&0xff)-112)<<10 | uint16(b>>13&0x3ff)
}
