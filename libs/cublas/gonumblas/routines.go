package gonumblas

import (
	"context"

	"gonum.org/v1/gonum/blas"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// host is a matrix in the memory of the host, as BLAS has it.
type host[T cublas.Real] struct {
	data       []T
	rows, cols int
	stride     int
}

// valid tells whether it can be copied. What cannot goes to gonum, which panics in its own words.
func (m host[T]) valid() bool {
	return m.rows > 0 && m.cols > 0 && m.stride >= m.cols && len(m.data) >= (m.rows-1)*m.stride+m.cols
}

// of is the matrix with rows and columns after the operation.
func of[T cublas.Real](t blas.Transpose, rows, cols int, data []T, stride int) host[T] {
	if t != blas.NoTrans {
		rows, cols = cols, rows
	}
	return host[T]{data, rows, cols, stride}
}

// known tells whether an operation is one.
func known(t blas.Transpose) bool { return t == blas.NoTrans || t == blas.Trans || t == blas.ConjTrans }

// upload copies it to the device, without gaps.
func (m host[T]) upload(w *worker) (cublas.Matrix[T], error) {
	ref, err := runtime.Alloc[T](w.s, m.rows*m.cols)
	if err != nil {
		return cublas.Matrix[T]{}, err
	}
	if err := runtime.Upload2D(context.Background(), w.s, ref, m.cols, m.data, m.stride, m.cols, m.rows); err != nil {
		ref.Close()
		return cublas.Matrix[T]{}, err
	}
	return cublas.Dense(ref, m.rows, m.cols), nil
}

// operand is upload of what stands in a formula after an operation.
func (m host[T]) operand(w *worker, t blas.Transpose) (cublas.Matrix[T], error) {
	d, err := m.upload(w)
	if t != blas.NoTrans {
		d = d.T()
	}
	return d, err
}

// download writes the columns from to to of each row i. Nothing is written before all has arrived.
func (m host[T]) download(w *worker, d cublas.Matrix[T], part func(i int) (from, to int)) error {
	all, err := runtime.DownloadNew(context.Background(), w.s, d.Ref)
	if err != nil {
		return err
	}
	for i := range m.rows {
		from, to := part(i)
		copy(m.data[i*m.stride+from:i*m.stride+to], all[i*m.cols+from:i*m.cols+to])
	}
	return nil
}

// whole is the part of a row that is all of it.
func (m host[T]) whole(int) (from, to int) { return 0, m.cols }

// gemm is Sgemm and Dgemm.
func gemm[T cublas.Real](b *BLAS, tA, tB blas.Transpose, m, n, k int, alpha T, a []T, lda int, bs []T, ldb int, beta T, c []T, ldc int) bool {
	x, y, z := of(tA, m, k, a, lda), of(tB, k, n, bs, ldb), host[T]{c, m, n, ldc}
	if !x.valid() || !y.valid() || !z.valid() || !known(tA) || !known(tB) {
		return false
	}
	return b.try(m, n, k, func(w *worker) error {
		left, err := x.operand(w, tA)
		if err != nil {
			return err
		}
		defer left.Ref.Close()
		right, err := y.operand(w, tB)
		if err != nil {
			return err
		}
		defer right.Ref.Close()
		result, err := z.result(w, beta)
		if err != nil {
			return err
		}
		defer result.Ref.Close()
		if err := cublas.Gemm(w.h, float64(alpha), left, right, float64(beta), result); err != nil {
			return err
		}
		return z.download(w, result, z.whole)
	})
}

// result is memory for a result, which needs what is there only if beta is not 0.
func (m host[T]) result(w *worker, beta T) (cublas.Matrix[T], error) {
	if beta != 0 {
		return m.upload(w)
	}
	ref, err := runtime.Alloc[T](w.s, m.rows*m.cols)
	return cublas.Dense(ref, m.rows, m.cols), err
}

func fillOf(ul blas.Uplo) (fill cublas.Fill, ok bool) {
	fill, ok = map[blas.Uplo]cublas.Fill{blas.Lower: cublas.Lower, blas.Upper: cublas.Upper}[ul]
	return fill, ok
}

// syrk is Ssyrk and Dsyrk.
func syrk[T cublas.Real](b *BLAS, ul blas.Uplo, t blas.Transpose, n, k int, alpha T, a []T, lda int, beta T, c []T, ldc int) bool {
	x, z := of(t, n, k, a, lda), host[T]{c, n, n, ldc}
	fill, ok := fillOf(ul)
	if !x.valid() || !z.valid() || !known(t) || !ok {
		return false
	}
	return b.try(n, n, k, func(w *worker) error {
		left, err := x.operand(w, t)
		if err != nil {
			return err
		}
		defer left.Ref.Close()
		result, err := z.result(w, beta)
		if err != nil {
			return err
		}
		defer result.Ref.Close()
		if err := cublas.Syrk(w.h, fill, float64(alpha), left, float64(beta), result); err != nil {
			return err
		}
		return z.download(w, result, func(i int) (from, to int) {
			if fill == cublas.Lower {
				return 0, i + 1
			}
			return i, n
		})
	})
}

// trsm is Strsm and Dtrsm.
func trsm[T cublas.Real](b *BLAS, s blas.Side, ul blas.Uplo, t blas.Transpose, d blas.Diag, m, n int, alpha T, a []T, lda int, bs []T, ldb int) bool {
	side, ok := map[blas.Side]cublas.Side{blas.Left: cublas.Left, blas.Right: cublas.Right}[s]
	diag, ok2 := map[blas.Diag]cublas.Diag{blas.NonUnit: cublas.NonUnit, blas.Unit: cublas.Unit}[d]
	fill, ok3 := fillOf(ul)
	order := m
	if side == cublas.Right {
		order = n
	}
	x, z := host[T]{a, order, order, lda}, host[T]{bs, m, n, ldb}
	if !x.valid() || !z.valid() || !known(t) || !ok || !ok2 || !ok3 {
		return false
	}
	return b.try(m, n, order, func(w *worker) error {
		left, err := x.operand(w, t)
		if err != nil {
			return err
		}
		defer left.Ref.Close()
		if t != blas.NoTrans {
			fill = 1 - fill // of the transposed matrix
		}
		result, err := z.upload(w)
		if err != nil {
			return err
		}
		defer result.Ref.Close()
		if err := cublas.Trsm(w.h, side, fill, diag, float64(alpha), left, result); err != nil {
			return err
		}
		return z.download(w, result, z.whole)
	})
}
