package arena

import "github.com/purecuda/purecuda/driver"

// transferShape is what a copy between host and device moves: rows of bytes at a distance on
// each side. One row is a copy without gaps.
type transferShape struct {
	up                     bool // host to device
	stream                 driver.Stream
	device                 driver.DevicePtr
	width, height          uint64
	devicePitch, hostPitch uint64
}

func (s *transferShape) bytes() uint64 { return s.width * s.height }

// tile is a part of it: rows of width bytes from byte x of row y on.
type tile struct{ x, y, width, rows uint64 }

func (at tile) bytes() uint64 { return at.width * at.rows }

// plan cuts a copy into pieces. A copy begins with small ones, which one goroutine moves at
// the rate of its caches while the workers awake, and goes on with larger ones, between
// which the device pauses less.
type plan struct {
	width, height uint64 // of the copy
	steps         [3]planStep
}

// planStep is a number of pieces of the same size. The size of those of a rectangle is in
// rows of the copy, unless a piece is less than a row.
type planStep struct {
	begin  uint64 // where it begins: byte of a single row, or row
	pieces uint64
	size   uint64 // of a piece: bytes of a row, or rows
	across uint64 // pieces that a row has, of a rectangle
}

func (p *plan) make(s *transferShape, c *CopierConfig) {
	p.width, p.height = s.width, s.height
	largest := c.ChunkBytes
	if s.bytes() < smoothBytes {
		largest = max(largest/2, c.PieceBytes)
	}
	if s.height > 1 {
		p.steps[2] = cutRows(s, min(4*c.PieceBytes, largest))
		return
	}
	begin := uint64(0)
	for i, size := range [...]uint64{c.PieceBytes, min(2*c.PieceBytes, largest), largest} {
		step := planStep{begin: begin, size: size, pieces: ceilDiv(s.width-begin, size)}
		if i < 2 {
			step.pieces = min(step.pieces, rampPieces)
		}
		p.steps[i] = step
		begin = min(begin+step.pieces*size, s.width)
	}
}

const (
	rampPieces  = 8        // of each size that is not the largest
	smoothBytes = 64 << 20 // shorter copies have pieces of half the size, so that all hands end together
)

// cutRows cuts a rectangle into pieces of whole rows, or into parts of rows.
func cutRows(s *transferShape, piece uint64) planStep {
	if s.width > piece {
		across := ceilDiv(s.width, piece)
		return planStep{size: piece, across: across, pieces: across * s.height}
	}
	rows := uint64(1)
	if s.devicePitch <= maxPitch {
		rows = piece / s.width
	}
	return planStep{size: rows, pieces: ceilDiv(s.height, rows)}
}

func ceilDiv(a, b uint64) uint64 { return (a + b - 1) / b }

func (p *plan) pieces() (n uint64) {
	for _, step := range p.steps {
		n += step.pieces
	}
	return n
}

// tile is the part of the copy that a piece is.
func (p *plan) tile(piece uint64) tile {
	step := &p.steps[2]
	for i := range p.steps {
		if step = &p.steps[i]; piece < step.pieces {
			break
		}
		piece -= step.pieces
	}
	switch {
	case p.height == 1:
		x := step.begin + piece*step.size
		return tile{x: x, width: min(step.size, p.width-x), rows: 1}
	case step.across > 0:
		x := piece % step.across * step.size
		return tile{x: x, y: piece / step.across, width: min(step.size, p.width-x), rows: 1}
	}
	y := piece * step.size
	return tile{y: y, width: p.width, rows: min(step.size, p.height-y)}
}
