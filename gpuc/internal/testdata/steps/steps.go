// Package steps has the kernels of docs/matrix-product.md: the same product of matrices, each time closer to what the hardware can do.
package steps

import "github.com/purecuda/purecuda/gpu"

// Loop has a thread for each element of C.
//
//purecuda:kernel block=16x16
func Loop(t *gpu.Thread, a, b, c []gpu.BFloat16, n, k int) {
	row, col := t.GlobalY(), t.GlobalX()
	sum := float32(0)
	for i := range k {
		sum += a[row*k+i].Float32() * b[col*k+i].Float32()
	}
	c[row*n+col] = gpu.ToBFloat16(sum)
}

// Tiles has a block for 16 x 16 elements of C. The block loads what its threads share once.
//
//purecuda:kernel block=16x16
func Tiles(t *gpu.Thread, a, b, c []gpu.BFloat16, n, k int) {
	tileA, tileB := gpu.Shared[[16][17]float32](t), gpu.Shared[[16][17]float32](t) // with 17, a column lies in all banks
	row, col, x, y := t.BlockY()*16, t.BlockX()*16, t.ThreadX(), t.ThreadY()
	sum := float32(0)
	for at := 0; at < k; at += 16 {
		tileA[y][x] = a[(row+y)*k+at+x].Float32()
		tileB[y][x] = b[(col+y)*k+at+x].Float32()
		t.Barrier()
		for i := range 16 {
			sum += tileA[y][i] * tileB[x][i]
		}
		t.Barrier()
	}
	c[(row+y)*n+col+x] = gpu.ToBFloat16(sum)
}

// stage is 64 rows of A, and 64 of B after them. A row has 32 elements in 4 chunks of 16 bytes. With 5, eight rows lie in all banks.
type stage [128 * 5]gpu.Uint4

// sums are those of a warp: 32 x 32 elements of C.
type sums [2][4]gpu.FragmentC[float32]

// Fragments has a block for 64 x 64 elements of C, and a warp for 32 x 32 of them, on tensor cores.
//
//purecuda:kernel block=128 checks=off
func Fragments(t *gpu.Thread, a, b []gpu.Uint4, c []gpu.BFloat16, n, k int) {
	sh := gpu.Shared[stage](t)
	var acc sums
	for at := 0; at < k; at += 32 {
		for i := 0; i < 64; i += 32 {
			row, chunk := t.ThreadX()/4+i, t.ThreadX()%4
			sh[row*5+chunk] = a[(t.BlockY()*64+row)*(k/8)+at/8+chunk]
			sh[(64+row)*5+chunk] = b[(t.BlockX()*64+row)*(k/8)+at/8+chunk]
		}
		t.Barrier()
		multiply(t, sh, &acc)
		t.Barrier()
	}
	store(t, &acc, c, n)
}

// multiply adds the products of a stage.
func multiply(t *gpu.Thread, sh *stage, acc *sums) {
	lane, warpRow, warpCol := t.Lane(), t.Warp()/2*32, t.Warp()%2*32
	for s := 0; s < 4; s += 2 { // two chunks at a time
		var b [2][2]gpu.FragmentB[gpu.BFloat16]
		for j := range 2 {
			b[j] = gpu.LoadMatrixB[gpu.BFloat16](t, &sh[(64+warpCol+j*16+lane/16*8+lane%8)*5+s+lane/8%2])
		}
		for i := range 2 {
			a := gpu.LoadMatrixA[gpu.BFloat16](t, &sh[(warpRow+i*16+lane%16)*5+s+lane/16])
			for j := range 4 {
				gpu.MMA(t, &acc[i][j], a, b[j/2][j%2])
			}
		}
	}
}

// store rounds the sums of a warp.
func store(t *gpu.Thread, acc *sums, c []gpu.BFloat16, n int) {
	for i := range 2 {
		for j := range 4 {
			for e, sum := range acc[i][j] {
				row, col := acc[i][j].Place(t.Lane(), e)
				row, col = t.BlockY()*64+t.Warp()/2*32+i*16+row, t.BlockX()*64+t.Warp()%2*32+j*8+col
				c[row*n+col] = gpu.ToBFloat16(sum)
			}
		}
	}
}

// Pipeline is Fragments, with copies of two stages under way while a third is multiplied.
//
//purecuda:kernel block=128 checks=off
func Pipeline(t *gpu.Thread, a, b []gpu.Uint4, c []gpu.BFloat16, n, k int) {
	sh := gpu.Shared[[3]stage](t)
	var acc sums
	begin(t, &sh[0], a, b, 0, k)
	begin(t, &sh[1], a, b, 32, k)
	for at := 0; at < k; at += 32 {
		gpu.CopyWait(t, 1) // the stage at is there, for this thread
		t.Barrier()        // and for all, who are done with the stage before
		begin(t, &sh[(at/32+2)%3], a, b, at+64, k)
		multiply(t, &sh[at/32%3], &acc)
	}
	store(t, &acc, c, n)
}

// begin begins to copy a stage. After the last one it copies nothing, and the group is empty.
func begin(t *gpu.Thread, sh *stage, a, b []gpu.Uint4, at, k int) {
	if at < k {
		for i := 0; i < 64; i += 32 {
			row, chunk := t.ThreadX()/4+i, t.ThreadX()%4
			gpu.CopyAsync(t, &sh[row*5+chunk], &a[(t.BlockY()*64+row)*(k/8)+at/8+chunk])
			gpu.CopyAsync(t, &sh[(64+row)*5+chunk], &b[(t.BlockX()*64+row)*(k/8)+at/8+chunk])
		}
	}
	gpu.CopyCommit(t)
}
