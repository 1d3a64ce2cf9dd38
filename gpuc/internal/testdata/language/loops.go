package testlanguage

import "github.com/purecuda/purecuda/gpu"

func entry(x []int32, i int) int64 { return int64(x[uint(i)%uint(len(x))]) }

// Counted has loops that count to a number that is not known when they are compiled.
//
//purecuda:kernel
func Counted(t *gpu.Thread, out []int64, x []int32, bounds [][2]int64, first []int32) {
	i := t.GlobalX()
	if i >= len(bounds) {
		return
	}
	from, to := int(bounds[i][0]), int(bounds[i][1])
	o := out[i*12 : i*12+12]
	n := max(to-from, 0)
	for j := from; j < to; j++ {
		o[0] = o[0]*3 + entry(x, j)
	}
	for j := from; j <= to-1; j += 3 {
		o[1] = o[1]*3 + entry(x, j)
	}
	for j := range to - from {
		if j&1 == 0 {
			continue
		}
		o[2] += entry(x, j) * int64(j)
	}
	for j, v := range x[:i] {
		o[3] += int64(v) * int64(j+1)
	}
	for j := int32(from); int32(to) > j; j += 5 {
		o[4] += int64(j) ^ entry(x, int(uint32(j)%7))
	}
	for j := uint32(i); j < uint32(n); j += 7 {
		o[5] += int64(j) + entry(x, int(j))
	}
	for j := uint64(i); !(j >= uint64(n)); j++ {
		o[6] += entry(x, int(j))
	}
	last := int32(0)
	for j := int(first[i]); j < int(first[i+1]); j++ {
		v := x[j]
		o[7] += int64(v - last)
		last = v
	}
	for j := t.ThreadX(); j < len(x); j += t.BlockDimX() {
		o[8] ^= int64(x[j]) << (j & 31)
	}
	j := from
	for ; j < to; j += 2 {
		o[9] += entry(x, j) - 1
	}
	o[9] += int64(j)
	for j := 0; j+4 <= i; j += 4 {
		o[10] += int64(x[j]) + int64(x[j+1])<<8 + int64(x[j+2])<<16 + int64(x[j+3])<<24
	}
	for j := from; j < to; j++ { // what it counts to changes
		if entry(x, j) == 3 {
			to--
		}
		o[11]++
	}
}

// Boxed has loops in loops: with a line before the outer one, with one before the inner one, and with passes by the
// thousand, or barriers in each.
//
//purecuda:kernel block=8
func Boxed(t *gpu.Thread, out []uint32) {
	s := gpu.Shared[[2][9]uint32](t)
	i := t.ThreadX()
	v := uint32(i)
	//purecuda:unroll 1
	for range 8 {
		for range 8 {
			v = v*0x1001 + 1
		}
	}
	for range 8 {
		//purecuda:unroll 1
		for range 8 {
			v = v*0x1003 + 1
		}
	}
	for a := range 32 {
		for b := range 32 {
			for c := range 32 {
				v = v*0x1005 + uint32(a^b^c)
			}
		}
	}
	s[0][i+1], s[1][i+1] = 0, 0
	s[0][0], s[1][0] = 0, 0 // by each thread: the same
	t.Barrier()
	for d := range 127 {
		if j := d - i; j >= 0 && j < 64 {
			s[d&1][i+1] = s[1-d&1][i]*0x1007 + uint32(j) + v>>9
		}
		t.Barrier()
	}
	out[t.GlobalX()] = v ^ s[0][i+1] ^ s[1][i+1]
}

// Setting is a parameter with tables in it.
type Setting struct {
	Scale int32
	Table [7][3]float32
	Flags [5]bool
	Pairs [4]struct{ A, B uint8 }
}

//go:noinline
func sumOf(w *[40]int32, n int) (s int32) {
	for i := range n {
		s += w[i] * int32(i+1)
	}
	return s
}

// Indexed indexes parameters: it reads some where they are, and copies what it writes or gives away.
//
//purecuda:kernel
func Indexed(t *gpu.Thread, out []int32, x []int32, w, v, u [40]int32, s Setting) {
	i := t.GlobalX()
	if i >= len(x) {
		return
	}
	n := uint(x[i])
	row := s.Table[n%7]
	r := w[n%40] + int32(row[n%3]) + int32(s.Table[(n+1)%7][1])*s.Scale
	if s.Flags[n%5] {
		r += int32(s.Pairs[n%4].B) - int32(s.Pairs[1].A)
	}
	v[n%40] = r
	for j := range v {
		r = r*3 + v[j] ^ w[j]
	}
	p := &w
	if n&1 == 0 {
		p = &v
	}
	out[i] = r + p[(n+3)%40] + sumOf(&u, int(n%40))
}

// Filled is larger than an instruction can load, and so are its arrays.
type Filled struct {
	A [3]float32
	B float32
	C [6]float32
}

// Wide moves and clears arrays and structs of more than 16 bytes.
//
//purecuda:kernel block=32
func Wide(t *gpu.Thread, a [][8]float32, b [][6]uint64, c []Filled, d [][3]float64) {
	s := gpu.Shared[[32][8]float32](t)
	i, j := t.GlobalX(), t.ThreadX()
	s[j] = a[i]
	t.Barrier()
	a[i] = s[31-j]
	var local [12]uint64
	v := b[i]
	for k := range 6 {
		local[(int(v[0]>>60)+k)%12] += v[k]
	}
	b[i] = [6]uint64(local[2:8])
	f := c[i]
	f.C[j%6], f.B = f.A[j%3], 7
	c[i], d[i] = f, [3]float64{d[i][2], 5, d[i][0]}
}

// Totals are what Tally adds up.
type Totals struct{ Sum, Count float32 }

// Tally adds up in a struct, which lasts from pass to pass.
//
//purecuda:kernel
func Tally(t *gpu.Thread, x, out []float32, n int) {
	var all Totals
	var last [2]float32
	for i := range n {
		all.Sum += x[i]
		all.Count++
		last[0], last[1] = last[1]+1, x[i]
	}
	out[0], out[1], out[2], out[3] = all.Sum, all.Count, last[0], last[1]
}
