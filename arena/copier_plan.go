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

// tile is a part of it: rows of width bytes from byte x of row y on. In its buffer there are no gaps
// between the rows.
type tile struct{ x, y, width, rows uint64 }

func (at tile) bytes() uint64 { return at.width * at.rows }

// piece is one of n parts of a tile, and where it is in the tile's buffer. It may be empty.
func (at tile) piece(i, n uint64) (part tile, offset uint64) {
	if at.rows == 1 {
		// Parts begin where a page of the buffer does, so that no two processors write to the same line of a cache.
		size := (ceilDiv(at.width, n) + pageBytes - 1) &^ (pageBytes - 1)
		from := min(i*size, at.width)
		return tile{x: at.x + from, y: at.y, width: min(size, at.width-from), rows: 1}, from
	}
	size := ceilDiv(at.rows, n)
	from := min(i*size, at.rows)
	return tile{x: at.x, y: at.y + from, width: at.width, rows: min(size, at.rows-from)}, from * at.width
}

const pageBytes = 4096

// plan cuts a copy into chunks, which the device copies, and these into pieces, which processors copy.
type plan struct {
	width, height uint64 // of the copy
	chunks        uint64
	size          uint64 // of a chunk: bytes of a row, or rows
	across        uint64 // chunks that a row has, of a rectangle
	pieces        uint64 // of a chunk
}

// mostPieces is how many processors are at one chunk at most.
const mostPieces = 8

// make cuts a copy in at least four chunks, so that the device copies one while the processors copy another. A device has
// its full rate from some hundred KiB on.
func (p *plan) make(s *transferShape, c *copierConfig) {
	p.width, p.height = s.width, s.height
	chunk := min(max(s.bytes()/8&^(pageBytes-1), 4*c.PieceBytes), c.ChunkBytes)
	p.pieces = min(max(chunk/c.PieceBytes, 1), mostPieces)
	switch {
	case s.height == 1:
		p.size, p.chunks = chunk, ceilDiv(s.width, chunk)
	case s.width > chunk:
		p.size, p.across = chunk, ceilDiv(s.width, chunk)
		p.chunks = p.across * s.height
	default:
		p.size = 1
		if s.devicePitch <= maxPitch {
			p.size = chunk / s.width
		}
		p.chunks = ceilDiv(s.height, p.size)
	}
}

func ceilDiv(a, b uint64) uint64 { return (a + b - 1) / b }

// tile is the part of the copy that a chunk is.
func (p *plan) tile(chunk uint64) tile {
	switch {
	case p.height == 1:
		x := chunk * p.size
		return tile{x: x, width: min(p.size, p.width-x), rows: 1}
	case p.across > 0:
		x := chunk % p.across * p.size
		return tile{x: x, y: chunk / p.across, width: min(p.size, p.width-x), rows: 1}
	}
	y := chunk * p.size
	return tile{y: y, width: p.width, rows: min(p.size, p.height-y)}
}
