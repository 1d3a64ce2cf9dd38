package cublas

import "structs"

// heuristic is cublasLtMatmulHeuristicResult_t, which begins with the algorithm.
type heuristic struct {
	_         structs.HostLayout
	algorithm [8]uint64
	workspace uint64
	status    int32
	waves     float32
	_         [4]int32
}

// plan is a MatmulPlan of the real cuBLASLt.
type plan struct {
	l         *Library
	desc      uintptr
	layouts   [3]uintptr // of A, B and D
	scale     DataType
	float8    bool
	workspace uint64
	found     heuristic
}

// PlanMatmul implements [API].
func (l *Library) PlanMatmul(h RawHandle, s *MatmulShape) (MatmulPlan, Status) {
	p := &plan{l: l, scale: s.Compute.scale(), float8: s.A.Type >= TypeE4M3, workspace: s.Workspace}
	if status := p.find(h, s); status != StatusSuccess {
		p.Destroy()
		return nil, status
	}
	return p, StatusSuccess
}

// find makes the descriptions and asks for the algorithm.
func (p *plan) find(h RawHandle, s *MatmulShape) (status Status) {
	l := p.l
	if p.desc, status = l.descCreate(s.Compute, p.scale); status != StatusSuccess {
		return status
	}
	preference, status := l.preferenceCreate()
	if status != StatusSuccess {
		return status
	}
	defer l.preferenceDestroy(preference)
	for _, a := range []struct {
		attribute descAttribute
		value     uint64
	}{{descTransA, uint64(s.TransA)}, {descTransB, uint64(s.TransB)}, {descEpilogue, uint64(s.Epilogue)}} {
		if status = l.descSet(p.desc, a.attribute, a.value, 4); status != StatusSuccess {
			return status
		}
	}
	for _, a := range []struct {
		attribute    preferAttribute
		value, bytes uint64
	}{{preferWorkspace, s.Workspace, 8}, {preferAlignA, uint64(s.AlignA), 4}, {preferAlignB, uint64(s.AlignB), 4},
		{preferAlignC, uint64(s.AlignD), 4}, {preferAlignD, uint64(s.AlignD), 4}} {
		if status = l.preferenceSet(preference, a.attribute, a.value, a.bytes); status != StatusSuccess {
			return status
		}
	}
	rowsA, colsA := turned(s.TransA, s.M, s.K)
	rowsB, colsB := turned(s.TransB, s.K, s.N)
	for i, m := range []struct {
		Operand
		rows, cols int32
	}{{s.A, rowsA, colsA}, {s.B, rowsB, colsB}, {s.D, s.M, s.N}} {
		p.layouts[i], status = l.layoutCreate(m.Type, uint64(m.rows), uint64(m.cols), int64(m.LD))
		if status != StatusSuccess {
			return status
		}
	}
	count, status := l.heuristics(h, p.desc, p.layouts[0], p.layouts[1], p.layouts[2], p.layouts[2], preference, 1, &p.found)
	switch {
	case status != StatusSuccess:
		return status
	case count == 0:
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

// Run implements [MatmulPlan].
func (p *plan) Run(h RawHandle, c *MatmulCall) Status {
	for _, a := range []struct {
		used      bool
		attribute descAttribute
		at        uint64
	}{{c.Bias != 0, descBias, uint64(c.Bias)}, {p.float8, descScaleA, uint64(c.ScaleA)}, {p.float8, descScaleB, uint64(c.ScaleB)}} {
		if !a.used {
			continue
		}
		if s := p.l.descSet(p.desc, a.attribute, a.at, 8); s != StatusSuccess {
			return s
		}
	}
	return p.l.matmul(h, p.desc, scalarOf(p.scale, c.Alpha), c.A, p.layouts[0], c.B, p.layouts[1],
		scalarOf(p.scale, c.Beta), c.D, p.layouts[2], c.D, p.layouts[2], &p.found, c.Workspace, p.workspace, c.Stream)
}

// Destroy implements [MatmulPlan].
func (p *plan) Destroy() (status Status) {
	for _, layout := range p.layouts {
		if layout != 0 {
			status = max(status, p.l.layoutDestroy(layout))
		}
	}
	if p.desc != 0 {
		status = max(status, p.l.descDestroy(p.desc))
	}
	p.layouts, p.desc = [3]uintptr{}, 0
	return status
}
