package cpu

import (
	"cmp"
	"context"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/internal/lapack"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/pool"
)

// CholeskyBatch is cusolver.CholeskyBatch.
func CholeskyBatch[T cublas.Real](ctx context.Context, fill cublas.Fill, a Batch[T]) error {
	if err := cmp.Or(triangle(fill), a.square("a", true)); err != nil {
		return err
	}
	return run(ctx, cusolver.Call{Routine: cusolver.PotrfBatched, Fill: memoryFill(fill, &a)}, nil, operand[T]{a, true, true})
}

// CholeskySolveBatch is cusolver.CholeskySolveBatch.
func CholeskySolveBatch[T cublas.Real](ctx context.Context, fill cublas.Fill, a, b Batch[T]) error {
	if err := cmp.Or(triangle(fill), a.square("a", false), pair(&a, &b)); err != nil {
		return err
	}
	return run(ctx, cusolver.Call{Routine: cusolver.PotrsBatched, Fill: memoryFill(fill, &a)}, nil, operand[T]{a, true, false}, operand[T]{b, false, true})
}

// LUBatch is cusolver.LUBatch.
func LUBatch[T cublas.Real](ctx context.Context, a Batch[T], pivots []int32) error {
	if err := cmp.Or(a.square("a", true), room("pivots", len(pivots), a.Rows, a.Count)); err != nil {
		return err
	}
	if err := overlap.Of(a.box("a"), vector("pivots", pivots, a.Rows*a.Count)); err != nil {
		return err
	}
	return run(ctx, cusolver.Call{Routine: cusolver.GetrfBatched}, numbers(pivots, a.Rows, true), operand[T]{a, true, true})
}

// LUSolveBatch is cusolver.LUSolveBatch.
func LUSolveBatch[T cublas.Real](ctx context.Context, a Batch[T], pivots []int32, b Batch[T]) error {
	if err := cmp.Or(a.square("a", false), room("pivots", len(pivots), a.Rows, a.Count), exchanges(pivots, a.Rows, a.Count), pair(&a, &b)); err != nil {
		return err
	}
	if err := overlap.Of(b.box("b"), vector("pivots", pivots, a.Rows*a.Count)); err != nil {
		return err
	}
	c := cusolver.Call{Routine: cusolver.GetrsBatched, Trans: cublas.Transpose}
	if a.transposed {
		c.Trans = cublas.NoTranspose
	}
	return run(ctx, c, numbers(pivots, a.Rows, false), operand[T]{a, true, false}, operand[T]{b, false, true})
}

// InverseBatch is cusolver.InverseBatch.
func InverseBatch[T cublas.Real](ctx context.Context, a Batch[T], pivots []int32, out Batch[T]) error {
	if err := cmp.Or(a.square("a", false), out.square("out", true), room("pivots", len(pivots), a.Rows, a.Count), exchanges(pivots, a.Rows, a.Count)); err != nil {
		return err
	}
	if a.Rows != out.Rows || a.Count != out.Count || a.transposed != out.transposed {
		return wrong("a is %d matrices of %d rows and out %d of %d: want as many, both by rows or both transposed", a.Count, a.Rows, out.Count, out.Rows)
	}
	if err := overlap.Of(out.box("out"), a.box("a"), vector("pivots", pivots, a.Rows*a.Count)); err != nil {
		return err
	}
	return run(ctx, cusolver.Call{Routine: cusolver.GetriBatched}, numbers(pivots, a.Rows, false), operand[T]{a, true, false}, operand[T]{out, true, true})
}

// LeastSquaresBatch is cusolver.LeastSquaresBatch. It leaves a as it is.
func LeastSquaresBatch[T cublas.Real](ctx context.Context, a, b Batch[T]) error {
	if err := cmp.Or(a.check("a", false), pair(&a, &b)); err != nil {
		return err
	}
	if a.Rows < a.Cols {
		return wrong("a is %d x %d: want at least as many rows as columns", a.Rows, a.Cols)
	}
	return run(ctx, cusolver.Call{Routine: cusolver.GelsBatched}, nil, operand[T]{a, false, false}, operand[T]{b, false, true})
}

// EigenBatch is cusolver.EigenBatch. The matrices may have gaps between them.
func EigenBatch[T cublas.Real](ctx context.Context, fill cublas.Fill, vectors bool, a Batch[T], values []T) error {
	if err := cmp.Or(triangle(fill), a.square("a", true), room("values", len(values), a.Rows, a.Count)); err != nil {
		return err
	}
	if err := overlap.Of(a.box("a"), vector("values", values, a.Rows*a.Count)); err != nil {
		return err
	}
	c := cusolver.Call{Routine: cusolver.SyevjBatched, Fill: memoryFill(fill, &a), Vectors: vectors}
	return run(ctx, c, numbers(values, a.Rows, true), operand[T]{a, true, true})
}

// memoryFill is the triangle of the memory, read by columns.
func memoryFill[T cublas.Real](fill cublas.Fill, a *Batch[T]) cublas.Fill {
	if a.transposed {
		return fill
	}
	return 1 - fill
}

func triangle(fill cublas.Fill) error {
	if fill != cublas.Lower && fill != cublas.Upper {
		return wrong("fill %d: want Lower or Upper", fill)
	}
	return nil
}

// room is why so many elements do not do for n of each matrix, or nil.
func room(name string, have, n, count int) error {
	if n > 0 && count > have/n {
		return wrong("%s has %d elements: want %d for each of %d matrices", name, have, n, count)
	}
	return nil
}

// exchanges is why pivots are none, or nil: gonum would read what is not there.
func exchanges(pivots []int32, n, count int) error {
	for i, p := range pivots[:max(min(n*count, len(pivots)), 0)] {
		if p < 1 || int(p) > n {
			return wrong("pivots[%d] is %d: want 1 to %d, as LUBatch leaves them", i, p, n)
		}
	}
	return nil
}

// pair is why b does not go with a, or nil.
func pair[T cublas.Real](a, b *Batch[T]) error {
	if err := b.check("b", true); err != nil {
		return err
	}
	if a.Rows != b.Rows || a.Count != b.Count {
		return wrong("a is %d matrices of %d x %d and b %d of %d x %d: want as many, with as many rows", a.Count, a.Rows, a.Cols, b.Count, b.Rows, b.Cols)
	}
	return overlap.Of(b.box("b"), a.box("a"))
}

// vectors are n numbers of each matrix: load or store those of matrix k.
type vectors func(k int, v []float64, store bool)

// numbers are vectors in a slice, which are stored only if they are written.
func numbers[E int32 | float32 | float64](all []E, n int, written bool) vectors {
	return func(k int, v []float64, store bool) {
		for i := range v {
			if at := &all[k*n+i]; !store {
				v[i] = float64(*at)
			} else if written {
				*at = E(v[i])
			}
		}
	}
}

// run computes a call for each matrix, on all cores. The first operand says how many there are.
func run[T cublas.Real](ctx context.Context, c cusolver.Call, v vectors, operands ...operand[T]) error {
	if ctx == nil {
		return wrong("%v takes a context that is not nil", c.Routine)
	}
	a := &operands[0]
	c.M, c.N, c.K = int64(a.Rows), int64(a.Cols), int64(operands[len(operands)-1].Cols)
	if a.none() || operands[len(operands)-1].none() {
		return context.Cause(ctx)
	}
	infos := make([]int32, a.Count)
	_, err := pool.Parallel(ctx, a.Count, func(ctx context.Context, low, high int) error {
		var matrices []lapack.Matrix
		for i := range operands {
			matrices = append(matrices, lapack.New(operands[i].shape()))
		}
		var numbers []float64
		if v != nil {
			numbers = make([]float64, c.N)
		}
		for k := low; k < high; k++ {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			for i := range operands {
				operands[i].load(k, matrices[i])
			}
			if v != nil {
				v(k, numbers, false)
			}
			infos[k] = lapack.Run(&c, matrices, numbers)
			for i := range operands {
				if operands[i].written {
					operands[i].store(k, matrices[i])
				}
			}
			if v != nil {
				v(k, numbers, true)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cusolver.Failures(c.Routine, infos)
}
