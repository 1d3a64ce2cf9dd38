// Package cublastest is a simulated cuBLAS for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, with gonum as its mathematics. So order, captures, faults and the checks of memory are the driver's.
// An operand that is too small, or was freed, is a finding that names the call and the allocation. So is a result
// that overlaps an operand.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
//	h, err := cublas.New(cublastest.New(gpu), stream, cublas.Options{}) // stream is of a runtime.WithDriver(gpu)
package cublastest

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuBLAS. It implements [cublas.API] and is safe for concurrent use.
type Library struct {
	table        *simulated.Table[cublas.RawHandle, struct{}, cublas.Status]
	plans, asked atomic.Int64
}

// New makes a cuBLAS on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	image := simulated.Image(Kernels(), func(name string) uintptr { return kernels[name].bytes })
	return &Library{table: simulated.NewTable[cublas.RawHandle, struct{}](gpu, [3]int{13, 0, 0}, image,
		func(n int) cublas.RawHandle { return cublas.RawHandle(n) },
		simulated.Failures[cublas.Status]{NoContext: cublas.StatusNotInitialized, NoHandle: cublas.StatusNotInitialized,
			NoLaunch: cublas.StatusExecutionFailed, Internal: cublas.StatusInternalError})}
}

// Left is how many handles and plans were not destroyed.
func (l *Library) Left() (handles, plans int) { return l.table.Left(), int(l.plans.Load()) }

// Plans is how often PlanMatmul was called.
func (l *Library) Plans() int { return int(l.asked.Load()) }

// Create implements [cublas.API].
func (l *Library) Create() (cublas.RawHandle, cublas.Status) {
	return l.table.Create("Create", struct{}{}, nil)
}

// Destroy implements [cublas.API].
func (l *Library) Destroy(h cublas.RawHandle) cublas.Status { return l.table.Destroy(h, nil) }

// SetStream implements [cublas.API].
func (l *Library) SetStream(h cublas.RawHandle, s driver.Stream, workspace driver.DevicePtr, bytes uint64) cublas.Status {
	if workspace == 0 && bytes > 0 || workspace%256 != 0 {
		return cublas.StatusInvalidValue
	}
	return l.table.Set(h, "SetStream", func(h *simulated.Handle[struct{}]) { h.Stream = s })
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
	return l.table.Launch(h, "Gemm", unsafe.Pointer(c))
}

// Gemv implements [cublas.API].
func (l *Library) Gemv(h cublas.RawHandle, c *cublas.GemvCall) cublas.Status {
	if s := valid(isOf(c.A, cublas.NoTranspose, c.M, c.N), c.X.Inc != 0, c.Y.Inc != 0); s != cublas.StatusSuccess {
		return s
	}
	return l.table.Launch(h, "Gemv", unsafe.Pointer(c))
}

// Axpy implements [cublas.API].
func (l *Library) Axpy(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return l.table.Launch(h, "Axpy", unsafe.Pointer(c))
}

// Dot implements [cublas.API].
func (l *Library) Dot(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return l.table.Launch(h, "Dot", unsafe.Pointer(c))
}

// Nrm2 implements [cublas.API].
func (l *Library) Nrm2(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return l.table.Launch(h, "Nrm2", unsafe.Pointer(c))
}

// Scal implements [cublas.API].
func (l *Library) Scal(h cublas.RawHandle, c *cublas.VectorCall) cublas.Status {
	return l.table.Launch(h, "Scal", unsafe.Pointer(c))
}

// Syrk implements [cublas.API].
func (l *Library) Syrk(h cublas.RawHandle, c *cublas.SyrkCall) cublas.Status {
	if s := valid(isOf(c.A, c.Trans, c.N, c.K), isOf(c.C, cublas.NoTranspose, c.N, c.N)); s != cublas.StatusSuccess {
		return s
	}
	return l.table.Launch(h, "Syrk", unsafe.Pointer(c))
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
	return l.table.Launch(h, "Trsm", unsafe.Pointer(c))
}

// PlanMatmul implements [cublas.API]. Of 8 bits it takes what a device of compute capability 9.0 takes.
func (l *Library) PlanMatmul(h cublas.RawHandle, s *cublas.MatmulShape) (cublas.MatmulPlan, cublas.Status) {
	if _, status := l.table.Of(h); status != cublas.StatusSuccess {
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
	l.asked.Add(1)
	if status := l.table.Fault("PlanMatmul"); status != cublas.StatusSuccess {
		return nil, status
	}
	l.plans.Add(1)
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
	return p.l.table.Launch(h, "Matmul", unsafe.Pointer(&matmulCall{p.shape, *c}))
}

func (p *plan) Destroy() cublas.Status {
	p.l.plans.Add(-1)
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
