package cublas

import (
	"structs"
	"unsafe"
)

// heuristic is cublasLtMatmulHeuristicResult_t, which begins with the algorithm.
type heuristic struct {
	_         structs.HostLayout
	algorithm [8]uint64
	workspace uint64
	status    int32
	waves     float32
	_         [4]int32
}

// The attributes, by their numbers in cublasLt.h.
const (
	descTransA      = 3
	descTransB      = 4
	descEpilogue    = 7
	descBias        = 8
	descScaleA      = 17
	descScaleB      = 18
	preferWorkspace = 1
	preferAlignA    = 5
	preferAlignB    = 6
	preferAlignC    = 7
	preferAlignD    = 8
)

// plan is a MatmulPlan of the real cuBLASLt.
type plan struct {
	l         *Library
	desc      uintptr
	layouts   [3]uintptr // of A, B and D
	scale     DataType
	float8    bool
	workspace uint64
	found     *heuristic // on the heap: C reads it
	value     *uint64    // of an attribute, on the heap
}

// PlanMatmul implements [API].
func (l *Library) PlanMatmul(h RawHandle, s *MatmulShape) (MatmulPlan, Status) {
	p := &plan{l: l, scale: s.Compute.scale(), float8: s.A.Type >= TypeE4M3, workspace: s.Workspace, found: new(heuristic), value: new(uint64)}
	if status := p.find(h, s); status != StatusSuccess {
		p.Destroy()
		return nil, status
	}
	return p, StatusSuccess
}

// find makes the descriptions and asks for the algorithm.
func (p *plan) find(h RawHandle, s *MatmulShape) (status Status) {
	if p.desc, status = p.l.create(fnDescCreate, uintptr(s.Compute), uintptr(p.scale)); status != StatusSuccess {
		return status
	}
	preference, status := p.l.create(fnPreferenceCreate)
	if status != StatusSuccess {
		return status
	}
	defer p.l.do(fnPreferenceDestroy, preference)
	for _, a := range []struct {
		of        function
		what      uintptr
		attribute int
		value     uint64
		bytes     uintptr
	}{
		{fnDescSet, p.desc, descTransA, uint64(s.TransA), 4},
		{fnDescSet, p.desc, descTransB, uint64(s.TransB), 4},
		{fnDescSet, p.desc, descEpilogue, uint64(s.Epilogue), 4},
		{fnPreferenceSet, preference, preferWorkspace, s.Workspace, 8},
		{fnPreferenceSet, preference, preferAlignA, uint64(s.AlignA), 4},
		{fnPreferenceSet, preference, preferAlignB, uint64(s.AlignB), 4},
		{fnPreferenceSet, preference, preferAlignC, uint64(s.AlignD), 4},
		{fnPreferenceSet, preference, preferAlignD, uint64(s.AlignD), 4},
	} {
		if status = p.set(a.of, a.what, a.attribute, a.value, a.bytes); status != StatusSuccess {
			return status
		}
	}
	rowsA, colsA := turned(s.TransA, s.M, s.K)
	rowsB, colsB := turned(s.TransB, s.K, s.N)
	for i, m := range []struct {
		Operand
		rows, cols int32
	}{{s.A, rowsA, colsA}, {s.B, rowsB, colsB}, {s.D, s.M, s.N}} {
		p.layouts[i], status = p.l.create(fnLayoutCreate, m.typ(), uintptr(m.rows), uintptr(m.cols), m.ld())
		if status != StatusSuccess {
			return status
		}
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.out = 0
	status = p.l.call(fnHeuristic, b, uintptr(h), p.desc, p.layouts[0], p.layouts[1], p.layouts[2], p.layouts[2], preference,
		1, uintptr(unsafe.Pointer(p.found)), uintptr(unsafe.Pointer(&b.out)))
	switch {
	case status != StatusSuccess:
		return status
	case int32(b.out) == 0:
		return StatusNotSupported
	case p.found.status != 0:
		return Status(p.found.status)
	case p.found.workspace > s.Workspace:
		return StatusImpossibleValue
	}
	return StatusSuccess
}

// turned are the rows and columns of the memory of what has those after the operation.
func turned(op Operation, rows, cols int32) (int32, int32) {
	if op == Transpose {
		return cols, rows
	}
	return rows, cols
}

func (p *plan) set(f function, what uintptr, attribute int, value uint64, bytes uintptr) Status {
	*p.value = value
	return p.l.do(f, what, uintptr(attribute), uintptr(unsafe.Pointer(p.value)), bytes)
}

// Run implements [MatmulPlan].
func (p *plan) Run(h RawHandle, c *MatmulCall) Status {
	for _, a := range []struct {
		used      bool
		attribute int
		at        uint64
	}{{c.Bias != 0, descBias, uint64(c.Bias)}, {p.float8, descScaleA, uint64(c.ScaleA)}, {p.float8, descScaleB, uint64(c.ScaleB)}} {
		if !a.used {
			continue
		}
		if s := p.set(fnDescSet, p.desc, a.attribute, a.at, 8); s != StatusSuccess {
			return s
		}
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	alpha, beta := b.scalars(p.scale, c.Alpha, c.Beta)
	return p.l.call(fnMatmul, b, uintptr(h), p.desc, alpha, uintptr(c.A), p.layouts[0], uintptr(c.B), p.layouts[1],
		beta, uintptr(c.D), p.layouts[2], uintptr(c.D), p.layouts[2],
		uintptr(unsafe.Pointer(p.found)), uintptr(c.Workspace), uintptr(p.workspace), uintptr(c.Stream))
}

// Destroy implements [MatmulPlan].
func (p *plan) Destroy() (status Status) {
	for _, layout := range p.layouts {
		if layout != 0 {
			status = max(status, p.l.do(fnLayoutDestroy, layout))
		}
	}
	if p.desc != 0 {
		status = max(status, p.l.do(fnDescDestroy, p.desc))
	}
	p.layouts, p.desc = [3]uintptr{}, 0
	return status
}
