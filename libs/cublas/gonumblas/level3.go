package gonumblas

import "gonum.org/v1/gonum/blas"

var (
	_ blas.Float32 = (*BLAS)(nil)
	_ blas.Float64 = (*BLAS)(nil)
)

// Sgemm implements [blas.Float32].
func (b *BLAS) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, bs []float32, ldb int, beta float32, c []float32, ldc int) {
	if !gemm(b, tA, tB, m, n, k, alpha, a, lda, bs, ldb, beta, c, ldc) {
		b.Implementation.Sgemm(tA, tB, m, n, k, alpha, a, lda, bs, ldb, beta, c, ldc)
	}
}

// Dgemm implements [blas.Float64].
func (b *BLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, bs []float64, ldb int, beta float64, c []float64, ldc int) {
	if !gemm(b, tA, tB, m, n, k, alpha, a, lda, bs, ldb, beta, c, ldc) {
		b.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, bs, ldb, beta, c, ldc)
	}
}

// Ssyrk implements [blas.Float32].
func (b *BLAS) Ssyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32, ldc int) {
	if !syrk(b, ul, t, n, k, alpha, a, lda, beta, c, ldc) {
		b.Implementation.Ssyrk(ul, t, n, k, alpha, a, lda, beta, c, ldc)
	}
}

// Dsyrk implements [blas.Float64].
func (b *BLAS) Dsyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64, c []float64, ldc int) {
	if !syrk(b, ul, t, n, k, alpha, a, lda, beta, c, ldc) {
		b.Implementation.Dsyrk(ul, t, n, k, alpha, a, lda, beta, c, ldc)
	}
}

// Strsm implements [blas.Float32].
func (b *BLAS) Strsm(s blas.Side, ul blas.Uplo, t blas.Transpose, d blas.Diag, m, n int, alpha float32, a []float32, lda int, bs []float32, ldb int) {
	if !trsm(b, s, ul, t, d, m, n, alpha, a, lda, bs, ldb) {
		b.Implementation.Strsm(s, ul, t, d, m, n, alpha, a, lda, bs, ldb)
	}
}

// Dtrsm implements [blas.Float64].
func (b *BLAS) Dtrsm(s blas.Side, ul blas.Uplo, t blas.Transpose, d blas.Diag, m, n int, alpha float64, a []float64, lda int, bs []float64, ldb int) {
	if !trsm(b, s, ul, t, d, m, n, alpha, a, lda, bs, ldb) {
		b.Implementation.Dtrsm(s, ul, t, d, m, n, alpha, a, lda, bs, ldb)
	}
}
