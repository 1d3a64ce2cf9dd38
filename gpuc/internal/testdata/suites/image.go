package testsuites

import "github.com/purecuda/purecuda/gpu"

// The kernels of this file work on images.

// Sobel finds edges.
//
//purecuda:kernel
func Sobel(t *gpu.Thread, out, in []uint8, w, h int) {
	x, y := t.GlobalX(), t.GlobalY()
	if x < 1 || y < 1 || x >= w-1 || y >= h-1 {
		return
	}
	i := y*w + x
	a, b, c := int(in[i-w-1]), int(in[i-w]), int(in[i-w+1])
	d, f := int(in[i-1]), int(in[i+1])
	g, e, k := int(in[i+w-1]), int(in[i+w]), int(in[i+w+1])
	gx := c + 2*f + k - a - 2*d - g
	gy := g + 2*e + k - a - 2*b - c
	out[i] = uint8(min(max(gx, -gx)+max(gy, -gy), 255))
}

// Median takes the middle one of nine pixels.
//
//purecuda:kernel
func Median(t *gpu.Thread, out, in []uint8, w, h int) {
	x, y := t.GlobalX(), t.GlobalY()
	if x < 1 || y < 1 || x >= w-1 || y >= h-1 {
		return
	}
	var v [9]uint8
	for dy := 0; dy < 3; dy++ {
		for dx := 0; dx < 3; dx++ {
			v[dy*3+dx] = in[(y+dy-1)*w+x+dx-1]
		}
	}
	for i := 0; i < 5; i++ {
		for j := i + 1; j < 9; j++ {
			v[i], v[j] = min(v[i], v[j]), max(v[i], v[j])
		}
	}
	out[y*w+x] = v[4]
}

// Blur weighs 25 pixels; at the border the last one counts more than once.
//
//purecuda:kernel
func Blur(t *gpu.Thread, out, in []float32, w, h int, weights [25]float32) {
	x, y := t.GlobalX(), t.GlobalY()
	if x >= w || y >= h {
		return
	}
	var sum float32
	for dy := -2; dy <= 2; dy++ {
		for dx := -2; dx <= 2; dx++ {
			sum += weights[(dy+2)*5+dx+2] * in[min(max(y+dy, 0), h-1)*w+min(max(x+dx, 0), w-1)]
		}
	}
	out[y*w+x] = sum
}

var cosines = [8][8]float32{
	{0.35355338, 0.35355338, 0.35355338, 0.35355338, 0.35355338, 0.35355338, 0.35355338, 0.35355338},
	{0.49039263, 0.4157348, 0.2777851, 0.09754516, -0.09754516, -0.2777851, -0.4157348, -0.49039263},
	{0.46193975, 0.19134171, -0.19134171, -0.46193975, -0.46193975, -0.19134171, 0.19134171, 0.46193975},
	{0.4157348, -0.09754516, -0.49039263, -0.2777851, 0.2777851, 0.49039263, 0.09754516, -0.4157348},
	{0.35355338, -0.35355338, -0.35355338, 0.35355338, 0.35355338, -0.35355338, -0.35355338, 0.35355338},
	{0.2777851, -0.49039263, 0.09754516, 0.4157348, -0.4157348, -0.09754516, 0.49039263, -0.2777851},
	{0.19134171, -0.46193975, 0.46193975, -0.19134171, -0.19134171, 0.46193975, -0.46193975, 0.19134171},
	{0.09754516, -0.2777851, 0.4157348, -0.49039263, 0.49039263, -0.4157348, 0.2777851, -0.09754516},
}

// DCT transforms squares of eight by eight, four in each block.
//
//purecuda:kernel block=8x8x4
func DCT(t *gpu.Thread, out, in []float32, w int) {
	tile := gpu.Shared[[4][8][8]float32](t)
	rows := gpu.Shared[[4][8][8]float32](t)
	u, v, z := t.ThreadX(), t.ThreadY(), t.ThreadZ()
	at := (t.BlockY()*8+v)*w + (t.BlockX()*4+z)*8 + u
	tile[z][v][u] = in[at]
	t.Barrier()
	var sum float32
	for k := range 8 {
		sum += cosines[u][k] * tile[z][v][k]
	}
	rows[z][v][u] = sum
	t.Barrier()
	sum = 0
	for k := range 8 {
		sum += cosines[v][k] * rows[z][k][u]
	}
	out[at] = sum
}

// RGBA is a pixel.
type RGBA struct{ R, G, B, A uint8 }

// YUV takes the brightness and the colours of pixels apart.
//
//purecuda:kernel
func YUV(t *gpu.Thread, y, u, v []uint8, pixels []RGBA) {
	for i := t.GlobalX(); i < len(pixels); i += t.GlobalDimX() {
		p := pixels[i]
		r, g, b := int32(p.R), int32(p.G), int32(p.B)
		y[i] = uint8((66*r+129*g+25*b+128)>>8 + 16)
		u[i] = uint8((-38*r-74*g+112*b+128)>>8 + 128)
		v[i] = uint8((112*r-94*g-18*b+128)>>8 + 128)
	}
}

// Permute moves the channels of images from the first place to the last.
//
//purecuda:kernel
func Permute(t *gpu.Thread, out, in []float32, channels, height, width int) {
	for i := t.GlobalX(); i < len(out); i += t.GlobalDimX() {
		c := i % channels
		x := i / channels % width
		y := i / channels / width % height
		n := i / channels / width / height
		out[i] = in[((n*channels+c)*height+y)*width+x]
	}
}
