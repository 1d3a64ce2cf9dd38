// Package cublastest is a simulated cuBLAS for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, with gonum as its mathematics. So order, captures, faults and the checks of memory are those of the driver.
// An operand that is too small, or was freed, is a finding that names the call and the allocation. So is a result
// that overlaps an operand.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
//	h, err := cublas.New(cublastest.New(gpu), stream, cublas.Options{}) // stream is of a runtime.WithDriver(gpu)
package cublastest

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuBLAS. It implements [cublas.API] and is safe for concurrent use.
type Library struct {
	gpu driver.API

	mu      sync.Mutex
	handles map[cublas.RawHandle]*handle
	last    cublas.RawHandle
	version [3]int
	faults  map[string]cublas.Status
	plans   int
	asked   int
}

var _ cublas.API = (*Library)(nil)

// handle is what a cublasHandle_t stands for.
type handle struct {
	context driver.Context
	module  driver.Module
	stream  driver.Stream
}

// New makes a cuBLAS on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	return &Library{gpu: gpu, handles: map[cublas.RawHandle]*handle{}, version: [3]int{13, 0, 0}, faults: map[string]cublas.Status{}}
}

// Fail makes a method, such as "Gemm", return a status from now on. StatusSuccess ends that.
func (l *Library) Fail(method string, s cublas.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[method] = s
}

// SetVersion makes it another version.
func (l *Library) SetVersion(v [3]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = v
}

// Left is how many handles and plans were not destroyed.
func (l *Library) Left() (handles, plans int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.handles), l.plans
}

// Plans is how often PlanMatmul was called.
func (l *Library) Plans() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// Version implements [cublas.API].
func (l *Library) Version() [3]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Create implements [cublas.API].
func (l *Library) Create() (cublas.RawHandle, cublas.Status) {
	context, r := l.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return 0, cublas.StatusNotInitialized
	}
	if s := l.fault("Create"); s != cublas.StatusSuccess {
		return 0, s
	}
	module, s := simulated.Load(l.gpu, image(), cublas.StatusNotInitialized)
	if s != cublas.StatusSuccess {
		return 0, s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.handles[l.last] = &handle{context: context, module: module}
	return l.last, cublas.StatusSuccess
}

// image is a module with the signatures of the kernels. Their parameter is the call.
func image() string {
	var text strings.Builder
	text.WriteString(".version 6.4\n.target sm_75\n.address_size 64\n")
	for name, k := range kernels {
		fmt.Fprintf(&text, ".visible .entry %s(.param .align 8 .b8 call[%d]) %s\n", name, k.bytes, simulated.Body)
	}
	return text.String()
}

func (l *Library) fault(method string) cublas.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[method]
}

// of is a handle whose context is current.
func (l *Library) of(h cublas.RawHandle) (*handle, cublas.Status) {
	current, r := l.gpu.CtxGetCurrent()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.handles[h]
	if known == nil || r != driver.Success || known.context != current {
		return nil, cublas.StatusNotInitialized
	}
	return known, cublas.StatusSuccess
}

// Destroy implements [cublas.API].
func (l *Library) Destroy(h cublas.RawHandle) cublas.Status {
	known, s := l.of(h)
	if s != cublas.StatusSuccess {
		return s
	}
	l.mu.Lock()
	delete(l.handles, h)
	l.mu.Unlock()
	if l.gpu.ModuleUnload(known.module) != driver.Success {
		return cublas.StatusInternalError
	}
	return l.fault("Destroy")
}

// SetStream implements [cublas.API].
func (l *Library) SetStream(h cublas.RawHandle, s driver.Stream, workspace driver.DevicePtr, bytes uint64) cublas.Status {
	known, status := l.of(h)
	if status != cublas.StatusSuccess {
		return status
	}
	if workspace == 0 && bytes > 0 || workspace%256 != 0 {
		return cublas.StatusInvalidValue
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.stream = s
	return l.faults["SetStream"]
}

// launch puts a kernel on the stream of a handle.
func launch[C any](l *Library, h cublas.RawHandle, kernel string, c *C) cublas.Status {
	if s := l.fault(kernel); s != cublas.StatusSuccess {
		return s
	}
	known, s := l.of(h)
	if s != cublas.StatusSuccess {
		return s
	}
	f, r := l.gpu.ModuleGetFunction(known.module, kernel)
	if r != driver.Success {
		return cublas.StatusInternalError
	}
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	if l.gpu.LaunchKernel(f, one, one, 0, known.stream, []unsafe.Pointer{unsafe.Pointer(c)}) != driver.Success {
		return cublas.StatusExecutionFailed
	}
	return cublas.StatusSuccess
}

// valid is StatusSuccess if all is as cuBLAS wants it.
func valid(all ...bool) cublas.Status {
	for _, ok := range all {
		if !ok {
			return cublas.StatusInvalidValue
		}
	}
	return cublas.StatusSuccess
}

// isOf tells whether an operand has the memory of a matrix of so many rows and columns, after the operation.
func isOf(o cublas.Operand, op cublas.Operation, rows, cols int32) bool {
	if op == cublas.Transpose {
		rows, cols = cols, rows
	}
	return rows >= 0 && cols >= 0 && o.LD >= max(rows, 1) && o.At != 0
}

// Gemm implements [cublas.API].
func (l *Library) Gemm(h cublas.RawHandle, c *cublas.GemmCall) cublas.Status {
	s := valid(isOf(c.A, c.TransA, c.M, c.K), isOf(c.B, c.TransB, c.K, c.N), isOf(c.C, cublas.NoTranspose, c.M, c.N), c.Batch >= 0)
	if s != cublas.StatusSuccess {
		return s
	}
	return launch(l, h, "Gemm", c)
}

// Gemv implements [cublas.API].
func (l *Library) Gemv(h cublas.RawHandle, c *cublas.GemvCall) cublas.Status {
	if s := valid(isOf(c.A, cublas.NoTranspose, c.M, c.N), c.X.Inc != 0, c.Y.Inc != 0); s != cublas.StatusSuccess {
		return s
	}
	return launch(l, h, "Gemv", c)
}

// Axpy implements [cublas.API].
func (l *Library) Axpy(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return launch(l, h, "Axpy", c)
}

// Dot implements [cublas.API].
func (l *Library) Dot(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return launch(l, h, "Dot", c)
}

// Nrm2 implements [cublas.API].
func (l *Library) Nrm2(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return launch(l, h, "Nrm2", c)
}

// Scal implements [cublas.API].
func (l *Library) Scal(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return launch(l, h, "Scal", c)
}

// Syrk implements [cublas.API].
func (l *Library) Syrk(h cublas.RawHandle, c *cublas.SyrkCall) cublas.Status {
	if s := valid(isOf(c.A, c.Trans, c.N, c.K), isOf(c.C, cublas.NoTranspose, c.N, c.N)); s != cublas.StatusSuccess {
		return s
	}
	return launch(l, h, "Syrk", c)
}

// Trsm implements [cublas.API].
func (l *Library) Trsm(h cublas.RawHandle, c *cublas.TrsmCall) cublas.Status {
	n := c.M
	if c.Side == cublas.Right {
		n = c.N
	}
	if s := valid(isOf(c.A, cublas.NoTranspose, n, n), isOf(c.B, cublas.NoTranspose, c.M, c.N)); s != cublas.StatusSuccess {
		return s
	}
	return launch(l, h, "Trsm", c)
}

// PlanMatmul implements [cublas.API]. Of 8 bits it takes what a device of compute capability 9.0 takes.
func (l *Library) PlanMatmul(h cublas.RawHandle, s *cublas.MatmulShape) (cublas.MatmulPlan, cublas.Status) {
	if _, status := l.of(h); status != cublas.StatusSuccess {
		return nil, status
	}
	a, b, d := s.A, s.B, s.D
	a.At, b.At, d.At = 1, 1, 1
	float8 := s.A.Type == cublas.TypeE4M3 || s.A.Type == cublas.TypeE5M2
	switch {
	case valid(isOf(a, s.TransA, s.M, s.K), isOf(b, s.TransB, s.K, s.N), isOf(d, cublas.NoTranspose, s.M, s.N)) != cublas.StatusSuccess:
		return nil, cublas.StatusInvalidValue
	case s.A.Type == cublas.TypeFloat64 && s.Epilogue != cublas.EpilogueNone,
		float8 && (s.TransA != cublas.Transpose || s.TransB != cublas.NoTranspose || (s.M|s.N|s.K|s.A.LD|s.B.LD)%16 != 0 ||
			min(s.AlignA, s.AlignB, s.AlignD) < 16 || s.A.Type == cublas.TypeE5M2 && s.B.Type == cublas.TypeE5M2):
		return nil, cublas.StatusNotSupported
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if status := l.faults["PlanMatmul"]; status != cublas.StatusSuccess {
		return nil, status
	}
	l.plans++
	return &plan{l: l, shape: *s}, cublas.StatusSuccess
}

// plan is a shape.
type plan struct {
	l     *Library
	shape cublas.MatmulShape
}

// matmulCall is a call with its shape.
type matmulCall struct {
	shape cublas.MatmulShape
	call  cublas.MatmulCall
}

func (p *plan) Run(h cublas.RawHandle, c *cublas.MatmulCall) cublas.Status {
	if aligned := func(at driver.DevicePtr, to uint32) bool { return uint64(at)%uint64(to) == 0 }; !aligned(c.A, p.shape.AlignA) ||
		!aligned(c.B, p.shape.AlignB) || !aligned(c.D, p.shape.AlignD) || (c.Bias != 0) != (p.shape.Epilogue&cublas.EpilogueBias != 0) {
		return cublas.StatusInvalidValue
	}
	return launch(p.l, h, "Matmul", &matmulCall{p.shape, *c})
}

func (p *plan) Destroy() cublas.Status {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.plans--
	return cublas.StatusSuccess
}

// Kernels are the kernels of the simulated cuBLAS, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{}
	for name, k := range kernels {
		all[name] = k.run
	}
	return all
}
